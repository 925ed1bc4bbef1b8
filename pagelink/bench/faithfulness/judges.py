"""Judges of explanations that the choice of the paths never sees.

(a) The facts of the paths are replaced, not removed: of every fact one end stays, the other becomes
a random node of the same type and a similar degree. Each end keeps its number of facts of each
relation, so this asks whether it matters what the facts lead to. (b) Random sets of facts are
removed; how well does the explanation foretell the change? (c) The model is trained anew without
the facts of the paths.

The logits of (a) are found by the plain way: around every link the in-edges are gathered hop by hop
on the edited graph, and the model runs on what was gathered. Nothing of the explainer's own
machinery for edited graphs takes part, so that this can also serve as a check of it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.bench.subjects import Subject
from pagelink.graph.lookup import edges_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.feeds import scorer
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import split_graph
from pagelink.models.messages import adjacencies, message_graph
from pagelink.models.training import train
from pagelink.rivals.ground import FactPath, Ground, Ranked, facts_of
from pagelink.runtime.arrays import Doubles, Longs

EDGES_PER_PASS = 400_000


@dataclass(frozen=True)
class EditedGraph:
    """The whole graph, other in some facts, and the link to score."""

    src: int
    dst: int
    """The ends of the link, as flat nodes."""
    removed: frozenset[int]
    """Facts that are taken out, the link's own among them."""
    added: tuple[tuple[int, int, int], ...] = ()
    """Edges that are put in: position of the relation, flat source, flat target."""


class RewiredModel:
    """Asks a model about edited graphs.

    Args:
        model: called as `model(x_dict, edge_index_dict, edge_label_index)`.
        x_dict: the inputs of all nodes, by node type.
        graph: the graph, flat.
        num_hops: how far the model sees.
    """

    def __init__(
        self, model: LinkModel, x_dict: dict[str, Tensor], graph: TypedGraph, num_hops: int
    ) -> None:
        self._model, self._x_dict, self._graph, self._num_hops = model, x_dict, graph, num_hops

    def logits(self, edited: Sequence[EditedGraph]) -> Doubles:
        """Return the logit of each graph's link."""
        return np.concatenate([*map(self._run, self._passes(edited)), np.empty(0)])

    def _passes(self, edited: Sequence[EditedGraph]) -> Iterator[list[tuple[EditedGraph, Longs]]]:
        part: list[tuple[EditedGraph, Longs]] = []
        size = 0
        for one in edited:
            edges = self._around(one)
            if part and size + edges.shape[1] > EDGES_PER_PASS:
                yield part
                part, size = [], 0
            part.append((one, edges))
            size += edges.shape[1]
        if part:
            yield part

    def _around(self, edited: EditedGraph) -> Longs:
        """[3, num_edges]: relation, source, target of the edges that can move the score."""
        graph = self._graph
        added = np.array(edited.added, dtype=np.int64).reshape(-1, 3).T
        removed = np.array(sorted(edited.removed), dtype=np.int64)
        inside = np.zeros(graph.num_nodes, dtype=np.bool_)
        ring = np.unique([edited.src, edited.dst])
        found = [np.empty((3, 0), dtype=np.int64)]
        for _ in range(self._num_hops):
            inside[ring] = True
            edges = np.concatenate(
                [np.arange(*graph.in_ptr[node : node + 2]) for node in ring]
                + [np.empty(0, dtype=np.int64)]
            ).astype(np.int64)
            edges = edges[~np.isin(graph.fact[edges], removed)]
            own = np.stack([graph.relation[edges], graph.src[edges], graph.dst[edges]])
            new = added[:, np.isin(added[2], ring)]
            found += [own.astype(np.int64), new]
            sources = np.unique(np.concatenate([own[1], new[1]])).astype(np.int64)
            ring = sources[~inside[sources]]
        return np.concatenate(found, axis=1)

    def _run(self, part: list[tuple[EditedGraph, Longs]]) -> Doubles:
        """Run the model on graphs side by side, each with nodes of its own."""
        graph, size = self._graph, self._graph.num_nodes
        shifts = np.repeat(np.arange(len(part)) * size, [edges.shape[1] for _, edges in part])
        relation, src, dst = np.concatenate([edges for _, edges in part], axis=1)
        ends = np.array([[one.src, one.dst] for one, _ in part]).T + np.arange(len(part)) * size
        keys = np.unique(np.concatenate([src + shifts, dst + shifts, ends.ravel()]))
        node = keys % size
        kind = graph.node_type_of[node]
        place = np.empty(len(keys), dtype=np.int64)
        x_dict = {}
        for position, node_type in enumerate(graph.node_types):
            mine = np.flatnonzero(kind == position)
            place[mine] = np.arange(len(mine))
            local = node[mine] - graph.node_offset[position]
            x_dict[node_type] = self._x_dict[node_type][torch.from_numpy(local)]

        def numbers(flat: Longs) -> Longs:
            return place[np.searchsorted(keys, flat)]

        edge_index = np.stack([numbers(src + shifts), numbers(dst + shifts)])
        edge_index_dict = {
            edge_type: torch.from_numpy(edge_index[:, relation == position])
            for position, edge_type in enumerate(graph.edge_types[: graph.num_relations])
        }
        pairs = torch.from_numpy(np.stack([numbers(ends[0]), numbers(ends[1])]))
        known = self._model.takes_adjacency
        edges = adjacencies(x_dict, edge_index_dict) if known else edge_index_dict
        with torch.no_grad():
            logits: Tensor = self._model(x_dict, edges, pairs)
        return logits.double().numpy()


