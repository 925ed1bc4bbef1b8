"""The timer of a batch, by a clock of the test's own; and a slow model under a deadline."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.zoo import make_case
from torch import Tensor

from pagelink import PaGELink, Settings
from pagelink.runtime import timer
from pagelink.runtime.timer import OutOfTimeError, Timer


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(timer.time, "perf_counter", lambda: self.now)

    def after(self, seconds: float) -> None:
        self.now += seconds


def test_a_step_is_taken_if_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    mine = Timer(9.0, spent=1.0)
    assert mine.until == 108.0
    assert mine.room() == float("inf")  # nothing is known of a step
    with mine.step(10):
        clock.after(2.0)
    assert mine.room() == pytest.approx(30)  # 6 s left
    assert mine.allows(30, "that")
    assert not mine.cut
    clock.after(4.5)
    assert mine.room() == 0  # 1.5 s left, and a smaller step may take as long
    assert not mine.allows(0, "that")  # not even over no edges
    assert mine.cut == "that"
    mine.stop("something else")
    assert mine.cut == "that"  # what was cut first
    assert not mine.is_over()
    clock.after(1.5)
    assert mine.is_over()


def test_what_any_answer_needs_has_a_little_more(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    for deadline, more in ((8.0, 2.0), (0.0, 0.1)):
        mine = Timer(deadline)
        assert mine.until is not None
        assert mine.last == pytest.approx(mine.until + more)
        with mine.step(1):
            clock.after(5.0)
        with mine.step(1):
            clock.after(5.0)
        assert mine.last == pytest.approx(mine.until + more + 5.0)  # the first pass is needed, too


def test_several_links_have_a_share_and_then_each_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    mine = Timer(10.0, num_links=8)
    assert mine.until == mine.last == 120.0
    clock.after(5.0)
    assert mine.search_end() == 115.0  # no link has more than its deadline
    clock.after(7.0)
    assert mine.search_end() == 120.0
    clock.after(9.0)
    with pytest.raises(OutOfTimeError):
        mine.allows(1, "that")
    assert mine.cut == "that"


def test_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    mine = Timer(None)
    with mine.step(1):
        clock.after(1e9)
    assert mine.allows(1e9, "that")
    assert mine.until is mine.last is mine.search_end() is None
    assert not mine.is_over()
    assert not mine.cut


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
