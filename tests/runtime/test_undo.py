"""Changes are undone when a context is left, with Ctrl-C at any moment."""

from __future__ import annotations

import _thread
import signal
from typing import Any

import pytest

from pagelink.runtime.undo import Undo


def test_last_change_is_undone_first() -> None:
    calls: list[str] = []
    values = {"a": 1}
    with Undo() as undo:
        undo.later(calls.append, "first")
        undo.keep(values)
        values["b"] = 2
        undo.keep(values)
        values.clear()
        undo.later(calls.append, "last")
    assert calls == ["last", "first"]
    assert values == {"a": 1}
    undo.close()
    assert calls == ["last", "first"]


def test_a_change_that_failed_is_not_undone() -> None:
    calls: list[str] = []
    with Undo() as undo:
        undo.change((calls.append, "made"), (calls.append, "undone"))
        with pytest.raises(KeyError):
            undo.change(({}.pop, "missing"), (calls.append, "never"))
    assert calls == ["made", "undone"]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")
def test_a_signal_waits_until_everything_is_undone() -> None:
    calls: list[str] = []

    def interrupt(*signal_and_frame: Any) -> None:
        raise KeyboardInterrupt

    undo = Undo()
    undo.later(calls.append, "second")
    undo.later(_thread.interrupt_main, signal.SIGUSR1)
    undo.later(calls.append, "first")
    previous = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), undo:
            pass
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert calls == ["first", "second"]
