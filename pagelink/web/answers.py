"""From the library's results to the explorer's answers, and to files to keep."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from fastapi import Response
from torch_geometric.data import HeteroData

from pagelink.explain.counterfactual import Counterfactual
from pagelink.explain.options import facts_along
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import fact_of
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Doubles
from pagelink.views.drawing.arrows import Place
from pagelink.views.pages import draw, to_html, to_png, to_svg
from pagelink.views.rows import to_csv, to_rows, to_table
from pagelink.views.templates import type_colours
from pagelink.views.text import clean, numbers, words
from pagelink.views.wording import PathWords, wording
from pagelink.web import contract, explained

Format = Literal["html", "svg", "png", "json", "csv"]
MEDIA_TYPES: dict[Format, str] = {
    "html": "text/html",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
    "csv": "text/csv",
}
_STEPS = 24
_ADDRESS = re.compile(r"https?://[^\s<>\"]+")
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


def spread_of(logits: Doubles) -> contract.Spread:
    """How scores are spread: counts in equal steps from the lowest to the highest."""
    finite = logits[np.isfinite(logits)]
    if not len(finite):
        return contract.Spread(lowest=0.0, highest=0.0, counts=[0] * _STEPS)
    lowest, highest = float(finite.min()), float(finite.max())
    counts, _ = np.histogram(finite, _STEPS, (lowest, highest if highest > lowest else lowest + 1))
    return contract.Spread(lowest=lowest, highest=highest, counts=counts.tolist())


def attributes_of(data: Any, node_type: str, index: int) -> list[contract.Attribute]:
    """What the table of a node type says of a node, beside its id and its name."""
    table = data[node_type].get("attributes") if isinstance(data, HeteroData) else None
    if table is None:
        return []
    row = table.slice(index, 1).to_pylist()[0]
    said = {clean(name): clean(str(value)) for name, value in row.items() if value is not None}
    return [contract.Attribute(name=name, value=value) for name, value in said.items() if value]


def address_in(attributes: Sequence[contract.Attribute]) -> str | None:
    """The first attribute that is an address of the web; None if there is none."""
    return next((each.value for each in attributes if _ADDRESS.fullmatch(each.value)), None)


# Explanations to keep, with what is switched off.


@dataclass(frozen=True)
class SwitchedOff:
    """What was switched off when an explanation was kept."""

    places: frozenset[Place]
    """The steps of the paths that are off."""
    facts: tuple[int, ...]
    sentences: tuple[str, ...]
    rank: contract.Rank

    @property
    def note(self) -> str:
        """In one sentence."""
        rank = self.rank
        facts = f"Switched off: {'; '.join(self.sentences)}." if self.sentences else ""
        before, after = numbers(rank.logit_before, rank.logit)
        return (
            f"{facts} Without {'this fact' if len(self.facts) == 1 else 'these facts'} the score "
            f"is {after} instead of {before}, and the rank {rank.rank:,} instead of "
            f"{rank.rank_before:,} of {rank.of:,}."
        ).strip()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"facts": self.facts, "sentences": self.sentences, **self.rank.model_dump()}


def switched_off(graph: TypedGraph, explanation: Explanation, rank: contract.Rank) -> SwitchedOff:
    """What is off of an explanation, by the facts of `rank`."""
    off = set(rank.off)
    places: set[Place] = set()
    sentences: dict[int, str] = {}
    for path in wording(explanation).paths:
        facts = facts_along(graph, path.path)
        for at, (fact, step) in enumerate(zip(facts, path.steps, strict=True)):
            if fact in off:
                places.add((path.rank, at))
                sentences[fact] = str(step.fact)
    for fact in off - sentences.keys():
        sentences[fact] = fact_sentence(graph, fact)
    told = tuple(sentences[fact] for fact in rank.off)
    return SwitchedOff(frozenset(places), tuple(rank.off), told, rank)


def fact_sentence(graph: TypedGraph, fact: int) -> str:
    """A fact in words."""
    edge = int(graph.representative[fact])
    said, turned = graph.relation_words(graph.edge_types[graph.relation[edge]])
    ends = [clean(graph.node_name(int(node))) for node in (graph.src[edge], graph.dst[edge])]
    subject, thing = ends[::-1] if turned else ends
    return f"{subject} {words(said)} {thing}"


def saved(explanation: Explanation, kind: Format, off: SwitchedOff | None = None) -> Response:
    """Return an explanation as an attachment, named by the link.

    Args:
        explanation: what is kept.
        kind: the kind of file.
        off: what is switched off.
    """
    places = off.places if off else frozenset()
    if off is not None:
        explanation = replace(explanation, notes=(*explanation.notes, off.note))
    content: str | bytes
    if kind == "json":
        values = explanation.to_dict()
        values["switched_off"] = off.to_dict() if off else None
        content = json.dumps(values, ensure_ascii=False, indent=1)
    elif kind == "csv":
        content = to_csv(to_table(to_rows(explanation)))
    elif kind == "html":
        content = to_html(explanation, places)
    elif kind == "svg":
        content = to_svg(explanation, places)
    else:
        content = to_png(explanation, off=places)
    name = f"{explanation.src_name}-{explanation.dst_name}"
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:80] or "explanation"
    return Response(
        content,
        media_type=MEDIA_TYPES[kind],
        headers={"Content-Disposition": f'attachment; filename="{plain}.{kind}"'},
    )
