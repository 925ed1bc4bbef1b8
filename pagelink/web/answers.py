"""From the library's results to the explorer's answers, and to files to keep."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, TypeVar

from fastapi import Response

from pagelink.explain.counterfactual import Counterfactual
from pagelink.explain.options import facts_along
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import fact_of
from pagelink.graph.typed_graph import TypedGraph
from pagelink.views.pages import draw
from pagelink.views.templates import type_colours
from pagelink.views.wording import PathWords, wording
from pagelink.web import contract, explained

Format = Literal["html", "svg", "png", "json"]
MEDIA_TYPES: dict[Format, str] = {
    "html": "text/html",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
}
A = TypeVar("A", bound=contract.Answer)


def node_answer(graph: TypedGraph, node_type: str, index: int) -> contract.Node:
    """A node by its type and index."""
    flat = graph.flat_index(node_type, index)
    return contract.Node(
        type=node_type, index=index, name=graph.node_name(flat), degree=int(graph.degree[flat])
    )


def explained_answer(graph: TypedGraph, explanation: Explanation) -> explained.Explained:
    """An explanation in words, figures and a drawing."""
    said = wording(explanation)
    drawing = draw(said, type_colours(explanation))
    good, strong, else_ = said.equally_good, said.strongest, said.what_else
    return _filled(
        explained.Explained, said, explanation,
        src=node_answer(graph, *explanation.src),
        dst=node_answer(graph, *explanation.dst),
        link=str(said.link),
        scores=[_filled(explained.Circumstance, score) for score in said.scores],
        groups=[
            _filled(explained.Group, group, paths=[_path(graph, path) for path in group.paths])
            for group in said.groups
        ],
        ends=getattr(explanation.evidence, "ends", None),
        equally_good=good and _filled(
            explained.EquallyGood, good, sets=[_filled(explained.EqualSet, s) for s in good.sets]
        ),
        strongest=strong and _filled(
            explained.Strongest, strong,
            facts=[_filled(explained.StrongFact, f, sentence=str(f.fact)) for f in strong.facts],
        ),
        what_else=else_ and _filled(
            explained.WhatElse, else_, parts=[_filled(explained.Part, part) for part in else_.parts]
        ),
        figures=[explained.Figure(about=about, value=value) for about, value in said.figures],
        svg=drawing.svg,
        svg_narrow=drawing.narrow,
        svg_smallest=drawing.smallest,
        text=str(explanation),
    )  # fmt: skip


def _filled(answer: type[A], *sources: object, **own: Any) -> A:
    """Fill an answer: each field that is not given by the first source that has it."""
    for name in answer.model_fields.keys() - own.keys():
        own[name] = next(getattr(source, name) for source in sources if hasattr(source, name))
    return answer(**own)


def _path(graph: TypedGraph, told: PathWords) -> explained.Path:
    steps = [
        _filled(explained.Step, step, step.fact, step.edge, fact=fact, sentence=str(step.fact))
        for fact, step in zip(facts_along(graph, told.path), told.steps, strict=True)
    ]
    nodes = [node_answer(graph, *node) for node in told.path.nodes]
    return _filled(
        explained.Path, told, told.path, number=told.rank, nodes=nodes, steps=steps
    )  # fmt: skip


def what_if_answer(graph: TypedGraph, found: Counterfactual) -> contract.WhatIf:
    """What would have to be different."""
    facts = [
        contract.RemovedFact(
            fact=fact_of(graph, fact.type, fact.index, fact.dst), sentence=str(fact)
        )
        for fact in found.facts
    ]
    return _filled(contract.WhatIf, found, sentence=str(found), facts=facts)


def saved(explanation: Explanation, kind: Format) -> Response:
    """Return an explanation as an attachment, named by the link."""
    if kind == "json":
        content = json.dumps(explanation.to_dict(), ensure_ascii=False, indent=1)
    else:
        content = getattr(explanation, f"to_{kind}")()
    name = f"{explanation.src_name}-{explanation.dst_name}"
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:80] or "explanation"
    return Response(
        content,
        media_type=MEDIA_TYPES[kind],
        headers={"Content-Disposition": f'attachment; filename="{plain}.{kind}"'},
    )
