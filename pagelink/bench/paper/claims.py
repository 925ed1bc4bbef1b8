"""The claims of the paper beside what came out: a conclusion, two tables and pictures.

All of it is made from stored runs, for the page of the docs that goes through the paper claim by
claim. Figures of the paper are `tables.PUBLISHED`; those of its released code were measured with
that code on its own data, and stand here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pagelink.bench.answers import DEFAULT
from pagelink.bench.measures import BUDGETS
from pagelink.bench.paper import ablation, cases, paths, subgraphs, time
from pagelink.bench.paper.explainers import BOUND
from pagelink.bench.paper.plan import CITATION, OWN_CITATION, TITLES, by_dataset, by_label
from pagelink.bench.paper.report import Table, draw
from pagelink.bench.paper.tables import MODEL_FREE, PUBLISHED, by_subject
from pagelink.bench.runs import Run, RunStore, cell, mean_cell
from pagelink.bench.subjects import RELEASED
from pagelink.views.text import enumerated

FIGURES = ("auc", *(f"hit rate@{budget}" for budget in BUDGETS))
RELEASED_CODE: dict[str, Mapping[str, float]] = {
    name: dict(zip(FIGURES, row, strict=True))
    for name, row in {
        "PaGE-Link": (0.962, 0.153, 0.674, 0.848, 0.938),
        "GNNExp-Link": (0.605, 0.000, 0.008, 0.016, 0.047),
        "PGExp-Link": (0.580, 0.000, 0.031, 0.039, 0.101),
    }.items()
}
"""The released code on the released UserItemAttr: mean of seeds 0 to 2, of the others seed 0."""
RELEASED_FIRST = {1: 0.744, 3: 0.922, 5: 0.977}
"""The released code, seed 0: a labelled path among its first paths."""
LOSSES = {
    "released settings": '`path_loss="released"`',
    "released settings, L_path as printed": '`path_loss="sum"`, as printed',
    "released settings, L_path with means": '`path_loss="mean"`',
}
"""Rows of the part `reference` that differ in L_path."""
OURS = {
    "PaGE-Link": ("paper",),
    "GNNExp-Link": ("gnnexp-released", "gnnexp"),
    "PGExp-Link": ("pgexp-released", "pgexp"),
}
"""Under which names the three explainers of the paper are run here, as released first."""
PICTURED = (DEFAULT, "paper", "gnnexp-released", "gnnexp", "pgexp-released", "pgexp")
"""The panels of the paper's figure of one link, with the default before them."""
CASE, PATHS, EDGES = (
    f"{name}.svg" for name in ("case-three-facts", "case-three-paths", "time-against-edges")
)
LEMMAS = {label: f"subgraphx-by-{name}.svg" for name, label in subgraphs.AXES.items()}
"""Counts of subgraphs, by what they are drawn against."""


def conclusion(store: RunStore) -> str:
    """In words, what the released data say; nothing where they were not run."""
    rows = by_subject(list(store.all("explainers"))).get(RELEASED, {})
    if any(name not in rows for name in (DEFAULT, "paper", MODEL_FREE)):
        return ""
    ours, paper, degree = (rows[name] for name in (DEFAULT, "paper", MODEL_FREE))
    printed, released = PUBLISHED["UserItemAttr"]["PaGE-Link"]["auc"], RELEASED_CODE["PaGE-Link"]
    bound, best = rows[BOUND][0].figures, ours[0].figures
    links, able = bound["links"], bound["links supportable"]
    missed = round((1 - best["label@3"]) * links)
    mistaken = round((1 - best["label@3 supportable"]) * able)
    return (
        f"- **The published figures are reproduced.** ROC-AUC of the mask on UserItemAttr: "
        f"{cell(printed)} in the paper, {cell(released['auc'])} with its released code, "
        f"{_mean(paper, 'auc')} here with {_loss(paper)}.\n"
        f"- **They do not measure what the model does.** A ranking by degrees that never looks at "
        f"the model has {_mean(degree, 'auc')}. Removing the three best paths of the paper's "
        f"method changes the score of the released model by {_change(paper)} logits on average, "
        f"removing those of the default by {_change(ours)}, and those of a greedy search over all "
        f"paths by {-bound['effect@3']:+.2f}.\n"
        f"- **The labels do not always describe the model.** For {links - able} of {links} links "
        "no labelled path has a positive effect: removing it does not lower the score. Of the "
        f"{missed} links for which the default shows no labelled path, {missed - mistaken} are "
        "such links.\n"
    )


