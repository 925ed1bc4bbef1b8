"""Sums over in-neighbours that are kept, for graphs in which a few of them are different.

Edited graphs of a link differ from its graph in a few edges. `KeptSums` is put into a pass of the
model on that graph and keeps what each layer is given and sums; `ChangedSums` is put into a pass on
the nodes that edits make anew, and nothing else: what they collect is what was kept, plus and minus
what is different. So a node with very many in-edges is summed once for all edited graphs.

Both do this for layers that sum or average the vectors of their neighbours as they are (`fused`),
and for those that are done as a whole (`whole`). Anything else that is done with edges raises a
`RowsError`, and such a model runs on all edges of each edited graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.layers.fused import (
    Call,
    PlainCall,
    Propagate,
    fits,
    is_plain_layer,
    over_groups,
    replace_propagate,
    sum_groups,
)
from pagelink.layers.node_rows import FACTS, NodeRows, RowsError
from pagelink.layers.whole import Pass, modules_outside
from pagelink.runtime.arrays import Bools, Floats, Ints, Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.undo import Undo


class Relation(Tensor):
    """The edges of a relation, for layers that know what to do with them; nothing else may look."""

    number: int

    @staticmethod
    def of(edge_index: Tensor, number: int) -> Relation:
        """The same edges, of the relation of this number."""
        made = edge_index.as_subclass(Relation)
        made.number = number
        return made

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Say what shape it has, and refuse everything else."""
        if func in FACTS or func is Tensor.as_subclass:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        raise RowsError(f"{func} looks at edges, of which only some are there.")


def _ends(relation: Tensor) -> npt.NDArray[np.int64]:
    with torch._C.DisableTorchFunctionSubclass():
        found: npt.NDArray[np.int64] = relation.detach().as_subclass(Tensor).numpy()
    return found


