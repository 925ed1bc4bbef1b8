"""J-Recs: its walks, its objective and its choice, by hand and by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.hand_drawn import BUYS, LIKES, Walks, draw

from pagelink import Settings
from pagelink.rivals.jrecs import greedy_diverse, random_walk
from pagelink.rivals.registry import make_rival
from pagelink.runtime.arrays import Doubles, Longs


def value(nodes: list[int], relevance: Doubles, kinds: Longs, diversity: float) -> float:
    """F of a set of nodes, as it is written."""
    plain = sum(relevance[node] for node in nodes)
    spread = sum(
        sum(relevance[node] for node in nodes if kinds[node] == kind) ** 0.5
        for kind in set(kinds.tolist())
    )
    return float((1 - diversity) * plain + diversity * spread)


def test_walks_are_the_fixed_point_of_their_equation() -> None:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 8, (2, 30))
    degree = np.bincount(np.append(src, dst), minlength=8)
    steps = np.zeros((8, 8))
    np.add.at(steps, (dst, src), 1)
    np.add.at(steps, (src, dst), 1)
    start = np.eye(8)[3]
    exact = np.linalg.solve(np.eye(8) - 0.8 * steps / degree, 0.2 * start)
    found = random_walk(src, dst, degree, np.array([3]), 0.2, 200)
    assert found == pytest.approx(exact, abs=1e-9)
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("diversity", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_greedy_choice_keeps_its_bound(seed: int, diversity: float) -> None:
    rng = np.random.default_rng(seed)
    relevance, kinds = rng.dirichlet(np.ones(8)), rng.integers(0, 3, 8)
    single = [np.array([node]) for node in range(8)]
    chosen = greedy_diverse(single, relevance, kinds, diversity, 3)
    reached = value(chosen, relevance, kinds, diversity)
    best = max(
        value(list(nodes), relevance, kinds, diversity)
        for nodes in itertools.combinations(range(8), 3)
    )
    assert best * (1 - 1 / np.e) <= reached <= best + 1e-12


def test_long_paths_pay_for_their_nodes_and_known_nodes_add_nothing() -> None:
    relevance, kinds = np.array([0.5, 0.3, 0.2]), np.array([0, 0, 0])
    paths = [np.array([0, 2]), np.array([0]), np.array([1]), np.array([], dtype=np.int64)]
    assert greedy_diverse(paths, relevance, kinds, 0.0, 4) == [1, 2, 0, 3]


def test_justifications_are_of_different_kinds() -> None:
    # User 0 and item 0 share users 1 to 3 and one topic; the topic is in more hands.
    knows, about, follows = (
        ("user", "knows", "user"), ("item", "about", "topic"), ("user", "follows", "topic"),
    )  # fmt: skip
    data = draw({"user": 7, "item": 3, "topic": 1}, {
        BUYS: [(1, 0), (2, 0), (3, 0), (6, 2)],
        knows: [(0, 1), (0, 2), (0, 3)],
        about: [(0, 0), (1, 0), (2, 0)],
        follows: [(0, 0), (4, 0), (5, 0), (6, 0)],
    })  # fmt: skip

    def kinds(diversity: float) -> list[str]:
        settings = Settings(max_length=2, num_paths=2, measure=False)
        explainer = make_rival(
            "jrecs", Walks(), data, LIKES, settings, 0, options={"diversity": diversity},
            threshold=None,
        )  # fmt: skip
        return sorted(path.nodes[1][0] for path in explainer.explain(0, 0).paths)

    assert kinds(1.0) == ["topic", "user"]
    assert kinds(0.0) == ["user", "user"] or kinds(0.0) == ["topic", "user"]


def test_it_never_looks_at_the_model() -> None:
    knows = ("user", "knows", "user")
    data = draw({"user": 4, "item": 2}, {
        BUYS: [(1, 0), (2, 0), (3, 1)], knows: [(0, 1), (0, 2), (3, 3)],
    })  # fmt: skip
    answers = [
        make_rival(
            "jrecs", Walks(weights), data, LIKES, Settings(measure=False), 0, threshold=None
        ).explain(0, 0)
        for weights in (None, {"buys": 3.0, "rev_buys": 3.0})
    ]
    assert answers[0].logit != answers[1].logit
    assert answers[0].paths == answers[1].paths
    assert len(answers[0].paths) == 2
