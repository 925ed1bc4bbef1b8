"""Graphs of a schema that are drawn scene by scene, with planted paths between the ends of links.

Every source asked about has a target and inner nodes of its own, joined by planted paths, and
random further facts that lead to other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch_geometric.data import HeteroData

from pagelink.explain.result import Path
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Longs

SCENE = 30
"""Links of a scene: scenes are not connected, and the ends have a code that is theirs in one."""
OWN, IN_SCENE, CODE = 0, 1, 2
"""Columns of the features: a node's own part of the score, its scene, and from there its code."""
VALUE = CODE + SCENE
"""Behind the code, where a schema has content: a node's value, and from there its class."""
NUM_CLASSES = 28
LOW = 0.4
"""Values of nodes that no plan gives one are below this, and not negative."""
AT_ENDS, INSIDE = (2, 6), (1, 4)
"""Further facts of the two ends and of an inner node: at least, and fewer than."""

Fact = tuple[str, int, int]
"""Relation, and the indices of its source and its target as it is stored, not as it is walked. Of a
relation within one kind of nodes the smaller index is first: both directions are one fact."""
PlantedPaths = tuple[int, int, list[list[Fact]]]
"""Source, target, and the facts of each planted path between them."""


@dataclass(frozen=True)
class Schema:
    """What a family of graphs is drawn by."""

    link_type: EdgeType
    """If its relation is among the relations, every other link asked about is in the graph."""
    kinds: tuple[str, ...]
    relations: Mapping[str, EdgeType]
    one_way: frozenset[str]
    """Relations that are stored without a reverse."""
    coded: frozenset[str]
    """Kinds of nodes that have the code of their link; all others have ones."""
    inner: Mapping[str, str]
    """The kind of an inner node, by the first letter of what a plan calls it."""
    pools: Mapping[str, str]
    """Groups of nodes that further facts lead to, and their kinds."""
    roles: Mapping[str, Sequence[tuple[str, str]]]
    """By what a node is in a scene ("source", "target", the kind of an inner node, or a pool), the
    steps that its further facts take, and to which pool."""
    pool_size: int = 20
    """Nodes of each pool in a scene."""
    has_content: bool = False
    """Whether nodes have a value and a class."""

    @property
    def steps(self) -> dict[str, EdgeType]:
        """What the graphs store: every relation, then the reverses.

        A relation within one kind of nodes has both directions of a fact in itself.
        """
        back = {
            f"rev_{name}": (dst, f"rev_{name}", src)
            for name, (src, _, dst) in self.relations.items()
            if src != dst and name not in self.one_way
        }
        return {**self.relations, **back}

    def fact(self, step: str, one: int, other: int) -> Fact:
        """The fact that a step from one node to another takes, either way."""
        relation = step.removeprefix("rev_")
        src, _, dst = self.relations[relation]
        swap = one > other if src == dst else step != relation
        return (relation, other, one) if swap else (relation, one, other)

    def renamed(self, facts: Iterable[Fact], order: Mapping[str, Longs]) -> list[Fact]:
        """Facts by the new numbers of their nodes."""
        found = []
        for relation, one, other in facts:
            src, _, dst = self.relations[relation]
            found.append(self.fact(relation, int(order[src][one]), int(order[dst][other])))
        return found


def facts_of(path: Path) -> frozenset[Fact]:
    """Return the facts of a path, whichever way they are walked."""
    facts = set()
    for edge, ((kind, one), (next_kind, other)) in zip(
        path.edges, pairwise(path.nodes), strict=True
    ):
        relation = edge.type[1].removeprefix("rev_")
        backwards = (relation != edge.type[1]) != edge.reversed
        if kind == next_kind:
            backwards = one > other
        facts.add((relation, other, one) if backwards else (relation, one, other))
    return frozenset(facts)


