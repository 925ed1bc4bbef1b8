"""What else the score rests on: the disjoint parts of what the model sees of a link.

Facts on paths; other facts nearer the source, nearer the target, equally near; the features (or
embeddings) of the source, of the target, and of all other nodes. A part of facts is taken out by
removing them, features by those of random nodes of the same type and of similar degree.
"""

from __future__ import annotations

import numpy as np

from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.measure.swap_kernels import distances
from pagelink.measure.trials import Trials
from pagelink.measure.verdict import PARTS, Part
from pagelink.model.edited_logits import EDGES_PER_PASS
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.timer import OutOfTimeError
from pagelink.search.work import MEASURING

DRAWS = 8
"""Draws of other features."""
ALIKE = 32
"""Nodes of the same type that are drawn, of which the one of the nearest degree is taken."""


def what_else(trials: Trials, links: Longs) -> dict[int, tuple[Part, ...]]:
    """Measure the parts of some links.

    Args:
        trials: the model and the graphs.
        links: the links.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    found = {}
    for link in links.tolist():
        found[link] = (*_facts(trials, link), *_features(trials, link))
    return found


def _facts(trials: Trials, link: int) -> list[Part]:
    """What the score loses without the facts of each part."""
    batch, graphs = trials.work.batch, trials.graphs
    first, last = batch.edge_ptr[link : link + 2]
    here = slice(first, last)
    on_path, whole = graphs.on_path[here], graphs.whole[here]
    near, far = (_nearness(batch, link, end) for end in (0, 1))
    masks = [on_path, *(~on_path & mask for mask in (near < far, far < near, near == far))]
    edits = []
    for mask in masks:
        other = np.zeros(len(graphs.whole), dtype=np.bool_)
        other[here] = mask & whole
        edits.append(Edits.towards(batch, other, np.array([link])))
    effects = trials.effects(Edits.joined(edits))
    sizes = [len(np.unique(graphs.graph.fact[batch.edges[here][mask & whole]])) for mask in masks]
    return [
        Part(name, size, float(effect), None)
        for name, size, effect in zip(PARTS[:4], sizes, effects, strict=True)
    ]


def _nearness(batch: ComputationGraphs, link: int, end: int) -> Longs:
    """Per edge of a link's graph, how many facts its nearer end is from source or target."""
    first, last = batch.edge_ptr[link : link + 2]
    base, stop = batch.node_ptr[link : link + 2]
    ends = batch.ends[:, link] - base
    limit = (stop - base) if batch.num_hops is None else 2 * batch.num_hops
    away = np.empty(stop - base, dtype=np.int64)
    distances(ends[end], -1, first, last, batch.src, batch.dst, min(limit, 8), away)
    found: Longs = np.minimum(away[batch.src[first:last]], away[batch.dst[first:last]])
    return found


def _features(trials: Trials, link: int) -> list[Part]:
    """What the score loses with the features of other nodes, the mean over draws."""
    work = trials.work
    setup, alone = work.setup, work.batch.only(link)
    seen = _seen_nodes(alone, setup.predictor.needed(alone))
    src, dst = alone.ends[:, 0]
    others = seen.copy()
    others[[src, dst]] = False
    parts = [np.array([src]), np.array([dst]), np.flatnonzero(others)]
    # 1. Per part and draw, whose features each node of the graph has.
    looks = np.tile(alone.nodes.astype(np.int64), (len(parts), DRAWS, 1))
    for number, nodes in enumerate(parts):
        for draw in range(DRAWS):
            looks[number, draw, nodes] = _alike(trials, alone, nodes, number * DRAWS + draw)
    # 2. Ask the model about all of them, as many copies of the graph in a pass as fit.
    logits = _asked(trials, alone, work.relation[[link]], looks.reshape(-1, len(alone.nodes)))
    lost = work.logits[link] - logits.reshape(len(parts), DRAWS)
    return [
        Part(name, len(nodes), float(each.mean()), float(each.std(ddof=1) / np.sqrt(DRAWS)))
        for name, nodes, each in zip(PARTS[4:], parts, lost, strict=True)
    ]


def _seen_nodes(alone: ComputationGraphs, needed: Bools) -> Bools:
    """The nodes of a link's graph whose features reach the score: its ends, and along edges."""
    seen = np.zeros(len(alone.nodes), dtype=np.bool_)
    seen[alone.src[needed]] = seen[alone.dst[needed]] = True
    seen[alone.ends[:, 0]] = True
    return seen


def _alike(trials: Trials, alone: ComputationGraphs, nodes: Longs, draw: int) -> Longs:
    """For each node another one of its type: of some drawn at random, that of nearest degree."""
    graph = trials.graphs.graph
    ends = int(alone.link_src[0]), int(alone.link_dst[0])
    rng = np.random.default_rng((trials.work.seed, *ends, draw))
    flat = alone.nodes[nodes].astype(np.int64)
    first = graph.node_offset[graph.node_type_of[flat]]
    size = graph.node_offset[graph.node_type_of[flat] + 1] - first
    drawn = first[:, None] + (rng.random((len(flat), ALIKE)) * size[:, None]).astype(np.int64)
    unlike = np.abs(np.log1p(graph.degree[drawn]) - np.log1p(graph.degree[flat])[:, None])
    unlike[drawn == flat[:, None]] = np.inf  # itself only where there is no other
    found: Longs = np.take_along_axis(drawn, unlike.argmin(1)[:, None], axis=1)[:, 0]
    return found


def _asked(trials: Trials, alone: ComputationGraphs, relation: Longs, looks: Longs) -> Doubles:
    """The logits of a link on its graph, with the features of other nodes in each."""
    predictor, timer = trials.work.setup.predictor, trials.work.timer
    whole = predictor.needed(alone)
    size = max(int(whole.sum()), 1)
    at_once = max(1, EDGES_PER_PASS // size) if predictor.mode == "subgraphs" else 1
    if not predictor.shares_rim:
        at_once = 1
    answers = []
    for first in range(0, len(looks), at_once):
        part = looks[first : first + at_once]
        if not timer.allows(size * len(part), MEASURING):
            raise OutOfTimeError
        with timer.step(size * len(part)):
            copies = ComputationGraphs.joined([alone] * len(part))
            inputs = predictor.inputs(
                copies, np.tile(whole, len(part)), np.arange(len(part)),
                np.repeat(relation, len(part)), looks=part.reshape(-1),
            )  # fmt: skip
            answers.append(predictor.logits(inputs).cpu().double().numpy())
    return np.concatenate(answers)
