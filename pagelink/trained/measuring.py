"""What facts put into the score of a link, asked as `EditedLogits` asks a model with messages.

An edited graph is a set of facts to be trained on. Of a set of facts that is taken out of a graph,
or put in, the nodes on them are trained anew, with source and target, on either graph; the mean
difference over the starts is the effect. So that every effect refers to the deployed model, it is
taken off, or added to, the model's own score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.model.edited_logits import EditedLogits
from pagelink.model.inputs import ModelInput
from pagelink.runtime.arrays import Bools, Doubles, Floats, Ints, Longs
from pagelink.runtime.timer import UNLIMITED, Timer
from pagelink.search.work import MEASURING, Setup
from pagelink.trained.mimics import NOTHING, Edge, Mimics, Trial, TrialLink

MOST_NODES = 12
"""Nodes that are trained anew at most. Of the facts of a larger set, those on walks from source or
target, and of a set that is larger still, source and target."""


@dataclass(frozen=True)
class TrainedSetup(Setup):
    """What explains a model without messages: its scores, and mimics instead of edited inputs."""

    mimics: Mimics | None = None
    ends_only: bool = False
    """Only source and target are trained anew, as in Kelpie."""

    @property
    def passes_messages(self) -> bool:
        """False: the score rests on embeddings, and the facts are what these were trained on."""
        return False

    def logits(
        self, batch: ComputationGraphs, relation: Longs, timer: Timer = UNLIMITED
    ) -> tuple[Doubles, ModelInput]:
        """Return the score of each link; without a link itself where it was trained on."""
        nothing = np.zeros(len(batch.edges), dtype=np.bool_)
        inputs = self.predictor.inputs(batch, nothing, np.arange(batch.num_links), relation)
        found = self.model_scores(batch, relation)
        stated = np.flatnonzero(batch.link_fact >= 0)
        if len(stated):
            found[stated] -= self.edited(batch, relation, timer).link_effects(stated)
        return found, inputs

    def model_scores(self, batch: ComputationGraphs, relation: Longs) -> Doubles:
        """Return the trained model's own scores of links."""
        assert self.mimics is not None
        ends = (
            torch.from_numpy(each.astype(np.int64)) for each in (batch.link_src, batch.link_dst)
        )
        head, tail = ends
        number = torch.from_numpy(self.mimics.facts.model_relation[relation])
        return self.mimics.model.scores(head, number, tail).double().numpy()

    def edited(
        self,
        batch: ComputationGraphs,
        relation: Longs,
        timer: Timer = UNLIMITED,
        doing: str = MEASURING,
    ) -> MimicLogits:
        """Return what scores links after training on other facts."""
        return MimicLogits(self, batch, relation, timer, doing)

    def gradient(
        self,
        batch: ComputationGraphs,
        recorded: ModelInput,
        without: Longs | None = None,
        only: Longs | None = None,
    ) -> Floats:
        """Return how alike facts at source and target are to the link, to the model.

        That is the product of the gradients, by the vector of the common end, of the scores of the
        fact and of the link; 0 for all other facts. All of these have one, whatever is needed.
        """
        assert self.mimics is not None
        model, facts = self.mimics.model, self.mimics.facts
        found = np.zeros(len(batch.edges), dtype=np.float32)
        link = np.repeat(np.arange(batch.num_links), np.diff(batch.edge_ptr))
        dst = batch.nodes[batch.node_ptr[link] + batch.dst]
        types = recorded.data.edge_label_type.cpu().numpy()
        for at_src in (True, False):
            ends = batch.link_src if at_src else batch.link_dst
            others = batch.link_dst if at_src else batch.link_src
            slots = np.flatnonzero(batch.visible & (dst == ends[link]))
            of, edges = link[slots], batch.edges[slots]
            end = model.nodes[torch.from_numpy(ends[of].astype(np.int64))]
            position = facts.graph.relation[edges].astype(np.int64)
            pulls = []
            for other, kind, is_head in (
                (others[of], facts.model_relation[types[of]], np.full(len(of), not at_src)),
                (facts.graph.src[edges], facts.model_relation[position],
                 facts.is_forward[position]),
            ):  # fmt: skip
                vectors = model.nodes[torch.from_numpy(other.astype(np.int64))]
                query = model.query(vectors, torch.from_numpy(kind), torch.from_numpy(is_head))
                pulls.append(model.direction(end, query))
            found[slots] += (pulls[0] * pulls[1]).sum(-1).numpy()
        if without is not None:
            found[without] = 0
        return found


