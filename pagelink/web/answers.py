"""From the library's results to the explorer's answers."""

from __future__ import annotations

import json
import re
from typing import Literal

from fastapi import Response

from pagelink.explain.counterfactual import Counterfactual
from pagelink.explain.options import facts_along
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import fact_of
from pagelink.graph.typed_graph import TypedGraph
from pagelink.views.pages import draw
from pagelink.views.templates import Colour, colours_of, type_colours
from pagelink.views.wording import PathWords, Wording, wording
from pagelink.web import contract


def node_answer(graph: TypedGraph, node_type: str, index: int) -> contract.Node:
    """A node by its type and index."""
    flat = graph.flat_index(node_type, index)
    return contract.Node(
        type=node_type, index=index, name=graph.node_name(flat), degree=int(graph.degree[flat])
    )


def explained_answer(graph: TypedGraph, explanation: Explanation) -> contract.Explained:
    """An explanation in words, figures and a drawing."""
    said = wording(explanation)
    groups = [
        contract.Group(
            heading=group.heading,
            is_context=group.is_context,
            paths=[_path(graph, path) for path in group.paths],
        )
        for group in said.groups
    ]
    return contract.Explained(
        src=node_answer(graph, *explanation.src),
        dst=node_answer(graph, *explanation.dst),
        link=str(said.link),
        logit=explanation.logit,
        probability=explanation.probability,
        verdict=said.verdict,
        reason=explanation.reason,
        opening=list(said.opening),
        scores=_scores(said),
        score_sentence=said.score_sentence,
        noun=said.noun,
        influence=said.influence,
        groups=groups,
        caveat=said.caveat,
        figures=[contract.Figure(about=about, value=value) for about, value in said.figures],
        notes=list(said.notes),
        svg=draw(said, _colours(graph, explanation)).svg,
        text=str(explanation),
        seconds=explanation.seconds,
    )


def _colours(graph: TypedGraph, explanation: Explanation) -> dict[str, Colour]:
    """A node type has the same colour all over the page, whatever else is drawn."""
    drawn = type_colours(explanation)
    return {kind: shades for kind, shades in colours_of(graph.node_types).items() if kind in drawn}


def _path(graph: TypedGraph, told: PathWords) -> contract.Path:
    path = told.path
    steps = [
        contract.Step(
            fact=fact,
            sentence=str(step.fact),
            relation=step.fact.relation,
            backwards=step.backwards,
            details=step.details,
            influence=step.edge.influence,
        )
        for fact, step in zip(facts_along(graph, path), told.steps, strict=True)
    ]
    return contract.Path(
        number=told.rank,
        nodes=[node_answer(graph, *node) for node in path.nodes],
        steps=steps,
        remarks=list(told.remarks),
        influence=path.influence,
        marginal=path.marginal,
        is_evidence=path.is_evidence,
    )


def _scores(said: Wording) -> list[contract.Circumstance]:
    return [
        contract.Circumstance(
            circumstance=score.circumstance, chance=score.chance, raw=score.raw,
            probability=score.probability,
        )
        for score in said.scores
    ]  # fmt: skip


def what_if_answer(graph: TypedGraph, found: Counterfactual) -> contract.WhatIf:
    """What would have to be different."""
    return contract.WhatIf(
        found=found.found,
        sentence=str(found),
        facts=[
            contract.RemovedFact(
                fact=fact_of(graph, fact.type, fact.index, fact.dst), sentence=str(fact)
            )
            for fact in found.facts
        ],
        logit=found.logit,
        logit_without=found.logit_without,
        rank=found.rank,
        rank_without=found.rank_without,
        rank_of=found.rank_of,
        instead=found.instead,
    )


# Explanations as files to keep.


Format = Literal["html", "svg", "png", "json"]
MEDIA_TYPES: dict[Format, str] = {
    "html": "text/html",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
}


def saved(explanation: Explanation, kind: Format) -> Response:
    """Return an explanation as an attachment, named by the link."""
    content: str | bytes
    if kind == "html":
        content = explanation.to_html()
    elif kind == "svg":
        content = explanation.to_svg()
    elif kind == "png":
        content = explanation.to_png()
    else:
        content = json.dumps(explanation.to_dict(), ensure_ascii=False, indent=1)
    name = f"{explanation.src_name}-{explanation.dst_name}"
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:80] or "explanation"
    return Response(
        content,
        media_type=MEDIA_TYPES[kind],
        headers={"Content-Disposition": f'attachment; filename="{plain}.{kind}"'},
    )
