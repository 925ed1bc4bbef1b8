"""Whether two explanations are equal, and whether a model and its data are as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pagelink import Explanation


def equal(first: Explanation, second: Explanation) -> None:
    """Masks and logits to 1e-5; paths, unless their scores differ by less."""
    for name in ("src", "dst", "reason", "message", "notes", "epochs", "link_in_graph"):
        if name != "message" or first.reason != "predicted_negative":
            assert getattr(first, name) == getattr(second, name)
    for name in ("logit", "logit_deployed"):
        value = getattr(second, name)
        assert getattr(first, name) == (
            value if value is None else pytest.approx(value, 1e-5, 1e-5)
        )
    for edge_type in first.edge_mask:
        mine, other = first.edge_mask.stored(edge_type), second.edge_mask.stored(edge_type)
        assert np.array_equal(mine[0], other[0])
        assert mine[1] == pytest.approx(other[1], rel=0, abs=1e-5)
    assert len(first.paths) == len(second.paths)
    for path, twin in zip(first.paths, second.paths, strict=True):
        assert path.score == pytest.approx(twin.score, abs=1e-5)
        scores = [other.score for other in first.paths if other is not path]
        if min((abs(path.score - score) for score in scores), default=1.0) > 1e-5:
            assert path == twin
            assert [e.index for e in path.edges] == [e.index for e in twin.edges]


def snapshot(model: nn.Module, data: Any) -> Any:
    def freeze(value: Any) -> Any:
        return (id(value), value.clone()) if isinstance(value, Tensor) else value

    hooks = [
        {k: len(v) for k, v in vars(m).items() if k.endswith("hooks") and hasattr(v, "__len__")}
        for m in model.modules()
    ]
    return (
        [
            (n, id(p), p.detach().clone(), p.requires_grad, p.grad)
            for n, p in model.named_parameters()
        ],
        [(n, b.clone()) for n, b in model.named_buffers()],
        [m.training for m in model.modules()],
        hooks,
        [{key: freeze(value) for key, value in store.items()} for store in data.stores],
    )


def same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    return bool(first == second)