class Sums(Pass, ABC):
    """Sums of layers in a pass, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def listen(
        self,
        layers: Mapping[MessagePassing, Call],
        whole: Collection[nn.Module],
        model: nn.Module,
        undo: Undo,
    ) -> None:
        """Let the layers of a model sum by this until the context is left.

        Args:
            layers: those that are known to be plain.
            whole: those that are done as a whole.
            model: the model.
            undo: of the context.
        """
        outside = {m for _, m in modules_outside(model, whole) if m not in whole}
        found = [m for m in outside if isinstance(m, MessagePassing)]
        replace_propagate({m: self._propagate(m, layers.get(m)) for m in found}, undo)

    def _propagate(self, module: MessagePassing, call: Call | None) -> Propagate:
        known = is_plain_layer(module) and module.flow == "source_to_target"

        def propagate(edge_index: Any, size: Any = None, **arguments: Any) -> Tensor:
            if not known or not isinstance(call, PlainCall):
                raise RowsError(f"{type(module).__name__} does more than to sum its neighbours.")
            x, receivers = call.sources(arguments), call.receivers(arguments)
            num_dst = None if size is None else size[1]
            if num_dst is None and isinstance(receivers, Tensor):
                num_dst = receivers.shape[0]
            scaled = call.scaled and arguments.get("edge_weight") is not None
            if x is None or num_dst is None or scaled:
                raise RowsError("vectors that no kernel takes")
            return self._collect(x, [edge_index], num_dst, None, (), call.mean)

        return propagate

    def sum_by_relation(
        self,
        x: Tensor,
        indices: Sequence[Tensor],
        maps: Tensor,
        num_dst: int,
        *,
        mean: bool,
        relation: Tensor | Sequence[int],
        ends: tuple[int, int] = (0, 1),
        mean_of_all: bool = False,
    ) -> Tensor:
        """Sum over in-neighbours, with a map per relation; see `Pass`."""
        if isinstance(relation, Tensor) or ends != (0, 1) or mean_of_all or not fits(x):
            raise RowsError("edges of several relations in one tensor")
        return self._collect(x, indices, num_dst, maps, relation, mean)

    def _collect(
        self, x: Tensor, indices: Sequence[Any], num_dst: int, maps: Tensor | None,
        of_maps: Sequence[int], mean: bool,
    ) -> Tensor:  # fmt: skip
        if not all(isinstance(index, Relation) for index in indices):
            raise RowsError("edges that the model made by itself")
        numbers = tuple(index.number for index in indices)
        number, self._next = self._next, self._next + 1
        sums = self._summed(number, x, numbers, num_dst)

        def make(count: int) -> Tensor:
            pairs = sums.pairs
            last = int(pairs.first[count])
            rows = sums.rows(last)
            if mean:
                rows *= pairs.share[:last, None]
            if maps is None:
                out = np.zeros((count, rows.shape[1]), dtype=np.float32)
                out[pairs.target[:last]] = rows
                return torch.from_numpy(out)
            if maps.shape[1] > rows.shape[1]:
                there = pairs.count[:last] if not mean else pairs.count[:last] > 0
                rows = np.concatenate([rows, there[:, None].astype(np.float32)], axis=1)
            out = np.zeros((count, maps.shape[2]), dtype=np.float32)
            by_part = Csr.grouped(pairs.part[:last], len(numbers))
            matrices = maps.numpy()
            for part in np.flatnonzero(np.diff(by_part.ptr)).tolist():
                some = by_part.values[by_part.ptr[part] : by_part.ptr[part + 1]]
                out[pairs.target[some]] += rows[some] @ matrices[of_maps[part]]
            return torch.from_numpy(out)

        columns = x.shape[1] if maps is None else maps.shape[2]
        if isinstance(x, NodeRows):
            return NodeRows.collected(make, num_dst, x, columns)
        return make(num_dst)

    @abstractmethod
    def _summed(self, number: int, x: Tensor, numbers: tuple[int, ...], num_dst: int) -> Any:
        """The sums of a layer, by its number in the pass."""


class Pairs:
    """Targets, each with a relation by which it collects something, in order of targets.

    Args:
        target: per pair.
        part: per pair, the position of its relation among those of the layer.
        count: per pair, the number of its edges.
        num_dst: number of targets.
    """

    def __init__(self, target: Longs, part: Longs, count: Longs, num_dst: int) -> None:
        self.target, self.part, self.count = target, part, count
        self.first = np.searchsorted(target, np.arange(num_dst + 1))
        """Per target, its first pair, and the end."""
        self.share = (1 / np.maximum(count, 1)).astype(np.float32)


@dataclass(frozen=True)
class _Edges:
    """Edges of groups, with the numbers of their other ends, and what each is multiplied by."""

    ptr: Longs
    src: Ints
    weight: Floats

    @classmethod
    def of(cls, group: Longs, src: Longs, weight: Floats, num_groups: int) -> _Edges:
        grouped = Csr.grouped(group, num_groups)
        return cls(
            grouped.ptr, src[grouped.values].astype(np.int32),
            np.ascontiguousarray(weight[grouped.values], dtype=np.float32),
        )  # fmt: skip

    def sums(self, x: Tensor, first: int, last: int) -> Floats:
        """Per group from `first` on, the weighted sum of its vectors."""
        start, stop = self.ptr[first], self.ptr[last]
        src, out = self.src[start:stop], np.zeros((last - first, x.shape[1]), dtype=np.float32)
        if stop > start:
            needed = int(src.max()) + 1
            rows = x.cell.rows(needed) if isinstance(x, NodeRows) else x
            vectors = rows.detach().contiguous().numpy()
            groups = self.ptr[first : last + 1] - start, np.arange(len(src), dtype=np.int32), src
            over_groups(sum_groups, groups, vectors, self.weight[start:stop], out)
        return out

    def take(self, groups: Longs) -> _Edges:
        """The edges of some groups."""
        places = Csr(self.ptr, np.arange(len(self.src))).take(groups)
        return _Edges(places.ptr, self.src[places.values], self.weight[places.values])


class _KeptLayout:
    """The pairs of a layer on the graph that is edited, and their edges."""

    def __init__(self, relations: Sequence[Tensor], num_dst: int) -> None:
        ends = [_ends(each) for each in relations]
        src, dst = np.concatenate(ends, axis=1)
        part = np.repeat(np.arange(len(ends)), [each.shape[1] for each in ends])
        keys, group = np.unique(dst * len(ends) + part, return_inverse=True)
        count = np.bincount(group, minlength=len(keys))
        self.pairs = Pairs(keys // len(ends), keys % len(ends), count, num_dst)
        weight = np.ones(len(src), dtype=np.float32)
        self.edges = _Edges.of(group.reshape(-1), src, weight, len(keys))


class _KeptSum:
    """What a layer was given and summed, pair by pair, computed when it is needed."""

    def __init__(self, x: Tensor, numbers: tuple[int, ...], layout: _KeptLayout) -> None:
        self.x, self.numbers, self.layout, self.pairs = x, numbers, layout, layout.pairs
        count = len(self.pairs.target)
        self._known = np.zeros(count, dtype=np.bool_)
        self._values = np.empty((count, x.shape[1]), dtype=np.float32)

    def rows(self, last: int) -> Floats:
        """The sums of the first pairs."""
        return self.of(np.arange(last))

    def of(self, pairs: Longs) -> Floats:
        """The sums of some pairs."""
        missing = np.unique(pairs[~self._known[pairs]])
        if len(missing):
            self._values[missing] = self.layout.edges.take(missing).sums(self.x, 0, len(missing))
            self._known[missing] = True
        found: Floats = self._values[pairs]
        return found


class KeptSums(Sums):
    """Keeps the sums of a pass."""

    def __init__(self, relations: Sequence[Tensor]) -> None:
        super().__init__()
        self.relations = relations
        self.calls: list[_KeptSum] = []
        self._layouts: dict[tuple[tuple[int, ...], int], _KeptLayout] = {}

    def _summed(self, number: int, x: Tensor, numbers: tuple[int, ...], num_dst: int) -> _KeptSum:
        key = numbers, num_dst
        if key not in self._layouts:
            self._layouts[key] = _KeptLayout([self.relations[each] for each in numbers], num_dst)
        self.calls.append(_KeptSum(x, numbers, self._layouts[key]))
        return self.calls[-1]


@dataclass(frozen=True)
class Changes:
    """What new nodes collect by a relation that the nodes they are copies of do not."""

    src: Longs
    """Nodes of the graph that is edited."""
    dst: Longs
    """New nodes."""
    sign: Longs
    """1: it comes, -1: it goes."""
    afresh: Longs
    """New nodes that collect nothing but what comes."""


class ChangedSums(Sums):
    """Sums of nodes that edits make anew.

    Args:
        kept: the pass on the graph that is edited.
        relations: the edges between new nodes, by relation.
        changes: by relation.
        copy_of: per relation, the node of the graph that is edited of which a new target is a copy.
    """

    def __init__(
        self,
        kept: KeptSums,
        relations: Sequence[Tensor],
        changes: Sequence[Changes],
        copy_of: Sequence[Longs],
    ) -> None:
        super().__init__()
        self._kept, self._relations, self._changes = kept, relations, changes
        self._copy_of = copy_of
        self._layouts: dict[tuple[tuple[int, ...], int], _ChangedLayout] = {}

    def _summed(
        self, number: int, x: Tensor, numbers: tuple[int, ...], num_dst: int
    ) -> _ChangedSum:
        if number >= len(self._kept.calls) or self._kept.calls[number].numbers != numbers:
            raise RowsError("another order of layers than on the graph that is edited")
        kept = self._kept.calls[number]
        key = numbers, id(kept.layout)
        if key not in self._layouts:
            self._layouts[key] = _ChangedLayout(
                kept.layout, [self._relations[each] for each in numbers],
                [self._changes[each] for each in numbers], self._copy_of[numbers[0]], num_dst,
            )  # fmt: skip
        return _ChangedSum(x, kept, self._layouts[key])


class _ChangedLayout:
    """The pairs of a layer on new nodes."""

    def __init__(
        self, kept: _KeptLayout, relations: Sequence[Tensor], changes: Sequence[Changes],
        copy_of: Longs, num_dst: int,
    ) -> None:  # fmt: skip
        size = len(relations)
        # 1. The pairs that copies have from the nodes that they are copies of.
        first = kept.pairs.first
        own = Csr(first, np.arange(first[-1])).take(copy_of)
        target = np.repeat(np.arange(num_dst), np.diff(own.ptr))
        taken = target * size + kept.pairs.part[own.values]
        afresh = [each.afresh * size + part for part, each in enumerate(changes)]
        stays = ~np.isin(taken, np.concatenate(afresh))
        taken, base = taken[stays], own.values[stays]
        # 2. Those by which something else comes or goes.
        ends = [_ends(each) for each in relations]
        new = np.concatenate([each[1] * size + part for part, each in enumerate(ends)])
        other = np.concatenate([each.dst * size + part for part, each in enumerate(changes)])
        keys, place = np.unique(np.concatenate([taken, new, other]), return_inverse=True)
        here, of_new, of_other = np.split(place.reshape(-1), [len(taken), len(taken) + len(new)])
        self.base = np.full(len(keys), -1)
        """Per pair, that of the graph that is edited whose sum it starts from, or -1."""
        self.base[here] = base
        sign = np.concatenate([each.sign for each in changes])
        src = np.concatenate([each[0] for each in ends])
        self.new = _Edges.of(of_new, src, np.ones(len(src), dtype=np.float32), len(keys))
        src = np.concatenate([each.src for each in changes])
        self.other = _Edges.of(of_other, src, sign.astype(np.float32), len(keys))
        count = np.bincount(of_new, minlength=len(keys)).astype(np.int64)
        np.add.at(count, of_other, sign)
        count[here] += kept.pairs.count[base]
        self.pairs = Pairs(keys // size, keys % size, count, num_dst)

    @cached_property
    def is_empty(self) -> Bools:
        """Per pair, whether nothing is left: then nothing but rounding is, of a difference."""
        found: Bools = self.pairs.count == 0
        return found


@dataclass(frozen=True)
class _ChangedSum:
    """What a layer sums at new nodes."""

    x: Tensor
    kept: _KeptSum
    layout: _ChangedLayout

    @property
    def pairs(self) -> Pairs:
        """The pairs that are summed."""
        return self.layout.pairs

    def rows(self, last: int) -> Floats:
        """The sums of the first pairs."""
        layout = self.layout
        out = layout.other.sums(self.kept.x, 0, last)
        copies = np.flatnonzero(layout.base[:last] >= 0)
        out[copies] += self.kept.of(layout.base[copies])
        out += layout.new.sums(self.x, 0, last)
        out[layout.is_empty[:last]] = 0
        return out
