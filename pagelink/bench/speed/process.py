"""Rows that need a fresh process: peak memory, and the first explanation.

`python -m pagelink.bench.speed.process` is such a process; it prints what it measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pagelink.bench.runs import measured

if TYPE_CHECKING:
    from pagelink.bench.speed.rows import Links
    from pagelink.explain.explainer import PaGELink


GIGABYTE = 10**9
CANDIDATES = 1_000
HEAVIEST = 32
"""So many links with large computation graphs are taken, of so many candidates."""
_MODULE = "pagelink.bench.speed.process"
_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in what `ru_maxrss` counts by."""


def peak_memory(dataset: str, links: int, seed: int, tiny: bool = False) -> dict[str, float]:
    """Stream explanations of so many links in a fresh process; return its peak memory in bytes."""
    return _fresh("memory", dataset, links, seed, tiny)


def first_explanation(dataset: str, seed: int, tiny: bool = False) -> dict[str, float]:
    """Seconds of a fresh process, from `import torch` being done to the first explanation."""
    return _fresh("first", dataset, 1, seed, tiny)


def _fresh(what: str, dataset: str, links: int, seed: int, tiny: bool) -> dict[str, float]:
    found: dict[str, float] = measured(_MODULE, what, dataset, links, seed, *["--tiny"] * tiny)
    return found


def _memory(dataset: str, links: int, seed: int, tiny: bool) -> Iterator[tuple[str, float]]:
    import torch

    from pagelink.bench.speed.rows import explain_all, load_workload
    from pagelink.settings import Settings

    torch.set_num_threads(1)
    workload = load_workload(dataset, seed, tiny)
    explainer = workload.explainer(Settings(), seed)
    heaviest = _heaviest(explainer, workload.pairs[:CANDIDATES], min(HEAVIEST, links // 3))
    between = workload.links(links - 2 * len(heaviest))
    yield "before", _peak()
    yield "with paths", explain_all(explainer, [*heaviest, *between, *heaviest])
    yield "peak", _peak()


def _heaviest(explainer: PaGELink, links: Links, count: int) -> Links:
    """The links whose computation graphs are the largest.

    They come first and last: so the peak does not depend on which links were drawn, and whatever
    was left behind by those in between comes on top of it.
    """
    from pagelink.bench.speed.bare import extract

    edges = [len(extract(explainer, link).edges) for link in links]
    return [links[i] for i in sorted(range(len(links)), key=lambda i: -edges[i])[:count]]


def _peak() -> float:
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT)


def _first(dataset: str, links: int, seed: int, tiny: bool) -> Iterator[tuple[str, float]]:
    import torch

    torch.set_num_threads(1)
    wall, cpu = time.perf_counter(), time.process_time()
    from pagelink.bench.speed.rows import load_workload
    from pagelink.settings import Settings

    yield "imported, cpu_s", time.process_time() - cpu
    workload = load_workload(dataset, seed, tiny)
    yield "loaded, cpu_s", time.process_time() - cpu
    explainer = workload.explainer(Settings(), seed)
    yield "explainer made, cpu_s", time.process_time() - cpu
    explainer.explain(*workload.links(links)[0])
    yield "cpu_s", time.process_time() - cpu
    yield "wall_s", time.perf_counter() - wall


def main() -> None:
    """Measure in this process, and print the result as JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}")
    parser.add_argument("what", choices=("memory", "first"))
    parser.add_argument("dataset")
    parser.add_argument("links", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    taken = _memory if given.what == "memory" else _first
    print(json.dumps(dict(taken(given.dataset, given.links, given.seed, given.tiny))))


if __name__ == "__main__":
    main()
