"""Many links on a Ray cluster where workers, a node and the driver are killed: the same rows?

`LocalCluster` is a Ray cluster of several nodes on this machine, of which anything can be killed.
"""

from __future__ import annotations

import math
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console

from pagelink.bench.runs import environment
from pagelink.datasets.useritemattr import train_useritemattr
from pagelink.engine import read_parts
from pagelink.errors import EngineError
from pagelink.models.checkpoint import save_checkpoint, save_message_store
from pagelink.runtime.files import temporary_folder
from pagelink.store.writer import save_store

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

    Args:
        head_cores: of the head; 0 as is usual on Kubernetes.
    """

    def __init__(self, head_cores: int = 1) -> None:
        self._head_cores = head_cores
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._open = ExitStack()
        self.folder = self._open.enter_context(temporary_folder())
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
                str(self.folder / "ray"), "--num-cpus", str(self._head_cores),
            )  # fmt: skip
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failed: object) -> None:
        with self._open:
            for node in range(len(self._nodes)):
                self.kill_node(node)
            wait_until(lambda: not self.processes("ray"), 60)

    def add_node(self, *options: str) -> int:
        """Start one more node, with more options of `ray start`, and return its number."""
        self._start("--address", self.address, "--num-cpus", "1", *options)
        return len(self._nodes) - 1

    def _start(self, *options: str) -> None:
        words = ["start", "--block", "--object-store-memory", "80000000"]
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


USERS, ITEMS, ATTRS = 400, 400, 100
SECONDS_BETWEEN_LOOKS = 2.0
STARTS_BETWEEN_KILLS = 1.5
"""Killed faster than they start, workers would never come to anything."""


def compare_disturbed(folder: Path, links: int, console: Console, seed: int = 0) -> dict[str, Any]:
    """Explain links undisturbed and on the cluster, and compare the rows.

    Args:
        folder: where the store, the model, the links and both results lie.
        links: number of links.
        console: where it says how far it is.
        seed: of the graph, the model, the links, and of what is killed when.
    """
    _prepare(folder, links, seed)
    calm, wild = folder / "calm", folder / "wild"
    started = time.perf_counter()
    subprocess.run(_command(folder, calm, "--engine", "processes"), check=True, env=environment())
    undisturbed = time.perf_counter() - started
    console.print(f"Undisturbed: {links:,} links in {undisturbed:.0f} s.")
    started = time.perf_counter()
    killed = _disturbed(folder, wild, console, seed)
    seconds = time.perf_counter() - started
    one, other = (read_parts(out).drop_columns(["seconds"]) for out in (calm, wild))
    return {
        "links": links,
        "rows": one.num_rows,
        **_compared(one, other),
        "undisturbed_seconds": undisturbed,
        "seconds": seconds,
        **killed,
    }


def _prepare(folder: Path, links: int, seed: int) -> None:
    """Make the graph, train the model, and write store, checkpoint and links; once."""
    table = folder / "links.parquet"
    if table.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    demo = train_useritemattr(
        seed, num_users=USERS, num_items=ITEMS, num_attrs=ATTRS, num_has=4 * ITEMS,
        num_buys=12 * USERS,
    )  # fmt: skip
    file = save_checkpoint(
        folder / "model.pt", demo.model, demo.data, demo.link_type, demo.split, demo.report,
        demo.settings,
    )  # fmt: skip
    save_message_store(save_store(demo.data, folder / "whole"), file, folder / "store")
    rng = np.random.default_rng((seed, 5))
    pairs = {"src": rng.integers(0, USERS, links), "dst": rng.integers(0, ITEMS, links)}
    texts = {name: pa.array([f"id:{i}" for i in ids]) for name, ids in pairs.items()}
    pa.parquet.write_table(pa.table(texts), table)


def _command(folder: Path, out: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "pagelink", "explain", str(folder / "store"), "--model",
        str(folder / "model.pt"), "--links", str(folder / "links.parquet"), "--out", str(out),
        "--rank-only", *more,
    ]  # fmt: skip


def _disturbed(folder: Path, out: Path, console: Console, seed: int) -> dict[str, int]:
    """Run the job on two nodes: kill workers all along, at a third a node, at half the driver."""
    draw = random.Random(seed)
    total = _parts(folder / "calm")
    killed = {"workers_killed": 0, "nodes_killed": 0, "drivers_killed": 0}
    with LocalCluster() as cluster:
        node = cluster.add_node()
        command = _command(folder, out, "--engine", "ray", "--address", cluster.address)
        began = last_kill = time.monotonic()
        driver = subprocess.Popen(command, env=cluster.env, stdout=subprocess.DEVNULL)
        start: float | None = None  # seconds from the start of a driver to its first part
        while driver.poll() is None:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            now, done = time.monotonic(), _parts(out)
            if start is None and done:
                start = now - began
            if start is None or now - last_kill < STARTS_BETWEEN_KILLS * start:
                continue
            last_kill = now
            if done > total / 3 and not killed["nodes_killed"]:
                cluster.kill_node(node)
                node = cluster.add_node()  # and another one comes, as clusters do
                killed["nodes_killed"] += 1
            elif done > total / 2 and not killed["drivers_killed"]:
                driver.kill()
                driver.wait()
                driver = subprocess.Popen(command, env=cluster.env, stdout=subprocess.DEVNULL)
                killed["drivers_killed"] += 1
            elif workers := sorted(cluster.processes("ray::Worker")):
                os.kill(draw.choice(workers), signal.SIGKILL)
                killed["workers_killed"] += 1
            console.print(f"{done} of {total} parts; {killed}", markup=False)
    return killed


def _compared(one: pa.Table, other: pa.Table) -> dict[str, Any]:
    """Compare rows: all but numbers exactly, and numbers up to how a sum is rounded.

    Libraries add in another order where an array happens to lie otherwise in memory.
    """
    if one.num_rows != other.num_rows:
        return {"same_rows": False, "rows_rounded_otherwise": None}
    rows = zip(one.to_pylist(), other.to_pylist(), strict=True)
    differing = [(list(a.values()), list(b.values())) for a, b in rows if a != b]
    same = all(_near(a, b) for a, b in differing)
    return {"same_rows": same, "rows_rounded_otherwise": len(differing)}


def _near(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return all(map(_near, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5)
    return bool(a == b)


def _parts(out: Path) -> int:
    return len(list(out.glob("part-*.parquet")))
