"""The graph with facts added: a copy of the data with further edges, for the same model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import LinkError, did_you_mean
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation, Node, Path, PathEdge
from pagelink.graph.lookup import edge_walked, fact_of, first_edges_of_facts
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.views.statements import statement
from pagelink.views.text import count

Numbered = tuple[int | None, str | None]
"""A fact as the page names it: its number in the graph as it was, or how it was added."""


@dataclass(frozen=True)
class Added:
    """An explainer of the same model on the graph with further facts."""

    explainer: PaGELink
    before: TypedGraph
    """The graph as it was."""
    keys: dict[tuple[EdgeType, int], str]
    """The added facts as they were given, by their columns."""
    sentences: dict[str, str]
    """The same facts in words."""

    def fact_of(self, fact: int) -> int:
        """Return the number that a fact of the graph as it was has in this one."""
        edge = int(first_edges_of_facts(self.before)[fact])
        edge_type = self.before.edge_types[self.before.relation[edge]]
        dst = self.before.node(int(self.before.dst[edge]))
        return fact_of(self.explainer.graph, edge_type, int(self.before.column[edge]), dst)

    def named(self, edge_type: EdgeType, column: int, dst: Node) -> Numbered:
        """Return how the page names the fact of an edge of this graph."""
        key = self.keys.get((edge_type, column))
        return (None, key) if key else (fact_of(self.before, edge_type, column, dst), None)

    def marked(self, explanation: Explanation) -> Explanation:
        """Return an explanation of this graph whose added facts say that they were added."""
        strongest = explanation.strongest
        if strongest is not None:
            facts = (replace(each, edge=self._edge(each.edge)) for each in strongest.facts)
            strongest = replace(strongest, facts=tuple(facts))
        alternatives = (
            replace(each, paths=tuple(map(self._path, each.paths)))
            for each in explanation.alternatives
        )
        told = "; ".join(self.sentences.values())
        note = f"Explained on the graph with {count(len(self.sentences), 'added fact')}: {told}."
        return replace(
            explanation, paths=tuple(map(self._path, explanation.paths)), strongest=strongest,
            alternatives=tuple(alternatives), notes=(*explanation.notes, note),
        )  # fmt: skip

    def _path(self, path: Path) -> Path:
        return replace(path, edges=tuple(map(self._edge, path.edges)))

    def _edge(self, edge: PathEdge) -> PathEdge:
        return replace(edge, added=(edge.type, edge.index) in self.keys)


def added_to(explainer: PaGELink, facts: Sequence[str]) -> Added:
    """Return an explainer of the graph with some facts added, each with its reverse.

    Args:
        explainer: an explainer of a graph in memory.
        facts: as `buys:3:35`: relation, and the indices of source and target.

    Raises:
        LinkError: there is no such relation or node, the graph has the fact already, or nothing can
            be added to it.
    """
    data, graph = explainer.predictor.data, explainer.graph
    if explainer.store is not None or not isinstance(data, HeteroData):
        raise LinkError("Facts can be added to a heterogeneous graph in memory only.")
    edited = copy.copy(data)  # with stores of its own, which share the tensors
    keys: dict[tuple[EdgeType, int], str] = {}
    sentences: dict[str, str] = {}
    for fact in facts:
        edge_type, src, dst = _read(graph, fact)
        ends = graph.flat_index(edge_type[0], src), graph.flat_index(edge_type[2], dst)
        sentences[fact] = statement(graph, edge_type, *ends)
        if edge_walked(graph, *ends, edge_type) >= 0:
            raise LinkError(f"The graph has this fact already: {sentences[fact]}.")
        for kind, pair in ((edge_type, (src, dst)), (_reverse(explainer, edge_type), (dst, src))):
            if kind is not None:
                keys[kind, _append(edited, kind, pair)] = fact
    given = {**explainer._given, "settings": explainer.settings, "seed": explainer.seed}
    after = PaGELink(explainer.predictor.model, edited, **given)
    after.predictor.before_pass = explainer.predictor.before_pass
    return Added(after, graph, keys, sentences)


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


def _append(data: HeteroData, edge_type: EdgeType, ends: tuple[int, int]) -> int:
    """Add an edge behind those of a relation that has no values per edge; return its column.

    Raises:
        LinkError: its edges have values, which a new one would lack.
    """
    store = data[edge_type]
    columns = int(store.edge_index.shape[1])
    for key, value in store.items():
        if (
            key != "edge_index"
            and isinstance(value, torch.Tensor)
            and value.shape[:1] == (columns,)
        ):
            raise LinkError(
                f"A fact of {edge_type[1]!r} cannot be added: its edges have values ({key!r}), "
                "which a new one would lack."
            )
    new = torch.tensor(ends, dtype=store.edge_index.dtype, device=store.edge_index.device)
    store.edge_index = torch.cat([store.edge_index, new[:, None]], dim=1)
    if "attributes" in store:
        unknown = {each.name: pa.nulls(1, each.type) for each in store.attributes.schema}
        store.attributes = pa.concat_tables([store.attributes, pa.table(unknown)])
    return columns
