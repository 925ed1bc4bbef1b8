"""Which input edge is behind each message of a model: traced through one forward pass.

The model is handed `edge_index` tensors of a small `Tensor` subclass that carries, for every entry,
the number of the input edge behind it, through indexing, `cat`, `flip`, `stack`, offsets and added
self-loops. When a layer propagates, a hook reads the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.errors import MaskError
from pagelink.model.fused import PlainCall, is_plain_layer, plain_call

ADDED = -1
"""Number of a column that is not an edge of the input."""

# What a function does with an index tensor. Entries joined with tensors that the model made:
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "where"})
# Entries moved to other places, the numbers along with them:
_MOVES = frozenset({
    "__getitem__", "index_select", "flip", "t", "transpose", "permute", "unsqueeze", "squeeze",
    "chunk", "split", "tensor_split", "unbind", "reshape", "view", "flatten", "masked_select",
    "narrow", "select", "gather", "take_along_dim", "roll", "repeat", "expand", "expand_as",
    "view_as", "clone", "detach", "contiguous", "fliplr", "flipud", "swapaxes", "movedim",
})  # fmt: skip
# Values changed in their places, the numbers stay:
_CHANGES = frozenset({
    "add", "add_", "sub", "sub_", "mul", "mul_", "__add__", "__radd__", "__iadd__", "__sub__",
    "__rsub__", "__isub__", "__mul__", "__rmul__", "__imul__", "to", "long", "int", "cpu", "cuda",
    "type", "type_as", "floor_divide", "__floordiv__", "remainder", "__mod__", "clamp",
    "requires_grad_", "masked_fill",
})  # fmt: skip
# Messages collected at nodes:
_COLLECTS = frozenset({
    "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_",
    "index_add", "index_add_", "index_reduce", "index_reduce_", "index_put", "index_put_",
    "index_copy", "index_copy_", "__setitem__", "segment_reduce",
})  # fmt: skip
_TRANSPOSES = (vars(torch._C.TensorBase)["T"].__get__, vars(torch._C.TensorBase)["mT"].__get__)


class TracedIndex(Tensor):
    """An index tensor that knows which input edge each of its entries comes from."""

    edge_numbers: Tensor
    tracer: Tracer

    @classmethod
    def of(cls, index: Tensor, edge_numbers: Tensor, tracer: Tracer) -> TracedIndex:
        """Wrap an index tensor; `edge_numbers` has its shape."""
        traced = index.as_subclass(cls)
        traced.edge_numbers = edge_numbers
        traced.tracer = tracer
        return traced

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the function on plain tensors, and move the numbers as it moved the entries."""
        kwargs = kwargs or {}
        traced = list(_traced_in([*args, *kwargs.values()]))
        tracer = traced[0].tracer
        plain_args, plain_kwargs = _map(args, _plain), _map(kwargs, _plain)
        result = func(*plain_args, **plain_kwargs)
        name = getattr(func, "__name__", "")
        own = args[0] if args and isinstance(args[0], TracedIndex) else None
        if name in _JOINS:
            condition = args[:1] if name == "where" else ()
            joined = _map(args[len(condition) :], _numbers)
            return _wrap(result, func(*_map(condition, _plain), *joined, **plain_kwargs), tracer)
        if own is not None and (name in _MOVES or func in _TRANSPOSES):
            numbers = func(own.edge_numbers, *plain_args[1:], **plain_kwargs)
            return _wrap(result, numbers, tracer)
        if own is not None and name == "sort":
            dim = kwargs.get("dim", next((a for a in args[1:] if type(a) is int), -1))
            numbers = own.edge_numbers.gather(dim, result.indices)
            return _wrap(result.values, numbers, tracer), result.indices
        if name in _CHANGES:
            for value in traced:
                if isinstance(result, Tensor) and value.shape == result.shape:
                    return _wrap(result, value.edge_numbers, tracer)
        if name in _COLLECTS and own is None:
            tracer.note_collected(result if isinstance(result, Tensor) else plain_args[0])
        return result


def _traced_in(values: Iterable[Any]) -> Iterator[TracedIndex]:
    for value in values:
        if isinstance(value, TracedIndex):
            yield value
        elif isinstance(value, list | tuple):
            yield from _traced_in(value)


