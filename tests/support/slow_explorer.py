"""Serves the explorer on a small random graph whose model takes its time: a script for tests.

Usage: slow_explorer.py SECONDS_A_PASS --port PORT
"""

from __future__ import annotations

import sys
import time

import torch
from torch import Tensor

from pagelink import PaGELink
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.models.architectures import RGCN
from pagelink.web.app import explore


class Slow(RGCN):
    """A model that sleeps in each pass, once it is told to."""

    seconds = 0.0

    def forward(self, *given: object, **named: object) -> Tensor:
        """Sleep, then answer."""
        time.sleep(self.seconds)
        return super().forward(*given, **named)  # type: ignore[arg-type]


if __name__ == "__main__":
    torch.set_num_threads(1)
    dataset = generate_useritemattr(seed=0)
    model = Slow.for_data(dataset.data, dataset.link_type, paper_split=True, seed=0).eval()
    explainer = PaGELink(model, dataset.data, dataset.link_type, threshold=None)
    model.seconds = float(sys.argv[1])
    explore(
        explainer, title="slow", port=int(sys.argv[-1]),
        started=lambda address: print(address, flush=True),
    )  # fmt: skip
