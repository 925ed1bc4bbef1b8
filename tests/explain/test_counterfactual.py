"""Counterfactuals: right by hand, and the smallest by brute force."""

from __future__ import annotations

import copy
import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from support.films import FILMS, LIKES, RATED, SEEN, Taste, Two, random_case, shop, without
from torch_geometric.data import HeteroData

from pagelink import PaGELink
from pagelink.errors import LinkError, SettingsError
from pagelink.explain.counterfactual import At, Counterfactual
from pagelink.explain.counterfactual_search import facts_at_source, named_facts
from pagelink.explain.ranking import open_ends
from pagelink.graph.typed_graph import TypedGraph


def test_the_prediction_turns_without_one_fact() -> None:
    # Ann and D: 1.0 by A and 0.5 by B, minus 1. Without A it is -0.5, without B it is 0.
    explainer = PaGELink(Taste(bias=-1.0), shop(SEEN, FILMS), LIKES)
    found = explainer.counterfactual("Ann", "Film D")
    assert found.found
    assert [str(fact) for fact in found.facts] == ["Ann rated Film A"]
    assert (found.logit, found.logit_without) == pytest.approx((0.5, -0.5))
    assert found.logit_without_all == pytest.approx(-1.0)
    assert found.probability_without == pytest.approx(1 / (1 + np.exp(0.5)))
    # For Ann A is 0.5, B -0.25, C 0.44, D 0.5, E 0.2; without A all of A, B and D are lower.
    assert (found.rank, found.rank_without, found.rank_of) == (1, 3, 5)
    assert found.instead == "Film C"
    assert found.instead_node == ("item", 2)
    assert found.smallest
    assert str(found) == (
        "Without the fact that Ann rated Film A, the model would not predict Film D for Ann: its "
        "score would fall from 0.50 to -0.50, and its rank would fall from 1st to 3rd of 5. Film C "
        "would take its place."
    )


def test_a_fact_of_the_source_begins_with_the_source() -> None:
    # Both directions have words of their own, and the table of books comes first.
    data = HeteroData()
    data["book"].num_nodes, data["reader"].num_nodes = 2, 2
    data["book"].name, data["reader"].name = ["Emma", "Kim"], ["Ann", "Bob"]
    ends = torch.tensor([[0, 1], [1, 0]])
    data["book", "was_read_by", "reader"].edge_index = ends.flip(0)
    data["reader", "read", "book"].edge_index = ends
    graph = TypedGraph.from_data(data)
    ann, kim = graph.flat_index("reader", 0), graph.flat_index("book", 1)
    facts = sorted(set(graph.fact[(graph.src == ann) & (graph.dst == kim)].tolist()))
    assert [str(fact) for fact in named_facts(graph, facts, ann)] == ["Ann read Kim"]
    assert [str(fact) for fact in named_facts(graph, facts, kim)] == ["Kim was read by Ann"]


def test_the_target_drops_out_of_the_first() -> None:
    # Of link type rated itself: what is rated is not recommended. Ann has D 1.5 and E 1.2.
    explainer = PaGELink(Taste(), shop(SEEN, FILMS), RATED, threshold=None)
    found = explainer.counterfactual("Ann", "Film D", top_k=1)
    assert [str(fact) for fact in found.facts] == ["Ann rated Film A"]
    assert (found.rank, found.rank_without, found.rank_of) == (1, 2, 2)
    assert found.instead == "Film E"
    assert "Film D would not be among the first 1 for Ann" in str(found)
    for fact in found.facts:
        assert (fact.type, fact.index, fact.src, fact.dst) == (RATED, 0, ("user", 0), ("item", 0))
    other = explainer.counterfactual("Ann", "Film E", top_k=1)
    assert (other.reason, other.rank, other.facts) == ("not_in_top_k", 2, ())
    assert "it ranks 2nd of 2." in str(other)


def test_facts_that_stand_in_for_each_other_go_together() -> None:
    # The maximum of A and D's like: no single fact does anything, the two together everything.
    # Three of the four targets tie: their mean place is the 2nd.
    films = [[1.0], [1.0], [0.2], [1.0]]
    data = shop([(0, 0), (0, 1), (0, 2), (1, 2)], films)
    explainer = PaGELink(Taste("max", bias=-0.5), data, LIKES)
    found = explainer.counterfactual(0, 3)
    assert sorted(str(fact) for fact in found.facts) == ["Ann rated Film A", "Ann rated Film B"]
    assert (found.logit, found.logit_without) == pytest.approx((0.5, -0.3))
    assert found.smallest
    assert "facts that Ann rated Film A and that Ann rated Film B" in str(found)
    assert "Fewer facts are not enough: all combinations were tried." in str(found)
    one = explainer.counterfactual(0, 3, budget=1)
    assert one.reason == "none_found"
    assert one.logit_without == pytest.approx(0.5)
    assert one.instead is None
    assert str(one) == (
        "No fact at Ann was found whose removal reverses the prediction (of 3 facts, all were "
        "tried). Removing the fact that Ann rated Film A comes closest: its score would stay at "
        "0.50, and it would still rank 2nd of 4. Without all 3 facts its score would be -0.50."
    )