def _map(values: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(values, dict):
        return {key: _map(value, change) for key, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(_map(value, change) for value in values)
    return change(values)


def _plain(value: Any) -> Any:
    return value.as_subclass(Tensor) if isinstance(value, TracedIndex) else value


def _numbers(value: Any) -> Any:
    if isinstance(value, TracedIndex):
        return value.edge_numbers
    return torch.full_like(value, ADDED) if isinstance(value, Tensor) else value


def _wrap(result: Any, numbers: Any, tracer: Tracer) -> Any:
    if isinstance(result, Tensor):
        return TracedIndex.of(result, numbers, tracer)
    return type(result)(_wrap(r, n, tracer) for r, n in zip(result, numbers, strict=True))


class Tracer:
    """Notes, for every propagation of a forward pass, which input edges its messages belong to."""

    def __init__(self) -> None:
        self.calls: list[Tensor] = []
        """Per propagation, the number of the input edge of each message, or ADDED."""
        self.plain: list[PlainCall | None] = []
        """Per propagation, how it is done without writing messages out, if it can be."""
        self.layers: dict[MessagePassing, list[PlainCall | None]] = {}
        """The same, by layer."""
        self.collected_outside: list[str] = []
        """Modules that collect vectors along the edges outside of any MessagePassing layer."""
        self._inside: list[tuple[str, nn.Module]] = []

    def trace(self, edge_index: Tensor, first_number: int) -> TracedIndex:
        """Wrap an edge_index [2, n] whose columns are numbered from `first_number` on."""
        numbers = torch.arange(
            first_number, first_number + edge_index.shape[1], device=edge_index.device
        )
        return TracedIndex.of(edge_index, numbers.expand(2, -1), self)

    def note_collected(self, collected: Any) -> None:
        """Note that vectors were collected at nodes."""
        if any(isinstance(module, MessagePassing) for _, module in self._inside):
            return
        if not isinstance(collected, Tensor) or not collected.is_floating_point():
            return
        if collected.dim() >= 2:
            self.collected_outside.append(self._inside[-1][0] if self._inside else "")

    def plain_layers(self) -> dict[MessagePassing, PlainCall]:
        """Layers of which every call can be done without writing messages out, in one way."""
        found = {}
        for layer, calls in self.layers.items():
            ways = {call and (call.argument, call.scaled, call.mean) for call in calls}
            if len(ways) == 1 and calls[0] is not None:
                found[layer] = calls[0]
        return found

    @contextmanager
    def listen(self, model: nn.Module) -> Iterator[None]:
        """Hook into every layer for one forward pass."""
        with ExitStack() as stack:
            for name, module in model.named_modules():
                stack.callback(module.register_forward_pre_hook(self._enter(name)).remove)
                stack.callback(module.register_forward_hook(self._leave, always_call=True).remove)
                if isinstance(module, MessagePassing):
                    plain = is_plain_layer(module)
                    hook = module.register_propagate_forward_pre_hook(self._note_call(name))
                    stack.callback(hook.remove)
                    if plain:
                        hook = module.register_message_forward_pre_hook(self._note_versions)
                        stack.callback(hook.remove)
                        hook = module.register_message_forward_hook(self._note_message)
                        stack.callback(hook.remove)
                        hook = module.register_aggregate_forward_hook(self._note_plain)
                        stack.callback(hook.remove)
            yield

    def _note_versions(self, module: MessagePassing, inputs: Any) -> None:
        self._versions = {k: v._version for k, v in inputs[0].items() if isinstance(v, Tensor)}

    def _note_message(self, module: MessagePassing, inputs: Any, message: Any) -> None:
        # What the layer changed in place is not what it was given.
        changed = any(inputs[0][name]._version != old for name, old in self._versions.items())
        self._message = {} if changed else inputs[0], message

    def _note_plain(self, module: MessagePassing, inputs: Any, out: Tensor) -> None:
        arguments, message = self._message
        call = plain_call(module, arguments, message, out.shape[0]) if out.dim() == 2 else None
        self.plain[-1] = call
        self.layers.setdefault(module, []).append(call)
        del self._message

    def _enter(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any) -> None:
            self._inside.append((name, module))

        return hook

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._inside.pop()

    def _note_call(self, name: str) -> Callable[..., Any]:
        def hook(module: MessagePassing, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            edge_index, *rest = inputs
            if not isinstance(edge_index, TracedIndex):
                raise MaskError(
                    f"The layer {layer_name(name, module)} passes messages along edges that cannot "
                    "be told from those given to the model: it keeps edges of its own (a cached "
                    "or precomputed graph, a sparse matrix) or builds new ones by an operation "
                    "that is not followed. Let it use the edge_index it is given, by indexing, "
                    "torch.cat, flip or added self-loops."
                )
            numbers = edge_index.edge_numbers
            if not torch.equal(numbers[0], numbers[1]):
                raise MaskError(
                    f"The layer {layer_name(name, module)} is given columns whose two ends come "
                    "from different edges of the graph."
                )
            self.calls.append(numbers[0])
            self.plain.append(None)
            return (edge_index.as_subclass(Tensor), *rest)

        return hook


def layer_name(name: str, module: nn.Module) -> str:
    """Name a layer of the model for a message."""
    return f"{name!r} ({type(module).__name__})" if name else f"({type(module).__name__})"
