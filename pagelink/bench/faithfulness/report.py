"""From figures of links to figures of rankings, with intervals, ready for JSON."""

from __future__ import annotations

import datetime
import json
import math
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pagelink.bench.faithfulness.bench import CURVE, Result, run_subject
from pagelink.bench.faithfulness.rankings import COUNTS, DEFAULT, MAIN, RANKINGS, settings_of
from pagelink.bench.faithfulness.retrain import retrained_effects
from pagelink.bench.runs import layout
from pagelink.bench.subjects import check_subjects, load_subject
from pagelink.datasets.folders import DataNotFoundError
from pagelink.explain.building import versions
from pagelink.measure.verdict import VERDICTS
from pagelink.metrics.averages import bootstrap_interval
from pagelink.rivals.greedy import MOST_PATHS
from pagelink.runtime.arrays import Doubles
from pagelink.runtime.files import write_text

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


# Tables and JSON of `pagelink bench faithfulness`.


FILE = "faithfulness.json"
Columns = Sequence[tuple[str, str]]
WORTH: Columns = (
    ("share 1", "share@1"), ("3", "share@3"), ("5", "share@5"),
    ("exactly 3", "share of exactly three"), ("3 or none", "share of three or none"),
    ("sufficient", "sufficiency"), ("connection", "connection"), ("supported", "supported"),
    ("not used", "structure_not_used"), ("against", "structure_against"),
    ("not by these", "not_by_these"), ("CPU ms", "cpu"),
)  # fmt: skip
SHAPE: Columns = (
    ("label in 1", "hit@1"), ("3", "hit@3"), ("5", "hit@5"),
    ("supportable: 1", "hit@1 supportable"), ("3", "hit@3 supportable"),
    ("5", "hit@5 supportable"), ("paths", "paths"), ("length", "length"),
    ("log degree", "log degree"),
)  # fmt: skip
JUDGES: Columns = (
    ("replaced", "replaced"), ("foretold", "foretold"), ("by effects", "foretold by effects"),
    ("retrained", "retrained"),
)  # fmt: skip
DIFFERENCES: Columns = (
    ("share 3", "share@3"), ("label in 3", "hit@3"), ("connection", "connection"),
    ("replaced", "replaced"), ("foretold", "foretold"), ("retrained", "retrained"),
)  # fmt: skip

LEGEND = """\
share n: effect of removing the facts of up to n paths, as a share of that of the greedy search
with one to n paths. exactly 3: the same if that search must return three paths; 3 or none: if it
may return none. sufficient: share of f(G) - f(G0) that three paths bring back, by sums over links.
connection: effect of a path beyond that of its two ends. label in n: a labelled path is among the
first n. log degree: mean over the inner nodes. replaced: fall of the logit when the facts lead
elsewhere, instead of being removed. foretold: correlation of foretold and true change over random
sets of removed facts; by effects: the same if every ranking is given the measured effects of its
facts. retrained: fall of the logit when training never saw the facts. All but share, label and CPU
are at three paths; CPU is a link's, on one thread."""
QUICK = "Tiny generated graphs, hardly trained: these figures say nothing.\n"


def run_and_print(
    names: Sequence[str],
    out: Path,
    console: Console,
    *,
    links: int,
    quick: bool,
    seed: int,
    rho_curve: bool = False,
    retrain: bool = False,
) -> list[dict[str, Any]]:
    """Measure subjects one after the other, print their tables as Markdown, write the JSON.

    The file is written anew after each subject. A subject whose data are not there is named and
    left out.
    """
    chosen = check_subjects(names, quick)
    links = min(links, 6) if quick else links
    rhos = (CURVE[::5] if quick else CURVE) if rho_curve else ()
    done: list[dict[str, Any]] = []
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
        transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=None)

        def step(what: str) -> None:
            bar.update(task, description=what)

        for number, name in enumerate(chosen, start=1):
            step(f"{name} ({number} of {len(chosen)}): model")
            try:
                subject = load_subject(name, links, seed, out / "subjects")
            except DataNotFoundError as error:
                console.print(f"{name} is left out: {error}", soft_wrap=True, markup=False)
                continue
            if not subject.pairs:
                console.print(f"{name} is left out: it predicts no test link.", markup=False)
                continue
            result = run_subject(
                subject, seed, most_paths=200 if quick else MOST_PATHS, rhos=rhos,
                judge_links=2 if quick else 200, progress=step,
            )  # fmt: skip
            if retrain and subject.whole is not None and name.startswith(("useritem", "tiny")):
                count = 1 if quick else 20
                result.retrained = retrained_effects(subject, result.shown, seed, count, step)
            done.append(summary(result, seed))
            _write(out, done, quick, seed)
            for text in (*([QUICK] if quick else []), as_text(done[-1])):
                console.print(text, soft_wrap=True, highlight=False, markup=False)
    console.print(LEGEND, soft_wrap=True, highlight=False, markup=False)
    if done:
        console.print(f"Wrote {out / FILE}", soft_wrap=True, highlight=False, markup=False)
    return done


