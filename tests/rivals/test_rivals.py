"""What holds of every explainer by the same tests, whatever its mask is made of."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from support.hand_drawn import assert_is_path
from support.zoo import ITEMS, USERS, ZOO, links_of, make_case
from torch import Tensor, nn

from pagelink import Explanation, PaGELink, Settings
from pagelink.bench.subjects import _tiny
from pagelink.errors import SettingsError
from pagelink.models.architectures import make_model
from pagelink.rivals.ground import Ground, fact_paths, facts_of, free_facts
from pagelink.rivals.pgexp import PGExpLink
from pagelink.rivals.registry import RIVALS, make_rival

QUICK: dict[str, dict[str, Any]] = {
    "gnnexp": {"epochs": 5},
    "gnnexp-released": {"epochs": 5},
    "pgexp": {"epochs": 3, "num_links": 16, "hidden": 8},
    "pgexp-released": {"epochs": 3, "num_links": 16, "hidden": 8},
    "subgraphx": {"rollouts": 2, "expand": 3, "depth": 4, "samples": 3, "nodes": 6},
    "integrated-gradient": {"steps": 4},
    "power-link": {"epochs": 5, "hidden": 8},
    "graphmask": {"epochs": 2, "num_links": 16, "links_a_step": 8, "hidden": 8},
}
OURS = ("pagelink", "pagelink-diverse")
# Paths of several lengths, an unknown node, an isolated pair, and links that are not predicted.
PAIRS: list[Any] = [
    (38, 43), (13, 30), (10**6, 0), (49, 0), (USERS - 1, ITEMS - 1), (51, 57), (43, 53), (62, 50),
    (3, 39), (38, 10),
]  # fmt: skip
MODEL = "HeteroConv SAGE"
every_rival = pytest.mark.parametrize("name", RIVALS)


def rival(
    name: str, case: Any, settings: Settings | None = None, seed: int = 0, **more: Any
) -> Any:
    arguments = {**case.options, **more}
    return make_rival(
        name, case.model, case.data, case.link_type, settings, seed,
        options=QUICK.get(name), **arguments,
    )  # fmt: skip


@cache
def zoo_answers(name: str) -> list[Explanation]:
    return list(rival(name, make_case(MODEL)).explain_many(PAIRS))


def assert_same(first: list[Explanation], second: list[Explanation]) -> None:
    for one, other in zip(first, second, strict=True):
        assert (one.src, one.dst, one.reason) == (other.src, other.dst, other.reason)
        assert one.paths == other.paths
        for edge_type in one.edge_mask:
            assert one.edge_mask[edge_type] == pytest.approx(other.edge_mask[edge_type], abs=1e-5)


@every_rival
def test_every_link_gets_an_explanation_with_the_same_reason(name: str) -> None:
    own, answers = zoo_answers("pagelink"), zoo_answers(name)
    assert len(answers) == len(PAIRS)
    reasons = {answer.reason for answer in own}
    assert {None, "invalid", "not_connected", "predicted_negative"} <= reasons
    for expected, answer in zip(own, answers, strict=True):
        assert (answer.src, answer.dst) == (expected.src, expected.dst)
        assert answer.reason == expected.reason
        assert bool(answer.paths) == bool(expected.paths) == (expected.reason is None)
        assert answer.logit == pytest.approx(expected.logit, abs=1e-5)


@every_rival
def test_paths_are_simple_paths_of_visible_facts(name: str) -> None:
    case = make_case(MODEL)
    explainer = rival(name, case)
    graph = explainer.graph
    for answer in zoo_answers(name):
        assert len(answer.paths) == len(set(answer.paths)) <= 3
        if not answer.paths:
            continue
        ends = [graph.flat_index(*answer.src), graph.flat_index(*answer.dst)]
        batch = explainer.extractor.extract(*(np.array([v]) for v in ends), np.array([-1]))
        visible = set(graph.fact[batch.edges[batch.fact_visible]].tolist())
        (paths,) = fact_paths(explainer, [answer])
        for path, facts in zip(answer.paths, paths, strict=True):
            assert_is_path(path, answer, case.data)
            assert len(path) <= 3
            assert set(facts) <= visible


@every_rival
def test_the_mask_has_a_value_for_every_edge_of_the_data(name: str) -> None:
    data = make_case(MODEL).data
    for answer in zoo_answers(name):
        assert list(answer.edge_mask) == list(data.edge_types)
        for edge_type in data.edge_types:
            mask = answer.edge_mask[edge_type]
            assert mask.shape == (data[edge_type].num_edges,)
            assert ((mask >= 0) & (mask <= 1)).all()
        if answer.reason is None:
            assert any(mask.any() for mask in answer.edge_mask.values())
        for path in answer.paths:
            for edge in path.edges:
                assert edge.mask == pytest.approx(answer.edge_mask[edge.type][edge.index], abs=1e-5)


@every_rival
def test_the_seed_decides_and_the_batch_does_not(name: str) -> None:
    case = make_case(MODEL)
    first = zoo_answers(name)
    again = rival(name, case)
    assert_same(first, list(again.explain_many(PAIRS, batch_size=1)))
    assert_same(first[::-1], list(again.explain_many(PAIRS[::-1], batch_size=3)))
    drawn = (
        "random-mask", "random-paths", "pgexp", "pgexp-released", "gnnexp-released", "paper",
        "power-link", "graphmask",
    )  # fmt: skip
    if name in drawn:
        other = list(rival(name, case, seed=1).explain_many(PAIRS))
        with pytest.raises(AssertionError):
            assert_same(first, other)


@every_rival
def test_no_global_random_state_is_touched(name: str) -> None:
    case = make_case(MODEL)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    list(rival(name, case).explain_many(PAIRS[:2]))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert random.getstate() == before[2]


class Failing(nn.Module):
    """A model that fails when it is told to, after so many more calls."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.left = 10**9

    def forward(self, *given: Any) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("on purpose")
        out: Tensor = self.inner(*given)
        return out


