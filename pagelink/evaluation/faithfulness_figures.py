"""From figures of links to figures of rankings, with intervals, ready for JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from pagelink.evaluation.averages import bootstrap_interval
from pagelink.evaluation.faithfulness import Result
from pagelink.evaluation.faithfulness_rankings import COUNTS, DEFAULT, MAIN, RANKINGS
from pagelink.explanation import VERDICTS

Doubles = npt.NDArray[np.float64]
Figure = dict[str, Any]
"""`value`, `low` and `high` (95 % bootstrap over links), `links`; and the same of the paired
difference to the default, `minus_default`."""


def summary(result: Result, seed: int) -> dict[str, Any]:
    """All figures of a subject."""
    subject = result.subject
    greedy = result.greedy[MAIN]
    return {
        "subject": subject.name,
        "links": len(subject.pairs),
        "structural": subject.separations.structural,
        "auc": {
            name: getattr(subject.separations, name)
            for name in subject.separations.__dataclass_fields__
        },
        "greedy": {
            "effect": {str(count): float(values.mean()) for count, values in result.greedy.items()},
            "links_not_positive": int((greedy <= 0).sum()),
            "links_not_exhaustive": int((~result.exhaustive).sum()),
            "paths_a_link": float(result.num_paths.mean()),
        },
        "links_sufficiency_undefined": int((result.rankings[DEFAULT]["span"] <= 0).sum()),
        "links_supportable": None if result.supportable is None else int(result.supportable.sum()),
        "rankings": {name: _figures(result, name, seed) for name in RANKINGS},
        "rho_curve": curve(result) if result.curve else None,
    }


def _figures(result: Result, name: str, seed: int) -> dict[str, Figure]:
    own, default = result.rankings[name], result.rankings[DEFAULT]
    ones = np.ones(len(result.exhaustive))
    figures: dict[str, Figure] = {}

    def add(key: str, values: Doubles, other: Doubles, over: Doubles) -> None:
        """A ratio of sums over the links where all of it is defined; a mean if `over` is 1."""
        defined = np.isfinite(values) & np.isfinite(over) & np.isfinite(other)
        figures[key] = compared(values[defined], other[defined], over[defined], seed)

    for count in COUNTS:
        effect = f"effect@{count}"
        add(f"share@{count}", own[effect], default[effect], result.greedy[count])
        add(effect, own[effect], default[effect], ones)
    main = f"effect@{MAIN}"
    add("share of exactly three", own[main], default[main], result.greedy_of_all)
    add("share of three or none", own[main], default[main], result.greedy_or_none)
    positive = np.where(own["span"] > 0, own["span"], np.nan)
    add("sufficiency", own["added"], default["added"], positive)
    figures["sufficiency"]["median"] = _median(own["sufficiency"])
    for key in ("connection", "paths", "length", "log degree"):
        add(key, own[key], default[key], ones)
    for word in VERDICTS:
        given, others = (
            np.array([float(v == word) for v in result.verdicts[each]]) for each in (name, DEFAULT)
        )
        add(word, given, others, ones)
    if result.supportable is not None:
        for count in COUNTS:
            hit = f"hit@{count}"
            add(hit, own[hit], default[hit], ones)
            inside = np.where(result.supportable, 1.0, np.nan)
            add(f"{hit} supportable", own[hit], default[hit], inside)
    for key in ("replaced", "foretold", "foretold by effects"):
        add(key, own[key], default[key], ones)
    if result.retrained:
        few = np.ones(len(result.retrained[DEFAULT]))
        add("retrained", result.retrained[name], result.retrained[DEFAULT], few)
    figures["cpu"] = {"value": result.cpu[name]}
    return figures


def compared(values: Doubles, other: Doubles, over: Doubles, seed: int) -> Figure:
    """A ratio of sums, and how much it is above that of the other, with intervals.

    Example:
        >>> figure = compared(np.ones(4), np.zeros(4), np.full(4, 2.0), seed=0)
        >>> figure["value"], figure["minus_default"]["low"]
        (0.5, 0.5)
    """
    return {
        **_interval(values, over, seed),
        "links": len(values),
        "minus_default": _interval(values - other, over, seed),
    }


def _interval(values: Doubles, over: Doubles, seed: int) -> dict[str, float | None]:
    total = over.sum()
    if not len(values) or total <= 0:
        return {"value": None, "low": None, "high": None}
    low, high = bootstrap_interval(values, seed, over=over)
    return {
        "value": float(values.sum() / total),
        "low": None if math.isnan(low) else low,
        "high": None if math.isnan(high) else high,
    }


def curve(result: Result) -> list[dict[str, Any]]:
    """Per rho, share of greedy and labelled paths at three paths, on each half of the links."""
    rows = []
    for rho, values in result.curve.items():
        row: dict[str, Any] = {"rho": rho}
        for half, mine in (("first", result.first_half), ("second", ~result.first_half)):
            over = result.greedy[MAIN][mine].sum()
            row[half] = {
                "links": int(mine.sum()),
                "share": float(values["effect"][mine].sum() / over) if over > 0 else None,
                "paths": float(values["paths"][mine].mean()),
            }
            if result.supportable is not None:
                both = mine & result.supportable
                row[half]["hit"] = float(values["hit"][mine].mean())
                row[half]["hit supportable"] = (
                    float(values["hit"][both].mean()) if both.any() else None
                )
        rows.append(row)
    return rows


def _median(values: Doubles) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None
