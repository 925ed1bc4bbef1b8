"""How far the model sees, and proof on real links that edge weights reach it.

L is found, not asked: the smallest radius at which the ego graph gives the full graph's logit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from pagelink.computation_graph import FAR, ComputationGraphs, Extractor
from pagelink.errors import GraphError, MaskError, ModelError
from pagelink.graph import Bools, EdgeType, Longs, TypedGraph
from pagelink.masking import Tracer, layer_name
from pagelink.predictor import LinkPredictor, Mode, ModelInput

TOLERANCE = 1e-4
"""Relative difference of logits that counts as none."""
MAX_HOPS = 8
LINKS_A_ROUND = 8
ROUNDS = 4
EDGES_A_PASS = 200_000
LEFT_OUT = 0.2
"""An ego graph tells about locality only if it leaves out this share of the edges."""
NOT_LOCAL = (
    "The model is not local: its score depends on the whole graph, not only on the neighbourhood "
    "of the link, so it was run on the full graph."
)
TOO_SMALL = (
    "Too much of the graph lies around each link to tell how far the model sees, so it was run on "
    "the full graph."
)


@dataclass(frozen=True)
class Reach:
    """What the model sees of the graph."""

    mode: Mode
    num_hops: int | None
    """L; None if the model is not local."""
    seen_relations: Bools
    """Per relation, whether the model passes messages along it."""
    along_relations: Bools
    """Per relation, whether messages may come from the source of its edges."""
    note: str = ""
    """Why the model runs on the full graph, if it does."""
    bytes_an_edge: float = 0.0
    """What a step of learning takes in the model, per edge that goes through it."""


class _FailsOnPartError(Exception):
    """The model fails on a part of its graph; which is no fault of the user's.

    The next way to run it is tried instead, at last the full graph, on which it was seen to run.
    """


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


def find_reach(predictor: LinkPredictor, link_types: Sequence[EdgeType], seed: int) -> Reach:
    """Find L and the way to run the model, and prove that edge weights reach it.

    Leaves `predictor.mode` at the way that was found.

    Args:
        predictor: the model.
        link_types: the predicted relations; the one that sees farthest counts.
        seed: where the links to try come from.

    Raises:
        ModelError: the model fails on the graph, or its score does not depend on the edges.
        MaskError: messages are passed outside of what can be weighted; the layer is named.
    """
    graph = predictor.graph
    if graph.num_edges == 0:
        raise GraphError("The graph has no edges, so there is no path that could explain a link.")
    probes = [_draw_probe(predictor, link_type, seed) for link_type in link_types]
    seen = np.any([_seen_relations(graph, tracer, predictor) for _, tracer in probes], axis=0)
    reaches = [_try_modes(predictor, probe, seen) for probe, _ in probes]
    order: tuple[Mode, ...] = ("subgraphs", "all_nodes", "full")
    worst = max(reaches, key=lambda reach: order.index(reach.mode))
    if worst.mode != "full":
        num_hops = max(reach.num_hops or 0 for reach in reaches)
        along = np.any([reach.along_relations for reach in reaches], axis=0)
        worst = Reach(worst.mode, num_hops, seen, along)
    predictor.mode = worst.mode
    taken = max(_prove(predictor, probe.part(0), worst) for probe, _ in probes)
    return dataclasses.replace(worst, bytes_an_edge=taken)


def _draw_probe(predictor: LinkPredictor, link_type: EdgeType, seed: int) -> tuple[_Probe, Tracer]:
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
    return _Probe(src, dst, relation, logits), tracer


def extractor_for(graph: TypedGraph, reach: Reach, num_hops: int | None) -> Extractor:
    """Return the extractor of computation graphs for a model of this reach.

    For a model that is not local the computation graph is the whole graph.
    """
    if reach.num_hops is None:
        all_visible = reach.note == NOT_LOCAL
        return Extractor(
            graph, None, reach.seen_relations, along_relations=reach.along_relations,
            all_visible=all_visible,
        )  # fmt: skip
    return Extractor(
        graph, num_hops or reach.num_hops, reach.seen_relations,
        along_relations=reach.along_relations, visible_hops=reach.num_hops,
    )  # fmt: skip


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


def _try_modes(predictor: LinkPredictor, probe: _Probe, seen: Bools) -> Reach:
    """Try the ways to run a model, the cheapest first.

    A model may also turn edges around inside, so that messages come along the reverses of the
    relations that it uses.
    """
    graph = predictor.graph
    used = [t for t, is_seen in zip(graph.edge_types, seen, strict=True) if is_seen]
    turned = np.array([is_seen or graph.reverse.get(t) in used
                       for t, is_seen in zip(graph.edge_types, seen, strict=True)])  # fmt: skip
    modes: tuple[Mode, ...] = ("subgraphs", "all_nodes")
    untold: Bools | None = None
    for mode in modes:
        for along in [seen] if np.array_equal(seen, turned) else [seen, turned]:
            predictor.mode = mode
            try:
                found = _find_num_hops(predictor, probe, seen, along)
            except _FailsOnPartError:
                continue
            if found is not None and found[1] >= LINKS_A_ROUND:
                return Reach(mode, found[0], seen, along)
            if found is not None and untold is None:
                untold = along
    if untold is None:
        return Reach("full", None, seen, turned, NOT_LOCAL)
    return Reach("full", None, seen, untold, TOO_SMALL)


def _find_num_hops(
    predictor: LinkPredictor, probe: _Probe, seen: Bools, along: Bools
) -> tuple[int, int] | None:
    """The largest radius needed by any link, and how many links were telling; None: not local.

    Links are tried until eight were telling.
    """
    largest, telling = 1, 0
    for number in range(-(-len(probe.src) // LINKS_A_ROUND)):
        found = _radius(predictor, probe.part(number), seen, along)
        if found is None:
            return None
        largest, telling = max(largest, found[0]), telling + found[1]
        if telling >= LINKS_A_ROUND:
            break
    return largest, telling


def _radius(
    predictor: LinkPredictor, probe: _Probe, seen: Bools, along: Bools
) -> tuple[int, int] | None:
    """The radius at which all links of a probe have the full graph's logits, or None.

    Also how many of them are telling: if next to nothing is left out of an ego graph, that the
    logit is the same says nothing about a model.
    """
    graph = predictor.graph
    no_fact = np.full(len(probe.src), -1)
    wrong = np.ones(len(probe.src), dtype=np.bool_)
    telling = 0

    def extract(radius: int) -> ComputationGraphs:
        extractor = Extractor(graph, radius, seen, along_relations=along)
        return extractor.extract(probe.src, probe.dst, no_fact)

    batch = extract(1)
    for radius in range(1, MAX_HOPS + 1):
        wider = extract(radius + 1)
        grows = (_visible_count(wider) > _visible_count(batch)) | (
            _reached(wider) > _reached(batch)
        )
        much = _visible_count(batch) <= (1 - LEFT_OUT) * seen[graph.relation].sum()
        same = _same_logits(predictor, probe, batch)
        telling += int((wrong & same & much).sum())
        wrong = ~same
        if not wrong.any():
            return radius, telling
        if bool((wrong & ~grows).any()):
            return None
        batch = wider
    return None


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


def _check_alone(
    predictor: LinkPredictor,
    batch: ComputationGraphs,
    links: list[int],
    probe: _Probe,
    logits: torch.Tensor,
) -> None:
    """Links side by side must not change each other's score."""
    if len(links) > 1:
        inputs = predictor.inputs(batch, predictor.needed(batch), links[:1], probe.relation)
        alone = predictor.logits(inputs)
        if not torch.allclose(alone, logits[:1], rtol=1e-3, atol=1e-4):
            raise ModelError(
                f"The model's score of a link is {float(alone):.4g} alone and "
                f"{float(logits[0]):.4g} beside other links. A model whose score depends on what "
                "else it is asked cannot be explained."
            )


