"""Whether explanations are true of models of which it is known what they use."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from support.decoys import trained_on_decoys

from pagelink import PaGELink, Settings
from pagelink.datasets.planted import (
    COLOURS,
    LINK_TYPE,
    MECHANISMS,
    Planted,
    PlantedLink,
    plant,
)
from pagelink.errors import SettingsError
from pagelink.explain.result import Explanation, Node

ENOUGH = 0.95
DEGREE_ONLY = Settings(measure=False, epochs=0)


@cache
def explained(mechanism: str, seed: int = 0, decoys: int | None = None) -> tuple[
    Planted, list[Explanation]
]:  # fmt: skip
    planted = plant(mechanism, seed=seed, num_decoys=decoys)
    return planted, list(
        PaGELink(planted.model, planted.data, LINK_TYPE).explain_many(planted.pairs)
    )


def share(right: list[bool]) -> float:
    return sum(right) / len(right)


@pytest.mark.parametrize("decoys", [None, 8])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_planted_mechanism_is_found(mechanism: str, seed: int, decoys: int | None) -> None:
    planted, answers = explained(mechanism, seed, decoys)
    both = list(zip(planted.links, answers, strict=True))
    assert len(both) >= 40
    assert share([link.top_is_right(answer) for link, answer in both]) >= ENOUGH
    assert share([link.verdict_is_right(answer) for link, answer in both]) >= ENOUGH
    assert share([link.evidence_is_right(answer) for link, answer in both]) >= ENOUGH


@pytest.mark.parametrize("mechanism", ["one_metapath", "either", "inhibiting", "mean"])
def test_all_paths_that_count_are_given(mechanism: str) -> None:
    planted, answers = explained(mechanism)
    assert share([
        {path.nodes for path in answer.paths if path.is_evidence} == link.counts
        for link, answer in zip(planted.links, answers, strict=True)
    ]) >= ENOUGH  # fmt: skip


def test_degrees_alone_cannot_tell_the_decoys() -> None:
    right: list[bool] = []
    for seed in range(16):
        planted = plant("one_metapath", seed=seed)
        explainer = PaGELink(planted.model, planted.data, LINK_TYPE, DEGREE_ONLY)
        answers = explainer.explain_many(planted.pairs)
        right += [a.top_is_right(b) for a, b in zip(planted.links, answers, strict=True)]
    chance = 1 / 3  # one path that counts and two decoys
    assert abs(share(right) - chance) < 3 * np.sqrt(chance * (1 - chance) / len(right))


def test_redundant_paths_are_said_to_be() -> None:
    _, answers = explained("many")
    assert all(answer.evidence and answer.evidence.inserted for answer in answers)
    assert all(answer.evidence and answer.evidence.sufficiency == 1 for answer in answers)
    # Two paths that stand in for each other are found by removing both.
    _, answers = explained("either")
    for answer in answers:
        assert answer.evidence is not None
        assert not answer.evidence.inserted
        assert [path.influence for path in answer.paths] == [0, 0]
        assert answer.evidence.influence == pytest.approx(5)


def test_one_path_of_a_conjunction_is_necessary_and_not_sufficient() -> None:
    _, answers = explained("both")
    for answer in answers:
        assert answer.evidence is not None
        assert answer.evidence.influence == pytest.approx(5)
        if len(answer.paths) == 1:
            assert answer.evidence.sufficiency == pytest.approx(0)


def test_a_path_that_speaks_against_a_link_is_no_evidence() -> None:
    planted, answers = explained("inhibiting")
    against = planted.colours[1]
    for answer in answers:
        for path in answer.paths:
            assert not (path.is_evidence and path.nodes[1][0] == against)


def test_the_right_answers_are_right_by_construction() -> None:
    for mechanism in MECHANISMS:
        planted = plant(mechanism, num_links=12)
        degrees = {
            colour: sum(
                planted.data[end, f"{end}_{colour}", colour].num_edges for end in ("user", "item")
            ) / planted.data[colour].num_nodes
            for colour in planted.colours
        }  # fmt: skip
        if mechanism == "one_metapath":
            assert max(degrees.values()) < 1.3 * min(degrees.values())
        for link in planted.links:
            whole = _logit(planted, link, set())
            effects = {path: whole - _logit(planted, link, {path}) for path in link.counts}
            together = whole - _logit(planted, link, set(link.counts))
            if mechanism in ("one_metapath", "both", "mean", "inhibiting"):
                assert all(effect > 0.01 * abs(whole) for effect in effects.values())
            if mechanism in ("either", "many"):
                assert set(effects.values()) == {0}
                assert together == pytest.approx(5)
            if mechanism == "embedding_only":
                everything = {
                    (("user", link.src), (colour, node), ("item", link.dst))
                    for colour in COLOURS
                    for node in range(planted.data[colour].num_nodes)
                }
                moved = abs(whole - _logit(planted, link, everything))
                assert moved < max(0.01, 0.01 * abs(whole))


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(SettingsError, match="either"):
        plant("eithr")


def _logit(planted: Planted, link: PlantedLink, without: set[tuple[Node, ...]]) -> float:
    """The logit without the facts of some paths, by another way than the explainer's."""
    edges = dict(planted.data.edge_index_dict)
    for nodes in without:
        (colour, node) = nodes[1]
        for end, pair in (nodes[0], nodes[2]):
            forth = edges[end, f"{end}_{colour}", colour]
            there = (forth[0] == pair) & (forth[1] == node)
            edges[end, f"{end}_{colour}", colour] = forth[:, ~there]
            back = edges[colour, f"rev_{end}_{colour}", end]
            there = (back[1] == pair) & (back[0] == node)
            edges[colour, f"rev_{end}_{colour}", end] = back[:, ~there]
    with torch.no_grad():
        return float(
            planted.model(planted.data.x_dict, edges, torch.tensor([[link.src], [link.dst]]))
        )


