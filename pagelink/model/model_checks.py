"""Checks of a model on real links of its graph, before it explains anything.

`inspect_model` does them in this order:

1. Links are drawn and scored on the full graph, by a pass whose data flow is read.
2. The receptive field, and with it the way to run the model, is proved (`receptive_field`).
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

from pagelink.errors import GraphError, MaskError, ModelError, PageLinkError
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.schema import EdgeType
from pagelink.model.borrowing import in_normal_mode, keeping_its_tensors
from pagelink.model.data_flow import DataFlow
from pagelink.model.inputs import ModelInput
from pagelink.model.masking import Tracer, layer_name
from pagelink.model.noise import Noise
from pagelink.model.patch import patch_predictor
from pagelink.model.predictor import LinkPredictor
from pagelink.model.probes import Probe, draw_probe, noise_around
from pagelink.model.receptive_field import (
    EDGES_PER_PASS,
    Reading,
    ReceptiveField,
    chunks_by_edges,
    extractor_for,
    prove,
    visible_count,
    ways_to_run,
)
from pagelink.model.sharing import find_what_is_shared
from pagelink.runtime.arrays import Longs
from pagelink.runtime.undo import Undo

TYPES_TRIED = 4
"""Links of which the scores under all link types are compared."""


@in_normal_mode
def inspect_model(
    predictor: LinkPredictor, link_types: Sequence[EdgeType], seed: int, *, on_patch: bool = False
) -> ReceptiveField:
    """Find L and the way to run the model, and check that edge weights reach it.

    Leaves `predictor.mode` at the way that was found.

    Args:
        predictor: the model.
        link_types: the predicted relations; the one that sees farthest counts.
        seed: where the small part of the graph comes from.
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
        return keeping_its_tensors(predictor.model, _inspect, predictor, link_types)
    tried = patch_predictor(predictor, link_types, seed)
    field = keeping_its_tensors(predictor.model, _inspect, tried, link_types)
    if field.mode != "subgraphs":
        raise ModelError(
            "The model needs all nodes of the graph, or its score depends on the whole graph, so "
            "it cannot be explained from a store on disk. Let it look up its nodes by n_id (its "
            "embeddings by the positions it is given), or load the graph into memory: "
            "PaGELink(model, store.data, ...)."
        )
    predictor.adopt(tried)
    # A patch is thinned, so that its scores are others than those of the graph.
    extractor = extractor_for(predictor.graph, field, None)
    return dataclasses.replace(field, noise=noise_around(predictor, extractor, link_types))


def _inspect(predictor: LinkPredictor, link_types: Sequence[EdgeType]) -> ReceptiveField:
    probe, flow, tracer = draw_probe(predictor, link_types)
    reading = _read(predictor, flow, tracer)
    failed: Exception | None = None
    for mode, along in ways_to_run(predictor, reading):
        field = prove(predictor, probe, reading, mode, along)
        if field is None:
            continue
        try:
            _try_without_edges(predictor, probe, field)
            find_what_is_shared(predictor, probe, field, knows_link=flow.messages_know_link)
            taken, uses_edges = check_weights(predictor, probe, field)
        except MaskError:
            if reading.is_complete:
                raise
            # Weights change what the model reads out of its messages, and so what it does.
            predictor.has_gradient = False
            taken, uses_edges = PerEdge(0.0, 0.0), True
        except PageLinkError:
            raise
        except Exception as error:  # on a graph without nodes of some type, say
            failed = error
            continue
        scores = probe.logits
        return dataclasses.replace(
            field, bytes_per_edge=taken.memory, seconds_per_edge=taken.seconds,
            knows_link=flow.messages_know_link, uses_edges=uses_edges,
            in_unit_range=bool(((scores >= 0) & (scores <= 1)).all()),
            ignores_type=_ignores_type(predictor, probe, link_types),
        )  # fmt: skip
    raise ModelError(
        f"The model runs on the full graph, but fails on a copy of it with fewer edges: "
        f"{type(failed).__name__}: {failed}. Let it accept node types and relations without any "
        "node or edge: what a link's facts are worth is measured on graphs without them."
    ) from failed


def _try_without_edges(predictor: LinkPredictor, probe: Probe, field: ReceptiveField) -> None:
    """Run the model without any edge around a link, as the context of each explanation does."""
    batch = probe.part(slice(1)).extract(extractor_for(predictor.graph, field, None))
    nothing = np.zeros_like(batch.visible)
    predictor.logits(predictor.inputs(batch, nothing, [0], probe.relation[:1]))


