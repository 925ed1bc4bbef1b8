"""For whom it differs: links by degree, by score, and by what is known of their ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pagelink.audit.figures import Group, Mean
from pagelink.audit.rows import Row
from pagelink.audit.sampling import classes
from pagelink.audit.summary import carried_by, mean_of, verdicts_of
from pagelink.errors import SettingsError, did_you_mean
from pagelink.explain.result import Node
from pagelink.measure.verdict import PARTS, VERDICTS

MOST_VALUES = 8
"""Values of a column that have a group of their own; the others are one group."""
MANY_NUMBERS = 12
"""A column of more different numbers than this is cut into thirds."""
CLEARLY = 3.0
"""Standard errors by which a group's mean has to differ to be pointed out."""
HALF = 0.5


class Columns:
    """What is known of nodes, column by column.

    Args:
        data: the graph; `data[node_type].attributes` is a table with a row per node, and any other
            entry with a value per node counts as a column, too.
        ends: the node types of source and target.
        wanted: the columns to group links by, as `column` or `type.column`.

    Raises:
        SettingsError: there is no such column at either end.
    """

    def __init__(self, data: Any, ends: tuple[str, str], wanted: Sequence[str]) -> None:
        self._columns: list[tuple[str, str, Sequence[Any]]] = []
        for name in wanted:
            kind, dot, column = name.rpartition(".")
            found = [
                (end, column, values)
                for end in dict.fromkeys(ends)
                if not dot or kind == end
                if (values := _column(data[end], column)) is not None
            ]
            if not found:
                known = [f"{end}.{c}" for end in dict.fromkeys(ends) for c in _names(data[end])]
                told = f" The columns are {', '.join(known)}." if known else " There are none."
                raise SettingsError(
                    f"Neither {' nor '.join(dict.fromkeys(ends))} has a column {name!r} to group "
                    f"links by.{told}" + did_you_mean(name, known)
                )
            self._columns += found

    def values(self, rows: Sequence[Row]) -> dict[str, list[Any]]:
        """Return, by what links are grouped by, the value of each of them."""
        found = {}
        for kind, column, values in self._columns:
            for end in ("src", "dst"):
                nodes: list[Node] = [getattr(row, end) for row in rows]
                if nodes and nodes[0][0] == kind:
                    which = "source" if end == "src" else "target"
                    found[f"{column} of the {which}"] = [_plain(values[at]) for _, at in nodes]
        return found


def _names(store: Any) -> list[str]:
    table = store.get("attributes")
    return [] if table is None else list(table.column_names)


def _column(store: Any, name: str) -> Sequence[Any] | None:
    if name in _names(store):
        found: Sequence[Any] = store["attributes"][name].to_pylist()
        return found
    values = store.get(name)
    if values is None or getattr(values, "ndim", 1) != 1 or name in ("n_id", "attributes"):
        return None
    size = store.num_nodes
    return values if hasattr(values, "__len__") and len(values) == size else None


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def make_groups(rows: Sequence[Row], columns: Columns | None = None) -> tuple[Group, ...]:
    """Group links by source degree, target degree, score, and by columns.

    Args:
        rows: of all links; those that were not measured are in no group.
        columns: further figures to group by.
    """
    places = [i for i, row in enumerate(rows) if row.game is not None]
    mine = [rows[i] for i in places]
    labels: dict[str, list[str]] = {
        "degree of the source": _thirds([row.src_degree for row in mine]),
        "degree of the target": _thirds([row.dst_degree for row in mine]),
        "score": _thirds([row.logit or 0.0 for row in mine]),
    }
    if columns is not None:
        labels |= {by: _of_values(values) for by, values in columns.values(mine).items()}
    found = []
    for by, each in labels.items():
        for label in dict.fromkeys(sorted(each, key=lambda x: _rank(x, each, mine, by))):
            inside = [i for i, own in enumerate(each) if own == label]
            found.append(_group(by, label, mine, inside, places))
    return tuple(found)


def _rank(label: str, labels: list[str], rows: Sequence[Row], by: str) -> tuple[float, str]:
    """Classes of numbers from the lowest up, values by their number of links."""
    figures = {
        "degree of the source": lambda row: row.src_degree,
        "degree of the target": lambda row: row.dst_degree,
        "score": lambda row: row.logit,
    }
    inside = [row for row, own in zip(rows, labels, strict=True) if own == label]
    if by in figures:
        return min(figures[by](row) for row in inside), label
    return -len(inside), label


def _thirds(values: Sequence[float]) -> list[str]:
    """The class of each value, in words."""
    which = classes(values)
    bounds: dict[int, str] = {}
    for number in np.unique(which).tolist():
        inside = [value for value, own in zip(values, which, strict=True) if own == number]
        low, high = _number(min(inside)), _number(max(inside))
        bounds[number] = low if low == high else f"{low} to {high}"
    return [bounds[number] for number in which.tolist()]


def _number(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) and value % 1 else f"{value:.0f}"


def _of_values(values: Sequence[Any]) -> list[str]:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values) and len(set(numbers)) > MANY_NUMBERS:
        return _thirds([float(value) for value in values])
    told = ["unknown" if value is None or value == "" else str(value) for value in values]
    common = {value for value, _ in Counter(told).most_common(MOST_VALUES)}
    return [value if value in common else "any other" for value in told]


def _group(
    by: str, label: str, rows: Sequence[Row], inside: list[int], places: Sequence[int]
) -> Group:
    chosen = set(inside)
    own = [rows[i] for i in inside]
    others = [row for i, row in enumerate(rows) if i not in chosen]
    parts = {name: _mean_part(own, name) for name in PARTS}
    rest = {name: _mean_part(others, name) for name in PARTS}
    verdicts = verdicts_of(own)
    judged = sum(verdicts.get(name, 0) for name in VERDICTS)
    carried = Counter(words for row in own for words in carried_by(row))
    first = min(carried, key=lambda words: (-carried[words], words)) if carried else None
    return Group(
        by=by, label=label, num_links=len(own), logit=mean_of(r.logit or 0.0 for r in own).mean,
        parts=parts,
        differs=tuple(name for name in PARTS if others and _differ(parts[name], rest[name])),
        verdicts=verdicts,
        rests_on_popularity=judged > 0 and verdicts.get("degree_only", 0) >= HALF * judged,
        metapath=first, rows=tuple(places[i] for i in inside),
    )  # fmt: skip


def _mean_part(rows: Sequence[Row], name: Any) -> Mean:
    return mean_of(row.game.parts[name].value for row in rows if row.game is not None)


def _differ(one: Mean, other: Mean) -> bool:
    return abs(one.mean - other.mean) > CLEARLY * float(np.hypot(one.error, other.error)) > 0
