"""Arrays to a device and back, by one copy for all of them: each copy waits for the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pagelink.runtime.arrays import Floats

ALIGNED = 8
"""Bytes at a multiple of which every packed array begins."""


def to_device(arrays: Sequence[npt.NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Return arrays as tensors on a device. On the CPU nothing is copied.

    Example:
        >>> to_device([np.array([1, 2]), np.array([[3]])], torch.device("cpu"))
        [tensor([1, 2]), tensor([[3]])]
    """
    if device.type == "cpu":
        return [torch.from_numpy(each) for each in arrays]
    sizes = [-(-each.nbytes // ALIGNED) * ALIGNED for each in arrays]
    packed = np.zeros(sum(sizes), dtype=np.uint8)
    for start, each in zip(np.cumsum([0, *sizes]), arrays, strict=False):
        packed[start : start + each.nbytes] = np.ascontiguousarray(each).reshape(-1).view(np.uint8)
    parts = torch.from_numpy(packed).to(device).split(sizes)
    return [
        part[: each.nbytes].view(torch.from_numpy(each[:0]).dtype).view(each.shape)
        for part, each in zip(parts, arrays, strict=True)
    ]


def to_host(tensors: Sequence[Tensor]) -> list[Floats]:
    """Return flat tensors of 32-bit numbers as arrays. On the CPU nothing is copied.

    Example:
        >>> to_host([torch.ones(2), torch.zeros(1)])
        [array([1., 1.], dtype=float32), array([0.], dtype=float32)]
    """
    detached = [each.detach() for each in tensors]
    if detached[0].device.type == "cpu":
        return [each.numpy() for each in detached]
    packed: Floats = torch.cat(detached).cpu().numpy()
    return np.split(packed, np.cumsum([len(each) for each in detached])[:-1])
