"""SubgraphX-Link: Monte-Carlo tree search for the few nodes of the highest Shapley value.

The module has three steps: Shapley values of groups of players, the search over sets of nodes
around a link, and the explainer that returns the best set as a mask.

A group G acts as one player beside the others. Its Shapley value is the mean of
v(S with G) - v(S) over the orders in which players may come, S being those before G: the size of S
is even from none to all, and S is even among the sets of its size. It is exact where that is cheap,
sampled elsewhere.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import combinations
from math import ceil, comb, sqrt

import numpy as np
import numpy.typing as npt

from pagelink.model.edited_logits import EditedLogits
from pagelink.rivals.ground import edits_of
from pagelink.rivals.rival import LOWEST, Options, Rival, link_rng, made_masks
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.work import SEARCHING, Work
from pagelink.settings import Settings


def coalitions(num_others: int, samples: int, rng: np.random.Generator) -> tuple[Bools, Doubles]:
    """Sets of other players that may come before the group, and how much each counts.

    All of them if there are no more than `samples`, else that number at random.

    Args:
        num_others: number of other players.
        samples: sets at most.
        rng: where they are drawn from.

    Returns:
        [sets, num_others], who is in; and weights that sum to 1.

    Example:
        >>> inside, weights = coalitions(2, 4, np.random.default_rng(0))
        >>> inside.astype(int).tolist()
        [[0, 0], [1, 0], [0, 1], [1, 1]]
        >>> (6 * weights).round(6).tolist()
        [2.0, 1.0, 1.0, 2.0]
    """
    if 2**num_others <= samples:
        sets = [c for k in range(num_others + 1) for c in combinations(range(num_others), k)]
        inside = np.zeros((len(sets), num_others), dtype=np.bool_)
        for row, members in enumerate(sets):
            inside[row, list(members)] = True
        sizes = inside.sum(1).tolist()
        return inside, np.array([1 / (comb(num_others, k) * (num_others + 1)) for k in sizes])
    order = rng.random((samples, num_others)).argsort(axis=1).argsort(axis=1)
    # Sizes from none to all in even steps, each moved a little: fewer samples do for the same.
    size = (np.arange(samples) + rng.random(samples)) / samples * (num_others + 1)
    inside = order < np.floor(size)[:, None]
    return inside, np.full(samples, 1 / samples)


# Monte-Carlo tree search over sets of nodes around a link, from all of them to a few.
#
# A move takes nodes out of a set, and with them what is then cut off from both ends of the link.
# What a set is worth is its Shapley value. The search is a generator: it asks for the values of
# coalitions and is sent the answers, so that many links can be searched side by side.


Valuation = Generator[Bools, Doubles, None]
"""Yields [coalitions, nodes], who is there, and is sent one value for each."""
ROUNDED = 5
"""Digits of a value that count, so that the way a batch is computed decides no comparison."""


@dataclass(frozen=True)
class Around:
    """The players: nodes 0 and 1 are the ends of the link, which are always there."""

    num_nodes: int
    src: Longs
    dst: Longs
    """Ends of the facts between them."""

    def joined(self, inside: Bools) -> Bools:
        """The nodes of a set from which one of the ends can be reached within it."""
        reached = np.zeros(self.num_nodes, dtype=np.bool_)
        reached[:2] = True
        both = inside[self.src] & inside[self.dst]
        src, dst = self.src[both], self.dst[both]
        while True:
            more = reached.copy()
            more[dst[reached[src]]] = True
            more[src[reached[dst]]] = True
            if np.array_equal(more, reached):
                return reached
            reached = more

    def degrees(self, inside: Bools) -> Longs:
        """Facts at each node within a set."""
        both = inside[self.src] & inside[self.dst]
        ends = np.concatenate([self.src[both], self.dst[both]])
        return np.bincount(ends, minlength=self.num_nodes)


@dataclass
class _Set:
    """A node of the search tree."""

    inside: Bools
    reward: float = 0.0
    visits: int = 0
    total: float = 0.0
    children: list[_Set] = field(default_factory=list)
    expanded: bool = False

    @property
    def size(self) -> int:
        """Number of nodes, the ends of the link included."""
        return int(self.inside.sum())

    def mean(self) -> float:
        """What the sets found below it are worth, on the average."""
        return self.total / self.visits if self.visits else 0.0


@dataclass(frozen=True)
class SubgraphXOptions(Options):
    """How the search goes; its time-out is `Settings.deadline`."""

    nodes: int = 10
    """Nodes of the explanation at most, source and target included."""
    rollouts: int = 10
    """Ways from all nodes down to the explanation."""
    expand: int = 6
    """Moves that are tried from a set."""
    depth: int = 12
    """Moves down to the explanation, about: while many nodes are left, a move takes several."""
    samples: int = 8
    """Coalitions for a Shapley value."""
    explore: float = 5.0
    """How much the first value of a set counts against what was found below it."""


@dataclass
class TreeSearch:
    """A search, and what it has found.

    Args:
        around: the players.
        options: how the search goes.
        rng: where coalitions are drawn from.
    """

    around: Around
    options: SubgraphXOptions
    rng: np.random.Generator
    done: int = 0
    """Rollouts made."""
    best: _Set | None = None
    way: list[Bools] = field(default_factory=list)
    """The sets on the way down to the best one, from all nodes on."""
    _known: dict[bytes, _Set] = field(default_factory=dict)

    def run(self) -> Valuation:
        """Search; yields coalitions, wants their values."""
        everything = np.ones(self.around.num_nodes, dtype=np.bool_)
        root = _Set(self.around.joined(everything))
        while self.done < self.options.rollouts:
            way = [root]
            while way[-1].size > max(self.options.nodes, 2):
                here = way[-1]
                if not here.expanded:
                    yield from self._grow(here)
                if not here.children:
                    break
                seen = sqrt(sum(child.visits for child in here.children))
                way.append(max(here.children, key=lambda child: self._promise(child, seen)))
            leaf = way[-1]
            if leaf is root:  # there are no more nodes than the budget has
                yield from self._value([root])
            for each in way:
                each.visits += 1
                each.total += leaf.reward
            self.done += 1
            if self.best is None or leaf.reward > self.best.reward:
                self.best, self.way = leaf, [each.inside for each in way]

    def _promise(self, child: _Set, seen: float) -> float:
        return child.mean() + self.options.explore * child.reward * (1 + seen) / (1 + child.visits)

    def _grow(self, here: _Set) -> Valuation:
        """Try moves: take out nodes of few facts first, as many as the depth asks for."""
        here.expanded, options = True, self.options
        degree = self.around.degrees(here.inside)
        nodes = np.flatnonzero(here.inside)
        nodes = nodes[nodes > 1]
        nodes = nodes[np.argsort(degree[nodes], kind="stable")]
        taken = max(1, ceil((here.size - options.nodes) / options.depth))
        fresh = []
        for first in range(0, min(len(nodes), options.expand * taken), taken):
            inside = here.inside.copy()
            inside[nodes[first : first + taken]] = False
            inside = self.around.joined(inside)
            key = np.packbits(inside).tobytes()
            if key not in self._known:  # two ways may lead to one set
                self._known[key] = _Set(inside)
                fresh.append(self._known[key])
            here.children.append(self._known[key])
        yield from self._value(fresh)

    def _value(self, sets: list[_Set]) -> Valuation:
        """Ask for what is needed for the Shapley values of some sets, all at once."""
        asked, weights = [], []
        for each in sets:
            others = np.flatnonzero(~each.inside)
            before, weight = coalitions(len(others), self.options.samples, self.rng)
            without = np.zeros((len(before), self.around.num_nodes), dtype=np.bool_)
            without[:, :2] = True
            without[:, others] |= before
            asked += [without | each.inside, without]
            weights.append(weight)
        if not sets:
            return
        values = yield np.concatenate(asked)
        start = 0
        for each, weight in zip(sets, weights, strict=True):
            count = len(weight)
            gain = values[start : start + count] - values[start + count : start + 2 * count]
            each.reward = round(float(weight @ gain), ROUNDED)
            start += 2 * count


# The explainer.
#
# The players are the nodes of the pruned computation graph beside source and target. A player that
# is absent takes all its edges with it; they are really removed, what pruning left out stays. The
# set of nodes within the budget whose Shapley value is highest is the explanation. Its mask is
# next to 1 for the edges within the set, and of the others the higher, the longer they stay on the
# way down to it.
#
# Differs from SubgraphX: while many nodes are left, a move takes several of them, or the search
# would be hundreds of moves deep on the graphs of links; a set may lie around source and target
# apart; and an absent node is removed instead of filled with zeros.


KEPT, GONE = 8.0, -10.0
"""Mask logits of edges within the explanation, and of those that go with the first move."""


class SubgraphXLink(Rival):
    """SubgraphX for links; see `Rival` for the arguments."""

    name = "subgraphx"
    options_type = SubgraphXOptions

    @classmethod
    def own_settings(cls, settings: Settings, options: SubgraphXOptions) -> Settings:
        """Nothing is learned."""
        return settings.replace(epochs=0)

    def masks(self, work: Work) -> LearnedMasks:
        """Search the links side by side: one pass answers what all of them ask for."""
        searches = {link: self._search(work, link) for link in work.links.tolist()}
        influence = EditedLogits(self.predictor, work.batch, work.relation, work.timer, SEARCHING)
        whole = self.predictor.needed(work.batch)
        waiting: dict[int, tuple[Valuation, Bools]] = {}
        for link, (_, search) in searches.items():
            _ask(waiting, link, search.run(), None)
        while waiting:
            absent = [
                (link, slots)
                for link, (_, asked) in sorted(waiting.items())
                for slots in searches[link][0].absent(asked)
            ]
            links, slots = zip(*absent, strict=True)
            values = influence.logits(whole, edits_of(links, slots))
            if not influence.complete:
                break
            start = 0
            for link, (questions, asked) in sorted(waiting.items()):
                _ask(waiting, link, questions, values[start : start + len(asked)])
                start += len(asked)
        logits = np.full(len(work.batch.edges), LOWEST, dtype=np.float32)
        epochs = np.zeros(work.batch.num_links, dtype=np.int64)
        for link, (players, search) in searches.items():
            players.write(search.way, logits)
            epochs[link] = search.done
        return made_masks(work, logits, epochs=epochs)

    def _search(self, work: Work, link: int) -> tuple[_Players, TreeSearch]:
        players = _Players(self, work, link)
        return players, TreeSearch(players.around, self.options, link_rng(work, link))


class _Players:
    """The nodes of a link that take part, and the edges they bring."""

    def __init__(self, rival: Rival, work: Work, link: int) -> None:
        batch = work.batch
        here = np.arange(batch.edge_ptr[link], batch.edge_ptr[link + 1])
        mine = here[work.kept[here] & rival.predictor.needed(batch)[here]]
        flat = batch.nodes[batch.node_ptr[link] : batch.node_ptr[link + 1]]
        ends = np.searchsorted(flat, [batch.link_src[link], batch.link_dst[link]])
        inner = np.setdiff1d(np.concatenate([batch.src[mine], batch.dst[mine]]), ends)
        number = np.full(len(flat), -1)
        number[ends], number[inner] = (0, 1), np.arange(2, 2 + len(inner))
        self._slots: Longs = mine
        self._src: Longs = number[batch.src[mine]]
        self._dst: Longs = number[batch.dst[mine]]
        self.around = Around(2 + len(inner), self._src, self._dst)

    def absent(self, present: Bools) -> list[Longs]:
        """Per coalition, the edges that go."""
        gone = ~present
        return [self._slots[row] for row in gone[:, self._src] | gone[:, self._dst]]

    def write(self, way: list[Bools], logits: npt.NDArray[np.float32]) -> None:
        """Say how long each edge stays on a way down, as a mask from 0 to 1."""
        if not way:
            return
        stays = np.sum([inside[self._src] & inside[self._dst] for inside in way], axis=0)
        # Steep, so that paths within the set come first, then those that leave it last, and
        # degrees decide only between paths that stay equally long.
        logits[self._slots] = np.where(stays == len(way), KEPT, GONE * (1 - stays / len(way)))


def _ask(
    waiting: dict[int, tuple[Valuation, Bools]],
    link: int,
    questions: Valuation,
    values: Doubles | None,
) -> None:
    """Go on with a search until it asks again; it leaves when it is over."""
    try:
        asked = next(questions) if values is None else questions.send(values)
        waiting[link] = questions, asked
    except StopIteration:
        waiting.pop(link, None)