def state_of(model: nn.Module, data: Any) -> Any:
    """Everything that an explainer could leave behind."""
    modules = {
        name: (
            module.training,
            sorted(set(vars(module)) - {"left"}),
            [len(v) for k, v in sorted(vars(module).items()) if k.endswith("hooks")],
        )
        for name, module in model.named_modules()
    }
    parameters = {
        name: (p.requires_grad, p.grad is None, p.tolist()) for name, p in model.named_parameters()
    }
    stored = {
        str(store._key): {k: v.tolist() for k, v in store.items() if isinstance(v, Tensor)}
        for store in data.stores
    }
    return modules, parameters, stored


@every_rival
def test_model_and_data_come_back_as_they_were_after_a_failure_too(name: str) -> None:
    case = make_case(MODEL)
    model = Failing(case.model)
    model.train()
    model.inner.layers[0].requires_grad_(False)
    case = copy.copy(case)
    case.model = model
    before = copy.deepcopy(state_of(model, case.data))
    explainer = rival(name, case)
    assert state_of(model, case.data) == before
    first = list(explainer.explain_many(PAIRS[:4]))
    assert any(answer.paths for answer in first)
    assert state_of(model, case.data) == before
    failed = 0
    for calls in (0, 1, 2):
        fresh = rival(name, case)
        model.left = calls
        answers = list(fresh.explain_many(PAIRS[:2], batch_size=1))
        model.left = 10**9
        assert len(answers) == 2
        failed += sum("on purpose" in answer.message for answer in answers)
        assert state_of(model, case.data) == before
    assert failed


@cache
def tiny() -> Any:
    data, link_type, _ = _tiny(0)
    model = make_model("rgcn", data, link_type, paper_split=True, seed=0).eval()
    pairs = [(int(s), int(t)) for s, t in data[link_type].edge_index.t()[:6]]
    return model, data, link_type, pairs


@every_rival
def test_generated_data_are_explained_with_measured_evidence(name: str) -> None:
    model, data, link_type, pairs = tiny()
    explainer = make_rival(
        name, model, data, link_type, Settings(max_length=3, num_paths=2), 0,
        options=QUICK.get(name), threshold=None,
    )  # fmt: skip
    answers = list(explainer.explain_many(pairs))
    assert len(answers) == len(pairs)
    assert sum(bool(answer.paths) for answer in answers) >= 4
    ground = Ground.of(explainer, pairs)
    for i, (answer, paths) in enumerate(zip(answers, fact_paths(explainer, answers), strict=True)):
        if not paths:
            continue
        assert answer.evidence is not None
        (effect,) = ground.effects([i], [facts_of(paths)])
        measured = answer.logit - answer.evidence.logit_without_these
        assert measured == pytest.approx(effect, abs=1e-4)
        edits = ground.edits([i, i], [facts_of(paths), []])
        added, bare = ground.influence.logits(ground.bare, edits)
        assert answer.evidence.gain == pytest.approx(added - bare, abs=1e-4)
        expected = added - bare if answer.evidence.inserted else effect
        assert answer.evidence.influence == pytest.approx(expected, abs=1e-4)
        if name not in OURS:
            assert answer.evidence.rho_reached is None
        assert [path.influence for path in answer.paths] == pytest.approx(
            ground.effects([i] * len(paths), paths), abs=1e-4
        )


