"""The graph with facts added: a copy of the data with further edges, for the same model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import LinkError, did_you_mean
from pagelink.explain.explainer import PaGELink
from pagelink.graph.lookup import fact_of
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph


@dataclass(frozen=True)
class Added:
    """An explainer of the same model on the graph with further facts."""

    explainer: PaGELink

    def fact_of(self, graph: TypedGraph, fact: int) -> int:
        """Return the number that a fact of the graph as it was has in this one."""
        edge = int(graph.representative[fact])
        edge_type = graph.edge_types[graph.relation[edge]]
        dst = graph.node(int(graph.dst[edge]))
        return fact_of(self.explainer.graph, edge_type, int(graph.column[edge]), dst)


def added_to(explainer: PaGELink, facts: Sequence[str]) -> Added:
    """Return an explainer of the graph with some facts added, each with its reverse.

    Args:
        explainer: an explainer of a graph in memory.
        facts: as `buys:3:35`: relation, and the indices of source and target.

    Raises:
        LinkError: there is no such relation or node, or nothing can be added to the graph.
    """
    data = explainer.predictor.data
    if explainer.store is not None or not isinstance(data, HeteroData):
        raise LinkError("Facts can be added to a heterogeneous graph in memory only.")
    edited = copy.copy(data)  # with stores of its own, which share the tensors
    for fact in facts:
        edge_type, src, dst = _read(explainer.graph, fact)
        for kind, ends in ((edge_type, (src, dst)), (_reverse(explainer, edge_type), (dst, src))):
            if kind is not None:
                _append(edited, kind, ends)
    given = {**explainer._given, "settings": explainer.settings, "seed": explainer.seed}
    return Added(PaGELink(explainer.predictor.model, edited, **given))


def _read(graph: TypedGraph, fact: str) -> tuple[EdgeType, int, int]:
    name, src, dst = fact.rsplit(":", 2)
    stored = graph.edge_types[: graph.num_relations]
    called = {each: each[1] for each in stored}
    found = [each for each in stored if name in (called[each], "__".join(each))]
    if len(found) != 1:
        hint = did_you_mean(name, [*called.values(), *map("__".join, stored)])
        raise LinkError(f"There is no single relation {name!r} to add a fact to.{hint}")
    (edge_type,) = found
    graph.find_node(edge_type[0], int(src))
    graph.find_node(edge_type[2], int(dst))
    return edge_type, int(src), int(dst)


def _reverse(explainer: PaGELink, edge_type: EdgeType) -> EdgeType | None:
    other = explainer.reverse.get(edge_type)
    return other if other != edge_type else None


def _append(data: HeteroData, edge_type: EdgeType, ends: tuple[int, int]) -> None:
    """Add an edge behind those of a relation that has no values per edge.

    Raises:
        LinkError: its edges have values, which a new one would lack.
    """
    store = data[edge_type]
    count = store.edge_index.shape[1]
    for key, value in store.items():
        if key != "edge_index" and isinstance(value, torch.Tensor) and value.shape[:1] == (count,):
            raise LinkError(
                f"A fact of {edge_type[1]!r} cannot be added: its edges have values ({key!r}), "
                "which a new one would lack."
            )
    new = torch.tensor(ends, dtype=store.edge_index.dtype, device=store.edge_index.device)
    store.edge_index = torch.cat([store.edge_index, new[:, None]], dim=1)
    if "attributes" in store:
        unknown = {each.name: pa.nulls(1, each.type) for each in store.attributes.schema}
        store.attributes = pa.concat_tables([store.attributes, pa.table(unknown)])