def label_table(runs: Sequence[Run]) -> Table | None:
    """The paper's tables of ROC-AUC and path hit rate: its figures, its code's and ours."""
    lines: list[tuple[str, ...]] = []
    for subject, rows in by_subject(runs).items():
        if subject not in (RELEASED, CITATION, OWN_CITATION):
            continue
        first = rows[BOUND][0]
        lines.append((f"**{first.key['title']}**", *[""] * len(FIGURES)))
        for name, own in OURS.items():
            printed = PUBLISHED[first.key["published"]][name]
            lines.append((f"{name}, paper", *(cell(printed[figure]) for figure in FIGURES)))
            if subject == RELEASED:
                found = (cell(RELEASED_CODE[name][figure]) for figure in FIGURES)
                lines.append((f"{name}, released code", *found))
            for each in own:
                if each in rows:
                    words = _loss(rows[each]) if each == "paper" else _seeds(rows[each])
                    figures = (_mean(rows[each], figure) for figure in FIGURES)
                    lines.append((f"`{each}`, {words}", *figures))
        if MODEL_FREE in rows:
            figures = (_mean(rows[MODEL_FREE], figure) for figure in FIGURES)
            lines.append((f"`{MODEL_FREE}`, no model", *figures))
    if not lines:
        return None
    return Table(
        "Tables 4 and 6: ROC-AUC and path hit rate", ("", "AUC", *(f"HR@{b}" for b in BUDGETS)),
        lines,
        "AugCitation is built from another citation graph here, so the paper's figures on it are "
        "not comparable with ours. `gnnexp` and `pgexp` are tuned; names that end in `-released` "
        "have the settings of the released code.",
    )  # fmt: skip


def loss_table(runs: Sequence[Run]) -> Table | None:
    """The forms of L_path on the released data, beside the paper and its released code."""
    found = by_label(runs, LOSSES)
    if not found:
        return None
    printed = PUBLISHED["UserItemAttr"]["PaGE-Link"]
    code = [*RELEASED_CODE["PaGE-Link"].values(), *RELEASED_FIRST.values()]
    figures = ("auc", *ablation.HITS, *(f"first {n}" for n in RELEASED_FIRST))
    lines = [
        ("paper", *(cell(printed[name]) for name in FIGURES), *["-"] * len(RELEASED_FIRST)),
        ("released code", *map(cell, code)),
        *(
            (f"{LOSSES[label]}, {_seeds(own)}", *(_mean(own, name) for name in figures))
            for label, own in found.items()
        ),
    ]
    heads = ("AUC", *(f"HR@{b}" for b in BUDGETS), *(f"label in {n}" for n in RELEASED_FIRST))
    return Table("The forms of L_path on the released UserItemAttr", ("", *heads), lines, "")


def count_table(store: RunStore) -> Table | None:
    """Statements of the paper that can be counted, and the counts."""
    lines = [*_pruned(store), *_output_paths(store), *_grown(store)]
    if not lines:
        return None
    return Table(
        "What else can be counted", ("claim", "paper", "here"), lines,
        "From the parts `pruning`, `paths` and `time` of the benchmark, which has the full tables.",
    )  # fmt: skip


def _pruned(store: RunStore) -> Iterator[tuple[str, str, str]]:
    by_name = {run.name: run.figures for run in store.all("pruning")}
    for row in by_name.get("proposition", {"rows": []})["rows"][-1:]:
        claim = f"Proposition 4.1, {row['nodes']:,} nodes: paths over subgraphs"
        yield claim, "tends to 0", f"10^{row['paths']:,.0f} over 10^{row['subgraphs']:,.0f}"
    for row in by_name.get("theorem", {"rows": []})["rows"]:
        if (row["degree"], row["core"]) == (7.0, 5):
            counted = np.mean(row["counted"], axis=0)
            for place, what in enumerate(("nodes", "edges")):
                claim = f"Theorem 5.1, mean degree 7, k = 5: share of {what} that stay"
                found = f"{row['predicted'][place]:.3f} by B.1, {counted[place]:.3f} counted"
                yield claim, "about 0.69", found
    for data, core in ((RELEASED, "2"), (CITATION, "3")):
        if f"{data} k-cores" in by_name:
            after = by_name[f"{data} k-cores"]["by_core"][core]
            claim = f"Section 5.1, links cut apart by the {core}-core, {TITLES[data]}"
            yield claim, "very unlikely", cell(after["path of 3"])


