"""Two workers against one on the large graph, and what an engine costs beside the work."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet

from pagelink.bench.scale.graph import ScaleGraph, ScaleOpening
from pagelink.engine import Processes, explain_table

CHUNK = 32


def rate_of(folder: Path, graph: ScaleGraph, links: int, workers: int) -> dict[str, float]:
    """Explain links by so many workers, and return links a second once all of them are at work.

    Args:
        folder: the store.
        graph: what it holds.
        links: how many.
        workers: how many.
    """
    seen: list[tuple[float, int]] = []
    with TemporaryDirectory() as temporary:
        table, src, dst = Path(temporary) / "links.parquet", *graph.links(links)
        texts = {"src": pa.array(src).cast("string"), "dst": pa.array(dst).cast("string")}
        pa.parquet.write_table(pa.table(texts), table)
        summary = explain_table(
            ScaleOpening(folder, graph.seed), table, Path(temporary) / "out", Processes(workers),
            chunk=CHUNK, progress=lambda done, total: seen.append((time.perf_counter(), done)),
        )  # fmt: skip
    # Workers start, and stop, at different times: what is counted is the stretch in between.
    first, last = seen[workers], seen[-workers]
    return {
        "rate": (last[1] - first[1]) / (last[0] - first[0]),
        "overhead": summary.overhead or 0.0,
        "seconds": summary.seconds,
    }
