"""Figures of speed as JSON and back, and as the table of the docs."""

from __future__ import annotations

import json
import math

from pagelink.bench.speed.figures import Figure, Goal
from pagelink.bench.speed.report import as_dict, docs_table, stored_figures

ROWS = ("useritemattr", "linear", "memory")
FAST = Figure("useritemattr", "a link", 4.5, "ms", 2.5, goal=Goal(13.0), samples={"cpu_ms": [4.5]})
SLOW = Figure("memory", "peak", 5.0, "GB", goal=Goal(4.0))
MISSING = Figure("linear", "R²", math.nan, missing="There are no data.")


def stored(*figures: Figure) -> dict[str, object]:
    """As it comes from a file."""
    found: dict[str, object] = json.loads(json.dumps(as_dict(figures, quick=False, seed=3)))
    return found


def cells(text: str) -> list[list[str]]:
    """The rows of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_figures_come_back_from_a_file() -> None:
    found = stored_figures(stored(SLOW, FAST, MISSING))
    assert found[:2] == [SLOW, FAST]
    assert math.isnan(found[2].value)
    assert (found[2].missing, found[2].reached) == ("There are no data.", None)


def test_what_misses_its_target_is_bold_and_rows_are_in_order() -> None:
    text = docs_table(stored(SLOW, MISSING, FAST), ROWS)
    assert cells(text) == [
        ["`useritemattr`", "a link", "4.5 ms", "13 ms or less"],
        ["`memory`", "peak", "**5 GB**", "4 GB or less"],
    ]
    assert "Bold: misses its target, 1 of 2." in text
    assert "seed 3" in text
    assert docs_table(stored(MISSING), ROWS) == ""


def test_more_threads_are_named_with_their_wall_time() -> None:
    two = Figure("linear", "a link", 8.0, "ms", 4.0, threads=2)
    assert cells(docs_table(stored(two), ROWS)) == [
        ["`linear`", "a link, 2 threads (wall: 4 ms)", "8 ms", "-"]
    ]