class Drawing:
    """A graph that is drawn scene by scene.

    Args:
        schema: what is drawn.
        rng: where random numbers come from.
    """

    def __init__(self, schema: Schema, rng: np.random.Generator) -> None:
        self._schema, self._rng = schema, rng
        self._scene_of: dict[str, list[int]] = {kind: [] for kind in schema.kinds}
        self._facts: dict[Fact, None] = {}
        self._codes: dict[tuple[str, int], int] = {}
        self._values: dict[tuple[str, int], float] = {}
        self._num_scenes = 0

    def scene(
        self,
        paths: Sequence[str],
        crowded: Mapping[str, int],
        num_links: int,
        values: Mapping[str, float] | None = None,
    ) -> list[PlantedPaths]:
        """Draw a scene of sources and targets that are joined by paths.

        Args:
            paths: steps and inner nodes in turn; nodes of one name are one node, and one with a
                capital letter is the same node for all links of the scene.
            crowded: inner nodes with this number of facts more.
            num_links: pairs of a source and a target, `SCENE` at most.
            values: of inner nodes.
        """
        self._num_scenes += 1
        pools = {
            pool: [self._node(kind) for _ in range(self._schema.pool_size)]
            for pool, kind in self._schema.pools.items()
        }
        for pool, of_pool in pools.items():
            for node in of_pool if pool in self._schema.roles else ():
                for step, other in self._schema.roles[pool]:
                    self._lead(node, step, pools[other], 2)
        source, link, target = self._schema.link_type
        drawn: list[PlantedPaths] = []
        shared: dict[str, int] = {}
        for code in range(num_links):
            src, dst = self._node(source), self._node(target)
            self._codes[source, src] = self._codes[target, dst] = code
            if link in self._schema.relations and code % 2 == 0:
                self._add(link, src, dst)
            nodes: dict[str, int] = {}
            planted = []
            for path in paths:
                steps, inner = path.split()[::2], path.split()[1::2]
                for name in inner:
                    if name not in nodes and name not in shared:
                        of = nodes if name.islower() else shared
                        of[name] = self._inner(name, values or {})
                walked = [src, *(nodes.get(name, shared.get(name, -1)) for name in inner), dst]
                planted.append([
                    self._add(step, one, other)
                    for step, (one, other) in zip(steps, pairwise(walked), strict=True)
                ])  # fmt: skip
            self._more("source", src, pools, int(self._rng.integers(*AT_ENDS)))
            self._more("target", dst, pools, int(self._rng.integers(*AT_ENDS)))
            # A shared node gets its further facts with the first link.
            for name, node in {**nodes, **({} if drawn else shared)}.items():
                more = int(self._rng.integers(*INSIDE)) + crowded.get(name, 0)
                self._more(self._schema.inner[name[0].lower()], node, pools, more)
            drawn.append((src, dst, planted))
        return drawn

    def _node(self, kind: str) -> int:
        self._scene_of[kind].append(self._num_scenes)
        return len(self._scene_of[kind]) - 1

    def _inner(self, name: str, values: Mapping[str, float]) -> int:
        kind = self._schema.inner[name[0].lower()]
        node = self._node(kind)
        if name in values:
            self._values[kind, node] = values[name]
        return node

    def _add(self, step: str, one: int, other: int) -> Fact:
        fact = self._schema.fact(step, one, other)
        self._facts[fact] = None
        return fact

    def _lead(self, node: int, step: str, others: Sequence[int], count: int) -> None:
        # Only a relation within a kind can lead from a node to itself, which would be no fact.
        free = [other for other in others if other != node or len(set(self._ends(step))) > 1]
        for other in self._rng.choice(free, count, replace=False).tolist():
            self._add(step, node, other)

    def _ends(self, step: str) -> tuple[str, str]:
        src, _, dst = self._schema.relations[step.removeprefix("rev_")]
        return src, dst

    def _more(self, role: str, node: int, pools: Mapping[str, Sequence[int]], count: int) -> None:
        free = [(step, other) for step, pool in self._schema.roles[role] for other in pools[pool]]
        for place in self._rng.choice(len(free), count, replace=False).tolist():
            self._add(free[place][0], node, free[place][1])

    def at(self, step: str, node: int) -> list[Fact]:
        """The facts of the relation of a step that lead to a node."""
        place = 1 if step.startswith("rev_") else 2
        relation = step.removeprefix("rev_")
        return [fact for fact in self._facts if fact[0] == relation and fact[place] == node]

    def order(self) -> dict[str, Longs]:
        """A random order of the nodes of each kind: a number must not tell what a node is for."""
        return {kind: self._rng.permutation(len(of)) for kind, of in self._scene_of.items()}

    def data(self, order: Mapping[str, Longs]) -> HeteroData:
        """The graph with its nodes in an order and its facts in a random one, and the reverses."""
        schema, data = self._schema, HeteroData()
        for kind, scenes in self._scene_of.items():
            x = torch.ones(len(scenes), CODE + SCENE)
            x[:, OWN] = torch.from_numpy(self._rng.normal(0, np.sqrt(0.5), len(scenes)))
            x[torch.from_numpy(order[kind]), IN_SCENE] = torch.tensor(scenes).float()
            if kind in schema.coded:
                x[:, CODE:] = 0
                for (of, node), code in self._codes.items():
                    if of == kind:
                        x[int(order[kind][node]), CODE + code] = 1
            if schema.has_content:
                content = torch.zeros(len(scenes), 1 + NUM_CLASSES)
                content[:, 0] = torch.from_numpy(self._rng.uniform(0, LOW, len(scenes)))
                classes = torch.from_numpy(self._rng.integers(0, NUM_CLASSES, len(scenes)))
                content[torch.arange(len(scenes)), 1 + classes] = 1
                for (of, node), value in self._values.items():
                    if of == kind:
                        content[int(order[kind][node]), 0] = value
                x = torch.cat([x, content], dim=1)
            data[kind].x = x
        by_relation: dict[str, list[tuple[int, int]]] = {name: [] for name in schema.relations}
        for relation, one, other in schema.renamed(self._facts, order):
            by_relation[relation].append((one, other))
        for relation, pairs in by_relation.items():
            src, _, dst = schema.relations[relation]
            ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            ends = np.concatenate([ends, ends[:, ::-1]]) if src == dst else ends
            edge_index = torch.from_numpy(self._rng.permutation(ends)).t().contiguous()
            data[schema.relations[relation]].edge_index = edge_index
            if f"rev_{relation}" in schema.steps:
                data[schema.steps[f"rev_{relation}"]].edge_index = edge_index.flip(0).contiguous()
        return data
