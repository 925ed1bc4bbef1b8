"""How far the model sees, and proof on real links that edge weights reach it.

L is found, not asked: the smallest radius at which the ego graph gives the full graph's logit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pagelink.computation_graph import ComputationGraphs, Extractor
from pagelink.errors import GraphError, MaskError, ModelError
from pagelink.graph import Bools, EdgeType, Longs, TypedGraph
from pagelink.masking import Tracer, layer_name
from pagelink.predictor import LinkPredictor, Mode

TOLERANCE = 1e-4
"""Relative difference of logits that counts as none."""
MAX_HOPS = 8
LINKS_A_ROUND = 8
ROUNDS = 4
EDGES_A_PASS = 200_000
SMALL_RING = 0.05
"""A next ring with no more than this share of the visible edges tells nothing about locality."""
NOT_LOCAL = (
    "The model is not local: its score depends on the whole graph, not only on the neighbourhood "
    "of the link, so it was run on the full graph."
)
TOO_SMALL = (
    "The graph is too small to tell how far the model sees, so it was run on the full graph."
)


@dataclass(frozen=True)
class Reach:
    """What the model sees of the graph."""

    mode: Mode
    num_hops: int | None
    """L; None if the model is not local."""
    seen_relations: Bools
    """Per relation, whether the model passes messages along it."""
    note: str = ""
    """Why the model runs on the full graph, if it does."""


@dataclass(frozen=True)
class _Probe:
    """Links to try, and their logits on the full graph."""

    src: Longs
    dst: Longs
    relation: Longs
    logits: torch.Tensor

    def part(self, number: int) -> _Probe:
        """The links of one round."""
        links = slice(number * LINKS_A_ROUND, (number + 1) * LINKS_A_ROUND)
        return _Probe(self.src[links], self.dst[links], self.relation[links], self.logits[links])


def find_reach(predictor: LinkPredictor, link_type: EdgeType, seed: int) -> Reach:
    """Find L and the way to run the model, and prove that edge weights reach it.

    Leaves `predictor.mode` at the way that was found.

    Raises:
        ModelError: the model fails on the graph, or its score does not depend on the edges.
        MaskError: messages are passed outside of what can be weighted; the layer is named.
    """
    graph = predictor.graph
    if graph.num_edges == 0:
        raise GraphError("The graph has no edges, so there is no path that could explain a link.")
    src, dst = _draw_links(graph, link_type, np.random.default_rng((seed, 1)))
    relation = np.full(len(src), graph.edge_types.index(link_type))
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
    seen = _seen_relations(graph, tracer, predictor)
    probe = _Probe(src, dst, relation, logits)
    reach = _try_modes(predictor, probe, seen)
    predictor.mode = reach.mode
    _prove(predictor, probe.part(0), reach)
    return reach


def extractor_for(graph: TypedGraph, reach: Reach, num_hops: int | None) -> Extractor:
    """Return the extractor of computation graphs for a model of this reach.

    For a model that is not local the computation graph is the whole graph.
    """
    if reach.num_hops is None:
        return Extractor(graph, None, reach.seen_relations)
    radius = num_hops or reach.num_hops
    return Extractor(graph, radius, reach.seen_relations, visible_hops=reach.num_hops)


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
    if tracer.read_outside:
        name = tracer.read_outside[0]
        module = predictor.model.get_submodule(name)
        raise MaskError(
            f"{layer_name(name, module)} gathers node features along the edges outside of a "
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


def _try_modes(predictor: LinkPredictor, probe: _Probe, seen: Bools) -> Reach:
    modes: tuple[Mode, ...] = ("subgraphs", "all_nodes")
    untold = False
    for mode in modes:
        predictor.mode = mode
        try:
            found = _find_num_hops(predictor, probe, seen)
        except MaskError:
            raise
        # Whatever a model does on part of its graph is no fault of the user's: the next mode, and
        # at last the full graph, on which the model was seen to run, is tried instead.
        except Exception:
            continue
        if found is not None and found[1]:
            return Reach(mode, found[0], seen)
        untold |= found is not None
    return Reach("full", None, seen, TOO_SMALL if untold else NOT_LOCAL)


def _find_num_hops(predictor: LinkPredictor, probe: _Probe, seen: Bools) -> tuple[int, int] | None:
    """The largest radius needed by any link, and how many links were telling; None: not local.

    Links are tried until eight were telling.
    """
    largest, telling = 1, 0
    for number in range(-(-len(probe.src) // LINKS_A_ROUND)):
        found = _radius(predictor, probe.part(number), seen)
        if found is None:
            return None
        largest, telling = max(largest, found[0]), telling + found[1]
        if telling >= LINKS_A_ROUND:
            break
    return largest, telling


def _radius(predictor: LinkPredictor, probe: _Probe, seen: Bools) -> tuple[int, int] | None:
    """The radius at which all links of a probe have the full graph's logits, or None.

    Also how many of them are telling: a link whose next ring is empty, or a few edges that may not
    matter to any model, says nothing about a radius.
    """
    graph = predictor.graph
    no_fact = np.full(len(probe.src), -1)
    wrong = np.ones(len(probe.src), dtype=np.bool_)
    telling = 0
    batch = Extractor(graph, 1, seen).extract(probe.src, probe.dst, no_fact)
    for radius in range(1, MAX_HOPS + 1):
        wider = Extractor(graph, radius + 1, seen).extract(probe.src, probe.dst, no_fact)
        grows = _visible_count(wider) > _visible_count(batch)
        much = _visible_count(wider) > (1 + SMALL_RING) * _visible_count(batch)
        same = _same_logits(predictor, probe, batch)
        telling += int((wrong & same & much).sum())
        wrong = ~same
        if not wrong.any():
            return radius, telling
        if bool((wrong & ~grows).any()):
            return None
        batch = wider
    return None


def _visible_count(batch: ComputationGraphs) -> Longs:
    total = np.concatenate([[0], np.cumsum(batch.visible)])
    return np.diff(total[batch.edge_ptr])


def _same_logits(predictor: LinkPredictor, probe: _Probe, batch: ComputationGraphs) -> Bools:
    scale = probe.logits.abs().mean()
    bound = TOLERANCE * torch.maximum(probe.logits.abs(), scale)
    if predictor.output == "probability":
        # Near 0 and 1 a probability says little about its logit.
        p = torch.sigmoid(probe.logits)
        bound = bound + 8 * torch.finfo(p.dtype).eps / (p * (1 - p))
    same = np.zeros(batch.num_links, dtype=np.bool_)
    for links in chunks_by_edges(_visible_count(batch), EDGES_A_PASS, predictor.mode):
        logits = predictor.logits(predictor.inputs(batch, batch.visible, links, probe.relation))
        same[links] = ((logits - probe.logits[links]).abs() <= bound[links]).cpu().numpy()
    return same


def chunks_by_edges(counts: Longs, limit: int, mode: Mode) -> list[list[int]]:
    """Cut links, in order, into chunks of at most `limit` edges (at least one link each)."""
    chunks: list[list[int]] = []
    total = 0
    for link, count in enumerate(counts.tolist()):
        if not chunks or mode != "subgraphs" or total + count > limit:
            chunks.append([])
            total = 0
        chunks[-1].append(link)
        total += count
    return chunks


def _prove(predictor: LinkPredictor, probe: _Probe, reach: Reach) -> None:
    """Show that weight 1 reproduces the model and that the weights get a gradient."""
    extractor = extractor_for(predictor.graph, reach, None)
    batch = extractor.extract(probe.src, probe.dst, np.full(len(probe.src), -1))
    reached = False
    for links in chunks_by_edges(_visible_count(batch), EDGES_A_PASS, predictor.mode):
        inputs = predictor.inputs(batch, batch.visible, links, probe.relation)
        logits, recorded, _ = predictor.record(inputs)
        weights = torch.ones(len(batch.edges), device=logits.device, requires_grad=True)
        with predictor.weighted(recorded) as run:
            weighted = run(weights)
            if not torch.allclose(weighted.detach(), logits, rtol=1e-4, atol=1e-5):
                raise MaskError(
                    "Edge weights of 1 change the model's scores from "
                    f"{logits.tolist()[:3]} to {weighted.tolist()[:3]}. A model with a random "
                    "forward pass in eval mode cannot be explained."
                )
            if weighted.requires_grad:
                (gradient,) = torch.autograd.grad(weighted.sum(), weights, allow_unused=True)
                reached |= gradient is not None and bool((gradient != 0).any())
        if reached:
            return
    raise ModelError(
        "The edge weights get no gradient from the model's score on any of "
        f"{len(probe.src)} links: its messages do not reach its output."
    )
