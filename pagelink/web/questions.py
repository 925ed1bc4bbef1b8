"""Questions: a bounded queue in front of the model, one computation per question, kept answers.

One thread asks the model, since a model is not made to be asked by several at once. Whoever asks
what is being computed waits for the same computation. A question that nobody waits for any more is
given up, also in the middle: between two of the model's passes.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Literal

WAITING = 32
KEPT = 512
PATIENCE = 10.0


class BusyError(Exception):
    """There are too many questions waiting."""


class Cancelled(BaseException):
    """The question was given up while it was computed."""


class Question:
    """A computation that some people wait for.

    Args:
        key: what is asked.
        number: its number among all questions.
        compute: gives the answer.
    """

    def __init__(self, key: Hashable, number: int, compute: Callable[[], Any]) -> None:
        self.key = key
        self.id = f"q{number}"
        self.compute = compute
        self.future: Future[Any] = Future()
        self.state: Literal["waiting", "working"] = "waiting"
        self.began = 0.0
        self.calls = 0
        self.watchers = 0
        self.last_seen = time.monotonic()
        self.is_given_up = False

    @property
    def seconds(self) -> float:
        """Since the work on it began."""
        return time.monotonic() - self.began if self.began else 0.0


class Questions:
    """Answers questions one after the other.

    Args:
        waiting: questions that may wait at most; further ones are refused.
        kept: answers that are kept, those asked for longest ago go first.
        patience: seconds after which a question that nobody waits for is given up.
    """

    def __init__(
        self, waiting: int = WAITING, kept: int = KEPT, patience: float = PATIENCE
    ) -> None:
        self._limit, self._kept, self._patience = waiting, kept, patience
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._open: dict[Hashable, Question] = {}
        self._queue: deque[Question] = deque()
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._current: Question | None = None
        self._worker = threading.Thread(target=self._work, name="pagelink-model", daemon=True)
        self._worker.start()

    def ask(self, key: Hashable, compute: Callable[[], Any]) -> Question:
        """Return the question under way for a key, or a new one; its future may be done already.

        Raises:
            BusyError: too many questions are waiting.
        """
        with self._changed:
            if key in self._answers:
                self._answers.move_to_end(key)
                answered = Question(key, 0, compute)
                answered.future.set_result(self._answers[key])
                return answered
            question = self._open.get(key)
            if question is None or question.is_given_up:
                if len(self._queue) >= self._limit:
                    raise BusyError
                question = Question(key, next(self._numbers), compute)
                self._open[key] = question
                self._queue.append(question)
                self._changed.notify()
            question.last_seen = time.monotonic()
            return question

    def ahead(self, question: Question) -> int:
        """Return how many questions come before one."""
        with self._changed:
            if question not in self._queue:
                return 0
            return self._queue.index(question) + (self._current is not None)

    def watch(self, question: Question) -> None:
        """Say that somebody waits for a question."""
        with self._changed:
            question.watchers += 1

    def leave(self, question: Question) -> None:
        """Say that somebody no longer does; they may come back within the patience."""
        with self._changed:
            question.watchers -= 1
            question.last_seen = time.monotonic()

    def cancel(self, identity: str) -> bool:
        """Give up a question, unless others wait for it; False if there is none such."""
        with self._changed:
            for question in self._open.values():
                if question.id == identity:
                    if question.watchers == 0:
                        self._give_up(question)
                    return True
            return False

    def check(self) -> None:
        """Count a pass of the model; called by the thread that asks it, before each pass.

        Raises:
            Cancelled: nobody waits for the answer any more.
        """
        question = self._current
        if question is None or threading.current_thread() is not self._worker:
            return
        question.calls += 1
        if question.is_given_up or self._is_forgotten(question):
            raise Cancelled

    def _is_forgotten(self, question: Question) -> bool:
        return not question.watchers and time.monotonic() - question.last_seen > self._patience

    def _give_up(self, question: Question) -> None:
        question.is_given_up = True
        if question in self._queue:
            self._queue.remove(question)
            del self._open[question.key]
            question.future.set_exception(Cancelled())

    def _next(self) -> Question:
        with self._changed:
            while True:
                for question in [q for q in self._queue if self._is_forgotten(q)]:
                    self._give_up(question)
                if self._queue:
                    self._current = self._queue.popleft()
                    self._current.state, self._current.began = "working", time.monotonic()
                    return self._current
                self._changed.wait()

    def _work(self) -> None:
        while True:
            question = self._next()
            answer: Any = None
            failure: BaseException | None = None
            try:
                answer = question.compute()
            except BaseException as error:  # whatever breaks costs this question alone
                failure = error
            with self._changed:
                self._current = None
                if self._open.get(question.key) is question:
                    del self._open[question.key]
                if failure is None:
                    self._answers[question.key] = answer
                    while len(self._answers) > self._kept:
                        self._answers.popitem(last=False)
            if failure is None:
                question.future.set_result(answer)
            else:
                question.future.set_exception(failure)