class MimicLogits(EditedLogits):
    """Scores links of a batch after training on other facts.

    Args:
        setup: the model, and what trains its mimics.
        batch: the links, and their facts.
        relation: per link, the position of its link type in `graph.edge_types`.
        timer: when to stop.
        doing: what is done to the links, as the timer notes it.
    """

    def __init__(
        self,
        setup: TrainedSetup,
        batch: ComputationGraphs,
        relation: Longs,
        timer: Timer = UNLIMITED,
        doing: str = MEASURING,
    ) -> None:
        super().__init__(setup.predictor, batch, relation, timer, doing)
        assert setup.mimics is not None
        self._setup, self._mimics = setup, setup.mimics
        self._number = self._mimics.facts.model_relation[relation]
        self._graph = setup.graph
        self._known: dict[tuple[int, Trial], Doubles] = {}
        self._deployed: Doubles | None = None

    def link_effects(self, links: Longs) -> Doubles:
        """Return what the links themselves put into their scores, where they were trained on."""
        trials = [self._ends_of(link) for link in links.tolist()]
        stated = [
            replace(trial, back=frozenset([int(self._batch.link_fact[trial.link])]))
            for trial in trials
        ]
        (both,) = self._scores((self._batch.visible, [*stated, *trials]))
        found: Doubles = (both[: len(links)] - both[len(links) :]).mean(1)
        return found

    def logits(self, graph: Bools, edits: Edits) -> Doubles:
        """Return the score of the link of each edited graph; NaN: there was no time.

        Args:
            graph: the graphs that are edited: which edges of the batch they have.
            edits: what is other in each edited graph.
        """
        answers = np.full(edits.num_graphs, np.nan)
        size = max(edits.num_graphs, 1) * len(self._batch.edges) / self._batch.num_links
        if not self._timer.allows(size, self._doing):
            self.complete = False
            return answers
        if self._deployed is None:
            self._deployed, _ = self._setup.logits(self._batch, self._relation)
        with self._timer.step(size):
            # What the graph lacks to that of the deployed model, and what each edit changes.
            whole = self._batch.visible
            ends = [self._ends_of(link) for link in range(self._batch.num_links)]
            asked = ends if not np.array_equal(graph, whole) else []
            asked = [trial for trial in asked if trial.link in edits.link]
            trials = self._trials(graph, edits)
            start, now = self._scores((whole, asked), (graph, [*asked, *trials]))
            by_link = np.zeros(self._batch.num_links)
            by_link[[trial.link for trial in asked]] = (now[: len(asked)] - start).mean(1)
            answers = (self._deployed + by_link)[edits.link]
            return np.asarray(answers + _changes(now[len(asked) :]).mean(1))

    def errors(self, graph: Bools, edits: Edits) -> Doubles:
        """Return the standard error of what each edit does, over the random starts."""
        (scores,) = self._scores((graph, self._trials(graph, edits)))
        changes = _changes(scores)
        found: Doubles = changes.std(axis=1, ddof=1) / np.sqrt(changes.shape[1])
        return found

    def _trials(self, graph: Bools, edits: Edits) -> list[Trial]:
        """The trials of edited graphs, then those of the same nodes without the edits."""
        trials = [self._trial(graph, edits, i) for i in range(edits.num_graphs)]
        return trials + [replace(t, gone=NOTHING, back=NOTHING, moved=()) for t in trials]

    def _scores(self, *asked: tuple[Bools, list[Trial]]) -> list[Doubles]:
        """[num_trials, starts] each: scores after trials on graphs; each trial is done once."""
        marks = [hash(graph.tobytes()) for graph, _ in asked]
        keys = [[(mark, t) for t in trials] for mark, (_, trials) in zip(marks, asked, strict=True)]
        graphs = {mark: graph for mark, (graph, _) in zip(marks, asked, strict=True)}
        new = [key for key in dict.fromkeys(chain(*keys)) if key not in self._known]
        places = {place: i for i, place in enumerate(dict.fromkeys((m, t.link) for m, t in new))}
        links = [self._link(graphs[mark], link) for mark, link in places]
        scores = self._mimics.scores(
            links, [replace(trial, link=places[mark, trial.link]) for mark, trial in new]
        )
        self._known.update(zip(new, scores, strict=True))
        starts = self._mimics.training.starts
        return [np.array([self._known[key] for key in each]).reshape(-1, starts) for each in keys]

    def _link(self, graph: Bools, link: int) -> TrialLink:
        """What trials of a link on a graph need to know."""
        batch = self._batch
        here = slice(*batch.edge_ptr[link : link + 2])
        lacking = batch.visible[here] & ~graph[here]
        gone = np.unique(self._graph.fact[batch.edges[here][lacking]]).astype(np.int64)
        if batch.link_fact[link] >= 0:
            gone = np.append(gone, batch.link_fact[link])
        ends = int(batch.link_src[link]), int(batch.link_dst[link])
        return TrialLink(*ends, int(self._number[link]), gone)

    def _ends_of(self, link: int) -> Trial:
        """Train source and target of a link."""
        return Trial(link, (int(self._batch.link_src[link]), int(self._batch.link_dst[link])))

    def _trial(self, graph: Bools, edits: Edits, number: int) -> Trial:
        """What one edited graph comes to."""
        batch, flat = self._batch, self._graph
        link = int(edits.link[number])
        slots = edits.slots.values[edits.slots.ptr[number] : edits.slots.ptr[number + 1]]
        slots = slots[batch.visible[slots]]
        edges = batch.edges[slots]
        facts, was = flat.fact[edges].astype(np.int64), graph[slots]
        gone, back = (frozenset(facts[each].tolist()) for each in (was, ~was))
        moved = self._moved(edits, number)
        nodes = self._nodes(link, edges)
        counted = NOTHING
        most = self._mimics.training.max_facts
        if any(self._mimics.facts.count(node) > most for node in nodes):
            counted = gone | back
        return Trial(link, nodes, gone, back - gone, moved, counted)

    def _moved(self, edits: Edits, number: int) -> tuple[Edge, ...]:
        ptr = edits.moved_edges.ptr
        columns = edits.moved_edges.values[ptr[number] : ptr[number + 1]]
        slot, src, dst = edits.table[:, columns]
        batch = self._batch
        position = self._graph.relation[batch.edges[slot]]
        each = zip(
            batch.nodes[src].tolist(), batch.nodes[dst].tolist(), position.tolist(), strict=True
        )
        return tuple(each)

    def _nodes(self, link: int, edges: Longs | Ints) -> tuple[int, ...]:
        """Source, target, and the nodes on some facts, as long as these are few."""
        ends = int(self._batch.link_src[link]), int(self._batch.link_dst[link])
        if self._setup.ends_only or len(edges) > MOST_NODES**2:
            return ends
        pairs = {
            frozenset(pair)
            for pair in zip(
                self._graph.src[edges].tolist(), self._graph.dst[edges].tolist(), strict=True
            )
        }
        nodes = set().union(*pairs) | set(ends)
        if len(nodes) > MOST_NODES:  # those that facts of the set join to an end
            nodes, grown = set(ends), True
            while grown:
                near = {node for pair in pairs if pair & nodes for node in pair}
                grown, nodes = not near <= nodes, nodes | near
        if len(nodes) > MOST_NODES:
            return ends
        return (*ends, *sorted(nodes - set(ends)))


def _changes(scores: Doubles) -> Doubles:
    """What edits change, by the scores after their trials and those without the edits."""
    half = len(scores) // 2
    found: Doubles = scores[:half] - scores[half:]
    return found
