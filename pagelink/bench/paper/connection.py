"""Part `connection`: what it costs an explanation to be made of paths instead of loose facts.

Explainers with a mask are looked at twice: three paths by the same search on their mask, and the
same number of facts of the highest mask, wherever they lie. The bounds are two greedy searches by
measured effect, of paths, and of single facts. The difference is the price of connection.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pagelink.bench.faithfulness.rankings import MAIN
from pagelink.bench.paper.answers import ask, described, links_of
from pagelink.bench.paper.measures import plain, plain_list
from pagelink.bench.paper.plan import PER_LINK, Plan, Plot, Progress, Table, cell
from pagelink.bench.paper.plan import interval_cell as with_interval
from pagelink.bench.paper.stage import Stage, link_edges, stages
from pagelink.bench.runs import Figures, Run, RunStore
from pagelink.datasets.folders import DataNotFoundError
from pagelink.graph.edited_graphs import Edits
from pagelink.metrics.averages import bootstrap_interval
from pagelink.rivals.greedy import MOST_PATHS, FreeEdges, greedy_search
from pagelink.rivals.ground import Ground, facts_of
from pagelink.runtime.arrays import Doubles

PART = "connection"
BOUND = "greedy search"
MASKED = (
    "gnnexp", "pgexp", "subgraphx", "gradient", "integrated-gradient", "paper", "power",
    "pagelink", "random-mask",
)  # fmt: skip
"""Explainers whose mask says something of every edge."""
KEPT = 48
"""Facts of a link, by their effect alone, among which the search of free facts chooses."""


def run(store: RunStore, plan: Plan, progress: Progress) -> None:
    """Do all runs of the part."""
    for stage in stages(plan):
        try:
            _run_stage(store, stage, progress)
        except DataNotFoundError as error:
            plan.say(f"{stage.dataset.title} is left out: {error}")


def _run_stage(store: RunStore, stage: Stage, progress: Progress) -> None:
    title, subject = stage.dataset.title, stage.dataset.name
    progress(f"{title}: {BOUND} of paths and of facts")
    bound = store.do(
        PART, f"{subject}, {BOUND}", {**stage.key, "row": BOUND, "kept": KEPT},
        lambda: _bounds(stage),
    )  # fmt: skip
    for name in MASKED:
        progress(f"{title}: {name}")
        quick = stage.plan.quick
        key = {
            **stage.key, "row": name, "seed": 0, **described(name, quick),
            "links of it": links_of(name, quick), "bound": bound.date,
        }  # fmt: skip
        store.do(
            PART, f"{subject}, {name}", key,
            lambda name=name: _explained(stage, name, bound.figures),  # type: ignore[misc]
        )  # fmt: skip


def _bounds(stage: Stage) -> Figures:
    by_paths, free, facts = [], [], []
    for ground in stage.grounds:
        most = 200 if stage.plan.quick else MOST_PATHS
        search = greedy_search(ground, MAIN, most)
        count = np.array([len(facts_of(paths)) for paths in search.best(MAIN)])
        by_paths.append(search.effects(MAIN))
        free.append(free_greedy(ground, count))
        facts.append(count.astype(np.float64))
    over = np.concatenate(by_paths)
    return _figures(BOUND, over, np.concatenate(free), np.concatenate(facts), over)


def _explained(stage: Stage, name: str, bound: Figures) -> Figures:
    quick = stage.plan.quick
    answer = ask(stage.subject, name, 0, quick)
    loose = FreeEdges(stage.explainer)
    by_paths, free, facts = [], [], []
    for ground, here in stage.cut(links_of(name, quick)):
        every = list(range(ground.num_links))
        shown = [facts_of(paths) for paths in answer.paths[MAIN][here]]
        others = [
            loose.facts(explanation, len(mine))
            for explanation, mine in zip(answer.explanations[here], shown, strict=True)
        ]
        by_paths.append(ground.effects(every, shown))
        free.append(ground.effects(every, others))
        facts.append(np.array([float(len(mine)) for mine in shown]))
    paths = np.concatenate(by_paths)
    over = np.array(bound[PER_LINK]["paths"][: len(paths)])
    return _figures(name, paths, np.concatenate(free), np.concatenate(facts), over)


def free_greedy(ground: Ground, counts: Sequence[int] | npt.NDArray[np.int64]) -> Doubles:
    """Remove single facts greedily by measured effect; the highest effect on the way counts.

    Args:
        ground: the links.
        counts: [num_links], facts to remove at most.

    Returns:
        [num_links], the effect; a lower bound, as after the first fact the search is among those
        of the highest effect alone.
    """
    fact = ground.explainer.graph.fact
    slots: list[dict[int, list[int]]] = []
    for link in range(ground.num_links):
        first = int(ground.batch.edge_ptr[link])
        mine: dict[int, list[int]] = {}
        for place, edge in enumerate(link_edges(ground, link).tolist()):
            mine.setdefault(int(fact[edge]), []).append(first + place)
        seen = ground.whole
        slots.append({f: at for f, at in mine.items() if seen[at].any()})
    left = [list(of_link) for of_link in slots]
    chosen: list[list[int]] = [[] for _ in slots]
    best = np.zeros(ground.num_links)
    for place in range(int(max(counts, default=0))):
        asked = [
            (link, one)
            for link, candidates in enumerate(left)
            if place < counts[link]
            for one in candidates
        ]
        if not asked:
            break
        sets = [
            np.array([s for f in (*chosen[link], one) for s in slots[link][f]], dtype=np.int64)
            for link, one in asked
        ]
        ptr = np.concatenate([[0], np.cumsum([len(each) for each in sets])]).astype(np.int64)
        links = np.array([link for link, _ in asked], dtype=np.int64)
        after = ground.influence.logits(ground.whole, Edits(links, ptr, np.concatenate(sets)))
        effect = ground.logits[links] - after
        for link in np.unique(links).tolist():
            mine_at = np.flatnonzero(links == link)
            order = mine_at[np.argsort(-effect[mine_at], kind="stable")]
            taken = asked[order[0]][1]
            chosen[link].append(taken)
            reached = float(effect[order[0]])
            best[link] = reached if place == 0 else max(best[link], reached)
            keep = order[1 : KEPT + 1] if place == 0 else order[1:]
            left[link] = [asked[i][1] for i in keep]
    return best


def _figures(row: str, paths: Doubles, free: Doubles, facts: Doubles, over: Doubles) -> Figures:
    total = float(over.sum())
    price: list[float | None] = [None, None, None]
    if total > 0:
        low, high = bootstrap_interval(free - paths, seed=0, over=over)
        price = [plain(float((free - paths).sum()) / total), plain(low), plain(high)]
    return {
        "row": row,
        "links": len(paths),
        "facts": plain(float(facts.mean())),
        "paths": plain(float(paths.mean())),
        "free": plain(float(free.mean())),
        "share of paths": plain(float(paths.sum()) / total) if total > 0 else None,
        "share of free": plain(float(free.sum()) / total) if total > 0 else None,
        "price": price,
        PER_LINK: {"paths": plain_list(paths), "free": plain_list(free)},
    }


def tables(runs: Sequence[Run]) -> list[Table]:
    """A table for each data set."""
    found = []
    for subject in dict.fromkeys(run.key["subject"] for run in runs):
        rows = _rows(runs, subject)
        lines = []
        for one in rows:
            figures = one.figures
            size = figures["links"]
            few = f" ({size} links)" if size < rows[0].figures["links"] else ""
            price = figures["price"]
            lines.append((
                f"{figures['row']}{few}", cell(figures["facts"], 1), cell(figures["paths"]),
                cell(figures["free"]), cell(figures["share of paths"]),
                cell(figures["share of free"]),
                "-" if price[0] is None else with_interval(*price),
            ))  # fmt: skip
        note = (
            "Effect on the logit of removing the facts of up to three paths, and of equally many "
            "facts that need not be connected (of the highest mask; for the greedy search, by "
            "measured effect). Shares are of the greedy search over paths. The price of "
            "connection is the difference, with its 95 % bootstrap interval over links: what an "
            "explanation gives up to be a story from source to target. It is negative where "
            "the mask does not rank facts by effect: `pagelink` chooses paths by what it measures, "
            "its mask alone is one of conciseness. Explainer seed 0."
        )
        found.append(Table(
            f"{rows[0].key['title']}: the price of connection",
            ("", "facts", "as paths", "as free facts", "share, paths", "share, free",
             "price of connection"),
            tuple(lines), note,
        ))  # fmt: skip
    return found


def plots(runs: Sequence[Run]) -> list[Plot]:
    """The price for each data set."""
    found = []
    for subject in dict.fromkeys(run.key["subject"] for run in runs):
        rows = _rows(runs, subject)
        bars = tuple(
            (one.figures["row"], *one.figures["price"])
            for one in rows
            if one.figures["price"][0] is not None
        )
        if bars:
            found.append(Plot(
                f"{rows[0].key['title']}: price of connection", "", "share of greedy over paths",
                bars=bars, note="What free facts do more than paths. Lines: 95 % intervals.",
            ))  # fmt: skip
    return found


def _rows(runs: Sequence[Run], subject: str) -> list[Run]:
    order = (BOUND, *MASKED)
    mine = [run for run in runs if run.key["subject"] == subject]
    return sorted(mine, key=lambda run: order.index(run.figures["row"]))
