"""What may lie on a path, beyond length and degree, as users ask for it.

Relations, nodes and facts from a date on can be left out; metapaths can be allowed or forbidden; a
node can be required. All of this restricts the paths; the model sees the graph as it is. Metapaths
and required nodes are compiled into one small automaton that the path search follows, so that the
k best paths are still found exactly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagelink.errors import SettingsError, did_you_mean
from pagelink.graph.reverse_relations import REVERSE_PREFIX
from pagelink.graph.schema import HOMOGENEOUS_NODE_TYPE
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Ints
from pagelink.settings import Settings


@dataclass(frozen=True)
class Automaton:
    """Reads the arcs of a path one by one; the path is allowed if it ends in an accepting state.

    An arc is read as `symbol[relation, walked backwards, head is required]`.
    """

    next_state: Ints
    """[num_states, num_symbols], -1 where no allowed path goes on. State 0 is the start."""
    accepting: Bools

    @property
    def reads_nothing(self) -> bool:
        """Whether every path is allowed, so that there is nothing to follow."""
        return bool(self.next_state.shape[1] == 0)

    @staticmethod
    def symbols(relation: Ints, backwards: Bools, required: Bools) -> Ints:
        """Number arcs by what the automaton reads."""
        return ((relation * 2 + backwards) * 2 + required).astype(np.int32)


ANYTHING = Automaton(np.zeros((1, 0), dtype=np.int32), np.ones(1, dtype=np.bool_))
"""Every path is allowed; nothing is read."""


@dataclass(frozen=True)
class Constraints:
    """The constraints of some settings on some graph."""

    edges: Bools | None = None
    """Per edge, whether its fact may lie on a path. None: all may."""
    nodes: Bools | None = None
    """Per node, whether it may lie inside a path. None: all may."""
    required: Bools | None = None
    """Per node, whether it is one of those that a path must go through. None: none is."""
    automaton: Automaton = ANYTHING
    words: tuple[str, ...] = ()
    """The constraints in words."""


def compile_constraints(graph: TypedGraph, settings: Settings) -> Constraints:
    """Look up what the settings name in the graph.

    Raises:
        SettingsError: a relation or a node is not there, or no edge has a date.
        LinkError: a node is not there, or several have its name.
    """
    words: list[str] = []
    if not (settings.exclude_relations or settings.before or settings.exclude_nodes
            or settings.via or settings.metapaths or settings.forbid_metapaths):  # fmt: skip
        return Constraints()  # without arrays as long as the graph
    edges = np.ones(graph.num_edges, dtype=np.bool_)
    nodes = np.ones(graph.num_nodes, dtype=np.bool_)
    required = np.zeros(graph.num_nodes, dtype=np.bool_)
    for name in settings.exclude_relations:
        classes = [graph.relation_class[i] for i in _find_relations(graph, name)]
        edges &= ~np.isin(graph.relation_class[graph.relation], classes)
    if settings.exclude_relations:
        words.append(f"without the relations {', '.join(settings.exclude_relations)}")
    if settings.before is not None:
        edges &= _before(graph, settings.before, settings.date_column)
        words.append(f"only facts before {settings.before}")
    for mask, found, verb in (
        (nodes, settings.exclude_nodes, "without"), (required, settings.via, "through"),
    ):  # fmt: skip
        for node_type, key in found:
            if node_type not in graph.node_types:
                close = did_you_mean(node_type, graph.node_types)
                raise SettingsError(f"There is no node type {node_type!r}.{close}")
            mask[graph.find_node(node_type, key)] = verb == "through"
        if found:
            words.append(f"{verb} {', '.join(str(key) for _, key in found)}")
    allowed = [_steps(graph, path) for path in settings.metapaths]
    forbidden = [_steps(graph, path) for path in settings.forbid_metapaths]
    words += [f"only by {' > '.join(path)}" for path in settings.metapaths]
    words += [f"not by {' > '.join(path)}" for path in settings.forbid_metapaths]
    automaton = ANYTHING
    if allowed or forbidden or settings.via:
        automaton = _automaton(len(graph.edge_types), allowed, forbidden, bool(settings.via))
    return Constraints(
        edges=None if edges.all() else edges,
        nodes=None if nodes.all() else nodes,
        required=required if settings.via else None,
        automaton=automaton,
        words=tuple(words),
    )


def _find_relations(graph: TypedGraph, name: str) -> list[int]:
    whole = [i for i, t in enumerate(graph.edge_types) if name == "__".join(t)]
    found = sorted({*whole, *_called(graph, name)})
    if not found:
        known = [t[1] for t in graph.edge_types] + ["__".join(t) for t in graph.edge_types]
        raise SettingsError(f"There is no relation {name!r}.{did_you_mean(name, known)}")
    return found


def _called(graph: TypedGraph, name: str) -> list[int]:
    """The relations of a name, or else those that may be called so in a homogeneous graph."""
    kind = HOMOGENEOUS_NODE_TYPE
    others = graph.also_called.get((kind, name, kind), ())
    named = [i for i, t in enumerate(graph.edge_types) if t[1] == name]
    return named or [graph.edge_types.index(t) for t in others]


def _before(graph: TypedGraph, date: str, column: str) -> Bools:
    """Facts of which some copy has a date before the given one; facts without a date stay."""
    dated, early = np.zeros((2, graph.num_facts), dtype=np.bool_)
    for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
        dates = graph.edge_column(edge_type, column)
        if dates is None:
            continue
        there, earlier = _earlier(dates, date)
        mine = graph.relation == position
        facts, columns = graph.fact[mine], graph.column[mine]
        dated[facts[there[columns]]] = True
        early[facts[earlier[columns]]] = True
    if not dated.any():
        raise SettingsError(
            f"No relation has a column {column!r} with dates, so there is nothing before {date!r}. "
            "Say which column holds the dates by date_column."
        )
    return (early | ~dated)[graph.fact]


def _earlier(dates: Sequence[Any], date: str) -> tuple[Bools, Bools]:
    """Where there is a date, and where it is earlier.

    Dates are compared as numbers where they are numbers, else as ISO text, which sorts by time.
    """
    there = np.array([each is not None for each in dates], dtype=np.bool_)
    if not there.any():  # then nothing tells which kind of dates the column holds
        return there, there
    if all(isinstance(each, int | float) for each in dates if each is not None):
        try:
            limit = float(date)
        except ValueError:
            raise SettingsError(f"The dates are numbers, so {date!r} must be one.") from None
        earlier = [each is not None and each < limit for each in dates]
    else:
        if not re.fullmatch(r"\d{4}(-\d{2}(-\d{2}([ T].*)?)?)?", date):
            raise SettingsError(
                f"before must be a date as 2018, 2018-05 or 2018-05-31, got {date!r}."
            )
        earlier = [each is not None and str(each) < date for each in dates]
    return there, np.array(earlier, dtype=np.bool_)


def _steps(graph: TypedGraph, metapath: Sequence[str]) -> list[set[int]]:
    """The arcs that each step of a metapath may be: relation * 2 + walked backwards."""
    steps = []
    for name in metapath:
        forth = {2 * i for i in _called(graph, name)}
        turned = name.removeprefix(REVERSE_PREFIX)
        back = {2 * i + 1 for i in _called(graph, turned)} if turned not in (name, "") else set()
        if not forth | back:
            known = [t[1] for t in graph.edge_types]
            raise SettingsError(
                f"The metapath {' > '.join(metapath)} has a relation {name!r}, which is not in the "
                f"graph.{did_you_mean(name, known)}"
            )
        steps.append(forth | back)
    return steps


_State = tuple[int, frozenset[int], frozenset[int], bool]
"""Depth, the allowed and the forbidden metapaths still followed, and whether a required node was
met."""


def _automaton(
    num_relations: int,
    allowed: Sequence[Sequence[set[int]]],
    forbidden: Sequence[Sequence[set[int]]],
    via: bool,
) -> Automaton:
    """Subset construction: a state is which metapaths have been followed so far, and how far."""
    start: _State = (0, frozenset(range(len(allowed))), frozenset(range(len(forbidden))), not via)
    numbers: dict[_State, int] = {start: 0}
    order = [start]
    rows: list[list[int]] = []
    longest = max((len(path) for path in [*allowed, *forbidden]), default=0)
    for depth, good, bad, passed in order:  # grows while it is read
        row = []
        for symbol in range(num_relations * 4):
            arc, head_required = divmod(symbol, 2)
            still_good = frozenset(i for i in good if depth < len(allowed[i])
                                   and arc in allowed[i][depth])  # fmt: skip
            still_bad = frozenset(i for i in bad if depth < len(forbidden[i])
                                  and arc in forbidden[i][depth])  # fmt: skip
            if allowed and not still_good:
                row.append(-1)
                continue
            # Beyond the longest metapath nothing is followed any more; depth need not be counted.
            state = (
                min(depth + 1, longest + 1),
                still_good,
                still_bad,
                passed or bool(head_required),
            )
            if state not in numbers:
                numbers[state] = len(order)
                order.append(state)
            row.append(numbers[state])
        rows.append(row)
    accepting = [
        passed
        and (not allowed or any(len(allowed[i]) == depth for i in good))
        and not any(len(forbidden[i]) == depth for i in bad)
        for depth, good, bad, passed in order
    ]
    return Automaton(np.array(rows, dtype=np.int32), np.array(accepting, dtype=np.bool_))
