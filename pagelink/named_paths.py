"""From arcs of the search to Paths with names."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagelink.computation_graph import ComputationGraphs
from pagelink.explanation import Path, PathEdge
from pagelink.graph import TypedGraph
from pagelink.paths import FoundPaths, PathGraphs


def named_paths(
    graph: TypedGraph,
    batch: ComputationGraphs,
    paths: PathGraphs,
    edge_logits: npt.NDArray[np.float32],
    found: FoundPaths,
    row: int,
) -> tuple[Path, ...]:
    """Return the paths of one link, best first.

    Args:
        graph: the flat graph.
        batch: the computation graphs.
        paths: where the paths were found.
        edge_logits: M, one value per edge of the batch.
        found: the result of the search.
        row: the link's row in it.
    """
    lengths = found.lengths[row][found.lengths[row] > 0]
    if len(lengths) == 0:
        return ()
    arcs = found.arcs[row][: len(lengths)]
    walked = arcs[arcs >= 0]
    # The paths of a link share most of their facts: each is made once.
    distinct, place = np.unique(walked, return_inverse=True)
    slots = paths.arc_slot[distinct]
    logits = edge_logits[slots].astype(np.float64)
    cost = np.logaddexp(0, -logits) + paths.arc_log_degree[distinct]
    starts = np.cumsum(lengths) - lengths
    scores = -np.add.reduceat(cost[place], starts)

    flat_edges, backwards = batch.edges[slots], paths.arc_reversed[distinct]
    ends = np.stack([graph.src[flat_edges], graph.dst[flat_edges]])
    tails, heads = np.where(backwards, ends[::-1], ends)
    edges = _path_edges(graph, flat_edges, backwards, logits)
    flat = np.unique(ends)
    nodes = {
        node: (graph.node(node), graph.node_name(node), degree)
        for node, degree in zip(flat.tolist(), graph.degree[flat].tolist(), strict=True)
    }
    tail_list, head_list, places = tails.tolist(), heads.tolist(), place.tolist()
    result = []
    for start, length, score in zip(
        starts.tolist(), lengths.tolist(), scores.tolist(), strict=True
    ):
        steps = places[start : start + length]
        seen = [nodes[tail_list[steps[0]]], *(nodes[head_list[step]] for step in steps)]
        named, names, degrees = zip(*seen, strict=True)
        result.append(
            Path(named, tuple(edges[step] for step in steps), names, degrees, score=score)
        )
    return tuple(result)


def _path_edges(
    graph: TypedGraph,
    flat_edges: npt.NDArray[np.int32],
    backwards: npt.NDArray[np.bool_],
    logits: npt.NDArray[np.float64],
) -> list[PathEdge]:
    masks = 1 / (1 + np.exp(-logits))
    words = [graph.relation_words(edge_type) for edge_type in graph.edge_types]
    made = []
    for edge, relation, column, back, mask in zip(
        flat_edges.tolist(), graph.relation[flat_edges].tolist(),
        graph.column[flat_edges].tolist(),
        backwards.tolist(), masks.tolist(), strict=True,
    ):  # fmt: skip
        edge_type = graph.edge_types[relation]
        label, label_backwards = words[relation]
        made.append(
            PathEdge(
                type=edge_type,
                index=column,
                reversed=back,
                label=label,
                label_backwards=back != label_backwards,
                mask=mask,
                attributes=graph.edge_attributes(edge),
            )
        )
    return made
