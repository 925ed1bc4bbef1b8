"""The strongest facts: as many as the returned paths have, whose joint removal lowers f most.

They need not form paths, so they say what paths leave out. Gradients propose, removal decides: fact
by fact, the one is added that lowers the score most together with those before. The gradient by the
weight of an edge is what its removal does where messages are summed; where they are averaged, the
others of the mean move up in its place. Either estimate proposes half of the facts that are tried.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.measure.selection import Selection
from pagelink.measure.trials import Trials
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.runtime.csr import Csr

TRIED = 12
"""Facts that are tried for the next one of a set."""
REFRESHED = 2
"""The gradient is taken anew, without the facts so far, after this number of facts."""


@dataclass(frozen=True)
class Strongest:
    """The strongest facts of a link."""

    link: int
    slots: Longs
    """Each by an edge of the batch, the one that was found first, first."""
    alone: Doubles
    """What removing each of them alone does."""
    effect: float
    """What removing all of them does."""


def strongest_facts(trials: Trials, selection: Selection) -> dict[int, Strongest]:
    """Find the strongest facts of each link to explain.

    Args:
        trials: the model and the graphs.
        selection: the chosen sets: how many facts they have, and where to begin.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    shown = {}
    for link in trials.work.links.tolist():
        members = selection.members[link]
        slots, _ = trials.facts(members[members >= 0])
        fact = trials.graphs.graph.fact[trials.work.batch.edges[slots]]
        shown[link] = slots[np.unique(fact, return_index=True)[1]]
    search = _Search(trials, np.array([len(shown[i]) for i in shown], dtype=np.int64))
    search.run()
    return search.results(shown, selection.effect)


