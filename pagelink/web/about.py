"""What the explorer serves: the relation, the node types with their colours, the settings."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from pagelink.explain.building import versions
from pagelink.explain.explainer import PaGELink
from pagelink.views.templates import graph_colours
from pagelink.views.text import words
from pagelink.web import contract
from pagelink.web.explainers import METHODS

ControlName = Literal["paths", "length", "rho"]
_CONTROLS: tuple[tuple[ControlName, str, float, str], ...] = (
    ("paths", "Number of paths", 1, "How many paths are shown at most."),
    (
        "length", "Length of a path", 1,
        "How many facts a path may have; longer ones are searched where these do not carry the "
        "score.",
    ),
    (
        "rho", "Faithful or concise", 0.05,
        "1: only what the paths do to the score counts. 0: only that they are short and pass "
        "through nodes of few facts.",
    ),
)  # fmt: skip
"""The settings that the page offers: name, label, step and meaning."""


class NodeType(contract.Answer):
    """A kind of node."""

    type: str
    words: str
    count: int
    colour: str = Field(description="Its colour in all drawings of the graph.")
    sign: str = Field(description="The outline of its sign, as SVG path data around (0, 0).")


class Control(contract.Answer):
    """A setting that matters, with its meaning in one line."""

    name: ControlName
    label: str
    meaning: str
    lowest: float
    highest: float
    step: float
    default: float


class Method(contract.Answer):
    """An explainer."""

    name: str = Field(description="What `method` takes.")
    words: str
    meaning: str


class ExampleLink(contract.Answer):
    """A link with a strong explanation."""

    src: contract.Node
    dst: contract.Node


class About(contract.Answer):
    """What is served."""

    title: str
    model: str = Field(description="The model in words.")
    src_type: str
    relation: str = Field(description="The predicted relation in words.")
    dst_type: str
    threshold: float | None = Field(description="Of logits; null: the model only ranks.")
    node_types: list[NodeType]
    relations: list[contract.Relation]
    controls: list[Control]
    examples: list[contract.Node] = Field(description="Sources to begin with.")
    example_links: list[ExampleLink] = Field(description="Links to begin with; may be empty.")
    methods: list[Method] = Field(description="Explainers to compare; the first is the default.")
    models: list[str] = Field(description="Models to compare, in words; the first is the default.")
    audit: Literal["given", "run", "none"] = Field(
        description="Whether an audit is there, can be run, or neither."
    )
    warnings: list[str]
    versions: dict[str, str]


def about_answer(
    explainer: PaGELink, relations: list[contract.Relation], *, model: str, others: list[str],
    **own: Any,
) -> About:  # fmt: skip
    """What is served by an explorer.

    Args:
        explainer: the first of its link types is explored.
        relations: those that paths may go along.
        model: the model in words; empty: the name of its class.
        others: other models in words.
        own: the other fields of the answer.
    """
    graph, link_type = explainer.graph, explainer.link_types[0]
    counts = np.diff(graph.node_offset).tolist()
    colours = graph_colours(graph.node_types, [*graph.edge_types, link_type])
    name = model or type(explainer.predictor.model).__name__
    return About(
        model=name,
        models=[name, *others],
        src_type=link_type[0],
        relation=words(link_type[1]),
        dst_type=link_type[2],
        threshold=explainer.threshold,
        node_types=[
            NodeType(type=t, words=words(t), count=n, colour=colours[t].main, sign=colours[t].sign)
            for t, n in zip(graph.node_types, counts, strict=True)
        ],
        relations=relations,
        controls=_controls(),
        methods=[
            Method(name=name, words=told, meaning=meaning)
            for name, (told, meaning) in METHODS.items()
        ],
        warnings=explainer.warnings,
        versions=versions(),
        **own,
    )


def _controls() -> list[Control]:
    """What can be set on the page, with the ranges and defaults of the address."""
    ranges = contract.ExplanationAsked.model_json_schema()["properties"]
    return [
        Control(
            name=name, label=label, meaning=meaning, lowest=ranges[name]["minimum"],
            highest=ranges[name]["maximum"], step=step, default=ranges[name]["default"],
        )
        for name, label, step, meaning in _CONTROLS
    ]  # fmt: skip
