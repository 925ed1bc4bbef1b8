"""A Ray cluster of several nodes on this machine, of which anything can be killed."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pagelink.errors import EngineError

WAIT = 180.0


def wait_until(is_so: Callable[[], bool], seconds: float = WAIT) -> None:
    """Wait until something is so.

    Raises:
        EngineError: it does not become so in time.
    """
    limit = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > limit:
            raise EngineError("Waited in vain for the cluster.")
        time.sleep(0.1)


class LocalCluster:
    """Nodes of one core each, started as on any other machine, with a token of their own.

    Use it in a `with` block, which leaves nothing running.
    """

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.folder = Path(tempfile.mkdtemp(prefix="pl-", dir="/tmp"))  # sockets need short names
        root = str(Path(__file__).parents[2])
        self.env = {
            **os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16),
            "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join([root, *filter(None, sys.path)]),
        }  # fmt: skip
        self._nodes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """Where drivers reach it."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> LocalCluster:
        try:
            self._start(
                "--head", "--port", str(self._port), "--include-dashboard=false", "--temp-dir",
                str(self.folder / "ray"),
            )  # fmt: skip
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failed: object) -> None:
        for node in range(len(self._nodes)):
            self.kill_node(node)
        wait_until(lambda: not self.processes("ray"), 60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def add_node(self) -> int:
        """Start one more node, and return its number."""
        self._start("--address", self.address)
        return len(self._nodes) - 1

    def _start(self, *options: str) -> None:
        words = ["start", "--block", "--num-cpus", "1", "--object-store-memory", "80000000"]
        with (self.folder / f"node-{len(self._nodes)}.log").open("wb") as log:
            node = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", *words, *options],
                env=self.env, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._nodes.append(node)
        wait_until(lambda: node.pid in self.processes("/raylet/raylet ").values())

    def processes(self, word: str) -> dict[int, int]:
        """Return the processes of this cluster of that name, and their parents."""
        listed = subprocess.run(
            ["ps", "-eww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        )
        lines = [line.split(None, 2) for line in listed.stdout.splitlines()]
        raylets = {
            pid
            for pid, _, words in lines
            if "/raylet/raylet " in words and str(self.folder) in words
        }
        return {
            int(pid): int(parent)
            for pid, parent, words in lines
            if word in words and (parent in raylets or pid in raylets)
        }

    def kill_node(self, node: int) -> None:
        """Pull the plug of a node; once is enough."""
        if self._nodes[node].poll() is None:
            for raylet, parent in self.processes("/raylet/raylet ").items():
                if parent == self._nodes[node].pid:
                    os.kill(raylet, signal.SIGKILL)
            os.killpg(self._nodes[node].pid, signal.SIGKILL)
            self._nodes[node].wait()
