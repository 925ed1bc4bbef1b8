"""The explorer over HTTP: the page, and the JSON API that the page uses.

`explore` serves both for a model of one's own, from Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import fastapi
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp
from torch import Tensor

from pagelink.audit.result import Audit
from pagelink.errors import LinkError
from pagelink.explain.building import versions
from pagelink.explain.explainer import PaGELink
from pagelink.views.templates import file_text, render
from pagelink.views.verdict_wording import VERDICT_WORDS
from pagelink.web import contract
from pagelink.web.about import About
from pagelink.web.answers import MEDIA_TYPES, Format, saved
from pagelink.web.audited import AuditAsked, Audited, AuditFormat, AuditSaved, saved_audit
from pagelink.web.compared import Comparing, ContrastAsked, Contrasted, Group, GroupAsked
from pagelink.web.connections import Limits
from pagelink.web.explained import Explained
from pagelink.web.explorer import Explorer
from pagelink.web.questions import PROBLEMS, Questions, Responses, add_problems, answer
from pagelink.web.serving import Guard, address_of, check_binding, listen, serve

STATIC = Path(__file__).parent / "static"
_SCRIPT = "text/javascript"
QUICK: Responses = {code: PROBLEMS[code] for code in (404, 422)}
QUESTION: Responses = {
    202: {"model": contract.Working, "description": "Not ready: ask again."},
    **PROBLEMS,
}
FILES: Responses = {200: {"content": {kind: {} for kind in MEDIA_TYPES.values()}}}


def make_app(
    explorer: Explorer, *, token: str | None = None, questions: Questions | None = None
) -> ASGIApp:
    """Return the page and the JSON API, with its OpenAPI document at /api/openapi.json.

    Args:
        explorer: answers.
        token: who sends it is let in; None: only this machine is.
        questions: the queue in front of the model; None: a new one.
    """
    questions = questions or Questions()
    relied = [name for name, words in VERDICT_WORDS.items() if words.is_relied]
    api = FastAPI(
        title="pagelink explorer",
        version=versions()["pagelink"],
        description="Predicted links of one model on one graph, and why the model predicts them.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # its pages would load scripts from elsewhere
        redoc_url=None,
    )
    add_problems(api)
    explorer.explainers.watch(questions.check)
    comparing = Comparing(explorer)

    @api.get("/api/about")
    def about() -> About:
        """What is served: the link type, the node types, the relations, the settings."""
        return explorer.about

    @api.get("/api/nodes", responses=QUICK)
    def nodes(given: Annotated[contract.SearchAsked, Query()]) -> contract.Nodes:
        """Find nodes by name; nothing typed gives those of the highest degree."""
        return explorer.search(given.type, given.q, given.limit)

    @api.get("/api/node", responses=QUICK)
    def node(given: Annotated[contract.NodeAsked, Query()]) -> contract.NodeCard:
        """What is known of a node: its attributes and its neighbours."""
        return explorer.card(given.type, given.index, given.limit)

    @api.get("/api/sources/{index}", responses=QUICK)
    def source(
        index: Annotated[int, fastapi.Path(ge=0, le=contract.LARGEST)],
        limit: Annotated[int, Query(ge=1, le=200)] = 20,
    ) -> contract.Source:
        """What a source is linked to already."""
        return explorer.source(index, limit)

    @api.get("/api/targets", response_model=contract.Targets, responses=QUESTION)
    async def targets(request: Request, given: Annotated[contract.TargetsAsked, Query()]) -> Any:
        """List the best new targets of a source."""
        return await answer(questions, request, given, explorer.targets)

    @api.get("/api/sources", response_model=contract.Sources, responses=QUESTION)
    async def sources(request: Request, given: Annotated[contract.SourcesAsked, Query()]) -> Any:
        """List the best new sources of a target."""
        return await answer(questions, request, given, explorer.sources)

    @api.get("/api/explanation", response_model=Explained, responses=QUESTION)
    async def explanation(
        request: Request, given: Annotated[contract.ExplanationAsked, Query()]
    ) -> Any:
        """Explain a link."""
        return await answer(questions, request, given, explorer.explain, lambda both: both[1])

    @api.get("/api/save/{format}", response_class=Response, responses={**FILES, **QUESTION})
    async def save(
        request: Request, format: Format, given: Annotated[contract.SaveAsked, Query()]
    ) -> Any:
        """Give an explanation as a file, with what is switched off."""
        return await answer(
            questions, request, given, explorer.kept,
            lambda both: saved(both[0], format, both[1]),
        )  # fmt: skip

    @api.get("/api/score", response_model=contract.Score, responses=QUESTION)
    async def score(request: Request, given: Annotated[contract.EditAsked, Query()]) -> Any:
        """Score a link on the graph without some facts, and with others."""
        return await answer(questions, request, given, explorer.score)

    @api.get("/api/rank", response_model=contract.Rank, responses=QUESTION)
    async def rank(request: Request, given: Annotated[contract.RankAsked, Query()]) -> Any:
        """Rank an end of a link on the graph without some facts, and with others."""
        return await answer(questions, request, given, explorer.rank)

    @api.get("/api/counterfactual", response_model=contract.WhatIf, responses=QUESTION)
    async def counterfactual(
        request: Request, given: Annotated[contract.WhatIfAsked, Query()]
    ) -> Any:
        """Say what would have to be different for the model to decide otherwise."""
        return await answer(questions, request, given, explorer.what_if)

    @api.get("/api/contrast", response_model=Contrasted, responses=QUESTION)
    async def contrast(request: Request, given: Annotated[ContrastAsked, Query()]) -> Any:
        """Say what puts one target of a source above another."""
        return await answer(questions, request, given, comparing.contrast)

    @api.get("/api/group", response_model=Group, responses=QUESTION)
    async def group(request: Request, given: Annotated[GroupAsked, Query()]) -> Any:
        """Say what carries the best new targets of a source together."""
        return await answer(questions, request, given, comparing.group)

    @api.get("/api/audit", response_model=Audited, responses=QUESTION)
    async def audit(request: Request, given: Annotated[AuditAsked, Query()]) -> Any:
        """Give the audit, or measure one more of its links."""
        return await answer(questions, request, given, explorer.audits.audit)

    @api.get("/api/audit/{format}", response_class=Response, responses={**FILES, **QUESTION})
    async def save_audit(
        request: Request, format: AuditFormat, given: Annotated[AuditSaved, Query()]
    ) -> Any:
        """Give the audit as a file, once it is complete."""
        return await answer(
            questions, request, given, explorer.audits.saved,
            lambda found: saved_audit(found, format),
        )  # fmt: skip

    @api.delete("/api/questions/{question}", status_code=204, responses=QUICK)
    def give_up(question: str) -> None:
        """Give up a question that nobody else waits for."""
        if not questions.cancel(question):
            raise LinkError(f"There is no open question {question!r}.")

    @api.get("/static/verdicts.js", include_in_schema=False)
    def verdicts() -> Response:
        # The page asks which verdicts are good news; their words are in one table, for all views.
        return Response(f"export const RELIED = {json.dumps(relied)};\n", media_type=_SCRIPT)

    @api.get("/static/paths.css", include_in_schema=False)
    def colours() -> Response:
        # The drawing looks the same in a saved page, in the dark, too.
        return Response(render("drawing.css") + render("switchable.css"), media_type="text/css")

    @api.get("/static/audit.css", include_in_schema=False)
    def audit_style() -> Response:
        # The audit looks as it does as a page of its own.
        return Response(render("audit.css", package="pagelink.audit"), media_type="text/css")

    @api.get("/static/switchable.js", include_in_schema=False)
    def switchable() -> Response:
        # What makes switches of a drawing, shared with the notebook widget.
        return Response(file_text("switchable.js"), media_type=_SCRIPT)

    api.mount("/static", StaticFiles(directory=STATIC))

    @api.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", media_type="text/html")

    return Guard(api, token)


def explore(
    explainer: PaGELink,
    known: Tensor | None = None,
    score: Callable[[Tensor], Tensor] | None = None,
    *,
    taken: Tensor | None = None,
    title: str = "pagelink",
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    deadline: float | None = 60.0,
    limits: Limits | None = None,
    others: Mapping[str, PaGELink] | None = None,
    audit: Audit | None = None,
    started: Callable[[str], None] = print,
) -> None:
    """Serve a page that explores the predictions of an explainer's model, until interrupted.

    Args:
        explainer: an explainer of any model; the first of its link types is explored.
        known: true links that the graph may not hold, [2, num_links]: not offered as new targets.
            None: those of the explainer.
        score: from pairs [2, num_pairs] to logits, where the model embeds all nodes once and this
            is faster than asking it about each source anew.
        taken: further pairs that are no new links, such as books that were read, [2, num_pairs].
        title: what the page is called.
        host: the address; beyond this machine it takes a token.
        port: 0 takes any that is free.
        token: who opens the page with `?token=...` is let in, nobody else.
        deadline: seconds an explanation may take.
        limits: of the connections; None: those of `Limits()`.
        others: explainers of other models of the same links, to compare with, by name.
        audit: what `explainer.audit(links)` returned, to be shown.
        started: called with the address to open.

    Raises:
        SettingsError: the address is taken, a token is missing, or the audit or another model is
            about something else.
    """
    check_binding(host, token)
    listening = listen(host, port)
    explorer = Explorer(
        explainer, known, score, taken=taken, title=title, deadline=deadline, others=others,
        audit=audit,
    )  # fmt: skip
    app = make_app(explorer, token=token)
    serve(app, listening, lambda: started(address_of(listening, token)), limits)
