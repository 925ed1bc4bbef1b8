"""Mimics: what training on other facts does to scores, against hand-made cases and autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pagelink.errors import SettingsError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.trained import mimics as module
from pagelink.trained.contrast import Contrast
from pagelink.trained.embeddings import EmbeddingModel, Loss
from pagelink.trained.facts import NodeFacts, training_graph
from pagelink.trained.mimics import Mimics, Trial, TrialLink
from pagelink.trained.pair_scores import pair_scores, pulled
from pagelink.trained.training import Training

S, T, A, B, C, D = range(6)
# Node s has the facts a and b. What a says of s is what t looks for, and b says the opposite.
TRIPLES = torch.tensor([[S, 0, A], [S, 0, B], [C, 0, T], [C, 0, A], [D, 0, B]])
VECTORS = torch.tensor([[0.5, 0.5], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])


def made(
    model: EmbeddingModel, triples: Tensor = TRIPLES, seed: int = 0, **training: Any
) -> tuple[Mimics, NodeFacts]:
    data, types = training_graph(model, triples)
    facts = NodeFacts(TypedGraph.from_data(data, types), types)
    return Mimics(model, facts, Training(**training), seed), facts


def simple(vectors: Tensor = VECTORS) -> EmbeddingModel:
    return EmbeddingModel("product", vectors, torch.ones(1, 2))


def fact(facts: NodeFacts, head: int, tail: int) -> int:
    graph = facts.graph
    (edge,) = np.flatnonzero((graph.src == head) & (graph.dst == tail) & (graph.relation == 0))
    return int(graph.fact[edge])


def link_of(facts: NodeFacts) -> TrialLink:
    return TrialLink(S, T, 0, np.empty(0, dtype=np.int64))


def effect(mimics: Mimics, facts: NodeFacts, gone: set[int], nodes: tuple[int, ...]) -> Any:
    trials = [Trial(0, nodes), Trial(0, nodes, frozenset(gone))]
    scores = mimics.scores([link_of(facts)], trials)
    return scores[0] - scores[1]


def test_a_fact_that_supports_the_link_lowers_its_score_by_its_absence() -> None:
    mimics, facts = made(simple())
    ends = (S, T)
    alike = effect(mimics, facts, {fact(facts, S, A)}, ends)
    unlike = effect(mimics, facts, {fact(facts, S, B)}, ends)
    assert (alike > 0).all()
    assert (unlike < 0).all()


def test_a_fact_between_two_trained_nodes_counts_by_the_vectors_of_both() -> None:
    mimics, facts = made(simple())
    inner = {fact(facts, C, A)}  # s - a - c - t
    assert np.allclose(effect(mimics, facts, inner, (S, T)), 0, atol=1e-6)
    assert abs(effect(mimics, facts, inner, (S, T, A, C)).mean()) > 1e-3


def test_trained_vectors_of_the_mimicked_nodes_do_not_leak() -> None:
    logistic = made(simple(), steps=5)[0]
    facts = logistic.facts
    other = VECTORS.clone()
    other[S] = torch.tensor([-3.0, 2.0])
    swapped = made(simple(other), steps=5)[0]
    swapped._spread = logistic._spread  # of all vectors, by which starts are drawn
    for each in (logistic, swapped):  # facts of others that do not look at s
        contrast = each._contrast
        contrast.query[:] = torch.tensor([1.0, 1.0])
    nodes = (S, T, C)
    found = [m.scores([link_of(facts)], [Trial(0, nodes)]) for m in (logistic, swapped)]
    assert np.allclose(found[0], found[1], atol=1e-6)


def test_results_depend_on_the_seed_and_on_nothing_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mimics, facts = made(simple())
    link = link_of(facts)
    trials = [Trial(0, (S, T)), Trial(0, (S, T), frozenset([fact(facts, S, A)])),
              Trial(0, (S, T, A), frozenset([fact(facts, S, B)])), Trial(0, (S, T, C))]  # fmt: skip
    state = torch.get_rng_state()
    together = mimics.scores([link], trials)
    assert torch.equal(state, torch.get_rng_state())
    monkeypatch.setattr(module, "SCORES_AT_ONCE", 1)
    alone = made(simple())[0].scores([link], trials)
    assert np.allclose(together, alone, atol=1e-5)
    assert not np.allclose(together, made(simple(), seed=1)[0].scores([link], trials))


def test_moved_facts_and_facts_put_back_are_trained_on() -> None:
    mimics, facts = made(simple())
    graph = facts.graph
    out = fact(facts, S, A)
    lacking = TrialLink(S, T, 0, np.array([out]))
    ends = (S, T)
    whole, without, back = (
        mimics.scores([each], [trial])[0]
        for each, trial in (
            (link_of(facts), Trial(0, ends)), (lacking, Trial(0, ends)),
            (lacking, Trial(0, ends, back=frozenset([out]))),
        )
    )  # fmt: skip
    assert np.allclose(back, whole, atol=1e-5)
    assert not np.allclose(without, whole)
    # c, which has the vector of a, in the place of a: entering s by the reverse relation.
    position = 1 - graph.edge_types.index(("entity", "relation 0", "entity"))
    moved = mimics.scores([lacking], [Trial(0, ends, moved=((C, S, position),))])[0]
    assert moved.mean() > without.mean() + 0.1


def test_a_node_of_many_facts_is_trained_on_some_that_stand_for_all() -> None:
    many = torch.tensor([[S, 0, n] for n in range(2, 40)] + [[40, 0, T]])
    random = torch.Generator().manual_seed(0)
    model = simple(torch.randn(41, 2, generator=random))
    mimics, facts = made(model, many, max_facts=10)
    counted = frozenset([fact(facts, S, 2)])
    rows = np.array([0, 1])
    trials = [Trial(0, (S, T), counted=counted), Trial(0, (S, T), counted, counted=counted)]
    table = mimics._table(S, link_of(facts).gone, trials, [{}, {}], rows)
    assert table is not None
    assert len(table.other) in (10, 11)
    kept = table.weight.sum(1).tolist()
    assert kept == pytest.approx([38.0, 37.0])
    (own,) = torch.nonzero(table.other == 2)[:, 0].tolist()
    assert table.weight[:, own].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("loss", [Loss(), Loss("logistic", 0.5), Loss("softmax")])
@pytest.mark.parametrize(
    ("kind", "norm", "unit"),
    [("product", 2, None), ("complex", 2, None), ("translation", 1, 2.0), ("translation", 1, 1.0),
     ("translation", 2, None), ("rotation", 2, None)],
)  # fmt: skip
def test_gradients_are_those_of_the_loss(
    kind: Any, norm: float, unit: float | None, loss: Loss
) -> None:
    random = torch.Generator().manual_seed(3)
    model = EmbeddingModel(
        kind, torch.randn(6, 4, generator=random), torch.randn(1, 4, generator=random), loss,
        norm=norm, unit_norm=unit,
    )  # fmt: skip
    mimics, facts = made(model, others=99)  # all of them
    trials = [Trial(0, (S, T, A)), Trial(0, (S, T), frozenset([fact(facts, S, B)]))]
    first = np.array([0, 3, 5])
    nodes = torch.tensor([S, T, A, S, T])
    free = torch.stack([mimics._start(int(node)) for node in nodes]).requires_grad_()
    shaped = model.shaped(free, nodes)
    total = torch.zeros(())
    for number, trial in enumerate(trials):
        at = {node: int(first[number]) + i for i, node in enumerate(trial.nodes)}
        for node, row in at.items():
            total = total + loss_of(facts, model, node, shaped[row], trial, at, shaped.detach())
    (expected,) = torch.autograd.grad(total, free)
    parts = mimics._loss_parts([link_of(facts)], trials, nodes, first)
    found = mimics._gradient(free.detach(), nodes, parts)
    assert torch.allclose(found, expected, atol=1e-4)


def loss_of(
    facts: NodeFacts, model: EmbeddingModel, node: int, mine: Tensor, trial: Trial,
    at: dict[int, int], shaped: Tensor,
) -> Tensor:  # fmt: skip
    """All facts in both directions, each end to be told from others; mine is [starts, size]."""
    graph, total = facts.graph, torch.zeros(())
    edges = range(len(graph.src))
    own = [e for e in edges if graph.dst[e] == node and int(graph.fact[e]) not in trial.gone]
    others = [e for e in edges if graph.dst[e] != node]
    frozen = torch.tensor([n for n in range(len(model.nodes)) if n != node])
    for edge in own + others:
        given, position = int(graph.src[edge]), int(graph.relation[edge])
        relation = torch.tensor(int(facts.model_relation[position]))
        is_head = torch.tensor(bool(facts.is_forward[position]))
        query = model.query(model.nodes[given], relation, is_head)
        rivals = model.of_query(model.nodes[frozen], query)
        if edge in own and given in at:  # a fact between two nodes that are trained
            query = model.query(shaped[at[given]], relation.expand(5), is_head.expand(5))
        score = model.of_query(mine, query)
        if model.loss.kind == "softmax":
            every = torch.cat([score[:, None], rivals.expand(5, -1)], 1).logsumexp(1)
            total = total + (every - score if edge in own else every).sum()
        elif edge in own:
            total = total + F.softplus(-score - model.loss.margin).sum()
        else:
            total = total + len(own) / len(others) * F.softplus(score + model.loss.margin).sum()
    return total


def test_a_margin_is_kept_from_random_ends_and_from_the_ends_of_others() -> None:
    random = torch.Generator().manual_seed(0)
    vectors, relation = torch.randn(3000, 8, generator=random), torch.ones(1, 8)
    model = EmbeddingModel("product", vectors, relation, Loss("margin", 1.0))
    facts = made(model)[1]
    contrast = Contrast(model, facts, starts=5, count=4, seed=0)
    given, zero = np.array([A, C]), np.array([0, 0])
    centre, width = contrast.of_facts(given, zero, zero > 0, np.array([S, T]))
    scores = vectors[given] @ vectors.T
    for score in (-2.0, 0.0, 3.0):
        # A random end comes closer than the margin for this share of all ends.
        share = (scores > score - 1).float().mean(1)
        assert torch.allclose(torch.sigmoid((centre - score) / width), share, atol=0.03)
    limit, _ = contrast.of_others(torch.tensor([S]))
    edges = range(len(facts.graph.src))
    known = {
        round(float(vectors[facts.graph.src[e]] @ vectors[facts.graph.dst[e]]) - 1, 3)
        for e in edges
    }
    assert {round(value, 3) for value in limit.flatten().tolist()} <= known


def test_the_facts_of_others_keep_a_node_from_scoring_high_everywhere() -> None:
    """A node with one fact, in a graph of many: its random score is low after training."""
    rows = [[n, 0, n + 1] for n in range(2, 30)]
    random = torch.Generator().manual_seed(0)
    vectors = torch.randn(32, 4, generator=random).abs()  # all look for much the same
    model = EmbeddingModel("product", vectors, torch.ones(1, 4), Loss("softmax"))
    triples = torch.tensor([[S, 0, 2], [T, 0, 3], *rows])
    few, facts = made(model, triples, others=1)
    all_of_them, _ = made(model, triples)
    ends = Trial(0, (S, T))
    low, high = (m.scores([link_of(facts)], [ends]).mean() for m in (all_of_them, few))
    assert low < high


@pytest.mark.parametrize("size", [3, 4, 9])
def test_distances_by_the_norm_1_and_their_gradient(size: int) -> None:
    random = torch.Generator().manual_seed(size)
    model = EmbeddingModel("translation", torch.ones(2, size), torch.ones(1, size), norm=1)
    ends = torch.randn(2, 5, size, generator=random, requires_grad=True)
    query = torch.randn(2, 7, size, generator=random)
    by_score = torch.randn(2, 5, 7, generator=random)
    expected = -torch.cdist(ends, query, p=1.0)
    (gradient,) = torch.autograd.grad(expected, ends, by_score)
    scores = pair_scores(model, ends.detach(), query)
    assert torch.allclose(scores, expected, atol=1e-5)
    assert torch.allclose(
        pulled(model, ends.detach(), query, by_score, scores), gradient, atol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "value"), [("starts", 4), ("steps", 0), ("others", 1.5), ("learning_rate", 0.0)]
)
def test_bad_training_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        Training(**{name: value})
