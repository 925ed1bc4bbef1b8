"""The figures that the PaGE-Link paper prints (WWW 2023, the tables of ROC-AUC and path hit rate).

Its AugCitation is made from an extract of AMiner that was not released; ours are made from other
citation graphs, so that only the order of magnitude can be compared there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pagelink.bench.paper.answers import DEFAULT
from pagelink.bench.paper.explainers import GREEDY, INTERVALS, VISIBLE
from pagelink.bench.paper.plan import Plot, Table, cell, interval_cell, mean_cell
from pagelink.bench.runs import Figures, Run
from pagelink.rivals.registry import RIVALS

PUBLISHED: dict[str, dict[str, Mapping[str, float]]] = {
    "UserItemAttr": {
        "PaGE-Link": {
            "auc": 0.954, "hit rate@10": 0.163, "hit rate@50": 0.705, "hit rate@100": 0.790,
            "hit rate@200": 0.907,
        },
        "GNNExp-Link": {
            "auc": 0.608, "hit rate@10": 0.000, "hit rate@50": 0.008, "hit rate@100": 0.016,
            "hit rate@200": 0.046,
        },
        "PGExp-Link": {
            "auc": 0.578, "hit rate@10": 0.000, "hit rate@50": 0.032, "hit rate@100": 0.039,
            "hit rate@200": 0.101,
        },
    },
    "AugCitation": {
        "PaGE-Link": {
            "auc": 0.928, "hit rate@10": 0.007, "hit rate@50": 0.194, "hit rate@100": 0.425,
            "hit rate@200": 0.645,
        },
        "GNNExp-Link": {
            "auc": 0.829, "hit rate@10": 0.000, "hit rate@50": 0.002, "hit rate@100": 0.019,
            "hit rate@200": 0.064,
        },
        "PGExp-Link": {
            "auc": 0.586, "hit rate@10": 0.000, "hit rate@50": 0.000, "hit rate@100": 0.000,
            "hit rate@200": 0.002,
        },
    },
}  # fmt: skip
"""By data set, explainer and figure."""


def published_rows(dataset: str | None) -> dict[str, Mapping[str, float]]:
    """The rows that the paper prints for a data set; none for one that it does not have.

    Example:
        >>> published_rows("UserItemAttr")["paper: PaGE-Link"]["auc"]
        0.954
        >>> published_rows(None)
        {}
    """
    return {f"paper: {name}": row for name, row in PUBLISHED.get(dataset or "", {}).items()}


# The tables and plots of the part `explainers`, from its runs alone.


Columns = Sequence[tuple[str, str, int]]
"""Heading, figure, digits."""
LABELS: Columns = (
    ("AUC", "auc", 3), ("AUC unpruned", "auc unpruned", 3),
    ("HR@10", "hit rate@10", 3), ("HR@50", "hit rate@50", 3), ("HR@100", "hit rate@100", 3),
    ("HR@200", "hit rate@200", 3), ("label in 1", "label@1", 3), ("3", "label@3", 3),
    ("5", "label@5", 3), ("supportable: 1", "label@1 supportable", 3),
    ("3", "label@3 supportable", 3), ("5", "label@5 supportable", 3),
    ("precision", "precision", 3), ("recall", "recall", 3),
)  # fmt: skip
WORTH: Columns = (
    ("share 1", "share@1", 3), ("3", "share@3", 3), ("5", "share@5", 3),
    ("sufficiency", "sufficiency", 3), ("as a share", "sufficiency share", 3),
    ("connection", "connection", 3), ("characterisation", "characterisation", 3),
)  # fmt: skip
SHAPE: Columns = (
    ("paths", "paths", 2), ("length", "length", 2), ("log degree", "log degree", 2),
    ("sparsity", "sparsity", 3), ("diversity", "diversity", 3), ("coverage", "coverage", 3),
)  # fmt: skip
VERDICTS = (
    ("supported", ("supported",)), ("no help", ("structure_not_used", "not_by_these")),
    ("against", ("structure_against",)),
)  # fmt: skip
AMINER_NOTE = (
    "The extract of AMiner that the authors used was not released and is not available here: this "
    "is their recipe on another citation graph, so the rows of the paper are no measure of ours. "
    "A run on AMiner needs only `--aminer PATH`, the public file. The row `paper` has the released "
    "settings for UserItemAttr here, too."
)
MODEL_FREE = "degree"


def summary(runs: Sequence[Run]) -> list[Table]:
    """One short table over all data sets: agreement with labels, truth to the model, cost."""
    lines, heads = [], ["", "mask AUC", "label in 3", "share of greedy", "supported", "CPU ms"]
    for rows in by_subject(runs).values():
        bound = rows[GREEDY][0]
        lines.append((f"**{bound.key['title']}**", *[""] * (len(heads) - 1)))
        for name, found in rows.items():
            if name in RIVALS:
                lines.append((
                    row_name(name, found, bound.figures["links"]),
                    *(mean_cell([run.figures.get(figure) for run in found])
                      for figure in ("auc", "label@3", "share@3")),
                    mean_cell([run.figures["verdicts"]["supported"] for run in found], 2),
                    mean_cell([_scaled(run, "cpu", 1000) for run in found], 1),
                ))  # fmt: skip
    note = (
        "`degree` never looks at the model: what it reaches in the first two columns is found "
        "without one. `share of greedy`: the effect of three paths on the model's score. "
        "`supported`: the share of links whose paths together speak for the link."
    )
    return [Table("All explainers", tuple(heads), tuple(lines), note)] if lines else []


def by_subject(runs: Sequence[Run]) -> dict[str, dict[str, list[Run]]]:
    """Runs by subject and row, explainers in the order of the registry.

    A folder may hold runs on other links or another model of the same name. Only those that share
    everything with the subject's greedy search, the measure of all, are of one table; a subject
    without it has none.
    """
    order = [*RIVALS, GREEDY, VISIBLE, INTERVALS]
    known = [run for run in runs if run.figures.get("row") in order]
    ground = {
        run.key["subject"]: {k: v for k, v in run.key.items() if k not in ("row", "settings")}
        for run in known
        if run.figures["row"] == GREEDY
    }
    found: dict[str, dict[str, list[Run]]] = {}
    for run in sorted(known, key=lambda run: order.index(run.figures["row"])):
        shared = ground.get(run.key["subject"])
        if shared is not None and shared.items() <= run.key.items():
            found.setdefault(run.key["subject"], {}).setdefault(run.figures["row"], []).append(run)
    return found


def _compared(rows: dict[str, list[Run]]) -> Figures:
    """The intervals of the rows that they were made from."""
    if INTERVALS not in rows:
        return {}
    made = rows[INTERVALS][0]
    return {
        name: row
        for name, row in made.figures["rows"].items()
        if made.key["runs"].get(name) == [run.date for run in rows.get(name, ())]
    }


def tables(runs: Sequence[Run]) -> list[Table]:
    """Three tables for each data set: against its labels, against its model, shape and cost."""
    found = []
    for rows in by_subject(runs).values():
        first = next(iter(rows.values()))[0]
        title, published = first.key["title"], first.key["published"]
        bound = rows[GREEDY][0].figures
        count = bound["links"]
        if bound["labelled"]:
            found.append(_labels(rows, title, count, published))
        found.append(_worth(rows, title, count))
        found.append(_shape(rows, title, count))
    return found


def row_name(name: str, runs: Sequence[Run], links: int) -> str:
    """An explainer, with what a reader must know of its row."""
    size = runs[0].figures["links"]
    words = [f"{size} links"] if size < links else []
    words += ["no model"] if name == MODEL_FREE else []
    return f"{name} ({', '.join(words)})" if words else name


def _labels(rows: dict[str, list[Run]], title: str, links: int, published: str | None) -> Table:
    lines = [
        (row_name(name, runs, links), *_cells(runs, LABELS))
        for name, runs in rows.items()
        if name not in (INTERVALS, GREEDY)
    ]
    lines += [
        (name, *(cell(row.get(figure)) for _, figure, _ in LABELS))
        for name, row in published_rows(published).items()
    ]
    note = (
        "The row `degree` never looks at the model: what it reaches says that these labels are "
        "found without one, and no more. The row "
        f"`{VISIBLE}` is what a mask gets merely for being lowest where the model cannot see: "
        "gnnexp and pgexp are to be read against it, also where they exceed the paper's. AUC "
        "and hit rate (HR) are of the mask; `label in n`: a labelled path is among the "
        "first n; `supportable`: over the "
        f"{rows[GREEDY][0].figures['links supportable']} links where a labelled path moves the "
        "score up at all; precision and recall are of five paths. ± is the spread over "
        f"{max(len(runs) for runs in rows.values())} seeds."
    )
    if "AugCitation" in title:
        note = f"{AMINER_NOTE} {note}"
    return Table(f"{title}: {links} links against the labels", _heads(LABELS), tuple(lines), note)


def _worth(rows: dict[str, list[Run]], title: str, links: int) -> Table:
    bound = rows[GREEDY][0].figures
    compared = _compared(rows)
    lines = []
    for name, runs in rows.items():
        if name in (INTERVALS, VISIBLE):
            continue
        least = compared.get(name, {}).get("minus default")
        difference = "-"
        if least and least[0] is not None and name != DEFAULT:
            difference = interval_cell(*least)
        verdicts = [
            mean_cell([sum(run.figures["verdicts"].get(v, 0.0) for v in words) for run in runs], 2)
            for _, words in VERDICTS
        ]
        lines.append((row_name(name, runs, links), *_cells(runs, WORTH), difference, *verdicts))
    note = (
        "What really removing the facts of up to 1, 3 and 5 paths does to the score, as a share of "
        f"the greedy search over all paths; the difference to {DEFAULT} is at 3 paths, "
        "with the paired 95 % bootstrap interval over links. Sufficiency: what 3 "
        "paths bring back alone, also as a share of greedy. The model's own ROC-AUC is "
        f"{cell(bound['model auc'])}, without edges {cell(bound['model auc without edges'])}; the "
        f"greedy effect is not positive for {bound['links not positive']} links, sufficiency not "
        f"defined for {bound['sufficiency: links without']}. `supported`, `no help`, `against`: "
        "all paths together speak for the link and so do these; these do not; all together do not. "
        "The default chooses anew for each number of paths, the others are cut."
    )
    heads = (*_heads(WORTH), "minus default", *(head for head, _ in VERDICTS))
    return Table(f"{title}: {links} links against the model", heads, tuple(lines), note)


def _shape(rows: dict[str, list[Run]], title: str, links: int) -> Table:
    lines = []
    for name, runs in rows.items():
        if name in (INTERVALS, VISIBLE):
            continue
        reasons: dict[str, float] = {}
        for run in runs:
            for reason, share in run.figures["reasons"].items():
                reasons[reason] = reasons.get(reason, 0.0) + share / len(runs)
        lines.append((
            row_name(name, runs, links), *_cells(runs, SHAPE),
            ", ".join(f"{name} {share:.2f}" for name, share in sorted(reasons.items())) or "-",
            mean_cell([_scaled(run, "cpu", 1000) for run in runs], 1),
            mean_cell([_scaled(run, "training", 1) for run in runs], 1),
            mean_cell([_scaled(run, "peak MB", 1) for run in runs], 0),
        ))  # fmt: skip
    heads = (
        *_heads(SHAPE), "without paths", "CPU ms a link", "training CPU s", "peak MB",
    )  # fmt: skip
    note = (
        "What 3 paths look like, and what they cost on one thread: the peak is that of the whole "
        "process, and SubgraphX is run on few links and seeds because of its time."
    )
    return Table(f"{title}: shape and cost", heads, tuple(lines), note)


def plots(runs: Sequence[Run]) -> list[Plot]:
    """For each data set, agreement with labels beside truth to the model."""
    found = []
    for rows in by_subject(runs).values():
        title = next(iter(rows.values()))[0].key["title"]
        labelled = rows[GREEDY][0].figures["labelled"]
        if labelled:
            found.append(Plot(
                f"{title}: mask ROC-AUC", "", "ROC-AUC",
                bars=_bars(rows, lambda run: run.figures.get("auc"), (INTERVALS, GREEDY)),
                note="Lines: lowest and highest seed. degree knows no model.",
            ))  # fmt: skip
        if INTERVALS in rows:
            bars = tuple(
                (name, *row["share"])
                for name, row in _compared(rows).items()
                if row["share"][0] is not None
            )
            found.append(Plot(
                f"{title}: effect of three paths, as a share of greedy", "", "share of greedy",
                bars=bars, note="Lines: 95 % bootstrap intervals over links.",
            ))  # fmt: skip
    return found


def _bars(
    rows: dict[str, list[Run]], figure: Callable[[Run], Any], without: Sequence[str]
) -> tuple[tuple[str, float, float, float], ...]:
    bars = []
    for name, runs in rows.items():
        values = [] if name in without else [figure(run) for run in runs]
        known = [float(value) for value in values if value is not None]
        if known:
            bars.append((name, sum(known) / len(known), min(known), max(known)))
    return tuple(bars)


def _heads(columns: Columns) -> tuple[str, ...]:
    return ("", *(head for head, _, _ in columns))


def _cells(runs: Sequence[Run], columns: Columns) -> list[str]:
    return [
        mean_cell([run.figures.get(figure) for run in runs], digits)
        for _, figure, digits in columns
    ]


def _scaled(run: Run, figure: str, factor: float) -> float | None:
    value = run.figures.get(figure)
    return None if value is None else factor * float(value)
