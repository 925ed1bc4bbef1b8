"""What may be shared or left out in passes of a model without a change of its scores."""

from __future__ import annotations

import numpy as np
import torch

from pagelink.errors import ModelError
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.model.edited_logits import EditedLogits, edge_gradient
from pagelink.model.inputs import Output
from pagelink.model.noise import Noise
from pagelink.model.predictor import LinkPredictor
from pagelink.model.probes import Probe
from pagelink.model.receptive_field import ReceptiveField, extractor_for
from pagelink.runtime.arrays import Floats, Longs
from pagelink.runtime.csr import Csr

EDITS = 3
"""Edited graphs that share nodes are compared with this number of graphs edited by themselves."""
Answers = tuple[torch.Tensor, Floats]
"""Scores of links, and their gradients by the weights of edges."""
GRID = 2
"""Links between this number of sources and of targets have parts of their graphs in common."""


def find_what_is_shared(
    predictor: LinkPredictor, probe: Probe, field: ReceptiveField, *, knows_link: bool
) -> None:
    """Let links side by side, and edited graphs, share nodes only if that changes no score.

    A model may look at the edges that leave a node, or turn them around inside: then a node that
    stands for the same one of several graphs is not what it would be in each of them. Where
    messages depend on the link that is asked about, nothing is shared, and where they come along
    turned edges, edited graphs share nothing, whatever a few links say.

    Raises:
        ModelError: a link's score depends on what else the model is asked, even without sharing.
    """
    if predictor.mode != "subgraphs":
        _check_alone(predictor, probe)
        return
    # Links of one type between the same few nodes have parts of their graphs in common.
    alike = np.flatnonzero(probe.relation == probe.relation[0])[:GRID]
    src = np.repeat(probe.src[alike], len(alike))
    dst = np.tile(probe.dst[alike], len(alike))
    src, dst = src[src != dst], dst[src != dst]
    extractor = extractor_for(predictor.graph, field, None)
    batch = extractor.extract(src, dst, np.full(len(src), -1))
    relation = np.full(len(src), probe.relation[0])
    alone = [
        float(predictor.logits(predictor.inputs(batch, batch.visible, [link], relation)))
        for link in range(len(src))
    ]
    for shares in (False,) if knows_link else (True, False):
        predictor.shares_rim = shares
        inputs = predictor.inputs(batch, batch.visible, np.arange(len(src)), relation)
        together = predictor.logits(inputs)
        if bool(probe.noise.same(together, torch.tensor(alone), predictor.output).all()):
            break
    else:
        raise _depends_on_others(alone[0], float(together[0]))
    is_turned = not np.array_equal(field.seen_relations, field.along_relations)
    agree = _edited_graphs_agree(predictor, batch, relation, probe.noise)
    predictor.shares_unedited = predictor.shares_rim and not is_turned and agree
    predictor.keeps_sums &= predictor.shares_unedited and predictor.fuses
    predictor.by_rows = _rows_agree(predictor, batch, relation, probe.noise)
    predictor.flat = _flat_agrees(predictor, batch, relation, probe.noise)


def _check_alone(predictor: LinkPredictor, probe: Probe) -> None:
    """A link that is given alone must have the score that it has beside others."""
    for link in range(min(GRID, len(probe.src))):
        one = slice(link, link + 1)
        inputs = predictor.full_graph(probe.src[one], probe.dst[one], probe.relation[one])
        alone, again = predictor.logits(inputs), predictor.logits(inputs)
        if not bool(probe.noise.same(alone, again, predictor.output)):
            raise ModelError(
                f"The model's score of the same link is {float(alone):.4g} and then "
                f"{float(again):.4g}. A model with a random forward pass in eval mode cannot be "
                "explained."
            )
        if not bool(probe.noise.same(alone, probe.logits[one], predictor.output)):
            raise _depends_on_others(float(alone), float(probe.logits[link]))


def _depends_on_others(alone: float, together: float) -> ModelError:
    return ModelError(
        f"The model's score of a link is {alone:.4g} alone and {together:.4g} beside other links. "
        "A model whose score depends on the other links it is given cannot be explained."
    )


def _edited_graphs_agree(
    predictor: LinkPredictor, batch: ComputationGraphs, relation: Longs, noise: Noise
) -> bool:
    """Whether edited graphs that share nodes have the scores of graphs edited by themselves.

    And, as a way of the predictor, whether they have if only sums that change are computed.
    """
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
    answers, usual = [], predictor.least_kept
    predictor.least_kept = 0
    for shares, keeps in ((False, False), (True, False), (True, True)):
        predictor.shares_unedited, predictor.keeps_sums = shares, keeps
        logits = EditedLogits(predictor, batch, relation).logits(batch.visible, edits)
        answers.append(torch.from_numpy(logits))
    predictor.least_kept = usual
    alone, shared, by_sums = answers
    same = bool(noise.same(shared, alone, predictor.output).all())
    predictor.keeps_sums &= same and bool(noise.same(by_sums, alone, predictor.output).all())
    return same


def _rows_agree(
    predictor: LinkPredictor, batch: ComputationGraphs, relation: Longs, noise: Noise
) -> bool:
    """Whether scores and gradients stay what they are if vectors are computed when looked at."""
    found = []
    usual, predictor.least_spared = predictor.least_spared, 1
    try:
        for by_rows in (False, True):
            predictor.by_rows = by_rows
            links = np.arange(batch.num_links)
            inputs = predictor.inputs(batch, batch.visible, links, relation)
            recorded = predictor.record(inputs)[1]
            logits = predictor.logits(inputs)
            found.append((logits, edge_gradient(predictor, recorded, len(batch.edges))))
            if by_rows and not (inputs.rings and predictor.by_rows):
                return False  # there is nothing to spare, or the model cannot do it
    finally:
        predictor.least_spared = usual
    return _agree(found, noise, predictor.output)


def _agree(found: list[Answers], noise: Noise, output: Output) -> bool:
    """Whether two ways to run a model give the same scores and gradients."""
    one, other = found
    largest = float(np.abs(one[1]).max(initial=0.0))
    same = np.allclose(one[1], other[1], rtol=1e-3, atol=1e-4 * largest)
    return same and bool(noise.same(one[0], other[0], output).all())


def _flat_agrees(
    predictor: LinkPredictor, batch: ComputationGraphs, relation: Longs, noise: Noise
) -> bool:
    """Whether scores and gradients stay what they are without the model's own code."""
    found = []
    for predictor.flat in (False, True):
        inputs = predictor.inputs(batch, batch.visible, np.arange(batch.num_links), relation)
        if predictor.flat and inputs.flat is None:
            return False
        logits, recorded, _ = predictor.record(inputs)
        found.append((logits, edge_gradient(predictor, recorded, len(batch.edges))))
    return _agree(found, noise, predictor.output)
