"""Vectors of nodes of which only those that are looked at are computed.

The score of a link rests on the vectors of s and t after the last layer, these on their neighbours'
vectors after the layer before, and so on. A model computes all vectors of all nodes in every layer.
It is handed `NodeRows` instead of tensors: tensors that have all their rows for whoever asks for
their shape, and compute the first n of them when these are needed. Nodes are in order of their
distance from s and t, so that what is needed is always a first part.

Operations that work row by row, such as a linear map, are put off until their result is needed; so
are layers that sum their neighbours (`fused`). Any other operation gets all rows, as an ordinary
tensor. So a model computes what it would have computed, but for rows that nothing looks at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pagelink.errors import PageLinkError

Make = Callable[[int], Tensor]
"""From a number of rows to that number of first rows."""
Rings = Sequence[int]
"""Numbers of nodes within 0, 1, ... hops of s and t, which come first; empty: not known."""

# Functions of each number by itself, of one tensor:
_UNARY = frozenset({
    "relu", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "prelu", "sigmoid", "tanh",
    "softplus", "neg", "abs", "exp", "log", "log1p", "sqrt", "rsqrt", "square", "clamp", "float",
    "double", "long", "clone", "contiguous", "__neg__", "hardtanh", "relu6",
})  # fmt: skip
# Of several, with broadcasting:
_BINARY = frozenset({
    "add", "sub", "mul", "div", "true_divide", "pow", "maximum", "minimum", "__add__", "__radd__",
    "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__pow__",
})  # fmt: skip
_IN_PLACE = {
    "add_": "add", "sub_": "sub", "mul_": "mul", "div_": "div", "relu_": "relu", "__iadd__": "add",
    "__isub__": "sub", "__imul__": "mul", "__itruediv__": "div",
}  # fmt: skip
_IS_IN_PLACE = re.compile(
    r"[a-z].*[^_]_|__setitem__|__i(add|sub|mul|(true|floor)?div|mod|pow|and|x?or|[lr]shift)__"
)
# What a tensor says of itself without its numbers:
FACTS = frozenset(
    vars(torch._C.TensorBase)[name].__get__
    for name in ("shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_sparse",
                 "is_cuda", "is_nested", "is_quantized", "is_meta", "_version", "is_leaf")
) | {
    Tensor.size, Tensor.dim, Tensor.__len__, Tensor.numel, Tensor.is_floating_point,
    Tensor.is_complex, Tensor.element_size, Tensor.ndimension, Tensor.is_inference,
    Tensor.is_contiguous, torch.is_floating_point, torch.is_complex, torch.numel,
}  # fmt: skip
_NEW = frozenset({"new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"})
_ON_STACK = frozenset({"sum", "mean", "amax", "amin"})


class RowsError(PageLinkError):
    """A model does something with vectors that needs them as ordinary tensors."""


class _Cell:
    """How rows are made, and the first ones that were made already."""

    def __init__(self, make: Make, num_rows: int, rings: Rings = (), axis: int = 0) -> None:
        self._make, self.num_rows, self.rings, self.axis = make, num_rows, rings, axis
        self._made: Tensor | None = None
        self._count = 0

    @cached_property
    def no_rows(self) -> Tensor:
        """What the rows are like."""
        return self._make(0)

    def rows(self, count: int) -> Tensor:
        """The first rows. A whole ring around s and t is made at once: others will need it, too."""
        if count == 0:
            return self.no_rows
        if self._made is None or self._count < count:
            self._count = next((ring for ring in self.rings if ring >= count), count)
            self._made = self._make(self._count)
        if self._count == count:
            return self._made
        return self._made.narrow(self.axis, 0, count)


class NodeRows(Tensor):
    """A tensor whose rows are made when they are looked at."""

    cell: _Cell

    @staticmethod
    def of(cell: _Cell, size: Sequence[int], like: Tensor) -> NodeRows:
        """What the cell makes, of this size and of the kind of a tensor."""
        made = Tensor._make_wrapper_subclass(NodeRows, size, dtype=like.dtype, device=like.device)
        made.cell = cell
        return made

    @staticmethod
    def given(rows: Tensor, rings: Rings) -> NodeRows:
        """A tensor with one row per node."""
        cell = _Cell(lambda count: rows.narrow(0, 0, count), rows.shape[0], rings)
        return NodeRows.of(cell, rows.shape, rows)

    @staticmethod
    def collected(
        make: Make, num_rows: int, like: NodeRows, columns: int | None = None
    ) -> NodeRows:
        """What a layer collects at its targets; None: vectors as long as those of its sources."""
        size = num_rows, like.shape[1] if columns is None else columns
        return NodeRows.of(_Cell(make, num_rows), size, like)

    def rows(self, count: int) -> Tensor:
        """The first rows, as an ordinary tensor."""
        return self.cell.rows(count)

    def whole(self) -> Tensor:
        """All rows, as an ordinary tensor."""
        return self.cell.rows(self.cell.num_rows)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Put the function off if it works row by row, else run it on all rows."""
        kwargs = kwargs or {}
        if func in FACTS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        own = args[0] if args else None
        if isinstance(own, NodeRows):
            if name in _NEW:
                return func(own.rows(0), *args[1:], **kwargs)
            if name in _IN_PLACE or (name == "relu" and _flag(args, kwargs, 1, "inplace")):
                # What was made of it before keeps its old cell, and so its old numbers.
                plain = getattr(torch, _IN_PLACE.get(name, name))
                put_off = _put_off(plain, plain.__name__, (own, *args[1:2]), {})
                if put_off is not None and put_off.shape == own.shape:
                    own.cell = put_off.cell
                    return own
        if kwargs.get("out") is not None or _IS_IN_PLACE.fullmatch(name):
            raise RowsError(f"{name} changes vectors of nodes in place, which is not followed.")
        put_off = _put_off(func, name, args, kwargs)
        if put_off is not None:
            return put_off
        return func(*_whole(args), **_whole(kwargs))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Refuse what cannot be followed: gradients would be lost on the way."""
        raise RowsError(f"{func} got vectors of nodes in a way that is not followed.")


def _put_off(
    func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a function that works row by row, put off; None: it may not."""
    own = args[0] if args else None
    if isinstance(own, NodeRows):
        cell = own.cell
        others = (*args[1:], *kwargs.values())
        if name in ("__getitem__", "index_select"):
            return _picked(own, name, args[1:], kwargs)
        if cell.axis == 1:
            return _unstacked(func, name, own, args[1:], kwargs)
        if any(isinstance(other, NodeRows) for other in others) and name not in _BINARY:
            return None
        if func is F.linear:
            if own.dim() < 2:
                return None
            weight = args[1] if len(args) > 1 else kwargs["weight"]
            columns = (*own.shape[1:-1], weight.shape[0])
            return _each_row(own, func, args[1:], kwargs, columns, weight)
        if func is F.embedding:
            if own.dim() != 1 or _flag(args, kwargs, 3, "max_norm"):
                return None
            weight = args[1] if len(args) > 1 else kwargs["weight"]
            return _each_row(own, func, args[1:], kwargs, weight.shape[1:], weight)
        if name == "relu":
            return _each_row(own, func, args[1:], kwargs, own.shape[1:], own)
        if name in _UNARY or (name == "dropout" and not _flag(args, kwargs, 2, "training", True)):
            return _each_row(own, func, args[1:], kwargs)
        if own.dim() == 2 and _along_columns(name, args, kwargs):
            return _each_row(own, func, args[1:], kwargs)
        if name in ("matmul", "mm", "__matmul__") and own.dim() == 2:
            other = others[0] if others else None
            if isinstance(other, Tensor) and other.dim() == 2:
                return _each_row(own, func, args[1:], kwargs)
    if name in _BINARY:
        return _combined(func, args, kwargs)
    if name in ("stack", "cat", "concat"):
        return _joined(func, name, args, kwargs)
    return None