def _reached(batch: ComputationGraphs) -> Longs:
    total = np.concatenate([[0], np.cumsum(batch.hops != FAR)])
    return np.diff(total[batch.node_ptr])


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
        inputs = predictor.inputs(batch, batch.visible, links, probe.relation)
        try:
            logits = predictor.logits(inputs)
        except Exception as error:
            raise _FailsOnPartError from error
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


def _prove(predictor: LinkPredictor, probe: _Probe, reach: Reach) -> float:
    """Show that weight 1 reproduces the model and that the weights get a gradient.

    Returns:
        The bytes that a pass with gradients takes, per edge.
    """
    extractor = extractor_for(predictor.graph, reach, None)
    batch = extractor.extract(probe.src, probe.dst, np.full(len(probe.src), -1))
    reached = False
    for links in chunks_by_edges(_visible_count(batch), EDGES_A_PASS, predictor.mode):
        inputs = predictor.inputs(batch, predictor.needed(batch), links, probe.relation)
        logits, recorded, _ = predictor.record(inputs)
        _check_alone(predictor, batch, links, probe, logits)
        weights = torch.ones(len(batch.edges), device=predictor.device, requires_grad=True)
        with predictor.weighted(recorded) as run:
            with _saved_bytes() as saved:
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
        if links[0] == 0:
            _check_nothing_passes_outside(predictor, inputs, recorded, len(batch.edges))
        if reached:
            # Going back makes gradients as large as what was kept.
            return 2 * sum(saved.values()) / max(int(inputs.slots.shape[0]), 1)
    raise ModelError(
        "The edge weights get no gradient from the model's score on any of "
        f"{len(probe.src)} links: its messages do not reach its output."
    )
