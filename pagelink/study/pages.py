"""The pages of the study as they are sent: templates filled, drawings put in."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import HTMLResponse

from pagelink.study.questions import BACKGROUNDS, LONGEST_LINE, Page, Shown
from pagelink.views.rendering import render

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
