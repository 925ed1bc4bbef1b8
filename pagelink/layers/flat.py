"""Models that are known as a whole: per layer one sum over all edges, whatever their types.

A model that adds, to a map of a node's own vector, a map per relation of the mean of its
in-neighbours says so by a method `as_flat`. It is then done without its own code: only the vectors
that the links need are computed in each layer, for all types of nodes and relations at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from pagelink.layers.fused import fits
from pagelink.layers.relations import Mapped, Range, RelationEdges, relation_sum
from pagelink.layers.whole import modules_outside
from pagelink.runtime.arrays import Ints, Longs

_STEPS = ("propagate_forward", "message_forward", "aggregate_forward", "edge_update_forward")
_HOOKS = [
    f"_{step}_{when}hooks" for step in ("forward", "backward", *_STEPS) for when in ("", "pre_")
]


@dataclass(frozen=True)
class FlatLayer:
    """A layer: own map of h_v, plus per relation a map of the mean of h_u over its in-edges."""

    maps: Tensor
    """[num_relations, d, e]; [num_relations, d + 1, e] if each has a vector to add."""
    own: Tensor
    """[num_types, d, e]"""
    bias: Tensor
    """[num_types, e]"""

    @classmethod
    def of(cls, maps: Tensor, shares: Sequence[float], own: Sequence[nn.Linear]) -> FlatLayer:
        """Make a layer of its modules.

        Args:
            maps: as above.
            shares: per relation, what is divided by.
            own: per node type.
        """
        divided = maps / torch.tensor(shares, dtype=maps.dtype, device=maps.device).view(-1, 1, 1)
        weight = torch.stack([each.weight.t() for each in own])
        return cls(divided.contiguous(), weight, torch.stack([each.bias for each in own]))


@dataclass(frozen=True)
class FlatModel:
    """What a model does, with its present weights."""

    node_types: tuple[str, ...]
    edge_types: tuple[tuple[str, str, str], ...]
    link_type: tuple[str, str, str]
    first: Callable[[str, Tensor], Tensor]
    """From a node type, and features or ids, to first vectors."""
    layers: tuple[FlatLayer, ...]
    between: Callable[[Tensor], Tensor]
    """What is done to vectors between the layers."""
    head: Callable[[Tensor, Tensor], Tensor]
    """From the vectors of sources and targets to one score per link."""
    whole: tuple[nn.Module, ...]
    """Modules that are not run."""

    def fits(self) -> bool:
        """Whether the weights are what the kernels are compiled for."""
        return all(fits(layer.maps[0]) and fits(layer.own[0]) for layer in self.layers)


def flat_model(model: nn.Module) -> FlatModel | None:
    """Return a model in this form; None: it has none, or something was changed in it."""
    if not hasattr(type(model), "as_flat"):
        return None
    if any(_is_changed(module) for _, module in modules_outside(model, ())):
        return None
    with torch.no_grad():
        found: FlatModel | None = cast(Any, model).as_flat()
    return found if found is not None and found.fits() else None


def _is_changed(module: nn.Module) -> bool:
    """Whether a module does something else than its class says."""
    own = vars(module)
    return "forward" in own or any(map(own.get, _HOOKS))


class KnownAsWhole(Protocol):
    """Links that are ready for passes without the code of the model, see `flat_passes`."""

    @property
    def whole(self) -> tuple[nn.Module, ...]:
        """Modules that are not run."""

    def logits(self) -> Tensor:
        """Return the logits of the links, without gradients."""

    def weighted(
        self, calls: Sequence[Tensor]
    ) -> AbstractContextManager[Callable[[Tensor], Tensor]]:
        """Give a function from weights to logits, with gradients."""

    def looking(self, nodes: Ints, looks: Longs) -> KnownAsWhole:
        """The same with other features: per flat node of a link, those of another one."""


class Level:
    """The vectors that a layer computes, in order of their types, and what they are made of.

    Args:
        kinds: per vector, the node type.
        own: per vector, that of the same node in the level below.
        src: per edge, a vector of the level below.
        dst: per edge, a vector.
        relation: per edge.
        num_below: the number of vectors of the level below.
        num_relations: the number of relations.
    """

    beside: Tensor | None = None
    """Vectors that come behind those of the level below, whatever these are."""
    rest: Tensor | None = None
    """What comes in by edges that are not here; the means are over these, too."""

    def __init__(
        self,
        kinds: Longs,
        own: Longs,
        src: Longs,
        dst: Longs,
        relation: Longs,
        num_below: int,
        num_relations: int,
    ) -> None:
        # In one order: kernels are compiled for each.
        src, dst, relation = (np.ascontiguousarray(each) for each in (src, dst, relation))
        self.kinds, self.own, self.src, self.dst, self.relation = kinds, own, src, dst, relation
        self.num_relations = num_relations
        self.edges = RelationEdges.of(src, dst, relation, num_below, len(kinds), num_relations)
        self._own, self._kinds = torch.from_numpy(own), torch.from_numpy(kinds)
        starts = [*np.flatnonzero(np.diff(kinds, prepend=-1)).tolist(), len(kinds)]
        self._ranges: list[Range] = [(int(kinds[a]), a, b) for a, b in pairwise(starts)]

    def own_parts(self, layer: FlatLayer, below: Tensor) -> tuple[Tensor, Tensor]:
        """Return what of the vectors does not come by edges, in two parts."""
        mine = below.index_select(0, self._own)
        own = cast(Tensor, Mapped.apply(mine, layer.own, self._ranges))  # type: ignore[no-untyped-call]
        return own, layer.bias.index_select(0, self._kinds)

    def vectors(
        self,
        layer: FlatLayer,
        below: Tensor,
        weights: Tensor | None,
        parts: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Return the vectors, given those below and the weights of the edges (None: 1).

        `parts` are the `own_parts`, if they are known.
        """
        if self.beside is not None:
            below = torch.cat([below, self.beside])
        incoming = relation_sum(below, weights, self.edges, layer.maps, True)
        own, bias = self.own_parts(layer, below) if parts is None else parts
        found = incoming + own + bias
        return found if self.rest is None else found + self.rest


