"""The whole method for one link, written down plainly: sets, loops and autograd.

Slow and obvious, on the full graph, with nothing of the package in it but its settings. What the
package returns is compared with what this returns (`test_plain_equal.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import HeteroConv, RGCNConv

from pagelink import Settings

EdgeType = tuple[str, str, str]
Node = tuple[str, int]
Fact = tuple[frozenset[EdgeType], frozenset[Node]]
"""A relation with its reverse, and the two ends; a self-loop has one end."""


@dataclass(frozen=True)
class Edge:
    """A stored edge."""

    type: EdgeType
    column: int
    src: Node
    dst: Node


@dataclass(frozen=True)
class Walk:
    """A simple path: the stored edge of each step, and whether it is walked backwards."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    backwards: tuple[bool, ...]
    rank: tuple[tuple[int, int], ...]
    """Where each step leads, and along which relation: the order of paths that cost the same."""


@dataclass
class Answer:
    """What there is to say about a link."""

    logit: float
    logit_deployed: float
    reason: str | None = None
    pruning_undone: bool = False
    masks: dict[Edge, float] = field(default_factory=dict)
    paths: list[Walk] = field(default_factory=list)
    scores: dict[Walk, float] = field(default_factory=dict)
    """Of all paths, returned or not."""
    epochs: int = 0


class Graph:
    """The stored edges of a PyG graph, and which of them state one fact."""

    def __init__(
        self, data: Any, link_type: EdgeType, reverse: Mapping[EdgeType, EdgeType] | None = None
    ) -> None:
        if isinstance(data, HeteroData):
            self.nodes = [(t, i) for t in data.node_types for i in range(data[t].num_nodes)]
            self.types = list(data.edge_types)
            columns = [(t, i) for t in self.types for i in range(data[t].num_edges)]
            ends = [data[t].edge_index[:, i].tolist() for t, i in columns]
        else:
            self.nodes = [("node", i) for i in range(data.num_nodes)]
            count = int(data.edge_type.max()) + 1
            self.types = [("node", str(k), "node") for k in range(count)]
            columns = [(self.types[k], i) for i, k in enumerate(data.edge_type.tolist())]
            ends = data.edge_index.t().tolist()
        self.edges = [
            Edge(t, i, (t[0], u), (t[2], v)) for (t, i), (u, v) in zip(columns, ends, strict=True)
        ]
        if link_type not in self.types:
            self.types.append(link_type)
        self.reverse = self._find_reverse() if reverse is None else dict(reverse)
        self.reverse |= {second: first for first, second in self.reverse.items()}

    def _find_reverse(self) -> dict[EdgeType, EdgeType]:
        found = {}
        for a, name, b in self.types:
            if (b, f"rev_{name}", a) in self.types:
                found[a, name, b] = (b, f"rev_{name}", a)
        pairs = {t: {(e.src, e.dst) for e in self.edges if e.type == t} for t in self.types}
        mirror = {t: {(v, u) for u, v in pairs[t]} for t in self.types}
        free = [
            t for t in self.types
            if pairs[t] and pairs[t] != mirror[t] and t not in {*found, *found.values()}
        ]  # fmt: skip
        while free:
            first = free.pop(0)
            twins = [t for t in free if pairs[t] == mirror[first] and t[::2] == first[2::-2]]
            if twins:
                found[first] = twins[0]
                free.remove(twins[0])
        return found

    def fact(self, edge_type: EdgeType, u: Node, v: Node) -> Fact:
        return frozenset({edge_type, self.reverse.get(edge_type, edge_type)}), frozenset({u, v})

    def facts(self, edges: Iterable[Edge]) -> set[Fact]:
        """The facts that some edges state, without self-loops."""
        return {self.fact(e.type, e.src, e.dst) for e in edges if e.src != e.dst}


def degrees(facts: set[Fact], nodes: Iterable[Node]) -> dict[Node, int]:
    count = dict.fromkeys(nodes, 0)
    for _, ends in facts:
        for node in ends:
            count[node] += 1
    return count


def hops_from(ends: tuple[Node, Node], edges: list[Edge], limit: int) -> dict[Node, int]:
    """Distances from s or t along in-edges, up to a limit."""
    hops = dict.fromkeys(ends, 0)
    for hop in range(1, limit + 1):
        new = {e.src for e in edges if hops.get(e.dst) == hop - 1} - hops.keys()
        hops |= dict.fromkeys(new, hop)
    return hops


def core_of(facts: set[Fact], nodes: set[Node], ends: tuple[Node, Node], core: int) -> set[Node]:
    """The k-core: take nodes with too few facts out until there are none, s and t apart."""
    while True:
        inside = {(r, two) for r, two in facts if two <= nodes}
        weak = {v for v, d in degrees(inside, nodes).items() if d < core} - {*ends}
        if not weak:
            return nodes
        nodes = nodes - weak


