"""Explanations made by hand."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import torch
from torch_geometric.data import HeteroData

from pagelink.explain.edge_mask import EdgeMask
from pagelink.explain.result import (
    Alternative,
    Explanation,
    NamedFact,
    Node,
    Path,
    PathEdge,
    StrongestFacts,
)
from pagelink.measure.verdict import DegreeControl, Evidence, Part
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


def make_control(effect: float = 2.1, **changes: Any) -> DegreeControl:
    values = {"low": effect - 0.3, "high": effect + 0.3, "num_draws": 20, "num_placebo": 20}
    return DegreeControl(effect, **{**values, **changes})


def make_evidence(verdict: str = "supported", **changes: Any) -> Evidence:
    values: dict[str, Any] = {
        "verdict": verdict, "influence": 2.95, "inserted": False, "logit_without_these": -0.36,
        "logit_without_paths": -1.2, "logit_without_edges": -2.0, "logit_only_these": 1.7,
        "sufficiency": 0.62, "rho_reached": 0.84, "num_sets": 175, "gain": 2.9, "worth": 0.8,
        "max_length": 3, "control": make_control(),
    }  # fmt: skip
    return Evidence(**{**values, **changes})


def worth(
    path: Path, influence: float, *facts: float, idle: tuple[int, ...] = (), **changes: Any
) -> Path:
    """Return the path with what it and each of its facts is worth; some facts are idle."""
    edges = tuple(
        dataclasses.replace(edge, influence=fact, active=at not in idle)
        for at, (edge, fact) in enumerate(zip(path.edges, facts, strict=True))
    )
    known = {"marginal": influence, "is_evidence": True, **changes}
    return dataclasses.replace(path, edges=edges, influence=influence, **known)


def strong() -> Path:
    path = through(("item", 54), ("user", 4))
    return worth(path, 1.24, 0.9, 0.001, 0.5, idle=(1,), connection=0.05, share=0.42)


def weaker() -> Path:
    path = through(("item", 54), ("user", 9))
    return worth(path, 0.8, 0.9, 0.2, -0.05, connection=0.62, share=0.3, gain=0.9)


def idle() -> Path:
    """Return a path that speaks against the link."""
    path = through(("item", 54), ("attr", 2))
    return worth(path, -0.3, -0.2, 0.0, 0.04, idle=(1,), share=-0.1, is_evidence=False)


def alternative(*paths: Path, worth: float = 0.78) -> Alternative:
    """Return another set of paths."""
    return Alternative(worth, paths)


def strongest(
    share: float | None = 0.48, effect: float = 3.4, *others: tuple[Node, str, Node, float]
) -> StrongestFacts:
    """Return strongest facts: that user 3 buys item 54, and others."""
    given = [(USER, "buys", ("item", 54), 0.9), *others]
    facts = tuple(
        NamedFact(
            (start, end),
            (f"{start[0].title()} {start[1]}", f"{end[0].title()} {end[1]}"),
            PathEdge((start[0], label, end[0]), at, False, label, False, 0.5, influence=alone),
        )
        for at, (start, label, end, alone) in enumerate(given)
    )
    return StrongestFacts(facts, effect, share)


def parts(**effects: tuple[float, float | None]) -> tuple[Part, ...]:
    """Return parts of what else counts: their effects, with errors."""
    sizes = {"features_src": 1, "features_dst": 1, "features_others": 31}
    given: Any = effects
    return tuple(
        Part(name, sizes.get(name, 12), effect, error) for name, (effect, error) in given.items()
    )


def graph_of(explanation: Explanation) -> tuple[HeteroData, Explanation]:
    """Return a graph with the facts of the paths, and the explanation with their columns in it."""
    columns: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    paths = []
    for path in explanation.paths:
        edges = []
        for edge, *ends in zip(path.edges, path.nodes[:-1], path.nodes[1:], strict=True):
            (_, src), (_, dst) = reversed(ends) if edge.reversed else ends
            stored = columns.setdefault(edge.type, [])
            if (src, dst) not in stored:
                stored.append((src, dst))
            edges.append(dataclasses.replace(edge, index=stored.index((src, dst))))
        paths.append(dataclasses.replace(path, edges=tuple(edges)))
    data = HeteroData()
    for kind in ("user", "item", "attr"):
        data[kind].num_nodes = 100
        data[kind].name = [f"{kind.title()} {index}" for index in range(100)]
    for edge_type, stored in columns.items():
        data[edge_type].edge_index = torch.tensor(stored).t().contiguous()
    return data, dataclasses.replace(explanation, paths=tuple(paths))


def everything() -> Explanation:
    """Return an explanation that has something to say on every count."""
    bundle = (dataclasses.replace(path, bundle=1) for path in (strong(), idle()))
    return make_explanation(
        *bundle,
        weaker(),
        evidence=make_evidence(max_length=4),
        alternatives=(alternative(through(("item", 7)), through(("item", 8))),),
        strongest=strongest(0.31, 3.4, (("artist", 5), "made", ITEM, 1.6)),
        what_else=parts(facts_near_dst=(0.5, None), features_dst=(3.2, 0.31)),
    )
