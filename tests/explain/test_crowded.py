"""Crowded graphs: the model collects at one node along very many edges."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pagelink import PaGELink, Settings
from pagelink.bench.speed.hubs import LIKES, hub_graph
from pagelink.explain.result import Explanation
from pagelink.graph import computation_graph
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.measure import what_else
from pagelink.model import flat_passes
from pagelink.models.architectures import make_model
from pagelink.search.mask_learning import learn_masks
from pagelink.search.work import Work, prune_links, score_links

FACTS, USERS = 600, 800


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_passes, "LEAST_FIXED", 1)


def crowd(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(computation_graph, "CROWD", size)


def explainer_of(architecture: str = "sage") -> tuple[PaGELink, tuple[int, int]]:
    data, sources = hub_graph(FACTS, USERS, seed=0)
    model = make_model(architecture, data, LIKES, hidden=16, seed=0).eval()
    made = PaGELink(model, data, LIKES, Settings(), seed=0, threshold=None)
    return made, (sources[0], data["item"].num_nodes - 1)


def work_of(made: PaGELink, *pairs: tuple[int, int]) -> Work:
    links = [made.link(*pair) for pair in pairs]
    batch = ComputationGraphs.joined(made.setup.batches.extract(links))
    return prune_links(score_links(made.setup, batch, links), seed=0)


def test_which_links_are_crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    made, (src, hub) = explainer_of()
    crowd(monkeypatch, FACTS - 1)
    assert_array_equal(work_of(made, (src, hub)).batch.crowded, [True])
    # Edges that enter the hub are not visible from an item two facts away.
    assert_array_equal(work_of(made, (src, 0), (src, hub)).batch.crowded, [False, True])
    crowd(monkeypatch, FACTS)
    assert_array_equal(work_of(made, (src, hub)).batch.crowded, [False])


@pytest.mark.parametrize("architecture", ["sage", "hgt"])
def test_facts_on_no_path_keep_their_weight(
    monkeypatch: pytest.MonkeyPatch, architecture: str
) -> None:
    """The masks of the others are those of a model that is asked about them alone."""
    made, link = explainer_of(architecture)
    plain = learn_masks(work_of(made, link)).edge_logits
    crowd(monkeypatch, FACTS - 1)
    work = work_of(made, link)
    masks = learn_masks(work).edge_logits
    others = np.setdiff1d(np.flatnonzero(work.kept), work.path_slots)
    assert 0 < len(work.path_slots) < len(others)
    assert len(np.unique(masks[others])) == 1 < len(np.unique(plain[others]))
    assert masks[others[0]] < masks[work.path_slots].max()
    made.predictor.flat = False
    assert_allclose(learn_masks(work_of(made, link)).edge_logits, masks, atol=1e-4)


def test_gradient_of_facts_on_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    made, link = explainer_of()
    crowd(monkeypatch, FACTS - 1)
    work = work_of(made, link)
    without = work.path_slots[::3]
    whole, some = work.gradient(without), work.path_gradient(without)
    assert np.abs(whole[work.path_slots]).max() > 1e-5
    assert_allclose(some[work.path_slots], whole[work.path_slots], rtol=1e-3, atol=1e-7)
    assert not np.delete(some, work.path_slots).any()


def features(explanation: Explanation) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([(part.effect, part.error) for part in explanation.what_else[4:]])


def test_features_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of everything gives the figures without a sample, a smaller one estimates them."""
    made, link = explainer_of()
    monkeypatch.setattr(what_else, "SAMPLED", FACTS)
    exact = made.explain(*link)
    assert len(exact.what_else) == 7
    crowd(monkeypatch, FACTS - 1)
    assert_allclose(features(made.explain(*link)), features(exact), atol=1e-5)
    monkeypatch.setattr(what_else, "SAMPLED", FACTS // 4)
    some = made.explain(*link)
    assert_array_equal(features(some), features(made.explain(*link)))
    assert [part.size for part in some.what_else] == [part.size for part in exact.what_else]
    (effect, _), (estimate, error) = features(exact)[2], features(some)[2]
    assert estimate != effect
    assert abs(estimate - effect) < 4 * error
    made.predictor.flat = False  # it need not be a mean
    assert_allclose(features(made.explain(*link)), features(exact), atol=1e-4)