DRAWS = 3
"""Random replacements of a set of paths; their effects are averaged."""
SIMILAR = 20
"""Number of nodes of the same type, of the nearest degrees, that a node is replaced by."""
SETS = 40
"""Random sets of facts for a link."""
RETRAINED = 20
"""Links for which a model is trained anew."""


class Replacements:
    """Draws replacements of facts, for judge (a)."""

    def __init__(self, graph: TypedGraph) -> None:
        self._graph = graph
        # Per node type, its nodes in the order of their degrees.
        self._by_degree = []
        for first, last in zip(graph.node_offset[:-1], graph.node_offset[1:], strict=True):
            self._by_degree.append(first + np.argsort(graph.degree[first:last], kind="stable"))
        self._place = np.empty(graph.num_nodes, dtype=np.int64)
        for nodes in self._by_degree:
            self._place[nodes] = np.arange(len(nodes))

    def draw(
        self, src: int, dst: int, link_fact: int, paths: Sequence[FactPath],
        rng: np.random.Generator,
    ) -> EditedGraph:  # fmt: skip
        """The graph in which each fact of the paths leads elsewhere.

        A fact at the source or the target keeps that end; of any other a random end stays. A fact
        for which no node is found is only taken out.
        """
        removed, added = {link_fact} - {-1}, []
        for fact in facts_of(paths):
            removed.add(fact)
            edges = edges_of_facts(self._graph, [fact])
            ends = {int(self._graph.src[edges[0]]), int(self._graph.dst[edges[0]])}
            fixed = [end for end in (src, dst) if end in ends]
            kept = fixed[0] if fixed else sorted(ends)[int(rng.integers(2))]
            (lost,) = ends - {kept}
            other = self._elsewhere(kept, lost, {src, dst}, edges, rng)
            if other is None:
                continue
            for edge in edges.tolist():
                swapped = [
                    other if end == lost else int(end)
                    for end in (self._graph.src[edge], self._graph.dst[edge])
                ]
                added.append((int(self._graph.relation[edge]), swapped[0], swapped[1]))
        return EditedGraph(src, dst, frozenset(removed), tuple(added))

    def _elsewhere(
        self, kept: int, lost: int, ends: set[int], edges: Longs, rng: np.random.Generator
    ) -> int | None:
        graph = self._graph
        nodes = self._by_degree[graph.node_type_of[lost]]
        place = int(self._place[lost])
        first = max(0, min(place - SIMILAR // 2, len(nodes) - SIMILAR - 1))
        near = nodes[first : first + SIMILAR + 1]
        classes = set(graph.relation_class[graph.relation[edges]].tolist())
        arcs = graph.arcs_of(kept)
        same = np.isin(graph.relation_class[graph.relation[graph.arc_edge[arcs]]], list(classes))
        taken = {*graph.arc_dst[arcs][same].tolist(), *ends, kept, lost}
        free = [int(node) for node in near if int(node) not in taken]
        return free[int(rng.integers(len(free)))] if free else None


def replaced_effects(
    ground: Ground,
    model: LinkModel,
    data: HeteroData,
    rankings: Mapping[str, Ranked],
    links: Sequence[int],
    seed: int,
) -> dict[str, Doubles]:
    """Judge (a): per ranking and link, f(G) minus the mean of f where the facts lead elsewhere."""
    explainer = ground.explainer
    graph, num_hops = explainer.graph, explainer.receptive_field.num_hops
    assert num_hops is not None, "the models of this benchmark are local"
    ask = RewiredModel(model, node_inputs(data), graph, num_hops)
    replacements = Replacements(graph)
    effects = {}
    for name, ranked in rankings.items():
        edited = []
        for number in links:
            link = ground.links[number]
            rng = np.random.default_rng((seed, link.src, link.dst))
            edited += [
                replacements.draw(link.src, link.dst, link.fact, ranked[number], rng)
                for _ in range(DRAWS)
            ]
        after = ask.logits(edited).reshape(-1, DRAWS).mean(1)
        effects[name] = ground.logits[np.asarray(links, dtype=np.int64)] - after
    return effects


def foretelling(
    ground: Ground,
    rankings: Mapping[str, Ranked],
    measuring: Collection[str],
    link: int,
    seed: int,
) -> dict[str, tuple[float, float]]:
    """Judge (b): per ranking, the correlation of foretold and true changes of one link's logit.

    The facts that may go are those of all rankings' paths, and as many others that lie on paths;
    each is in a set with probability 1/2. Foretold is the sum of what the explanation says of those
    facts of a set that are in it: their measured effect, or 1 each if the ranking measures nothing.
    An explanation that foretells nothing counts as 0.

    Args:
        ground: the links.
        rankings: what they return.
        measuring: the rankings whose explanations hold measured effects.
        link: position of the link.
        seed: with the link, where the sets are drawn from.

    Returns:
        The correlation by what the explanation says itself; and the one by the measured effects of
        its facts, whatever the ranking.
    """
    ends = ground.links[link]
    rng = np.random.default_rng((seed, ends.src, ends.dst, 1))
    shown = facts_of([path for ranked in rankings.values() for path in ranked[link]])
    others = np.setdiff1d(ground.path_facts(link), shown)
    drawn = rng.permutation(others)[: len(shown)]
    facts = np.concatenate([np.array(shown, dtype=np.int64), drawn])
    if len(facts) == 0:
        return dict.fromkeys(rankings, (0.0, 0.0))
    gone = rng.random((SETS, len(facts))) < 0.5
    sets = [facts[row].tolist() for row in gone] + [[fact] for fact in facts.tolist()]
    measured = ground.effects([link] * len(sets), sets)
    true, single = measured[:SETS], measured[SETS:]
    result = {}
    for name, ranked in rankings.items():
        inside = np.isin(facts, facts_of(ranked[link]))
        by_effect = correlation(gone @ np.where(inside, single, 0.0), true)
        by_count = correlation(gone @ inside.astype(np.float64), true)
        result[name] = (by_effect if name in measuring else by_count, by_effect)
    return result


def correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Pearson's correlation; 0 where one of the two does not vary.

    Example:
        >>> correlation([0, 1, 2], [1, 1, 4]), correlation([1, 1], [0, 1])
        (0.8660254037844387, 0.0)
    """
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale > 1e-12 else 0.0


def retrained_effects(
    subject: Subject,
    shown: Mapping[str, Ranked],
    seed: int,
    links: int = RETRAINED,
    progress: Callable[[str], None] = lambda what: None,
) -> dict[str, Doubles]:
    """Judge (c): per ranking, how far the logits of the first links fall by training anew.

    For each link the facts of its paths are taken out of the graph, and a model with the same first
    weights and the same seed is trained and asked. Training is chaotic: a change of one fact moves
    all weights. So the row of the random paths is the measure of what any change does.

    Args:
        subject: a subject that was trained here on a split that keeps the links out of messages.
        shown: per ranking, the paths of each link.
        seed: the one the subject was trained with.
        links: number of links.
        progress: called with what comes next.
    """
    pairs = subject.pairs[:links]
    graph = TypedGraph.from_data(subject.data, [subject.link_type])
    before = np.array([_logit(subject.model, subject.data, pair) for pair in pairs])
    effects = {}
    for name, ranked in shown.items():
        after = []
        for number, pair in enumerate(pairs):
            progress(f"{subject.name}: training without the paths, {name}, link {number + 1}")
            after.append(_without(subject, graph, facts_of(ranked[number]), pair, seed))
        effects[name] = before - np.array(after)
    return effects


def _without(
    subject: Subject, graph: TypedGraph, facts: Sequence[int], pair: tuple[int, int], seed: int
) -> float:
    assert subject.whole is not None
    assert subject.settings is not None
    data = without_facts(subject.whole, graph, facts)
    model = type(subject.model)(**subject.model.config)
    split = split_graph(subject.whole, subject.link_type, seed)
    settings = dataclasses.replace(subject.settings, retrain_edgeless=False)
    train(model, data, subject.link_type, split, settings, seed=seed)
    seen = message_graph(data, subject.link_type, split.train, paper_split=settings.paper_split)
    return _logit(model, seen, pair)


def without_facts(whole: HeteroData, graph: TypedGraph, facts: Sequence[int]) -> HeteroData:
    """The graph without all edges that state some facts.

    Args:
        whole: the graph.
        graph: its relations but the predicted one, flat: columns are the same in both.
        facts: facts of the flat graph.
    """
    data = copy.copy(whole)
    edges = edges_of_facts(graph, facts)
    for position in np.unique(graph.relation[edges]):
        edge_type = graph.edge_types[position]
        columns = graph.column[edges[graph.relation[edges] == position]]
        kept = torch.ones(whole[edge_type].edge_index.shape[1], dtype=torch.bool)
        kept[torch.from_numpy(columns.astype(np.int64))] = False
        data[edge_type].edge_index = whole[edge_type].edge_index[:, kept]
    return data


def _logit(model: LinkModel, data: HeteroData, pair: tuple[int, int]) -> float:
    score = scorer(model, node_inputs(data), dict(data.edge_index_dict))
    return float(score(torch.tensor([[pair[0]], [pair[1]]])))