def all_paths(
    graph: Graph, facts: set[Fact], ends: tuple[Node, Node], longest: int, inner: set[Node]
) -> list[Walk]:
    """All simple paths from s to t along facts, each walked either way."""
    s, t = ends
    steps: dict[Node, list[tuple[Node, Edge, tuple[int, int]]]] = {}
    for relations, two in facts:
        same = [e for e in graph.edges if e.type in relations and {e.src, e.dst} == two]
        for here in two:
            (there,) = two - {here}
            along = [e for e in same if e.src == here] or same
            edge = min(along, key=lambda e: (graph.types.index(e.type), e.column))
            rank = graph.nodes.index(there), min(graph.types.index(t) for t in relations)
            steps.setdefault(here, []).append((there, edge, rank))

    def extend(walk: Walk) -> Iterator[Walk]:
        here = walk.nodes[-1]
        if here == t:
            yield walk
        elif len(walk.edges) < longest and (here == s or here in inner):
            for there, edge, rank in steps.get(here, []):
                if there not in walk.nodes:
                    yield from extend(
                        Walk((*walk.nodes, there), (*walk.edges, edge),
                             (*walk.backwards, edge.src != here), (*walk.rank, rank))
                    )  # fmt: skip

    return list(extend(Walk((s,), (), (), ())))


def score(model: nn.Module, data: Any, link: Any, edges: list[Edge], weights: Tensor) -> Tensor:
    """The model's word on the link, on the full graph of these edges with weighted messages."""

    def times(weight: Tensor, message: Tensor) -> Tensor:
        return message * weight.to(message.dtype).view(-1, *[1] * (message.dim() - 1))

    def index(edges: list[Edge]) -> Tensor:
        return torch.tensor([[e.src[1] for e in edges], [e.dst[1] for e in edges]]).long()

    with ExitStack() as stack:
        label = torch.tensor([[link[0][1]], [link[1][1]]])
        if isinstance(data, HeteroData):
            of_type = {t: [i for i, e in enumerate(edges) if e.type == t] for t in data.edge_types}
            for layer in [m for m in model.modules() if isinstance(m, HeteroConv)]:
                for edge_type, conv in layer.convs.items():

                    def by_type(_: Any, __: Any, out: Tensor, t: Any = edge_type) -> Tensor:
                        return times(weights[of_type[t]], out)

                    stack.callback(conv.register_message_forward_hook(by_type).remove)
            edge_index = {t: index([edges[i] for i in mine]) for t, mine in of_type.items()}
            return model(data.x_dict, edge_index, label).squeeze()
        kind = torch.tensor([int(e.type[1]) for e in edges])
        for conv in [m for m in model.modules() if isinstance(m, RGCNConv)]:
            relations = iter(range(conv.num_relations))  # it propagates once for each, in order

            def in_turn(_: Any, __: Any, out: Tensor, turn: Any = relations) -> Tensor:
                return times(weights[kind == next(turn)], out)

            stack.callback(conv.register_message_forward_hook(in_turn).remove)
        return model(data.x, index(edges), kind, label).squeeze()


