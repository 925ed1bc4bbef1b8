"""What people send: small forms, from the pages of the study itself."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse

from pagelink.study.questions import BACKGROUNDS, LONGEST_LINE, Page, Shown
from pagelink.views.templates import render

MOST_BYTES = 8192
_MOST_FIELDS = 10
_FORM = "application/x-www-form-urlencoded"


class Refusal(Exception):  # noqa: N818 - no fault of the program: a page is made of it
    """A request that is answered by a page saying why it is not taken."""

    def __init__(self, status: int, heading: str, text: str) -> None:
        super().__init__(heading)
        self.status, self.heading, self.text = status, heading, text


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


# The pages of the study as they are sent: templates filled, drawings put in.


# A page holds the key of a person in its address: nobody stores it, and no other site is told it.
# `same-origin` and not `no-referrer`, under which browsers hide where a form comes from.
_PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
_QUESTIONS_A_MINUTE = 2
_RETRY_AFTER = 3


@dataclass(frozen=True)
class Again:
    """The same form once more."""

    action: str
    fields: Mapping[str, str]
    label: str


@dataclass(frozen=True)
class Onward:
    """A way on."""

    address: str
    label: str


def welcome(title: str, link_type: str, questions: int) -> HTMLResponse:
    """What this is, what is stored, and a button to begin."""
    minutes = max(1, round(questions / _QUESTIONS_A_MINUTE))
    return _page("welcome.html", title, link_type=link_type, questions=questions, minutes=minutes)


def start(title: str, link_type: str, key: str, total: int) -> HTMLResponse:
    """The person's own address, and their background if they like."""
    return _page(
        "start.html", title, key=key, total=total, link_type=link_type,
        levels=BACKGROUNDS.items(), longest=LONGEST_LINE,
    )  # fmt: skip


def question(title: str, key: str, page: Page, *, kept: bool) -> HTMLResponse:
    """One question; `kept`: say that an earlier answer stays."""
    drawings = [_as_image(shown) for shown in page.shown]
    return _page("question.html", title, key=key, page=page, drawings=drawings, kept=kept)


def thanks(title: str, answered: int, *, kept: bool) -> HTMLResponse:
    """The end."""
    return _page("thanks.html", title, answered=answered, kept=kept)


def message(
    title: str, status: int, heading: str, *texts: str, onward: Onward | None = None
) -> HTMLResponse:
    """What went wrong, in words, and a way on if there is one."""
    return _page(
        "message.html", title, status, heading=heading, texts=texts, again=None, onward=onward
    )  # fmt: skip


def busy(title: str, again: Again | None, onward: Onward | None) -> HTMLResponse:
    """The file cannot be written now: nothing is saved, and the same can be sent again."""
    text = "Nothing is lost, but it is not saved yet: please try again in a moment."
    answer = _page(
        "message.html", title, 503, heading="Busy just now", texts=(text,), again=again,
        onward=onward,
    )  # fmt: skip
    answer.headers["Retry-After"] = str(_RETRY_AFTER)
    return answer


def _page(template: str, title: str, status: int = 200, **values: Any) -> HTMLResponse:
    html = render(template, package="pagelink.study", study=title, status=status, **values)
    return HTMLResponse(html, status, headers=_PRIVATE)


def _as_image(shown: Shown) -> str:
    """Return a drawing as an address: an image runs no scripts, and loads nothing."""
    return "data:image/svg+xml;base64," + base64.b64encode(shown.svg.encode()).decode()
