"""Swaps of facts: what they keep, and that the scores are those of the graph edited by hand."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from support.chains_of_books import LINK, WalkModel, scenes
from support.zoo import ZOO, links_of, make_case

from pagelink import PaGELink, Settings
from pagelink.graph.computation_graph import FAR, ComputationGraphs
from pagelink.graph.lookup import edges_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.swaps import JobList, Jobs, Swaps, draw, swapped_logits
from pagelink.model.edited_logits import EditedLogits
from pagelink.model.predictor import LinkPredictor
from pagelink.rivals.ground import Ground
from pagelink.runtime.csr import Csr

DRAWS, LENGTH = 4, 3
MODELS = [
    "HeteroConv SAGE", "HeteroConv GAT", "HGT", "RGCN", "GCN with self-loops", "to_hetero",
    "embedding by n_id", "edge_attr and edge_weight", "whole embedding table", "HAN",
    "to_homogeneous inside",
]  # fmt: skip


def drawn(name: str, number: int) -> tuple[PaGELink, Ground, Jobs, Swaps]:
    """Swaps of the paths of one link of a model."""
    case = make_case(name)
    options = {"threshold": None} | case.options
    explainer = PaGELink(case.model, case.data, case.link_type, Settings(), **options)
    ground = Ground.of(explainer, [links_of(case)[number]])
    jobs = JobList(ground.graphs, 3)
    slots = np.unique(ground.paths.arc_slot)[:4]
    jobs.add(0, slots, DRAWS, 0)
    jobs.add_placebos(0, slots, 2, 1000)
    listed = jobs.listed()
    return explainer, ground, listed, draw(ground.graphs, listed, LENGTH, 3)


def new_edges(explainer: PaGELink, swaps: Swaps, ground: Ground, number: int) -> dict[int, Any]:
    """By stored edge, its source and target after a draw."""
    graph, moved = explainer.graph, {}
    here = slice(*swaps.facts.ptr[number : number + 2])
    for slot, (edge, x, y) in zip(swaps.facts.values[here], swaps.partners[here], strict=True):
        own = int(ground.batch.edges[slot])
        a, b = int(graph.src[own]), int(graph.dst[own])
        for fact, (tail, head), ends in (
            (graph.fact[own], (a, b), (a, int(y))), (graph.fact[edge], (x, y), (int(x), b)),
        ):  # fmt: skip
            for each in edges_of_facts(graph, [fact]).tolist():
                forth = graph.src[each] == tail and graph.dst[each] == head
                moved[each] = ends if forth else ends[::-1]
    return moved


def edited(explainer: PaGELink, data: Any, moved: dict[int, Any], without: set[int]) -> Any:
    """The user's graph with some edges led elsewhere, and without others."""
    graph, data = explainer.graph, copy.copy(data)
    offset = {t: int(graph.node_offset[i]) for i, t in enumerate(graph.node_types)}
    hetero = hasattr(data, "edge_types")
    stores = graph.edge_types[: graph.num_relations] if hetero else [None]
    for position, edge_type in enumerate(stores):
        store = data[edge_type] if hetero else data
        edge_index = store.edge_index.clone()
        kept = torch.ones(edge_index.shape[1], dtype=torch.bool)
        for edge in {*moved, *without}:
            if hetero and graph.relation[edge] != position:
                continue
            column = int(graph.column[edge])
            if edge in without:
                kept[column] = False
            else:
                ends = moved[edge]
                shift = [offset[graph.node(end)[0]] for end in ends]
                edge_index[:, column] = torch.tensor(
                    [e - s for e, s in zip(ends, shift, strict=True)]
                )
        size = edge_index.shape[1]
        of_edges = [k for k, v in store.items()
                    if isinstance(v, torch.Tensor) and k != "edge_index" and v.shape[0] == size
                    and (hetero or data.is_edge_attr(k))]  # fmt: skip
        for key in of_edges:
            store[key] = store[key][kept]
        store.edge_index = edge_index[:, kept]
    return data


@pytest.mark.parametrize("place", [3, 4])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_graph_edited_by_hand(name: str, place: int) -> None:
    explainer, ground, jobs, swaps = drawn(name, place)
    assert len(swaps.job) >= 2
    answers = swapped_logits(explainer.setup, ground.batch, ground.relation, jobs, swaps)
    assert np.abs(answers - ground.logits[0]).max() > 1e-4
    case, (link,) = make_case(name), ground.links
    for number in range(len(swaps.job)):
        own = set(edges_of_facts(explainer.graph, [link.fact]).tolist())
        data = edited(explainer, case.data, new_edges(explainer, swaps, ground, number), own)
        link_types = [explainer.graph.edge_types[ground.relation[0]]]
        graph = TypedGraph.from_data(data, link_types, explainer.reverse)
        again = LinkPredictor(
            case.model, data, graph, case.options.get("forward"),
            case.options.get("output", "logit"),
        )  # fmt: skip
        every = np.array([[link.src], [link.dst]])
        inputs = again.full_graph(*every, explainer.setup.relations([link]))
        expected = float(again.logits(inputs))
        assert answers[number] == pytest.approx(expected, abs=2e-5)


