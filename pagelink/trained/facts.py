"""The facts that a model was trained on: as a graph to find paths in, and by node to train on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError
from pagelink.graph.reverse_relations import REVERSE_PREFIX
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Longs
from pagelink.trained.embeddings import EmbeddingModel

ENTITY, USER, ITEM = "entity", "user", "item"
RATED = "rated"
Names = Sequence[str]


def training_graph(
    model: EmbeddingModel,
    triples: Any,
    entity_names: Names | None = None,
    relation_names: Names | None = None,
) -> tuple[HeteroData, tuple[EdgeType, ...]]:
    """Return the facts that a model was trained on as a graph, and its relations by number.

    Every relation is there with its reverse: what a fact puts into embeddings, it puts into those
    of both ends.

    Args:
        model: the model.
        triples: head, relation and tail by number, [num_facts, 3]; user and item,
            [num_facts, 2], both from 0; or a triples factory of PyKEEN, which has the names, too.
        entity_names: of the nodes, by number; None: they are numbers. Of users, then of items.
        relation_names: of the relations, by number; None: they are numbers.

    Raises:
        GraphError: they are no such facts, or do not fit the model.
    """
    mapped = getattr(triples, "mapped_triples", None)
    if mapped is not None:
        entity_names = entity_names or _names(getattr(triples, "entity_id_to_label", None))
        relation_names = relation_names or _names(getattr(triples, "relation_id_to_label", None))
        triples = mapped
    facts = _as_facts(model, triples)
    names = _relation_names(len(model.relations), relation_names, model.num_users is not None)
    entities = _entity_names(len(model.nodes), entity_names)
    data = HeteroData()
    split = model.num_users
    if split is None:
        kinds, shift = (ENTITY, ENTITY), 0
        data[ENTITY].num_nodes, data[ENTITY].name = len(model.nodes), entities
    else:
        kinds, shift = (USER, ITEM), split
        data[USER].num_nodes, data[ITEM].num_nodes = split, len(model.nodes) - split
        if entity_names is not None:
            data[USER].name, data[ITEM].name = entities[:split], entities[split:]
    if len(facts) == 0:
        raise GraphError("There are no facts, so there is no path that could explain a link.")
    types = tuple((kinds[0], name, kinds[1]) for name in names)
    order = np.argsort(facts[:, 1], kind="stable")
    bounds = np.searchsorted(facts[order, 1], np.arange(len(types) + 1))
    for number, edge_type in enumerate(types):
        mine = facts[order[bounds[number] : bounds[number + 1]]]
        ends = torch.from_numpy(np.stack([mine[:, 0], mine[:, 2] - shift]))
        data[edge_type].edge_index = ends
        back = (kinds[1], REVERSE_PREFIX + edge_type[1], kinds[0])
        data[back].edge_index = ends.flip(0)
    return data, types


def _as_facts(model: EmbeddingModel, triples: Any) -> Longs:
    """Head, relation, tail of each fact once, tails counted as the model counts its nodes."""
    given = np.asarray(triples.detach().cpu() if isinstance(triples, torch.Tensor) else triples)
    wanted = 3 if model.num_users is None else 2
    if given.ndim != 2 or given.shape[1] != wanted or given.dtype.kind not in "iu":
        columns = "head, relation, tail" if wanted == 3 else "user, item"
        if given.dtype.kind in "OSU" and wanted == 3:
            raise GraphError(
                f"triples must be whole numbers, {columns}, as the model counts them, got names "
                f"({given.dtype}). Give the triples factory that it was trained with, which has "
                "both (of PyKEEN: result.training, or TriplesFactory.from_path_binary of the saved "
                "training_triples); or numbers, with entity_names and relation_names."
            )
        raise GraphError(
            f"triples must be whole numbers, {columns}, of shape [num_facts, {wanted}], got "
            f"{given.dtype} of shape {list(given.shape)}."
        )
    facts: Longs = given.astype(np.int64)
    if model.num_users is not None:
        zero = np.zeros(len(facts), dtype=np.int64)
        facts = np.stack([facts[:, 0], zero, facts[:, 1]], axis=1)
    split, count = model.num_users, len(model.nodes)
    sizes = (count, len(model.relations), count) if split is None else (split, 1, count - split)
    names = ("head", "relation", "tail") if split is None else (USER, "relation", ITEM)
    for column, size, name in zip(facts.T, sizes, names, strict=True):
        wrong = np.flatnonzero((column < 0) | (column >= size))
        if len(wrong):
            raise GraphError(
                f"Row {wrong[0]} of triples has the {name} {column[wrong[0]]}, but the model has "
                f"numbers from 0 to {size - 1}. Give the triples that it was trained on."
            )
    if split is not None:
        facts[:, 2] += split
    return np.unique(facts, axis=0)


def _names(by_number: Any) -> list[str] | None:
    return None if not by_number else [by_number[i] for i in range(len(by_number))]


def _entity_names(count: int, given: Names | None) -> list[str]:
    names = [str(number) for number in range(count)] if given is None else list(given)
    if len(names) != count:
        raise GraphError(f"entity_names must be {count} names, one per node, got {len(names)}.")
    return names


def _relation_names(count: int, given: Names | None, is_rating: bool) -> list[str]:
    if given is None:
        return [RATED] if is_rating else [f"relation {number}" for number in range(count)]
    names = list(given)
    if len(names) != count or len(set(names)) != count:
        raise GraphError(
            f"relation_names must be {count} different names, one per relation, got {len(names)}."
        )
    return names


class NodeFacts:
    """The facts of each node, by the edges that enter it: all facts have both directions.

    Args:
        graph: the flat graph of `training_graph`.
        types: its relations, by their number in the model.
    """

    def __init__(self, graph: TypedGraph, types: Sequence[EdgeType]) -> None:
        self.graph = graph
        number = {edge_type: i for i, edge_type in enumerate(types)}
        every = graph.edge_types
        self.is_forward: Bools = np.array([edge_type in number for edge_type in every])
        """Per relation of the graph, whether it is one of the model's, not a reverse."""
        self.model_relation: Longs = np.array(
            [number.get(t, number.get(graph.reverse.get(t, t), -1)) for t in every]
        )
        """Per relation of the graph, its number in the model."""

    def count(self, node: int) -> int:
        """The number of facts of a node."""
        return int(self.graph.in_ptr[node + 1] - self.graph.in_ptr[node])

    def positions(self, node: int) -> Longs:
        """Per fact of a node, the position of the relation of the edge that enters it."""
        edges = slice(*self.graph.in_ptr[node : node + 2])
        return self.graph.relation[edges].astype(np.int64)

    def of(self, node: int) -> tuple[Longs, Longs, Bools, Longs]:
        """Per fact of a node: the other end, the model's relation, whether it is the head."""
        edges = slice(*self.graph.in_ptr[node : node + 2])
        position = self.positions(node)
        return (
            self.graph.src[edges].astype(np.int64), self.model_relation[position],
            self.is_forward[position], self.graph.fact[edges].astype(np.int64),
        )  # fmt: skip
