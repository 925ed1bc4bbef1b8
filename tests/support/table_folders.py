"""Folders of tables, and random graphs that tables can hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import torch
from hypothesis import strategies as st
from torch_geometric.data import HeteroData


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder


def small(folder: Path, **changes: str) -> Path:
    """Two users, three items, and what they buy; a change gives the text of one of the tables."""
    return write(
        folder,
        {
            "nodes-user.csv": changes.get("user", "id,name\nu1,Ada\nu2,Bo\n"),
            "nodes-item.csv": changes.get("item", "id,name\n007,pen\n7,ink\n07,\n"),
            "edges-user__buys__item.csv": changes.get("buys", "src,dst\nu1,7\nu2,007\nu1,07\n"),
        },
    )


# Anything but lone surrogates, which no file can hold.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# What the characters of a table itself look like is more likely to go wrong.
odd_texts = texts | st.text('",;\t\r\n 0%_7-e.', max_size=6)
type_names = odd_texts.filter(bool)


@st.composite
def tables(draw: st.DrawFn, rows: int) -> pa.Table | None:
    """Further columns, at most one of each kind that CSV knows."""
    cell = {
        # The leading letter keeps it from looking like a number.
        "text": st.none() | st.just("") | odd_texts.map(lambda text: f"t{text}"),
        "integer": st.none() | st.integers(-(2**63), 2**63 - 1),
        "float": st.none() | st.floats(allow_nan=False).map(lambda value: value + 0.5),
    }
    kinds = draw(st.lists(st.sampled_from(sorted(cell)), unique=True))
    types = {"text": pa.string(), "integer": pa.int64(), "float": pa.float64()}
    columns = {
        kind: pa.array(draw(st.lists(cell[kind], min_size=rows, max_size=rows)), types[kind])
        for kind in kinds
    }
    return pa.table(columns) if columns else None


@st.composite
def graphs(draw: st.DrawFn) -> HeteroData:
    data = HeteroData()
    node_types = sorted(draw(st.lists(type_names, min_size=1, max_size=3, unique=True)))
    for node_type in node_types:
        ids = draw(st.lists(odd_texts.filter(bool), max_size=4, unique=True))
        store = data[node_type]
        store.num_nodes, store.id = len(ids), ids
        store.name = [draw(odd_texts) or key for key in ids]
        names = draw(
            st.lists(texts.map(lambda t: f"f{t.strip()}".strip()), unique=True, max_size=2)
        )
        if names:
            value = st.floats(width=32, allow_nan=False, allow_infinity=False)
            values = draw(
                st.lists(value, min_size=len(ids) * len(names), max_size=len(ids) * len(names))
            )
            store.x = torch.tensor(values, dtype=torch.float32).view(len(ids), len(names))
            store.x_names = names
        table = draw(tables(len(ids)))
        # A column with a number in every row would be a feature.
        if table is not None and ids:
            kept = [c for c in table.column_names if c == "text" or table[c].null_count]
            if kept:
                store.attributes = table.select(kept)
    filled = [t for t in node_types if data[t].num_nodes]
    for edge_type in sorted(
        draw(
            st.lists(
                st.tuples(*[st.sampled_from(node_types)] * 2, type_names), max_size=4, unique=True
            )
        )
    ):
        src, dst, relation = edge_type
        pairs = []
        if src in filled and dst in filled:
            ends = st.tuples(*(st.integers(0, data[t].num_nodes - 1) for t in (src, dst)))
            pairs = draw(st.lists(ends, max_size=5))
        store = data[src, relation, dst]
        store.edge_index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t().contiguous()
        table = draw(tables(len(pairs)))
        if table is not None:
            store.attributes = table
    if not data.edge_types:
        data[node_types[0], "r", node_types[0]].edge_index = torch.empty(2, 0, dtype=torch.long)
    return data