def test_nodes_that_no_message_comes_from_do_not_come_nearer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[ComputationGraphs] = []

    class Noted(EditedLogits):
        def __init__(self, predictor: Any, batch: ComputationGraphs, *others: Any) -> None:
            seen.append(batch)
            super().__init__(predictor, batch, *others)

    monkeypatch.setattr("pagelink.search.work.EditedLogits", Noted)
    for place in (3, 4):
        explainer, ground, jobs, swaps = drawn("HeteroConv SAGE", place)
        swapped_logits(explainer.setup, ground.batch, ground.relation, jobs, swaps)
    assert any((batch.hops == FAR).any() for batch in seen)
    assert all((batch.hops >= 0).all() for batch in seen)


@pytest.mark.parametrize("name", ["HeteroConv SAGE", "RGCN"])
def test_degrees_stay_and_nothing_comes_twice(name: str) -> None:
    explainer, ground, _, swaps = drawn(name, 3)
    graph, (link,) = explainer.graph, ground.links
    there = {(graph.relation_class[r], frozenset((s, d)))
             for r, s, d in zip(graph.relation, graph.src, graph.dst, strict=True)}  # fmt: skip
    for number in range(len(swaps.job)):
        moved = new_edges(explainer, swaps, ground, number)
        before, after, new = Counter(), Counter(), Counter()
        for edge, (src, dst) in moved.items():
            relation = int(graph.relation[edge])
            before.update([(relation, "out", graph.src[edge]), (relation, "in", graph.dst[edge])])
            after.update([(relation, "out", src), (relation, "in", dst)])
            new[graph.relation_class[relation], frozenset((src, dst)), graph.fact[edge]] += 1
        assert before == after
        facts = [(kind, ends) for kind, ends, _ in new]
        assert len(set(facts)) == len(facts)
        assert not {*facts} & there
        assert all(len(ends) == 2 for _, ends in facts)
        assert frozenset((link.src, link.dst)) not in {ends for _, ends in facts}


def test_no_new_path_comes() -> None:
    explainer, ground, _, swaps = drawn("HeteroConv SAGE", 3)
    graph, (link,) = explainer.graph, ground.links
    for number in range(len(swaps.job)):
        moved = new_edges(explainer, swaps, ground, number)
        pairs = {frozenset((int(s), int(d))) for e, (s, d) in enumerate(
            zip(graph.src, graph.dst, strict=True)) if e not in moved
            and graph.fact[e] != link.fact}  # fmt: skip
        new = {frozenset(ends) for ends in moved.values()}
        neighbours: dict[int, set[int]] = {}
        for one, other in (tuple(p) for p in pairs | new if len(p) == 2):
            neighbours.setdefault(one, set()).add(other)
            neighbours.setdefault(other, set()).add(one)
        walks = [(link.src,)]
        for _ in range(LENGTH):
            walks = [(*w, n) for w in walks if w[-1] != link.dst
                     for n in neighbours.get(w[-1], ()) if n not in w]  # fmt: skip
            for walk in walks:
                if walk[-1] == link.dst:
                    assert not any(frozenset(step) in new - pairs for step in pairwise(walk))


def test_draws_depend_on_the_link_and_the_seed_alone() -> None:
    explainer, ground, jobs, swaps = drawn("HeteroConv SAGE", 3)
    case = make_case("HeteroConv SAGE")
    several = Ground.of(explainer, links_of(case)[:4])
    edges = ground.batch.edges[jobs.facts.values]
    slots = several.batch.edge_ptr[3] + np.searchsorted(several.edges(3), edges)
    beside = replace(jobs, link=np.full(len(jobs.link), 3), facts=Csr(jobs.facts.ptr, slots))
    again = draw(several.graphs, beside, LENGTH, 3)
    assert np.array_equal(again.partners, swaps.partners)
    other = draw(several.graphs, beside, LENGTH, 4)
    assert not np.array_equal(other.partners, swaps.partners)


def test_every_model_of_the_list_is_in_the_zoo() -> None:
    assert set(MODELS) <= set(ZOO)


def test_a_connection_for_which_others_stand_in_counts() -> None:
    # Reader 0 owns books 1, 2 and 4, all by the author of book 3; any one of them is enough.
    facts = [(0, "owns", 1), (0, "owns", 2), (0, "owns", 4)]
    facts += [(book, "by", 0) for book in (1, 2, 3, 4)]
    model = WalkModel("owns by rev_by", slope=4.0, saturates=True)
    answer = PaGELink(model, scenes(facts), LINK).explain(0, 3)
    path = answer.paths[0]
    assert path.influence == pytest.approx(4.0)  # by its last fact, which all paths share
    assert path.edges[1].influence == 0
    assert path.connection == pytest.approx(1.0)
    assert "that they are connected adds nothing" not in str(answer)
