from __future__ import annotations

import threading
import time

import pytest

from pagelink.web.questions import BusyError, Cancelled, Questions


class Gate:
    """A computation that waits to be let through, and counts how often it ran."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self.entered, self.open = threading.Event(), threading.Event()
        self.runs = 0

    def __call__(self) -> str:
        self.runs += 1
        self.entered.set()
        while not self.open.wait(0.01):
            self._questions.check()
        return "through"


def test_the_same_question_is_computed_once_and_kept() -> None:
    questions = Questions()
    gate = Gate(questions)
    first, second = questions.ask("a", gate), questions.ask("a", gate)
    assert first is second
    gate.open.set()
    assert first.future.result(5) == "through"
    assert questions.ask("a", gate).future.result(0) == "through"
    assert gate.runs == 1


def test_what_was_asked_longest_ago_is_forgotten() -> None:
    questions = Questions(kept=2)
    runs = []

    def ask(key: str) -> None:
        questions.ask(key, lambda: runs.append(key)).future.result(5)

    for key in ("a", "b", "a", "c", "a", "b"):
        ask(key)
    assert runs == ["a", "b", "c", "b"]


def test_too_many_questions_are_refused_and_those_there_are_answered() -> None:
    questions = Questions(waiting=2)
    gate = Gate(questions)
    running = questions.ask("running", gate)
    assert gate.entered.wait(5)
    waiting = [questions.ask("a", lambda: "a"), questions.ask("b", lambda: "b")]
    with pytest.raises(BusyError):
        questions.ask("c", lambda: "c")
    assert questions.ask("b", lambda: "b") is waiting[1], "joining is no new question"
    assert [questions.ahead(question) for question in (running, *waiting)] == [0, 1, 2]
    gate.open.set()
    answers = [question.future.result(5) for question in (running, *waiting)]
    assert answers == ["through", "a", "b"]
    assert questions.ask("c", lambda: "c").future.result(5) == "c"


def test_questions_that_nobody_waits_for_take_no_place() -> None:
    questions = Questions(waiting=2, patience=0.5)
    gate = Gate(questions)
    running = questions.ask("running", gate)
    questions.watch(running)
    assert gate.entered.wait(5)
    left = [questions.ask(key, lambda: "left") for key in ("a", "b")]
    with pytest.raises(BusyError):
        questions.ask("c", lambda: "c")
    time.sleep(0.6)
    asked = questions.ask("c", lambda: "c")
    assert all(isinstance(each.future.exception(5), Cancelled) for each in left)
    questions.watch(asked)
    gate.open.set()
    assert (running.future.result(5), asked.future.result(5)) == ("through", "c")


def test_one_that_breaks_costs_only_itself_and_is_tried_again() -> None:
    questions = Questions()
    broken = questions.ask("a", lambda: 1 / 0)
    assert isinstance(broken.future.exception(5), ZeroDivisionError)
    assert questions.ask("b", lambda: 2).future.result(5) == 2
    assert questions.ask("a", lambda: 3).future.result(5) == 3


def test_a_question_under_way_is_given_up_between_two_passes() -> None:
    questions = Questions()
    gate = Gate(questions)
    question = questions.ask("a", gate)
    assert gate.entered.wait(5)
    assert questions.cancel(question.id)
    assert isinstance(question.future.exception(5), Cancelled)
    assert question.calls >= 1
    again = questions.ask("a", lambda: "anew")
    assert again.future.result(5) == "anew"


def test_a_waiting_question_is_given_up_at_once() -> None:
    questions = Questions()
    gate = Gate(questions)
    questions.ask("running", gate)
    assert gate.entered.wait(5)
    waiting = questions.ask("a", lambda: "a")
    assert questions.cancel(waiting.id)
    assert isinstance(waiting.future.exception(0), Cancelled)
    gate.open.set()


def test_nobody_gives_up_what_others_wait_for() -> None:
    questions = Questions()
    gate = Gate(questions)
    question = questions.ask("a", gate)
    questions.watch(question)
    assert questions.cancel(question.id)
    gate.open.set()
    assert question.future.result(5) == "through"
    assert not questions.cancel(question.id)


def test_what_nobody_waits_for_is_forgotten() -> None:
    questions = Questions(patience=0.5)
    gate = Gate(questions)
    question = questions.ask("a", gate)
    assert isinstance(question.future.exception(5), Cancelled)


def test_only_the_thread_of_the_model_is_stopped() -> None:
    questions = Questions()
    gate = Gate(questions)
    question = questions.ask("a", gate)
    assert gate.entered.wait(5)
    question.is_given_up = True
    questions.check()  # by whoever else uses the model meanwhile
    assert isinstance(question.future.exception(5), Cancelled)
