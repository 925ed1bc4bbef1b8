"""The receptive field of a model: how far it sees, by which relations, and how it is run for that.

L is found, not given: the smallest radius at which the ego graph has the full graph's logit. It is
a matter of the model, not of the graph: where the graph is too large to run the model on, the model
is tried on a patch, a small part that is taken for a graph of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from pagelink.graph.computation_graph import ComputationGraphs, Extractor
from pagelink.graph.ego_kernels import FAR
from pagelink.graph.lookup import edge_at, edges_of_facts
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.predictor import LinkPredictor, Mode
from pagelink.runtime.arrays import Bools, Longs
from pagelink.runtime.csr import segment_sums

TOLERANCE = 1e-4
"""Relative difference of logits that counts as none."""
MAX_HOPS = 8
LINKS_PER_ROUND = 8
ROUNDS = 4
EDGES_PER_PASS = 200_000
EDGES_PER_ROUND = 8_000_000
"""Edges of the computation graphs of a round at most, if each is the whole graph."""
EDGES_TRIED = 40_000_000
"""Edges of computation graphs after which no more are tried, if eight links were."""
LEFT_OUT = 0.2
"""An ego graph tells how far a model sees only if it leaves out this share of the edges."""
NOT_LOCAL = (
    "The model is not local: its score depends on the whole graph, not only on the neighbourhood "
    "of the link, so it was run on the full graph."
)
TOO_SMALL = (
    "Too much of the graph lies around each link to tell how far the model sees, so it was run on "
    "the full graph."
)


@dataclass(frozen=True)
class ReceptiveField:
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
    bytes_per_edge: float = 0.0
    """What a step of learning takes in the model, per edge that goes through it."""
    seconds_per_edge: float = field(default=0.0, compare=False)
    """How long a pass took, per edge that went through it."""
    uses_edges: bool = True
    """Without any edge the score of some link was another one."""
    in_unit_range: bool = False
    """All scores that were seen lie between 0 and 1."""


class _NotThisWayError(Exception):
    """The model fails on a part of its graph, or is not local; which is no fault of the user's.

    The next way to run it is tried instead, at last the full graph, on which it was seen to run.
    """


@dataclass(frozen=True)
class Probe:
    """Links to try, and their logits on the full graph."""

    src: Longs
    dst: Longs
    relation: Longs
    logits: torch.Tensor

    def rounds(self, graph: TypedGraph) -> Iterator[Probe]:
        """The links, a few at a time: fewer where the graphs of a few may not fit into memory."""
        size = min(LINKS_PER_ROUND, max(EDGES_PER_ROUND // max(graph.num_edges, 1), 1))
        for first in range(0, len(self.src), size):
            links = slice(first, first + size)
            yield Probe(self.src[links], self.dst[links], self.relation[links], self.logits[links])

    def extract(self, extractor: Extractor) -> ComputationGraphs:
        """The computation graphs of the links; none of them is taken out of the graph."""
        return extractor.extract(self.src, self.dst, np.full(len(self.src), -1))


def extractor_for(graph: TypedGraph, field: ReceptiveField, num_hops: int | None) -> Extractor:
    """Return the extractor of computation graphs for a model of this receptive field.

    For a model that is not local the computation graph is the whole graph.
    """
    return Extractor(
        graph,
        None if field.num_hops is None else num_hops or field.num_hops,
        field.seen_relations,
        along_relations=field.along_relations,
        visible_hops=field.num_hops,
        all_visible=field.note == NOT_LOCAL,
    )


def try_modes(predictor: LinkPredictor, probe: Probe, seen: Bools) -> ReceptiveField:
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
        if untold is not None:
            break  # the neighbourhoods are as large whichever way the model is run
        for along in [seen] if np.array_equal(seen, turned) else [seen, turned]:
            predictor.mode = mode
            try:
                field, telling = _find_num_hops(predictor, probe, seen, along)
            except _NotThisWayError:
                continue
            if mode == "subgraphs" and not _stands_many_nodes(predictor, probe, field):
                continue
            if telling >= LINKS_PER_ROUND:
                return field
            untold = along if untold is None else untold
    if untold is None:
        return ReceptiveField("full", None, seen, turned, NOT_LOCAL)
    return ReceptiveField("full", None, seen, untold, TOO_SMALL)


def _stands_many_nodes(predictor: LinkPredictor, probe: Probe, field: ReceptiveField) -> bool:
    """Whether links side by side may have more nodes than the graph has.

    A table with a row for each node of the graph, used whole, may go unnoticed before that.
    """
    graph = predictor.graph
    few = next(probe.rounds(graph))
    batch = few.extract(extractor_for(graph, field, None))
    times = graph.num_nodes // max(len(batch.nodes), 1) + 1
    if times * visible_count(batch).sum() > EDGES_PER_PASS:
        return True  # no batch has more nodes than a graph of this size
    many = ComputationGraphs.joined([batch] * times)
    relation = np.tile(few.relation, times)
    shares, predictor.shares_rim = predictor.shares_rim, False  # else nodes do not add up
    try:
        inputs = predictor.inputs(many, many.visible, np.arange(many.num_links), relation)
        logits = predictor.logits(inputs)
    except Exception:  # whatever it is, the next way to run the model is tried
        return False
    finally:
        predictor.shares_rim = shares
    return torch.allclose(logits, few.logits.repeat(times), rtol=1e-3, atol=1e-4)


def _find_num_hops(
    predictor: LinkPredictor, probe: Probe, seen: Bools, along: Bools
) -> tuple[ReceptiveField, int]:
    """What the model sees by the largest radius of any link, and the number of telling links.

    Links are tried until eight were telling, or very many edges say that more would not be.

    Raises:
        _NotThisWayError: the model is not local, or fails.
    """
    largest, telling, tried, size = 1, 0, 0, 0
    for part in probe.rounds(predictor.graph):
        radius, more, num_edges = _radius(predictor, part, seen, along)
        largest, telling = max(largest, radius), telling + more
        tried, size = tried + len(part.src), size + num_edges
        if telling >= LINKS_PER_ROUND or (tried >= LINKS_PER_ROUND and size > EDGES_TRIED):
            break
    return ReceptiveField(predictor.mode, largest, seen, along), telling


def _radius(
    predictor: LinkPredictor, probe: Probe, seen: Bools, along: Bools
) -> tuple[int, int, int]:
    """The radius at which all links of a probe have the full graph's logits.

    Also the number of telling ones among them: if next to nothing is left out of an ego graph, that
    the logit is the same says nothing about a model. And the number of edges of the ego graphs.
    """
    graph = predictor.graph
    wrong = np.ones(len(probe.src), dtype=np.bool_)
    telling, num_seen = 0, seen[graph.relation].sum()

    def extract(radius: int) -> ComputationGraphs:
        return probe.extract(Extractor(graph, radius, seen, along_relations=along))

    batch = extract(1)
    for radius in range(1, MAX_HOPS + 1):
        much = visible_count(batch) <= (1 - LEFT_OUT) * num_seen
        same = _same_logits(predictor, probe, batch)
        telling += int((wrong & same & much).sum())
        wrong = ~same
        if not wrong.any():
            return radius, telling, len(batch.edges)
        counts = visible_count(batch), _reached(batch)
        del batch  # one round of graphs in memory at a time
        batch = extract(radius + 1)
        grows = (visible_count(batch) > counts[0]) | (_reached(batch) > counts[1])
        if bool((wrong & ~grows).any()):
            break
    raise _NotThisWayError


def _reached(batch: ComputationGraphs) -> Longs:
    return segment_sums(batch.hops != FAR, batch.node_ptr)


def visible_count(batch: ComputationGraphs) -> Longs:
    """Number of visible edges of each link."""
    return segment_sums(batch.visible, batch.edge_ptr)


def _same_logits(predictor: LinkPredictor, probe: Probe, batch: ComputationGraphs) -> Bools:
    scale = probe.logits.abs().mean()
    bound = TOLERANCE * torch.maximum(probe.logits.abs(), scale)
    if predictor.output == "probability":
        # Near 0 and 1 a probability says little about its logit.
        p = torch.sigmoid(probe.logits)
        bound = bound + 8 * torch.finfo(p.dtype).eps / (p * (1 - p))
    same = np.zeros(batch.num_links, dtype=np.bool_)
    for links in chunks_by_edges(visible_count(batch), EDGES_PER_PASS, predictor.mode):
        inputs = predictor.inputs(batch, batch.visible, links, probe.relation)
        try:
            logits = predictor.logits(inputs)
        except Exception as error:
            raise _NotThisWayError from error
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


# A patch is the neighbourhood of some links, thinned where nodes have very many edges, with edges
# of every relation.


MOST_EDGES = 8_000
"""Edges of a patch, about."""
HOPS = 5
EDGES_PER_NODE = 4
"""In-edges of a node that are followed at most."""
SEEDS = 24
EXAMPLES = 16
"""Edges of each relation at least, where there are that many."""


def patch_predictor(
    predictor: LinkPredictor, link_types: Sequence[EdgeType], seed: int
) -> LinkPredictor:
    """Return the same model on a patch of its graph.

    Args:
        predictor: the model on the whole graph; only its arrays are looked into, not run.
        link_types: the predicted relations, whose nodes the patch grows from.
        seed: where the patch is taken from.
    """
    graph = predictor.graph
    rng = np.random.default_rng((seed, 2))
    edges = _grown(graph, _seeds(graph, link_types, rng), rng)
    edges = np.unique(np.concatenate([edges, *_examples(predictor, edges, rng)]))
    # A fact goes both ways, or not at all.
    return predictor.on_part(edges_of_facts(graph, graph.fact[edges]), link_types)


def _seeds(graph: TypedGraph, link_types: Sequence[EdgeType], rng: np.random.Generator) -> Longs:
    """Nodes of the link types, at random, those that receive messages where there are such."""
    drawn = []
    for node_type in {end for link_type in link_types for end in (link_type[0], link_type[2])}:
        k = graph.node_types.index(node_type)
        first, last = int(graph.node_offset[k]), int(graph.node_offset[k + 1])
        if first == last:
            continue
        nodes = rng.integers(first, last, 4 * SEEDS)
        receives = graph.in_ptr[nodes + 1] > graph.in_ptr[nodes]
        drawn.append(np.concatenate([nodes[receives], nodes[~receives]])[:SEEDS])
    return np.unique(np.concatenate(drawn)) if drawn else np.empty(0, dtype=np.int64)


def _grown(graph: TypedGraph, nodes: Longs, rng: np.random.Generator) -> Longs:
    """In-edges of the nodes, of the nodes they come from, and so on; of each node but a few."""
    taken: list[Longs] = [np.empty(0, dtype=np.int64)]
    seen, ring, total = nodes, nodes, 0
    for _ in range(HOPS):
        if not len(ring) or total > MOST_EDGES:
            break
        start, count = graph.in_ptr[ring], graph.in_ptr[ring + 1] - graph.in_ptr[ring]
        draws = np.minimum(count, EDGES_PER_NODE)
        node = np.repeat(np.arange(len(ring)), draws)
        edges = np.unique(start[node] + rng.integers(0, count[node]))
        taken.append(edges)
        total += len(edges)
        ring = np.setdiff1d(graph.src[edges].astype(np.int64), seen)
        ring = ring if len(ring) <= MOST_EDGES else rng.choice(ring, MOST_EDGES, replace=False)
        seen = np.union1d(seen, ring)
    return np.concatenate(taken)


def _examples(predictor: LinkPredictor, edges: Longs, rng: np.random.Generator) -> list[Longs]:
    """Further edges of relations that have too few of them among these."""
    graph = predictor.graph
    have = np.bincount(graph.relation[edges], minlength=len(graph.edge_types))
    found = []
    for position, count in enumerate(graph.edge_counts):
        wanted = min(EXAMPLES, count) - int(have[position])
        if wanted <= 0:
            continue
        columns = np.sort(rng.choice(count, min(EXAMPLES, count), replace=False))
        edge_type = graph.edge_types[position]
        targets = predictor.data[edge_type].edge_index[1, columns].tolist()
        ends = zip(columns.tolist(), targets, strict=True)
        found.append(
            np.array([edge_at(graph, edge_type, c, (edge_type[2], dst)) for c, dst in ends])
        )
    return found
