"""What else the score rests on: the disjoint parts of what the model sees of a link.

Facts on paths; other facts nearer the source, nearer the target, equally near; the features (or
embeddings) of the source, of the target, and of all other nodes. A part of facts is taken out by
removing them, features by those of random nodes of the same type and of similar degree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.measure.swap_kernels import distances
from pagelink.measure.trials import Trials
from pagelink.measure.verdict import PARTS, Part
from pagelink.model.edited_logits import EDGES_PER_PASS
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.runtime.arrays import Bools, Doubles, Ints, Longs
from pagelink.runtime.timer import OutOfTimeError
from pagelink.search.work import MEASURING

DRAWS = 8
"""Draws of other features."""
SAMPLED = 4096
"""Of a crowded graph, the edges of one relation that enter a node, at most, in a draw."""
ALIKE = 32
"""Nodes of the same type that are drawn, of which the one of the nearest degree is taken."""


@dataclass(frozen=True)
class LinkParts:
    """The parts of what the model sees of a link, and the model without some of them."""

    trials: Trials
    link: int
    alone: ComputationGraphs
    """The computation graph of the link, by itself."""
    edges: tuple[Bools, ...]
    """Per part of facts, its edges among those of `alone`; together, all that the model sees."""
    nodes: tuple[Longs, ...]
    """Per part of features, its nodes among those of `alone`."""
    drawn: dict[tuple[int, int], Longs] = field(default_factory=dict)
    """Per part of features and draw, the nodes whose features its nodes get, once drawn."""

    @classmethod
    def of(cls, trials: Trials, link: int) -> LinkParts:
        """Return the parts of a link of the batch."""
        batch, graphs = trials.work.batch, trials.graphs
        alone = batch.only(link)
        here = slice(*batch.edge_ptr[link : link + 2])
        on_path, whole = graphs.on_path[here], graphs.whole[here]
        near, far = (_nearness(alone, end) for end in (0, 1))
        masks = (on_path, *(~on_path & mask for mask in (near < far, far < near, near == far)))
        others = _seen_nodes(alone, whole)
        src, dst = alone.ends[:, 0]
        others[[src, dst]] = False
        nodes = (np.array([src]), np.array([dst]), np.flatnonzero(others))
        return cls(trials, link, alone, tuple(mask & whole for mask in masks), nodes)

    def sampled(self, draw: int) -> LinkParts:
        """Return the parts of a crowded graph with a sample of the edges that enter a node.

        Of more than `SAMPLED` edges of one relation that enter a node, these many are drawn. Their
        mean is that of all of them, but for the error of the sample. What is then out of sight is
        in no part.
        """
        alone, wanted = self.alone, np.logical_or.reduce(self.edges)
        rng = np.random.default_rng((*_seed(self.trials, alone), len(self.nodes) * DRAWS + draw))
        for crowd in self._crowds:
            wanted[crowd] = False
            wanted[rng.choice(crowd, SAMPLED, replace=False)] = True
        wanted, seen = alone.in_sight(wanted)
        number = np.cumsum(seen) - 1
        return replace(
            self,
            alone=_only(alone, wanted, seen),
            edges=tuple(mask[wanted] for mask in self.edges),
            nodes=tuple(number[part[seen[part]]] for part in self.nodes),
            drawn={},
        )

    @cached_property
    def _crowds(self) -> list[Longs]:
        """The edges of one relation that enter one node, where these are too many."""
        edges = np.flatnonzero(np.logical_or.reduce(self.edges))
        relation = self.trials.graphs.graph.relation[self.alone.edges[edges]].astype(np.int64)
        mean = self.alone.dst[edges] * (int(relation.max(initial=0)) + 1) + relation
        return [edges[mean == each] for each in np.flatnonzero(np.bincount(mean) > SAMPLED)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Facts or nodes of each part."""
        facts = self.trials.graphs.graph.fact
        counts = (_num_different(facts[self.alone.edges[mask]]) for mask in self.edges)
        return (*counts, *map(len, self.nodes))

    def looks(self, absent: Iterable[int], draw: int) -> Longs:
        """Return whose features each node has where some parts of features are taken out.

        Args:
            absent: the parts, by position in `nodes`. A part has the same other features in a draw,
                whichever further parts are out.
            draw: the number of the draw, below `DRAWS`.
        """
        found: Longs = self.alone.nodes.astype(np.int64)
        for part in absent:
            nodes, key = self.nodes[part], (part, draw)
            if key not in self.drawn:
                self.drawn[key] = _alike(self.trials, self.alone, nodes, part * DRAWS + draw)
            found[nodes] = self.drawn[key]
        return found

    def logits(self, wanted: Bools, looks: Sequence[Longs]) -> Doubles:
        """Return the logits of the link on a graph, with other features in each.

        Args:
            wanted: the edges of `alone` that the graph has.
            looks: per logit, whose features each node has.

        Raises:
            OutOfTimeError: the time was over before all of it was measured.
        """
        work = self.trials.work
        predictor, timer = work.setup.predictor, work.timer
        alone, relation = self.alone, work.relation[[self.link]]
        size, at_once = max(int(wanted.sum()), 1), 1
        if predictor.mode == "subgraphs":
            alone, wanted = _only(alone, wanted), np.ones(int(wanted.sum()), dtype=np.bool_)
            # Copies of the graph in a pass: as many as fit.
            fit = EDGES_PER_PASS // max(size, len(alone.nodes))
            at_once = max(1, fit) if predictor.shares_rim else 1
        known = predictor.inputs(alone, wanted, [0], relation) if predictor.flat else None
        answers = [np.empty(0)]
        for first in range(0, len(looks), at_once):
            part = looks[first : first + at_once]
            if not timer.allows(size * len(part), MEASURING):
                raise OutOfTimeError
            with timer.step(size * len(part)):
                answers.append(_logits(predictor, alone, wanted, relation, part, known))
        return np.concatenate(answers)


