"""Weighted sums over in-neighbours, without writing the messages out.

Most layers send the vector of an edge's source as it is, or times one number per edge, and sum or
average what comes in. Weighted by a mask, such a layer needs one pass over its edges each way and
no array of one vector per edge, which is where a model spends most of its time on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeGuard, cast

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GraphConv, LGConv, MessagePassing, aggr

from pagelink.layers.node_rows import NodeRows
from pagelink.runtime.arrays import Ints, Longs
from pagelink.runtime.kernels import kernel, over_ranges
from pagelink.runtime.undo import Undo

Groups = tuple[Longs, Ints, Ints]
"""Range of each group of edges, the edges in order, and their other ends."""
EDGES_FOR_THREADS = 10_000

# Layers whose message is the source's vector times the number `edge_weight`.
_SCALED = (GCNConv.message, GraphConv.message, LGConv.message)
_HOOKS = (
    "_propagate_forward_pre_hooks", "_propagate_forward_hooks", "_message_forward_pre_hooks",
    "_message_forward_hooks", "_aggregate_forward_pre_hooks", "_aggregate_forward_hooks",
)  # fmt: skip


@dataclass(frozen=True)
class PlainCall:
    """A propagation whose messages need not be written out."""

    argument: str
    """Name of the argument of `propagate` that holds the vectors."""
    scaled: bool
    """Messages are multiplied by the argument `edge_weight`."""
    mean: bool
    num_dst: int

    def sources(self, arguments: Mapping[str, Any]) -> Tensor | None:
        """Return the vectors that are summed; None: no kernel takes them."""
        given = arguments.get(self.argument)
        x = given[0] if isinstance(given, tuple | list) else given
        scale = arguments.get("edge_weight") if self.scaled else None
        return x if fits(x, scale) else None

    def receivers(self, arguments: Mapping[str, Any]) -> Any:
        """Return something of the targets."""
        given = arguments.get(self.argument)
        return given[1] if isinstance(given, tuple | list) else given

    def collect(
        self,
        module: MessagePassing,
        edge_index: Tensor,
        arguments: Mapping[str, Any],
        weights: Tensor | None,
        edges: Neighbours,
    ) -> Tensor:
        """Return what the targets collect."""
        x = self.sources(arguments)
        assert x is not None
        if weights is None:
            weights = x.new_ones(edge_index.shape[1])
        if self.scaled and arguments.get("edge_weight") is not None:
            weights = weights * arguments["edge_weight"].view(-1)
        return weighted_sum(x, weights, edges, self.mean)


def is_plain_layer(module: MessagePassing) -> bool:
    """Whether a layer sums or averages its messages and does nothing else around that."""
    kind = type(module)
    return (
        type(module.aggr_module) in (aggr.SumAggregation, aggr.MeanAggregation)
        and kind.aggregate is MessagePassing.aggregate
        and kind.update is MessagePassing.update
        and is_untouched(module)
        and _propagates_as_usual(kind)
    )


def is_untouched(module: MessagePassing) -> bool:
    """Whether a layer of matrices works as its class says, with no hook between its steps."""
    return (
        module.node_dim in (-2, 0)  # the same for matrices
        and module.decomposed_layers == 1
        and not {"propagate", "message", "aggregate", "update"} & set(vars(module))
        and not any(getattr(module, hooks) for hooks in _HOOKS)
        and not has_hooks(module.aggr_module)
    )


def has_hooks(module: nn.Module) -> bool:
    """Whether a user's function is called before or behind a module."""
    own = bool(module._forward_hooks or module._forward_pre_hooks)
    return own or any(getattr(module, hooks, None) for hooks in _HOOKS)


def _propagates_as_usual(kind: type) -> bool:
    """Whether `propagate` is PyG's: its own, or one that it wrote for this very layer."""
    for base in kind.__mro__[: kind.__mro__.index(MessagePassing)]:
        method = vars(base).get("propagate")
        written = f"{base.__module__}_{base.__name__}_propagate"
        if method is not None and not method.__module__.startswith(written):
            return method is MessagePassing.propagate
    return True


def plain_call(
    module: MessagePassing, arguments: dict[str, Any], message: Tensor, num_dst: int
) -> PlainCall | None:
    """Say how a call of a plain layer is done without messages, or None if it cannot be."""
    mean = isinstance(module.aggr_module, aggr.MeanAggregation)
    for name, value in arguments.items():
        if name.endswith("_j") and message is value and message.dim() == 2:
            return PlainCall(name[:-2], False, mean, num_dst)
    if type(module).message in _SCALED and "x_j" in arguments and arguments["x_j"].dim() == 2:
        return PlainCall("x", True, mean, num_dst)
    return None


