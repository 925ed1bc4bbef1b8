"""The hub report: how much of the explanations runs through the nodes of highest degree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from pagelink.checks.subject import Finding, Mark, percent
from pagelink.explanation import Explanation
from pagelink.graph import Bools, TypedGraph

TOP = 0.01
"""Hubs are this share of the nodes, those of highest degree."""
MUCH = 0.5
"""Paths through hubs are worth a warning from this share on."""


def hubs(graph: TypedGraph, share: float = TOP) -> Bools:
    """Return which nodes are hubs: at least one, and all of the same degree together.

    Args:
        graph: the graph.
        share: of the nodes, 0 to 1.
    """
    count = max(int(share * graph.num_nodes), 1)
    bar = np.partition(graph.degree, -count)[-count]
    found: Bools = graph.degree >= max(int(bar), 1)
    return found


def check_hubs(graph: TypedGraph, explanations: Sequence[Explanation]) -> Finding:
    """Count the paths whose inner nodes are hubs.

    Args:
        graph: the graph.
        explanations: of some links in it.
    """
    is_hub = hubs(graph)
    paths = [path for answer in explanations for path in answer.paths]
    inner = [[graph.flat_index(*node) for node in path.nodes[1:-1]] for path in paths]
    through = sum(any(is_hub[v] for v in nodes) for nodes in inner)
    visits = Counter(v for nodes in inner for v in nodes)
    all_visits = sum(visits.values())
    hub_visits = sum(n for v, n in visits.items() if is_hub[v])
    facts = float(graph.degree[is_hub].sum() / max(int(graph.degree.sum()), 1))
    share_of_inner = hub_visits / all_visits if all_visits else 0.0
    figures = {
        "num_hubs": int(is_hub.sum()),
        "least_degree": int(graph.degree[is_hub].min()) if is_hub.any() else 0,
        "num_paths": len(paths),
        "paths_through_hubs": through,
        "share_of_inner_nodes": share_of_inner,
        "share_of_facts": facts,
        "most_visited": [
            {"name": graph.node_name(v), "degree": int(graph.degree[v]), "paths": n}
            for v, n in visits.most_common(5)
        ],
    }
    if not paths:
        return Finding("hubs", "not checked", "There are no paths to look at.", (), figures)
    share = through / len(paths)
    details = [
        f"Hubs are {int(is_hub.sum())} nodes of degree {figures['least_degree']} or more; "
        f"{percent(facts)} of all ends of facts are at them.",
        f"They are {percent(share_of_inner)} of the inner nodes of paths.",
        "Most visited: "
        + ", ".join(
            f"{graph.node_name(v)} (degree {graph.degree[v]}, {n} paths)"
            for v, n in visits.most_common(3)
        )
        + ".",
    ]  # fmt: skip
    mark: Mark = "warning" if share >= MUCH else "fine"
    verdict = (
        f"{percent(share)} of the paths run through the top 1 % of the nodes by degree"
        + (": what they say is true of most links. Try --max-degree." if mark == "warning" else ".")
    )  # fmt: skip
    return Finding("hubs", mark, verdict, tuple(details), figures)