def explain(
    model: nn.Module,
    data: HeteroData | Data,
    link: tuple[Node, Node, str],
    settings: Settings,
    num_layers: int,
    threshold: float | None = None,
    reverse: Mapping[EdgeType, EdgeType] | None = None,
) -> Answer:
    """Explain the link (source, target, name of the predicted relation) from an even start."""
    s, t, name = link
    link_type = (s[0], name, t[0])
    graph = Graph(data, link_type, reverse)
    ends = (s, t)

    # The explained link is taken out.
    itself = graph.fact(link_type, s, t)
    edges = [e for e in graph.edges if graph.fact(e.type, e.src, e.dst) != itself]
    degree = degrees(graph.facts(graph.edges), graph.nodes)
    with torch.no_grad():
        answer = Answer(*(
            float(score(model, data, ends, some, torch.ones(len(some))))
            for some in (edges, graph.edges)
        ))  # fmt: skip

    # The computation graph, and what the model can see of it.
    num_hops = settings.num_hops or num_layers
    nodes = set(hops_from(ends, edges, num_hops))
    inside = [e for e in edges if {e.src, e.dst} <= nodes]
    facts = graph.facts(inside)
    near = hops_from(ends, edges, num_hops - 1)
    visible = graph.facts(e for e in inside if e.dst in near)

    # Pruning, and the paths that are left.
    hubs = {v for v in nodes if degree[v] > (settings.hub_degree or math.inf)} - {*ends}
    core = core_of(facts, nodes - hubs, ends, settings.core)
    inner = {v for v in nodes if degree[v] <= (settings.max_degree or math.inf)}

    def paths_in(some: set[Node], longest: int, inner: set[Node]) -> list[Walk]:
        allowed = {(relations, two) for relations, two in visible if two <= some}
        return all_paths(graph, allowed, ends, longest, inner)

    paths = paths_in(core, settings.max_length, inner)
    if not paths and settings.unpruned_fallback:
        paths = paths_in(nodes, settings.max_length, inner)
        answer.pruning_undone = bool(paths)
    if answer.pruning_undone:
        core = nodes
    if threshold is not None and answer.logit < threshold:
        answer.reason = "predicted_negative"
    elif not paths:
        if not joined(visible, ends):
            answer.reason = "not_connected"
        elif not paths_in(nodes, settings.max_length, nodes):
            answer.reason = "beyond_max_length"
        elif not paths_in(nodes, settings.max_length, inner):
            answer.reason = "excluded"
        else:
            answer.reason = "pruned_away"
    if answer.reason:
        return answer

    # Mask learning.
    kept = [e for e in inside if {e.src, e.dst} <= core]
    used = [e for e in edges if not settings.remove_pruned or e in kept or e not in inside]
    logits = torch.zeros(len(kept), requires_grad=True)
    adam = torch.optim.Adam([logits], lr=settings.learning_rate)
    where = torch.tensor([used.index(e) for e in kept])
    before: set[Edge] = set()
    steady = 0
    unit = 0.0
    learned_on = paths
    if settings.path_loss == "released":  # of any length, through facts that the model cannot see
        free = {(relations, two) for relations, two in facts if two <= core}
        learned_on = all_paths(graph, free, ends, len(nodes), inner)
    while answer.epochs < settings.epochs and steady < (settings.patience or math.inf):
        ranked = rank(learned_on, dict(zip(kept, logits.tolist(), strict=True)), t, degree)
        best = {e for p in ranked[: settings.paths_per_epoch] for e in p.edges}
        steady = steady + 1 if best == before else 0
        before = best
        count = settings.paths_per_epoch
        if settings.path_schedule == "cycle":
            count -= answer.epochs % settings.paths_per_epoch
        on_path = torch.tensor([
            e in {e for p in ranked[:count] for e in p.edges} for e in kept
        ])  # fmt: skip
        weights = torch.ones(len(used)).index_put((where,), torch.sigmoid(logits))
        masked = score(model, data, ends, used, weights)
        if settings.pred_loss == "gap":
            lacking = masked - answer.logit
            unit = unit or abs(float(lacking.detach())) or 1.0
            masked = 3 + lacking / unit
        loss = -settings.pred_weight * F.logsigmoid(masked)
        up, down = logits[on_path], logits[~on_path]
        if settings.path_loss == "mean":
            loss = loss - settings.alpha * up.mean()
            loss = loss + (settings.beta * down.mean() if len(down) else 0)
        elif settings.path_loss == "released":
            walked = [kept.index(e) for p in ranked[:count] for e in p.edges]
            loss = loss - settings.alpha * torch.sigmoid(logits)[walked].mean()
            if len(down):
                loss = loss + settings.beta * torch.sigmoid(down).mean()
        else:
            loss = loss - settings.alpha * up.sum() + settings.beta * down.sum()
        adam.zero_grad()
        loss.backward()
        norm = float(torch.sigmoid(logits.detach()).norm())
        adam.step()
        answer.epochs += 1
        moved = abs(float(torch.sigmoid(logits.detach()).norm()) - norm)
        if settings.path_loss == "released" and moved < 1e-3:
            break

    # The best paths by the final mask.
    learned = dict(zip(kept, logits.tolist(), strict=True))
    answer.masks = {e: 1 / (1 + math.exp(-m)) for e, m in learned.items()}
    budget = math.inf if settings.budget is None else settings.budget // settings.max_length
    ranked = rank(paths, learned, t, degree)
    answer.paths = ranked[: int(min(settings.num_paths, budget))]
    for path in paths:
        steps = zip(path.edges, path.nodes[1:], strict=True)
        answer.scores[path] = sum(
            math.log(answer.masks[e]) - (math.log(degree[v]) if v != t else 0) for e, v in steps
        )
    return answer


def rank(
    paths: list[Walk], logits: dict[Edge, float], t: Node, degree: dict[Node, int]
) -> list[Walk]:
    """Order paths by Score(p), best first; ties by nodes and relations in their order.

    Costs are whole numbers of 2^-32, so that sums of the same numbers are the same.
    """

    def cost(path: Walk) -> int:
        return sum(
            round(2**32 * (math.log1p(math.exp(-logits[e])) + math.log(degree[v] if v != t else 1)))
            for e, v in zip(path.edges, path.nodes[1:], strict=True)
        )

    return sorted(paths, key=lambda path: (cost(path), path.rank))


def joined(facts: set[Fact], ends: tuple[Node, Node]) -> bool:
    """Whether any facts lead from s to t."""
    found = {ends[0]}
    while True:
        more = {v for _, two in facts if two & found for v in two} - found
        if not more:
            return ends[1] in found
        found |= more
