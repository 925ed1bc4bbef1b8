"""The receptive field of a model: how far it sees, by which relations, and how it is run for that.

L is read from the data flow of a pass, which gives a floor, and then proved: from the floor on the
radius grows until the ego graphs of all tried links have the full graph's logits, before and after
an edit. It is a matter of the model, not of the graph: where the graph is too large to run the
model on, the model is tried on a patch, a small part that is taken for a graph of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from pagelink.graph.computation_graph import ComputationGraphs, Extractor
from pagelink.graph.ego_kernels import FAR
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.noise import Noise
from pagelink.model.predictor import LinkPredictor, Mode
from pagelink.model.probes import LINKS_PER_ROUND, Probe
from pagelink.runtime.arrays import Bools, Longs
from pagelink.runtime.csr import segment_sums

MAX_HOPS = 8
"""The largest radius that is tried, if none larger was read."""
EDGES_PER_PASS = 200_000
EDGES_TRIED = 4_000_000
"""Edges of computation graphs after which no more are tried, if eight links were."""
LEFT_OUT = 0.2
"""On all nodes, an ego graph proves a radius that was not read if it leaves out this share."""
NOT_LOCAL = (
    "The model is not local: its score depends on the whole graph, not only on the neighbourhood "
    "of the link, so it was run on the full graph."
)
NOT_FOLLOWED = (
    "The model reads numbers out of its messages (.item(), NumPy, a condition), so how far it "
    "sees is not known, and it was run on the full graph."
)


@dataclass(frozen=True)
class ReceptiveField:
    """What the model sees of the graph."""

    mode: Mode
    num_hops: int | None
    """L; None if the model is not local."""
    seen_relations: Bools
    """Per relation, whether the score rests on its edges."""
    along_relations: Bools
    """Per relation, whether messages may come from the source of its edges."""
    noise: Noise = field(compare=False)
    """What counts as nothing among its scores."""
    note: str = ""
    """Why the model runs on the full graph, if it does."""
    bytes_per_edge: float = 0.0
    """What a step of learning takes in the model, per edge that goes through it."""
    seconds_per_edge: float = field(default=0.0, compare=False)
    """How long a pass took, per edge that went through it."""
    knows_link: bool = False
    """Messages depend on which link is asked about, so that a pass costs by the number of links."""
    uses_edges: bool = True
    """Without any edge the score of some link was another one."""
    in_unit_range: bool = False
    """All scores that were seen lie between 0 and 1."""
    ignores_type: bool = False
    """Several link types are given, and the score is the same for each of them."""

    @property
    def sees_nothing(self) -> bool:
        """Whether the score rests on no edge at all."""
        return not self.seen_relations.any()


@dataclass(frozen=True)
class Reading:
    """What the data flow of a pass says of a model."""

    floor: int
    """Propagations behind each other, at least 1."""
    seen: Bools
    """Per relation, whether the score rests on its edges."""
    is_complete: bool
    """Whether everything could be followed."""


class _NotThisWayError(Exception):
    """The model fails on a part of its graph, or is not local; which is no fault of the user's.

    The next way to run it is tried instead, at last the full graph, on which it was seen to run.
    """


def extractor_for(graph: TypedGraph, field: ReceptiveField, num_hops: int | None) -> Extractor:
    """Return the extractor of computation graphs for a model of this receptive field.

    For a model that is not local the computation graph is the whole graph.
    """
    return Extractor(
        graph,
        None if field.num_hops is None else max(num_hops or 0, field.num_hops),
        field.seen_relations,
        along_relations=field.along_relations,
        all_visible=field.num_hops is None,
    )


def ways_to_run(predictor: LinkPredictor, reading: Reading) -> list[tuple[Mode, Bools]]:
    """Return the modes to try, the cheapest first, each with what messages may come along.

    A model may also turn edges around inside, so that messages come along the reverses of the
    relations that it uses.
    """
    graph, seen = predictor.graph, reading.seen
    used = {t for t, is_seen in zip(graph.edge_types, seen, strict=True) if is_seen}
    turned = np.array([is_seen or graph.reverse.get(t) in used
                       for t, is_seen in zip(graph.edge_types, seen, strict=True)])  # fmt: skip
    if not reading.is_complete:
        return [("full", turned)]
    along = [seen] if np.array_equal(seen, turned) else [seen, turned]
    local: tuple[Mode, ...] = ("subgraphs", "all_nodes")
    return [(mode, each) for mode in local for each in along] + [("full", turned)]


def prove(
    predictor: LinkPredictor, probe: Probe, reading: Reading, mode: Mode, along: Bools
) -> ReceptiveField | None:
    """Prove one way to run a model; None: the model fails, or is not local.

    Leaves `predictor.mode` at the mode.
    """
    predictor.mode, predictor.shares_rim = mode, mode != "subgraphs"
    if mode == "full":
        note = NOT_LOCAL if reading.is_complete else NOT_FOLLOWED
        return ReceptiveField("full", None, reading.seen, along, probe.noise, note)
    try:
        num_hops = _find_num_hops(predictor, probe, reading, along)
    except _NotThisWayError:
        return None
    field = ReceptiveField(mode, num_hops, reading.seen, along, probe.noise)
    if mode == "subgraphs" and not (
        _stands_company(predictor, probe, field) and _stands_many_nodes(predictor, probe, field)
    ):
        return None
    return field


def _find_num_hops(predictor: LinkPredictor, probe: Probe, reading: Reading, along: Bools) -> int:
    """The largest radius of any link at which it has the full graph's logits.

    Links are tried until very many edges say that more would not tell more.

    Raises:
        _NotThisWayError: the model is not local, or fails.
    """
    largest, tried, size = reading.floor, 0, 0
    for part in probe.rounds(predictor.graph):
        largest, num_edges = _radius(predictor, part, reading.seen, along, largest, reading.floor)
        tried, size = tried + len(part.src), size + num_edges
        if tried >= LINKS_PER_ROUND and size > EDGES_TRIED:
            break
    return largest


def _radius(
    predictor: LinkPredictor, probe: Probe, seen: Bools, along: Bools, first: int, floor: int
) -> tuple[int, int]:
    """The radius from `first` on at which all links have the full graph's logits.

    Also the number of edges of the ego graphs. On all nodes an ego graph that leaves out next to
    nothing is the full graph, on which any model agrees: that proves no radius beyond the floor.
    """
    graph = predictor.graph
    num_seen = seen[graph.relation].sum()

    def extract(radius: int) -> ComputationGraphs:
        return probe.extract(Extractor(graph, radius, seen, along_relations=along))

    batch = extract(first)
    for radius in range(first, max(MAX_HOPS, floor + 2) + 1):
        wrong = ~_same_logits(predictor, probe, batch)
        if not wrong.any():
            telling = visible_count(batch) <= (1 - LEFT_OUT) * num_seen
            if radius > floor and predictor.mode == "all_nodes" and not telling.any():
                break
            return radius, len(batch.edges)
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
    """Whether each link has the full graph's logit, before the edit and after it."""
    same = np.zeros(batch.num_links, dtype=np.bool_)
    edited = batch.visible & ~probe.removed[batch.edges]
    for links in chunks_by_edges(visible_count(batch), EDGES_PER_PASS, predictor.mode):
        same[links] = True
        for wanted, expected in ((batch.visible, probe.logits), (edited, probe.edited)):
            logits = _tried(predictor, batch, wanted, links, probe.relation)
            agree = probe.noise.same(logits, expected[links], predictor.output)
            # Where the full graph gives no number, nothing can agree with it.
            same[links] &= (agree | ~torch.isfinite(expected[links]).cpu()).numpy()
    return same


