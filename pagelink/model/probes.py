"""Links on which a model is tried before it explains anything.

Of three kinds, in turn: links of the type that the graph has, pairs that a short path joins, and
pairs at random. Each is scored on the full graph, and once more after an edit: without half of the
facts at the ends of the links, and without some of all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pagelink.errors import GraphError, ModelError
from pagelink.graph.computation_graph import ComputationGraphs, Extractor
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.data_flow import DataFlow
from pagelink.model.masking import Tracer
from pagelink.model.noise import Noise
from pagelink.model.predictor import LinkPredictor
from pagelink.runtime.arrays import Bools, Longs

LINKS = 32
LINKS_PER_ROUND = 8
EDGES_PER_ROUND = 8_000_000
"""Edges of the computation graphs of a round at most, if each is the whole graph."""
WALK = 4
"""Facts of the paths that join pairs at most."""
AT_ENDS, ELSEWHERE = 0.5, 0.125
"""The shares of facts that the edit removes."""


@dataclass(frozen=True)
class Probe:
    """Links to try, with their scores on the full graph before and after an edit."""

    src: Longs
    dst: Longs
    relation: Longs
    logits: torch.Tensor
    removed: Bools
    """Per edge of the graph, whether the edit removes it."""
    edited: torch.Tensor
    noise: Noise

    def part(self, links: slice) -> Probe:
        """Some of the links."""
        return Probe(
            self.src[links], self.dst[links], self.relation[links], self.logits[links],
            self.removed, self.edited[links], self.noise,
        )  # fmt: skip

    def rounds(self, graph: TypedGraph) -> Iterator[Probe]:
        """The links, a few at a time: fewer where the graphs of a few may not fit into memory."""
        size = min(LINKS_PER_ROUND, max(EDGES_PER_ROUND // max(graph.num_edges, 1), 1))
        for first in range(0, len(self.src), size):
            yield self.part(slice(first, first + size))

    def extract(self, extractor: Extractor) -> ComputationGraphs:
        """The computation graphs of the links; none of them is taken out of the graph."""
        return extractor.extract(self.src, self.dst, np.full(len(self.src), -1))


def draw_probe(
    predictor: LinkPredictor, link_types: Sequence[EdgeType], seed: int
) -> tuple[Probe, DataFlow, Tracer]:
    """Draw links of all types and run the model on the full graph for them.

    Returns:
        The links, and what was read and noted while the model ran.

    Raises:
        GraphError: there are no nodes or no messages for such links.
        ModelError: the model fails, or returns what is no number.
    """
    graph, rng = predictor.graph, np.random.default_rng((seed, 1))
    src, dst, relation = _draw_links(graph, link_types, rng)
    flow = DataFlow()
    removed = _draw_edit(graph, np.concatenate([src, dst]), rng)
    try:
        logits, _, tracer = predictor.record(predictor.full_graph(src, dst, relation), flow)
        edited = predictor.logits(predictor.full_graph(src, dst, relation, removed))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"The model failed on the full graph, called as {predictor.described_call}: "
            f"{type(error).__name__}: {error}. If its signature is another one, give "
            "forward=callable(model, data, edge_label_index)."
        ) from error
    if not bool(torch.isfinite(logits).all()):
        raise ModelError(
            "The model returns NaN or infinite scores for links of this graph: "
            f"{logits.tolist()[:8]}. Check its weights and the node features."
        )
    return Probe(src, dst, relation, logits, removed, edited, Noise.of(logits)), flow, tracer


def _draw_edit(graph: TypedGraph, ends: Longs, rng: np.random.Generator) -> Bools:
    """Edges of whole facts to remove."""
    at_end = np.zeros(graph.num_nodes, dtype=np.bool_)
    at_end[ends] = True
    near = np.zeros(graph.num_facts, dtype=np.bool_)
    near[graph.fact[at_end[graph.src] | at_end[graph.dst]]] = True
    gone = rng.random(graph.num_facts) < np.where(near, AT_ENDS, ELSEWHERE)
    return gone[graph.fact]


def _draw_links(
    graph: TypedGraph, link_types: Sequence[EdgeType], rng: np.random.Generator
) -> tuple[Longs, Longs, Longs]:
    """Draw pairs of different nodes: sources, targets, and the position of their link type."""
    types = list(dict.fromkeys(link_types))
    if len(types) > LINKS:
        types = [types[i] for i in np.sort(rng.choice(len(types), LINKS, replace=False))]
    rows: list[tuple[int, int, int]] = []
    for turn, link_type in enumerate(types):
        position, (sources, targets) = (
            graph.edge_types.index(link_type),
            _nodes_of(graph, link_type),
        )
        stored = _stored_links(graph, position, rng)
        before = len(rows)
        for number in range(-(-LINKS // len(types))):
            # A kind that has no link gives way to the next one.
            for kind in range(3):
                pair: tuple[int, int] | None
                match (turn + number + kind) % 3:
                    case 0:
                        pair = next(stored, None)
                    case 1:
                        pair = _joined(graph, link_type, sources, rng)
                    case _:
                        pair = int(rng.choice(sources)), int(rng.choice(targets))
                if pair is not None and pair[0] != pair[1]:
                    rows.append((*pair, position))
                    break
        if len(rows) == before:
            raise GraphError(f"{link_type}: there is only one node to link, so there are no links.")
    src, dst, relation = np.array(rows, dtype=np.int64).T
    return src, dst, relation


def _nodes_of(graph: TypedGraph, link_type: EdgeType) -> list[Longs]:
    """The sources and the targets to draw from: those that receive messages, where there are."""
    receives = np.diff(graph.in_ptr) > 0
    found: list[Longs] = []
    for node_type in (link_type[0], link_type[2]):
        k = graph.node_types.index(node_type)
        nodes = np.arange(graph.node_offset[k], graph.node_offset[k + 1])
        if len(nodes) == 0:
            raise GraphError(f"There are no nodes of type {node_type!r}, so there are no links.")
        listening = nodes[receives[nodes]]
        # One node alone makes no link with itself.
        alone = len(listening) == 1 and link_type[0] == link_type[2] and len(found) == 1
        found.append(listening if len(listening) and not alone else nodes)
    if not receives[found[0]].any() and not receives[found[1]].any():
        raise GraphError(
            f"No {link_type[0]} and no {link_type[2]} has an incoming edge, so no message can "
            "reach a link. Add reverse relations (torch_geometric.transforms.ToUndirected)."
        )
    return found


def _stored_links(
    graph: TypedGraph, position: int, rng: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """Links of a type that the graph has, at random."""
    if graph.edge_counts[position] == 0:
        return
    edges = np.flatnonzero(graph.relation == position)
    for edge in rng.choice(edges, min(len(edges), LINKS), replace=False).tolist():
        yield int(graph.src[edge]), int(graph.dst[edge])


def _joined(
    graph: TypedGraph, link_type: EdgeType, sources: Longs, rng: np.random.Generator
) -> tuple[int, int] | None:
    """A source, and a target of the type that a walk of a few facts from it ends at."""
    wanted = graph.node_types.index(link_type[2])
    for _ in range(8):
        start = node = int(rng.choice(sources))
        last: int | None = None
        for _ in range(int(rng.integers(1, WALK + 1))):
            arcs = graph.arcs_of(node)
            if arcs.start == arcs.stop:
                break
            node = int(graph.arc_dst[int(rng.integers(arcs.start, arcs.stop))])
            if node != start and graph.node_type_of[node] == wanted:
                last = node
        if last is not None:
            return start, last
    return None
