"""A notebook served by Voila: a kernel of its own runs it for every page that is opened."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import urlopen

import nbformat

ROOT = Path(__file__).parents[2]
SECONDS = 90


class Voila:
    """A Voila process on a port of its own, which shows one cell.

    Args:
        code: the cell; it may import from this folder as `support`.
    """

    def __init__(self, code: str) -> None:
        self._folder = TemporaryDirectory()
        folder = Path(self._folder.name)
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(code)],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, folder / "cell.ipynb")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self.log = folder / "log"
        # Nothing of the person's own settings is read or written.
        own = {
            name: str(folder / name)
            for name in (
                "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR",
            )
        }  # fmt: skip
        paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
        own["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "voila", str(folder / "cell.ipynb"), "--no-browser",
                    "--Voila.ip=127.0.0.1", f"--port={port}",
                ],
                stdout=log, stderr=log, env={**os.environ, **own},
            )  # fmt: skip
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            try:
                # A page would start a kernel; this only shows that somebody listens.
                urlopen(f"{self.address}/voila/static/none", timeout=5).close()
            except URLError as error:
                if getattr(error, "code", None) is None:
                    time.sleep(0.2)
                    continue
                error.close()  # type: ignore[attr-defined]
            return
        log = self.log.read_text()
        self.close()
        raise AssertionError(f"Voila did not start: {log}")

    def close(self) -> None:
        """End it; it ends its kernels."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Voila:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
