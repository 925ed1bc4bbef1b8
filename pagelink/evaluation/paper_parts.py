"""The parts of the paper's benchmark, by name. A new one is one module and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from pagelink.errors import SettingsError, did_you_mean
from pagelink.evaluation import (
    paper_ablation,
    paper_cases,
    paper_connection,
    paper_explainers,
    paper_explainers_tables,
    paper_paths,
    paper_pruning,
    paper_stability,
    paper_time,
)
from pagelink.evaluation.paper_plan import Part

COMPARE = "compare"
_PARTS = (
    Part(
        paper_explainers.PART, "Explainers", paper_explainers.run,
        paper_explainers_tables.tables, paper_explainers_tables.plots,
    ),
    Part(
        paper_connection.PART, "The price of connection", paper_connection.run,
        paper_connection.tables, paper_connection.plots,
    ),
    paper_paths.PART,
    paper_ablation.PART,
    paper_stability.PART,
    paper_pruning.PART,
    paper_time.PART,
    paper_cases.PART,
)  # fmt: skip
PARTS: dict[str, Part] = {part.name: part for part in _PARTS}
_OWN = Part(
    COMPARE, "Explainers on a model of one's own", None, paper_explainers_tables.tables,
    paper_explainers_tables.plots,
)  # fmt: skip
REPORTED: dict[str, Part] = {**PARTS, COMPARE: _OWN}
"""What reports can hold: the parts, and the runs of `pagelink bench compare`."""


def check_parts(names: Sequence[str]) -> tuple[Part, ...]:
    """Return the asked parts, all if none is asked for.

    Raises:
        SettingsError: there is no such part.
    """
    for name in names:
        if name not in PARTS:
            raise SettingsError(
                f"A part is one of {', '.join(PARTS)}; got {name!r}.{did_you_mean(name, PARTS)}"
            )
    return tuple(PARTS[name] for name in dict.fromkeys(names or PARTS))
