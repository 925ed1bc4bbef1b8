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
from pagelink.trained.embeddings import EmbeddingModel, Loss
from pagelink.trained.facts import NodeFacts, training_graph
from pagelink.trained.mimics import Mimics, Training, Trial, TrialLink

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
    return TrialLink(S, T, 0, np.zeros(facts.graph.num_facts, dtype=np.bool_))


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
    mimics, facts = made(simple(), steps=5)
    other = VECTORS.clone()
    other[[S, A]] = other[[A, S]]
    other[[S, A]] *= -1  # the spread of all vectors, by which starts are drawn, hardly changes
    swapped, _ = made(simple(other), steps=5)
    swapped._spread = mimics._spread
    swapped._random = {node: mimics._negatives(node) for node in range(6)}
    nodes = (S, T, A)
    for node in nodes:  # random ends must be others than these: they stay as they were trained
        kept = mimics._random[node]
        kept[np.isin(kept, nodes)] = B
    found = [m.scores([link_of(facts)], [Trial(0, nodes)]) for m in (mimics, swapped)]
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
    lacking = link_of(facts)
    lacking.gone[out] = True
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


@pytest.mark.parametrize("loss", [Loss(), Loss("margin", 1.0), Loss("softmax")])
@pytest.mark.parametrize(
    ("kind", "norm", "unit"),
    [("product", 2, None), ("complex", 2, None), ("translation", 1, 2.0),
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
    mimics, facts = made(model)
    trials = [Trial(0, (S, T, A)), Trial(0, (S, T), frozenset([fact(facts, S, B)]))]
    first = np.array([0, 3, 5])
    nodes = torch.tensor([S, T, A, S, T])
    free = torch.stack([mimics._start(int(node)) for node in nodes]).requires_grad_()
    shaped = model.shaped(free, nodes)
    total = torch.zeros(())
    for number, trial in enumerate(trials):
        at = {node: int(first[number]) + i for i, node in enumerate(trial.nodes)}
        for node, row in at.items():
            others, relations, heads, number_of = facts.of(node)
            for m in range(len(others)):
                if int(number_of[m]) in trial.gone:
                    continue
                other = int(others[m])
                # Each end learns from its own facts, the other end as it is.
                end = shaped[at[other]].detach() if other in at else model.nodes[other]
                random_ends = torch.from_numpy(mimics._negatives(node)[m])
                ends = torch.cat([end.expand(5, -1)[:, None],
                                  model.nodes[random_ends].expand(5, -1, -1)], 1)  # fmt: skip
                relation = torch.full(ends.shape[:2], int(relations[m]))
                is_head = torch.full(ends.shape[:2], bool(heads[m]))
                query = model.query(ends, relation, is_head)
                scores = model.of_query(shaped[row][:, None], query)
                total = total + one_loss(loss, scores, len(model.nodes))
    (expected,) = torch.autograd.grad(total, free)
    groups = list(mimics._groups([link_of(facts)], trials, first))
    found = mimics._gradient(free.detach(), nodes, groups)
    assert torch.allclose(found, expected, atol=1e-4)


def one_loss(loss: Loss, scores: Tensor, num_nodes: int) -> Tensor:
    """The loss of a fact, scores [starts, 1 + negatives]."""
    true, others = scores[:, 0], scores[:, 1:]
    if loss.kind == "logistic":
        return (F.softplus(-true) + F.softplus(others).mean(-1)).sum()
    if loss.kind == "margin":
        return F.relu(loss.margin - true[:, None] + others).mean(-1).sum()
    others = others + float(np.log((num_nodes - 1) / others.shape[1]))
    every = torch.cat([true[:, None], others], -1)
    return -every.log_softmax(-1)[:, 0].sum()


@pytest.mark.parametrize(
    ("name", "value"), [("starts", 4), ("steps", 0), ("negatives", 1.5), ("learning_rate", 0.0)]
)
def test_bad_training_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        Training(**{name: value})
