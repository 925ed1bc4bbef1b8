"""The part `strongest`: the facts that count most, anywhere in what the model sees.

Every row removes as many facts of a link as the paths have that the default returns for it. What
the rivals answer does not depend on that number: they order facts, and the first ones count. So
their answers are kept link by link, and are not found again when the default changes. Times are
to be compared within one folder, made by one version on one machine: rivals share its machinery.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pagelink.bench.answers import DEFAULT, make_explainer
from pagelink.bench.measures import with_interval
from pagelink.bench.paper.report import Table, say_tables
from pagelink.bench.runs import (
    Figures,
    RunStore,
    cell,
    check_names,
    interval_cell,
    plain,
    plain_list,
    say,
    shown_progress,
    timed,
)
from pagelink.bench.subjects import Subject, load_subject
from pagelink.datasets.folders import DataNotFoundError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import fact_of
from pagelink.measure import evidence
from pagelink.measure.strongest import strongest_facts
from pagelink.models.link_model import node_inputs
from pagelink.rivals.facts import (
    FactSets,
    VisibleFacts,
    facts_at_random,
    facts_by_integrated_gradient,
    facts_by_occlusion,
    greedy_facts,
)
from pagelink.rivals.gnn_explainer import EPOCHS, ByRelation, facts_by_gnn_explainer
from pagelink.rivals.ground import Ground, fact_paths, facts_of
from pagelink.runtime.arrays import Doubles
from pagelink.runtime.undo import Undo
from pagelink.settings import Settings

NAME = "strongest"
LINKS, QUICK_LINKS = 100, 4
AT_ONCE, GREEDY_AT_ONCE, QUICK_AT_ONCE = 20, 2, 2
"""Links of one run file; the greedy search takes minutes for a link."""
SUBJECTS = ("movielens-sage", "hetionet-sage", "fb15k-rgcn", "vispub-sage")
QUICK_SUBJECTS = ("tiny-rgcn",)
QUICK_EPOCHS = 3
SETTINGS = Settings()
MOST = SETTINGS.paths_within_budget * SETTINGS.max_length
"""Facts that the rivals order, unless the paths of a link have more: see `Settings.longer`."""
OURS, PATHS = "strongest facts", "returned paths"
GREEDY, GNN, GNN_PLAIN = "greedy removal", "GNNExplainer", "GNNExplainer without entropy"
OCCLUSION, INTEGRATED, RANDOM = "occlusion", "integrated gradients", "random facts"
RIVALS = (RANDOM, INTEGRATED, GNN, GNN_PLAIN, OCCLUSION, GREEDY)
"""The quickest first."""
SLOW = (GNN_PLAIN, OCCLUSION, GREEDY)
"""Rows that may be taken on fewer links: on large graphs they take minutes for each."""
ROWS = (OURS, GREEDY, GNN, GNN_PLAIN, INTEGRATED, OCCLUSION, PATHS, RANDOM)
Timed = tuple[list[FactSets], list[float]]
"""For 1, 2, ... facts, the facts of each link and the CPU seconds to find them."""


def run_and_print(
    subjects: Sequence[str],
    out: Path,
    console: Console,
    *,
    links: int = LINKS,
    slow_links: int | None = None,
    seed: int = 0,
    quick: bool = False,
) -> list[Figures]:
    """Run all rows on all subjects, or what is left of it; print the tables and write them.

    Args:
        subjects: their names; all if empty.
        out: folder for the runs and the tables.
        console: where to print.
        links: number of links per subject at most.
        slow_links: number of links, the first ones, for the rows of `SLOW`; all if None.
        seed: of the explainers and the intervals.
        quick: tiny graphs.
    """
    chosen = check_names("subject", subjects, QUICK_SUBJECTS if quick else SUBJECTS)
    links = min(links, QUICK_LINKS) if quick else links
    store, found = RunStore(out / "runs"), []
    with shown_progress(console) as step:
        for name in chosen:
            step(f"{NAME}: {name}, model")
            try:
                subject = load_subject(name, links, seed, out / "subjects")
            except DataNotFoundError as error:
                say(console, f"{name} is left out: {error}")
                continue
            if not subject.pairs:
                say(console, f"{name} is left out: it predicts no test link.")
                continue
            found.append(run_subject(store, subject, seed, quick, step, slow_links))
    say_tables(
        list(map(table, found)), out, NAME, console, quick=quick, seed=seed,
        settings=SETTINGS.to_dict(), subjects=found,
    )  # fmt: skip
    return found


def run_subject(
    store: RunStore,
    subject: Subject,
    seed: int,
    quick: bool,
    step: Callable[[str], None],
    slow_links: int | None = None,
) -> Figures:
    """All figures of a subject; runs that are stored are not done again.

    Args:
        store: where runs are kept.
        subject: the model and its links.
        seed: of the explainers and the intervals.
        quick: few steps of learning.
        step: called with what comes next.
        slow_links: number of links, the first ones, for the rows of `SLOW`; all if None.
    """
    epochs = QUICK_EPOCHS if quick else EPOCHS
    made: list[PaGELink] = []

    def explainer() -> PaGELink:
        if not made:
            made.append(make_explainer(subject, DEFAULT, SETTINGS, seed))
            list(made[0].explain_many(subject.pairs[:1]))  # what is made once is not counted
        return made[0]

    def ours(pairs: Sequence[tuple[int, int]]) -> Figures:
        return answers_of(explainer(), pairs)

    def theirs(row: str, pairs: Sequence[tuple[int, int]], most: int) -> Figures:
        search = _search(row, subject, seed, epochs, most)
        each = [_prefixes(Ground.of(explainer(), [pair]), search) for pair in pairs]
        return {"per link": {key: [one[key] for one in each] for key in each[0]}}

    answers: dict[str, dict[str, list[Any]]] = {}
    for row in (OURS, *RIVALS):
        answers[row] = {}
        at_once = GREEDY_AT_ONCE if row == GREEDY else AT_ONCE
        at_once = QUICK_AT_ONCE if quick else at_once
        asked = subject.pairs[:slow_links] if row in SLOW else subject.pairs
        for first in range(0, len(asked), at_once):
            pairs = asked[first : first + at_once]
            of = f"{first + 1} to {first + len(pairs)}"
            step(f"{NAME}: {subject.name}, {row}, links {of}")
            key: Figures = {
                "subject": subject.name, "auc": plain(subject.separations.auc), "pairs": pairs,
                "seed": seed,
            }  # fmt: skip
            work = partial(ours, pairs)
            if row == OURS:
                key["settings"] = SETTINGS.to_dict()
            else:
                most = max(MOST, *answers[OURS]["facts"][first : first + len(pairs)])
                key |= {"most": most, "epochs": epochs if row in (GNN, GNN_PLAIN) else None}
                work = partial(theirs, row, pairs, most)
            run = store.do(NAME, f"{subject.name} {row} {of}", key, work)
            for name, values in run.figures["per link"].items():
                answers[row].setdefault(name, []).extend(values)
    return summed_up(subject, answers, seed)


def _search(
    row: str, subject: Subject, seed: int, epochs: int, most: int
) -> Callable[[Ground], Timed]:
    """How a rival finds its facts, and what it takes."""
    if row == GREEDY:
        return partial(_greedy, most)
    if row in (GNN, GNN_PLAIN):
        model, x_dict = ByRelation(subject.model), node_inputs(subject.data)
        learn = partial(
            facts_by_gnn_explainer, model=model, x_dict=x_dict, most=most, seed=seed,
            epochs=epochs, entropy=row == GNN,
        )  # fmt: skip
        return partial(_ordered, learn, most)
    plain_search: dict[str, Callable[[Ground], FactSets]] = {
        INTEGRATED: partial(facts_by_integrated_gradient, most=most),
        OCCLUSION: partial(facts_by_occlusion, most=most),
        RANDOM: partial(facts_at_random, most=most, seed=seed),
    }
    return partial(_ordered, plain_search[row], most)


def _greedy(most: int, ground: Ground) -> Timed:
    """The greedy search, with the time until each fact."""
    rounds, sets, seconds = greedy_facts(ground, most), [], [0.0]
    for _ in range(most):
        found, cpu = timed(partial(next, rounds))
        sets.append(found)
        seconds.append(seconds[-1] + cpu)
    return sets, seconds[1:]


def _ordered(rank: Callable[[Ground], FactSets], most: int, ground: Ground) -> Timed:
    """An order of facts that is found at once, whatever the number that is wanted."""
    ranked, cpu = timed(partial(rank, ground))
    return [[facts[:size] for facts in ranked] for size in range(1, most + 1)], [cpu] * most


def _prefixes(ground: Ground, search: Callable[[Ground], Timed]) -> dict[str, Any]:
    """Of one link, the effects and CPU seconds of 0, 1, ... facts; the facts really removed."""
    sets, seconds = search(ground)
    effects = ground.effects([0] * len(sets), [one for (one,) in sets])
    return {
        "effects": plain_list(np.append(0.0, effects)),
        "cpu": plain_list([0.0, *seconds]),
        "visible": len(VisibleFacts.of(ground).facts),
    }


# The default itself.


def answers_of(explainer: PaGELink, pairs: Sequence[tuple[int, int]]) -> Figures:
    """What the default returns for links side by side: its paths, and its strongest facts."""
    with Clock() as clock:
        explanations, seconds = timed(lambda: list(explainer.explain_many(pairs)))
    of_paths = [facts_of(paths) for paths in fact_paths(explainer, explanations)]
    strongest = strongest_sets(explainer, explanations)
    stated = [0.0 if e.strongest is None else e.strongest.effect for e in explanations]
    ground, every = Ground.of(explainer, pairs), range(len(pairs))
    effects = ground.effects(every, strongest)
    return {
        "per link": {
            "facts": [len(facts) for facts in of_paths],
            "strongest": [len(facts) for facts in strongest],
            "effect": plain_list(effects),
            "off": plain_list(np.abs(effects - stated)),
            "of paths": plain_list(ground.effects(every, of_paths)),
            "cpu": [clock.seconds / len(pairs)] * len(pairs),
            "cpu of all": [seconds / len(pairs)] * len(pairs),
        }
    }


class Clock(Undo):
    """While it is open, takes the CPU seconds of the step that looks for the strongest facts.

    That is the very step of the explanations, on the sets of paths that they chose.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

        def clocked(*given: Any) -> Any:
            found, seconds = timed(lambda: strongest_facts(*given))
            self.seconds += seconds
            return found

        names = vars(evidence)
        self.later(names.__setitem__, strongest_facts.__name__, strongest_facts)
        names[strongest_facts.__name__] = clocked


