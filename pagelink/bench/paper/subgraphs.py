"""What a search over subgraphs costs, counted: the paper's two lemmas on SubgraphX.

The lemmas (appendix of the PaGE-Link paper) say of a graph with nodes V and highest degree D: the
connected subgraphs of B nodes are at least as many as the trees of B nodes, and these are
Theta(|V| D^(2B - 2)). Here both are counted exactly on graphs whose nodes all have one degree, as
the budget B and the degree D grow, and around a link as its hops do, beside the coalitions that
SubgraphX-Link asks the model about. Two subgraphs are different if their nodes are: SubgraphX
searches sets of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pagelink.bench.paper.plan import Session
from pagelink.bench.paper.report import Plot, Series, Table
from pagelink.bench.runs import Figures
from pagelink.rivals.subgraphx import Around, SubgraphXOptions, TreeSearch

NAME = "subgraphs"
Neighbours = Sequence[frozenset[int]]
BUDGETS, DEGREES, HOPS = (2, 3, 4, 5, 6), (4, 6, 8, 12), (1, 2, 3, 4)
AT_BUDGET, AT_DEGREE = 4, 4
"""What stays the same while another one grows."""
NUM_NODES = 300
"""Of the graphs on which budget and degree grow; hops grow in one of this number squared."""
QUICK = (2, 3), (4, 6), (1, 2)
SEED = 0


def regular_graph(num_nodes: int, degree: int, seed: int) -> Neighbours:
    """A random graph of one degree, about: the union of random cycles through all nodes.

    Args:
        num_nodes: number of nodes.
        degree: an even number; where two cycles share a step, a node has less.
        seed: where cycles are drawn from.
    """
    rng = np.random.default_rng(seed)
    found: list[set[int]] = [set() for _ in range(num_nodes)]
    for _ in range(degree // 2):
        order = rng.permutation(num_nodes).tolist()
        for one, other in zip(order, [*order[1:], order[0]], strict=True):
            found[one].add(other)
            found[other].add(one)
    return [frozenset(each) for each in found]


def around_link(graph: Neighbours, hops: int) -> Neighbours:
    """The computation graph of the link between the first two nodes: all within some hops."""
    inside = {0, 1}
    rim = {0, 1}
    for _ in range(hops):
        rim = {node for one in rim for node in graph[one]} - inside
        inside |= rim
    number = {node: i for i, node in enumerate([0, 1, *sorted(inside - {0, 1})])}
    return [frozenset(number[other] for other in graph[node] if other in number) for node in number]


def connected_sets(graph: Neighbours, size: int) -> Iterator[tuple[int, ...]]:
    """All sets of a number of nodes that are connected, each once.

    Each grows from its lowest node (the algorithm ESU): a neighbour may join if it is higher than
    the first node and was not beside the set before.

    Example:
        A triangle with a tail.

        >>> graph = [frozenset({1, 2}), frozenset({0, 2}), frozenset({0, 1, 3}), frozenset({2})]
        >>> sorted(sorted(found) for found in connected_sets(graph, 3))
        [[0, 1, 2], [0, 2, 3], [1, 2, 3]]
    """

    def grown(
        members: tuple[int, ...], free: list[int], beside: frozenset[int]
    ) -> Iterator[tuple[int, ...]]:
        if len(members) == size:
            yield members
            return
        for place, node in enumerate(free):
            new = [n for n in graph[node] if n > members[0] and n not in beside]
            yield from grown((*members, node), free[place + 1 :] + new, beside | frozenset(new))

    for first in range(len(graph)):
        higher = [node for node in graph[first] if node > first]
        yield from grown((first,), higher, frozenset([first, *higher]))


def num_trees(graph: Neighbours, members: Sequence[int]) -> int:
    """The number of spanning trees of a set of nodes, by Kirchhoff's theorem.

    Example:
        >>> num_trees([frozenset({1, 2}), frozenset({0, 2}), frozenset({0, 1})], [0, 1, 2])
        3
    """
    place = {node: i for i, node in enumerate(members)}
    if sum(len(graph[node] & place.keys()) for node in members) == 2 * len(members) - 2:
        return 1  # a connected set without a cycle, which most of them are
    laplacian = np.zeros((len(members), len(members)))
    for node, i in place.items():
        for other in graph[node] & place.keys():
            laplacian[i, place[other]] -= 1
            laplacian[i, i] += 1
    return round(float(np.linalg.det(laplacian[1:, 1:])))


def counted(graph: Neighbours, budget: int) -> dict[str, int]:
    """Connected sets of exactly a number of nodes, and trees of as many nodes."""
    sets = trees = 0
    for members in connected_sets(graph, budget):
        sets += 1
        trees += num_trees(graph, members)
    return {"nodes": len(graph), "sets": sets, "trees": trees}


def coalitions_asked(graph: Neighbours, budget: int) -> int:
    """The number of graphs that SubgraphX-Link asks the model about, with its default options.

    What the model answers is drawn at random: it decides which sets are looked at, not how many
    are asked about at most.
    """
    ends = np.array([(i, j) for i, near in enumerate(graph) for j in near if i < j], dtype=np.int64)
    src, dst = ends.reshape(-1, 2).T
    around = Around(len(graph), src, dst)
    rng = np.random.default_rng(SEED)
    search = TreeSearch(around, SubgraphXOptions(nodes=max(budget, 3)), rng)
    questions, total = search.run(), 0
    with suppress(StopIteration):
        asked = next(questions)
        while True:
            total += len(asked)
            asked = questions.send(rng.random(len(asked)))
    return total


def once(session: Session) -> None:
    """Count with growing budget, degree and hops."""
    budgets, degrees, hops = QUICK if session.plan.quick else (BUDGETS, DEGREES, HOPS)
    for name, values in (("budget", budgets), ("degree", degrees), ("hops", hops)):
        session.do(f"{NAME} by {name}", {"by": name, "values": list(values)}, _grow, name, values)


def _grow(name: str, values: Sequence[int]) -> Figures:
    rows: list[dict[str, Any]] = []
    for value in values:
        now = {"budget": AT_BUDGET, "degree": AT_DEGREE, "hops": 0, name: value}
        if name == "hops":
            graph = around_link(regular_graph(NUM_NODES**2, now["degree"], SEED), value)
        else:
            graph = regular_graph(NUM_NODES, now["degree"], SEED)
        asked = coalitions_asked(graph, now["budget"])
        formula = len(graph) * now["degree"] ** (2 * now["budget"] - 2)
        rows.append({**now, **counted(graph, now["budget"]), "formula": formula, "asked": asked})
    return {"by": name, "rows": rows}


AXES = {"degree": "degree D", "budget": "budget B", "hops": "number of hops"}
"""What counts are drawn against."""


def growth(rows: Sequence[Mapping[str, int]], figure: str) -> float:
    """Return p of (figure per node) ~ D^p, by least squares of the logs.

    Example:
        >>> rows = [{"degree": d, "nodes": 2, "sets": 2 * d**3} for d in (2, 4, 8)]
        >>> round(growth(rows, "sets"), 6)
        3.0
    """
    x = np.log([row["degree"] for row in rows])
    y = np.log([row[figure] / row["nodes"] for row in rows])
    dx = x - x.mean()
    return float(dx @ (y - y.mean()) / (dx @ dx))


def factor(rows: Sequence[Mapping[str, int]], figure: str) -> float:
    """Return by how much a figure grows with each node of the budget, the geometric mean.

    Example:
        >>> rows = [{"budget": 2, "sets": 5}, {"budget": 4, "sets": 45}]
        >>> factor(rows, "sets")
        3.0
    """
    first, last = rows[0], rows[-1]
    steps = last["budget"] - first["budget"]
    return float((last[figure] / first[figure]) ** (1 / steps))


def tables(by_name: Mapping[str, Mapping[str, Any]]) -> Iterator[Table]:
    """One table: what grows with what."""
    lines, found = [], ""
    for name in ("budget", "degree", "hops"):
        rows = by_name.get(f"{NAME} by {name}", {"rows": []})["rows"]
        for row in rows:
            lines.append((
                str(row["budget"]), str(row["degree"]), str(row["hops"] or "all"),
                *(f"{row[key]:,}" for key in ("nodes", "sets", "trees", "formula", "asked")),
            ))  # fmt: skip
        if len(rows) < 2:
            continue
        if name == "degree":
            sets, trees, asked = (growth(rows, key) for key in ("sets", "trees", "asked"))
            budget = rows[0]["budget"]
            found += (
                f" At B = {budget}, sets per node grow with D^{sets:.2f}, trees with D^{trees:.2f} "
                f"and coalitions with D^{asked:.2f}; the lemma has D^{2 * budget - 2}."
            )
        if name == "budget":
            sets, formula, asked = (factor(rows, key) for key in ("sets", "formula", "asked"))
            found += (
                f" With each node of the budget, at D = {rows[0]['degree']}, sets grow by a factor "
                f"of {sets:.1f}, the formula by {formula:.1f}, coalitions by {asked:.2f}."
            )
    if lines:
        yield Table(
            "SubgraphX: subgraphs against budget, degree and hops",
            (
                "B", "D", "hops", "nodes", "connected sets of B nodes", "trees of B nodes",
                "V D^(2B - 2)", "coalitions SubgraphX-Link asks about",
            ),
            lines,
            "Exact counts on random graphs of one degree. D^(2B - 2) bounds the trees of B nodes "
            "at a node from above (a walk around a tree has 2B - 2 steps of D choices each); their "
            "number grows with D^(B - 1). Connected sets of nodes are never more than trees, and "
            "fewer where there are cycles: the first lemma holds for subgraphs that differ in "
            "edges, not for the sets of nodes that SubgraphX searches. SubgraphX-Link is a tree "
            "search under a fixed number of rollouts, with its default options here, and asks "
            "about a bounded number of coalitions."
            + found,
        )  # fmt: skip


def plots(by_name: Mapping[str, Mapping[str, Any]]) -> Iterator[Plot]:
    """Counts against the degree, the budget and the number of hops, as logs."""
    named = {
        "|V| D^(2B-2)": "formula", "trees": "trees", "connected sets": "sets",
        "asked by SubgraphX-Link": "asked",
    }  # fmt: skip
    for what, x_label in AXES.items():
        rows = by_name.get(f"{NAME} by {what}", {"rows": []})["rows"]
        if len(rows) < 2:
            continue
        x = [float(row[what]) for row in rows]
        series = tuple(
            Series(words, x, [float(np.log10(row[key])) for row in rows])
            for words, key in named.items()
        )
        size = "" if what == "budget" else f" of {rows[0]['budget']} nodes"
        yield Plot(
            f"Subgraphs{size} against the {x_label}", x_label, "log10 of the number", series,
            note="The formula of the lemma grows faster than what it is about.",
        )  # fmt: skip
