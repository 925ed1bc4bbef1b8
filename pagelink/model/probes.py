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

SEED = 0
"""What is found of a model is a matter of the model and the graph, not of the explainer's seed."""
LINKS = 32
LINKS_PER_ROUND = 8
EDGES_PER_ROUND = 8_000_000
"""Edges of the computation graphs of a round at most, if each is the whole graph."""
WALK = 4
"""Facts of the paths that join pairs at most."""
TRIES = 8
"""Draws of a node, or of a walk, before one that does not fit is taken, or none."""
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
    predictor: LinkPredictor, link_types: Sequence[EdgeType]
) -> tuple[Probe, DataFlow, Tracer]:
    """Draw links of all types and run the model on the full graph for them.

    Returns:
        The links, and what was read and noted while the model ran.

    Raises:
        GraphError: there are no nodes or no messages for such links.
        ModelError: the model fails, or returns what is no number.
    """
    graph, rng = predictor.graph, np.random.default_rng(SEED)
    check_ends(graph, link_types)
    src, dst, relation = draw_links(graph, link_types, rng)
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


def draw_links(
    graph: TypedGraph, link_types: Sequence[EdgeType], rng: np.random.Generator
) -> tuple[Longs, Longs, Longs]:
    """Draw pairs of different nodes: sources, targets, and the position of their link type.

    Only what is near them is looked at, so that it takes no longer on a graph on disk.
    """
    types = list(dict.fromkeys(link_types))
    if len(types) > LINKS:
        types = [types[i] for i in np.sort(rng.choice(len(types), LINKS, replace=False))]
    rows: list[tuple[int, int, int]] = []
    for turn, link_type in enumerate(types):
        position, before = graph.edge_types.index(link_type), len(rows)
        stored = _stored_links(graph, link_type, rng)
        for number in range(-(-LINKS // len(types))):
            # A kind that has no link gives way to the next one.
            for kind in range(3):
                pair: tuple[int, int] | None
                match (turn + number + kind) % 3:
                    case 0:
                        pair = next(stored, None)
                    case 1:
                        pair = _joined(graph, link_type, rng)
                    case _:
                        pair = tuple(_draw_node(graph, t, rng) for t in link_type[::2])  # type: ignore[assignment]
                if pair is not None and pair[0] != pair[1]:
                    rows.append((*pair, position))
                    break
        if len(rows) == before:
            raise GraphError(f"{link_type}: there is only one node to link, so there are no links.")
    src, dst, relation = np.array(rows, dtype=np.int64).T
    return src, dst, relation


def _draw_node(graph: TypedGraph, node_type: str, rng: np.random.Generator) -> int:
    """Draw a node of a type, one that receives messages if there are not too few of them."""
    k = graph.node_types.index(node_type)
    nodes = rng.integers(graph.node_offset[k], graph.node_offset[k + 1], TRIES)
    receives = graph.in_ptr[nodes + 1] > graph.in_ptr[nodes]
    return int(nodes[int(np.argmax(receives))])


def _stored_links(
    graph: TypedGraph, link_type: EdgeType, rng: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """Links of a type that the graph has, at random."""
    if graph.edge_counts[graph.edge_types.index(link_type)] == 0:
        return
    ends = np.stack(graph.some_links(link_type, LINKS))
    yield from zip(*rng.permutation(ends, axis=1).tolist(), strict=True)


def _joined(
    graph: TypedGraph, link_type: EdgeType, rng: np.random.Generator
) -> tuple[int, int] | None:
    """A source, and a target of the type that a walk of a few facts from it ends at."""
    wanted = graph.node_types.index(link_type[2])
    first, last = graph.node_offset[wanted : wanted + 2]
    for _ in range(TRIES):
        start = node = _draw_node(graph, link_type[0], rng)
        found: int | None = None
        for _ in range(int(rng.integers(1, WALK + 1))):
            arcs = graph.arcs_of(node)
            if arcs.start == arcs.stop:
                break
            node = int(graph.arc_dst[int(rng.integers(arcs.start, arcs.stop))])
            if node != start and first <= node < last:
                found = node
        if found is not None:
            return start, found
    return None


def check_ends(graph: TypedGraph, link_types: Sequence[EdgeType]) -> None:
    """Refuse link types without nodes, or that no message can reach.

    Raises:
        GraphError: the message names the node type.
    """
    for src_type, _, dst_type in link_types:
        receives = False
        for node_type in (src_type, dst_type):
            k = graph.node_types.index(node_type)
            first, last = graph.node_offset[k : k + 2]
            if first == last:
                raise GraphError(
                    f"There are no nodes of type {node_type!r}, so there are no links."
                )
            receives |= bool(graph.in_ptr[last] > graph.in_ptr[first])
        if not receives:
            raise GraphError(
                f"No {src_type} and no {dst_type} has an incoming edge, so no message can reach a "
                "link. Add reverse relations (torch_geometric.transforms.ToUndirected)."
            )


def noise_around(
    predictor: LinkPredictor, extractor: Extractor, link_types: Sequence[EdgeType]
) -> Noise:
    """Find the noise on a graph that is too large to run the model on, from neighbourhoods.

    The links are those that are drawn of the same graph in memory.
    """
    src, dst, relation = draw_links(predictor.graph, link_types, np.random.default_rng(SEED))
    logits = []
    for i in range(len(src)):  # one at a time: a neighbourhood may be large
        batch = extractor.extract(src[[i]], dst[[i]], np.full(1, -1))
        logits.append(predictor.logits(predictor.inputs(batch, batch.visible, [0], relation[[i]])))
    return Noise.of(torch.cat(logits))
