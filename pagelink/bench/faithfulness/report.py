"""Figures of links become figures of rankings, with intervals: tables and JSON of the benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pagelink.bench.answers import COUNTS, MAIN
from pagelink.bench.faithfulness import experts, planted, robust, sides, strongest
from pagelink.bench.faithfulness.bench import CURVE, JUDGED, RANKINGS, SETTINGS, Result, run_subject
from pagelink.bench.faithfulness.judges import RETRAINED, retrained_effects
from pagelink.bench.measures import EFFECT, PerLink, with_interval
from pagelink.bench.paper.report import Table, say_tables
from pagelink.bench.runs import cell, check_names, say, shown_progress
from pagelink.bench.subjects import load_subject, subject_names
from pagelink.datasets.folders import DataNotFoundError
from pagelink.measure.verdict import VERDICTS
from pagelink.rivals.greedy import MOST_PATHS
from pagelink.runtime.arrays import Bools, Doubles

DEFAULT = RANKINGS[0]
Figure = dict[str, Any]
"""`value`, `low` and `high` (95 % bootstrap over links), `links`; and the same of the paired
difference to the default, `minus_default`."""


def summary(result: Result, seed: int) -> dict[str, Any]:
    """All figures of a subject."""
    subject, links = result.subject, result.links
    labelled = "supportable" in links
    return {
        "subject": subject.name,
        "links": len(subject.pairs),
        "structural": subject.separations.structural,
        "auc": asdict(subject.separations),
        "greedy": {
            "effect": {str(count): float(links[f"greedy@{count}"].mean()) for count in COUNTS},
            "links_not_positive": int((links[f"greedy@{MAIN}"] <= 0).sum()),
            "links_not_exhaustive": int((links["exhaustive"] == 0).sum()),
            "paths_a_link": float(links["num_paths"].mean()),
        },
        "links_sufficiency_undefined": int((result.rankings[DEFAULT]["span"] <= 0).sum()),
        "links_supportable": int(links["supportable"].sum()) if labelled else None,
        "rankings": {name: _figures(result, name, seed) for name in RANKINGS},
        "rho_curve": curve(result) if result.curve else None,
    }


def _figures(result: Result, name: str, seed: int) -> dict[str, Figure]:
    own, default, links = result.rankings[name], result.rankings[DEFAULT], result.links
    ones = np.ones(len(links["exhaustive"]))
    figures: dict[str, Figure] = {}

    def add(key: str, figure: str, over: Doubles) -> None:
        """A ratio of sums over the links where all of it is defined; a mean if `over` is 1."""
        values, other = own[figure], default[figure]
        defined = np.isfinite(values) & np.isfinite(over) & np.isfinite(other)
        figures[key] = compared(values[defined], other[defined], over[defined], seed)

    for count in COUNTS:
        add(f"share@{count}", f"effect@{count}", links[f"greedy@{count}"])
        add(f"effect@{count}", f"effect@{count}", ones)
    add("share of exactly three", EFFECT, links["greedy of all"])
    add("share of three or none", EFFECT, links["greedy or none"])
    add("sufficiency", "added", np.where(own["span"] > 0, own["span"], np.nan))
    known = own["sufficiency"][np.isfinite(own["sufficiency"])]
    figures["sufficiency"]["median"] = float(np.median(known)) if len(known) else None
    for key in ("connection", "paths", "length", "log degree", *VERDICTS):
        add(key, key, ones)
    if "supportable" in links:
        inside = np.where(links["supportable"] > 0, 1.0, np.nan)
        for hit in (f"hit@{count}" for count in COUNTS):
            add(hit, hit, ones)
            add(f"{hit} supportable", hit, inside)
    for key in JUDGED:
        add(key, key, ones)
    if result.retrained:
        few, base = result.retrained[name], result.retrained[DEFAULT]
        figures["retrained"] = compared(few, base, np.ones(len(few)), seed)
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
    found = zip(("value", "low", "high"), with_interval(values, over, seed), strict=True)
    return {end: None if math.isnan(value) else value for end, value in found}


def curve(result: Result) -> list[dict[str, Any]]:
    """Per rho, share of greedy and labelled paths at three paths, on each half of the links."""
    halves = {"first": result.first_half, "second": ~result.first_half}
    return [
        {"rho": rho, **{half: _on_half(result.links, rows, mine) for half, mine in halves.items()}}
        for rho, rows in result.curve.items()
    ]


def _on_half(links: PerLink, rows: PerLink, mine: Bools) -> dict[str, Any]:
    over = links[f"greedy@{MAIN}"][mine].sum()
    found: dict[str, Any] = {
        "links": int(mine.sum()),
        "share": float(rows[EFFECT][mine].sum() / over) if over > 0 else None,
        "paths": float(rows["paths"][mine].mean()),
    }
    if "supportable" in links:
        hits, both = rows[f"hit@{MAIN}"], mine & (links["supportable"] > 0)
        found["hit"] = float(hits[mine].mean())
        found["hit supportable"] = float(hits[both].mean()) if both.any() else None
    return found


# Tables and JSON.


FAITHFULNESS = "faithfulness"
"""The name of the result files of the part `models`."""
MODELS, LINKS = "models", 200
PARTS = (planted.NAME, MODELS, strongest.NAME, sides.NAME, experts.NAME, robust.NAME)
DEFAULT_PARTS = (planted.NAME, MODELS)
Columns = Sequence[tuple[str, str]]
WORTH: Columns = (
    ("share 1", "share@1"), ("3", "share@3"), ("5", "share@5"),
    ("exactly 3", "share of exactly three"), ("3 or none", "share of three or none"),
    ("sufficient", "sufficiency"), ("connection", "connection"),
    *((verdict.removeprefix("structure_").replace("_", " "), verdict) for verdict in VERDICTS),
    ("CPU ms", "cpu"),
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
    *JUDGES,
)  # fmt: skip

LEGEND = """\
share n: effect of removing the facts of up to n paths, as a share of that of the greedy search
with one to n paths. exactly 3: the same if that search must return three paths; 3 or none: if it
may return none. sufficient: share of f(G) - f(G0) that three paths bring back, by sums over links.
connection: share of a path's effect that goes when its inner facts are swapped. label in n: a
labelled path is among the first n. log degree: mean over the inner nodes. replaced: fall of the
logit when the facts lead elsewhere, instead of being removed. foretold: correlation of foretold and
true change over random sets of removed facts; by effects: the same if every ranking is given the
measured effects of its facts. retrained: fall of the logit when training never saw the facts. All
but share, label and CPU are at three paths; CPU is per link, on one thread."""
QUICK = "Tiny generated graphs, hardly trained: these figures say nothing.\n"


def run_parts(
    only: Sequence[str],
    subjects: Sequence[str],
    out: Path,
    console: Console,
    *,
    links: int | None,
    quick: bool,
    seed: int,
    explainers: Sequence[str] = (),
    slow_links: int | None = None,
    rho_curve: bool = False,
    retrain: bool = False,
) -> None:
    """Run parts of the benchmark.

    Mechanisms that are known; trained models; strongest facts; removal and gain over rho; drugs,
    proteins and diseases; other judges.

    Args:
        only: the parts; none: the first two, but where subjects are named, the models alone.
        subjects: trained models; none: all of the part.
        out: folder for results and trained models.
        console: where to print.
        links: of each model or mechanism at most. None: what the part has by default.
        quick: few links, tiny graphs.
        seed: of all random choices.
        explainers: planted: the rows to run; all if empty.
        slow_links: strongest: links of its slow rows. None: all.
        rho_curve: models: also under other values of rho.
        retrain: models: also train without the paths.

    Raises:
        SettingsError: there is no such part or subject.
    """
    default = [MODELS] if subjects else DEFAULT_PARTS
    parts = check_names("part", only or default, PARTS)
    if MODELS in parts:
        check_names("subject", subjects, subject_names(quick))
    if robust.NAME in parts:
        check_names("subject", subjects, (*subject_names(quick), *robust.SUBJECTS))
    if planted.NAME in parts:
        count = planted.LINKS if links is None else links
        planted.run_and_print(
            out, console, links=count, quick=quick, seed=seed, explainers=explainers
        )
    if MODELS in parts:
        run_and_print(
            subjects, out, console, links=LINKS if links is None else links, quick=quick,
            seed=seed, rho_curve=rho_curve, retrain=retrain,
        )  # fmt: skip
    if strongest.NAME in parts:
        count = strongest.LINKS if links is None else links
        strongest.run_and_print(
            subjects, out, console, links=count, slow_links=slow_links, quick=quick, seed=seed
        )
    if sides.NAME in parts:
        sides.run_and_print(out, console, links=links, quick=quick, seed=seed)
    if experts.NAME in parts:
        count = experts.LINKS if links is None else links
        try:
            experts.run_and_print(out, console, links=count, quick=quick, seed=seed)
        except DataNotFoundError as error:
            say(console, f"{experts.NAME} is left out: {error}")
    if robust.NAME in parts:
        count = robust.LINKS if links is None else links
        robust.run_and_print(out, console, subjects=subjects, links=count, quick=quick, seed=seed)


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

    The files are written anew after each subject. A subject whose data are not there is named and
    left out.
    """
    chosen = check_names("subject", names, subject_names(quick))
    links = min(links, 6) if quick else links
    rhos = (CURVE[::5] if quick else CURVE) if rho_curve else ()
    done: list[dict[str, Any]] = []
    with shown_progress(console) as step:
        for number, name in enumerate(chosen, start=1):
            step(f"{name} ({number} of {len(chosen)}): model")
            try:
                subject = load_subject(name, links, seed, out / "subjects")
            except DataNotFoundError as error:
                say(console, f"{name} is left out: {error}")
                continue
            if not subject.pairs:
                say(console, f"{name} is left out: it predicts no test link.")
                continue
            result = run_subject(
                subject, seed, most_paths=200 if quick else MOST_PATHS, rhos=rhos,
                judge_links=2 if quick else 200, progress=step,
            )  # fmt: skip
            if retrain and subject.whole is not None and name.startswith(("useritem", "tiny")):
                count = 1 if quick else RETRAINED
                result.retrained = retrained_effects(subject, result.shown, seed, count, step)
            done.append(summary(result, seed))
            _save(out, done, quick, seed, Console(quiet=True))
    if done:
        _save(out, done, quick, seed, console)
    say(console, f"{QUICK}\n{LEGEND}" if quick else LEGEND)
    return done


