"""A store of the graph as one model sees it: without the links that were held out from it.

From such a store a model is explained without its graph in memory. It is made of a store of the
whole graph, a piece at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pagelink.errors import CheckpointError
from pagelink.graph.reverse_relations import reverse_name
from pagelink.graph.schema import EdgeType
from pagelink.models.checkpoint import SEEN_BY, file_digest, read_model
from pagelink.runtime.arrays import Longs
from pagelink.store.facts import Step
from pagelink.store.graph_store import GraphStore
from pagelink.store.writer import StoreWriter

PIECE = 2_000_000


def save_message_store(
    store: GraphStore, model: Path, out: Path, progress: Step | None = None
) -> GraphStore:
    """Write what a trained model sees of a graph as a store of its own.

    Args:
        store: the whole graph that the model was trained on.
        model: its checkpoint.
        out: the folder to make.
        progress: told of each step by name, done and total.

    Raises:
        CheckpointError: the graph is not the model's.
        StoreError: the folder cannot be written.
    """
    if SEEN_BY in store.manifest:
        raise CheckpointError(
            f"{store.folder} holds only what a model sees of its graph. Give the whole graph."
        )
    _, link_type, split, _, settings = read_model(model, store.schema)
    data = store.data
    reverse = store.graph([link_type]).reverse.get(link_type) or reverse_name(link_type)
    num_dst = int(data[link_type[2]].num_nodes)
    train = split.train.numpy()
    wanted = np.sort(train[0] * num_dst + train[1])

    def kept(edge_type: EdgeType, edges: Longs) -> Longs:
        """Which edges of a piece the model sees."""
        if edge_type not in (link_type, reverse):
            return np.arange(edges.shape[1])
        src, dst = edges if edge_type == link_type else edges[::-1]
        return np.flatnonzero(np.isin(src * num_dst + dst, wanted))

    gone = (link_type, reverse) if settings.paper_split else ()
    with StoreWriter(out, progress=progress) as writer:
        _copy_nodes(store, writer)
        relations = [t for t in store.edge_types if t not in gone]
        for edge_type in relations:
            for edges in _pieces(data[edge_type].edge_index):
                writer.add_edges(edge_type, edges[:, kept(edge_type, edges)])
        if not settings.paper_split:
            for edge_type in dict.fromkeys((link_type, reverse)):
                if edge_type not in store.edge_types:
                    writer.add_edges(edge_type, train if edge_type == link_type else train[::-1])
        for edge_type in relations:
            table = data[edge_type].get("attributes")
            if table is not None:
                edge_index = data[edge_type].edge_index
                pieces = (
                    rows.take(pa.array(kept(edge_type, edges)))
                    for edges, rows in zip(_pieces(edge_index), _rows(table), strict=True)
                )
                writer.set_edge_attributes(edge_type, table.schema, pieces)
        seen_by = {"checkpoint": file_digest(model), "schema": store.schema}
        return writer.finish(add_reverse=False, notes={SEEN_BY: seen_by})


def _copy_nodes(store: GraphStore, writer: StoreWriter) -> None:
    for node_type in store.data.node_types:
        nodes = store.data[node_type]
        texts = {key: nodes[name] for key, name in (("names", "name"), ("ids", "id"))
                 if name in nodes}  # fmt: skip
        for first in range(0, nodes.num_nodes, PIECE):
            last = min(first + PIECE, nodes.num_nodes)
            part = {key: strings.block(first, last) for key, strings in texts.items()}
            writer.add_nodes(node_type, last - first, **part)
        if "x" in nodes:
            x = nodes["x"].numpy()
            rows = (x[i : i + PIECE] for i in range(0, max(len(x), 1), PIECE))
            writer.set_features(node_type, rows, nodes.get("x_names"))
        if "attributes" in nodes:
            table = nodes["attributes"]
            writer.set_node_attributes(node_type, table.schema, _rows(table))


def _pieces(edge_index: Any) -> Iterator[Longs]:
    edges: Longs = edge_index.numpy()
    for first in range(0, edges.shape[1], PIECE):
        yield edges[:, first : first + PIECE]


def _rows(table: pa.Table) -> Iterator[pa.Table]:
    for first in range(0, table.num_rows, PIECE):
        yield table.slice(first, PIECE)
