"""For whom it differs: links by degree, by score, and by what is known of their ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_geometric.data import HeteroData

from pagelink.audit.figures import Group, Mean
from pagelink.audit.rows import Row
from pagelink.audit.sampling import classes
from pagelink.audit.summary import carried_by, mean_of, mean_value, verdicts_of
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
Label = tuple[int, str]
"""Of a group: its place among the others, and its words."""
UNKNOWN: Label = (MANY_NUMBERS, "unknown")


class Columns:
    """What is known of nodes, column by column.

    Args:
        data: the graph; `data[node_type].attributes` is a table with a row per node, and any other
            entry with a value per node counts as a column, too.
        ends: the node types of source and target.
        wanted: the column, or columns, to group links by, as `column` or `type.column`.

    Raises:
        SettingsError: there is no such column at either end.
    """

    def __init__(self, data: Any, ends: tuple[str, str], wanted: str | Sequence[str]) -> None:
        wanted = [wanted] if isinstance(wanted, str) else wanted
        self._columns: list[tuple[str, str, Sequence[Any]]] = []
        stores = {end: data[end] if isinstance(data, HeteroData) else data.stores[0]
                  for end in ends}  # fmt: skip
        for name in wanted:
            kind, dot, column = name.rpartition(".")
            found = [
                (end, column, values)
                for end, store in stores.items()
                if not dot or kind == end
                if (values := _column(store, column)) is not None
            ]
            if not found:
                known = [f"{end}.{c}" for end, store in stores.items() for c in _names(store)]
                told = f" The columns are {', '.join(known)}." if known else " They have none."
                raise SettingsError(
                    f"Neither {' nor '.join(stores)} has a column {name!r} to group "
                    f"links by.{told}"
                    + did_you_mean(name, [*known, *(each.partition(".")[2] for each in known)])
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
    """The columns of a node type: of its table, and any other entry with a value per node."""
    table = store.get("attributes")
    named = [] if table is None else list(table.column_names)
    others = (name for name, values in store.items() if _is_column(name, values, store.num_nodes))
    return list(dict.fromkeys([*named, *others]))


def _is_column(name: str, values: Any, size: int) -> bool:
    is_flat = getattr(values, "ndim", 1) == 1 and not isinstance(values, str)
    has_values = is_flat and hasattr(values, "__len__") and len(values) == size
    return has_values and name not in ("n_id", "attributes") and not name.startswith("edge_")


def _column(store: Any, name: str) -> Sequence[Any] | None:
    if name not in _names(store):
        return None
    table = store.get("attributes")
    if table is not None and name in table.column_names:
        found: Sequence[Any] = table[name].to_pylist()
        return found
    values: Sequence[Any] = store[name]
    return values


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
    labels: dict[str, list[Label]] = {
        "degree of the source": _thirds([row.src_degree for row in mine]),
        "degree of the target": _thirds([row.dst_degree for row in mine]),
        "score": _thirds([row.logit or 0.0 for row in mine]),
    }
    if columns is not None:
        labels |= {by: _of_values(values) for by, values in columns.values(mine).items()}
    return tuple(
        _group(by, label, mine, [i for i, own in enumerate(each) if own == label], places)
        for by, each in labels.items()
        for label in sorted(set(each))
    )


def _thirds(values: Sequence[float]) -> list[Label]:
    """The class of each value, from the lowest up."""
    which = classes(values)
    bounds = [[value for value, own in zip(values, which, strict=True) if own == number]
              for number in range(int(which.max(initial=-1)) + 1)]  # fmt: skip
    for digits in (2, 3, 4, 5, 6):  # classes are told apart
        told = [tuple(dict.fromkeys(_number(end, digits) for end in (min(each), max(each))))
                for each in bounds]  # fmt: skip
        ends = [end for each in told for end in each]
        if len(set(ends)) == len(ends):
            break
    return [(number, " to ".join(told[number])) for number in which.tolist()]


def _number(value: float, digits: int) -> str:
    return f"{value:.0f}" if value % 1 == 0 else f"{value:.{digits}f}"


def _of_values(values: Sequence[Any]) -> list[Label]:
    """Many different numbers in thirds; else each value by itself, the most common first."""
    is_known = [not (value is None or value == "" or value != value) for value in values]
    known = [value for value, given in zip(values, is_known, strict=True) if given]
    numbers = [v for v in known if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(known) and len(set(numbers)) > MANY_NUMBERS:
        labels = _thirds(numbers)
    else:
        is_whole = len(numbers) == len(known) and all(value % 1 == 0 for value in numbers)
        told = [f"{value:.0f}" if is_whole else str(value) for value in known]
        counts = Counter(told)
        common = {value for value, _ in counts.most_common(MOST_VALUES)}
        labels = [(-counts[v], v) if v in common else (1, "any other") for v in told]
    found = iter(labels)
    return [next(found) if given else UNKNOWN for given in is_known]


def _group(
    by: str, label: Label, rows: Sequence[Row], inside: list[int], places: Sequence[int]
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
        by=by, label=label[1], num_links=len(own), logit=mean_of(r.logit or 0.0 for r in own).mean,
        parts=parts,
        differs=tuple(name for name in PARTS if others and _differ(parts[name], rest[name])),
        verdicts=verdicts,
        rests_on_popularity=judged > 0 and verdicts.get("degree_only", 0) >= HALF * judged,
        metapath=first, rows=tuple(places[i] for i in inside),
    )  # fmt: skip


def _mean_part(rows: Sequence[Row], name: Any) -> Mean:
    return mean_value([row.game.parts[name] for row in rows if row.game is not None])


def _differ(one: Mean, other: Mean) -> bool:
    return abs(one.mean - other.mean) > CLEARLY * float(np.hypot(one.error, other.error)) > 0
