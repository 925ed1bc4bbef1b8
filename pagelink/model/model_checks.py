"""Checks of a model on real links of its graph, before it explains anything.

`inspect_model` does them in this order:

1. Links are drawn and scored on the full graph, by a pass that notes the relations the model uses.
2. The receptive field, and with it the way to run the model, is found (`receptive_field`).
3. What links side by side may share without a change of their scores is found.
4. Edge weights are shown to reach the model: weights of 1 change nothing, and get a gradient.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from pagelink.errors import GraphError, MaskError, ModelError
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.borrowing import in_normal_mode, keeping_its_tensors
from pagelink.model.edited_logits import EditedLogits
from pagelink.model.inputs import ModelInput
from pagelink.model.masking import Tracer, layer_name
from pagelink.model.predictor import LinkPredictor, Mode
from pagelink.model.receptive_field import (
    EDGES_PER_PASS,
    LINKS_PER_ROUND,
    ROUNDS,
    TOLERANCE,
    Probe,
    ReceptiveField,
    chunks_by_edges,
    extractor_for,
    patch_predictor,
    try_modes,
    visible_count,
)
from pagelink.runtime.arrays import Bools, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.undo import Undo

EDITS = 3
"""Edited graphs that share nodes are compared with this number of graphs edited by themselves."""
GRID = 2
"""Links between this number of sources and of targets have parts of their graphs in common."""


@in_normal_mode
def inspect_model(
    predictor: LinkPredictor, link_types: Sequence[EdgeType], seed: int, *, on_patch: bool = False
) -> ReceptiveField:
    """Find L and the way to run the model, and check that edge weights reach it.

    Leaves `predictor.mode` at the way that was found.

    Args:
        predictor: the model.
        link_types: the predicted relations; the one that sees farthest counts.
        seed: where the links to try come from.
        on_patch: try the model on a small part of the graph, because the whole does not fit into
            memory.

    Raises:
        ModelError: the model fails on the graph, or its score has no gradient by the edges; or it
            changes its input, its buffers or its parameters; or it needs all nodes, and the graph
            is not in memory.
        MaskError: messages are passed outside of what can be weighted; the layer is named.
    """
    if predictor.graph.num_edges == 0:
        raise GraphError("The graph has no edges, so there is no path that could explain a link.")
    if not on_patch:
        return keeping_its_tensors(predictor.model, _inspect, predictor, link_types, seed)
    tried = patch_predictor(predictor, link_types, seed)
    field = keeping_its_tensors(predictor.model, _inspect, tried, link_types, seed)
    if field.mode != "subgraphs":
        raise ModelError(
            "The model needs all nodes of the graph, or its score depends on the whole graph, so "
            "it cannot be explained from a store on disk. Let it look up its nodes by n_id (its "
            "embeddings by the positions it is given), or load the graph into memory: "
            "PaGELink(model, store.data, ...)."
        )
    predictor.adopt(tried)
    return field


def _inspect(predictor: LinkPredictor, link_types: Sequence[EdgeType], seed: int) -> ReceptiveField:
    graph = predictor.graph
    probes = [_draw_probe(predictor, link_type, seed) for link_type in link_types]
    seen = np.any([_seen_relations(graph, tracer, predictor) for _, tracer in probes], axis=0)
    fields = [try_modes(predictor, probe, seen) for probe, _ in probes]
    order: tuple[Mode, ...] = ("subgraphs", "all_nodes", "full")
    worst = max(fields, key=lambda field: order.index(field.mode))
    if worst.mode != "full":
        num_hops = max(field.num_hops or 0 for field in fields)
        along = np.any([field.along_relations for field in fields], axis=0)
        worst = ReceptiveField(worst.mode, num_hops, seen, along)
    predictor.mode = worst.mode
    find_what_is_shared(predictor, probes[0][0], worst)
    checked = [check_weights(predictor, probe, worst) for probe, _ in probes]
    return dataclasses.replace(
        worst, bytes_per_edge=max(taken.memory for taken, _ in checked),
        seconds_per_edge=max(taken.seconds for taken, _ in checked),
        uses_edges=any(used for _, used in checked),
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
    count = LINKS_PER_ROUND * ROUNDS
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


def find_what_is_shared(predictor: LinkPredictor, probe: Probe, field: ReceptiveField) -> None:
    """Let links side by side, and edited graphs, share nodes only if that changes no score.

    A model may look at the edges that leave a node, or turn them around inside: then a node that
    stands for the same one of several graphs is not what it would be in each of them.

    Raises:
        ModelError: a link's score depends on what else the model is asked, even without sharing.
    """
    if predictor.mode != "subgraphs":
        _check_alone(predictor, probe)
        return
    src = np.repeat(probe.src[:GRID], len(probe.dst[:GRID]))
    dst = np.tile(probe.dst[:GRID], len(probe.src[:GRID]))
    src, dst = src[src != dst], dst[src != dst]
    extractor = extractor_for(predictor.graph, field, None)
    batch = extractor.extract(src, dst, np.full(len(src), -1))
    relation = np.full(len(src), probe.relation[0])
    alone = [
        float(predictor.logits(predictor.inputs(batch, batch.visible, [link], relation)))
        for link in range(len(src))
    ]
    for shares in (True, False):
        predictor.shares_rim = shares
        inputs = predictor.inputs(batch, batch.visible, np.arange(len(src)), relation)
        together = predictor.logits(inputs).cpu().double().numpy()
        if np.allclose(together, alone, rtol=1e-3, atol=1e-4):
            break
    else:
        raise _depends_on_others(alone[0], together[0])
    predictor.shares_unedited = predictor.shares_rim and _edited_graphs_agree(
        predictor, batch, relation
    )


def _check_alone(predictor: LinkPredictor, probe: Probe) -> None:
    """A link that is given alone must have the score that it has beside others."""
    for link in range(min(GRID, len(probe.src))):
        one = slice(link, link + 1)
        inputs = predictor.full_graph(probe.src[one], probe.dst[one], probe.relation[one])
        alone, again = float(predictor.logits(inputs)), float(predictor.logits(inputs))
        if not np.isclose(alone, again, rtol=1e-3, atol=1e-4):
            raise ModelError(
                f"The model's score of the same link is {alone:.4g} and then {again:.4g}. A model "
                "with a random forward pass in eval mode cannot be explained."
            )
        together = float(probe.logits[link])
        if not np.isclose(alone, together, rtol=1e-3, atol=1e-4):
            raise _depends_on_others(alone, together)


def _depends_on_others(alone: float, together: float) -> ModelError:
    return ModelError(
        f"The model's score of a link is {alone:.4g} alone and {together:.4g} beside other links. "
        "A model whose score depends on the other links it is given cannot be explained."
    )


def _edited_graphs_agree(
    predictor: LinkPredictor, batch: ComputationGraphs, relation: Longs
) -> bool:
    """Whether edited graphs that share nodes have the scores of graphs edited by themselves."""
    rng = np.random.default_rng(0)
    links: list[int] = []
    slots: list[Longs] = []
    for link in range(batch.num_links):
        here = np.flatnonzero(batch.visible[batch.edge_ptr[link] : batch.edge_ptr[link + 1]])
        if len(here) and len(links) < EDITS:
            links.append(link)
            chosen = rng.choice(here, min(len(here), 4), replace=False)
            slots.append(batch.edge_ptr[link] + chosen)
    edits = Edits(np.array(links, dtype=np.int64), Csr.of(slots))
    shared = EditedLogits(predictor, batch, relation).logits(batch.visible, edits)
    predictor.shares_unedited = False
    alone = EditedLogits(predictor, batch, relation).logits(batch.visible, edits)
    return np.allclose(shared, alone, rtol=1e-3, atol=1e-4)


class PerEdge(NamedTuple):
    """What a pass takes, per edge that goes through the model."""

    memory: float
    """Bytes, with gradients."""
    seconds: float


def check_weights(
    predictor: LinkPredictor, probe: Probe, field: ReceptiveField
) -> tuple[PerEdge, bool]:
    """Show that weight 1 reproduces the model and that the weights get a gradient.

    A model whose score no edge changes gets no gradient, and passes: that it does not use the graph
    is what is to be said of its links. A score that some edges do change must have one for some
    link, at weight 1 or, where it is saturated there, at one half.

    Returns:
        What a pass takes, and whether edges change the score.

    Raises:
        MaskError: the weights of 1 change the score, or messages pass where no weight reaches.
        ModelError: the edges change the score, but their weights get no gradient.
    """
    moved, checked, taken = False, False, PerEdge(0.0, 0.0)
    for batch, links, relation in _in_turn(predictor, probe, field):
        inputs = predictor.inputs(batch, predictor.needed(batch), links, relation)
        logits, recorded, _ = predictor.record(inputs)
        weights = torch.ones(len(batch.edges), device=predictor.device, requires_grad=True)
        with predictor.weighted(recorded) as run:
            started = time.perf_counter()
            weighted, saved = _saved_bytes(run, weights)
            seconds = time.perf_counter() - started
            reached = _has_gradient(weighted, weights) or _has_gradient(run(weights / 2), weights)
        if not torch.allclose(weighted.detach(), logits, rtol=1e-4, atol=1e-5):
            if predictor.fuses:  # then a layer only looked plain
                predictor.fuses = False
                return check_weights(predictor, probe, field)
            raise MaskError(
                "Edge weights of 1 change the model's scores from "
                f"{logits.tolist()[:3]} to {weighted.tolist()[:3]}. A model with a random "
                "forward pass in eval mode cannot be explained."
            )
        # Going back makes gradients as large as what was kept.
        size = max(int(inputs.slots.shape[0]), 1)
        taken = PerEdge(max(taken.memory, 2 * saved / size), max(taken.seconds, seconds / size))
        if not checked:
            checked = True
            _check_nothing_passes_outside(predictor, inputs, recorded, len(batch.edges))
        if reached:
            return taken, True
        nothing = predictor.inputs(batch, np.zeros_like(batch.visible), links, relation)
        moved |= not torch.allclose(predictor.logits(nothing), logits, rtol=1e-4, atol=1e-5)
    if not moved:
        return taken, False
    raise ModelError(
        "The edges change the model's score, but their weights get no gradient on any of "
        f"{len(probe.src)} links: the score is cut off from the messages (by detach, no_grad or a "
        "step function), or flat."
    )


def _in_turn(
    predictor: LinkPredictor, probe: Probe, field: ReceptiveField
) -> Iterator[tuple[ComputationGraphs, list[int], Longs]]:
    """Yield links to try, a few at a time: batches, the links to take of each, their relations."""
    extractor = extractor_for(predictor.graph, field, None)
    for part in probe.rounds(predictor.graph):
        batch = part.extract(extractor)
        for links in chunks_by_edges(visible_count(batch), EDGES_PER_PASS, predictor.mode):
            yield batch, links, part.relation


def _has_gradient(logits: torch.Tensor, weights: torch.Tensor) -> bool:
    if not logits.requires_grad:
        return False
    (gradient,) = torch.autograd.grad(logits.sum(), weights, allow_unused=True)
    return gradient is not None and bool((gradient != 0).any())


def _check_nothing_passes_outside(
    predictor: LinkPredictor, inputs: ModelInput, recorded: ModelInput, num_edges: int
) -> None:
    """With all weights 0, it must not matter where the edges come from.

    The messages that a model adds itself get a weight of 0 here, too: in a softmax over a node's
    messages its self-loop tells of the others.
    """
    scores = []
    zero = torch.zeros(max(num_edges, 1), device=inputs.slots.device)
    for turned in (False, True):
        if turned:  # one of the two at a time, as they may be large
            recorded = predictor.record(predictor.with_other_sources(inputs))[1]
        calls = tuple(call.clamp(min=0) for call in recorded.calls)
        with (
            predictor.weighted(dataclasses.replace(recorded, calls=calls)) as run,
            torch.no_grad(),
        ):
            scores.append(run(zero))
    scale = 1 + scores[0].abs()
    if bool(((scores[0] - scores[1]).abs() > TOLERANCE * scale).any()):
        raise MaskError(
            f"{layer_name('', predictor.model)} passes messages along the edges outside of its "
            "MessagePassing layers (by a matrix product, say), where edge weights cannot reach "
            "them: with all weights 0 its score still depends on where the edges come from. Move "
            "the aggregation into a torch_geometric.nn.MessagePassing layer."
        )


def _saved_bytes(
    run: Callable[[torch.Tensor], torch.Tensor], weights: torch.Tensor
) -> tuple[torch.Tensor, int]:
    """Run a forward pass; return its answer and the bytes that it keeps for going back."""
    saved: dict[int, int] = {}  # by address

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    # What torch.autograd.graph.saved_tensors_hooks does, left by C functions.
    hooks = torch._C._autograd
    with Undo() as undo:
        undo.change(
            (hooks._push_saved_tensors_default_hooks, pack, lambda tensor: tensor),
            (hooks._pop_saved_tensors_default_hooks,),
        )
        return run(weights), sum(saved.values())