def _save(out: Path, done: list[dict[str, Any]], quick: bool, seed: int, console: Console) -> None:
    settings = {name: settings.to_dict() for name, settings in SETTINGS.items()}
    say_tables(
        [table for subject in done for table in tables(subject)], out, FAITHFULNESS, console,
        quick=quick, seed=seed, settings=settings, subjects=done,
    )  # fmt: skip


def tables(subject: dict[str, Any]) -> list[Table]:
    """The tables of a subject."""
    auc, greedy, rankings = subject["auc"], subject["greedy"], subject["rankings"]
    kind = "structural" if subject["structural"] else "NOT structural"
    figures = f"ROC-AUC {_separation(auc, '')}"
    if auc["matched_auc"] is not None:
        figures += f"; on degree-matched pairs {_separation(auc, 'matched_')}"
    note = (
        f"{figures}: the model is {kind}. Greedy search: "
        f"{greedy['paths_a_link']:,.0f} paths per link; of "
        f"{greedy['links_not_exhaustive']} links not all; effect not positive for "
        f"{greedy['links_not_positive']} links. Sufficiency undefined for "
        f"{subject['links_sufficiency_undefined']} links."
    )
    if subject["links_supportable"] is not None:
        note += f" Supportable: {subject['links_supportable']} links."
    name = subject["subject"]
    found = [
        _table(f"{name}: {subject['links']} links", rankings, WORTH, note),
        _table(f"{name}: labels and shape", rankings, SHAPE),
        _table(f"{name}: judges", rankings, JUDGES),
        _table(
            f"{name}: difference to the default", rankings, DIFFERENCES,
            "With 95 % intervals, paired by link.", minus_default=True,
        ),
    ]  # fmt: skip
    if subject["rho_curve"]:
        found.append(_curve_table(f"{name}: by rho", subject["rho_curve"]))
    return found


