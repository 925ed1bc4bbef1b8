"""How an edge weight reaches any PyG model.

1. Tracing. A first pass notes which input edge is behind each message. The model is handed
   `edge_index` tensors of a small `Tensor` subclass that carries, for every entry, the number of
   the input edge behind it, through indexing, `cat`, `flip`, `stack`, offsets and added self-loops.
   When a layer propagates, a hook reads the numbers.
2. Weighting. From then on plain tensors go in, and the messages of the n-th propagation are
   multiplied by the weights of the edges noted for it, of both where the model joined two edges to
   one. Columns that the model added itself (self-loops) have weight 1. Layers that only sum or
   average their neighbours' vectors are done without writing the messages out (`fused`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.errors import MaskError, ModelError
from pagelink.layers.attention import attention_call
from pagelink.layers.fused import (
    Call,
    Neighbours,
    Propagate,
    is_plain_layer,
    plain_call,
    replace_propagate,
)
from pagelink.layers.whole import modules_outside
from pagelink.model.borrowing import hook
from pagelink.runtime.undo import Undo

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
        self._noted: list[Tensor] = []
        self.plain: list[Call | None] = []
        """Per propagation, how it is done without writing messages out, if it can be."""
        self.layers: dict[MessagePassing, list[Call | None]] = {}
        """The same, by layer."""
        self.collected_outside: list[str] = []
        """Modules that collect vectors along the edges outside of any MessagePassing layer."""
        self._inside: list[tuple[str, nn.Module]] = []

    @property
    def calls(self) -> list[Tensor]:
        """Per propagation, the number of the input edge of each message, or ADDED.

        Two rows of them where a message goes along two input edges that the model joined. Not to be
        read before the pass is over: a comparison of numbers in it would be taken for the model's.
        """
        if not self._noted:
            return []
        alike = torch.stack([(each[0] == each[1]).all() for each in self._noted]).tolist()
        return [each[0] if same else each for each, same in zip(self._noted, alike, strict=True)]

    def trace(self, given: Sequence[Tensor]) -> list[TracedIndex]:
        """Wrap the parts of an edge_index [2, n]; their columns are counted through."""
        sizes = [each.shape[1] for each in given]
        numbers = torch.arange(sum(sizes), device=given[0].device if given else None).expand(2, -1)
        parts = numbers.split(sizes, dim=1)
        return [TracedIndex.of(*both, self) for both in zip(given, parts, strict=True)]

    def note_collected(self, collected: Any) -> None:
        """Note that vectors were collected at nodes."""
        if any(isinstance(module, MessagePassing) for _, module in self._inside):
            return
        if not isinstance(collected, Tensor) or not collected.is_floating_point():
            return
        if collected.dim() >= 2:
            self.collected_outside.append(self._inside[-1][0] if self._inside else "")

    def plain_layers(self) -> dict[MessagePassing, Call]:
        """Layers of which every call can be done without writing messages out, in one way."""
        found = {}
        for layer, calls in self.layers.items():
            ways = {call and dataclasses.replace(cast(Any, call), num_dst=0) for call in calls}
            if len(ways) == 1 and calls[0] is not None:
                found[layer] = calls[0]
        return found

    def listen(self, model: nn.Module, undo: Undo, whole: Collection[nn.Module] = ()) -> None:
        """Hook into every layer for one forward pass; some may be done as a whole."""
        for name, module in modules_outside(model, whole):
            if isinstance(module, torch.jit.ScriptModule):
                continue  # takes no hooks, and passes no messages that could be weighted
            hook(undo, module, "forward_pre", partial(self._enter, name))
            undo.keep(module._forward_hooks_always_called)
            hook(undo, module, "forward", self._leave, always_call=True)
            if isinstance(module, MessagePassing) and module not in whole:
                plain = is_plain_layer(module)  # which no layer is any more once it has hooks
                hook(undo, module, "propagate_forward_pre", partial(self._note_call, name))
                if plain:
                    hook(undo, module, "message_forward_pre", self._note_versions)
                    hook(undo, module, "message_forward", self._note_message)
                    hook(undo, module, "aggregate_forward", self._note_plain)

    def _note_versions(self, module: MessagePassing, inputs: Any) -> None:
        self._versions = {k: v._version for k, v in inputs[0].items() if isinstance(v, Tensor)}

    def _note_message(self, module: MessagePassing, inputs: Any, message: Any) -> None:
        # What the layer changed in place is not what it was given.
        changed = any(inputs[0][name]._version != old for name, old in self._versions.items())
        self._message = {} if changed else inputs[0], message

    def _note_plain(self, module: MessagePassing, inputs: Any, out: Tensor) -> None:
        arguments, message = self._message
        call: Call | None = attention_call(module, out.shape[0])
        if call is None and out.dim() == 2:
            call = plain_call(module, arguments, message, out.shape[0])
        self.plain[-1] = call
        self.layers.setdefault(module, []).append(call)
        del self._message

    def _enter(self, name: str, module: nn.Module, args: Any) -> None:
        self._inside.append((name, module))

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._inside.pop()

    def _note_call(
        self, name: str, module: MessagePassing, inputs: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        edge_index, *rest = inputs
        self._note(layer_name(name, module), [edge_index])
        return (edge_index.as_subclass(Tensor), *rest)

    def begin(self, indices: Sequence[Tensor]) -> tuple[Sequence[Tensor], None, None]:
        """Note a call of a layer that is done as a whole."""
        self._note(layer_name(*self._inside[-1]), indices)
        return [index.as_subclass(Tensor) for index in indices], None, None

    def _note(self, layer: str, indices: Sequence[Any]) -> None:
        if not all(isinstance(index, TracedIndex) for index in indices):
            raise MaskError(
                f"The layer {layer} passes messages along edges that cannot "
                "be distinguished from those given to the model: it keeps edges of its own (a "
                "cached or precomputed graph, a sparse matrix) or builds new ones by an operation "
                "that is not followed. Let it use the edge_index it is given, by indexing, "
                "torch.cat, flip or added self-loops."
            )
        numbers = [index.edge_numbers for index in indices]
        self._noted.append(numbers[0] if len(numbers) == 1 else torch.cat(numbers, dim=1))
        self.plain.append(None)


class Weighting:
    """Multiplies the messages of a model by edge weights, pass after pass on the same graph.

    Set `weights` (one value per input edge) before each forward pass.

    Args:
        calls: per propagation, the number of the weight of each message, or ADDED.
        plain: per propagation, how it is done without writing the messages out. Empty: none is.
    """

    def __init__(self, calls: Sequence[Tensor], plain: Sequence[Call | None] = ()) -> None:
        self._calls = calls
        self._places = [call + 1 for call in calls]  # ADDED columns take what stands in front
        self._plain = plain or [None] * len(calls)
        self._neighbours: dict[int, Neighbours] = {}
        self._next = 0
        self._extended: Tensor | None = None

    def set(self, weights: Tensor) -> None:
        """Use these weights in the next forward pass."""
        self._extended = torch.cat([weights.new_ones(1), weights])
        self._next = 0

    def finish(self) -> None:
        """Check that the pass made the propagations it was recorded with."""
        if self._next != len(self._calls):
            raise MaskError(
                f"The model propagated {self._next} times where it did {len(self._calls)} times "
                "before on the same graph. A model whose layers depend on chance or on earlier "
                "calls cannot be explained: make its forward pass deterministic in eval mode."
            )

    def begin(self, indices: Sequence[Tensor]) -> tuple[Sequence[Tensor], Tensor, int]:
        """Give a layer that is done as a whole the weights of its edges."""
        number = self._next
        self._next += 1
        count = sum(index.shape[1] for index in indices)
        if number >= len(self._calls) or self._calls[number].shape[-1] != count:
            raise MaskError(
                f"Propagation {number + 1} is along {count} edges, which it was not in the pass "
                "before. The model's forward pass must be deterministic in eval mode."
            )
        return indices, self._weights(number), number

    def attach(self, model: nn.Module, undo: Undo, whole: Collection[nn.Module] = ()) -> None:
        """Hook into every MessagePassing layer, but for those that are done as a whole."""
        outside = modules_outside(model, whole)
        layers = {m: n for n, m in outside if isinstance(m, MessagePassing) and m not in whole}
        plain = [m for m in layers if any(self._plain) and is_plain_layer(m)]
        replace_propagate({m: self._propagate(m) for m in plain}, undo)
        for module, name in layers.items():
            hook(undo, module, "propagate_forward_pre", self._begin)
            hook(undo, module, "message_forward", partial(self._weight, name))

    def _begin(self, module: MessagePassing, inputs: Any) -> None:
        self._next += 1

    def _propagate(self, module: MessagePassing) -> Propagate:
        """The layer's `propagate`, without messages where the call is known to be plain."""
        written_out: Propagate = module.propagate

        def propagate(edge_index: Any, size: Any = None, **arguments: Any) -> Tensor:
            number = self._next
            there = number < min(len(self._plain), len(self._calls))
            call = self._plain[number] if there else None
            known = call is not None and edge_index.shape[1] == self._calls[number].shape[-1]
            x = call.sources(arguments) if call is not None and known else None
            if call is None or x is None:
                return written_out(edge_index, size=size, **arguments)
            self._next += 1
            if number not in self._neighbours:
                edges = Neighbours.of(module, edge_index, x.shape[0], call.num_dst)
                self._neighbours[number] = edges
            weights, edges = self._weights(number), self._neighbours[number]
            return call.collect(module, edge_index, arguments, weights, edges)

        return propagate

    def _weights(self, number: int) -> Tensor:
        assert self._extended is not None
        places = self._places[number]
        found = self._extended.index_select(0, places.view(-1))
        return found if places.dim() == 1 else found.view(places.shape).prod(0)

    def _weight(self, name: str, module: MessagePassing, inputs: Any, message: Any) -> Any:
        known = self._next <= len(self._calls)
        expected = self._calls[self._next - 1].shape[-1] if known else 0
        dim = module.node_dim
        if not isinstance(message, Tensor) or not -message.dim() <= dim < message.dim():
            raise MaskError(
                f"The layer {layer_name(name, module)} returns messages that are not a tensor "
                f"with one slice per edge along dimension {dim}."
            )
        if not known or self._extended is None or message.shape[dim] != expected:
            raise MaskError(
                f"The layer {layer_name(name, module)} sends {message.shape[dim]} messages, "
                f"expected {expected} as in the pass before. Its forward pass must be "
                "deterministic in eval mode."
            )
        shape = [1] * message.dim()
        shape[dim] = -1
        return message * self._weights(self._next - 1).view(shape).to(message.dtype)


def check_maskable(model: nn.Module) -> None:
    """Refuse, before any pass, a model in which weights cannot reach the messages."""
    for name, module in model.named_modules():
        if getattr(module, "cached", False) is True:
            raise MaskError(
                f"The layer {layer_name(name, module)} has cached=True: it remembers the first "
                "graph it saw and ignores the one it is given. Set its `cached` to False before "
                "explaining; its weights stay as they are."
            )
        for parameter_name, parameter in module.named_parameters(recurse=False):
            if isinstance(parameter, nn.parameter.UninitializedParameter):
                raise ModelError(
                    f"{layer_name(name, module)} has a lazy parameter {parameter_name!r} that was "
                    "never initialised. Run the model once on the data, or load its weights."
                )


def layer_name(name: str, module: nn.Module) -> str:
    """Name a layer of the model for a message."""
    return f"{name!r} ({type(module).__name__})" if name else f"({type(module).__name__})"
