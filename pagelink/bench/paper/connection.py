"""Part `connection`: what it costs an explanation to be made of paths instead of loose facts.

Explainers with a mask are looked at twice: three paths by the same search on their mask, and the
same number of facts of the highest mask, wherever they lie. The bounds are two greedy searches by
measured effect, of paths, and of single facts. The difference is the price of connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from pagelink.bench.answers import MAIN, ask, described, links_of, settings_of
from pagelink.bench.measures import PerLink, joined, with_interval
from pagelink.bench.paper.plan import PER_LINK, Dataset, Part, Session
from pagelink.bench.paper.report import Plot, Table
from pagelink.bench.runs import Figures, Run, cell, interval_cell, plain, plain_list
from pagelink.metrics.worth import share_of_greedy
from pagelink.rivals.greedy import MOST_PATHS, greedy_search
from pagelink.rivals.ground import Ground, edits_of, facts_of, free_facts
from pagelink.runtime.arrays import Doubles

NAME = "connection"
BOUND = "greedy search"
MASKED = (
    "gnnexp", "gnnexp-released", "pgexp", "pgexp-released", "subgraphx", "gradient",
    "integrated-gradient", "paper", "power", "power-link", "graphmask", "jrecs",
    "pagelink", "random-mask",
)  # fmt: skip
"""Explainers whose mask says something of every edge."""
KEPT = 48
"""Facts of a link, by their effect alone, among which the search of free facts chooses."""


def each(session: Session, dataset: Dataset) -> None:
    """Do the runs of one data set."""
    key = {**dataset.key, "row": BOUND, "kept": KEPT}
    bound = session.do(f"{dataset.name}, {BOUND}", key, _bounds, dataset)
    quick = session.plan.quick
    for name in session.plan.chosen(MASKED):
        key = {
            **dataset.key, "row": name, "seed": 0, **described(name, quick, dataset.name),
            "links of it": links_of(name, quick), "bound": bound.date,
        }  # fmt: skip
        session.do(f"{dataset.name}, {name}", key, _explained, dataset, name, bound.figures)


def _bounds(dataset: Dataset) -> Figures:
    parts: list[PerLink] = []
    for ground in dataset.grounds:
        search = greedy_search(ground, MAIN, 200 if dataset.plan.quick else MOST_PATHS)
        count = np.array([len(facts_of(paths)) for paths in search.best(MAIN)])
        parts.append(
            {
                "paths": search.effects(MAIN),
                "free": free_greedy(ground, count),
                "facts": count.astype(np.float64),
            }
        )
    rows = joined(parts)
    return _figures(BOUND, rows, rows["paths"])


def _explained(dataset: Dataset, name: str, bound: Figures) -> Figures:
    quick = dataset.plan.quick
    answer = ask(dataset.subject, name, settings_of(name), 0, quick=quick)
    parts: list[PerLink] = []
    for ground, here in dataset.cut(links_of(name, quick)):
        every, graph = list(range(ground.num_links)), ground.explainer.graph
        shown = [facts_of(paths) for paths in answer.paths[MAIN][here]]
        others = [
            free_facts(graph, explanation.edge_mask, len(mine))
            for explanation, mine in zip(answer.explanations[here], shown, strict=True)
        ]
        parts.append(
            {
                "paths": ground.effects(every, shown),
                "free": ground.effects(every, others),
                "facts": np.array([float(len(mine)) for mine in shown]),
            }
        )
    rows = joined(parts)
    return _figures(name, rows, np.array(bound[PER_LINK]["paths"][: len(rows["paths"])]))


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
    slots: list[dict[int, list[int]]] = [{} for _ in ground.links]
    for link, mine in enumerate(slots):
        first = int(ground.batch.edge_ptr[link])
        for place, edge in enumerate(ground.edges(link).tolist()):
            mine.setdefault(int(fact[edge]), []).append(first + place)
        for unseen in [f for f, at in mine.items() if not ground.whole[at].any()]:
            del mine[unseen]
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
        links = np.array([link for link, _ in asked], dtype=np.int64)
        after = ground.influence.logits(ground.whole, edits_of(links.tolist(), sets))
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


def _figures(row: str, rows: PerLink, over: Doubles) -> Figures:
    """The means over links, and shares of the greedy search over paths, if it has any effect."""
    paths, free = rows["paths"], rows["free"]
    return {
        "row": row,
        "links": len(paths),
        **{name: plain(float(values.mean())) for name, values in rows.items()},
        "share of paths": plain(share_of_greedy(paths, over)[0]),
        "share of free": plain(share_of_greedy(free, over)[0]),
        "price": plain_list(with_interval(free - paths, over)),
        PER_LINK: {"paths": plain_list(paths), "free": plain_list(free)},
    }


def tables(runs: Sequence[Run]) -> Iterator[Table]:
    """A table for each data set."""
    for rows in _rows(runs):
        lines = []
        for one in rows:
            figures = one.figures
            size = figures["links"]
            few = f" ({size} links)" if size < rows[0].figures["links"] else ""
            names = ("paths", "free", "share of paths", "share of free")
            lines.append((
                f"{figures['row']}{few}", cell(figures["facts"], 1),
                *(cell(figures[name]) for name in names), interval_cell(*figures["price"]),
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
        yield Table(
            f"{rows[0].key['title']}: the price of connection",
            ("", "facts", "as paths", "as free facts", "share, paths", "share, free",
             "price of connection"),
            lines, note,
        )  # fmt: skip


def plots(runs: Sequence[Run]) -> Iterator[Plot]:
    """The price for each data set."""
    for rows in _rows(runs):
        prices = [(one.figures["row"], *one.figures["price"]) for one in rows]
        if bars := [bar for bar in prices if bar[1] is not None]:
            yield Plot(
                f"{rows[0].key['title']}: price of connection", "", "share of greedy over paths",
                bars=bars, note="What free facts do more than paths. Lines: 95 % intervals.",
            )  # fmt: skip


def _rows(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs of each data set, in the order of the rows."""
    order = (BOUND, *MASKED)
    found: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: order.index(run.figures["row"])):
        found.setdefault(run.key["subject"], []).append(run)
    return list(found.values())


PART = Part(NAME, "The price of connection", tables, each, plots=plots)
