"""The tables and plots of the part `explainers`, from its runs alone.

Beside ours stand the figures that the PaGE-Link paper prints (WWW 2023, the tables of ROC-AUC and
path hit rate). Its AugCitation is in the authors' repository, but not at hand here; ours are made
from other citation graphs, so that only the order of magnitude can be compared there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pagelink.bench.answers import DEFAULT
from pagelink.bench.measures import BUDGETS, LABELS, SHAPE, WORTH, Columns
from pagelink.bench.paper.explainers import BOUND, INTERVALS, VISIBLE
from pagelink.bench.paper.report import Plot, Table
from pagelink.bench.power_link import COLUMNS, HDR, PUBLISHED_NOTE, RANKED_LINKS
from pagelink.bench.runs import Figures, Run, cell, interval_cell, mean_cell
from pagelink.measure.verdict import VERDICTS
from pagelink.rivals.registry import RIVALS

PUBLISHED: dict[str, dict[str, Mapping[str, float]]] = {
    dataset: {
        name: dict(zip(("auc", *(f"hit rate@{b}" for b in BUDGETS)), row, strict=True))
        for name, row in rows.items()
    }
    for dataset, rows in {
        "UserItemAttr": {
            "PaGE-Link": (0.954, 0.163, 0.705, 0.790, 0.907),
            "GNNExp-Link": (0.608, 0.000, 0.008, 0.016, 0.046),
            "PGExp-Link": (0.578, 0.000, 0.032, 0.039, 0.101),
        },
        "AugCitation": {
            "PaGE-Link": (0.928, 0.007, 0.194, 0.425, 0.645),
            "GNNExp-Link": (0.829, 0.000, 0.002, 0.019, 0.064),
            "PGExp-Link": (0.586, 0.000, 0.000, 0.000, 0.002),
        },
    }.items()
}
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


_TOLD = ("supported", "structure_against")
VERDICT_COLUMNS = (
    ("supported", _TOLD[:1]),
    ("no help", tuple(verdict for verdict in VERDICTS if verdict not in _TOLD)),
    ("against", _TOLD[1:]),
)
AMINER_NOTE = (
    "The authors' AugCitation is in their repository, but not at hand here: this is their "
    "procedure on another citation graph, so the rows of the paper are not comparable with ours. "
    "A run on AMiner needs only `--aminer PATH`, the public file. The row `paper` has the released "
    "settings for AugCitation, and so have rows that end in `-released`."
)
MODEL_FREE = "degree"
TUNED = ("gnnexp", "pgexp")
"""Rivals that are there a second time, with the settings of the released code."""


def summary(runs: Sequence[Run]) -> list[Table]:
    """One short table over all data sets: agreement with labels, truth to the model, cost."""
    lines, heads = [], ["", "mask AUC", "label in 3", "share of greedy", "supported", "CPU ms"]
    for rows in by_subject(runs).values():
        bound = rows[BOUND][0]
        lines.append((f"**{bound.key['title']}**", *[""] * (len(heads) - 1)))
        for name, found in rows.items():
            if name in RIVALS:
                named = row_name(name, found, bound.figures["links"])
                figures = [_mean(found, figure) for figure in ("auc", "label@3", "share@3")]
                supported = mean_cell([run.figures["verdicts"]["supported"] for run in found], 2)
                lines.append((named, *figures, supported, _mean(found, "cpu", 1, 1000)))
    note = (
        "`degree` never looks at the model: what it reaches in the first two columns is found "
        "without one. `share of greedy`: the effect of three paths on the model's score. "
        "`supported`: the share of links whose paths together speak for the link."
    )
    return [Table("All explainers", tuple(heads), lines, note)] if lines else []


def by_subject(runs: Sequence[Run]) -> dict[str, dict[str, list[Run]]]:
    """Runs by subject and row, explainers in the order of the registry.

    A folder may hold runs on other links or another model of the same name. Only those that share
    everything with the subject's greedy search, the measure of all, are of one table; a subject
    without it has none.
    """
    order = [*RIVALS, BOUND, VISIBLE, INTERVALS]
    known = [run for run in runs if run.figures.get("row") in order]
    ground = {
        run.key["subject"]: {k: v for k, v in run.key.items() if k not in ("row", "settings")}
        for run in known
        if run.figures["row"] == BOUND
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


def tables(runs: Sequence[Run]) -> Iterator[Table]:
    """For each data set: against its labels, against its model, shape and cost, Power-Link's."""
    for rows in by_subject(runs).values():
        first = next(iter(rows.values()))[0]
        title, published = first.key["title"], first.key["published"]
        bound = rows[BOUND][0].figures
        count = bound["links"]
        if bound["labelled"]:
            yield _labels(rows, title, count, published)
        yield _worth(rows, title, count)
        yield _shape(rows, title, count)
        if any(run.figures.get(HDR) is not None for runs in rows.values() for run in runs):
            yield _power_link(rows, title, count)


def row_name(name: str, runs: Sequence[Run], links: int) -> str:
    """An explainer, with what a reader must know of its row."""
    size = runs[0].figures["links"]
    words = [f"{size} links"] if size < links else []
    words += ["no model"] if name == MODEL_FREE else []
    words += ["tuned"] if name in TUNED else []
    return f"{name} ({', '.join(words)})" if words else name


