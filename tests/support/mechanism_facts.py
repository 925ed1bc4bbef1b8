"""Facts of mechanisms, the paths along them, and scores on graphs of some facts, without pagelink.

Nothing here uses the package's graphs, paths or edits: edges are picked out of plain tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import torch
from torch import Tensor

from pagelink.datasets.mechanisms import Mechanism, MechanismLink, make_mechanism
from pagelink.datasets.scenes import Fact, Schema

Facts = frozenset[Fact]
CHUNK = 64  # graphs that are run side by side
NO_FACTS: Facts = frozenset()


@cache
def mechanism_of(name: str, links: int = 3, seed: int = 1) -> Mechanism:
    return make_mechanism(name, links, seed)


@cache
def stored_facts(of: Mechanism) -> tuple[Fact, ...]:
    """All facts, those of a relation within one kind once, and in order."""
    found = set()
    for relation, (src, _, dst) in of.schema.relations.items():
        for a, b in of.data[src, relation, dst].edge_index.t().tolist():
            found.add((relation, *sorted((a, b))) if src == dst else (relation, a, b))
    return tuple(sorted(found))


def facts_without_link(of: Mechanism, link: MechanismLink) -> Facts:
    """What the model is handed: the explained link is taken out."""
    return frozenset(stored_facts(of)) - {(of.schema.link_type[1], link.src, link.dst)}


def ends_of(schema: Schema, fact: Fact) -> tuple[tuple[str, int], tuple[str, int]]:
    src, _, dst = schema.relations[fact[0]]
    return (src, fact[1]), (dst, fact[2])


def simple_paths(
    schema: Schema,
    facts: Iterable[Fact],
    link: MechanismLink,
    most: int,
    along: Sequence[str] | None = None,
) -> list[Facts]:
    """All simple paths of at most this number of facts, or those along relations alone."""
    steps: dict[tuple[str, int], list[tuple[tuple[str, int], str, Fact]]] = {}
    for fact in facts:
        one, other = ends_of(schema, fact)
        back = fact[0] if one[0] == other[0] else f"rev_{fact[0]}"
        steps.setdefault(one, []).append((other, fact[0], fact))
        steps.setdefault(other, []).append((one, back, fact))
    source, _, target = schema.link_type
    goal, found = (target, link.dst), []

    def walk(nodes: list[tuple[str, int]], taken: list[Fact]) -> None:
        if nodes[-1] == goal:
            found.append(frozenset(taken))
            return
        if len(taken) == most:
            return
        for node, step, fact in steps.get(nodes[-1], []):
            if node not in nodes and (along is None or along[len(taken)] == step):
                walk([*nodes, node], [*taken, fact])

    walk([(source, link.src)], [])
    return [path for path in found if along is None or len(path) == len(along)]


def together(paths: Iterable[Facts]) -> Facts:
    return NO_FACTS.union(*paths)


def scores(of: Mechanism, link: MechanismLink, graphs: Sequence[Facts]) -> list[float]:
    """The score of a link on graphs of some facts alone, and their reverses."""
    found: list[float] = []
    for first in range(0, len(graphs), CHUNK):
        found += _side_by_side(of, link, graphs[first : first + CHUNK])
    return found


def _side_by_side(of: Mechanism, link: MechanismLink, graphs: Sequence[Facts]) -> list[float]:
    stored, sizes = stored_facts(of), {kind: of.data[kind].num_nodes for kind in of.data.node_types}
    place = {fact: number for number, fact in enumerate(stored)}
    parts: dict[str, list[Tensor]] = {relation: [] for relation in of.schema.relations}
    columns = _columns(of)
    everything = frozenset(stored)
    for number, graph in enumerate(graphs):
        keep = torch.ones(len(stored), dtype=torch.bool)
        keep[[place[fact] for fact in everything - graph]] = False
        added: dict[str, list[tuple[int, int]]] = {}
        for relation, a, b in graph - everything:
            added.setdefault(relation, []).append((a, b))
        for relation, (numbers, pairs) in columns.items():
            src, _, dst = of.schema.relations[relation]
            own = pairs[:, keep[numbers]]
            if relation in added:
                own = torch.cat([own, torch.tensor(added[relation]).t()], dim=1)
            offset = torch.tensor([[number * sizes[src]], [number * sizes[dst]]])
            parts[relation].append(own + offset)
    edges = {}
    for relation, (src, _, dst) in of.schema.relations.items():
        edge_index = torch.cat(parts[relation], dim=1)
        if src == dst:
            edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
        edges[src, relation, dst] = edge_index
        if (dst, f"rev_{relation}", src) in of.data.edge_types:
            edges[dst, f"rev_{relation}", src] = edge_index.flip(0)
    assert set(edges) == set(of.data.edge_types)
    x = {kind: of.data[kind].x.repeat(len(graphs), 1) for kind in sizes}
    source, _, target = of.schema.link_type
    copies = torch.arange(len(graphs))
    ends = torch.stack([copies * sizes[source] + link.src, copies * sizes[target] + link.dst])
    with torch.no_grad():
        return [float(score) for score in of.model(x, edges, ends)]


@cache
def _columns(of: Mechanism) -> dict[str, tuple[Tensor, Tensor]]:
    """By relation, the places of its facts among all, and their ends."""
    found = {}
    stored = stored_facts(of)
    for relation in of.schema.relations:
        numbers = [number for number, fact in enumerate(stored) if fact[0] == relation]
        pairs = torch.tensor([stored[number][1:] for number in numbers], dtype=torch.long)
        found[relation] = (torch.tensor(numbers, dtype=torch.long), pairs.reshape(-1, 2).t())
    return found
