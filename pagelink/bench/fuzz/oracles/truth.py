"""What a model says, and what a link's graph is, without the code under test.

The model is called directly on the user's graph, in double precision, with edges really deleted.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from pagelink.bench.fuzz.draws.data import RandomData, relation_values
from pagelink.bench.fuzz.draws.models import RandomModel
from pagelink.bench.fuzz.oracles.multigraphs import Edge, Fact, Multigraph, Node
from pagelink.graph.schema import HOMOGENEOUS_NODE_TYPE, EdgeType

TOLERANCE = 2e-4
"""Of the scale of the scores; what rounding alone does is allowed ten times over, beside."""
ROUNDING = 10
PAIRS = 200
"""Random pairs, and real links, by whose scores the noise is known."""
Facts = frozenset[Fact]
NOTHING: Facts = frozenset()
Moved = Mapping[Edge, tuple[Node, Node]]
"""Stored edges with other ends; what is known of an edge goes with it."""
UNMOVED: Moved = {}


def written_down(given: RandomData, reverse: dict[EdgeType, EdgeType]) -> Multigraph:
    """The graph as plain sets, with these reverses."""
    data = given.data
    if isinstance(data, HeteroData):
        sizes = {kind: int(data[kind].num_nodes) for kind in data.node_types}
        pairs = {t: _pairs(data[t].edge_index) for t in data.edge_types}
        return Multigraph(sizes, pairs, reverse)
    kind, edge_index = HOMOGENEOUS_NODE_TYPE, data.edge_index
    number = data.edge_type if "edge_type" in data else torch.zeros(data.num_edges).long()
    columns = {
        t: torch.nonzero(number == value).view(-1) for t, value in relation_values(given).items()
    }
    pairs = {t: _pairs(edge_index[:, mine]) for t, mine in columns.items()}
    listed = {t: mine.tolist() for t, mine in columns.items()}
    return Multigraph({kind: int(data.num_nodes)}, pairs, reverse, listed)


def _pairs(edge_index: Tensor) -> list[tuple[int, int]]:
    return [(int(u), int(v)) for u, v in edge_index.t().tolist()]


@dataclass(frozen=True)
class Noise:
    """What counts as no change of a score, and what it may be by other links of the same graph."""

    least: float
    tau: float
    most: float

    @classmethod
    def of(cls, scores: Sequence[float], own: float) -> Noise:
        """By the scores of real, asked and random links, and one that surely is among them.

        Example:
            >>> Noise.of([0.0, 1.0, 2.0, 3.0, 100.0], own=1.0).tau
            0.02
        """
        values = np.array(scores)
        low, high = np.quantile(values, [0.25, 0.75])
        eps = 32 * float(np.finfo(np.float32).eps)
        largest, widest = float(np.abs(values).max()), float(np.ptp(values))
        tau = max(0.01 * float(high - low), eps * largest)
        return cls(eps * abs(own) / 2, tau, 2 * max(0.01 * widest, eps * largest))


class Truth:
    """Scores of links on the graph without some facts.

    Args:
        made: the model.
        given: the graph.
        drawn: the graph as plain sets.
        edge_types: the positions of relations, by which a link's own is named to the model.
    """

    def __init__(
        self, made: RandomModel, given: RandomData, drawn: Multigraph,
        edge_types: Sequence[EdgeType],
    ) -> None:  # fmt: skip
        self._made, self._data, self.drawn = made, given.data, drawn
        self._edge_types = list(edge_types)
        self.is_local = made.num_hops is not None
        self._models: dict[torch.dtype, nn.Module] = {}
        self._known: dict[Any, list[float]] = {}

    def scores(
        self,
        removed: Collection[Fact],
        links: Sequence[tuple[Node, Node]],
        link_type: EdgeType,
        dtype: torch.dtype = torch.float64,
        moved: Moved = UNMOVED,
    ) -> list[float]:
        """The logits of links on the graph without some facts, and with some edges elsewhere."""
        key = (frozenset(removed), tuple(links), link_type, dtype, frozenset(moved.items()))
        if key not in self._known:
            self._known[key] = self._run(removed, links, link_type, dtype, moved)
        return self._known[key]

    def sample(self, asked: Mapping[EdgeType, Sequence[tuple[Node, Node]]]) -> list[float]:
        """Scores of real, asked and random links of each type, as deployed."""
        rng, found = np.random.default_rng(0), list[float]()
        for link_type, pairs in asked.items():
            src, _, dst = link_type
            sizes = self.drawn.sizes[src], self.drawn.sizes[dst]
            ends = [*self.drawn.pairs.get(link_type, ())[:PAIRS]]
            if min(sizes):
                ends += [(int(u), int(v)) for u, v in rng.integers(0, sizes, (PAIRS, 2))]
            links = [*pairs, *(((src, u), (dst, v)) for u, v in ends)]
            found += self.scores((), [pair for pair in links if pair[0] != pair[1]], link_type)
        return found

    @torch.no_grad()
    def _run(
        self, removed: Collection[Fact], links: Sequence[tuple[Node, Node]], link_type: EdgeType,
        dtype: torch.dtype, moved: Moved,
    ) -> list[float]:  # fmt: skip
        drawn = self.drawn
        out = [edge for fact in removed for edge in drawn.edges_of.get(fact, ())]
        data = self._without(out, dtype, moved)
        position = self._edge_types.index(link_type)
        data.edge_label_type = torch.full((len(links),), position)
        label = torch.tensor([[s[1] for s, _ in links], [t[1] for _, t in links]])
        if dtype not in self._models:
            self._models[dtype] = copy.deepcopy(self._made.model).eval().to(dtype)
        model = self._models[dtype]
        if self._made.forward is not None:
            score = self._made.forward(model, data, label)
        elif isinstance(data, HeteroData):
            x_dict = {t: data[t].x if "x" in data[t] else data[t].n_id for t in data.node_types}
            score = model(x_dict, data.edge_index_dict, label)
        else:
            kind = (data.edge_type,) if "edge_type" in data else ()
            score = model(data.x if "x" in data else data.n_id, data.edge_index, *kind, label)
        if self._made.output == "probability":
            score = torch.logit(score, eps=torch.finfo(torch.float32).eps)
        values: list[float] = score.double().tolist()
        return values

    def _without(self, out: list[Edge], dtype: torch.dtype, moved: Moved) -> Any:
        """A copy of the data without some edges, and with some elsewhere."""
        data = copy.copy(self._data)
        for edge, ends in moved.items():
            store = data[edge.type] if isinstance(data, HeteroData) else data
            store.edge_index = store.edge_index.clone()
            store.edge_index[:, edge.column] = torch.tensor([ends[0][1], ends[1][1]])
        gone: dict[EdgeType, list[int]] = {}
        for edge in out:
            gone.setdefault(edge.type, []).append(edge.column)
        if isinstance(data, HeteroData):
            for kind in data.node_types:
                data[kind].n_id = torch.arange(data[kind].num_nodes)
            for edge_type in data.edge_types:
                keep = _kept(data[edge_type].edge_index.shape[1], gone.get(edge_type, []))
                _cut(data[edge_type], keep)
        else:
            data.n_id = torch.arange(data.num_nodes)
            _cut(data, _kept(data.edge_index.shape[1], [c for each in gone.values() for c in each]))
        for store in data.stores:
            for key, value in list(store.items()):
                if isinstance(value, Tensor) and value.is_floating_point():
                    store[key] = value.to(dtype)
        return data


def _kept(size: int, gone: list[int]) -> Tensor:
    keep = np.ones(size, dtype=np.bool_)
    keep[gone] = False
    return torch.from_numpy(np.flatnonzero(keep))


def _cut(store: Any, keep: Tensor) -> None:
    store.edge_index = store.edge_index[:, keep]
    for key in ("edge_type", "edge_weight", "edge_attr"):
        if key in store:
            store[key] = store[key][keep]


class LinkTruth:
    """The scores of one link, by what is taken out of its graph.

    Args:
        truth: the model on the graph.
        src: its source.
        dst: its target.
        link_type: its type; its own fact is taken out in any case.
        sample: scores of real, asked and random links.
    """

    def __init__(
        self, truth: Truth, src: Node, dst: Node, link_type: EdgeType, sample: Sequence[float]
    ) -> None:
        self.truth, self.src, self.dst, self.link_type = truth, src, dst, link_type
        own = truth.drawn.link_fact(src, dst, link_type)
        self.own = frozenset({own} & truth.drawn.facts)
        self.every = frozenset(truth.drawn.facts)
        self.deployed = self._score(frozenset())
        self.scale = max(abs(self.without()), abs(self.deployed), 0.1)
        self.noise = Noise.of([*sample, self.deployed], self.deployed)
        self.compared = list[float]()
        """How far each figure that was looked at is from the truth, by tau."""

    def _score(self, removed: Facts, dtype: torch.dtype = torch.float64) -> float:
        return self.truth.scores(removed, [(self.src, self.dst)], self.link_type, dtype)[0]

    def without(self, facts: Facts = NOTHING, dtype: torch.dtype = torch.float64) -> float:
        """f(G without these facts)."""
        return self._score(self.own | facts, dtype)

    def fall(self, above: Facts, below: Facts, dtype: torch.dtype = torch.float64) -> float:
        """f(G without these facts) - f(G without those)."""
        return self.without(above, dtype) - self.without(below, dtype)

    def slack(self, *removed: Facts) -> float:
        """How far a sum of scores on graphs without these may be from the true one."""
        rounding = [
            abs(self.without(facts) - self.without(facts, torch.float32)) for facts in removed
        ]
        return self.least_slack(*removed) + ROUNDING * sum(rounding)

    def slack_deployed(self) -> float:
        """How far the score with the link in place may be from the true one."""
        rounding = abs(self.deployed - self._score(frozenset(), torch.float32))
        return self._within(self.scale) + ROUNDING * rounding

    def least_slack(self, *removed: Facts) -> float:
        """How far it may be, whatever rounding does."""
        scale = max(self.scale, *(abs(self.without(facts)) for facts in removed))
        return self._within(scale)

    def _within(self, scale: float) -> float:
        # Of a model that sees more than a number of hops the outermost ring may count a little.
        tau = self.noise.tau
        return min(TOLERANCE * scale, tau) if self.truth.is_local else tau

    def compare(self, value: float, *removed: Facts) -> float:
        """Note how far a figure, of one edited graph or of two, is from the truth; return that."""

        def exact(dtype: torch.dtype) -> float:
            scores = [self.without(facts, dtype) for facts in removed]
            return scores[0] - scores[1] if len(scores) == 2 else scores[0]

        return self._compare(value, exact)

    def moved(self, facts: Facts, moved: Moved, dtype: torch.dtype = torch.float64) -> float:
        """f(G without these facts, with edges elsewhere)."""
        removed, pair = self.own | facts, [(self.src, self.dst)]
        return self.truth.scores(removed, pair, self.link_type, dtype, moved)[0]

    def slack_moved(self, facts: Facts, moved: Moved) -> float:
        """How far such a score may be from the true one."""
        rounding = abs(self.moved(facts, moved) - self.moved(facts, moved, torch.float32))
        return self.least_slack(facts) + ROUNDING * rounding

    def compare_moved(self, value: float, facts: Facts, moved: Moved) -> float:
        """Note how far such a score is from the truth; return that."""
        return self._compare(value, lambda dtype: self.moved(facts, moved, dtype))

    def compare_deployed(self, value: float) -> float:
        """The same for the score with the link in place."""
        return self._compare(value, lambda dtype: self._score(frozenset(), dtype))

    def _compare(self, value: float, exact: Callable[[torch.dtype], float]) -> float:
        # The model of the user says it in single precision, which is true, too.
        off = [abs(value - exact(dtype)) for dtype in (torch.float64, torch.float32)]
        self.compared.append(min(off) / self.noise.tau if self.noise.tau else 0.0)
        return off[0]