def _logits(
    predictor: LinkPredictor,
    alone: ComputationGraphs,
    wanted: Bools,
    relation: Longs,
    looks: Sequence[Longs],
    known: ModelInput | None,
) -> Doubles:
    """The logits of a link with other features in each; `known`: where nothing else is new."""
    if known is not None and known.flat is not None:
        found = [known.flat.looking(alone.nodes, each).logits() for each in looks]
        return torch.cat(found).double().numpy()
    copies, count = ComputationGraphs.joined([alone] * len(looks)), len(looks)
    inputs = predictor.inputs(
        copies, np.tile(wanted, count), np.arange(count), np.repeat(relation, count),
        looks=np.concatenate(looks),
    )  # fmt: skip
    logits: Doubles = predictor.logits(inputs).cpu().double().numpy()
    return logits


def what_else(trials: Trials, links: Longs) -> dict[int, tuple[Part, ...]]:
    """Measure the parts of some links.

    Args:
        trials: the model and the graphs.
        links: the links.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    found = {}
    for link in links.tolist():
        parts = LinkParts.of(trials, link)
        effects: list[tuple[float, float | None]] = [(each, None) for each in _facts(parts)]
        if trials.work.setup.passes_messages:  # else features are what facts put there
            effects += _features(parts)
        found[link] = tuple(
            Part(name, size, *effect)
            for name, size, effect in zip(PARTS, parts.sizes, effects, strict=False)
        )
    return found


def _facts(parts: LinkParts) -> list[float]:
    """What the score loses without the facts of each part."""
    trials, link = parts.trials, parts.link
    batch, edits = trials.work.batch, []
    for mask in parts.edges:
        other = np.zeros(len(trials.graphs.whole), dtype=np.bool_)
        other[slice(*batch.edge_ptr[link : link + 2])] = mask
        edits.append(Edits.towards(batch, other, np.array([link])))
    found: list[float] = trials.effects(Edits.joined(edits)).tolist()
    return found


def _features(parts: LinkParts) -> list[tuple[float, float | None]]:
    """What the score loses with the features of other nodes: the mean over draws, its error."""
    number, work = range(len(parts.nodes)), parts.trials.work
    if work.batch.crowded[parts.link] and work.setup.predictor.flat:
        # A model that is known as a whole takes means. Each draw has a sample of its own, so that
        # the error of the samples is part of that of the draws.
        found = []
        for draw in range(DRAWS):
            some = parts.sampled(draw)
            looks = [some.looks(absent, draw) for absent in ([], *([part] for part in number))]
            found.append(some.logits(np.logical_or.reduce(some.edges), looks))
        logits = np.stack(found, axis=1)
        lost = logits[0] - logits[1:]
    else:
        looks = [parts.looks([part], draw) for part in number for draw in range(DRAWS)]
        logits = parts.logits(np.logical_or.reduce(parts.edges), looks).reshape(-1, DRAWS)
        lost = work.logits[parts.link] - logits
    return [(float(each.mean()), float(each.std(ddof=1) / np.sqrt(DRAWS))) for each in lost]


def _nearness(alone: ComputationGraphs, end: int) -> Longs:
    """Per edge of a link's graph, how many facts its nearer end is from source or target."""
    size = len(alone.nodes)
    limit = size if alone.num_hops is None else 2 * alone.num_hops
    away = np.empty(size, dtype=np.int64)
    distances(
        alone.ends[end, 0], -1, alone.edge_ptr[0], alone.edge_ptr[1], alone.src, alone.dst,
        min(limit, 8), away,
    )  # fmt: skip
    found: Longs = np.minimum(away[alone.src], away[alone.dst])
    return found


