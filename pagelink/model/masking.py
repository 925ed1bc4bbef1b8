"""How an edge weight reaches any PyG model, and how the model is left as it was.

A first pass notes which input edge is behind each message (`tracing`). From then on plain tensors
go in, and the messages of the n-th propagation are multiplied by the weights of the edges noted for
it. Columns that the model added itself (self-loops) have weight 1. Layers that only sum or average
their neighbours' vectors are done without writing the messages out (`fused`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pagelink.errors import MaskError, ModelError
from pagelink.model.fused import Neighbours, PlainCall, fits, is_plain_layer, weighted_sum
from pagelink.model.tracing import layer_name


class Weighting:
    """Multiplies the messages of a model by edge weights, pass after pass on the same graph.

    Set `weights` (one value per input edge) before each forward pass.

    Args:
        calls: per propagation, the number of the weight of each message, or ADDED.
        plain: per propagation, how it is done without writing the messages out. Empty: none is.
    """

    def __init__(self, calls: Sequence[Tensor], plain: Sequence[PlainCall | None] = ()) -> None:
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

    @contextmanager
    def attach(self, model: nn.Module) -> Iterator[Weighting]:
        """Hook into every MessagePassing layer."""
        with ExitStack() as stack:
            for name, module in model.named_modules():
                if isinstance(module, MessagePassing):
                    if any(self._plain) and is_plain_layer(module):
                        stack.callback(module.__dict__.pop, "propagate")
                        module.__dict__["propagate"] = self._propagate(module, module.propagate)
                    begin = module.register_propagate_forward_pre_hook(self._begin)
                    stack.callback(begin.remove)
                    weight = module.register_message_forward_hook(self._weight(name))
                    stack.callback(weight.remove)
            yield self

    def _begin(self, module: MessagePassing, inputs: Any) -> None:
        self._next += 1

    def _propagate(
        self, module: MessagePassing, written_out: Callable[..., Tensor]
    ) -> Callable[..., Tensor]:
        """The layer's `propagate`, without messages where the call is known to be plain."""

        def propagate(edge_index: Any, size: Any = None, **arguments: Any) -> Tensor:
            call = self._plain[self._next] if self._next < len(self._plain) else None
            x: Any = None if call is None else arguments.get(call.argument)
            x = x[0] if isinstance(x, tuple | list) else x
            number = self._next
            known = call is not None and edge_index.shape[1] == len(self._calls[number])
            scale = arguments.get("edge_weight") if call is not None and call.scaled else None
            if call is None or not known or not fits(x, scale):
                return written_out(edge_index, size=size, **arguments)
            self._next += 1
            source, target = (0, 1) if module.flow == "source_to_target" else (1, 0)
            if number not in self._neighbours:
                ends = edge_index.detach().numpy()
                self._neighbours[number] = Neighbours(
                    ends[source], ends[target], x.shape[0], call.num_dst
                )
            weights = self._weights(number)
            if scale is not None:
                weights = weights * scale.view(-1)
            return weighted_sum(x, weights, self._neighbours[number], call.mean)

        return propagate

    def _weights(self, number: int) -> Tensor:
        assert self._extended is not None
        return self._extended.index_select(0, self._places[number])

    def _weight(self, name: str) -> Callable[..., Any]:
        def hook(module: MessagePassing, inputs: Any, message: Any) -> Any:
            numbers = self._calls[self._next - 1] if self._next <= len(self._calls) else None
            dim = module.node_dim
            if not isinstance(message, Tensor) or not -message.dim() <= dim < message.dim():
                raise MaskError(
                    f"The layer {layer_name(name, module)} returns messages that are not a tensor "
                    f"with one slice per edge along dimension {dim}."
                )
            if numbers is None or self._extended is None or message.shape[dim] != len(numbers):
                raise MaskError(
                    f"The layer {layer_name(name, module)} sends {message.shape[dim]} messages, "
                    f"expected {0 if numbers is None else len(numbers)} as in the pass before. Its "
                    "forward pass must be deterministic in eval mode."
                )
            shape = [1] * message.dim()
            shape[dim] = -1
            return message * self._weights(self._next - 1).view(shape).to(message.dtype)

        return hook


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


@contextmanager
def borrowed(model: nn.Module) -> Iterator[None]:
    """Put the model into eval mode without parameter gradients, and give it back as it was."""
    with _lock_of(model):
        yield from _borrowed(model)


_locks: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
_making_a_lock = Lock()


def _lock_of(model: nn.Module) -> Any:
    """One thread at a time may borrow a model."""
    with _making_a_lock:
        return _locks.setdefault(model, RLock())


def _borrowed(model: nn.Module) -> Iterator[None]:
    training = [(module, module.training) for module in model.modules()]
    requires = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    with ExitStack() as stack:
        if any(
            hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None)
            for module, _ in training
        ):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        try:
            for module, _ in training:
                module.training = False
            for parameter, _ in requires:
                parameter.requires_grad_(False)
            yield
        finally:
            for module, mode in training:
                module.training = mode
            for parameter, flag in requires:
                parameter.requires_grad_(flag)