def _flag(
    args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str, default: Any = None
) -> Any:
    return kwargs.get(name, args[place] if len(args) > place else default)


def _along_columns(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a normalisation works on each row of a matrix by itself."""
    if name == "layer_norm":
        return len(_flag(args, kwargs, 1, "normalized_shape")) == 1
    if name == "batch_norm":
        return not _flag(args, kwargs, 5, "training", False)
    if name == "normalize":
        return _flag(args, kwargs, 2, "dim", 1) in (1, -1) and not kwargs.get("out")
    if name in ("softmax", "log_softmax"):
        return _flag(args, kwargs, 1, "dim") in (1, -1)
    return False


def _each_row(
    own: NodeRows,
    func: Callable[..., Any],
    rest: tuple[Any, ...],
    kwargs: dict[str, Any],
    columns: Sequence[int] | None = None,
    like: Tensor | None = None,
) -> NodeRows:
    cell = own.cell

    def make(count: int) -> Tensor:
        found: Tensor = func(cell.rows(count), *rest, **kwargs)
        return found

    made = _Cell(make, cell.num_rows, cell.rings)
    if columns is None or like is None:
        like = made.no_rows
        columns = like.shape[1:]
    return NodeRows.of(made, (cell.num_rows, *columns), like)


def _combined(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> NodeRows | None:
    """A function of numbers at the same place of several tensors, with broadcasting."""
    first = next((arg for arg in args if isinstance(arg, NodeRows)), None)
    if first is None or any(isinstance(value, Tensor) for value in kwargs.values()):
        return None
    num_rows, num_dims = first.cell.num_rows, first.dim()
    takes: list[Callable[[int], Any]] = []
    for arg in args:
        if isinstance(arg, NodeRows):
            if arg.cell.axis or arg.cell.num_rows != num_rows or arg.dim() != num_dims:
                return None
            takes.append(arg.cell.rows)
        elif isinstance(arg, Tensor) and arg.dim() >= num_dims and arg.shape[0] != 1:
            if arg.dim() > num_dims or arg.shape[0] != num_rows:
                return None
            takes.append(lambda count, arg=arg: arg.narrow(0, 0, count))  # type: ignore[misc]
        else:
            takes.append(lambda count, arg=arg: arg)  # type: ignore[misc]

    def make(count: int) -> Tensor:
        found: Tensor = func(*(take(count) for take in takes), **kwargs)
        return found

    cell = _Cell(make, num_rows, _rings(args))
    like = first if all(_keeps_kind(arg, first) for arg in args) else cell.no_rows
    return NodeRows.of(cell, (num_rows, *like.shape[1:]), like)


def _keeps_kind(arg: Any, first: NodeRows) -> bool:
    """Whether what is made of both has the shape and the type of the first."""
    if isinstance(arg, NodeRows):
        return arg is first or (arg.shape == first.shape and arg.dtype == first.dtype)
    return isinstance(arg, int | float) and first.is_floating_point()


def _joined(
    func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> NodeRows | None:
    """Tensors side by side: columns behind columns, or a new first dimension."""
    parts = args[0] if args else None
    dim = _flag(args, kwargs, 1, "dim", 0)
    if not isinstance(parts, list | tuple) or not all(isinstance(x, NodeRows) for x in parts):
        return None
    cells = [part.cell for part in parts]
    first = parts[0]
    if any(cell.axis or cell.num_rows != first.cell.num_rows for cell in cells):
        return None
    if not ((name == "stack" and dim == 0) or (name != "stack" and dim in (1, -1))):
        return None
    if name != "stack" and any(part.dim() != 2 for part in parts):
        return None

    def make(count: int) -> Tensor:
        found: Tensor = func([cell.rows(count) for cell in cells], dim=dim)
        return found

    axis = 1 if name == "stack" else 0
    made = _Cell(make, first.cell.num_rows, _rings(parts), axis)
    size = list(made.no_rows.shape)
    size[axis] = made.num_rows
    return NodeRows.of(made, size, made.no_rows)


def _unstacked(
    func: Callable[..., Any],
    name: str,
    own: NodeRows,
    rest: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> NodeRows | None:
    """The sum, mean or extreme of tensors that were stacked; of anything else, nothing."""
    dim = rest[0] if rest else kwargs.get("dim")
    if name not in _ON_STACK or dim not in (0, (0,), [0]) or len(rest) > 1 or set(kwargs) > {"dim"}:
        return None
    cell = own.cell

    def make(count: int) -> Tensor:
        found: Tensor = func(cell.rows(count), dim=0)
        return found

    made = _Cell(make, cell.num_rows, cell.rings)
    return NodeRows.of(made, (cell.num_rows, *made.no_rows.shape[1:]), made.no_rows)


def _picked(
    own: NodeRows, name: str, rest: tuple[Any, ...], kwargs: dict[str, Any]
) -> Tensor | None:
    """Some rows by their numbers, as an ordinary tensor."""
    index = rest[-1] if rest else kwargs.get("index")
    dim = 0 if name == "__getitem__" else (rest[0] if len(rest) > 1 else kwargs.get("dim"))
    if own.cell.axis or dim not in (0, -own.dim()) or type(index) is not Tensor:
        return None
    if index.dtype != torch.long or index.dim() != 1:
        return None
    if not len(index):
        return own.rows(0).index_select(0, index)
    least, most = (int(value) for value in torch.aminmax(index))
    if least < 0 or most >= own.cell.num_rows:
        return None  # counted from the end, or an error that is raised as ever
    return own.rows(most + 1).index_select(0, index)


def _whole(values: Any) -> Any:
    if isinstance(values, NodeRows):
        return values.whole()
    if isinstance(values, dict):
        return {key: _whole(value) for key, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(_whole(value) for value in values)
    return values


def _rings(parts: Iterable[Any]) -> Rings:
    known = (part.cell.rings for part in parts if isinstance(part, NodeRows))
    return next((rings for rings in known if rings), ())
