"""Every link is checked, once per call: its score on its computation graph is the full graph's.

What was found about a model when its explainer was made was proved on some links; a model may see
farther on others. So the score of each link, with the link itself in place, is compared with one
pass over the full graph for all links of the call; on a graph of more than a million edges, with a
graph one ring wider. A link that disagrees is explained on a wider graph, at last on the full one,
and its explanation says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import torch

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link
from pagelink.model.receptive_field import MAX_HOPS
from pagelink.runtime.arrays import Bools, Doubles
from pagelink.runtime.timer import Timer
from pagelink.search.work import Scored, Setup

MOST_EDGES = 1_000_000
"""Graphs with more edges are not passed through the model as a whole, unless that is requested."""
EDGES_PER_PASS = 4_000_000
"""Edges of a pass of a model whose messages are others for each link."""
UNCHECKED = "There was no time to compare this link's score with the full graph's."
WIDER = (
    "This link's score depends on more of the graph than that of other links: it was explained "
    "within {hops} hops."
)
WHOLE = (
    "This link's score depends on more of the graph than its neighbourhood, so it was explained on "
    "the full graph."
)
BEYOND = (
    "This link's score depends on more of the graph than the {hops} hops that were looked at: its "
    "figures hold for these only."
)

At = Callable[[int | None], Setup]
"""From a number of hops to what explains on graphs that wide; None: on the full graph."""


@dataclasses.dataclass(frozen=True)
class Check:
    """How a link is to be explained after its check."""

    num_hops: int | None
    """The radius at which its score is right; None: the full graph."""
    note: str = ""
    """What its explanation says of that."""


def check_links(scored: Scored, at: At, *, on_disk: bool) -> list[Check]:
    """Compare links that were scored with the full graph.

    Args:
        scored: the links.
        at: gives wider graphs.
        on_disk: the graph is not in memory, so that the model is never run on all of it.
    """
    setup = scored.setup
    hops = setup.receptive_field.num_hops
    hops = hops if hops is None else max(hops, setup.settings.num_hops or 0)
    fine = Check(hops)
    checks = [fine] * len(scored.requested)
    if hops is None or setup.receptive_field.sees_nothing or not setup.passes_messages:
        return checks
    is_full = setup.settings.check == "full" or (
        setup.settings.check == "auto" and not on_disk and setup.graph.num_edges <= MOST_EDGES
    )
    expected = _full_scores(scored) if is_full else _scores_at(scored, at(hops + 1))
    right = _agree(setup, scored.deployed, expected) | ~np.isfinite(scored.deployed)
    for place in np.flatnonzero(~right).tolist():
        if np.isnan(expected[place]) and scored.timer.deadline is not None:
            checks[place] = Check(hops, UNCHECKED)
        else:
            truth = float(expected[place]) if is_full else None
            checks[place] = _widened(scored, place, at, hops, truth, on_disk)
    return checks


def _agree(setup: Setup, one: Doubles, other: Doubles) -> Bools:
    noise, output = setup.receptive_field.noise, setup.predictor.output
    same = noise.close(torch.from_numpy(one), torch.from_numpy(other), output)
    found: Bools = same.numpy()
    return found


def _full_scores(scored: Scored) -> Doubles:
    """The scores of links on the full graph, the links in place; NaN: there was no time."""
    setup, timer, links = scored.setup, scored.timer, scored.requested
    found = np.full(len(links), np.nan)
    for places, size in _passes(setup, len(links)):
        if size > timer.room():
            break
        some = [links[i] for i in places]
        src, dst = (np.array([getattr(link, end) for link in some]) for end in ("src", "dst"))
        inputs = setup.predictor.full_graph(src, dst, scored.relation[places])
        found[places] = setup.predictor.logits(inputs).cpu().double().numpy()
    return found


def _passes(setup: Setup, num_links: int) -> Iterator[tuple[list[int], int]]:
    """Links that share a pass over the full graph, and its size."""
    edges = max(setup.graph.num_edges, 1)
    knows_link = setup.receptive_field.knows_link
    most = max(EDGES_PER_PASS // edges, 1) if knows_link else max(num_links, 1)
    for first in range(0, num_links, most):
        places = list(range(first, min(first + most, num_links)))
        yield places, edges * (len(places) if knows_link else 1)


def _scores_at(scored: Scored, setup: Setup) -> Doubles:
    """The scores of links on graphs of another radius, the links in place; NaN: no time."""
    found = np.full(len(scored.requested), np.nan)
    for place, link in enumerate(scored.requested):
        found[place] = _score_at(setup, link, scored.timer)
    return found


def _score_at(setup: Setup, link: Link, timer: Timer) -> float:
    if timer.is_over():
        return np.nan
    in_place = dataclasses.replace(link, fact=-1)
    batch = ComputationGraphs.joined(setup.batches.extract([in_place]))
    if setup.size(batch) > timer.room():
        return np.nan
    return float(setup.logits(batch, setup.relations([link]), timer)[0][0])


def _widened(
    scored: Scored, place: int, at: At, hops: int, truth: float | None, on_disk: bool
) -> Check:
    """Find the radius at which a link has its true score, or that of the next radius."""
    link, timer = scored.requested[place], scored.timer
    for radius in range(hops + 1, max(MAX_HOPS, hops + 2) + 1):
        score = _score_at(at(radius), link, timer)
        expected = truth if truth is not None else _score_at(at(radius + 1), link, timer)
        if timer.deadline is not None and np.isnan([score, expected]).any():
            return Check(hops, UNCHECKED)
        if _agree(scored.setup, np.array([score]), np.array([expected]))[0]:
            return Check(radius, WIDER.format(hops=radius))
    return Check(hops, BEYOND.format(hops=hops)) if on_disk else Check(None, WHOLE)
