"""Measurements on the large graph: memory, cold start, time per link, and workers against one.

The first three are taken in a fresh process each.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import torch

from pagelink.bench.scale.graph import LINK_TYPE, ScaleGraph, ScaleOpening, make_store
from pagelink.bench.speed.bare import extract
from pagelink.engine import Processes, explain_table
from pagelink.explain.explainer import PaGELink
from pagelink.model.patch import predictor_on_part
from pagelink.runtime.files import temporary_folder

GIGABYTE = 10**9
REPEATS = 3
CHUNK = 32
"""Links that a worker takes at a time."""


def take(step: str, folder: str, nodes: int, edges: int, seed: int, links: int) -> dict[str, Any]:
    """Take one step in this process, with one thread."""
    torch.set_num_threads(1)
    steps = {"build": build, "cold": cold, "worker": worker}
    return steps[step](Path(folder), ScaleGraph(nodes, edges, seed), links)


def build(folder: Path, graph: ScaleGraph, links: int) -> dict[str, Any]:
    """Make the store."""
    wall, cpu = time.perf_counter(), time.process_time()
    with _sampled(partial(_room, folder), 0.5) as room:
        store = make_store(graph, folder)
    size = sum(each["bytes"] for each in store.manifest["files"].values())
    return {
        "peak_disk_gb": max(room["disk"]) / GIGABYTE,
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIGABYTE,
        "disk_gb": size / GIGABYTE,
        "edges": sum(each["count"] for each in store.manifest["relations"]),
    }


def cold(folder: Path, graph: ScaleGraph, links: int) -> dict[str, Any]:
    """The first explanation when none of the files is in memory, after the imports."""
    os.sync()  # what was not written yet stays in memory
    for file in folder.iterdir():
        handle = os.open(file, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
    (link,) = _links(graph, 1)
    started = time.perf_counter()
    explainer = ScaleOpening(folder, graph.seed).open()
    opened = time.perf_counter()
    answer = explainer.explain(*link)
    return {
        "open_seconds": opened - started,
        "first_seconds": time.perf_counter() - opened,
        "paths": len(answer.paths),
    }


def worker(folder: Path, graph: ScaleGraph, links: int) -> dict[str, Any]:
    """Time a link from the store and from memory, and the memory that a worker takes."""
    asked = _links(graph, links)
    with _sampled(_memory, 0.02) as memory:
        explainer = ScaleOpening(folder, graph.seed).open()
        list(explainer.explain_many(asked))
    in_memory, renamed = _same_neighbourhoods(explainer, asked)
    seconds: dict[str, list[float]] = {"store": [], "memory": []}
    logits: dict[str, list[float]] = {}
    for _ in range(REPEATS):  # in turn, so that both meet the same machine
        for name, who, what in (("store", explainer, asked), ("memory", in_memory, renamed)):
            cpu = time.process_time()
            logits[name] = [answer.logit or np.nan for answer in who.explain_many(what)]
            seconds[name].append((time.process_time() - cpu) / links)
    edges = [len(extract(explainer, link).edges) for link in asked]
    return {
        "store_ms": 1000 * min(seconds["store"]),
        "memory_ms": 1000 * min(seconds["memory"]),
        "same_logits": bool(np.allclose(logits["store"], logits["memory"], rtol=1e-4, atol=1e-4)),
        "anonymous_gb": max(memory["anonymous"]) / GIGABYTE,
        "mapped_gb": max(memory["mapped"]) / GIGABYTE,
        "median_edges": float(np.median(edges)),
        "largest_edges": max(edges),
    }


def rate_of(folder: Path, graph: ScaleGraph, links: int, workers: int) -> dict[str, float]:
    """Explain links by some workers, and return links per second once all of them are at work.

    Args:
        folder: the store.
        graph: what it holds.
        links: number of links.
        workers: number of workers.
    """
    seen: list[tuple[float, int]] = []
    with temporary_folder() as temporary:
        table, src, dst = temporary / "links.parquet", *graph.links(links)
        texts = {"src": pa.array(src).cast("string"), "dst": pa.array(dst).cast("string")}
        pa.parquet.write_table(pa.table(texts), table)
        summary = explain_table(
            ScaleOpening(folder, graph.seed), table, temporary / "out", Processes(workers),
            chunk=CHUNK, progress=lambda done, total: seen.append((time.perf_counter(), done)),
        )  # fmt: skip
    # Workers start, and stop, at different times: what is counted is the stretch in between.
    first, last = seen[workers], seen[-workers]
    return {
        "rate": (last[1] - first[1]) / (last[0] - first[0]),
        "overhead": summary.overhead or 0.0,
        "seconds": summary.seconds,
    }


def _links(graph: ScaleGraph, count: int) -> list[tuple[int, int]]:
    return [(src, dst) for src, dst in graph.links(count).T.tolist()]


def _same_neighbourhoods(
    explainer: PaGELink, links: list[tuple[int, int]]
) -> tuple[PaGELink, list[tuple[int, int]]]:
    """An explainer of the links' computation graphs alone, held in memory; the links therein."""
    graph = explainer.graph
    edges = np.unique(np.concatenate([extract(explainer, link).edges for link in links]))
    facts = np.unique(graph.fact[edges]).astype(np.int64)
    part = predictor_on_part(
        explainer.predictor, np.unique(graph.edges_of_facts.take(facts).values), [LINK_TYPE]
    )
    data = part.data
    place = {
        kind: np.searchsorted(data[kind].n_id.numpy(), [link[end] for link in links])
        for end, kind in ((0, LINK_TYPE[0]), (1, LINK_TYPE[2]))
    }
    for kind in data.node_types:
        del data[kind].n_id
    renamed = list(zip(*(place[LINK_TYPE[end]].tolist() for end in (0, 2)), strict=True))
    return PaGELink(
        explainer.predictor.model, data, LINK_TYPE, explainer.settings, explainer.seed,
        threshold=explainer.threshold,
    ), renamed  # fmt: skip


def _memory() -> dict[str, int]:
    """This process's own memory, and its share of mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    names = {"anonymous": "RssAnon", "mapped": "RssFile"}
    return {name: 1024 * int(status[field].split()[0]) for name, field in names.items()}


def _room(folder: Path) -> dict[str, int]:
    """The bytes of all files of a folder and its folders."""
    size = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # it may be gone
            size += file.stat().st_size
    return {"disk": size}


@contextmanager
def _sampled(sample: Callable[[], dict[str, int]], every: float) -> Iterator[dict[str, list[int]]]:
    """Sample some numbers while the block runs, in a thread; `every` is in seconds."""
    seen: dict[str, list[int]] = defaultdict(list)
    over = threading.Event()

    def run() -> None:
        is_over = False
        while not is_over:
            is_over = over.wait(every)  # one more sample when it is
            for name, number in sample().items():
                seen[name].append(number)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