@every_rival
def test_so_many_facts_can_be_taken_from_the_mask(name: str) -> None:
    model, data, link_type, pairs = tiny()
    settings = Settings(measure=False)
    explainer = make_rival(
        name, model, data, link_type, settings, 0, options=QUICK.get(name), threshold=None
    )
    answer = next(a for a in explainer.explain_many(pairs) if a.paths)
    graph = explainer.graph
    best = free_facts(graph, answer.edge_mask, 5)
    assert len(set(best)) == len(best) == 5
    assert free_facts(graph, answer.edge_mask, 3) == best[:3]
    everything = free_facts(graph, answer.edge_mask, 10**6)
    mask = np.concatenate([answer.edge_mask[t] for t in graph.edge_types[: graph.num_relations]])
    flat = np.concatenate([
        np.flatnonzero(graph.relation == r)[
            np.argsort(graph.column[np.flatnonzero(graph.relation == r)])
        ]
        for r in range(graph.num_relations)
    ])  # fmt: skip
    of_fact = [mask[graph.fact[flat] == fact].max() for fact in everything]
    assert of_fact == sorted(of_fact, reverse=True)
    assert len(everything) == len(np.unique(graph.fact[flat[mask > 0]]))


@pytest.mark.parametrize("kind", ["rgcn", "sage", "hgt"])
@pytest.mark.parametrize(
    "name", ["gnnexp", "pgexp", "pgexp-released", "subgraphx", "power", "power-link", "graphmask"]
)
def test_models_trained_here_are_explained(name: str, kind: str) -> None:
    _, data, link_type, pairs = tiny()
    model = make_model(kind, data, link_type, paper_split=True, seed=0).eval()
    explainer = make_rival(
        name, model, data, link_type, Settings(measure=False), 0, options=QUICK.get(name),
        threshold=None,
    )  # fmt: skip
    assert any(answer.paths for answer in explainer.explain_many(pairs))


@pytest.mark.filterwarnings("ignore:The type .* contains invalid characters")
@pytest.mark.parametrize("model", ZOO)
def test_vectors_for_the_mask_predictor_are_found_in_any_model(model: str) -> None:
    case = make_case(model)
    case.options["threshold"] = None
    pairs = links_of(make_case(model.removesuffix(" odd names")))[:6]
    explainer = rival("pgexp", case, Settings(measure=False), train_links=pairs)
    answers = list(explainer.explain_many(pairs))
    assert [answer.message for answer in answers if answer.reason == "invalid"] == []
    answered = [answer for answer in answers if answer.paths]
    assert answered
    for answer in answered:
        values = np.concatenate([answer.edge_mask.stored(t)[1] for t in answer.edge_mask])
        assert len(np.unique(values)) > 2


def test_training_links_are_fewer_where_they_take_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, data, link_type, pairs = tiny()

    def trained_on() -> int:
        explainer = make_rival(
            "pgexp", model, data, link_type, Settings(measure=False), 0,
            options={"links_a_step": 2}, threshold=None, train_links=pairs,
        )  # fmt: skip
        assert isinstance(explainer, PGExpLink)
        return sum(len(chosen) for *_, chosen in explainer._gathered(0))

    assert trained_on() == 6
    monkeypatch.setattr("pagelink.rivals.pgexp.TRAINING_MEMORY", 0.0)
    assert trained_on() == 2


@pytest.mark.parametrize("model", ["HGT", "whole embedding table", "graph-wide norm", "RGCN"])
@every_rival
def test_models_run_in_any_way_are_explained(name: str, model: str) -> None:
    case = make_case(model)
    case.options["threshold"] = None
    pairs = links_of(case)[2:4]
    if issubclass(RIVALS[name], PGExpLink):
        case.options["train_links"] = pairs
    answers = list(rival(name, case, Settings(measure=False)).explain_many(pairs))
    assert all(answer.paths for answer in answers), [answer.message for answer in answers]


def test_unknown_rivals_and_options_are_refused() -> None:
    case = make_case(MODEL)
    with pytest.raises(SettingsError, match="Did you mean 'gnnexp'"):
        make_rival("gnnex", case.model, case.data, case.link_type)
    with pytest.raises(SettingsError, match="Did you mean 'epochs'"):
        make_rival("gnnexp", case.model, case.data, case.link_type, options={"epoch": 3})
    with pytest.raises(SettingsError, match="epochs must be a whole number from 1 up, got 0"):
        make_rival("gnnexp", case.model, case.data, case.link_type, options={"epochs": 0})
    with pytest.raises(SettingsError, match="of Settings alone"):
        make_rival("pagelink", case.model, case.data, case.link_type, options={"epochs": 3})
    assert all(kind.name == name for name, kind in RIVALS.items() if kind is not PaGELink)


def test_a_deadline_stops_the_tree_search() -> None:
    model, data, link_type, pairs = tiny()
    explainer = make_rival(
        "subgraphx", model, data, link_type, Settings(measure=False, deadline=0.02), 0,
        options={"rollouts": 100_000}, threshold=None,
    )  # fmt: skip
    answers = list(explainer.explain_many(pairs[:2]))
    assert {answer.reason for answer in answers} <= {"out_of_time", "not_connected"}
    assert any(answer.reason == "out_of_time" for answer in answers)