def _tried(
    predictor: LinkPredictor,
    batch: ComputationGraphs,
    wanted: Bools,
    links: list[int],
    relation: Longs,
) -> torch.Tensor:
    try:
        return predictor.logits(predictor.inputs(batch, wanted, links, relation))
    except Exception as error:  # whatever it is, the next way to run the model is tried
        raise _NotThisWayError from error


def _stands_company(predictor: LinkPredictor, probe: Probe, field: ReceptiveField) -> bool:
    """Whether a link's score stays the same beside graphs that are no copies of its own.

    A norm over all nodes may not show where each ego graph is next to the whole graph. Also whether
    the model can do without any edge, and so without any node of most types.
    """
    few = next(probe.rounds(predictor.graph)).part(slice(4))
    batch = few.extract(extractor_for(predictor.graph, field, None))
    links = np.arange(batch.num_links)
    thinned = np.random.default_rng(0).random(len(batch.edges)) < AS_COMPANY
    intact = np.repeat(links % 2 == 0, np.diff(batch.edge_ptr))
    nothing = np.zeros_like(batch.visible)
    try:
        for i in links.tolist():
            _tried(predictor, batch, nothing, [i], few.relation)
        wanted = batch.visible & (intact | thinned)
        logits = _tried(predictor, batch, wanted, links.tolist(), few.relation)
    except _NotThisWayError:
        return False
    same = few.noise.same(logits, few.logits, predictor.output)
    return bool(same[::2].all())


AS_COMPANY = 0.5
"""Of the graphs beside a link's own, this share of the edges is kept."""


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
    try:
        links = list(range(many.num_links))
        logits = _tried(predictor, many, many.visible, links, relation)
    except _NotThisWayError:
        return False
    expected = few.logits.repeat(times)
    return bool(few.noise.same(logits, expected, predictor.output).all())


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