@dataclass(frozen=True)
class FlatGraph:
    """A graph with links, ready for passes of a model."""

    model: FlatModel
    first: Tensor
    """First vectors of the nodes that count."""
    known: Longs
    """What they are known by, in ascending order."""
    levels: Sequence[Level]
    which: Sequence[Tensor]
    """Per level, its edges among those that were given."""
    ends: Tensor
    """[2, num_links]: vectors of the last level."""

    @classmethod
    def of(
        cls,
        model: FlatModel,
        edges: Longs,
        ends: Longs,
        nodes: Longs,
        kinds: Longs,
        first: Callable[[Longs], Tensor],
    ) -> FlatGraph:
        """Find out which vectors the links need.

        Args:
            model: the model.
            edges: [3, num_edges]: source, target, relation of the model (-1: it has none such).
            ends: [2, num_links]: sources and targets.
            nodes: per node, what its first vector is known by.
            kinds: per node, its type.
            first: from what first vectors are known by, in ascending order, to these.
        """
        src, dst, relation = edges
        read = relation >= 0
        needed = np.zeros(len(nodes), dtype=np.bool_)
        needed[ends] = True
        rows, which = [], []
        for _ in model.layers:
            rows.append(by_kind(np.flatnonzero(needed), kinds))
            which.append(np.flatnonzero(needed[dst] & read))
            needed[src[which[-1]]] = True
        bottom = np.flatnonzero(needed)
        known, place_of = np.unique(nodes[bottom], return_inverse=True)
        place = np.zeros(len(nodes), dtype=np.int64)
        place[bottom] = place_of
        num_below, levels = len(known), []
        for mine, of_level in zip(reversed(rows), reversed(which), strict=True):
            sources, own = place[src[of_level]], place[mine]
            place[mine] = np.arange(len(mine))
            levels.append(
                Level(
                    kinds[mine], own, sources, place[dst[of_level]],
                    relation[of_level], num_below, len(model.edge_types),
                )
            )  # fmt: skip
            num_below = len(mine)
        inside = [torch.from_numpy(each) for each in reversed(which)]
        return cls(model, first(known), known, levels, inside, torch.from_numpy(place[ends]))

    @cached_property
    def vectors(self) -> list[Tensor]:
        """Per level, the vectors below it, where all weights are 1."""
        found, model = [self.first], self.model
        for level, layer in zip(self.levels[:-1], model.layers, strict=False):
            parts = None if len(found) > 1 else self._parts
            found.append(model.between(level.vectors(layer, found[-1], None, parts)))
        return found

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor]:
        """What no weight changes in the lowest level."""
        return self.levels[0].own_parts(self.model.layers[0], self.first)

    def scores(self, weights: Tensor | None = None) -> Tensor:
        """Return the score of each link, given the weights of the edges (None: 1)."""
        h, model = self.first, self.model
        for depth, (level, layer) in enumerate(zip(self.levels, model.layers, strict=True)):
            mine = None if weights is None else weights.index_select(0, self.which[depth])
            below, parts = (model.between(h), None) if depth else (h, self._parts)
            h = level.vectors(layer, below, mine, parts)
        src, dst = self.ends
        return model.head(h.index_select(0, src), h.index_select(0, dst))


def by_kind(nodes: Longs, kinds: Longs) -> Longs:
    """Nodes in order of their types."""
    return nodes[np.argsort(kinds[nodes], kind="stable")]
