"""What the model sees of the graph: how far, by which relations, and in which way it is run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from pagelink.errors import GraphError, MaskError, ModelError
from pagelink.graph import Bools, EdgeType, Longs, TypedGraph
from pagelink.locality import (
    LINKS_A_ROUND,
    NOT_LOCAL,
    ROUNDS,
    Probe,
    Reach,
    extractor_for,
    try_modes,
)
from pagelink.patch import patch_predictor
from pagelink.predictor import LinkPredictor, Mode
from pagelink.proofs import find_what_is_shared, prove
from pagelink.tracing import Tracer, layer_name

__all__ = ["NOT_LOCAL", "Reach", "extractor_for", "find_reach"]


def find_reach(
    predictor: LinkPredictor, link_types: Sequence[EdgeType], seed: int, *, on_patch: bool = False
) -> Reach:
    """Find L and the way to run the model, and prove that edge weights reach it.

    Leaves `predictor.mode` at the way that was found.

    Args:
        predictor: the model.
        link_types: the predicted relations; the one that sees farthest counts.
        seed: where the links to try come from.
        on_patch: try the model on a small part of the graph, because the whole does not fit into
            memory.

    Raises:
        ModelError: the model fails on the graph, or its score has no gradient by the edges; or it
            needs all nodes, and the graph is not in memory.
        MaskError: messages are passed outside of what can be weighted; the layer is named.
    """
    if predictor.graph.num_edges == 0:
        raise GraphError("The graph has no edges, so there is no path that could explain a link.")
    if not on_patch:
        return _find(predictor, link_types, seed)
    tried = patch_predictor(predictor, link_types, seed)
    reach = _find(tried, link_types, seed)
    if reach.mode != "subgraphs":
        raise ModelError(
            "The model needs all nodes of the graph, or its score depends on the whole graph, so "
            "it cannot be explained from a store on disk. Let it look up its nodes by n_id (its "
            "embeddings by the positions it is given), or load the graph into memory: "
            "PaGELink(model, store.data, ...)."
        )
    predictor.adopt(tried)
    return reach


def _find(predictor: LinkPredictor, link_types: Sequence[EdgeType], seed: int) -> Reach:
    graph = predictor.graph
    probes = [_draw_probe(predictor, link_type, seed) for link_type in link_types]
    seen = np.any([_seen_relations(graph, tracer, predictor) for _, tracer in probes], axis=0)
    reaches = [try_modes(predictor, probe, seen) for probe, _ in probes]
    order: tuple[Mode, ...] = ("subgraphs", "all_nodes", "full")
    worst = max(reaches, key=lambda reach: order.index(reach.mode))
    if worst.mode != "full":
        num_hops = max(reach.num_hops or 0 for reach in reaches)
        along = np.any([reach.along_relations for reach in reaches], axis=0)
        worst = Reach(worst.mode, num_hops, seen, along)
    predictor.mode = worst.mode
    find_what_is_shared(predictor, probes[0][0], worst)
    proofs = [prove(predictor, probe, worst) for probe, _ in probes]
    return dataclasses.replace(
        worst, bytes_an_edge=max(taken for taken, _ in proofs),
        uses_edges=any(used for _, used in proofs),
        in_unit_range=all(bool(((p.logits >= 0) & (p.logits <= 1)).all()) for p, _ in probes),
    )  # fmt: skip


def _draw_probe(predictor: LinkPredictor, link_type: EdgeType, seed: int) -> tuple[Probe, Tracer]:
    """Run the model on the full graph for some links."""
    src, dst = _draw_links(predictor.graph, link_type, np.random.default_rng((seed, 1)))
    relation = np.full(len(src), predictor.graph.edge_types.index(link_type))
    try:
        logits, _, tracer = predictor.record(predictor.full_graph(src, dst, relation))
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
    return Probe(src, dst, relation, logits), tracer


def _draw_links(
    graph: TypedGraph, link_type: EdgeType, rng: np.random.Generator
) -> tuple[Longs, Longs]:
    """Draw pairs of different nodes that receive messages, where there are such nodes."""
    ends: list[Longs] = []
    receives = np.diff(graph.in_ptr) > 0
    for node_type in (link_type[0], link_type[2]):
        k = graph.node_types.index(node_type)
        nodes = np.arange(graph.node_offset[k], graph.node_offset[k + 1])
        if len(nodes) == 0:
            raise GraphError(f"There are no nodes of type {node_type!r}, so there are no links.")
        listening = nodes[receives[nodes]]
        # One node alone makes no link with itself.
        alone = len(listening) == 1 and link_type[0] == link_type[2] and len(ends) == 1
        ends.append(listening if len(listening) and not alone else nodes)
    if not receives[ends[0]].any() and not receives[ends[1]].any():
        raise GraphError(
            f"No {link_type[0]} and no {link_type[2]} has an incoming edge, so no message can "
            "reach a link. Add reverse relations (torch_geometric.transforms.ToUndirected)."
        )
    count = LINKS_A_ROUND * ROUNDS
    src, dst = rng.choice(ends[0], count), rng.choice(ends[1], count)
    dst = np.where(src == dst, np.roll(ends[1], 1)[np.searchsorted(ends[1], dst)], dst)
    if (src == dst).all():
        raise GraphError(f"{link_type}: there is only one node to link, so there are no links.")
    return src[src != dst], dst[src != dst]


def _seen_relations(graph: TypedGraph, tracer: Tracer, predictor: LinkPredictor) -> Bools:
    if tracer.collected_outside:
        name = tracer.collected_outside[0]
        module = predictor.model.get_submodule(name)
        raise MaskError(
            f"{layer_name(name, module)} collects vectors along the edges outside of a "
            "MessagePassing layer, where edge weights cannot reach them. Move the aggregation "
            "into a torch_geometric.nn.MessagePassing layer."
        )
    seen = np.zeros(len(graph.edge_types), dtype=np.bool_)
    by_relation = np.sort(graph.relation, kind="stable")
    for numbers in tracer.calls:
        used = numbers[numbers >= 0].cpu().numpy()
        seen[np.unique(by_relation[used])] = True
    if not seen.any():
        raise ModelError(
            "The model passes no messages along the edges of the graph: no MessagePassing layer "
            "was run on them. If its score depends on them by other means (a sparse matrix "
            "product, a precomputed adjacency), use MessagePassing layers; if it does not, there "
            "is no path that could explain its links."
        )
    return seen
