"""How deep a score rests on messages, read from one pass of the model without looking at values.

Every operation of torch is seen below autograd, so that `detach`, `no_grad`, `argmax` and custom
autograd functions hide nothing. The result of an operation rests on what its inputs rest on;
`MessagePassing.propagate` adds one to the depth. What leaves torch (`.item()` on a message, NumPy)
cannot be followed, and is noted.

A depth that was read is a floor: a normalisation by degrees, or edges that a model joins out of
several ones, may need further rings of the graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.nn import MessagePassing

from pagelink.layers.whole import modules_outside
from pagelink.model.borrowing import hook
from pagelink.runtime.undo import Undo

# Operations whose result does not depend on the values of their tensors, only on the shapes; that
# a number is finite says nothing of the graph, either.
_SHAPE_ONLY = frozenset({
    "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "new_zeros",
    "new_ones", "new_full", "new_empty", "new_empty_strided", "isnan", "isinf", "isfinite",
})  # fmt: skip
# What a model's own code reads out of torch: one number, or all of a tensor. What torch reads
# inside of its functions, to check their arguments, does not count.
_READS_ONE = frozenset({
    "item", "__bool__", "__int__", "__float__", "__index__", "__complex__", "is_nonzero", "equal",
    "allclose",
})  # fmt: skip
_READS_ALL = frozenset({"numpy", "tolist", "__array__", "__dlpack__"})
_COUNTS = frozenset({
    "scatter", "scatter_add", "scatter_reduce", "index_add", "index_reduce", "bincount",
    "segment_reduce",
})  # fmt: skip
# The size of their results depends on values, and a size can be read without a trace.
_SIZES = frozenset({"nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive"})


class Flow(NamedTuple):
    """What a tensor rests on."""

    depth: int
    """Propagations behind each other; 0: on edges, but on no message; -1: not even on edges."""
    relations: int
    """The relations whose edges it rests on, a bit each."""
    on_link: bool
    """Whether it rests on which links are asked about."""
    counted: bool = False
    """Whether edges were counted or summed at nodes on the way, as for degrees."""

    def joined(self, other: Flow | None) -> Flow:
        """What a tensor rests on that was made of two others."""
        if other is None:
            return self
        return Flow(
            max(self.depth, other.depth),
            self.relations | other.relations,
            self.on_link or other.on_link,
            self.counted or other.counted,
        )


class DataFlow:
    """Follows what tensors rest on through a pass of a model.

    Tensors are known by their storage, so that views and changes in place are followed. A weak
    reference keeps the address of a storage from being used again, not its memory.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[StorageWeakRef, Flow]] = {}
        self.is_complete = True
        """Whether nothing that rests on edges left torch on the way."""
        self.messages_know_link = False
        """Whether messages rest on which links are asked about."""
        self.result: Flow | None = None
        """What the scores rest on; None: on no edge, whatever they are."""
        self._is_over = False

    def mark(self, tensor: Tensor, flow: Flow) -> None:
        """Say what a tensor rests on, beside what is known of it."""
        for storage in _storages(tensor):
            ref = StorageWeakRef(storage)
            known = self._known.get(ref.cdata)
            self._known[ref.cdata] = (ref, flow.joined(known and known[1]))

    def of(self, tensors: Iterator[Tensor]) -> Flow | None:
        """Return what tensors together rest on; None: on nothing of interest."""
        found: Flow | None = None
        for tensor in tensors:
            for storage in _storages(tensor):
                known = self._known.get(storage._cdata)
                if known is not None:
                    found = known[1].joined(found)
        return found

    def listen(self, model: nn.Module, undo: Undo, whole: Collection[nn.Module] = ()) -> None:
        """Follow the operations of one pass; layers that are done as a whole tell of themselves."""
        for _, module in modules_outside(model, whole):
            if isinstance(module, MessagePassing) and module not in whole:
                hook(undo, module, "propagate_forward", self._after_propagate)
        stack = torch._C
        undo.change(
            (stack._push_on_torch_function_stack, _Leaving(self)),
            (stack._pop_torch_function_stack,),
        )
        undo.change(
            (stack._push_on_torch_dispatch_stack, _Following(self)),
            (stack._pop_torch_dispatch_stack, None),
        )

    def finish(self, scores: Any) -> None:
        """Take what the model returned; what is done to it from here on is not the model's."""
        self.result = self.of(_tensors(scores))
        self._is_over = True

    def _after_propagate(self, module: MessagePassing, inputs: Any, out: Any) -> None:
        self.passed(list(_tensors(out)), out)

    def passed(self, inputs: Sequence[Tensor], out: Any) -> None:
        """Note that messages were made of some tensors, and what they were collected in."""
        flow = self.of(iter(inputs))
        if flow is not None:
            self.messages_know_link |= flow.on_link
            for tensor in _tensors(out):
                self.mark(tensor, flow._replace(depth=flow.depth + 1))

    def after(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Note what the result of an operation rests on."""
        if self._is_over:
            return
        name = func._schema.name.removeprefix("aten::")
        flow = None if name in _SHAPE_ONLY else self.of(_tensors((args, kwargs)))
        if flow is None:
            return
        if flow.depth >= 0 and name.rstrip("_") in _COUNTS:
            flow = flow._replace(counted=True)
        if name in _SIZES or name == "index":
            # To pick edges of a relation is harmless, to pick nodes by their degree is not.
            chosen = self.of(_conditions(name, args))
            self.is_complete &= chosen is None or (chosen.depth < 1 and not chosen.counted)
        for tensor in _tensors(out):
            self.mark(tensor, flow)
        if func._schema.is_mutable:
            for argument, value in zip(func._schema.arguments, args, strict=False):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    for tensor in _tensors(value):
                        self.mark(tensor, flow)

    def leaves(self, values: Any, *, all_of_it: bool) -> None:
        """Note that values left torch.

        PyTorch Geometric may read a single number of the edges, such as the highest index.
        """
        flow = None if self._is_over else self.of(_tensors(values))
        if flow is not None:
            harmless = flow.depth < 1 and not all_of_it and _called_by_pyg()
            self.is_complete &= flow.depth < 0 or harmless


class _Following(TorchDispatchMode):
    """Tells a data flow of every operation."""

    def __init__(self, flow: DataFlow) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._flow = flow

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self._flow.after(func, args, kwargs, out)
        return out


class _Leaving(TorchFunctionMode):
    """Tells a data flow of values that are read by something else than torch."""

    def __init__(self, flow: DataFlow) -> None:
        super().__init__()
        self._flow = flow

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _READS_ALL or name in _READS_ONE:
            self._flow.leaves(args, all_of_it=name in _READS_ALL)
        return func(*args, **(kwargs or {}))


def _called_by_pyg() -> bool:
    """Whether the code that calls torch is PyTorch Geometric's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(("torch.", "pagelink.model.")) and module != "torch":
            return module.startswith("torch_geometric.")
    return False


def _conditions(name: str, args: Any) -> Iterator[Tensor]:
    """What decides about the size of a result."""
    if name == "index":
        return (each for each in _tensors(args[1]) if each.dtype == torch.bool)
    return _tensors(args[1:] if name == "masked_select" else args[:1])


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _storages(tensor: Tensor) -> Iterator[Any]:
    """The memory behind a tensor; that of its indices and its values if it is sparse."""
    parts = [tensor]
    if tensor.layout == torch.sparse_coo:
        parts = [tensor._indices(), tensor._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    for part in parts:
        yield part.untyped_storage()
