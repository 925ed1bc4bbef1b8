"""The timer of a batch, by a clock of the test's own; and a slow model under a deadline."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.zoo import make_case
from torch import Tensor

from pagelink import PaGELink, Settings
from pagelink.runtime import timer
from pagelink.runtime.timer import Timer


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(timer.time, "perf_counter", lambda: self.now)

    def after(self, seconds: float) -> None:
        self.now += seconds


def test_stops_before_a_step_that_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    mine = Timer(5.0, num_links=2, spent=1.0)
    assert mine.until == 109.0
    clock.after(1.0)
    assert not mine.no_time_for_another()  # 8 s left, and nothing known of a step
    clock.after(3.0)
    assert not mine.no_time_for_another()  # 5 s left, a step took 3
    clock.after(2.5)
    assert mine.no_time_for_another()  # 2.5 s left, the longest step took 3
    assert not mine.is_over()
    clock.after(10.0)
    assert mine.is_over()


def test_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    mine = Timer(None)
    clock.after(1e9)
    assert not mine.no_time_for_another()
    assert mine.until is None
    assert not mine.is_over()


def test_a_slow_model_is_stopped_and_the_best_paths_are_returned() -> None:
    case = make_case("HeteroConv SAGE")
    pause = 0.0

    def forward(model: Any, data: Any, links: Tensor) -> Tensor:
        time.sleep(pause)
        out: Tensor = model(data.x_dict, data.edge_index_dict, links)
        return out

    def explainer(**settings: Any) -> PaGELink:
        return PaGELink(
            case.model, case.data, case.link_type, Settings(patience=None, **settings),
            forward=forward, threshold=None,
        )  # fmt: skip

    free, hurried = explainer(), explainer(deadline=0.5)
    link = next((s, t) for s in range(9) for t in range(9) if free.explain(s, t).paths)
    pause = 0.05
    started = time.perf_counter()
    late = hurried.explain(*link)
    took = time.perf_counter() - started
    started = time.perf_counter()
    whole = free.explain(*link)
    assert took < time.perf_counter() - started
    assert late.reason == "out_of_time"
    assert late.paths
    assert 0 < late.epochs < whole.epochs == 20