def _only(alone: ComputationGraphs, wanted: Bools, nodes: Bools | None = None) -> ComputationGraphs:
    """A link's graph with some of its edges, and all of its nodes, or some with their edges."""
    kept = ("edges", "src", "dst", "visible", "fact_visible")
    arrays = {name: getattr(alone, name)[wanted] for name in kept}
    if nodes is not None:
        number = (np.cumsum(nodes) - 1).astype(np.int32)
        arrays |= {name: number[arrays[name]] for name in ("src", "dst")}
        arrays |= {name: getattr(alone, name)[nodes] for name in ("nodes", "hops")}
        arrays["node_ptr"] = np.array([0, int(nodes.sum())])
    return replace(alone, edge_ptr=np.array([0, int(wanted.sum())]), **arrays)


def _num_different(values: Ints) -> int:
    """The number of different values; `np.unique` takes many times as long."""
    return int((np.diff(np.sort(values)) != 0).sum()) + min(len(values), 1)


def _seen_nodes(alone: ComputationGraphs, needed: Bools) -> Bools:
    """The nodes of a link's graph whose features reach the score: its ends, and along edges."""
    seen = np.zeros(len(alone.nodes), dtype=np.bool_)
    seen[alone.src[needed]] = seen[alone.dst[needed]] = True
    seen[alone.ends[:, 0]] = True
    return seen


def _seed(trials: Trials, alone: ComputationGraphs) -> tuple[int, int, int]:
    return trials.work.seed, int(alone.link_src[0]), int(alone.link_dst[0])


def _alike(trials: Trials, alone: ComputationGraphs, nodes: Longs, draw: int) -> Longs:
    """For each node another one of its type: of some drawn at random, that of nearest degree."""
    graph = trials.graphs.graph
    rng = np.random.default_rng((*_seed(trials, alone), draw))
    flat = alone.nodes[nodes].astype(np.int64)
    first = graph.node_offset[graph.node_type_of[flat]]
    size = graph.node_offset[graph.node_type_of[flat] + 1] - first
    drawn = first[:, None] + (rng.random((len(flat), ALIKE)) * size[:, None]).astype(np.int64)
    unlike = np.abs(np.log1p(graph.degree[drawn]) - np.log1p(graph.degree[flat])[:, None])
    unlike[drawn == flat[:, None]] = np.inf  # itself only where there is no other
    found: Longs = np.take_along_axis(drawn, unlike.argmin(1)[:, None], axis=1)[:, 0]
    return found