def test_what_is_predicted_whatever_is_removed() -> None:
    explainer = PaGELink(Taste(bias=3.0), shop(SEEN, FILMS), LIKES)
    found = explainer.counterfactual("Ann", "Film D")
    assert (found.reason, found.found) == ("none_found", False)
    assert len(found.facts) == 2  # A and B: without C nothing changes for D
    assert found.logit_without == found.logit_without_all == pytest.approx(3.0)
    assert found.num_facts == 3
    negative = PaGELink(Taste(bias=-9.0), shop(SEEN, FILMS), LIKES).counterfactual(0, 3)
    assert negative.reason == "already_negative"
    assert str(negative).endswith(" for Ann anyway: the score is -7.50.")
    empty = PaGELink(Taste(bias=1.0), shop([(0, 0), (0, 1), (1, 2)], FILMS, 3), LIKES)
    alone = empty.counterfactual("Cem", "Film D")
    assert (alone.reason, alone.num_facts) == ("no_facts", 0)
    assert "no fact at Cem" in str(alone)


def test_with_few_sets_to_measure_it_says_that_not_all_were_tried() -> None:
    # Twelve equal facts, of which three must go; only the half of `verified` are looked at.
    films = [[1.0]] * 13
    data = shop([(0, i) for i in range(12)] + [(1, 0)], films)
    explainer = PaGELink(Taste(bias=-9.5), data, LIKES)
    few = explainer.counterfactual(0, 12, verified=16)
    assert (len(few.facts), few.found, few.smallest) == (3, True, False)
    assert few.logit_without == pytest.approx(-0.5)
    assert "was not tried" in str(few)
    every = explainer.counterfactual(0, 12, verified=5000)
    assert (len(every.facts), every.smallest, every.num_sets) == (3, True, 12 + 66 + 220)
    one = PaGELink(Taste(bias=-11.5), data, LIKES).counterfactual(0, 12, verified=16)
    assert (len(one.facts), one.smallest) == (1, True)  # there is nothing smaller than one fact


def test_a_model_that_only_ranks_is_told_by_score_and_rank() -> None:
    explainer = PaGELink(Taste(), shop(SEEN, FILMS), RATED, threshold=None)
    found = explainer.counterfactual("Ann", "Film D", top_k=1)
    falls = "its score would fall from 1.50 to 0.50, and its rank would fall from 1st to 2nd of 2."
    assert falls in str(found)


def test_a_known_link_that_is_held_out_takes_nothings_place() -> None:
    explainer = PaGELink(Taste(bias=-1.0), shop(SEEN, FILMS), LIKES)
    plain = explainer.counterfactual("Ann", "Film D")
    assert (plain.instead, plain.rank_of) == ("Film C", 5)
    found = explainer.counterfactual("Ann", "Film D", known=["Film C", 0, "Film D"])
    assert (found.instead, found.rank_of) == ("Film E", 3)  # D itself stays
    assert found.facts == plain.facts
    with pytest.raises(LinkError, match="Film X"):
        explainer.counterfactual("Ann", "Film D", known=["Film X"])