def strongest_sets(explainer: PaGELink, explanations: Sequence[Explanation]) -> FactSets:
    """The strongest facts of explanations; none where there were none to look for."""
    return [
        [] if explanation.strongest is None else [
            fact_of(explainer.graph, fact.edge.type, fact.edge.index, fact.nodes[1])
            for fact in explanation.strongest.facts
        ]
        for explanation in explanations
    ]  # fmt: skip


# From links to figures.


def summed_up(subject: Subject, answers: dict[str, dict[str, list[Any]]], seed: int) -> Figures:
    """The figures of all rows on a subject, with intervals over its links.

    Args:
        subject: the model and its links.
        answers: of the default, its figures by link; of each rival, `effects` and `cpu` by link and
            number of facts.
        seed: of the intervals.
    """
    own = answers[OURS]
    counts = np.array(own["facts"], dtype=np.int64)
    effects: dict[str, Doubles] = {OURS: np.array(own["effect"]), PATHS: np.array(own["of paths"])}
    cpu: dict[str, Doubles] = {OURS: np.array(own["cpu"]), PATHS: np.array(own["cpu of all"])}
    for row in RIVALS:
        for found, key in ((effects, "effects"), (cpu, "cpu")):
            by_link = zip(answers[row][key], counts.tolist(), strict=False)  # slow rows have fewer
            found[row] = np.array([values[count] for values, count in by_link], dtype=np.float64)
    greedy = len(effects[GREEDY])
    return {
        "subject": subject.name,
        "auc": asdict(subject.separations),
        "structural": subject.separations.structural,
        "links": len(counts),
        "links without paths": int((counts == 0).sum()),
        "links of slow rows": len(effects[GREEDY]),
        "links, greedy not positive": int((effects[GREEDY][counts[:greedy] > 0] <= 0).sum()),
        "links, fewer facts found": int((np.array(own["strongest"]) < counts).sum()),
        "stated effect off by": float(max(own["off"])),
        "facts per link": float(counts.mean()),
        "visible facts per link": float(np.mean(answers[GNN]["visible"])),
        "rows": {
            row: {
                "of greedy": _ratio(effects[row], effects[GREEDY], seed),
                "of GNNExplainer": _ratio(effects[row], effects[GNN], seed),
                "effect": _ratio(effects[row], np.ones(len(effects[row])), seed),
                "cpu": float(cpu[row].mean()),
                "cpu of greedy": _share(cpu[row], cpu[GREEDY]),
                "cpu of GNNExplainer": _share(cpu[row], cpu[GNN]),
            }
            for row in ROWS
        },
    }


