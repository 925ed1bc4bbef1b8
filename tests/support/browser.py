"""A headless Chromium for tests of pages, and servers for it to look at."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Return the browser: PAGELINK_CHROMIUM, else the first one on the path."""
    return os.environ.get("PAGELINK_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


expect.set_options(timeout=20_000)  # a busy machine takes its time


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser; skip the test where there is none."""
    found = find_chromium()
    if found is None:
        pytest.skip(
            "no Chromium: install the Debian package chromium, or set PAGELINK_CHROMIUM to one"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield browser
        browser.close()


class Served:
    """A `pagelink ... serve` process on a port of its own.

    Args:
        arguments: those of pagelink, without `--port`.
        port: 0 takes any free one.
        script: a script of this folder, to be run instead of pagelink.
        open_files: how many files and connections it may have open, if not as many as usual.
    """

    def __init__(
        self, *arguments: str | Path, port: int = 0, script: str | None = None,
        open_files: int | None = None,
    ) -> None:  # fmt: skip
        self._errors = TemporaryDirectory()
        self.log = Path(self._errors.name) / "stderr"
        what = ["-m", "pagelink"] if script is None else [str(Path(__file__).parent / script)]
        bounded = ["sh", "-c", f'ulimit -n {open_files}; exec "$@"', "sh"] if open_files else []
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*bounded, sys.executable, *what, *map(str, arguments), "--port", str(port)],
                stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "NO_COLOR": "1"},
            )  # fmt: skip
        self.address = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = re.search(r"http://\S+", line)
            if found:
                self.address = found.group().rstrip("/.")
                return
        raise AssertionError(f"the server did not start: {self.log.read_text()}")

    @property
    def port(self) -> int:
        """The port it serves on."""
        return int(self.address.split("://")[1].split("/")[0].rsplit(":", 1)[1])

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self._errors.cleanup()