def _write(out: Path, done: list[dict[str, Any]], quick: bool, seed: int) -> None:
    result = {
        "benchmark": "faithfulness",
        "quick": quick,
        "seed": seed,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **versions()},
        "settings": {
            name: settings_of(name).to_dict() for name in ("default", "paper", "influence")
        },
        "subjects": done,
    }
    write_text(out / FILE, json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False))


def as_text(subject: dict[str, Any]) -> str:
    """The tables of a subject, as Markdown."""
    auc, greedy = subject["auc"], subject["greedy"]
    twin = "" if auc["twin_auc"] is None else f", trained without edges {auc['twin_auc']:.3f}"
    use = "beats" if subject["structural"] else "does NOT beat"
    lines = [
        f"## {subject['subject']}: {subject['links']} links\n",
        f"ROC-AUC {auc['auc']:.3f}, run without edges {auc['edgeless_auc']:.3f}{twin}: the model "
        f"{use} its twin without edges. Greedy search: {greedy['paths_a_link']:.0f} paths a link; "
        f"of {greedy['links_not_exhaustive']} links not all; effect not positive for "
        f"{greedy['links_not_positive']} links. Sufficiency undefined for "
        f"{subject['links_sufficiency_undefined']} links."
        + ("" if subject["links_supportable"] is None
           else f" Supportable: {subject['links_supportable']} links."),
    ]  # fmt: skip
    for title, columns in (("", WORTH), ("", SHAPE), ("Judges", JUDGES)):
        lines += [title and f"\n{title}:", _table(subject["rankings"], columns)]
    lines += ["\nDifference to the default, with 95 % intervals:"]
    lines += [_table(subject["rankings"], DIFFERENCES, minus_default=True)]
    if subject["rho_curve"]:
        lines += ["\nBy rho, at three paths, on either half of the links:"]
        lines += [_curve_table(subject["rho_curve"])]
    return "\n".join(lines) + "\n"


def _table(rankings: dict[str, Any], columns: Columns, minus_default: bool = False) -> str:
    first = rankings[RANKINGS[0]]
    shown = [(title, key) for title, key in columns if key in first]
    rows = [["", *(title for title, _ in shown)]]
    for name in RANKINGS[1:] if minus_default else RANKINGS:
        figures = rankings[name]
        cells = [
            _difference(figures[key]["minus_default"])
            if minus_default
            else _cell(key, figures[key])
            for _, key in shown
        ]
        rows.append([name, *cells])
    return layout(rows)


def _cell(key: str, figure: dict[str, Any]) -> str:
    value = figure["value"]
    if value is None:
        return "-"
    return f"{1000 * value:.1f}" if key == "cpu" else f"{value:.3f}"


def _difference(figure: dict[str, Any]) -> str:
    if figure["value"] is None:
        return "-"
    if figure["low"] is None:
        return f"{figure['value']:+.3f}"
    return f"{figure['value']:+.3f} [{figure['low']:+.3f}, {figure['high']:+.3f}]"


def _curve_table(rows: Sequence[dict[str, Any]]) -> str:
    keys = [key for key in ("share", "hit", "hit supportable", "paths") if key in rows[0]["first"]]
    title = {"hit": "label in 3", "hit supportable": "supportable"}
    table = [["rho", *(f"{title.get(k, k)}, {h} half" for h in ("first", "second") for k in keys)]]
    for row in rows:
        values = [row[half][key] for half in ("first", "second") for key in keys]
        table.append([f"{row['rho']:g}", *("-" if v is None else f"{v:.3f}" for v in values)])
    return layout(table)
