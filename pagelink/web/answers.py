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
from pagelink.explain.result import Explanation, Path
from pagelink.graph.lookup import fact_of
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Doubles
from pagelink.views.drawing.arrows import Place
from pagelink.views.drawing.pictures import draw
from pagelink.views.pages import to_html, to_png, to_svg
from pagelink.views.rows import to_csv, to_rows, to_table
from pagelink.views.statements import fact_sentence
from pagelink.views.templates import type_colours
from pagelink.views.text import clean, numbers, ordinal
from pagelink.views.wording import PathWords, wording
from pagelink.web import contract, explained
from pagelink.web.added import Added, Numbered

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


def explained_answer(
    graph: TypedGraph, explanation: Explanation, added: Added | None = None
) -> explained.Explained:
    """An explanation in words, figures and a drawing.

    Args:
        graph: the graph of the explanation.
        explanation: what is shown.
        added: what was added to the graph, if anything was.
    """
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
            _filled(
                explained.Group, group, paths=[_path(graph, path, added) for path in group.paths]
            )
            for group in said.groups
        ],
        added=[
            explained.AddedFact(added=key, sentence=sentence)
            for key, sentence in (added.sentences.items() if added else ())
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
        svg_smallest=drawing.smallest,
        svg_compact=drawing.compact,
        svg_compact_smallest=drawing.compact_smallest,
        svg_narrow=drawing.narrow,
        text=str(explanation),
    )  # fmt: skip


def _filled(answer: type[A], *sources: object, **own: Any) -> A:
    """Fill an answer: each field that is not given by the first source that has it."""
    for name in answer.model_fields.keys() - own.keys():
        own[name] = next(getattr(source, name) for source in sources if hasattr(source, name))
    return answer(**own)


def _numbered(graph: TypedGraph, path: Path, added: Added | None) -> list[Numbered]:
    """The facts of a path as the page names them."""
    if added is None:
        return [(fact, None) for fact in facts_along(graph, path)]
    return [
        added.named(edge.type, edge.index, start if edge.reversed else end)
        for edge, start, end in zip(path.edges, path.nodes, path.nodes[1:], strict=False)
    ]


def _path(graph: TypedGraph, told: PathWords, added: Added | None) -> explained.Path:
    steps = [
        _filled(
            explained.Step, step, step.fact, step.edge, fact=fact, added=key,
            sentence=str(step.fact),
        )
        for (fact, key), step in zip(_numbered(graph, told.path, added), told.steps, strict=True)
    ]  # fmt: skip
    nodes = [node_answer(graph, *node) for node in told.path.nodes]
    return _filled(
        explained.Path, told, told.path, number=told.rank, nodes=nodes, steps=steps
    )  # fmt: skip


def what_if_answer(
    graph: TypedGraph, found: Counterfactual, added: Added | None = None
) -> contract.WhatIf:
    """What would have to be different; `graph` is the one as it was."""
    facts = []
    for fact in found.facts:
        number, key = (
            (fact_of(graph, fact.type, fact.index, fact.dst), None)
            if added is None
            else added.named(fact.type, fact.index, fact.dst)
        )
        facts.append(contract.RemovedFact(fact=number, added=key, sentence=str(fact)))
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
    """What was switched off, and what was added, when an explanation was kept."""

    places: frozenset[Place]
    """The steps of the paths that are off."""
    facts: tuple[int, ...]
    sentences: tuple[str, ...]
    rank: contract.Rank
    added: tuple[str, ...] = ()
    """The facts in words that were added to the graph."""

    @property
    def note(self) -> str:
        """In one sentence."""
        rank = self.rank
        # The explanation itself has a note on what was added.
        facts = f"Switched off: {'; '.join(self.sentences)}. " if self.sentences else ""
        edits = [
            f"{word} {'this fact' if len(those) == 1 else 'these facts'}"
            for word, those in (("Without", self.facts), ("With", self.added))
            if those
        ]
        change = edits[0] if len(edits) == 1 else "With these changes"
        before, after = numbers(rank.logit_before, rank.logit)
        return (
            f"{facts}{change} the score is {after} instead of {before}, and the rank "
            f"{ordinal(rank.rank)} instead of {ordinal(rank.rank_before)} of {rank.of:,}."
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = {"facts": self.facts, "sentences": self.sentences, "added": self.added}
        return {**told, **self.rank.model_dump()}


def switched_off(
    graph: TypedGraph, explanation: Explanation, rank: contract.Rank, added: Added | None = None
) -> SwitchedOff:
    """What is off of an explanation, by the facts of `rank`, and what was added."""
    off = set(rank.off)
    places: set[Place] = set()
    sentences: dict[int, str] = {}
    for path in wording(explanation).paths:
        facts = _numbered(graph, path.path, added)
        for at, ((fact, _), step) in enumerate(zip(facts, path.steps, strict=True)):
            if fact is not None and fact in off:
                places.add((path.rank, at))
                sentences[fact] = str(step.fact)
    for fact in off - sentences.keys():
        sentences[fact] = fact_sentence(graph, fact)
    told = tuple(sentences[fact] for fact in rank.off)
    changed = () if added is None else tuple(added.sentences.values())
    return SwitchedOff(frozenset(places), tuple(rank.off), told, rank, changed)


def saved(explanation: Explanation, kind: Format, off: SwitchedOff | None = None) -> Response:
    """Return an explanation as an attachment, named by the link.

    Args:
        explanation: what is kept.
        kind: the kind of file.
        off: what is switched off.
    """
    places = off.places if off else frozenset()
    edited = off.note if off else ""
    if off is not None and kind in ("json", "csv"):
        explanation = replace(explanation, notes=(*explanation.notes, edited))
    content: str | bytes
    if kind == "json":
        values = explanation.to_dict()
        values["edited"] = off.to_dict() if off else None
        content = json.dumps(values, ensure_ascii=False, indent=1)
    elif kind == "csv":
        content = to_csv(to_table(to_rows(explanation)))
    elif kind == "html":
        content = to_html(explanation, places, edited)
    elif kind == "svg":
        content = to_svg(explanation, places, edited)
    else:
        content = to_png(explanation, off=places, edited=edited)
    return attachment(content, kind, f"{explanation.src_name}-{explanation.dst_name}")


def attachment(content: str | bytes, kind: Format, name: str) -> Response:
    """Return a file, its name made of letters, digits and hyphens."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:80] or "explanation"
    return Response(
        content,
        media_type=MEDIA_TYPES[kind],
        headers={"Content-Disposition": f'attachment; filename="{plain}.{kind}"'},
    )
