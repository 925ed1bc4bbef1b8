"""Proof on real links that edge weights reach the model, and of what links may share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from pagelink.computation_graph import ComputationGraphs
from pagelink.copies import Edits
from pagelink.errors import MaskError, ModelError
from pagelink.graph import Longs
from pagelink.influence import Influence
from pagelink.locality import (
    EDGES_A_PASS,
    LINKS_A_ROUND,
    TOLERANCE,
    Probe,
    Reach,
    chunks_by_edges,
    extractor_for,
    visible_count,
)
from pagelink.model_inputs import ModelInput
from pagelink.predictor import LinkPredictor
from pagelink.tracing import layer_name

EDITS = 3
"""Edited copies that are compared with the same graphs edited by themselves."""
GRID = 2
"""So many sources with so many targets: links that have parts of their graphs in common."""


def prove(predictor: LinkPredictor, probe: Probe, reach: Reach) -> tuple[float, bool]:
    """Show that weight 1 reproduces the model and that the weights get a gradient.

    A model whose score no edge changes gets no gradient, and passes: that it does not use the graph
    is what is to be said of its links. A score that some edges do change must have one for some
    link, at weight 1 or, where it is saturated there, at one half.

    Returns:
        The bytes that a pass with gradients takes, per edge, and whether edges change the score.

    Raises:
        MaskError: the weights of 1 change the score, or messages pass where no weight reaches.
        ModelError: the edges change the score, but their weights get no gradient.
    """
    moved, checked, taken = False, False, 0.0
    for batch, links, relation in _in_turn(predictor, probe, reach):
        inputs = predictor.inputs(batch, predictor.needed(batch), links, relation)
        logits, recorded, _ = predictor.record(inputs)
        weights = torch.ones(len(batch.edges), device=predictor.device, requires_grad=True)
        with predictor.weighted(recorded) as run:
            with _saved_bytes() as saved:
                weighted = run(weights)
            if not torch.allclose(weighted.detach(), logits, rtol=1e-4, atol=1e-5):
                if predictor.fuses:  # then a layer only looked plain
                    predictor.fuses = False
                    return prove(predictor, probe, reach)
                raise MaskError(
                    "Edge weights of 1 change the model's scores from "
                    f"{logits.tolist()[:3]} to {weighted.tolist()[:3]}. A model with a random "
                    "forward pass in eval mode cannot be explained."
                )
            # Going back makes gradients as large as what was kept.
            taken = max(taken, 2 * sum(saved.values()) / max(int(inputs.slots.shape[0]), 1))
            reached = _has_gradient(weighted, weights) or _has_gradient(run(weights / 2), weights)
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
    predictor: LinkPredictor, probe: Probe, reach: Reach
) -> Iterator[tuple[ComputationGraphs, list[int], Longs]]:
    """Yield links to try, a few at a time: batches, the links to take of each, their relations."""
    extractor = extractor_for(predictor.graph, reach, None)
    for number in range(-(-len(probe.src) // LINKS_A_ROUND)):
        part = probe.part(number)
        batch = extractor.extract(part.src, part.dst, np.full(len(part.src), -1))
        for links in chunks_by_edges(visible_count(batch), EDGES_A_PASS, predictor.mode):
            yield batch, links, part.relation


def _has_gradient(logits: torch.Tensor, weights: torch.Tensor) -> bool:
    if not logits.requires_grad:
        return False
    (gradient,) = torch.autograd.grad(logits.sum(), weights, allow_unused=True)
    return gradient is not None and bool((gradient != 0).any())


def _check_nothing_passes_outside(
    predictor: LinkPredictor, inputs: ModelInput, recorded: ModelInput, num_edges: int
) -> None:
    """With all weights 0, it must not matter where the edges come from."""
    scores = []
    other = predictor.record(predictor.with_other_sources(inputs))[1]
    for each in (recorded, other):
        with predictor.weighted(each) as run, torch.no_grad():
            scores.append(run(torch.zeros(num_edges, device=inputs.slots.device)))
    scale = 1 + scores[0].abs()
    if bool(((scores[0] - scores[1]).abs() > TOLERANCE * scale).any()):
        raise MaskError(
            f"{layer_name('', predictor.model)} passes messages along the edges outside of its "
            "MessagePassing layers (by a matrix product, say), where edge weights cannot reach "
            "them: with all weights 0 its score still depends on where the edges come from. Move "
            "the aggregation into a torch_geometric.nn.MessagePassing layer."
        )


@contextmanager
def _saved_bytes() -> Iterator[dict[int, int]]:
    """Sizes of what a forward pass keeps for going back, by address."""
    saved: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield saved


def find_what_is_shared(predictor: LinkPredictor, probe: Probe, reach: Reach) -> None:
    """Let links side by side, and edited copies, share nodes only if that changes no score.

    A model may look at the edges that leave a node, or turn them around inside: then a node that
    stands for several copies is not what each of them would be.

    Raises:
        ModelError: a link's score depends on what else the model is asked, even without sharing.
    """
    if predictor.mode != "subgraphs":
        _check_alone(predictor, probe)
        return
    src = np.repeat(probe.src[:GRID], len(probe.dst[:GRID]))
    dst = np.tile(probe.dst[:GRID], len(probe.src[:GRID]))
    src, dst = src[src != dst], dst[src != dst]
    extractor = extractor_for(predictor.graph, reach, None)
    batch = extractor.extract(src, dst, np.full(len(src), -1))
    relation = np.full(len(src), probe.relation[0])
    alone = [_alone(predictor, batch, relation, i) for i in range(len(src))]
    for shares in (True, False):
        predictor.shares_rim = shares
        inputs = predictor.inputs(batch, batch.visible, np.arange(len(src)), relation)
        together = predictor.logits(inputs).cpu().double().numpy()
        if np.allclose(together, alone, rtol=1e-3, atol=1e-4):
            break
    else:
        raise _depends_on_others(alone[0], together[0])
    predictor.shares_copies = predictor.shares_rim and _copies_agree(predictor, batch, relation)


def _check_alone(predictor: LinkPredictor, probe: Probe) -> None:
    """A link that is asked for alone must have the score that it has beside others."""
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
        "A model whose score depends on what else it is asked cannot be explained."
    )


def _alone(predictor: LinkPredictor, batch: ComputationGraphs, relation: Longs, link: int) -> float:
    inputs = predictor.inputs(batch, batch.visible, [link], relation)
    return float(predictor.logits(inputs))


def _copies_agree(predictor: LinkPredictor, batch: ComputationGraphs, relation: Longs) -> bool:
    """Whether edited copies that share nodes have the scores of graphs edited by themselves."""
    rng = np.random.default_rng(0)
    links: list[int] = []
    slots: list[Longs] = []
    for link in range(batch.num_links):
        here = np.flatnonzero(batch.visible[batch.edge_ptr[link] : batch.edge_ptr[link + 1]])
        if len(here) and len(links) < EDITS:
            links.append(link)
            chosen = rng.choice(here, min(len(here), 4), replace=False)
            slots.append(batch.edge_ptr[link] + chosen)
    ptr = np.concatenate([[0], np.cumsum([len(part) for part in slots], dtype=np.int64)])
    edits = Edits(np.array(links, dtype=np.int64), ptr, np.concatenate([[], *slots]).astype(int))
    shared = Influence(predictor, batch, relation).logits(batch.visible, edits)
    predictor.shares_copies = False
    alone = Influence(predictor, batch, relation).logits(batch.visible, edits)
    return np.allclose(shared, alone, rtol=1e-3, atol=1e-4)
