"""Which facts of a path the model uses: active ones move its score, idle ones only connect others.

A fact is active if removing it alone moves the score in at least one graph that has its path: G, G0
with the path, G without one of the other paths, or G0 with the path and a random part of all other
facts on paths. One graph is not enough: in a chain every fact has the whole effect of the path, and
where paths stand in for each other none has any as long as the others are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.measure.trials import Trials
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.csr import Csr

ROUNDS = ((2, 8), (6, 8), (4, 12))
"""Random parts of the other facts: the number of parts of a round, and the sixteenths of the facts
that each of them has. Each round is for what those before do not show. Where more paths are needed
together than may be shown, half of the facts leave too few of them whole."""
UNKNOWN, IDLE, ACTIVE = -1, 0, 1


@dataclass(frozen=True)
class Activity:
    """What is known of the facts of candidates, [num_candidates, max_length] each."""

    state: npt.NDArray[np.int8]
    """`ACTIVE`, `IDLE`, or `UNKNOWN` where it was not asked, and behind the end of a path."""
    effect: Doubles
    """The effect of removing the fact alone from G; NaN where it was not measured."""

    @property
    def has_idle(self) -> Bools:
        """Per candidate, whether some fact of it is idle."""
        found: Bools = (self.state == IDLE).any(1)
        return found

    def has_idle_end(self, lengths: Longs) -> Bools:
        """Per candidate of a number of facts, whether its first or its last fact is idle."""
        last = self.state[np.arange(len(lengths)), lengths - 1]
        found: Bools = (self.state[:, 0] == IDLE) | (last == IDLE)
        return found

    def joined(self, more: Activity, rows: Longs) -> Activity:
        """With what else is known of some candidates."""
        state, effect = self.state.copy(), self.effect.copy()
        state[rows], effect[rows] = more.state[rows], more.effect[rows]
        return Activity(state, effect)


@dataclass
class _Asked:
    """Facts of candidates that are asked about, one after the other."""

    trials: Trials
    candidate: Longs
    place: Longs
    slot: Longs
    active: Bools = field(init=False)
    effect: Doubles = field(init=False)

    def __post_init__(self) -> None:
        self.active = np.zeros(len(self.slot), dtype=np.bool_)
        batch = self.trials.work.batch
        self.link = self.trials.candidates.link[self.candidate]
        self.facts = slots_of_same_facts(self.trials.graphs.graph, batch, self.slot)

    def notice(self, which: Longs, change: Doubles) -> None:
        self.active[which[np.abs(change) > self.trials.work.setup.noise]] = True


def activity_of(trials: Trials, rows: Longs) -> Activity:
    """Find which facts of some candidates are active.

    Args:
        trials: the model, the graphs and all candidates.
        rows: the candidates to ask about, each once.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    shape = trials.candidates.arcs.shape
    state = np.full(shape, UNKNOWN, dtype=np.int8)
    effect = np.full(shape, np.nan)
    rows = rows[np.argsort(trials.candidates.link[rows], kind="stable")]
    slot, owner = trials.facts(rows)
    _, place = np.nonzero(trials.candidates.arcs[rows] >= 0)
    asked = _Asked(trials, rows[owner], place, slot)
    if len(rows):
        _in_whole_graph(asked)
        _beside_path(asked)
        _without_another_path(asked, rows)
        first = 0
        for count, kept in ROUNDS:
            _beside_random_parts(asked, range(first, first + count), kept)
            first += count
        state[asked.candidate, asked.place] = np.where(asked.active, ACTIVE, IDLE)
        effect[asked.candidate, asked.place] = asked.effect
    return Activity(state, effect)


def _in_whole_graph(asked: _Asked) -> None:
    """Remove each fact alone from G; one that several paths share is removed once."""
    fact = asked.facts.values[asked.facts.ptr[:-1]]
    _, first, same = np.unique(fact, return_index=True, return_inverse=True)
    edits = Edits(asked.link[first], asked.facts.take(first))
    asked.effect = asked.trials.effects(edits)[same.reshape(-1)]
    asked.notice(np.arange(len(asked.slot)), asked.effect)


