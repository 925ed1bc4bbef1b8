"""Explanations made by hand."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from pagelink.explain.result import EdgeMask, Explanation, Node, Path, PathEdge
from pagelink.measure.verdict import Evidence
from pagelink.settings import Settings

USER, ITEM = ("user", 3), ("item", 35)
BUYS, BOUGHT = ("buys", False), ("buys", True)
HAS, OWNED = ("has", False), ("has", True)


def make_path(
    nodes: list[Node],
    relations: list[tuple[str, bool]],
    names: dict[Node, str] | None = None,
    degrees: dict[Node, int] | None = None,
    score: float = -5.25,
) -> Path:
    """Return a path; a relation is its words and whether they read backwards."""
    edges = []
    for (label, backwards), start, end in zip(relations, nodes[:-1], nodes[1:], strict=True):
        kinds = (end[0], start[0]) if backwards else (start[0], end[0])
        edges.append(
            PathEdge((kinds[0], label, kinds[1]), 7, backwards, label, backwards, mask=0.625)
        )
    return Path(
        nodes=tuple(nodes),
        edges=tuple(edges),
        names=tuple((names or {}).get(node, f"{node[0].title()} {node[1]}") for node in nodes),
        degrees=tuple((degrees or {}).get(node, 12) for node in nodes),
        score=score,
    )


def make_explanation(*paths: Path, **changes: Any) -> Explanation:
    values: dict[str, Any] = {
        "link_type": ("user", "likes", "item"),
        "src": paths[0].nodes[0] if paths else USER,
        "dst": paths[0].nodes[-1] if paths else ITEM,
        "src_name": paths[0].names[0] if paths else "User 3",
        "dst_name": paths[0].names[-1] if paths else "Item 35",
        "logit": 2.59,
        "logit_deployed": 2.59,
        "paths": paths,
        "reason": None,
        "message": "",
        "notes": (),
        "edge_mask": EdgeMask(
            {("user", "buys", "item"): 9},
            {("user", "buys", "item"): (np.array([7]), np.array([0.625], dtype=np.float32))},
        ),
        "num_hops": 2,
        "epochs": 20,
        "settings": Settings(),
        "seed": 41,
        "seconds": 0.25,
        "noise": 0.015,
        "versions": {"pagelink": "0.1.0", "torch": "2.13.0"},
    }
    return Explanation(**{**values, **changes})


def through(*inner: Node, **kwargs: Any) -> Path:
    """Return a path from user 3 to item 35 whose relations fit the node types."""
    nodes = [USER, *inner, ITEM]
    known = {
        ("user", "item"): BUYS, ("item", "user"): BOUGHT, ("item", "attr"): HAS,
        ("attr", "item"): OWNED, ("user", "attr"): ("cares about", False),
        ("item", "item"): ("is similar to", False),
    }  # fmt: skip
    relations = [known[start[0], end[0]] for start, end in itertools.pairwise(nodes)]
    return make_path(nodes, relations, **kwargs)


def simple() -> Explanation:
    return make_explanation(
        through(("item", 54), ("user", 4)),
        through(("item", 54), ("user", 9)),
        through(("item", 7), ("attr", 2)),
    )


def make_evidence(verdict: str = "supported", **changes: Any) -> Evidence:
    values: dict[str, Any] = {
        "verdict": verdict, "influence": 2.95, "inserted": False, "logit_without_these": -0.36,
        "logit_without_paths": -1.2, "logit_without_edges": -2.0, "logit_only_these": 1.7,
        "sufficiency": 0.62, "rho_reached": 0.84, "num_sets": 175,
    }  # fmt: skip
    return Evidence(**{**values, **changes})


def worth(path: Path, influence: float, *facts: float, **changes: Any) -> Path:
    """Return the path with what it and each of its facts is worth."""
    edges = tuple(
        dataclasses.replace(edge, influence=fact)
        for edge, fact in zip(path.edges, facts, strict=True)
    )
    known = {"marginal": influence, "is_evidence": True, **changes}
    return dataclasses.replace(path, edges=edges, influence=influence, **known)


def strong() -> Path:
    return worth(through(("item", 54), ("user", 4)), 1.24, 0.9, 0.001, 0.5, connection=0.1)


def weaker() -> Path:
    return worth(through(("item", 54), ("user", 9)), 0.8, 0.9, 0.2, -0.05, connection=0.6)


def idle() -> Path:
    """Return a path that speaks against the link."""
    path = through(("item", 54), ("attr", 2))
    return worth(path, -0.3, -0.2, 0.0, 0.04, connection=-0.1, is_evidence=False)
