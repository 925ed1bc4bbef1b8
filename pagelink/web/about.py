"""What the explorer serves: the relation, the node types with their colours, the settings."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagelink.explain.building import versions
from pagelink.explain.explainer import PaGELink
from pagelink.views.templates import graph_colours
from pagelink.views.text import words
from pagelink.web import contract

_CONTROLS: tuple[tuple[contract.ControlName, str, float, str], ...] = (
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


def about_answer(
    explainer: PaGELink, relations: list[contract.Relation], *, model: str, **own: Any
) -> contract.About:
    """What is served by an explorer.

    Args:
        explainer: the first of its link types is explored.
        relations: those that paths may go along.
        model: the model in words; empty: the name of its class.
        own: the other fields of the answer.
    """
    graph, link_type = explainer.graph, explainer.link_types[0]
    counts = np.diff(graph.node_offset).tolist()
    colours = graph_colours(graph.node_types, [*graph.edge_types, link_type])
    return contract.About(
        model=model or type(explainer.predictor.model).__name__,
        src_type=link_type[0],
        relation=words(link_type[1]),
        dst_type=link_type[2],
        threshold=explainer.threshold,
        node_types=[
            contract.NodeType(
                type=t, words=words(t), count=n, colour=colours[t].main, sign=colours[t].sign
            )
            for t, n in zip(graph.node_types, counts, strict=True)
        ],
        relations=relations,
        controls=_controls(),
        warnings=explainer.warnings,
        versions=versions(),
        **own,
    )


def _controls() -> list[contract.Control]:
    """What can be set on the page, with the ranges and defaults of the address."""
    ranges = contract.ExplanationAsked.model_json_schema()["properties"]
    return [
        contract.Control(
            name=name, label=label, meaning=meaning, lowest=ranges[name]["minimum"],
            highest=ranges[name]["maximum"], step=step, default=ranges[name]["default"],
        )
        for name, label, step, meaning in _CONTROLS
    ]  # fmt: skip
