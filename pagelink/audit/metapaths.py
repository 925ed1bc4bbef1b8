"""What each metapath of a link is worth: all its paths removed at once, and added alone.

A metapath is a sequence of relations from source to target, each walked one way. Its facts are
those on any path along it. Sets of up to three metapaths are measured as sets of paths are: by
removal from G, and by insertion into G0, the graph without any path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pagelink.explain.building import named_paths
from pagelink.explain.result import Path
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.graph.schema import EdgeType
from pagelink.measure.trials import Trials
from pagelink.measure.verdict import TENTH
from pagelink.measure.worth import shares, worths
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.csr import Csr
from pagelink.search.paths import FoundPaths, PathGraphs

Steps = tuple[tuple[EdgeType, bool], ...]
"""Per step, the stored edge type that is walked, and whether against its direction."""
Set = tuple[int, ...]

MOST_METAPATHS = 64
"""Metapaths of a link that are measured, those of the returned paths and the steepest first."""
IN_SETS = 8
"""Metapaths of a link that are measured together with others."""
NEARLY_ALL = 0.9
"""Share of f(G) - f(G0), both ways, from which on no larger set is tried."""


@dataclass(frozen=True)
class Metapath:
    """A metapath of one link."""

    steps: Steps
    slots: Longs
    """All edges of its facts, positions in the batch."""
    num_facts: int
    path: Path | None
    """Its most concise path; None: that one passes through a node twice."""
    is_record: bool
    """It has a path whose inner nodes, one at least, have no facts but those of the path: such as
    an order by the source of the target, it may be a record of the link itself."""


@dataclass(frozen=True)
class MetapathWorth:
    """What a metapath is worth for one link."""

    metapath: Metapath
    effect: float
    """How much the logit falls when all its paths are removed."""
    gain: float
    """How much the logit of the graph without any path rises when all of them are added."""
    worth: float
    """0..1: of the best set that it is part of, the worth, split by the shares of its members."""


@dataclass(frozen=True)
class MetapathsOfLink:
    """All metapaths of a link."""

    measured: tuple[MetapathWorth, ...]
    """By worth, then by gain and effect."""
    stand_ins: tuple[tuple[int, int], ...]
    """Pairs of `measured` that stand in for each other."""
    num_found: int
    """The number of metapaths that the link has."""


def measure_metapaths(trials: Trials, first: Sequence[Path] = ()) -> MetapathsOfLink:
    """Find and measure the metapaths of the only link of a batch.

    Args:
        trials: the model and the graphs.
        first: paths whose metapaths are measured in any case.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    work = trials.work
    paths = work.setup.path_graphs(work.batch, None, work.timer.search_end())
    found = list(find_metapaths(trials, paths))
    if not found:
        return MetapathsOfLink((), (), 0)
    # 1. All of them, or the most promising ones.
    wanted = [path.relations for path in first]
    gradient = work.gradient().astype(np.float64)
    slope = [float(gradient[each.slots].sum()) for each in found]
    order = sorted(
        range(len(found)),
        key=lambda i: (found[i].steps not in wanted, -abs(slope[i]), found[i].num_facts, i),
    )
    chosen = [found[i] for i in order[:MOST_METAPATHS]]
    # 2. Each alone, then sets of those that do most.
    sets = _Sets(trials, chosen)
    sets.measure([(i,) for i in range(len(chosen))])
    tried = sets.most_promising()
    sets.measure(list(combinations(tried, 2)))
    if not sets.reaches(float(trials.span[0])):
        sets.measure(list(combinations(tried, 3)))
    # 3. What each is worth in the best set it is part of.
    worth = sets.worth_of_members()
    known = sets.known
    measured = [
        MetapathWorth(metapath, *known[i,], float(worth[i])) for i, metapath in enumerate(chosen)
    ]
    rank = sorted(
        range(len(chosen)),
        key=lambda i: (-measured[i].worth, -max(measured[i].gain, measured[i].effect), i),
    )
    place = {i: at for at, i in enumerate(rank)}
    pairs = tuple(
        (min(place[a], place[b]), max(place[a], place[b])) for a, b in sets.stand_ins(tried)
    )
    return MetapathsOfLink(tuple(measured[i] for i in rank), tuple(sorted(pairs)), len(found))


