"""J-Recs: justifications that are relevant to both ends of a link, and diverse.

After N. Park, A. Kan, C. Faloutsos and X. L. Dong, "J-Recs: Principled and Scalable Recommendation
Justification" (ICDM 2020, arXiv:2011.05928). What the abstract and the PaGE-Link paper say of it:
it never looks at the recommender, works on one graph of all kinds of product and user data, and
returns few justifications by a score that balances relevance and diversity. Neither its equations
nor its code were at hand when this was written, so that the score is ours:

- The relevance r of a node is the chance that two random walks with restart, one from each end of
  the link, are both there; as a share of that of all nodes between the ends.
- The value of a set of paths is that of the set V of their inner nodes::

      F(V) = (1 - d) * sum of r(v) over V + d * sum over node types of sqrt(sum of r(v) of the type)

  A node counts once, and of each kind of node the second counts less than the first. F is monotone
  and submodular, so that the greedy choice reaches 1 - 1/e of the best value for sets of nodes.
- Paths are added greedily by what they add to F for each inner node: long paths pay for their
  length, which makes justifications concise.

Walks stay in the computation graph of the link, where J-Recs has the whole graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.rivals.rival import LOWEST, Options, Rival, made_masks
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.paths import FIXED_POINT, FoundPaths, cheapest_paths
from pagelink.search.work import Work
from pagelink.settings import Settings

CANDIDATES = 200
"""Most relevant paths of a link that the greedy choice is from."""


@dataclass(frozen=True)
class JRecsOptions(Options):
    """What is relevant, and how much diversity counts."""

    diversity: float = 0.5
    """d: 0 is relevance alone, 1 the sum over node types alone."""
    restart: float = 0.15
    """Chance that a walk starts again, in each step."""
    steps: int = 60
    """Steps of the power iteration."""


class JRecs(Rival):
    """J-Recs for links; see `Rival` for the arguments.

    The mask of an edge is what both walks put on it, as a share of the most of any edge of the
    link: sigmoid of the log of that share.
    """

    name = "jrecs"
    options_type = JRecsOptions

    @classmethod
    def own_settings(cls, settings: Settings, options: JRecsOptions) -> Settings:
        """Nothing is pruned and nothing is learned."""
        return settings.replace(core=0, hub_degree=None, remove_pruned=False, epochs=0)

    def masks(self, work: Work) -> LearnedMasks:
        """Take the walks, and choose paths by the nodes on them."""
        options: JRecsOptions = self.options
        batch, paths, graph = work.batch, work.paths, self.graph
        facts = np.flatnonzero(graph.representative[batch.edges] & work.kept)
        link_of = np.searchsorted(batch.edge_ptr, facts, side="right") - 1
        tail, head = (batch.node_ptr[link_of] + ends[facts] for ends in (batch.src, batch.dst))
        degree = np.bincount(np.append(tail, head), minlength=len(batch.nodes))
        walks = [
            random_walk(tail, head, degree, _position(work, ends), options.restart, options.steps)
            for ends in (batch.link_src, batch.link_dst)
        ]
        # The mask.
        share = np.divide(walks, degree, out=np.zeros((2, len(degree))), where=degree > 0)
        along = np.maximum(share[0][tail] * walks[1][head], share[0][head] * walks[1][tail])
        highest = np.zeros(batch.num_links)
        np.maximum.at(highest, link_of, along)
        # A fact that no walk takes, or a share below e^-20, has the lowest mask.
        over = np.where(highest > 0, highest, 1.0)[link_of]
        logits = np.full(graph.num_facts, LOWEST)
        every = np.full(len(batch.edges), LOWEST, dtype=np.float32)
        values = np.log(np.maximum(along / over, np.exp(LOWEST)))
        for link in work.links.tolist():
            mine = slice(*np.searchsorted(link_of, [link, link + 1]))
            here = slice(batch.edge_ptr[link], batch.edge_ptr[link + 1])
            own = graph.fact[batch.edges[facts[mine]]]
            logits[own] = values[mine]
            every[here] = logits[graph.fact[batch.edges[here]]]  # both directions of a fact
            logits[own] = LOWEST
        # The paths.
        most = self.settings.paths_within_budget
        arcs = np.full((len(work.links), most, paths.max_length), -1, dtype=np.int64)
        relevance = _relevance(work, walks[0] * walks[1])
        candidates = _most_relevant(work, relevance, max(CANDIDATES, 4 * most))
        for row in range(len(work.links)):
            found = candidates.arcs[row][candidates.lengths[row] > 0]
            inner = [_inner_nodes(work, int(work.links[row]), path) for path in found]
            kinds = graph.node_type_of[paths.nodes].astype(np.int64)
            chosen = greedy_diverse(inner, relevance, kinds, options.diversity, most)
            arcs[row, : len(chosen)] = found[chosen]
        found_paths = FoundPaths(arcs, (arcs >= 0).sum(2), candidates.complete)
        return made_masks(work, every, found_paths)


def random_walk(
    src: Longs, dst: Longs, degree: Longs, starts: Longs, restart: float, steps: int
) -> Doubles:
    """Return the chances of random walks with restart, one start in each component or graph.

    ``p = c * e + (1 - c) * W p``, with W the undirected steps, each fact of a node equally likely.

    Args:
        src: ends of the facts.
        dst: the other ends.
        degree: facts at each node, a loop counted twice.
        starts: where walks start; walks that never meet do not disturb each other.
        restart: c.
        steps: how often the equation is applied.

    Example:
        A chain of three nodes; the walk starts at its first.

        >>> ends = np.array([0, 1]), np.array([1, 2])
        >>> random_walk(*ends, np.array([1, 2, 1]), np.array([0]), 0.5, 60).round(4).tolist()
        [0.5833, 0.3333, 0.0833]
    """
    start = np.zeros(len(degree))
    start[starts] = 1.0
    chance = start.copy()
    for _ in range(steps):
        share = chance / np.maximum(degree, 1)
        moved = np.bincount(dst, share[src], minlength=len(degree))
        moved += np.bincount(src, share[dst], minlength=len(degree))
        # What has nowhere to go stays.
        chance = restart * start + (1 - restart) * np.where(degree > 0, moved, chance)
    return chance


def greedy_diverse(
    inner: list[Longs], relevance: Doubles, kinds: Longs, diversity: float, most: int
) -> list[int]:
    """Choose paths one by one, each the one that adds most to F for each of its inner nodes.

    Args:
        inner: per path, its inner nodes.
        relevance: r of each node.
        kinds: type of each node.
        diversity: d.
        most: paths at most.

    Returns:
        The chosen paths by number, in the order of choice; the first of equal ones.

    Example:
        Nodes 0 and 1 are of one type. The second path is the less relevant one of another type.

        >>> nodes = [np.array([0]), np.array([1]), np.array([2])]
        >>> greedy_diverse(nodes, np.array([0.4, 0.35, 0.25]), np.array([0, 0, 1]), 1.0, 2)
        [0, 2]
        >>> greedy_diverse(nodes, np.array([0.4, 0.35, 0.25]), np.array([0, 0, 1]), 0.0, 2)
        [0, 1]
    """
    chosen: list[int] = []
    covered: set[int] = set()
    of_kind: dict[int, float] = {}
    while len(chosen) < min(most, len(inner)):
        best, highest = -1, -1.0
        for number, nodes in enumerate(inner):
            if number in chosen:
                continue
            added: dict[int, float] = {}
            for node in nodes.tolist():
                if node not in covered:
                    kind = int(kinds[node])
                    added[kind] = added.get(kind, 0.0) + float(relevance[node])
            plain = sum(added.values())
            spread = sum(
                (of_kind.get(kind, 0.0) + more) ** 0.5 - of_kind.get(kind, 0.0) ** 0.5
                for kind, more in added.items()
            )
            gain = ((1 - diversity) * plain + diversity * spread) / max(len(nodes), 1)
            if gain > highest:
                best, highest = number, gain
        chosen.append(best)
        for node in inner[best].tolist():
            if node not in covered:
                covered.add(node)
                kind = int(kinds[node])
                of_kind[kind] = of_kind.get(kind, 0.0) + float(relevance[node])
    return chosen


def _position(work: Work, ends: Longs) -> Longs:
    """Where an end of each link is among the nodes of the batch."""
    batch = work.batch
    found = [
        first + np.searchsorted(batch.nodes[first:last], end)
        for first, last, end in zip(batch.node_ptr, batch.node_ptr[1:], ends, strict=False)
    ]
    return np.array(found, dtype=np.int64)


def _relevance(work: Work, both: Doubles) -> Doubles:
    """Relevance of each node of the path graphs; 0 for the ends, which are first and second."""
    batch, paths = work.batch, work.paths
    found = np.zeros(len(paths.nodes))
    for link in work.links.tolist():
        first, last = paths.node_ptr[link : link + 2]
        inner = slice(first + 2, last)
        nodes = slice(batch.node_ptr[link], batch.node_ptr[link + 1])
        place = np.searchsorted(batch.nodes[nodes], paths.nodes[inner])
        found[inner] = both[nodes][place]
        total = found[inner].sum()
        found[inner] /= total if total > 0 else 1.0
    return found


def _most_relevant(work: Work, relevance: Doubles, count: int) -> FoundPaths:
    """The paths of the highest product of the relevance of their inner nodes."""
    paths = work.paths
    nodes = np.diff(paths.node_ptr)
    link = np.repeat(np.arange(paths.num_links), nodes)
    first = np.arange(len(paths.nodes)) + link  # a link has one more arc range than it has nodes
    arc_link = np.repeat(link, paths.arc_ptr[first + 1] - paths.arc_ptr[first])
    head = relevance[paths.node_ptr[arc_link] + paths.arc_dst]
    head = np.where(paths.arc_dst == 1, 1.0, np.maximum(head, 1e-300))
    cost = np.rint(-np.log(head) * FIXED_POINT).astype(np.int64)
    return cheapest_paths(paths, cost, count, work.links, work.timer.until)


def _inner_nodes(work: Work, link: int, arcs: Longs) -> Longs:
    """The inner nodes of a path, by position in the nodes of the path graphs."""
    heads = work.paths.arc_dst[arcs[arcs >= 0]][:-1].astype(np.int64)
    found: Longs = work.paths.node_ptr[link] + heads
    return found
