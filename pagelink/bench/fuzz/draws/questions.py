"""Random settings, links and options: what an explainer may be asked, sensible and odd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_geometric.data import HeteroData

from pagelink.bench.fuzz.draws.data import RandomData, edge_types_of, one_of, stored_pairs
from pagelink.graph.schema import HOMOGENEOUS_NODE_TYPE, EdgeType
from pagelink.settings import Settings

ODD_LINKS: tuple[Any, ...] = (
    (-1, 0), (10**9, 0), (0,), (), 7, None, ("nobody", 0), (0, "id:"), (0.5, 1), (True, 0),
    (0, 1, "no such type"), (0, 1, ("x", "y")), (0, 1, 2, 3), [0, None], "ab", {0: 1}, (2**70, 0),
)  # fmt: skip
"""Rows that are no links; each costs itself and nothing else."""


@dataclass(frozen=True)
class RandomQuestions:
    """What is asked about a graph."""

    settings: Settings
    links: list[Any]
    threshold: float | None
    options: dict[str, Any]
    """Arguments of `explain_many`."""
    seed: int

    @classmethod
    def draw(cls, rng: np.random.Generator, given: RandomData) -> RandomQuestions:
        """Draw questions about a graph."""
        options: dict[str, Any] = {"batch_size": one_of(rng, 1, 2, 256, 256)}
        if rng.random() < 0.15:
            options |= {"rank": True, "rank_sample": one_of(rng, 2, 100)}
        if rng.random() < 0.1:
            options["runs"] = 2
        if rng.random() < 0.5:
            options["negatives"] = True
        if rng.random() < 0.1:
            options["memory"] = 1e-6
        return cls(
            _settings(rng, given), _links(rng, given), one_of(rng, 0.0, 0.5, None, None, None),
            options, int(rng.integers(1000)),
        )  # fmt: skip


def _links(rng: np.random.Generator, given: RandomData) -> list[Any]:
    links: list[Any] = []
    steps = _steps(given)
    for _ in range(rng.integers(2, 6)):
        link_type = one_of(rng, *given.link_types)
        src, dst = (_size(given, kind) for kind in (link_type[0], link_type[2]))
        if rng.random() < 0.08 or not src or not dst:
            links.append(one_of(rng, *ODD_LINKS))
            continue
        stored = stored_pairs(given, link_type)
        u, v = int(rng.integers(src)), int(rng.integers(dst))
        chance = rng.random()
        if chance < 0.3 and stored:
            u, v = stored[rng.integers(len(stored))]
        elif chance < 0.35:
            u, v = src - 1, dst - 1  # often isolated, and the same node within one type
        elif chance < 0.97:
            u, v = _far_ends(rng, steps, link_type) or (u, v)
        if (link_type[0], u) == (link_type[2], v) and rng.random() < 0.7:
            v = (v + 1) % dst
        names = _names(given, link_type[0])
        key = names[u] if names and rng.random() < 0.3 else u
        explicit = len(given.link_types) > 1 or rng.random() < 0.2
        row = (key, v, link_type) if explicit else (key, v)
        links.append(list(row) if rng.random() < 0.1 else row)
    if rng.random() < 0.1:
        links.append(links[0])
    return links


Steps = dict[tuple[str, int], list[tuple[str, int]]]


def _steps(given: RandomData) -> Steps:
    """Where an edge leads from each node, either way."""
    steps: Steps = {}
    for src, name, dst in edge_types_of(given):
        for u, v in stored_pairs(given, (src, name, dst)):
            steps.setdefault((src, u), []).append((dst, v))
            steps.setdefault((dst, v), []).append((src, u))
    return steps


def _far_ends(
    rng: np.random.Generator, steps: Steps, link_type: EdgeType
) -> tuple[int, int] | None:
    """The ends of a short walk that a link of this type may have, if one is met."""
    starts = [node for node in steps if node[0] == link_type[0]]
    for _ in range(5 if starts else 0):
        start = here = one_of(rng, *starts)
        for _ in range(rng.integers(2, 4)):
            here = one_of(rng, *steps[here])
        if here[0] == link_type[2] and here != start:
            return start[1], here[1]
    return None


def _size(given: RandomData, kind: str) -> int:
    data = given.data
    return int(data[kind].num_nodes if isinstance(data, HeteroData) else data.num_nodes)


def _names(given: RandomData, kind: str) -> list[str]:
    data = given.data
    store = data[kind] if isinstance(data, HeteroData) else data
    return list(store["name"]) if "name" in store else []


def _settings(rng: np.random.Generator, given: RandomData) -> Settings:
    """Settings within their ranges; most of them leave the paths unconstrained."""

    def maybe(chance: float, **values: Any) -> dict[str, Any]:
        return values if rng.random() < chance else {}

    max_length = one_of(rng, 1, 2, 3, 3, 4, 5)
    chosen: dict[str, Any] = {
        "max_length": max_length, "num_paths": int(rng.integers(1, 6)),
        "epochs": int(rng.integers(0, 7)), "core": int(rng.integers(0, 4)),
        "candidates": one_of(rng, 1, 3, 20), "verified": one_of(rng, 1, 8, 64),
        "swaps": one_of(rng, 0, 1, 6, 20), "rho": one_of(rng, 0.0, 0.5, 0.7, 0.7, 1.0),
        "measure": bool(rng.random() < 0.85),
        **maybe(0.2, budget=max_length * int(rng.integers(1, 4)) + int(rng.integers(0, 3))),
        **maybe(0.2, max_degree=int(rng.integers(1, 9))),
        **maybe(0.2, hub_degree=int(rng.integers(1, 9))),
        **maybe(0.2, remove_pruned=True),
        **maybe(0.3, unpruned_fallback=False),
        **maybe(0.1, num_hops=int(rng.integers(3, 7))),
        **maybe(0.2, learning_rate=one_of(rng, 0.01, 1.0, 10.0)),
        **maybe(0.2, alpha=one_of(rng, 0.0, 5.0), beta=one_of(rng, 0.0, 5.0)),
        **maybe(0.2, path_loss=one_of(rng, "sum", "released", "power")),
        **maybe(0.2, paths_per_epoch=one_of(rng, 1, 3), path_schedule="all"),
        **maybe(0.2, patience=one_of(rng, 1, None)),
        **maybe(0.1, entropy=0.1, size=0.1),
        **maybe(0.2, start="noise"),
        **maybe(0.3, longer=False),
        **maybe(0.2, strongest=False),
        **maybe(0.2, what_else=False),
        **maybe(0.1, pred_weight=0.0),
        **maybe(0.02, deadline=one_of(rng, 0.0, 0.01)),
    }  # fmt: skip
    if rng.random() < 0.35:
        chosen |= _constraints(rng, given)
    return Settings(**chosen)


def _constraints(rng: np.random.Generator, given: RandomData) -> dict[str, Any]:
    data = given.data
    if isinstance(data, HeteroData):
        kinds = [kind for kind in data.node_types if data[kind].num_nodes]
        relations = [t[1] for t in data.edge_types]
        dated = any("attributes" in store and store.num_edges for store in data.edge_stores)
    else:
        kinds, relations, dated = [HOMOGENEOUS_NODE_TYPE], [given.link_types[0][1]], False

    def nodes(count: int) -> tuple[tuple[str, int], ...]:
        drawn = [one_of(rng, *kinds) for _ in range(count)]
        return tuple((kind, int(rng.integers(_size(given, kind)))) for kind in drawn)

    def metapaths(count: int) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(one_of(rng, *relations) for _ in range(rng.integers(1, 4))) for _ in range(count)
        )

    kind = rng.integers(6 if dated else 5)
    some = int(rng.integers(1, 4))
    if kind == 0:
        return {"exclude_relations": (one_of(rng, *relations),)}
    if kind == 1:
        return {"exclude_nodes": nodes(some)}
    if kind == 2:
        return {"metapaths": metapaths(some)}
    if kind == 3:
        return {"forbid_metapaths": metapaths(some)}
    return {"via": nodes(some)} if kind == 4 else {"before": "2020-06-01"}
