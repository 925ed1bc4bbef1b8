"""Rows of what is done before the first answer: compiling, importing, the command from its start.

All are measured in fresh processes; a machine that never ran pagelink is one whose folder of
compiled kernels is empty.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from pagelink.bench.runs import environment, measured
from pagelink.bench.speed import process
from pagelink.bench.speed.figures import Figure, Goal, median
from pagelink.bench.speed.rows import Sizes, load_workload
from pagelink.datasets.folders import find_data
from pagelink.errors import PageLinkError
from pagelink.runtime.prebuilt import SWITCH
from pagelink.tables.load import save_graph


def cold(sizes: Sizes, seed: int, name: str) -> Iterator[Figure]:
    """CPU seconds of compiling until the first explanation, of kernels as they come and of none."""
    if not sizes.tiny:
        find_data(name)
    ways = {"kernels as they come": None, "all from their sources": "0"}
    for words, switch in list(ways.items())[: 1 if sizes.tiny else 2]:
        samples: dict[str, list[float]] = {"cold, cpu_s": [], "warm, cpu_s": []}
        for _ in range(sizes.first_repeats):
            with TemporaryDirectory() as folder:
                for each in samples.values():
                    values = {"NUMBA_CACHE_DIR": folder, SWITCH: switch}
                    found = measured(process.first_with, values, name, seed, sizes.tiny)
                    each.append(found["cpu_s"])
        used = [cold - warm for cold, warm in zip(*samples.values(), strict=True)]
        yield Figure(
            "cold", f"{name}: compiling on first use, {words}", median(used), "s",
            goal=Goal(5.0) if switch is None else None,
            how="first explanation of a fresh process, as in the row first, with an empty folder "
            f"of compiled kernels, less the same once they are there; median of {len(used)}",
            samples=samples,
        )  # fmt: skip


def imports(sizes: Sizes) -> Iterator[Figure]:
    """CPU seconds of importing pagelink over what it is imported with."""
    runs = [measured(process.imports) for _ in range(sizes.first_repeats)]
    samples = {key: [each[key] for each in runs] for key in runs[0]}
    for key, words, goal in (
        ("pagelink", "import pagelink, over torch", Goal(0.3)),
        ("PaGELink", "import PaGELink, over torch and torch_geometric", Goal(0.3)),
        ("torch_geometric", "import torch_geometric, over torch", None),
    ):
        yield Figure(
            "import", words, median(samples[key]), "s", goal=goal,
            how=f"one after the other in a fresh process; median of {len(runs)}", samples=samples,
        )  # fmt: skip


def command(sizes: Sizes, seed: int, name: str) -> Iterator[Figure]:
    """CPU seconds of `pagelink explain` for one link, from start to answer: first, and again."""
    with TemporaryDirectory() as folder:
        model = str(Path(folder) / "model.pt")
        workload = load_workload(name, seed, sizes.tiny)
        graph = str(Path(folder) / "tables")
        if sizes.tiny:
            save_graph(workload.data, graph)
        else:
            graph = str(find_data(name))
        link_type, (src, dst) = ",".join(workload.link_type), workload.pairs[0]
        _cpu_seconds(
            "train", graph, "--link", link_type, "--out", model, "--model", "sage", "--epochs", "1",
            "--seed", str(seed),
        )  # fmt: skip
        ask = (
            "explain", graph, "--model", model, "--src", f"id:{src}", "--dst", f"id:{dst}",
            "--rank-only", "--seed", str(seed),
        )  # fmt: skip
        if not sizes.tiny:
            _cpu_seconds(*ask)  # compiles the kernels, if that was never done
        first, again = [], []
        for _ in range(sizes.first_repeats):
            Path(f"{model}.proof").unlink(missing_ok=True)
            first.append(_cpu_seconds(*ask))
            again.append(_cpu_seconds(*ask))
    for words, seconds in (("", first), (", again with the same model", again)):
        yield Figure(
            "command", f"{name}: pagelink explain, from start to answer{words}", median(seconds),
            "s", goal=Goal(5.0), how="one link by a two-layer SAGE, one torch thread, kernels "
            f"compiled before; user and system time, median of {len(seconds)}",
            samples={"cpu_s": seconds},
        )  # fmt: skip


def _cpu_seconds(*arguments: str) -> float:
    """Run a command of pagelink; return the CPU time of its process.

    Raises:
        PageLinkError: it failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "pagelink", *arguments], capture_output=True, text=True,
        env={**environment(), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise PageLinkError(f"pagelink {arguments[0]} failed: {done.stderr.strip()[-300:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
