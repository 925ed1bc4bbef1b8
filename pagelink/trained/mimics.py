"""Mimics: copies of nodes that are trained anew, from random starts, on other facts.

What would the model say had it not been trained on some facts? (Kelpie, Rossi et al., SIGMOD 2022,
poses the question for the head or the tail of a link; here all nodes on paths are trained anew.) A
`Trial` is a set of nodes of a link and what differs in their facts. Its nodes get new vectors, and
everything else stays as it was trained; facts between two of its nodes see the new vectors of both.
The starts of a node are the same in all trials, so that two trials differ by their facts alone.

All trials of all links, and all starts, are trained side by side: scores of a node's facts are one
matrix product for all trials that have the node (`fact_tables`). What the loss of the model says of
these facts, and of those of others, is in `contrast`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pagelink.errors import SettingsError
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.trained.contrast import Contrast
from pagelink.trained.embeddings import EmbeddingModel
from pagelink.trained.fact_tables import FactTable, InnerFacts, OtherFacts, TableGroup
from pagelink.trained.facts import NodeFacts

Edge = tuple[int, int, int]
"""Source and target as flat nodes, and the position of the relation."""
SCORES_AT_ONCE = 16_000_000
"""Scores of facts that are in memory at once, about."""
NOTHING: frozenset[int] = frozenset()
LossPart = TableGroup | InnerFacts | OtherFacts
_BETAS = 0.9, 0.99


@dataclass(frozen=True)
class Training:
    """How mimics are trained."""

    starts: int = 5
    """Random starts; an effect is the mean over them. 5 or more."""
    steps: int = 60
    """Steps of Adam, each over all facts."""
    others: int = 384
    """Facts that stand for those of all other nodes, each in one direction: a node is
    distinguished from their ends, as in the training of the model."""
    max_facts: int = 200
    """Facts of a node at most. Of a node with more, this number at random stand for all of them;
    those in question are always among them, and stand for themselves."""
    learning_rate: float = 0.2
    """Of the first step, by the spread of the trained vectors; it falls to 0."""

    def __post_init__(self) -> None:
        lowest = {"starts": 5, "steps": 1, "others": 1, "max_facts": 1}
        for name, low in lowest.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise SettingsError(f"{name} must be a whole number from {low} up, got {value!r}.")
        if not 0 < self.learning_rate < float("inf"):
            raise SettingsError(f"learning_rate must be above 0, got {self.learning_rate!r}.")


@dataclass(frozen=True)
class Trial:
    """Nodes of a link that are trained anew, and on which facts, beside those of a graph."""

    link: int
    nodes: tuple[int, ...]
    """Source and target first."""
    gone: frozenset[int] = NOTHING
    """Facts of the graph that are left out."""
    back: frozenset[int] = NOTHING
    """Facts that the graph does not have."""
    moved: tuple[Edge, ...] = ()
    """Edges that are put in."""
    counted: frozenset[int] = NOTHING
    """Facts that stand for themselves where not all facts of a node are trained on."""


@dataclass(frozen=True)
class TrialLink:
    """A link, and the graph that its trials are about."""

    src: int
    dst: int
    relation: int
    """Of the model."""
    gone: Longs
    """Facts that the graph does not have."""


class Mimics:
    """Trains mimics of a model.

    Args:
        model: the model.
        facts: what it was trained on.
        training: how.
        seed: where random starts, and the facts that stand for others, come from.
    """

    def __init__(
        self, model: EmbeddingModel, facts: NodeFacts, training: Training, seed: int = 0
    ) -> None:
        self.model, self.facts, self.training, self.seed = model, facts, training, seed
        learned = model.nodes if model.fixed is None else model.nodes[~model.fixed]
        self._spread = float(learned.std(correction=0)) or 1.0
        self._starts: dict[int, Tensor] = {}
        self._contrast = Contrast(model, facts, training.starts, training.others, seed)

    def scores(self, links: Sequence[TrialLink], trials: Sequence[Trial]) -> Doubles:
        """Return the scores of the links after each trial, [num_trials, starts].

        Args:
            links: the links.
            trials: the trials; each says of which link it is.
        """
        found = np.empty((len(trials), self.training.starts))
        for part in self._parts(trials):
            found[part] = self._trained(links, [trials[i] for i in part])
        return found

    def _parts(self, trials: Sequence[Trial]) -> Iterator[list[int]]:
        """Cut trials into parts that fit into memory."""
        training = self.training
        part: list[int] = []
        size = 0
        for i, trial in enumerate(trials):
            counts = [min(self.facts.count(node), training.max_facts) for node in trial.nodes]
            mine = training.starts * (sum(counts) + training.others * len(counts))
            if part and size + mine > SCORES_AT_ONCE:
                yield part
                part, size = [], 0
            part.append(i)
            size += mine
        if part:
            yield part

    def _trained(self, links: Sequence[TrialLink], trials: Sequence[Trial]) -> Doubles:
        model, training = self.model, self.training
        first = np.concatenate([[0], np.cumsum([len(trial.nodes) for trial in trials])])
        nodes = torch.tensor([node for trial in trials for node in trial.nodes])
        parts = self._loss_parts(links, trials, nodes, first)
        vectors = torch.stack([self._start(int(node)) for node in nodes])
        mean, square = torch.zeros_like(vectors), torch.zeros_like(vectors)
        learned = None if model.fixed is None else ~model.fixed[nodes][:, None]
        for step in range(training.steps):
            gradient = self._gradient(vectors, nodes, parts)
            if learned is not None:
                gradient *= learned
            mean.lerp_(gradient, 1 - _BETAS[0])
            square.lerp_(gradient.square_(), 1 - _BETAS[1])
            rate = self._spread * training.learning_rate * (1 - step / training.steps)
            rate *= float(np.sqrt(1 - _BETAS[1] ** (step + 1)) / (1 - _BETAS[0] ** (step + 1)))
            vectors.addcdiv_(mean, square.sqrt().add_(1e-8), value=-rate)
        vectors = model.shaped(vectors, nodes)
        relation = torch.tensor([links[trial.link].relation for trial in trials])
        ends = torch.from_numpy(first[:-1])
        scores = model.score(vectors[ends], relation[:, None], vectors[ends + 1])
        found: Doubles = scores.double().numpy()
        return found

    def _gradient(self, free: Tensor, nodes: Tensor, parts: Sequence[LossPart]) -> Tensor:
        """The gradient of the loss of every trial by its vectors."""
        shaped = self.model.shaped(free, nodes)
        gradient = torch.zeros_like(shaped)
        for part in parts:
            part.add_gradient(self.model, shaped, gradient)
        return self.model.by_free(free, gradient)

    def _start(self, node: int) -> Tensor:
        """Random vectors of a node, [starts, size]; never the trained one."""
        if node not in self._starts:
            rng = np.random.default_rng((self.seed, node))
            drawn = rng.standard_normal((self.training.starts, self.model.nodes.shape[1]))
            start = torch.from_numpy(drawn * self._spread).float()
            if self.model.fixed is not None:
                start = torch.where(self.model.fixed[node], self.model.nodes[node], start)
            self._starts[node] = start
        return self._starts[node]

    def _loss_parts(
        self, links: Sequence[TrialLink], trials: Sequence[Trial], nodes: Tensor, first: Longs
    ) -> list[LossPart]:
        """The facts of all nodes, nodes that are in about as many trials together; of others."""
        mine: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for number, trial in enumerate(trials):
            for place, node in enumerate(trial.nodes):
                mine[trial.link, node].append((number, int(first[number]) + place))
        rows_of = [
            dict(zip(trial.nodes, range(int(first[i]), int(first[i + 1])), strict=True))
            for i, trial in enumerate(trials)
        ]
        by_size: dict[int, list[FactTable]] = defaultdict(list)
        num_facts = torch.zeros(len(nodes))
        for (link, node), members in mine.items():
            those = [trials[number] for number, _ in members]
            partners = [rows_of[number] for number, _ in members]
            rows = np.array([row for _, row in members])
            table = self._table(node, links[link].gone, those, partners, rows)
            if table is not None:
                by_size[len(rows).bit_length()].append(table)
                num_facts[table.rows] = table.weight.sum(1)
        parts: list[LossPart] = [TableGroup(self.model, each) for each in by_size.values()]
        if by_size:
            parts.append(InnerFacts([table for each in by_size.values() for table in each]))
        return [*parts, OtherFacts(self._contrast, nodes, num_facts)]

    def _table(
        self,
        node: int,
        lacking: Longs,
        trials: Sequence[Trial],
        partners: Sequence[dict[int, int]],
        rows: Longs,
    ) -> FactTable | None:
        """The facts of a node that some trials train on; None: there are none."""
        facts, most = self.facts, self.training.max_facts
        other, relation, is_head, fact = facts.of(node)
        there = ~np.isin(fact, lacking)
        changed = frozenset().union(*(t.gone | t.back | t.counted for t in trials))
        marked = np.isin(fact, list(changed)) if changed else np.zeros(len(fact), dtype=np.bool_)
        chosen = there
        if is_capped := int(there.sum()) > most:
            order = np.random.default_rng((self.seed, node, 1)).permutation(len(fact))
            chosen = np.zeros(len(fact), dtype=np.bool_)
            chosen[order[there[order]][:most]] = True
        kept = np.flatnonzero(chosen | marked)
        here = fact[kept]
        weight = np.tile((chosen & there)[kept].astype(np.float32), (len(trials), 1))
        for i, trial in enumerate(trials):
            own = np.isin(here, list(trial.counted)) if is_capped else np.zeros(len(kept), bool)
            if is_capped:
                rest = chosen[kept] & ~own
                standing = int(there.sum()) - int((own & there[kept]).sum())
                weight[i, rest] = standing / max(int(rest.sum()), 1)
                weight[i, own] = there[kept][own]
            for toggled, value in ((trial.gone, 0.0), (trial.back, 1.0)):
                if toggled:
                    weight[i, np.isin(here, list(toggled))] = value
        others, relations, heads = other[kept], relation[kept], is_head[kept]
        for i, trial in enumerate(trials):  # edges that lead here in one trial
            for src, dst, position in trial.moved:
                if dst == node:
                    column = np.zeros((len(trials), 1), dtype=np.float32)
                    column[i] = 1
                    weight = np.concatenate([weight, column], axis=1)
                    others = np.append(others, src)
                    relations = np.append(relations, facts.model_relation[position])
                    heads = np.append(heads, facts.is_forward[position])
        if not weight.any():
            return None
        inner = [
            (i, m, by[int(others[m])])
            for i, by in enumerate(partners)
            for m in np.flatnonzero(np.isin(others, list(by)) & (weight[i] > 0)).tolist()
        ]
        centre, width = self._contrast.of_facts(
            others, relations, heads, np.full(len(others), node, dtype=np.int64)
        )
        return FactTable(
            torch.from_numpy(rows), torch.from_numpy(weight), torch.from_numpy(others),
            torch.from_numpy(relations), torch.from_numpy(heads), centre, width,
            torch.tensor(inner, dtype=torch.long).reshape(-1, 3),
        )  # fmt: skip
