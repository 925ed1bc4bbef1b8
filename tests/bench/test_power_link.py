"""Power-Link's figures on links that can be computed otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from support.zoo import make_case

from pagelink import PaGELink
from pagelink.bench.measures import kinds
from pagelink.bench.power_link import HDR, MINUS, PLUS, SPARSITY, rank_falls, soft_masks
from pagelink.explain.ranking import EndScores
from pagelink.rivals.ground import Ground, facts_of
from pagelink.rivals.plain import rank_by_degree

PAIRS = [(38, 43), (13, 30), (62, 50)]


def ground() -> Ground:
    case = make_case("HeteroConv SAGE")
    return Ground.of(PaGELink(case.model, case.data, case.link_type, threshold=None), PAIRS)


def test_a_mask_of_ones_keeps_everything_and_pruned_edges_are_out() -> None:
    here = ground()
    sizes = [len(here.edges(link)) for link in range(len(PAIRS))]
    ones = soft_masks(here, [np.ones(size) for size in sizes])
    pruned = soft_masks(here, [np.full(size, -1.0) for size in sizes])
    assert ones[MINUS] == pytest.approx(0, abs=1e-6)
    assert pruned[PLUS] == pytest.approx(0, abs=1e-6)
    assert ones[PLUS] == pytest.approx(pruned[MINUS], abs=1e-6)
    assert (ones[PLUS] > 0.01).all()
    assert ones[SPARSITY].tolist() == [0] * 3
    assert pruned[SPARSITY].tolist() == [1] * 3


def test_hdr_is_by_the_ranks_among_all_targets() -> None:
    here = ground()
    paths = rank_by_degree(here, 3)
    paths[1] = []
    found = rank_falls(here, paths)[HDR]
    assert np.isnan(found[1])
    assert np.isnan(rank_falls(here, paths, 2)[HDR][2])
    graph = here.explainer.graph
    for i in (0, 2):
        link = here.links[i]
        kind = graph.node_type_of[link.dst]
        targets = np.arange(graph.node_offset[kind], graph.node_offset[kind + 1])
        own = int(link.dst - graph.node_offset[kind])
        scores = EndScores(here.explainer.setup, link)
        ranks = [
            int((row >= row[own] - 1e-6).sum())
            for row in scores.logits(targets, [[], facts_of(paths[i])])
        ]
        assert found[i] == float(ranks[1] > ranks[0])


def test_inner_nodes_and_metapaths_are_counted_as_walked() -> None:
    here = ground()
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None)
    paths = rank_by_degree(here, 3)
    found = kinds(here, paths)
    answers = explainer.explain_many(PAIRS)
    assert sum(1 for _ in answers) == 3
    assert found["inner nodes"].shape == found["metapaths"].shape == (3,)
    assert ((found["metapaths"] >= 1) & (found["metapaths"] <= 3)).all()
    # Three simple paths of at most three facts have at most six inner nodes.
    assert ((found["inner nodes"] >= 1) & (found["inner nodes"] <= 6)).all()
