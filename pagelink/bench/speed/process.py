"""What is measured in a fresh process: peak memory, imports, and the first explanation.

Nothing but the standard library is imported with this module: imports are a part of what is
measured.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagelink.bench.speed.rows import Links
    from pagelink.explain.explainer import PaGELink

CANDIDATES, HEAVIEST = 1_000, 32
"""Of the candidates, the links with the largest computation graphs are taken, at most this many."""
_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in what `ru_maxrss` counts by."""


def memory(dataset: str, links: int, seed: int, tiny: bool) -> dict[str, float]:
    """Stream explanations of links; return the peak memory of the process in bytes."""
    import torch

    from pagelink.bench.speed.rows import explain_all, load_workload
    from pagelink.settings import Settings

    torch.set_num_threads(1)
    workload = load_workload(dataset, seed, tiny)
    explainer = workload.explainer(Settings(), seed)
    heaviest = _heaviest(explainer, workload.pairs[:CANDIDATES], min(HEAVIEST, links // 3))
    between = workload.links(links - 2 * len(heaviest))
    before = peak()
    with_paths = explain_all(explainer, [*heaviest, *between, *heaviest])
    return {"before": before, "with paths": with_paths, "peak": peak()}


def _heaviest(explainer: PaGELink, links: Links, count: int) -> Links:
    """The links whose computation graphs are the largest.

    They come first and last: so the peak does not depend on which links were drawn, and whatever
    was left behind by those in between comes on top of it.
    """
    from pagelink.bench.speed.bare import extract

    edges = [len(extract(explainer, link).edges) for link in links]
    return [links[i] for i in sorted(range(len(links)), key=lambda i: -edges[i])[:count]]


def peak() -> float:
    """Peak memory of this process, in bytes."""
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT)


def imports() -> dict[str, float]:
    """CPU seconds of imports, each over those before it."""
    found = {}
    # pagelink is a package of this very function: what it imports by itself is done by now, and
    # here it is done again.
    for name in [each for each in sys.modules if each.split(".")[0] == "pagelink"]:
        del sys.modules[name]
    for name in ("torch", "pagelink", "torch_geometric", "pagelink.explain.explainer"):
        clock = time.process_time()
        import_module(name)
        found[name] = time.process_time() - clock
    return {**found, "PaGELink": found["pagelink.explain.explainer"]}


def first_with(
    values: dict[str, str | None], dataset: str, seed: int, tiny: bool
) -> dict[str, float]:
    """The same as `first`, with some values in the environment; None takes one out."""
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return first(dataset, seed, tiny)


def first(dataset: str, seed: int, tiny: bool) -> dict[str, float]:
    """Seconds from `import torch` being done to the first explanation."""
    import torch

    torch.set_num_threads(1)
    wall, cpu = time.perf_counter(), time.process_time()
    from pagelink.bench.speed.rows import load_workload
    from pagelink.settings import Settings

    found = {"imported, cpu_s": time.process_time() - cpu}
    workload = load_workload(dataset, seed, tiny)
    found["loaded, cpu_s"] = time.process_time() - cpu
    explainer = workload.explainer(Settings(), seed)
    found["explainer made, cpu_s"] = time.process_time() - cpu
    explainer.explain(*workload.pairs[0])
    found["cpu_s"] = time.process_time() - cpu
    return {**found, "wall_s": time.perf_counter() - wall}
