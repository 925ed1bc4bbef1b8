"""Computation graphs made wider around some nodes, for edits that bring these nearer to the link.

A node that is led next to s or t counts with all that lies behind it. So the computation graph gets
the in-edges of such nodes, as far back as the model then sees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from pagelink.graph.computation_graph import FAR, ComputationGraphs, Extractor
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Ints, Longs


def positions(batch: ComputationGraphs, link: Longs, nodes: Ints | Longs) -> Longs:
    """Return where flat nodes of some links' graphs are among the nodes of the batch."""
    base = int(max(batch.nodes.max(initial=0), np.max(nodes, initial=0))) + 1
    keys = batch.link_of_nodes * base + batch.nodes
    return np.searchsorted(keys, link * base + nodes)


def slots_of(batch: ComputationGraphs, link: Longs, edges: Ints | Longs) -> Longs:
    """Return where flat edges of some links' graphs are among the edges of the batch."""
    base = int(max(batch.edges.max(initial=0), np.max(edges, initial=0))) + 1
    of_edges = np.repeat(np.arange(batch.num_links), np.diff(batch.edge_ptr))
    return np.searchsorted(of_edges * base + batch.edges, link * base + edges)


def with_edges(
    extractor: Extractor, batch: ComputationGraphs, link: Longs, edges: Longs
) -> ComputationGraphs:
    """Return computation graphs that have some further edges, which the model does not see.

    Args:
        extractor: what the graphs were made by.
        batch: the graphs.
        link: per edge, the link whose graph it comes into.
        edges: flat edges.
    """
    if batch.num_hops is None:  # the graphs are whole already
        return batch
    graph = extractor.graph
    nodes = np.concatenate([graph.src[edges], graph.dst[edges]]).astype(np.int64)
    away = np.full(len(nodes), int(FAR))
    unseen = np.zeros(len(edges), dtype=np.bool_)
    return _merged(graph, batch, (np.tile(link, 2), nodes, away), (link, edges, unseen))


def extended(
    extractor: Extractor, batch: ComputationGraphs, link: Longs, nodes: Longs, hops: Longs
) -> ComputationGraphs:
    """Return computation graphs in which some nodes may be nearer to the link than they are.

    Args:
        extractor: what the graphs were made by.
        batch: the graphs.
        link: per node, the link whose graph it is in.
        nodes: flat nodes of these graphs.
        hops: how far from s or t they may be.
    """
    limit = batch.num_hops
    if limit is None:  # the graphs are whole already
        return batch
    found: list[tuple[Any, ...]] = [(link, nodes, hops)]
    seen: list[tuple[Any, ...]] = [(_NONE, _NONE, _NONE.astype(np.bool_))]
    for distance in range(1, limit):
        here = np.unique(np.stack([link, nodes])[:, hops == distance], axis=1)
        if here.shape[1]:
            of, seed = here
            # The link's own edges are found by its ends, and here they may be anywhere.
            none = np.full(len(seed), -1)
            part = extractor.within(limit - distance).extract(seed, seed, none)
            away = np.minimum(part.hops, limit) + distance  # FAR is the largest number there is
            found.append((of[part.link_of_nodes], part.nodes, away))
            of_edge = np.repeat(of, np.diff(part.edge_ptr))
            kept = part.visible & (extractor.graph.fact[part.edges] != batch.link_fact[of_edge])
            seen.append((of_edge[kept], part.edges[kept], part.visible[kept]))
    more_nodes = tuple(np.concatenate(each) for each in zip(*found, strict=True))
    more_edges = tuple(np.concatenate(each) for each in zip(*seen, strict=True))
    return _merged(extractor.graph, batch, more_nodes, more_edges)


_NONE: Longs = np.empty(0, dtype=np.int64)


def _merged(
    graph: TypedGraph,
    batch: ComputationGraphs,
    more_nodes: Sequence[Any],
    more_edges: Sequence[Any],
) -> ComputationGraphs:
    """Put nodes (link, flat node, hops) and edges (link, flat edge, visible) into the graphs."""
    # 1. Each node once per link, as near as the nearest says.
    own: tuple[Any, ...] = (batch.link_of_nodes, batch.nodes, batch.hops)
    of, node, hops = (np.concatenate(each) for each in zip(own, more_nodes, strict=True))
    order = np.lexsort((hops, node, of))
    order = order[_first_of_each(of[order], node[order])]
    of, node, hops = of[order], node[order], hops[order]
    node_ptr = np.searchsorted(of, np.arange(batch.num_links + 1))
    wider = dataclasses.replace(
        batch, node_ptr=node_ptr, nodes=node.astype(np.int32), hops=hops.astype(np.int32)
    )
    # 2. Each edge once per link, seen if one says so; ends are counted within the link's nodes.
    of_own = np.repeat(np.arange(batch.num_links), np.diff(batch.edge_ptr))
    stored: tuple[Any, ...] = (of_own, batch.edges, batch.visible)
    of, edge, visible = (np.concatenate(each) for each in zip(stored, more_edges, strict=True))
    order = np.lexsort((~visible.astype(np.bool_), edge, of))
    order = order[_first_of_each(of[order], edge[order])]
    of, edge, visible = of[order], edge[order], visible[order].astype(np.bool_)
    ends = [positions(wider, of, flat[edge]) - node_ptr[of] for flat in (graph.src, graph.dst)]
    return dataclasses.replace(
        wider,
        edge_ptr=np.searchsorted(of, np.arange(batch.num_links + 1)),
        edges=edge.astype(np.int32),
        src=ends[0].astype(np.int32),
        dst=ends[1].astype(np.int32),
        visible=visible,
        fact_visible=visible,
    )


def _first_of_each(link: Longs, number: Longs) -> Bools:
    """Mark, of pairs in order, the first of each."""
    first = np.ones(len(link), dtype=np.bool_)
    first[1:] = (link[1:] != link[:-1]) | (number[1:] != number[:-1])
    return first
