"""What a job came to, from its parts and what its workers cost."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pagelink.engine.crew import Engine, Tally
from pagelink.engine.parts import SUMMARY_FILE, PartFolder
from pagelink.errors import EngineError
from pagelink.runtime.files import write_text

SLOWEST = 10
INVALID = 20
_COLUMNS = ("line", "src", "dst", "reason", "message", "verdict", "path", "seconds")


@dataclass(frozen=True)
class Summary:
    """What a job came to."""

    num_links: int
    num_rows: int
    num_parts: int
    reasons: dict[str, int]
    """How many links have each reason; "paths" counts those with paths."""
    verdicts: dict[str, int]
    """How many links have each verdict."""
    slowest: list[dict[str, Any]]
    """The links that took longest: line, src, dst, seconds of one core."""
    invalid: list[str]
    """Messages about the first malformed links and those that killed their worker."""
    resumed: int
    """How many links were found done by an earlier run."""
    seconds: float
    """Of this run, from its start to its end."""
    rate: float
    """Links a second of this run."""
    engine: str
    workers: int
    restarts: int
    """How many workers died and were replaced, in this run."""
    overhead: float | None
    """Share of the workers' time that was not spent on explaining: waiting, wording the rows,
    writing the parts. None if there was nothing left to do."""


def summarise(
    folder: PartFolder, total: int, resumed: int, tally: Tally, seconds: float, engine: Engine
) -> Summary:
    """Go through the parts, write `summary.json`, and return it.

    Raises:
        EngineError: links are missing, or there twice.
    """
    reasons: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    slowest: list[tuple[float, int, str, str]] = []
    invalid: list[tuple[int, str]] = []
    num_rows = num_parts = 0
    for file in folder.files():
        num_parts += 1
        for row in _rows(file):
            num_rows += 1
            if row["path"] not in (None, 1):
                continue
            reasons[row["reason"] or "paths"] += 1
            if row["verdict"]:
                verdicts[row["verdict"]] += 1
            _keep(slowest, (row["seconds"] or 0.0, row["line"], row["src"], row["dst"]), SLOWEST)
            if row["reason"] == "invalid":
                _keep(invalid, (-row["line"], row["message"]), INVALID)
    found = sum(reasons.values())
    if found != total:
        raise EngineError(
            f"{folder.path} has the rows of {found} links instead of {total}: parts were removed, "
            "or this machine does not see those of others yet. Run the same command again."
        )
    summary = Summary(
        num_links=total,
        num_rows=num_rows,
        num_parts=num_parts,
        reasons=dict(sorted(reasons.items())),
        verdicts=dict(sorted(verdicts.items())),
        slowest=[
            {"line": line, "src": src, "dst": dst, "seconds": took}
            for took, line, src, dst in sorted(slowest, reverse=True)
        ],
        invalid=[f"line {-line}: {message}" for line, message in sorted(invalid, reverse=True)],
        resumed=resumed,
        seconds=seconds,
        rate=(total - resumed) / seconds,
        engine=type(engine).__name__.lower(),
        workers=engine.size,
        restarts=tally.restarts,
        overhead=tally.overhead,
    )
    write_text(folder.path / SUMMARY_FILE, json.dumps(asdict(summary), indent=1))
    return summary


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    yield from pq.read_table(file, columns=list(_COLUMNS)).to_pylist()


def _keep(heap: list[Any], item: Any, count: int) -> None:
    """Keep the largest items."""
    if len(heap) < count:
        heapq.heappush(heap, item)
    else:
        heapq.heappushpop(heap, item)