@pytest.mark.parametrize(("kind", "layers"), [("sage", 1), ("rgcn", 1)])
def test_a_trained_mechanism_is_found(kind: str, layers: int) -> None:
    planted = trained_on_decoys(kind, layers)
    chosen = []
    asked = planted.links[:100]
    for link in asked:
        whole = _logit(planted, link, set())
        (red,) = link.counts
        others = [
            (("user", link.src), (colour, node), ("item", link.dst))
            for colour in ("green", "blue")
            for node in _shared(planted, colour, link.src)
        ]
        effect = whole - _logit(planted, link, {red})
        decoys = max(whole - _logit(planted, link, {path}) for path in others)
        if whole >= 0 and effect > 0 and decoys < effect / 2:
            chosen.append(link)
    print(f"{kind}, {layers} layers: {len(asked) - len(chosen)} of {len(asked)} links left out")
    assert len(chosen) >= 40
    explainer = PaGELink(planted.model, planted.data, LINK_TYPE)
    answers = list(explainer.explain_many((link.src, link.dst) for link in chosen))
    right = [link.top_is_right(answer) for link, answer in zip(chosen, answers, strict=True)]
    verdicts = [link.verdict_is_right(answer) for link, answer in zip(chosen, answers, strict=True)]
    print(f"top path right: {share(right):.3f}, verdict right: {share(verdicts):.3f}")
    assert share(right) >= ENOUGH
    assert share(verdicts) >= ENOUGH
    degree_only = PaGELink(planted.model, planted.data, LINK_TYPE, DEGREE_ONLY).explain_many(
        (link.src, link.dst) for link in chosen
    )
    by_degree = share([a.top_is_right(b) for a, b in zip(chosen, degree_only, strict=True)])
    print(f"by degree alone: {by_degree:.3f}")
    assert by_degree < 0.6


def _shared(planted: Planted, colour: str, pair: int) -> set[int]:
    sets = []
    for end in ("user", "item"):
        index = planted.data[end, f"{end}_{colour}", colour].edge_index
        sets.append(set(index[1][index[0] == pair].tolist()))
    return sets[0] & sets[1]