def _separation(auc: Mapping[str, float | None], on: str) -> str:
    """The ROC-AUC of a model beside those of itself and of its twin without edges."""
    own, bare, twin = (auc[f"{which}{on}auc"] for which in ("", "edgeless_", "twin_"))
    trained = "" if twin is None else f", trained without edges {cell(twin)}"
    return f"{cell(own)} (run without edges {cell(bare)}{trained})"


def _table(
    title: str, rankings: Mapping[str, Any], columns: Columns, note: str = "",
    minus_default: bool = False,
) -> Table:  # fmt: skip
    shown = [(title, key) for title, key in columns if key in rankings[DEFAULT]]
    rows = []
    for name in RANKINGS[1:] if minus_default else RANKINGS:
        figures = rankings[name]
        cells = [
            _difference(**figures[key]["minus_default"])
            if minus_default
            else _cell(key, figures[key]["value"])
            for _, key in shown
        ]
        rows.append((name, *cells))
    return Table(title, ("", *(title for title, _ in shown)), rows, note)


def _cell(key: str, value: float | None) -> str:
    if value is not None and key == "cpu":
        return cell(1000 * value, 1)
    return cell(value)


def _difference(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:+.3f}" if low is None else f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


def _curve_table(title: str, curve: Sequence[dict[str, Any]]) -> Table:
    keys = [key for key in ("share", "hit", "hit supportable", "paths") if key in curve[0]["first"]]
    words, halves = {"hit": "label in 3", "hit supportable": "supportable"}, ("first", "second")
    rows = [
        (f"{row['rho']:g}", *(cell(row[half][key]) for half in halves for key in keys))
        for row in curve
    ]
    columns = ("rho", *(f"{words.get(key, key)}, {half} half" for half in halves for key in keys))
    return Table(title, columns, rows, "At three paths, on either half of the links.")
