"""The pages of the study: one question at a time, for everyone who has a key."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pagelink.errors import StudyBusyError, StudyError
from pagelink.study import pages
from pagelink.study.database import Study
from pagelink.study.pages import Refusal, posted
from pagelink.web.serving import Guard

OPEN_PATHS = ("/p/", "/static/")
"""What needs no token: the keys in personal addresses cannot be guessed."""
WAIT = 5.0
"""Seconds to wait for the file of the study before saying that it is busy."""
_KEY = re.compile(r"[A-Za-z0-9_-]{8,128}")
_NUMBER = re.compile(r"[0-9]{1,9}")


def person(key: str, request: Request) -> str:
    """Let only those in whom the study knows."""
    study: Study = request.app.state.study
    if _KEY.fullmatch(key) is None or not study.is_participant(key):
        raise Refusal(
            404, "This address is not known here",
            "Is it complete? A personal address ends in letters and digits that must all be "
            "there. If it is, please ask whoever sent it for a new one.",
        )  # fmt: skip
    return key


Form = Annotated[dict[str, str], Depends(posted)]
Person = Annotated[str, Depends(person)]


def application(study: Study, token: str | None = None) -> ASGIApp:
    """Return the pages behind their guard.

    Args:
        study: the open study.
        token: whoever joins by the first page needs it; those with a personal address do not.
    """
    return Guard(pages_of(study), token, OPEN_PATHS)


def pages_of(study: Study) -> FastAPI:
    """Return the pages of a study.

    Functions without `async` run in threads: each may wait for the file of the study.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.study = study
    title, link_type = study.about.title, study.about.link_type

    def go_on(key: str, *, kept: bool = False) -> Response:
        """Lead to the question that is open, or to the end."""
        page = study.next_page(key)
        place = "thanks" if page is None else str(page.number)
        return RedirectResponse(f"/p/{key}/{place}{'?kept' if kept else ''}", 303)

    @app.get("/")
    def welcome() -> Response:
        return pages.welcome(title, link_type, study.total)

    @app.post("/join")
    def join(form: Form) -> Response:
        return RedirectResponse(f"/p/{study.join()}", 303)

    @app.get("/p/{key}")
    def start(key: Person, request: Request) -> Response:
        answered, total = study.progress(key)
        if answered or study.background(key) != (None, None):
            return go_on(key, kept="kept" in request.query_params)
        return pages.start(title, link_type, key, total)

    @app.post("/p/{key}/background")
    def background(form: Form, key: Person) -> Response:
        study.set_background(key, form.get("level") or None, form.get("line") or None)
        return go_on(key)

    @app.post("/p/{key}/answer")
    def answer(form: Form, key: Person) -> Response:
        question, choice = form.get("question", ""), form.get("choice", "")
        if _NUMBER.fullmatch(question) is None or not choice:
            raise StudyError("An answer needs a choice.")
        saved = study.answer(key, int(question), choice)
        # What comes next is asked for apart, so that this answer says one thing: it is saved.
        return RedirectResponse(f"/p/{key}{'' if saved else '?kept'}", 303)

    @app.get("/p/{key}/thanks")
    def thanks(key: Person, request: Request) -> Response:
        if study.next_page(key) is not None:
            return go_on(key)
        return pages.thanks(title, study.progress(key)[0], kept="kept" in request.query_params)

    @app.get("/p/{key}/{number}")
    def question(key: Person, number: str, request: Request) -> Response:
        page = study.next_page(key)
        if page is None or number != str(page.number):
            # Who comes back to a question that is answered is told so.
            answered = page.number if page is not None else study.progress(key)[0] + 1
            earlier = _NUMBER.fullmatch(number) is not None and 0 < int(number) < answered
            return go_on(key, kept=earlier)
        return pages.question(title, key, page, kept="kept" in request.query_params)

    _add_refusals(app, title)
    static = files("pagelink.study").joinpath("static")
    app.mount("/static", StaticFiles(directory=str(static)))
    return app


def _add_refusals(app: FastAPI, title: str) -> None:
    """Make a kind page of everything that cannot be answered."""

    def back(request: Request) -> pages.Onward:
        key = request.path_params.get("key")
        if key is None:
            return pages.Onward("/", "To the first page")
        return pages.Onward(f"/p/{key}", "Go on where you were")

    @app.exception_handler(Refusal)
    def refused(request: Request, why: Refusal) -> Response:
        onward = back(request) if why.status != 404 else None
        return pages.message(title, why.status, why.heading, why.text, onward=onward)

    @app.exception_handler(StudyBusyError)
    def busy(request: Request, why: StudyBusyError) -> Response:
        if request.method == "GET":
            return pages.busy(title, None, pages.Onward(request.url.path, "Try again"))
        again = pages.Again(request.url.path, request.state.fields, "Send it again")
        return pages.busy(title, again, None)

    @app.exception_handler(StudyError)
    def unfit(request: Request, why: StudyError) -> Response:
        return pages.message(title, 400, "That could not be taken", str(why), onward=back(request))

    @app.exception_handler(HTTPException)
    def other(request: Request, why: HTTPException) -> Response:
        if why.status_code == 404:
            return pages.message(title, 404, "There is no such page", "Is the address complete?")
        return pages.message(title, why.status_code, "That cannot be done here", str(why.detail))

    @app.exception_handler(Exception)
    def broken(request: Request, why: Exception) -> Response:
        return pages.message(
            title, 500, "Something went wrong",
            "The fault is on this side. What you had saved before is kept. Please try again.",
            onward=back(request),
        )  # fmt: skip
