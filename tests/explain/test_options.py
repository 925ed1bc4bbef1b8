"""Stability, predicted negatives and the words for what was asked for."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from support.films import FILMS, LIKES, SEEN, Taste, random_case, shop, without
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import SimpleConv

from pagelink import Explanation, PaGELink, Path, Settings
from pagelink.errors import SettingsError
from pagelink.explain.options import facts_of
from pagelink.views.text import ordinal

NOISE = Settings(start="noise", epochs=0, measure=False, num_paths=2, core=0)


class Votes(nn.Module):
    """Who buys what was bought before speaks for it, who returned it speaks against it.

    score(u, i) = bias + number of walks u - j - v - i by `buys`, minus those by `returns`.
    """

    def __init__(self, bias: float = -5.0) -> None:
        super().__init__()
        self.conv, self.bias = SimpleConv(aggr="sum"), bias

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        total = torch.zeros(links.shape[1])
        for name, sign in (("buys", 1.0), ("returns", -1.0)):
            there = edge_index_dict["user", name, "item"]
            back = edge_index_dict["item", f"rev_{name}", "user"]
            mine = self.conv((x_dict["item"], x_dict["user"]), back)
            theirs = self.conv((mine, x_dict["item"]), there)
            total = total + sign * (mine[links[0]] * theirs[links[1]]).sum(-1)
        return total + self.bias


def market() -> HeteroData:
    """User 0 and item 0: joined by way of item 1 and user 1, by sales and by returns."""
    data = HeteroData()
    data["user"].x, data["item"].x = torch.eye(4), torch.eye(4)
    for name, pairs in (
        ("buys", [(0, 1), (1, 1), (1, 0), (2, 2), (3, 3), (0, 3), (2, 3)]),
        ("returns", [(0, 2), (3, 2), (3, 0), (1, 3), (2, 1)]),
    ):
        edge_index = torch.tensor(pairs).t().contiguous()
        data["user", name, "item"].edge_index = edge_index
        data["item", f"rev_{name}", "user"].edge_index = edge_index.flip(0)
    return data


def test_paths_for_and_against_a_predicted_negative() -> None:
    # One walk by sales, one by returns: -5 + 1 - 1. Without the first it is -6, without the second
    # -4.
    explainer = PaGELink(Votes(), market(), LIKES)
    plain = explainer.explain(0, 0)
    assert (plain.reason, plain.paths) == ("predicted_negative", ())
    found = explainer.explain(0, 0, negatives=True)
    assert (found.reason, found.logit) == ("predicted_negative", pytest.approx(-5.0))
    pro, contra = found.paths[0], found.paths[-1]
    assert pro.nodes == (("user", 0), ("item", 1), ("user", 1), ("item", 0))
    assert (pro.influence, pro.is_evidence) == (pytest.approx(1.0), True)
    assert contra.nodes == (("user", 0), ("item", 2), ("user", 3), ("item", 0))
    assert (contra.influence, contra.is_evidence) == (pytest.approx(-1.0), False)
    assert found.message.startswith(plain.message)
    assert found.message.endswith("1 speaks for the link and 1 speaks against it.")
    assert Explanation.from_dict(found.to_dict()).paths == found.paths
    assert "speaks against it" in str(found)
    positive = PaGELink(Votes(5.0), market(), LIKES)
    assert positive.explain(0, 0, negatives=True).reason is None
    assert positive.explain(0, 0, negatives=True).paths == positive.explain(0, 0).paths


def test_negatives_are_those_of_a_greedy_search_over_all_paths_on_the_full_graph() -> None:
    data, model = random_case(1)
    kept, weights = copy.deepcopy(data.to_dict()), copy.deepcopy(model.state_dict())
    explainer = PaGELink(model, data, LIKES, Settings(num_paths=4))
    every = PaGELink(model, data, LIKES, Settings(num_paths=500, measure=False), threshold=None)
    pairs = [(user, item) for user in range(6) for item in range(9)]
    both = set()
    for pair, explanation in zip(pairs, explainer.explain_many(pairs, negatives=True), strict=True):
        if explanation.reason != "predicted_negative":
            continue
        assert explainer.explain(*pair, negatives=True).paths == explanation.paths

        def effect(paths: list[Path], pair: tuple[int, int] = pair, f: Any = explanation) -> float:
            edited = without(explainer, data, facts_of(explainer.graph, paths))
            ends = torch.tensor([[pair[0]], [pair[1]]])
            with torch.no_grad():
                return float(f.logit - model(edited.x_dict, edited.edge_index_dict, ends))

        expected = []
        bar = explanation.noise
        for sign in (1, -1):
            chosen: list[Path] = []
            mine = [path for path in every.explain(*pair).paths if sign * effect([path]) > bar]
            while mine and len(chosen) < 4:
                best = max(mine, key=lambda path: sign * effect([*chosen, path]))
                if sign * (effect([*chosen, best]) - effect(chosen)) <= bar:
                    break
                chosen.append(best)
            both |= {sign} if chosen else set()
            expected += chosen
        assert list(explanation.paths) == expected
        for path in explanation.paths:
            assert path.influence == pytest.approx(effect([path]), abs=1e-4)
            assert path.is_evidence == (path.influence > 0)
    assert both == {1, -1}
    assert str(kept) == str(data.to_dict())
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


def test_runs_count_in_how_many_seeds_a_path_is_returned() -> None:
    data, model = random_case(0)
    links = [(user, item) for user in range(4) for item in range(4)]

    def explain(seed: int, **asked: Any) -> list[Explanation]:
        explainer = PaGELink(model, data, LIKES, NOISE, seed, threshold=None)
        return list(explainer.explain_many(links, **asked))

    each = [explain(seed) for seed in (3, 4, 5, 6)]
    counted = explain(3, runs=4)
    numbers = set()
    for i, explanation in enumerate(counted):
        assert explanation.paths == each[0][i].paths
        assert explanation.runs == 4
        for path in explanation.paths:
            assert path.runs == sum(path in run[i].paths for run in each)
            numbers.add(path.runs)
    assert len(numbers) > 1  # else nothing was counted that could differ
    assert {path.runs for explanation in each[0] for path in explanation.paths} == {None}
    one = PaGELink(model, data, LIKES, NOISE, 3, threshold=None).explain(*links[1], runs=4)
    assert [path.runs for path in one.paths] == [path.runs for path in counted[1].paths]
    assert [p.runs for p in Explanation.from_dict(one.to_dict()).paths] == [
        path.runs for path in one.paths
    ]


def test_with_the_even_start_all_runs_are_equal() -> None:
    data, model = random_case(0)
    explainer = PaGELink(model, data, LIKES, threshold=None)
    for explanation in explainer.explain_many([(0, 1), (1, 1), (2, 3)], runs=3):
        assert {path.runs for path in explanation.paths} <= {3}


def test_words() -> None:
    data, model = random_case(0)
    explainer = PaGELink(model, data, LIKES, NOISE, threshold=None)
    assert "item 1 ranks" not in str(explainer.explain(0, 1, rank=False))
    asked = explainer.explain(0, 1, rank=True, runs=5)
    place = f"{ordinal(asked.rank or 0)} of {asked.rank_of} items"
    assert f"item 1 ranks {place} for user 0, with a score of " in str(asked)
    assert "; without this path it would " in str(asked)
    assert "5 runs, each with its own seed" in str(asked)


def test_runs_of_a_predicted_negative_are_all_alike() -> None:
    found = PaGELink(Votes(), market(), LIKES).explain(0, 0, negatives=True, runs=3)
    assert [path.runs for path in found.paths] == [3, 3]
    assert "All these paths were returned in all 3 runs" in str(found)
    assert "The path that speaks against the link" in str(found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"runs": 0}, "runs must be a whole number from 1 up, got 0"),
        ({"runs": 1.5}, "runs must be a whole number"),
        ({"rank": True, "rank_sample": 1}, "rank_sample must be a whole number from 2 up, got 1"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], words: str) -> None:
    explainer = PaGELink(Taste(), shop(SEEN, FILMS), LIKES)
    with pytest.raises(SettingsError, match=words):
        explainer.explain(0, 3, **arguments)
    with pytest.raises(SettingsError, match=words):
        next(explainer.explain_many([(0, 3)], **arguments))


def test_facts_of_paths_are_those_of_their_stored_edges() -> None:
    explainer = PaGELink(Votes(5.0), market(), LIKES)
    (path, *_) = explainer.explain(0, 0).paths
    graph = explainer.graph
    expected = set()
    for edge in path.edges:
        mine = (graph.relation == graph.edge_types.index(edge.type)) & (graph.column == edge.index)
        expected.add(int(graph.fact[mine][0]))
    assert set(facts_of(graph, [path]).tolist()) == expected
    assert np.array_equal(facts_of(graph, [path, path]), facts_of(graph, [path]))