def _read(predictor: LinkPredictor, flow: DataFlow, tracer: Tracer) -> Reading:
    """Say what a pass over the full graph rests on.

    Raises:
        ModelError: on edges, but on no message.
        MaskError: on what is collected along edges outside of a layer.
    """
    graph = predictor.graph
    if tracer.collected_outside:
        name = tracer.collected_outside[0]
        module = predictor.model.get_submodule(name)
        raise MaskError(
            f"{layer_name(name, module)} collects vectors along the edges outside of a "
            "MessagePassing layer, where edge weights cannot reach them. Move the aggregation "
            "into a torch_geometric.nn.MessagePassing layer."
        )
    if flow.result is not None and flow.result.depth == 0:
        raise ModelError(
            "The model's score rests on the edges of the graph, but on no message along them: no "
            "MessagePassing layer was run on them. Where it uses them by other means (a sparse "
            "matrix product, a precomputed adjacency), use MessagePassing layers."
        )
    depth, relations = (0, 0) if flow.result is None else flow.result[:2]
    seen = np.array([bool(relations >> k & 1) for k in range(len(graph.edge_types))])
    if not flow.is_complete:
        seen[:] = True
    elif not flow.messages_know_link:
        # The same messages are passed whatever the link, so that what was not passed never is.
        passed = np.zeros(len(graph.edge_types), dtype=np.bool_)
        by_relation = np.sort(graph.relation, kind="stable")
        for numbers in tracer.calls:
            passed[np.unique(by_relation[numbers[numbers >= 0].cpu().numpy()])] = True
        seen &= passed
    return Reading(max(depth, 1), seen, flow.is_complete)


def _ignores_type(predictor: LinkPredictor, probe: Probe, link_types: Sequence[EdgeType]) -> bool:
    """Whether some links have the same score under all types that fit their ends."""
    types = predictor.graph.edge_types
    tried = False
    for i in range(min(len(probe.src), TYPES_TRIED)):
        ends = types[probe.relation[i]][::2]
        relation = np.array([types.index(t) for t in link_types if t[::2] == ends])
        if len(relation) > 1:
            tried = True
            src, dst = (np.full(len(relation), end[i]) for end in (probe.src, probe.dst))
            logits = predictor.logits(predictor.full_graph(src, dst, relation))
            if not bool(probe.noise.same(logits, probe.logits[i].expand(len(logits))).all()):
                return False
    return tried


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
    is what is to be said of its links. Of a score that some edges do change, but that has no
    gradient for any link, at weight 1 or, where it may be saturated there, at one half (by detach,
    no_grad, a step function), `predictor.has_gradient` says so: no mask can be learned on it, but
    what its facts are worth can be measured.

    Returns:
        What a pass takes, and whether edges change the score.

    Raises:
        MaskError: the weights of 1 change the score, or messages pass where no weight reaches.
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
            halved = run(weights / 2)  # a model that remembers its first pass is found by a second
            reached = _has_gradient(weighted, weights) or _has_gradient(halved, weights)
        if not bool(probe.noise.same(weighted, logits, predictor.output).all()):
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
            _check_nothing_passes_outside(
                predictor, inputs, recorded, len(batch.edges), probe.noise
            )
        if reached:
            return taken, True
        nothing = predictor.inputs(batch, np.zeros_like(batch.visible), links, relation)
        bare = predictor.logits(nothing)
        moved |= not bool(probe.noise.same(bare, logits, predictor.output).all())
    predictor.has_gradient = False
    return taken, moved


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
    try:
        (gradient,) = torch.autograd.grad(logits.sum(), weights, allow_unused=True)
    except Exception:  # a function of the model's own without a way back
        return False
    return gradient is not None and bool((gradient != 0).any())


def _check_nothing_passes_outside(
    predictor: LinkPredictor,
    inputs: ModelInput,
    recorded: ModelInput,
    num_edges: int,
    noise: Noise,
) -> None:
    """With all weights 0, it must not matter where the edges come from.

    The messages that a model adds itself get a weight of 0 here, too: in a softmax over a node's
    messages its self-loop tells of the others.
    """
    scores = []
    zero = torch.zeros(max(num_edges, 1), device=inputs.slots.device)
    for turned in (False, True):
        if turned:  # one of the two at a time, as they may be large
            recorded = predictor.record(predictor.maker.with_other_sources(inputs))[1]
        calls = tuple(call.clamp(min=0) for call in recorded.calls)
        with (
            predictor.weighted(dataclasses.replace(recorded, calls=calls)) as run,
            torch.no_grad(),
        ):
            scores.append(run(zero))
    # A model that divides by the sum of the weights has no score here, and nothing is shown.
    known = scores[0].isfinite() & scores[1].isfinite()
    if not bool(noise.same(scores[0][known], scores[1][known], predictor.output).all()):
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