def _ratio(values: Doubles, over: Doubles, seed: int) -> dict[str, float | None]:
    both = min(len(values), len(over))  # links of which both are known
    found = with_interval(values[:both], over[:both], seed)
    return dict(zip(("value", "low", "high"), map(plain, found), strict=True))


def _share(values: Doubles, over: Doubles) -> float | None:
    both = min(len(values), len(over))
    values, over = values[:both], over[:both]
    return plain(values.sum() / over.sum()) if over.sum() > 0 else None


def table(figures: Figures) -> Table:
    """The table of a subject."""
    rows = []
    for row, of_row in figures["rows"].items():
        shares = [interval_cell(**of_row[key]) for key in ("of greedy", "of GNNExplainer")]
        times = [cell(of_row[f"cpu of {rival}"], 4) for rival in ("greedy", "GNNExplainer")]
        effect = interval_cell(**of_row["effect"])
        rows.append((row, *shares, effect, cell(1000 * of_row["cpu"], 1), *times))
    auc, slow = figures["auc"], figures["links of slow rows"]
    some = "" if slow == figures["links"] else (
        f" Of the first {slow} links alone are the rows {', '.join(SLOW)}, and all figures against "
        "greedy."
    )  # fmt: skip
    matched = " and ".join(cell(auc[key]) for key in ("matched_auc", "edgeless_matched_auc"))
    return Table(
        f"Strongest facts: {figures['subject']}",
        ("", "of greedy", "of GNNExplainer", "effect", "CPU ms", "CPU / greedy", "/ GNNExplainer"),
        rows,
        f"{figures['links']} links, {figures['links without paths']} of them without paths; the "
        f"greedy effect is not positive for {figures['links, greedy not positive']}.{some} Per "
        f"link {figures['facts per link']:.1f} facts are removed of "
        f"{figures['visible facts per link']:,.0f} visible ones. For "
        f"{figures['links, fewer facts found']} links fewer strongest facts were found; their "
        f"stated effects are off by at most {figures['stated effect off by']:.0e}. ROC-AUC "
        f"{auc['auc']:.3f}, without edges {auc['edgeless_auc']:.3f}; on degree-matched pairs "
        f"{matched}. Ratios of sums over links with 95 % intervals. CPU is per link, on one "
        "thread; that of the returned paths is the whole explanation.",
    )