class _Sets:
    """Sets of metapaths of a link, and what was measured of them."""

    def __init__(self, trials: Trials, metapaths: Sequence[Metapath]) -> None:
        self._trials, self._metapaths = trials, metapaths
        self._facts = [frozenset(metapath.slots.tolist()) for metapath in metapaths]
        self._noise = trials.work.setup.noise
        self.known: dict[Set, tuple[float, float]] = {}
        """Effect and gain."""

    def measure(self, sets: list[Set]) -> None:
        """Measure some sets, both ways."""
        if not sets:
            return
        slots = [np.unique(np.concatenate([self._metapaths[i].slots for i in s])) for s in sets]
        edits = Edits(np.zeros(len(sets), dtype=np.int64), Csr.of(slots))
        effects, gains = (self._trials.effects(edits, inserted=way) for way in (False, True))
        self.known.update(
            zip(sets, zip(effects.tolist(), gains.tolist(), strict=True), strict=True)
        )

    def most_promising(self) -> list[int]:
        """The best by removal and by insertion in turn; ties in the order that was given."""
        every = range(len(self._metapaths))
        effect, gain = (
            sorted(every, key=[-self.known[i,][side] for i in every].__getitem__) for side in (0, 1)
        )
        turns = dict.fromkeys(i for pair in zip(effect, gain, strict=True) for i in pair)
        return sorted(list(turns)[:IN_SETS])

    def reaches(self, span: float) -> bool:
        """Whether some set does nearly all that all paths do, both ways."""
        bar = NEARLY_ALL * span
        return span > self._noise and any(min(both) >= bar for both in self.known.values())

    def worth_of_members(self) -> Doubles:
        """Per metapath, its part of the best set that it is in."""
        sets = list(self.known)
        effect, gain = (np.array([self.known[s][side] for s in sets]) for side in (0, 1))
        most_effect, most_gain = effect.max(keepdims=True), gain.max(keepdims=True)
        worth = worths(effect[None], gain[None], most_effect, most_gain, self._noise)[0]
        best = np.zeros(len(self._metapaths))
        for place, members in enumerate(sets):
            if self._holds_another(members):
                continue
            rest = [self.known.get(_without(members, i), (0.0, 0.0)) for i in members]
            of_each = shares(
                effect[place : place + 1], gain[place : place + 1],
                np.array([[e for e, _ in rest]]), np.array([[g for _, g in rest]]), self._noise,
            )[0].clip(min=0.0)  # fmt: skip
            total = of_each.sum()
            if total > 0:
                here = worth[place] * of_each / max(total, 1.0)
                best[list(members)] = np.maximum(best[list(members)], here)
        return best

    def _holds_another(self, members: Set) -> bool:
        """Whether the facts of a set make up a further metapath, which may be what counts."""
        if len(members) == 1:
            return False
        every = frozenset().union(*(self._facts[i] for i in members))
        others = (facts for i, facts in enumerate(self._facts) if i not in members)
        return any(facts <= every for facts in others)

    def stand_ins(self, tried: Sequence[int]) -> Iterator[Set]:
        """Pairs that stand in for each other, noticeably.

        Without both, the score loses more than without either, added up. Or each adds something,
        and both together less than that, added up; facts that both have would count twice there,
        so that this counts only where they have none in common.
        """
        bar = max(self._noise, TENTH * abs(float(self._trials.span[0])))
        for a, b in combinations(tried, 2):
            (one_e, one_g), (two_e, two_g) = self.known[a,], self.known[b,]
            both_e, both_g = self.known[a, b]
            lost = both_e - max(one_e, 0.0) - max(two_e, 0.0) > bar
            apart = not np.intersect1d(self._metapaths[a].slots, self._metapaths[b].slots).size
            adds = min(one_g, two_g) > self._noise
            if lost or (apart and adds and one_g + two_g - both_g > bar):
                yield a, b


def _without(members: Set, one: int) -> Set:
    return tuple(i for i in members if i != one)


# Finding the metapaths of a link.


def find_metapaths(trials: Trials, paths: PathGraphs) -> Iterator[Metapath]:
    """Yield the metapaths of the only link of a batch, in the order of their relations.

    Up to three facts a walk from source to target is a simple path. Beyond that some walks pass
    through a node twice; the few facts on nothing but such walks are counted, too.
    """
    arcs = _Arcs(trials, paths)
    for symbols, levels in arcs.walks():
        yield arcs.metapath(symbols, levels)