def _labels(rows: dict[str, list[Run]], title: str, links: int, published: str | None) -> Table:
    lines = [
        (row_name(name, runs, links), *_cells(runs, LABELS))
        for name, runs in rows.items()
        if name not in (INTERVALS, BOUND)
    ]
    lines += [
        (name, *(cell(row.get(figure)) for _, figure, _ in LABELS))
        for name, row in published_rows(published).items()
    ]
    note = (
        "The row `degree` never looks at the model: what it reaches says that these labels are "
        "found without one, and no more. The row "
        f"`{VISIBLE}` is what a mask gets merely for being lowest where the model cannot see: "
        "gnnexp and pgexp, which are tuned, are to be read against it, also where they exceed the "
        "paper's; gnnexp-released and pgexp-released have the settings of the released code. AUC "
        "and hit rate (HR) are of the mask; `label in n`: a labelled path is among the "
        "first n; `supportable`: over the "
        f"{rows[BOUND][0].figures['links supportable']} links where a labelled path moves the "
        "score up at all; precision and recall are of five paths. ± is the spread over "
        f"{max(len(runs) for runs in rows.values())} seeds."
    )
    if "AugCitation" in title:
        note = f"{AMINER_NOTE} {note}"
    return Table(f"{title}: {links} links against the labels", _heads(LABELS), lines, note)


def _worth(rows: dict[str, list[Run]], title: str, links: int) -> Table:
    bound = rows[BOUND][0].figures
    compared = _compared(rows)
    lines = []
    for name, runs in rows.items():
        if name in (INTERVALS, VISIBLE):
            continue
        difference = compared.get(name, {}).get("minus default")
        beside = interval_cell(*difference) if difference and name != DEFAULT else "-"
        verdicts = [
            mean_cell([sum(run.figures["verdicts"].get(v, 0.0) for v in words) for run in runs], 2)
            for _, words in VERDICT_COLUMNS
        ]
        lines.append((row_name(name, runs, links), *_cells(runs, WORTH), beside, *verdicts))
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
    heads = (*_heads(WORTH), "minus default", *(head for head, _ in VERDICT_COLUMNS))
    return Table(f"{title}: {links} links against the model", heads, lines, note)


def _shape(rows: dict[str, list[Run]], title: str, links: int) -> Table:
    lines = []
    for name, runs in rows.items():
        if name in (INTERVALS, VISIBLE):
            continue
        reasons: dict[str, float] = {}
        for run in runs:
            for reason, share in run.figures["reasons"].items():
                reasons[reason] = reasons.get(reason, 0.0) + share / len(runs)
        without = ", ".join(f"{name} {share:.2f}" for name, share in sorted(reasons.items()))
        cost = _mean(runs, "cpu", 1, 1000), _mean(runs, "training", 1), _mean(runs, "peak MB", 0)
        lines.append((row_name(name, runs, links), *_cells(runs, SHAPE), without or "-", *cost))
    heads = (*_heads(SHAPE), "without paths", "CPU ms per link", "training CPU s", "peak MB")
    note = (
        "What 3 paths look like, and what they cost on one thread: the peak is that of the whole "
        "process, and SubgraphX is run on few links and seeds because of its time."
    )
    return Table(f"{title}: shape and cost", heads, lines, note)


def _power_link(rows: dict[str, list[Run]], title: str, links: int) -> Table:
    lines = [
        (row_name(name, runs, links), *_cells(runs, COLUMNS))
        for name, runs in rows.items()
        if name not in (INTERVALS, VISIBLE)
    ]
    note = (
        "Fidelity is of the soft mask, as a change of the probability whichever way it goes: "
        "Fidelity+ by messages weighted by 1 less the mask (high is good), Fidelity- by messages "
        "weighted by the mask (low is good); pruned edges have mask 0, so that pruning alone "
        "raises the sparsity. HdR:5 is the share of links (the first "
        f"{RANKED_LINKS} at most) whose target ranks worse, among all nodes of its type, without "
        f"the facts of the first five paths. {PUBLISHED_NOTE}"
    )
    return Table(f"{title}: by the metrics of Power-Link", _heads(COLUMNS), lines, note)


def plots(runs: Sequence[Run]) -> Iterator[Plot]:
    """For each data set, agreement with labels beside truth to the model."""
    for rows in by_subject(runs).values():
        title = next(iter(rows.values()))[0].key["title"]
        if rows[BOUND][0].figures["labelled"]:
            bars = []
            for name, of_row in rows.items():
                aucs = [run.figures["auc"] for run in of_row if run.figures.get("auc") is not None]
                if aucs:
                    bars.append((name, sum(aucs) / len(aucs), min(aucs), max(aucs)))
            note = "Lines: lowest and highest seed. degree knows no model."
            yield Plot(f"{title}: mask ROC-AUC", "", "ROC-AUC", bars=bars, note=note)
        if INTERVALS in rows:
            shares = [(name, *row["share"]) for name, row in _compared(rows).items()]
            yield Plot(
                f"{title}: effect of three paths, as a share of greedy", "", "share of greedy",
                bars=[bar for bar in shares if bar[1] is not None],
                note="Lines: 95 % bootstrap intervals over links.",
            )  # fmt: skip


def _heads(columns: Columns) -> tuple[str, ...]:
    return ("", *(head for head, _, _ in columns))


def _cells(runs: Sequence[Run], columns: Columns) -> list[str]:
    return [_mean(runs, figure, digits) for _, figure, digits in columns]


def _mean(runs: Sequence[Run], figure: str, digits: int = 3, factor: float = 1.0) -> str:
    values = [run.figures.get(figure) for run in runs]
    return mean_cell([None if value is None else factor * value for value in values], digits)
