"""Questions: a bounded queue in front of the model, one computation per question, kept answers.

One thread asks the model, since a model is not made to be asked by several at once. Whoever asks
what is being computed waits for the same computation. A question that nobody waits for any more is
given up, also in the middle: between two of the model's passes.

`answer` stands between requests and the queue: waiting, progress, and what goes wrong, in one form.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from pagelink.errors import LinkError, PageLinkError
from pagelink.web import contract

WAITING = 32
KEPT = 512
PATIENCE = 10.0
_TICK = 0.25
"""Seconds after which it is seen that somebody has gone away."""
_PROBLEMS = {
    404: ("not_found", "There is no such thing."),
    409: ("cancelled", "The question was given up."),
    422: ("invalid", "It cannot be asked like this."),
    500: ("failed", "It broke; other questions are not touched."),
    503: ("busy", "Too many questions wait: try again later."),
}
"""By status, the code of a `Problem`, and how the OpenAPI document describes it."""
Responses = dict[int | str, dict[str, Any]]
PROBLEMS: Responses = {
    status: {"model": contract.Problem, "description": described}
    for status, (_, described) in _PROBLEMS.items()
}


class BusyError(Exception):
    """There are too many questions waiting."""


class Cancelled(BaseException):
    """The question was given up while it was computed."""


class PendingAnswer:
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
        self.began = 0.0
        """When the work on it began; 0 while it waits."""
        self.calls = 0
        self.watchers = 0
        self.last_seen = time.monotonic()
        self.is_given_up = False


class Questions:
    """Answers questions one after the other.

    Args:
        waiting: questions that may wait at most; further ones are refused.
        kept: answers that are kept, those requested longest ago go first.
        patience: seconds after which a question that nobody waits for is given up.
    """

    def __init__(
        self, waiting: int = WAITING, kept: int = KEPT, patience: float = PATIENCE
    ) -> None:
        self._limit, self._kept, self._patience = waiting, kept, patience
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._open: dict[Hashable, PendingAnswer] = {}
        self._queue: deque[PendingAnswer] = deque()
        self._answers: OrderedDict[Hashable, Any] = OrderedDict()
        self._current: PendingAnswer | None = None
        self._worker = threading.Thread(target=self._work, name="pagelink-model", daemon=True)
        self._worker.start()

    def ask(self, key: Hashable, compute: Callable[[], Any]) -> PendingAnswer:
        """Return the question under way for a key, or a new one; its future may be done already.

        Raises:
            BusyError: too many questions are waiting.
        """
        with self._changed:
            if key in self._answers:
                self._answers.move_to_end(key)
                answered = PendingAnswer(key, 0, compute)
                answered.future.set_result(self._answers[key])
                return answered
            question = self._open.get(key)
            if question is None or question.is_given_up:
                self._drop_forgotten()
                if len(self._queue) >= self._limit:
                    raise BusyError
                question = PendingAnswer(key, next(self._numbers), compute)
                self._open[key] = question
                self._queue.append(question)
                self._changed.notify()
            question.last_seen = time.monotonic()
            return question

    def ahead(self, question: PendingAnswer) -> int:
        """Return how many questions come before one."""
        with self._changed:
            if question not in self._queue:
                return 0
            return self._queue.index(question) + (self._current is not None)

    def progress(self, question: PendingAnswer) -> contract.Working:
        """Return how far a question is."""
        began = question.began
        return contract.Working(
            question=question.id,
            state="working" if began else "waiting",
            ahead=self.ahead(question),
            seconds=round(time.monotonic() - began, 2) if began else 0.0,
            calls=question.calls,
        )

    def watch(self, question: PendingAnswer) -> None:
        """Say that somebody waits for a question."""
        with self._changed:
            question.watchers += 1

    def leave(self, question: PendingAnswer) -> None:
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

    def _is_forgotten(self, question: PendingAnswer) -> bool:
        return not question.watchers and time.monotonic() - question.last_seen > self._patience

    def _drop_forgotten(self) -> None:
        for question in [q for q in self._queue if self._is_forgotten(q)]:
            self._give_up(question)

    def _give_up(self, question: PendingAnswer) -> None:
        question.is_given_up = True
        if question in self._queue:
            self._queue.remove(question)
            del self._open[question.key]
            question.future.set_exception(Cancelled())

    def _next(self) -> PendingAnswer:
        with self._changed:
            while True:
                self._drop_forgotten()
                if self._queue:
                    self._current = self._queue.popleft()
                    self._current.began = time.monotonic()
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


def problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An answer that says why there is none."""
    code, _ = _PROBLEMS.get(status, _PROBLEMS[422])
    if status == 503:
        headers = {"Retry-After": "2"}
    return JSONResponse({"code": code, "message": message}, status, headers)


def add_problems(api: FastAPI) -> None:
    """Give whatever goes wrong the form of a Problem."""

    @api.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        said = "; ".join(
            f"{'.'.join(str(part) for part in each['loc'][1:])}: {each['msg']}"
            for each in error.errors()[:5]
        )
        return problem(422, said)

    @api.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, f"{error.detail}.", error.headers)

    @api.exception_handler(PageLinkError)
    async def wrong(_: Request, error: PageLinkError) -> JSONResponse:
        return problem(404 if isinstance(error, LinkError) else 422, str(error))


async def answer(
    questions: Questions, request: Request, given: contract.ModelRequest,
    compute: Callable[..., Any], shown: Callable[[Any], Any] = lambda answer: answer,
) -> Any:  # fmt: skip
    """Put a question into the queue; return its answer, how far it is, or why there is none.

    Args:
        questions: the queue.
        request: who asks.
        given: what is asked; the same is computed once.
        compute: computes it from what is given, in the thread of the model.
        shown: what of the answer is sent.
    """
    key = compute.__name__, *given.arguments
    try:
        question = questions.ask(key, partial(compute, *given.arguments))
    except BusyError:
        return problem(503, "Too many questions are waiting for the model. Try again soon.")
    questions.watch(question)
    try:
        await _wait(request, question, given.wait)
    finally:
        questions.leave(question)
    if not question.future.done():
        return JSONResponse(questions.progress(question).model_dump(), 202)
    try:
        return shown(question.future.result())
    except Cancelled:
        return problem(409, "The question was given up.")
    except PageLinkError:
        raise
    except Exception as error:
        first = f"{type(error).__name__}: {error}".splitlines()[0]
        print(f"pagelink: {key} failed: {first}", file=sys.stderr)
        return problem(500, f"The model could not be asked this: {first}")


async def _wait(request: Request, question: PendingAnswer, seconds: float) -> None:
    until = time.monotonic() + seconds
    future = asyncio.wrap_future(question.future)
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    while not future.done() and time.monotonic() < until:
        await asyncio.wait({future}, timeout=min(_TICK, max(until - time.monotonic(), 0)))
        if await request.is_disconnected():
            return
