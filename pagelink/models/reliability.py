"""The reliability figure of a calibration, as an SVG."""

from __future__ import annotations

from pagelink.measure.held_out import wilson_interval
from pagelink.models.calibration import BIN_EDGES, FIRST, FOLDS, Calibration
from pagelink.views.templates import render
from pagelink.views.text import type_words

_SIZE, _LEFT, _TOP, _WIDTH = 320, 64, 76, 640
_COLOURS = {"by rank": "#0072b2", "by score": "#d55e00"}


def reliability_svg(calibration: Calibration) -> str:
    """Draw observed shares over predicted ones, with 95 % intervals; the diagonal is ideal."""
    tables = {"by rank": calibration.by_rank, "by score": calibration.by_score}
    spans = {
        name: [wilson_interval(round(row.observed * row.count), row.count) for row in table.bins]
        for name, table in tables.items()
    }
    highest = max(
        max(row.predicted, high)
        for name, table in tables.items()
        for row, (_, high) in zip(table.bins, spans[name], strict=True)
    )
    top = next(edge for edge in (*BIN_EDGES[1:], 1.0) if edge >= min(highest, 1.0))

    def across(share: float) -> float:
        return _LEFT + _SIZE * share / top

    def up(share: float) -> float:
        return _TOP + _SIZE * (1 - share / top)

    lines = [
        {
            "label": f"{name}, Brier score {table.brier:.4f}",
            "colour": _COLOURS[name],
            "points": [
                (across(row.predicted), up(row.observed), up(low), up(min(high, top)), row)
                for row, (low, high) in zip(table.bins, spans[name], strict=True)
            ],
        }
        for name, table in tables.items()
    ]
    ticks = [
        (across(x), up(x), f"{100 * x:g} %") for x in (0.0, top / 4, top / 2, 3 * top / 4, top)
    ]
    relation = type_words(calibration.shares.link_type)
    note = (
        f"The first {FIRST} predictions of each of {calibration.num_sources:,} sources, "
        f"cross-fitted over {FOLDS} folds."
    )
    return render(
        "reliability.svg", title=f"Reliability of held-out shares: {relation}", note=note,
        lines=lines, ticks=ticks, left=_LEFT, right=_LEFT + _SIZE, top=_TOP,
        bottom=_TOP + _SIZE, width=_WIDTH, height=_TOP + _SIZE + 66,
    )  # fmt: skip