def _beside_path(asked: _Asked) -> None:
    """Remove each fact alone from G0 with its path."""
    left = np.flatnonzero(~asked.active)
    own = asked.trials.candidates.slots.take(asked.candidate[left])
    rest = _without(own, asked.facts.take(left))
    gain = asked.trials.effects(Edits(asked.link[left], rest), inserted=True)
    asked.notice(left, asked.trials.gains[asked.candidate[left]] - gain)


def _without_another_path(asked: _Asked, rows: Longs) -> None:
    """Remove each fact alone from G without one of the other paths, which may stand in for its own.

    Random halves seldom have the one path gone and all that its own needs beside it in place.
    """
    trials = asked.trials
    left = np.flatnonzero(~asked.active)
    # 1. Every pair of a path in question and another one of its link.
    paths = np.unique(asked.candidate[left])
    link = trials.candidates.link
    one, other = np.nonzero(link[paths][:, None] == link[rows][None])
    one, other = paths[one], rows[other]
    one, other = one[one != other], other[one != other]
    if not len(one):
        return
    slots = trials.candidates.slots
    gone = _without(slots.take(other), slots.take(one))
    # 2. Each pair once without the other path, then also without each fact in question.
    pair, fact = np.nonzero(one[:, None] == asked.candidate[left][None])
    more = gone.take(pair).beside(asked.facts.take(left[fact]))
    edits = Edits(np.concatenate([link[one], link[one[pair]]]), gone.followed_by(more))
    before, after = np.split(trials.effects(edits), [len(one)])
    asked.notice(left[fact], before[pair] - after)


def _beside_random_parts(asked: _Asked, numbers: range, kept: int) -> None:
    """Remove each fact alone from G0 with its path and random parts of the other path facts."""
    trials = asked.trials
    left = np.flatnonzero(~asked.active)
    if not len(left):
        return
    # 1. Each path once, then once without each fact in question.
    candidates, at = np.unique(asked.candidate[left], return_inverse=True)
    link = np.concatenate([trials.candidates.link[candidates], asked.link[left]])
    own = trials.candidates.slots.take(np.concatenate([candidates, asked.candidate[left]]))
    nothing = Csr(np.zeros(len(candidates) + 1, dtype=np.int64), np.empty(0, dtype=np.int64))
    wanted = ~_inside(own, nothing.followed_by(asked.facts.take(left)))
    for number in numbers:
        # 2. In the graph with a part of all path facts: what is other in each of them.
        part = trials.graphs.whole & (~trials.graphs.on_path | _random_part(trials, number, kept))
        other = part[own.values] != wanted
        ptr = np.concatenate([[0], np.cumsum(other)])[own.ptr]
        answers = trials.logits(part, Edits(link, Csr(ptr, own.values[other])))
        # 3. What the fact alone changes.
        with_path, without = np.split(answers, [len(candidates)])
        asked.notice(left, with_path[at] - without)


def _random_part(trials: Trials, number: int, kept: int) -> Bools:
    """Whether each edge of the batch is in a random part, all edges of a fact alike."""
    batch = trials.work.batch
    fact = trials.graphs.graph.fact[batch.edges].astype(np.uint64)
    ends = np.stack([batch.link_src, batch.link_dst]).astype(np.uint64)
    mix = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        key = (ends[0] * mix + ends[1]) * mix + np.uint64(trials.work.seed * 64 + number)
        z = (fact + np.repeat(key, np.diff(batch.edge_ptr)) * mix).astype(np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Bools = (z >> np.uint64(40)) & np.uint64(15) < np.uint64(kept)
    return found


def _inside(lists: Csr, others: Csr) -> Bools:
    """Per number of each list, whether the other list of the same place has it."""
    base = int(max(lists.values.max(initial=0), others.values.max(initial=0))) + 1
    rows = (np.repeat(np.arange(len(each.ptr) - 1), np.diff(each.ptr)) for each in (lists, others))
    keys, known = (
        row * base + each.values for row, each in zip(rows, (lists, others), strict=True)
    )
    return np.isin(keys, known)


def _without(lists: Csr, others: Csr) -> Csr:
    """List by list, the numbers that the other does not have."""
    kept = ~_inside(lists, others)
    return Csr(np.concatenate([[0], np.cumsum(kept)])[lists.ptr], lists.values[kept])