class Neighbours:
    """The edges of a propagation, in order of their targets and in order of their sources.

    Args:
        by_dst: the edges in order of their targets.
        num_src: the number of nodes that they may come from.
    """

    def __init__(self, by_dst: Groups, num_src: int) -> None:
        self.by_dst, self.num_src = by_dst, num_src
        count = np.maximum(np.diff(by_dst[0]), 1)
        self.share = (1 / count).astype(np.float32)
        """Per target, one over the number of its edges."""
        self._within: dict[int, Neighbours] = {}

    @classmethod
    def of(
        cls, module: MessagePassing, edge_index: Tensor, num_src: int, num_dst: int
    ) -> Neighbours:
        """The edges that a layer is given."""
        ends = edge_index.detach().numpy()
        source, target = ends_of(module)
        return cls.between(ends[source], ends[target], num_src, num_dst)

    @classmethod
    def between(cls, src: Longs, dst: Longs, num_src: int, num_dst: int) -> Neighbours:
        """The edges from some nodes to others."""
        return cls(grouped_edges(dst, src, num_dst, num_src), num_src)

    @cached_property
    def by_src(self) -> Groups:
        """The edges in order of their sources; only gradients need it."""
        ptr, edges, ends = self.by_dst
        targets = np.repeat(np.arange(len(self.share)), np.diff(ptr))
        by_src, order, others = grouped_edges(
            ends.astype(np.int64), targets, self.num_src, len(ptr)
        )
        return by_src, edges[order], others

    def within(self, num_dst: int) -> Neighbours:
        """The edges of the first targets."""
        if num_dst not in self._within:
            ptr, edges, ends = self.by_dst
            last = ptr[num_dst]
            by_dst = ptr[: num_dst + 1], edges[:last], ends[:last]
            num_src = int(ends[:last].max()) + 1 if last else 0
            self._within[num_dst] = Neighbours(by_dst, num_src)
        return self._within[num_dst]


class WeightedSum(torch.autograd.Function):
    """Per target v, the sum over the edges (u, v) of weight times x_u; over their number if `mean`.

    Gradients by the weights and by x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, edges: Neighbours, mean: bool) -> Tensor:
        """Return one vector per target."""
        vectors, values = x.detach().contiguous().numpy(), weights.detach().contiguous().numpy()
        out = np.empty((len(edges.share), vectors.shape[1]), dtype=np.float32)
        over_groups(sum_groups, edges.by_dst, vectors, values, out)
        if mean:
            out *= edges.share[:, None]
        ctx.edges, ctx.mean = edges, mean
        ctx.save_for_backward(x, weights)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        """Return the gradients by x and by the weights, where they are needed."""
        edges: Neighbours = ctx.edges
        x, weights = (value.detach().contiguous().numpy() for value in ctx.saved_tensors)
        gradient = gradients[0].contiguous().numpy()
        if ctx.mean:
            gradient = gradient * edges.share[:, None]
        by_x = by_weights = None
        if ctx.needs_input_grad[0]:
            by_x = np.empty(x.shape, dtype=np.float32)
            over_groups(sum_groups, edges.by_src, gradient, weights, by_x)
        if ctx.needs_input_grad[1]:
            by_weights = np.zeros(len(weights), dtype=np.float32)
            over_groups(dot_groups, edges.by_dst, x, gradient, by_weights)
        made = (None if g is None else torch.from_numpy(g) for g in (by_x, by_weights))
        return (*made, None, None)  # type: ignore[return-value]


def fits(x: object, scale: object = None) -> TypeGuard[Tensor]:
    """Whether vectors, and numbers to scale them, are what the kernels are compiled for."""
    return (
        isinstance(x, Tensor)
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.dim() == 2
        and (scale is None or (isinstance(scale, Tensor) and scale.dtype == torch.float32))
    )


def weighted_sum(x: Tensor, weights: Tensor, edges: Neighbours, mean: bool) -> Tensor:
    """Sum or average the vectors of each target's in-neighbours, times the weights of the edges."""
    if not isinstance(x, NodeRows):
        return cast(Tensor, WeightedSum.apply(x, weights, edges, mean))  # type: ignore[no-untyped-call]

    def make(count: int) -> Tensor:
        some = edges.within(count)
        return weighted_sum(source.rows(some.num_src), weights, some, mean)

    source = x.cell
    return NodeRows.collected(make, len(edges.share), x)


Propagate = Callable[..., Tensor]


class Call(Protocol):
    """How a propagation is done without writing its messages out."""

    @property
    def num_dst(self) -> int:
        """The number of targets."""

    def sources(self, arguments: Mapping[str, Any]) -> Tensor | None:
        """Return the vectors that are summed; None: no kernel takes them."""

    def receivers(self, arguments: Mapping[str, Any]) -> Any:
        """Return something of the targets."""

    def collect(
        self,
        module: MessagePassing,
        edge_index: Tensor,
        arguments: Mapping[str, Any],
        weights: Tensor | None,
        edges: Neighbours,
    ) -> Tensor:
        """Return what the targets collect."""


