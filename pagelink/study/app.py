"""The pages of the study: one question at a time, for everyone who has a key.

What people send is small forms, from the pages of the study itself. Whatever cannot be answered is
answered by a page that says why.
"""

from __future__ import annotations

import base64
import re
import sys
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, FastAPI, Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pagelink.errors import StudyBusyError, StudyDamagedError, StudyError
from pagelink.study.database import Study
from pagelink.study.questions import BACKGROUNDS, LONGEST_LINE
from pagelink.views.templates import render
from pagelink.web.serving import Guard

OPEN_PATHS = ("/p/", "/static/")
"""What needs no token: the keys in personal addresses cannot be guessed."""
WAIT = 5.0
"""Seconds to wait for the file of the study before saying that it is busy."""
MOST_BYTES = 8192
_MOST_FIELDS = 10
_FORM = "application/x-www-form-urlencoded"
_KEY = re.compile(r"[A-Za-z0-9_-]{8,128}")
_NUMBER = re.compile(r"[0-9]{1,9}")
# A page holds the key of a person in its address: nobody stores it, and no other site is told it.
# `same-origin` and not `no-referrer`, under which browsers hide where a form comes from.
_PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
_QUESTIONS_A_MINUTE = 2
_RETRY_AFTER = 3


class Refusal(HTTPException):
    """A request that is answered by a page saying why it is not taken."""

    def __init__(self, status: int, heading: str, text: str) -> None:
        super().__init__(status, text)
        self.heading = heading


def is_cross_site(headers: Headers) -> bool:
    """Return whether a browser says that another site sends this.

    Browsers say where a request comes from by `Sec-Fetch-Site`, or by `Origin` where they leave
    that out, as they do for plain HTTP. What is no browser says neither.

    Example:
        >>> is_cross_site(Headers({"sec-fetch-site": "same-origin"}))
        False
        >>> is_cross_site(Headers({"origin": "http://elsewhere.org", "host": "here.org"}))
        True
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    # The scheme may differ behind a server that ends TLS.
    return origin is not None and urlsplit(origin).netloc != headers.get("host", "")


async def posted(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a name that comes twice, the last.

    Raises:
        Refusal: another site sends it, or it is too long, or no form.
    """
    if is_cross_site(request.headers):
        raise Refusal(403, "Not from here", "This was sent by another site, and is not taken.")
    if request.headers.get("content-type", _FORM).split(";")[0].strip().lower() != _FORM:
        raise Refusal(415, "Not a form", "Only the forms of these pages are taken.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise Refusal(413, "Too long", "What was sent is longer than any form of these pages.")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise Refusal(400, "Not a form", "Only the forms of these pages are taken.") from error
    fields = dict(pairs)
    request.state.fields = fields  # a page that asks to send it again needs it
    return fields


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
    """Return the pages of a study behind their guard.

    Functions without `async` run in threads: each may wait for the file of the study.

    Args:
        study: the open study.
        token: whoever joins by the first page needs it; those with a personal address do not.
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
        """What this is, what is stored, and a button to begin."""
        minutes = max(1, round(study.total / _QUESTIONS_A_MINUTE))
        return _page(
            "welcome.html", title, link_type=link_type, questions=study.total, minutes=minutes
        )

    @app.post("/join")
    def join(form: Form) -> Response:
        return RedirectResponse(f"/p/{study.join()}", 303)

    @app.get("/p/{key}")
    def start(key: Person, request: Request) -> Response:
        """The person's own address, and their background if they like."""
        answered, total = study.progress(key)
        if answered or study.background(key) != (None, None):
            return go_on(key, kept="kept" in request.query_params)
        return _page(
            "start.html", title, key=key, total=total, link_type=link_type,
            levels=BACKGROUNDS.items(), longest=LONGEST_LINE,
        )  # fmt: skip

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
        # What comes next is a request of its own, so that this answer says one thing: it is saved.
        return RedirectResponse(f"/p/{key}{'' if saved else '?kept'}", 303)

    @app.get("/p/{key}/thanks")
    def thanks(key: Person, request: Request) -> Response:
        if study.next_page(key) is not None:
            return go_on(key)
        answered, kept = study.progress(key)[0], "kept" in request.query_params
        return _page("thanks.html", title, answered=answered, kept=kept)

    @app.get("/p/{key}/{number}")
    def question(key: Person, number: str, request: Request) -> Response:
        page = study.next_page(key)
        if page is None or number != str(page.number):
            # Who comes back to a question that is answered is told so.
            answered = page.number if page is not None else study.progress(key)[0] + 1
            earlier = _NUMBER.fullmatch(number) is not None and 0 < int(number) < answered
            return go_on(key, kept=earlier)
        drawings = [(_as_image(shown.svg), _as_image(shown.narrow)) for shown in page.shown]
        kept = "kept" in request.query_params
        return _page("question.html", title, key=key, page=page, drawings=drawings, kept=kept)

    _add_refusals(app, title)
    static = files("pagelink.study").joinpath("static")
    app.mount("/static", StaticFiles(directory=str(static)))
    return Guard(app, token, OPEN_PATHS)


def _page(template: str, title: str, status: int = 200, **values: Any) -> HTMLResponse:
    html = render(template, package="pagelink.study", study=title, status=status, **values)
    return HTMLResponse(html, status, headers=_PRIVATE)


def _as_image(svg: str) -> str:
    """Return a drawing as an address: an image runs no scripts, and loads nothing."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _add_refusals(app: FastAPI, title: str) -> None:
    """Make a kind page of everything that cannot be answered."""

    def message(
        status: int, heading: str, text: str, onward: tuple[str, str] | None = None,
        again: tuple[str, dict[str, str]] | None = None,
    ) -> Response:  # fmt: skip
        """What went wrong, and a way on: an address with its label, or a form to send again."""
        values = {"heading": heading, "text": text, "onward": onward, "again": again}
        return _page("message.html", title, status, **values)

    def back(request: Request) -> tuple[str, str]:
        key = request.path_params.get("key")
        return ("/", "To the first page") if key is None else (f"/p/{key}", "Go on where you were")

    @app.exception_handler(Refusal)
    def refused(request: Request, why: Refusal) -> Response:
        onward = back(request) if why.status_code != 404 else None
        return message(why.status_code, why.heading, why.detail, onward)

    @app.exception_handler(StudyBusyError)
    def busy(request: Request, why: StudyBusyError) -> Response:
        text = "Nothing is lost, but it is not saved yet: please try again in a moment."
        onward, again = (request.url.path, "Try again"), None
        if request.method != "GET":
            again = request.url.path, request.state.fields
        answer = message(503, "Busy just now", text, onward, again)
        answer.headers["Retry-After"] = str(_RETRY_AFTER)
        return answer

    @app.exception_handler(StudyDamagedError)
    def damaged(request: Request, why: StudyDamagedError) -> Response:
        print(f"pagelink: {why}", file=sys.stderr)
        text = "The fault is on this side: please tell whoever sent you here."
        return message(500, "Something went wrong", text)

    @app.exception_handler(StudyError)
    def unfit(request: Request, why: StudyError) -> Response:
        return message(400, "That could not be taken", str(why), back(request))

    @app.exception_handler(HTTPException)
    def other(request: Request, why: HTTPException) -> Response:
        if why.status_code == 404:
            return message(404, "There is no such page", "Is the address complete?")
        return message(why.status_code, "That cannot be done here", str(why.detail))

    @app.exception_handler(Exception)
    def broken(request: Request, why: Exception) -> Response:
        text = "The fault is on this side. What you had saved before is kept. Please try again."
        return message(500, "Something went wrong", text, back(request))
