"""The figures of Power-Link for our explainers: Fidelity+, Fidelity-, sparsity of the mask, HdR.

Differs from Power-Link: its ranks are on the computation graph of the link, from which all edges
between two nodes of a path are taken; ours are on the whole graph without the facts of the paths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from pagelink.explain.ranking import EndScores
from pagelink.metrics.power_link import (
    fidelity_minus,
    fidelity_plus,
    hdr,
    mask_sparsity,
    unfiltered_rank,
)
from pagelink.rivals.ground import Ground, Ranked, facts_of
from pagelink.runtime.arrays import Doubles

PLUS, MINUS, SPARSITY, HDR = "fidelity+", "fidelity-", "mask sparsity", "HdR:5"
COLUMNS = (("Fidelity+", PLUS, 3), ("Fidelity-", MINUS, 3), ("sparsity of the mask", SPARSITY, 3),
           (HDR, HDR, 3))  # fmt: skip
RANKED_LINKS = 129
"""Links of a data set that are ranked, with two passes over the whole graph each: as many as the
released data have."""
PUBLISHED_NOTE = (
    "Power-Link's paper has, on FB15k-237, Fidelity+, Fidelity- and HdR:5 of PaGE-Link / "
    "Power-Link: RGCN with TransE .496 .400 .236 / .699 .088 .234, with DistMult .212 .178 .430 / "
    ".377 .186 .432, with ConvE .232 .175 .378 / .435 .111 .396; CompGCN with ConvE .096 .074 .164 "
    "/ .137 .050 .154."
)


def soft_masks(ground: Ground, scores: Sequence[Doubles]) -> dict[str, Doubles]:
    """Fidelity+, Fidelity- and sparsity of the masks of all links.

    Args:
        ground: the links.
        scores: the mask of each link over the edges of its unpruned graph; pruned ones below 0.
    """
    mask = np.maximum(np.concatenate([*scores, np.empty(0)]), 0.0)
    predictor = ground.explainer.predictor
    with predictor.weighted(ground.recorded) as run, torch.no_grad():
        masked, out = (
            run(torch.from_numpy(weights).float().to(predictor.device)).cpu().double().numpy()
            for weights in (mask, 1 - mask)
        )
    whole, masked, out = (0.5 + np.tanh(f / 2) / 2 for f in (ground.logits, masked, out))
    sparse = [mask_sparsity(np.maximum(of_link, 0.0)) for of_link in scores]
    return {
        PLUS: fidelity_plus(whole, out),
        MINUS: fidelity_minus(whole, masked),
        SPARSITY: np.array(sparse),
    }


def rank_falls(ground: Ground, paths: Ranked, most: int = RANKED_LINKS) -> dict[str, Doubles]:
    """HdR of the paths of each link: whether its target ranks worse without their facts.

    Args:
        ground: the links.
        paths: their first paths; a link without any has no figure.
        most: links that are ranked; those behind have no figure.
    """
    graph, setup = ground.explainer.graph, ground.explainer.setup
    before, after = np.full(len(paths), np.nan), np.full(len(paths), np.nan)
    for i, (link, own) in enumerate(zip(ground.links, paths, strict=True)):
        if not own or i >= most:
            continue
        kind = int(graph.node_type_of[link.dst])
        targets = np.arange(graph.node_offset[kind], graph.node_offset[kind + 1])
        scores = EndScores(setup, link).logits(targets, [[], facts_of(own)])
        place = link.dst - int(graph.node_offset[kind])
        before[i], after[i] = (unfiltered_rank(float(row[place]), row) for row in scores)
    return {HDR: hdr(before, after)}
