"""Random graphs with everything that a store holds."""

from __future__ import annotations

import pyarrow as pa
import torch
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from pagelink.graph.schema import EdgeType

BUYS: EdgeType = ("user", "buys", "item")
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@st.composite
def graphs(draw: st.DrawFn) -> HeteroData:
    """Multigraphs with copies, self-loops, parallel relations, mirrors, names and tables."""
    data = HeteroData()
    sizes = {"user": draw(st.integers(0, 5)), "item": draw(st.integers(1, 5)), "tag": 2}
    for node_type, size in sizes.items():
        data[node_type].num_nodes = size
        if draw(st.booleans()):
            data[node_type].id = [f"{node_type}{i}" for i in range(size)]
        if draw(st.booleans()):
            data[node_type].name = draw(st.lists(WORDS, min_size=size, max_size=size))
        elif "id" in data[node_type] and draw(st.booleans()):
            data[node_type].name = [*data[node_type].id]
        if draw(st.booleans()):
            data[node_type].x = torch.rand(size, 3)
            data[node_type].x_names = ["a", "b", "c"]
    named = [
        BUYS, ("user", "sees", "item"), ("item", "rev_buys", "user"), ("item", "seen_by", "user"),
        ("item", "like", "item"), ("item", "as", "item"), ("user", "knows", "user"),
    ]  # fmt: skip
    mirrored = draw(st.booleans())
    for edge_type in draw(st.lists(st.sampled_from(named), unique=True, min_size=1)):
        ends = (sizes[edge_type[0]] - 1, sizes[edge_type[2]] - 1)
        pair = st.tuples(*(st.integers(0, max(end, 0)) for end in ends))
        most = 12 if min(ends) >= 0 else 0
        edges = torch.tensor(draw(st.lists(pair, max_size=most)), dtype=torch.long).view(-1, 2).t()
        turned = ("user", "sees", "item")
        if mirrored and edge_type == ("item", "seen_by", "user") and turned in data.edge_types:
            edges = data[turned].edge_index.flip(0).flip(1)
        data[edge_type].edge_index = edges.contiguous()
        count = edges.shape[1]
        if draw(st.booleans()):
            words = pa.array(["é", None, "x"] * count, pa.string())[:count]
            data[edge_type].attributes = pa.table(
                {"when": pa.array(range(count), pa.int64()), "why": words}
            )
        if draw(st.booleans()):
            data[edge_type].edge_weight = torch.rand(count)
    return data
