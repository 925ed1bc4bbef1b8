"""SubgraphX-Link: Monte-Carlo tree search for the few nodes of the highest Shapley value.

The players are the nodes of the pruned computation graph beside source and target. A player that is
absent takes all its edges with it; they are really removed, what pruning left out stays. The set of
nodes within the budget whose Shapley value is highest is the explanation. Its mask is next to 1 for
the edges within the set, and of the others the higher, the longer they stay on the way down to it.

Differs from SubgraphX: while many nodes are left, a move takes several of them, or the search would
be hundreds of moves deep on the graphs of links; a set may lie around source and target apart; and
an absent node is removed instead of filled with zeros.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagelink.baselines.rival import LOWEST, Options, Rival, made_masks
from pagelink.baselines.tree_search import Around, Question, TreeSearch
from pagelink.copies import Edits
from pagelink.graph import Bools, Longs
from pagelink.influence import Influence
from pagelink.learning import LearnedMasks
from pagelink.measuring import Work
from pagelink.settings import Settings

Doubles = npt.NDArray[np.float64]
KEPT, GONE = 8.0, -10.0
"""Mask logits of edges within the explanation, and of those that go with the first move."""


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
    """Moves down to the explanation, about."""
    samples: int = 8
    """Coalitions for a Shapley value."""
    explore: float = 5.0
    """How much the first value of a set counts against what was found below it."""


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
        influence = Influence(self.predictor, work.batch, work.relation)
        whole = self.predictor.needed(work.batch)
        waiting: dict[int, tuple[Question, Bools]] = {}
        for link, (_, search) in searches.items():
            questions = search.run()
            _ask(waiting, link, questions, None)
        late: set[int] = set()
        while waiting:
            until = work.timer.until
            if until is not None and time.perf_counter() > until:
                late |= set(waiting)
                break
            parts = [
                searches[link][0].absent(asked) for link, (_, asked) in sorted(waiting.items())
            ]
            values = influence.logits(whole, _joined(sorted(waiting), parts))
            start = 0
            for link, (questions, asked) in sorted(waiting.items()):
                _ask(waiting, link, questions, values[start : start + len(asked)])
                start += len(asked)
        logits = np.full(len(work.batch.edges), LOWEST, dtype=np.float32)
        epochs = np.zeros(work.batch.num_links, dtype=np.int64)
        out_of_time = np.zeros(work.batch.num_links, dtype=np.bool_)
        for link, (players, search) in searches.items():
            players.write(search.way, logits)
            epochs[link], out_of_time[link] = search.done, link in late
        return made_masks(work, logits, epochs=epochs, out_of_time=out_of_time)

    def _search(self, work: Work, link: int) -> tuple[_Players, TreeSearch]:
        options: SubgraphXOptions = self.options
        players = _Players(self, work, link)
        ends = int(work.batch.link_src[link]), int(work.batch.link_dst[link])
        return players, TreeSearch(
            players.around, options.nodes, options.rollouts, options.expand, options.depth,
            options.samples, options.explore, np.random.default_rng((work.seed, *ends)),
        )  # fmt: skip


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
    waiting: dict[int, tuple[Question, Bools]],
    link: int,
    questions: Question,
    values: Doubles | None,
) -> None:
    """Go on with a search until it asks again; it leaves when it is over."""
    try:
        asked = next(questions) if values is None else questions.send(values)
        waiting[link] = questions, asked
    except StopIteration:
        waiting.pop(link, None)


def _joined(links: list[int], parts: list[list[Longs]]) -> Edits:
    slots = [each for part in parts for each in part]
    link = np.repeat(np.array(links, dtype=np.int64), [len(part) for part in parts])
    ptr = np.concatenate([[0], np.cumsum([len(each) for each in slots])]).astype(np.int64)
    return Edits(link, ptr, np.concatenate([*slots, np.empty(0, dtype=np.int64)]))
