"""A patch: a small part of a large graph, on which a model is tried in place of the whole.

It is the neighbourhood of some links, thinned where nodes have very many edges, with edges of every
relation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagelink.graph.lookup import edges_of_facts
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.predictor import LinkPredictor
from pagelink.model.side_by_side import ids_by_type
from pagelink.runtime.arrays import Longs

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
    edges = np.unique(np.concatenate([edges, *_examples(graph, edges)]))
    # A fact goes both ways, or not at all.
    return predictor_on_part(predictor, edges_of_facts(graph, graph.fact[edges]), link_types)


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


def predictor_on_part(
    predictor: LinkPredictor, edges: Longs, link_types: Sequence[EdgeType]
) -> LinkPredictor:
    """Return the same model on a graph of its own: some edges, with the nodes at them.

    Args:
        predictor: the model on the whole graph.
        edges: flat edges, whole facts.
        link_types: the predicted relations.
    """
    graph = predictor.graph
    edges = edges[np.argsort(graph.relation[edges], kind="stable")]
    nodes = np.unique(np.concatenate([graph.src[edges], graph.dst[edges]])).astype(np.int64)
    kinds = graph.node_type_of[nodes]
    first = np.searchsorted(kinds, np.arange(len(graph.node_types) + 1))
    ends = np.searchsorted(nodes, np.stack([graph.src[edges], graph.dst[edges]]))
    none = np.empty(0, dtype=np.int64)
    made = predictor.maker.assemble(
        ids_by_type(graph, nodes, first), edges, ends - first[kinds[ends]],
        np.full(len(edges), -1), none.reshape(2, 0), none,
    )  # fmt: skip
    data = made.data
    del data.edge_label_type
    for store in (*data.node_stores, *data.edge_stores):
        for key in {"name", "id", "attributes"} & set(store.keys()):
            del store[key]  # of the whole graph, and nothing to a model
    origin = {t: data[t].n_id for t in graph.node_types}
    part = TypedGraph.from_data(data, link_types, graph.reverse)
    return LinkPredictor(
        predictor.model, data, part, predictor.forward, predictor.output, origin=origin
    )


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


def _examples(graph: TypedGraph, edges: Longs) -> list[Longs]:
    """Further edges of relations that have too few of them among these."""
    have = np.bincount(graph.relation[edges], minlength=len(graph.edge_types))
    found = []
    for position, count in enumerate(graph.edge_counts):
        if have[position] >= min(EXAMPLES, count):
            continue
        for src, dst in zip(*graph.some_links(graph.edge_types[position], EXAMPLES), strict=True):
            into = graph.in_edges(dst)
            same = (graph.src[into] == src) & (graph.relation[into] == position)
            found.append(into.start + np.flatnonzero(same)[:1])
    return found
