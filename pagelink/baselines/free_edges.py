"""Free edges: the facts of the highest mask, whether they make paths or not.

That is what rivals without paths explain by: an edge-induced subgraph of so many facts.
"""

from __future__ import annotations

import numpy as np

from pagelink.explainer import PaGELink
from pagelink.explanation import Explanation
from pagelink.graph import Longs


class FreeEdges:
    """Takes facts out of the masks of an explainer's explanations.

    Args:
        explainer: the explainer, or any other one of the same graph.
    """

    def __init__(self, explainer: PaGELink) -> None:
        graph = explainer.graph
        self._graph = graph
        self._edge_at: dict[int, Longs] = {}
        for position, size in enumerate(graph.mask_sizes[: graph.num_relations]):
            mine = np.flatnonzero(graph.relation == position)
            self._edge_at[position] = np.full(size, -1, dtype=np.int64)
            self._edge_at[position][graph.column[mine]] = mine

    def facts(self, explanation: Explanation, budget: int) -> list[int]:
        """The `budget` facts of the highest mask, best first; fewer if fewer have a mask.

        The mask of a fact is the highest of its edges. Of equal ones, the fact that comes first in
        the graph is first.
        """
        facts, values = [], []
        for position, edge_type in enumerate(self._graph.edge_types[: self._graph.num_relations]):
            columns, mask = explanation.edge_mask.stored(edge_type)
            facts.append(self._graph.fact[self._edge_at[position][columns]])
            values.append(mask)
        fact, value = np.concatenate(facts), np.concatenate(values)
        order = np.lexsort((fact, -value))
        _, first = np.unique(fact[order], return_index=True)
        return [int(f) for f in fact[order][np.sort(first)[:budget]]]
