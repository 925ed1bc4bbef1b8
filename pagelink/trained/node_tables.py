"""Learned embeddings inside of a graph network: the rows of nodes, and passes with other rows.

A row of a table is replaced for the time of a pass; the parameter itself is never written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from pagelink.graph.links import Link
from pagelink.model.borrowing import Borrowed
from pagelink.model.inputs import ModelInput
from pagelink.model.predictor import LinkPredictor
from pagelink.runtime.undo import Undo


class Run(Protocol):
    """From the values of tables, in order, and a graph with links, to logits with gradients."""

    def __call__(self, values: Sequence[Tensor], inputs: ModelInput) -> Tensor:
        """Return the logits of the links."""


@dataclass(frozen=True, eq=False)
class NodeTable:
    """A learned parameter with a row per node of a type, and which nodes' rows are meant."""

    places: tuple[tuple[nn.Module, str], ...]
    """Modules that have it, and its name there."""
    values: Tensor
    """As it was trained; a view of the parameter, which is only read."""
    rows: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    """The flat node of each row."""

    def with_rows(self, rows: Tensor) -> Tensor:
        """Return the table with other values in these rows; gradients go to them alone."""
        place = torch.tensor(self.rows, device=self.values.device)
        return self.values.index_copy(0, place, rows)


def passes(predictor: LinkPredictor, tables: Sequence[NodeTable]) -> AbstractContextManager[Run]:
    """Give a function that runs the model with other values of some tables.

    The model is borrowed for as long as the context is open, and has its own tables afterwards.
    """

    def prepare(undo: Undo) -> Run:
        torch.set_grad_enabled(True)
        for table in tables:
            for module, name in table.places:
                undo.keep(module._parameters)
                del module._parameters[name]
                if isinstance(module, nn.Embedding):
                    module.sparse = False  # gradients go through the table, not to it
        return run

    def run(values: Sequence[Tensor], inputs: ModelInput) -> Tensor:
        for table, value in zip(tables, values, strict=True):
            for module, name in table.places:
                vars(module)[name] = value
        return predictor.run(inputs)

    return Borrowed(predictor.model, prepare)


def learned_tables(predictor: LinkPredictor, link: Link) -> list[NodeTable]:
    """Return the tables of learned embeddings that have a row of source or target.

    These are parameters that take gradients, as an optimizer sees them, with as many rows as there
    are nodes of the type of an end. On the graph without edges the score has to rest on the row of
    the end and on no row of another node; where it rests on no row at all (the model looks at
    neighbours only), it has to rest on that row on the graph as it is.
    """
    graph = predictor.graph
    sizes = np.diff(graph.node_offset)
    kinds = [int(graph.node_type_of[end]) for end in (link.src, link.dst)]
    wanted = {int(sizes[kind]) for kind in kinds}
    found: dict[int, NodeTable] = {}
    for module in predictor.model.modules():
        for name, value in module._parameters.items():
            if value is None or not value.requires_grad or value.dim() < 2:
                continue
            if len(value) in wanted and not isinstance(module, torch.jit.ScriptModule):
                known = found.get(id(value), NodeTable((), value.detach()))
                found[id(value)] = NodeTable((*known.places, (module, name)), known.values)
    tables = list(found.values())
    rows: list[dict[int, int]] = [{} for _ in tables]
    for end, other, kind in ((link.src, link.dst, kinds[0]), (link.dst, link.src, kinds[1])):
        row = int(end - graph.node_offset[kind])
        fits = [i for i, table in enumerate(tables) if len(table.values) == sizes[kind]]
        moved = _elsewhere(predictor, other, row)
        ends = (end, moved) if end == link.src else (moved, end)
        gradients = _by_tables(predictor, [tables[i] for i in fits], ends, link)
        for i, (bare, whole) in zip(fits, gradients, strict=True):
            touched = {row, int(moved - graph.node_offset[graph.node_type_of[moved]])}
            is_own = set(bare) <= touched if bare else True
            if is_own and row in (bare or whole):
                rows[i][row] = end
    return [
        NodeTable(table.places, table.values, tuple(mine), tuple(mine.values()))
        for table, mine in zip(tables, rows, strict=True)
        if mine
    ]


def _elsewhere(predictor: LinkPredictor, node: int, row: int) -> int:
    """The node, or another of its type if it has that row among its own."""
    graph = predictor.graph
    kind = int(graph.node_type_of[node])
    first, last = (int(each) for each in graph.node_offset[kind : kind + 2])
    return node if node - first != row or last - first < 2 else first + (row + 1) % (last - first)


def _by_tables(
    predictor: LinkPredictor, tables: Sequence[NodeTable], ends: tuple[int, int], link: Link
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Per table, the rows that a score rests on: on the graph without edges, and as it is."""
    graph = predictor.graph
    src, dst = (np.array([end]) for end in ends)
    relation = np.array([graph.edge_types.index(link.type)])
    found: list[list[frozenset[int]]] = [[] for _ in tables]
    for without in (np.ones(graph.num_edges, dtype=np.bool_), None):
        inputs = predictor.full_graph(src, dst, relation, without)
        with passes(predictor, tables) as run:
            values = [table.values.clone().requires_grad_() for table in tables]
            logit = run(values, inputs).sum()
            gradients: tuple[Tensor | None, ...] = (None,) * len(values)
            if logit.requires_grad:
                gradients = torch.autograd.grad(logit, values, allow_unused=True)
        for mine, gradient in zip(found, gradients, strict=True):
            moved = None if gradient is None else gradient.reshape(len(gradient), -1).any(1)
            rows = [] if moved is None else torch.nonzero(moved)[:, 0].tolist()
            mine.append(frozenset(rows))
    return [(bare, whole) for bare, whole in found]