class _Arcs:
    """The arcs on which paths of a link may go, by what they walk along."""

    def __init__(self, trials: Trials, paths: PathGraphs) -> None:
        self._trials, self._paths = trials, paths
        graph, batch = trials.graphs.graph, trials.work.batch
        self._num_nodes = len(paths.nodes)
        counts = np.diff(paths.arc_ptr)
        self._tail = np.repeat(np.arange(self._num_nodes), counts)
        self._head = paths.arc_dst.astype(np.int64)
        relation = graph.relation[batch.edges[paths.arc_slot]].astype(np.int64)
        self._symbol: Longs = 2 * relation + paths.arc_reversed
        self._degree = graph.degree[paths.nodes]
        self._to_go = self._distances()

    def _distances(self) -> Longs:
        """Per node, the number of facts to the target at least."""
        far = self._paths.max_length + 1
        found = np.full(self._num_nodes, far, dtype=np.int64)
        if self._num_nodes:
            found[1] = 0
        for step in range(1, far):
            near = self._tail[found[self._head] < step]
            found[near] = np.minimum(found[near], step)
        return found

    def walks(self) -> Iterator[tuple[tuple[int, ...], list[Longs]]]:
        """Yield the symbols of each metapath, with the arcs of each of its steps."""
        if not self._num_nodes:
            return
        start = np.zeros(self._num_nodes, dtype=np.bool_)
        start[0] = True
        waiting: list[tuple[tuple[int, ...], list[Longs], Bools]] = [((), [], start)]
        while waiting:
            symbols, levels, reached = waiting.pop(0)
            left = self._paths.max_length - len(symbols) - 1
            fitting = reached[self._tail] & (self._to_go[self._head] <= left) & (self._head != 0)
            arcs = np.flatnonzero(fitting)
            for symbol in np.unique(self._symbol[arcs]).tolist():
                mine = arcs[self._symbol[arcs] == symbol]
                ending = mine[self._head[mine] == 1]
                onward = mine[self._head[mine] != 1]
                if len(ending):
                    yield (*symbols, symbol), self._leading_to(levels, ending)
                if left and len(onward):
                    there = np.zeros_like(reached)
                    there[self._head[onward]] = True
                    waiting.append(((*symbols, symbol), [*levels, onward], there))

    def _leading_to(self, levels: list[Longs], ending: Longs) -> list[Longs]:
        """Of the arcs of each step, those on a walk that ends at the target."""
        kept = [ending]
        for arcs in reversed(levels):
            kept.insert(0, arcs[np.isin(self._head[arcs], self._tail[kept[0]])])
        return kept

    def metapath(self, symbols: tuple[int, ...], levels: list[Longs]) -> Metapath:
        """Put a metapath together."""
        graph, batch = self._trials.graphs.graph, self._trials.work.batch
        steps = tuple((graph.edge_types[symbol // 2], bool(symbol % 2)) for symbol in symbols)
        edges = self._paths.arc_slot[np.unique(np.concatenate(levels))]
        slots = np.unique(slots_of_same_facts(graph, batch, edges).values)
        num_facts = len(np.unique(graph.fact[batch.edges[edges]]))
        return Metapath(steps, slots, num_facts, self._concise(levels), self._is_record(levels))

    def _is_record(self, levels: list[Longs]) -> bool:
        """Whether some path leads along nodes of two facts only."""
        at = np.array([0])
        for arcs in levels:
            heads = self._head[arcs[np.isin(self._tail[arcs], at)]]
            at = heads[(heads == 1) | (self._degree[heads] == 2)]
        return len(levels) > 1 and len(at) > 0

    def _concise(self, levels: list[Longs]) -> Path | None:
        """The path of the lowest degrees along a metapath."""
        cost = np.full(self._num_nodes, np.inf)
        cost[0] = 0.0
        came_by: list[Longs] = []
        for arcs in levels:
            total = cost[self._tail[arcs]] + self._paths.arc_log_degree[arcs]
            order = np.lexsort((arcs, total))[::-1]  # the cheapest is written last
            by, cost = np.full(self._num_nodes, -1), np.full(self._num_nodes, np.inf)
            by[self._head[arcs[order]]], cost[self._head[arcs[order]]] = arcs[order], total[order]
            came_by.append(by)
        walked: list[int] = []
        node = 1
        for by in reversed(came_by):
            walked.insert(0, int(by[node]))
            node = int(self._tail[by[node]])
        if len({node, *self._head[walked].tolist()}) <= len(walked):
            return None
        found = FoundPaths(
            np.array([[walked + [-1] * (self._paths.max_length - len(walked))]]),
            np.array([[len(walked)]]), np.ones(1, dtype=np.bool_),
        )  # fmt: skip
        trials = self._trials
        no_mask = np.zeros(len(trials.work.batch.edges), dtype=np.float32)
        graph, batch = trials.graphs.graph, trials.work.batch
        return named_paths(graph, batch, self._paths, no_mask, found, 0)[0]
