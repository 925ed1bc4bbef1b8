"""Passes of a model that is known as a whole, in which little can change.

Where the weights of a few edges are learned, or the features of a few nodes are replaced, most
vectors stay as they are. `fixed` computes these once: a level keeps the vectors that can change,
the edges by which they do, and what else comes in as one constant vector each. So a node that
collects from very many others costs no more than what is different about it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from pagelink.layers.flat import FlatGraph, FlatLayer, Level
from pagelink.layers.relations import RelationEdges, relation_sum
from pagelink.runtime.arrays import Bools, Longs


def fixed(graph: FlatGraph, free: Bools, moving: Bools | None = None) -> FlatGraph:
    """Compute once what cannot change.

    Args:
        graph: a graph with links.
        free: per edge that it was given, whether its weight may be another than 1.
        moving: per first vector, whether it may be replaced. None: none is.

    Returns:
        A graph with the same scores. The weights that it takes are a 1, then those of the free
        edges; `known` and `first` are of the first vectors that still count.
    """
    # Per vector of the level below, whether it can change, and where it is among those that can.
    moves = np.zeros(len(graph.first), dtype=np.bool_) if moving is None else moving
    number = np.where(free, np.cumsum(free), 0)
    used = np.empty(0, dtype=np.int64)
    levels, which = [], []
    for depth, (level, layer) in enumerate(zip(graph.levels, graph.model.layers, strict=True)):
        mine, below = graph.which[depth].numpy(), graph.vectors[depth]
        live = free[mine] | moves[level.src]
        can = moves[level.own]
        can[level.dst[live]] = True
        if depth == len(graph.levels) - 1:
            can[graph.ends.numpy()] = True
        rows, edges = np.flatnonzero(can), np.flatnonzero(live)
        # What comes from below: what can change, then what cannot.
        place = np.cumsum(moves) - 1
        needed = np.zeros(len(moves), dtype=np.bool_)
        needed[level.src[edges]] = needed[level.own[rows]] = True
        still = np.flatnonzero(needed & ~moves)
        first = int(moves.sum())
        place[still] = first + np.arange(len(still))
        target = np.cumsum(can) - 1
        made = Level(
            level.kinds[rows], place[level.own[rows]], place[level.src[edges]],
            target[level.dst[edges]], level.relation[edges], first + len(still),
            level.num_relations,
        )  # fmt: skip
        made.edges.averaged_as_in(level.edges, rows)
        constant = torch.from_numpy(still)
        if depth:
            made.beside = below.index_select(0, constant)
        else:
            used = np.concatenate([np.flatnonzero(moves), still])
        made.rest = _rest(level, layer, below, ~live & can[level.dst], rows, target)
        levels.append(made)
        which.append(torch.from_numpy(number[mine[edges]]))
        moves = can
    ends = torch.from_numpy((np.cumsum(moves) - 1)[graph.ends.numpy()])
    bottom = graph.first.index_select(0, torch.from_numpy(used))
    return replace(
        graph, first=bottom, known=graph.known[used], levels=levels, which=which, ends=ends
    )


def _rest(
    level: Level, layer: FlatLayer, below: torch.Tensor, still: Bools, rows: Longs, target: Longs
) -> torch.Tensor:
    """What comes in at some vectors of a level by edges that nothing changes."""
    edges = np.flatnonzero(still)
    kept = RelationEdges.of(
        level.src[edges], target[level.dst[edges]], level.relation[edges], len(below), len(rows),
        level.num_relations,
    )  # fmt: skip
    kept.averaged_as_in(level.edges, rows)
    return relation_sum(below, None, kept, layer.maps, True)
