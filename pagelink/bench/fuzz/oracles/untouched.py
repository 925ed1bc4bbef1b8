"""Whether a model, its data and what is global are as they were."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def snapshot(model: nn.Module, data: Any) -> Any:
    """All of a model and its data that a user could see change."""

    def freeze(value: Any) -> Any:
        return (id(value), value.clone()) if isinstance(value, Tensor) else value

    hooks = [
        {k: len(v) for k, v in vars(m).items() if k.endswith("hooks") and hasattr(v, "__len__")}
        for m in model.modules()
    ]
    return (
        [
            (n, id(p), p.detach().clone(), p.requires_grad, freeze(p.grad))
            for n, p in model.named_parameters()
        ],
        [(n, b.clone()) for n, b in model.named_buffers()],
        [m.training for m in model.modules()],
        hooks,
        [{key: freeze(value) for key, value in store.items()} for store in data.stores],
    )


def global_state() -> Any:
    """What belongs to the whole process: random states, and how torch is set."""
    _, keys, place, *rest = np.random.get_state()
    return (
        torch.get_rng_state(), np.asarray(keys).tobytes(), place, rest, random.getstate(),
        torch.is_grad_enabled(), torch.get_num_threads(), torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
    )  # fmt: skip


def same(first: Any, second: Any) -> bool:
    """Whether two snapshots are equal, tensors bit by bit."""
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    return bool(first == second)