class _Search:
    """Greedy search over the facts that the model sees, for all links of a batch at once."""

    def __init__(self, trials: Trials, counts: Longs) -> None:
        self._trials, self._counts = trials, counts
        work, graphs = trials.work, trials.graphs
        batch = work.batch
        self._links = work.links
        # 1. The facts that the model sees, each once per link, by one of their edges.
        link = np.repeat(np.arange(batch.num_links), np.diff(batch.edge_ptr))
        seen = np.flatnonzero(graphs.whole & np.isin(link, self._links))
        reads_first = graphs.graph.representative[batch.edges[seen]]
        seen = seen[np.argsort(~reads_first, kind="stable")]  # names are in the fact's direction
        fact = graphs.graph.fact[batch.edges[seen]].astype(np.int64)
        key = link[seen] * (int(fact.max(initial=0)) + 1) + fact
        _, first, self._fact_of = np.unique(key, return_index=True, return_inverse=True)
        self._fact_of = self._fact_of.reshape(-1)
        self._seen, self._slot = seen, seen[first]
        self._link = link[self._slot]
        self._ptr = np.searchsorted(self._link, np.arange(batch.num_links + 1))
        # 2. Edges whose messages go into one mean: the same target and relation.
        dst = batch.node_ptr[link[seen]] + batch.dst[seen]
        relation = graphs.graph.relation[batch.edges[seen]].astype(np.int64)
        means = dst * (int(relation.max(initial=0)) + 1) + relation
        _, self._mean_of, self._mean_size = np.unique(
            means, return_inverse=True, return_counts=True
        )
        self._mean_of = self._mean_of.reshape(-1)
        self._taken = np.zeros(len(self._slot), dtype=np.bool_)
        self._sets: list[list[int]] = [[] for _ in self._links]
        self._effects: list[list[float]] = [[] for _ in self._links]

    def run(self) -> None:
        """Add fact after fact."""
        estimates = np.empty((2, 0))
        for step in range(int(self._counts.max(initial=0))):
            if step % REFRESHED == 0:
                estimates = self._estimates()
            rows, tried = self._proposed(step, estimates)
            if not len(tried):
                break
            self._add_best(rows, tried)

    def _estimates(self) -> Doubles:
        """[2, num_facts]: what removal does by the gradient, of sums and of means."""
        gone = slots_of_same_facts(
            self._trials.graphs.graph, self._trials.work.batch, self._slot[self._taken]
        ).values
        gradient = self._trials.work.gradient(without=gone if len(gone) else None)
        value = gradient[self._seen].astype(np.float64)
        there = np.ones(len(self._trials.work.batch.edges), dtype=np.bool_)
        there[gone] = False
        left = there[self._seen]
        size = np.bincount(self._mean_of, left, minlength=len(self._mean_size))[self._mean_of]
        total = np.bincount(self._mean_of, value * left)[self._mean_of]
        in_mean = np.where(size > 1, (size * value - total) / np.maximum(size - 1, 1), value)
        return np.stack(
            [
                np.bincount(self._fact_of, each * left, minlength=len(self._slot))
                for each in (value, in_mean)
            ]
        )

    def _proposed(self, step: int, estimates: Doubles) -> tuple[Longs, Longs]:
        """The facts to try for the next one of each set that is not full: row, fact."""
        rows, tried = [], []
        for row in np.flatnonzero(self._counts > step).tolist():
            first, last = self._ptr[self._links[row] : self._links[row] + 2]
            free = first + np.flatnonzero(~self._taken[first:last])
            best = [_highest(free, each[free], TRIED // 2) for each in estimates]
            facts = np.unique(np.concatenate(best))
            rows.append(np.full(len(facts), row))
            tried.append(facts)
        none = np.empty(0, dtype=np.int64)
        return np.concatenate([none, *rows]), np.concatenate([none, *tried])

    def _add_best(self, rows: Longs, tried: Longs) -> None:
        """Measure facts together with the sets so far, and add the best of each link."""
        sets = [self._slot[[*self._sets[row], fact]] for row, fact in zip(rows, tried, strict=True)]
        effect = self._measured(self._links[rows], sets)
        for row in np.unique(rows).tolist():
            mine = np.flatnonzero(rows == row)
            best = mine[np.argmax(effect[mine])]
            self._sets[row].append(int(tried[best]))
            self._taken[tried[best]] = True
            self._effects[row].append(float(effect[best]))

    def _fact(self, slots: Longs) -> Longs:
        """The facts of some edges of the batch."""
        edges = self._trials.work.batch.edges[slots]
        return self._trials.graphs.graph.fact[edges].astype(np.int64)

    def _measured(self, link: Longs, sets: list[Longs]) -> Doubles:
        """The effects of sets of facts, each by one of its edges."""
        facts, work = Csr.of(sets), self._trials.work
        slots = slots_of_same_facts(self._trials.graphs.graph, work.batch, facts.values)
        return self._trials.effects(Edits(link, slots.joined(facts.ptr)))

    def _drop_needless(self, found: dict[int, Longs], effects: dict[int, float]) -> None:
        """Leave out facts for which the others make up, those that were found last first."""
        least = {link: effect - self._trials.work.setup.noise for link, effect in effects.items()}
        for place in reversed(range(max(map(len, found.values()), default=0))):
            links = [link for link, slots in found.items() if len(slots) > max(place, 1)]
            fewer = [np.delete(found[link], place) for link in links]
            if not links:
                continue
            without = self._measured(np.array(links), fewer).tolist()
            for link, slots, effect in zip(links, fewer, without, strict=True):
                if effect >= least[link]:
                    found[link], effects[link] = slots, effect

    def results(self, shown: dict[int, Longs], shown_effect: Doubles) -> dict[int, Strongest]:
        """The sets that were found; that of the returned paths, where it does more."""
        found: dict[int, Longs] = {}
        effects: dict[int, float] = {}
        noise = self._trials.work.setup.noise
        for row, link in enumerate(self._links.tolist()):
            # Facts that add nothing are left out: the first ones that reach the most, about.
            reached = np.array([0.0, *self._effects[row]])
            size = int(np.argmax(reached >= reached.max() - noise))
            found[link] = self._slot[np.array(self._sets[row][:size], dtype=np.int64)]
            effects[link] = float(reached[size])
            if shown_effect[link] > effects[link] + noise:
                found[link], effects[link] = shown[link], float(shown_effect[link])
        self._drop_needless(found, effects)
        for link in found:
            # A fact on a path is named as the path names it, not by its reverse.
            facts, walked = (self._fact(slots) for slots in (found[link], shown[link]))
            same = dict(zip(walked.tolist(), shown[link].tolist(), strict=True))
            named = zip(facts.tolist(), found[link].tolist(), strict=True)
            found[link] = np.array([same.get(f, slot) for f, slot in named], dtype=np.int64)
        each = slots_of_same_facts(
            self._trials.graphs.graph,
            self._trials.work.batch,
            np.concatenate([*found.values(), np.empty(0, dtype=np.int64)]),
        )
        of = np.repeat(list(found), [len(slots) for slots in found.values()])
        alone = self._trials.effects(Edits(of, each))
        bounds = np.cumsum([len(slots) for slots in found.values()])
        parts = np.split(alone, bounds[:-1])
        return {
            link: Strongest(link, found[link], part, effects[link])
            for link, part in zip(found, parts, strict=True)
        }


def _highest(numbers: Longs, values: Doubles, count: int) -> Longs:
    """The numbers of the highest values, some of them."""
    if len(numbers) <= count:
        return numbers
    found: Longs = numbers[np.argpartition(-values, count - 1)[:count]]
    return found
