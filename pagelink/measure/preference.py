"""How much facts count for a reader, by a column of their tables: times listened, confidence, year.

A fact's weight is the share of the facts of its relation whose value is at most its own: what
matters is which facts are heavier than others, not in which unit they are measured.
"""

from __future__ import annotations

import weakref

import numpy as np

from pagelink.errors import SettingsError, did_you_mean
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.candidates import Candidates
from pagelink.runtime.arrays import Doubles, Ints

_known: dict[tuple[int, str], Doubles] = {}
"""By graph and column; forgotten with the graph."""


def fact_weights(graph: TypedGraph, column: str) -> Doubles:
    """Return the weight of every edge by a column of attributes, above 0 and at most 1.

    Edges of relations without the column weigh 1; within one that has it, those without a value
    weigh as little as the lightest.

    Raises:
        SettingsError: no relation has the column, or its values are no numbers.
    """
    key = id(graph), column
    if key not in _known:
        _known[key] = _weights(graph, column)
        weakref.finalize(graph, _known.pop, key, None)
    return _known[key]


def _weights(graph: TypedGraph, column: str) -> Doubles:
    weight = np.ones(graph.num_edges)
    names: set[str] = set()
    found = False
    for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
        cells = graph.edge_column(edge_type, column)
        if cells is None:
            table = graph.attributes.get(edge_type)
            names.update([] if table is None else table.column_names)
            continue
        found = True
        try:
            values = np.array([np.nan if cell is None else float(cell) for cell in cells])
        except (TypeError, ValueError) as error:
            raise SettingsError(
                f"prefer: the column {column!r} of {','.join(edge_type)} must hold numbers "
                f"({error})."
            ) from error
        ordered = np.sort(values[~np.isnan(values)])
        share = np.searchsorted(ordered, values, side="right") / max(1, len(ordered))
        share = np.where(np.isnan(values), 0.0, share)
        mine = np.flatnonzero(graph.relation == position)
        weight[mine] = np.maximum(share, 1 / max(1, len(values)))[graph.column[mine]]
    if not found:
        known = f" There are {', '.join(sorted(names))}." if names else ""
        raise SettingsError(
            f"prefer: no relation has a column {column!r}.{known}{did_you_mean(column, names)}"
        )
    return weight


def preference(graph: TypedGraph, edges: Ints, candidates: Candidates, column: str) -> Doubles:
    """Return the sum of the logarithms of the weights of each candidate's facts, at most 0.

    Args:
        graph: the graph.
        edges: the edges of the batch, to which the candidates' slots refer.
        candidates: the paths.
        column: of the attributes of the edges.
    """
    of_path = np.repeat(np.arange(len(candidates.lengths)), np.diff(candidates.slots.ptr))
    mine = edges[candidates.slots.values]
    # A fact has a row per copy and direction; the heaviest says what it weighs.
    facts, place = np.unique(of_path * graph.num_facts + graph.fact[mine], return_inverse=True)
    heaviest = np.zeros(len(facts))
    np.maximum.at(heaviest, place, fact_weights(graph, column)[mine])
    found: Doubles = np.bincount(
        facts // max(1, graph.num_facts), weights=np.log(heaviest),
        minlength=len(candidates.lengths),
    ).astype(np.float64)  # fmt: skip
    return found