def _output_paths(store: RunStore) -> Iterator[tuple[str, str, str]]:
    for data, runs in by_dataset(list(store.all(paths.NAME))).items():
        for found in by_label(runs, [paths.PAPER]).values():
            most = [run.figures["rates"][paths.AMONG][str(paths.MOST)] for run in found]
            claim = f"Appendix E, a labelled path among {paths.MOST} paths, {TITLES[data]}"
            yield claim, "1 when \\|P\\| gets large", mean_cell(most)


def _grown(store: RunStore) -> Iterator[tuple[str, str, str]]:
    by_name = {run.name: run.figures for run in store.all(time.NAME)}
    for line in by_name.get("time against edges", {"lines": []})["lines"]:
        claim = f"Figure 2b, time against {line['edges'][0]:,.0f} to {line['edges'][-1]:,.0f} edges"
        yield claim, "linear", f"R² {line['r2']:.3f}"
    for row, (_, formula, _) in time.ROWS.items():
        if formula and f"growth {row}" in by_name:
            figures = by_name[f"growth {row}"]
            rounds = figures["in_rounds"]
            power = f"E^{figures['in_edges']:.2f}" + ("" if rounds is None else f", T^{rounds:.2f}")
            yield f"Table 3, {row}", formula, power
    rows: Sequence[Mapping[str, Any]]
    rows = by_name.get(f"{subgraphs.NAME} by degree", {"rows": []})["rows"]
    if rows:
        last, budget = rows[-1], rows[0]["budget"]
        found = f"{last['sets']:,} connected sets of nodes, {last['trees']:,} trees"
        claim = f"Lemma C.1, B = {budget}, D = {last['degree']}"
        yield claim, "subgraphs at least as many as trees", found
        power = f"D^{subgraphs.growth(rows, 'trees'):.2f}"
        yield f"Lemma C.2, B = {budget}: trees per node", f"D^{2 * budget - 2}", power


def pictures(store: RunStore) -> dict[str, tuple[str, str]]:
    """The pictures of the page: by file name, what one who cannot see them reads, and the SVG."""
    found: dict[str, tuple[str, str]] = {}
    runs = list(store.all(cases.NAME))
    drawn = cases.drawings(runs, PICTURED)
    if CASE in drawn:
        found[CASE] = cases.first_in_words(runs, PICTURED), drawn[CASE]
    if PATHS in drawn:
        found[PATHS] = cases.second_in_words(runs), drawn[PATHS]
    for plot in time.plots(list(store.all(time.NAME))):
        name = LEMMAS.get(plot.x_label, EDGES)
        if name not in found:
            lines = enumerated([line.label for line in plot.series])
            found[name] = (
                f"{plot.title}: {plot.y_label} against {plot.x_label}, {lines}.",
                draw(plot),
            )
    return found


def pictures_markdown(store: RunStore, name: str) -> str:
    """A picture as Markdown; nothing where it was not run."""
    if name not in (drawn := pictures(store)):
        return ""
    return f"![{drawn[name][0]}](images/{name})\n"


def _mean(runs: Sequence[Run], figure: str) -> str:
    return mean_cell([run.figures.get(figure) for run in runs])


def _change(runs: Sequence[Run]) -> str:
    return f"{-np.mean([run.figures['effect@3'] for run in runs]):+.2f}"


def _loss(runs: Sequence[Run]) -> str:
    form = runs[0].key["settings"].get("path_loss", "mean")
    return f'`path_loss="{form}"`, {_seeds(runs)}'


def _seeds(runs: Sequence[Run]) -> str:
    return "one seed" if len(runs) == 1 else f"{len(runs)} seeds"
