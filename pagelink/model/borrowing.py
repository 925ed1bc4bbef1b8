"""How the user's model is borrowed, and given back as it was whatever happens in between.

Everything that is changed in a model, and the modes of torch, is noted in an `Undo` before it is
changed. A model is lent to one context at a time. If a context was opened and never left (by code
that was interrupted in the middle, or by a thread that is gone), the next one that wants the model
closes it first.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from pagelink.errors import ModelError
from pagelink.layers.whole import modules_outside
from pagelink.runtime.undo import Undo

T = TypeVar("T")
P = ParamSpec("P")

_locks: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
_making_a_lock = threading.Lock()
_lent: dict[int, Borrowed[Any]] = {}
"""Who has a model, by its id; it is kept alive for as long as somebody has it."""


class Borrowed(Undo, Generic[T]):
    """A context in which a model is in eval mode and its parameters have no gradients.

    Args:
        model: the model. A thread waits for it while another one has it.
        prepare: makes further changes, and gives what the context is for.
        whole: layers whose inner modules are not run, and stay as they are.
    """

    def __init__(
        self,
        model: nn.Module,
        prepare: Callable[[Undo], T],
        whole: Collection[nn.Module] = (),
    ) -> None:
        super().__init__()
        self._model, self._prepare, self._whole = model, prepare, whole

    def __enter__(self) -> T:  # type: ignore[override]
        try:
            self._take()
            return self._prepare(self)
        except BaseException:  # nobody leaves a context that was not entered
            self.close()
            raise

    def _take(self) -> None:
        # 1. One at a time.
        with _making_a_lock:
            lock = _locks.setdefault(self._model, threading.Lock())
        holder = _lent.get(id(self._model))
        if holder is not None and holder.was_abandoned():
            holder.close()
        self.change((lock.acquire,), (lock.release,))
        self._thread = threading.current_thread()
        self.later(_lent.pop, id(self._model), None)
        _lent[id(self._model)] = self
        # 2. The modes of torch.
        self.later(torch._C._set_grad_enabled, torch.is_grad_enabled())
        modules = [module for _, module in modules_outside(self._model, self._whole)]
        if any(
            hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None)
            for module in modules
        ):
            from torch._dynamo import eval_frame

            self.later(vars(eval_frame).__setitem__, "_stance", eval_frame._stance)
            torch.compiler.set_stance("force_eager")
        # 3. The model.
        for module in modules:
            if not isinstance(module, torch.jit.ScriptModule):
                self.keep(vars(module))  # what a model keeps of a pass is not kept
            if module.training:
                self.later(vars(module).__setitem__, "training", True)
                module.training = False
            for parameter in module._parameters.values():
                if parameter is not None and parameter.requires_grad:
                    self.later(parameter.requires_grad_, True)
                    parameter.requires_grad_(False)

    def was_abandoned(self) -> bool:
        """Whether nobody can leave this context any more.

        A context is opened by code that opens no other one inside: so the thread that asks is done
        with it, though it was never left.
        """
        return self._thread is threading.current_thread() or not self._thread.is_alive()


def hook(
    undo: Undo, module: nn.Module, kind: str, function: Callable[..., Any], **options: Any
) -> None:
    """Register a hook of a kind, such as `message_forward`, until its context is left."""
    undo.keep(getattr(module, f"_{kind}_hooks"))
    getattr(module, f"register_{kind}_hook")(function, **options)


def in_normal_mode(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function run outside of inference mode, and leave torch's modes as they were.

    Differs from `torch.inference_mode(False)` in that it is left by a C function; see `Undo`.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with torch._C._InferenceMode(False):
            return function(*args, **kwargs)

    return run


def keeping_its_tensors(
    model: nn.Module, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Do work that runs a model, and see that its parameters and buffers are what they were.

    They are copied for as long as the work takes.

    Raises:
        ModelError: the model changed some of them; they have their values again.
    """
    own = dict([*model.named_parameters(), *model.named_buffers()])
    kept = {
        name: tensor.detach().clone()
        for name, tensor in own.items()
        if tensor.layout == torch.strided
    }
    try:
        return work(*args, **kwargs)
    finally:
        changed = [name for name, was in kept.items() if not _same_bits(own[name], was)]
        for name in changed:
            own[name].data.copy_(kept[name])
        if changed and isinstance(sys.exception(), Exception | None):  # Ctrl-C stays Ctrl-C
            raise ModelError(
                f"The model changes its own {', '.join(changed)} in place in eval mode, so that "
                "its score depends on how often it was run, and it cannot be explained. Let it "
                "change a copy (nn.Embedding: max_norm=None). The values are what they were."
            )


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    first, second = (each.detach().reshape(-1).view(torch.uint8) for each in (one, other))
    return torch.equal(first, second)
