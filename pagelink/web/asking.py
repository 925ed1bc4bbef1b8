"""Between requests and the queue: waiting, progress, and what goes wrong, in one form."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from pagelink.errors import LinkError, PageLinkError
from pagelink.web import contract
from pagelink.web.questions import BusyError, Cancelled, Question, Questions

Responses = dict[int | str, dict[str, Any]]
PROBLEMS: Responses = {
    404: {"model": contract.Problem, "description": "There is no such thing."},
    409: {"model": contract.Problem, "description": "The question was given up."},
    422: {"model": contract.Problem, "description": "It cannot be asked like this."},
    500: {"model": contract.Problem, "description": "It broke; other questions are not touched."},
    503: {"model": contract.Problem, "description": "Too many questions wait: try again later."},
}
_CODES = {
    404: "not_found",
    405: "invalid",
    409: "cancelled",
    422: "invalid",
    500: "failed",
    503: "busy",
}
_TICK = 0.25
"""Seconds after which it is seen that somebody has gone away."""


def problem(status: int, message: str) -> JSONResponse:
    """An answer that says why there is none."""
    headers = {"Retry-After": "2"} if status == 503 else None
    return JSONResponse({"code": _CODES[status], "message": message}, status, headers)


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
        code = _CODES.get(error.status_code, "invalid")
        said = {"code": code, "message": f"{error.detail}."}
        return JSONResponse(said, error.status_code, error.headers)

    @api.exception_handler(PageLinkError)
    async def wrong(_: Request, error: PageLinkError) -> JSONResponse:
        return problem(404 if isinstance(error, LinkError) else 422, str(error))


class Desk:
    """Puts questions into the queue, and waits for their answers.

    Args:
        questions: the queue.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def answer(
        self,
        request: Request,
        wait: float,
        compute: Callable[..., Any],
        *given: Hashable,
        shown: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """Return the answer, how far it is, or why there is none.

        Args:
            request: who asks.
            wait: seconds to wait.
            compute: computes it, in the thread of the model.
            given: what it is given; the same with the same is computed once.
            shown: what of the answer is sent.
        """
        key = compute.__name__, *given
        try:
            question = self._questions.ask(key, partial(compute, *given))
        except BusyError:
            return problem(503, "Too many questions are waiting for the model. Try again soon.")
        self._questions.watch(question)
        try:
            await self._wait(request, question, wait)
        finally:
            self._questions.leave(question)
        if not question.future.done():
            return self._progress(question)
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

    async def _wait(self, request: Request, question: Question, seconds: float) -> None:
        until = time.monotonic() + seconds
        future = asyncio.wrap_future(question.future)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        while not future.done() and time.monotonic() < until:
            await asyncio.wait({future}, timeout=min(_TICK, max(until - time.monotonic(), 0)))
            if await request.is_disconnected():
                return

    def _progress(self, question: Question) -> JSONResponse:
        working = contract.Working(
            question=question.id,
            state=question.state,
            ahead=self._questions.ahead(question),
            seconds=round(question.seconds, 2),
            calls=question.calls,
        )
        return JSONResponse(working.model_dump(), 202)

    def give_up(self, question: str) -> None:
        """Give up a question.

        Raises:
            LinkError: there is none such.
        """
        if not self._questions.cancel(question):
            raise LinkError(f"There is no open question {question!r}.")