def test_everything_is_plain() -> None:
    explainer = PaGELink(Taste(bias=-1.0), shop(SEEN, FILMS), LIKES)
    found = explainer.counterfactual("Ann", "Film D")
    values = json.loads(json.dumps(found.to_dict()))
    assert values["facts"][0]["dst_name"] == "Film A"
    assert values["instead"] == "Film C"
    assert values["text"] == str(found)
    assert {"logit", "logit_without", "probability", "rank", "rank_of"} <= set(values)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"top_k": 0}, "top_k must be a whole number from 1 up, got 0"),
        ({"top_k": 5}, "only 5 targets"),
        ({"budget": 0}, "budget must be a whole number"),
        ({"verified": True}, "verified must be a whole number"),
        ({"at": "target"}, r"at must be one of \('source', 'paths'\), got 'target'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], words: str) -> None:
    explainer = PaGELink(Taste(bias=-1.0), shop(SEEN, FILMS), LIKES)
    with pytest.raises(SettingsError, match=words):
        explainer.counterfactual("Ann", "Film D", **arguments)
    with pytest.raises(LinkError, match="no item called 'Film X'"):
        explainer.counterfactual("Ann", "Film X")


def test_a_model_that_only_ranks_needs_top_k() -> None:
    explainer = PaGELink(Taste(), shop(SEEN, FILMS), LIKES, threshold=None)
    with pytest.raises(SettingsError, match="Give top_k"):
        explainer.counterfactual("Ann", "Film D")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("at", ["source", "paths"])
@pytest.mark.parametrize("top_k", [None, 2])
def test_equal_to_brute_force(seed: int, at: At, top_k: int | None) -> None:
    data, model = random_case(seed)
    explainer = PaGELink(model, data, RATED)
    graph = explainer.graph
    kept = copy.deepcopy(data.to_dict())
    weights = copy.deepcopy(model.state_dict())
    checked = 0
    for pair in [(user, item) for user in range(6) for item in range(9)]:
        if checked == 3:
            break
        found = explainer.counterfactual(*pair, top_k=top_k, at=at, budget=2, verified=5000)
        if found.num_facts > 12 or found.reason in ("already_negative", "not_in_top_k", "no_facts"):
            continue
        checked += 1
        _compare(explainer, data, model, pair, found)
    assert checked
    assert str(kept) == str(data.to_dict())
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    assert graph is explainer.graph


def _compare(
    explainer: PaGELink, data: HeteroData, model: Two, pair: tuple[int, int], found: Counterfactual
) -> None:
    """Try every set of facts on the edited full graph."""
    graph, top_k = explainer.graph, found.top_k
    link = explainer.reader.read(pair)
    own_fact = [link.fact] if link.fact >= 0 else []
    targets = open_ends(graph, link)
    own = targets.tolist().index(link.dst)
    ends = torch.stack([torch.full((len(targets),), pair[0]), torch.from_numpy(targets)])
    ends[1] -= graph.flat_index("item", 0)

    def run(facts: tuple[int, ...]) -> np.ndarray:
        edited = without(explainer, data, np.array([*own_fact, *facts], dtype=np.int64))
        with torch.no_grad():
            return model(edited.x_dict, edited.edge_index_dict, ends).numpy()  # type: ignore[no-any-return]

    def margin(logits: np.ndarray) -> float:
        if top_k is None:
            return float(logits[own])
        return float(logits[own] - np.sort(np.delete(logits, own))[::-1][top_k - 1])

    (batch,) = explainer.setup.batches.extract([link])
    if found.at == "source":
        seen = explainer.receptive_field.seen_relations
        facts = facts_at_source(graph, link, batch if top_k is None else None, seen)
    else:
        paths = explainer.setup.path_graphs(batch)
        facts = np.unique(graph.fact[batch.edges[paths.arc_slot]])
    assert found.num_facts == len(facts)
    values = {
        chosen: margin(run(chosen))
        for size in range(1, 3)
        for chosen in combinations(facts.tolist(), size)
    }
    turned = [chosen for chosen, value in values.items() if value < -1e-5]
    mine = tuple(
        sorted(
            int(graph.fact[
                (graph.relation == graph.edge_types.index(fact.type))
                & (graph.column == fact.index)
            ][0])
            for fact in found.facts
        )
    )  # fmt: skip
    assert found.smallest
    assert found.found == bool(turned)
    if turned:
        smallest = min(len(chosen) for chosen in turned)
        best = min(values[chosen] for chosen in turned if len(chosen) == smallest)
        assert len(mine) == smallest
        assert values[mine] == pytest.approx(best, abs=1e-4)
    else:
        assert values[mine] == pytest.approx(min(values.values()), abs=1e-4)
    before, after = run(()), run(mine)
    assert found.logit == pytest.approx(before[own], abs=1e-4)
    assert found.logit_without == pytest.approx(after[own], abs=1e-4)
    assert found.rank == 1 + (before > before[own]).sum()
    assert found.rank_without == 1 + (after > after[own]).sum()
    assert found.rank_of == len(targets)
    first = found.top_k or found.rank
    old = set(np.argsort(-before)[:first].tolist())
    new = [i for i in np.argsort(-after).tolist() if i != own][:first]
    names = [graph.node_name(int(targets[i])) for i in new
             if i not in old and (top_k is not None or after[i] >= 0)]  # fmt: skip
    assert found.instead == (names[0] if names and found.found else None)