def replace_propagate(layers: Mapping[MessagePassing, Propagate], undo: Undo) -> None:
    """Let each layer propagate by another function until the context is left."""
    for module, propagate in layers.items():
        undo.later(vars(module).pop, "propagate", None)
        vars(module)["propagate"] = propagate


def sum_without_messages(layers: Mapping[MessagePassing, Call], undo: Undo) -> None:
    """Let layers sum their neighbours without writing messages out, without weights."""
    known: Known = {}
    plain = {m: _summing(m, call, known) for m, call in layers.items() if is_plain_layer(m)}
    replace_propagate(plain, undo)


Known = dict[tuple[int, ...], tuple[Tensor, Neighbours]]
"""Edges that were put in order, by the tensor they come from, how often it was changed, the row of
their sources, and the numbers of their nodes. The tensor is kept, so that no other has its id."""


def _summing(module: MessagePassing, call: Call, known: Known) -> Propagate:
    written_out: Propagate = module.propagate
    source = ends_of(module)[0]

    def propagate(edge_index: Any, size: Any = None, **arguments: Any) -> Tensor:
        receivers = call.receivers(arguments)
        num_dst = None if size is None else size[ends_of(module)[1]]
        if num_dst is None and isinstance(receivers, Tensor):
            num_dst = receivers.shape[0]
        x = call.sources(arguments)
        if num_dst is None or type(edge_index) is not Tensor or x is None:
            return written_out(edge_index, size=size, **arguments)
        # The layers of a model mostly get the same edges, unless it changes them on the way.
        counted = not edge_index.is_inference()
        key = id(edge_index), edge_index._version if counted else -1, source, x.shape[0], num_dst
        if not counted or key not in known:
            known[key] = edge_index, Neighbours.of(module, edge_index, x.shape[0], num_dst)
        return call.collect(module, edge_index, arguments, None, known[key][1])

    return propagate


def ends_of(module: MessagePassing) -> tuple[int, int]:
    """Return the rows of edge_index in which a layer has the sources and the targets."""
    return (0, 1) if module.flow == "source_to_target" else (1, 0)


def over_groups(work: Any, groups: Groups, *arrays: npt.NDArray[Any]) -> None:
    """Run a kernel over all groups, by several threads where that is worth it."""
    ptr = groups[0]
    if torch.get_num_threads() == 1 or ptr[-1] < EDGES_FOR_THREADS:
        work(0, len(ptr) - 1, *groups, *arrays)
    else:
        over_ranges(lambda first, last: work(first, last, *groups, *arrays), 1 + np.diff(ptr))


@kernel
def grouped_edges(key, other, size, other_size):  # type: ignore[no-untyped-def]
    """Group edges by one end: range of each group, the edges in order, and their other ends."""
    ptr = np.zeros(size + 1, dtype=np.int64)
    for e in range(len(key)):
        if key[e] < 0 or key[e] >= size or other[e] < 0 or other[e] >= other_size:
            raise IndexError("edge_index names a node that is not there")
        ptr[key[e] + 1] += 1
    for v in range(size):
        ptr[v + 1] += ptr[v]
    place = ptr[:-1].copy()
    edges = np.empty(len(key), dtype=np.int32)
    ends = np.empty(len(key), dtype=np.int32)
    for e in range(len(key)):
        i = place[key[e]]
        edges[i] = e
        ends[i] = other[e]
        place[key[e]] += 1
    return ptr, edges, ends


@kernel
def sum_groups(first, last, ptr, edges, ends, vectors, weights, out):  # type: ignore[no-untyped-def]
    """out[v]: sum over the edges of group v of weight times the vector of the other end."""
    dim = vectors.shape[1]
    for v in range(first, last):
        for k in range(dim):
            out[v, k] = 0
        for i in range(ptr[v], ptr[v + 1]):
            weight = weights[edges[i]]
            u = ends[i]
            for k in range(dim):
                out[v, k] += weight * vectors[u, k]


# Sums of a product may be taken in any order: then they are done several at a time.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot_groups(first, last, ptr, edges, ends, vectors, others, out):  # type: ignore[no-untyped-def]
    """out[e] of an edge of group v: the product of the other end's vector and others[v]."""
    dim = vectors.shape[1]
    for v in range(first, last):
        for i in range(ptr[v], ptr[v + 1]):
            u = ends[i]
            total = np.float32(0)
            for k in range(dim):
                total += vectors[u, k] * others[v, k]
            out[edges[i]] = total
