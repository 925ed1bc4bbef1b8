"""A small version of the random graphs with models, and that faults would be seen."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
import torch

from pagelink import Explanation
from pagelink.bench.fuzz import graphs
from pagelink.bench.fuzz.faults import Fault
from pagelink.bench.fuzz.graphs import RandomCase, check_answers, random_graphs
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import EdgeMask


def run(seed: int, cases: range) -> tuple[list[Fault], graphs.Counts]:
    running, faults = random_graphs(seed, cases), []
    while True:
        try:
            faults.append(next(running))
        except StopIteration as end:
            return faults, end.value


def test_random_graphs_break_no_promise() -> None:
    faults, counts = run(0, range(30))
    assert faults == []
    assert counts[graphs.TOO_LOW] == 0
    assert 0 < counts[graphs.OFF] <= 1
    assert counts[graphs.COMPARED] > counts[graphs.MEASURED_TOO] > 20


NETS = (1, 41, 48, 91, 100, 138, 173, 192, 203, 218, 229, 240, 248)
"""Cases of the first seed with a net that marks the source."""


def test_nets_that_mark_the_source_break_no_promise() -> None:
    kinds = {RandomCase.draw(0, number).made.kind for number in NETS}
    assert kinds == {"NBFNet, bias", "NBFNet, no bias"}
    assert [fault for n in NETS for fault in random_graphs(0, range(n, n + 1))] == []


def test_a_case_depends_on_seed_and_number_only() -> None:
    first, second = (RandomCase.draw(4, 2) for _ in range(2))
    assert first.asked == second.asked
    assert first.given.link_types == second.given.link_types
    weights = [case.made.model.state_dict() for case in (first, second)]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert RandomCase.draw(4, 3).asked != first.asked


@cache
def explained() -> tuple[RandomCase, PaGELink, tuple[Explanation, ...], int]:
    """A case in which a link has several paths of three facts and more, all measured."""
    for number in range(200):
        case = RandomCase.draw(5, number)
        settings = dataclasses.replace(case.asked.settings, rho=0.0, measure=True, deadline=None)
        asked = dataclasses.replace(case.asked, settings=settings, options={}, threshold=None)
        case = dataclasses.replace(case, asked=asked)
        if case.made.kind in ("HAN", "busy sources"):
            continue
        explainer = case.explainer()
        answers = tuple(explainer.explain_many(asked.links))
        for place, answer in enumerate(answers[:2]):
            if len(answer.paths) > 1 and answer.link_in_graph and len(answer.paths[0]) > 1:
                return case, explainer, answers, place
    raise AssertionError("no such case")


def wrong(changed: Explanation) -> list[str]:
    case, explainer, _, place = explained()
    return list(check_answers(only(case, place), explainer, [changed], graphs.Counts()))


def only(case: RandomCase, place: int) -> RandomCase:
    """The same case with one of its links."""
    asked = dataclasses.replace(case.asked, links=[case.asked.links[place]])
    return dataclasses.replace(case, asked=asked)


def changes(answer: Explanation) -> Iterator[tuple[str, Explanation]]:
    """The explanation with one thing wrong, each in turn."""
    replace, path, evidence = dataclasses.replace, answer.paths[0], answer.evidence
    assert evidence is not None

    def with_path(**values: object) -> Explanation:
        return replace(answer, paths=(replace(path, **values), *answer.paths[1:]))  # type: ignore[arg-type]

    for name in ("logit", "logit_deployed"):
        yield name, replace(answer, **{name: getattr(answer, name) + 0.1})
    for name in (
        "influence", "logit_without_these", "logit_without_paths", "logit_without_edges",
        "logit_only_these",
    ):  # fmt: skip
        off = replace(evidence, **{name: getattr(evidence, name) + 0.1})
        yield name, replace(answer, evidence=off)
    for name in ("influence", "marginal", "score"):
        yield f"{name} of a path", with_path(**{name: getattr(path, name) + 0.1})
    edge = path.edges[0]
    yield (
        "influence of a fact",
        with_path(edges=(replace(edge, influence=(edge.influence or 0.0) + 0.1), *path.edges[1:])),
    )
    yield "column", with_path(edges=(replace(edge, index=edge.index + 1), *path.edges[1:]))
    turned = replace(edge, reversed=not edge.reversed)
    yield "direction", with_path(edges=(turned, *path.edges[1:]))
    yield "degrees", with_path(degrees=tuple(d + 1 for d in path.degrees))
    yield "the same path twice", replace(answer, paths=(path, *answer.paths))
    yield "reason", replace(answer, reason="not_connected", message="No.")
    other = "supported" if evidence.verdict == "structure_against" else "structure_against"
    yield "verdict", replace(answer, evidence=replace(evidence, verdict=other))
    yield "link_in_graph", replace(answer, link_in_graph=not answer.link_in_graph)
    yield "not a number", with_path(connection=float("nan"))
    sizes = {t: len(answer.edge_mask[t]) for t in answer.edge_mask}
    values = {t: (np.arange(n), np.full(n, 2, dtype=np.float32)) for t, n in sizes.items()}
    yield "mask", replace(answer, edge_mask=EdgeMask(sizes, values))


def test_everything_that_is_wrong_is_seen() -> None:
    _, _, answers, place = explained()
    assert wrong(answers[place]) == []
    unseen = [name for name, changed in changes(answers[place]) if not wrong(changed)]
    assert unseen == []


def test_a_depth_that_is_too_low_is_a_fault() -> None:
    case, explainer, answers, place = explained()
    field = dataclasses.replace(explainer.receptive_field, num_hops=1)
    made = dataclasses.replace(case.made, num_hops=2)
    logit = answers[place].logit
    assert logit is not None
    given = [dataclasses.replace(answers[place], logit=logit + 1)]
    counts, seen = graphs.Counts(), copy.copy(explainer)
    seen.receptive_field = field
    deeper = dataclasses.replace(only(case, place), made=made)
    found = list(check_answers(deeper, seen, given, counts))
    assert "the model was taken to see 1 hops, it has 2" in found
    assert counts[graphs.TOO_LOW] == 1
    assert counts[graphs.OFF] > 1


def test_a_changed_model_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    explain_many = PaGELink.explain_many

    def leaves_it_trained(self: PaGELink, *given: object, **more: object) -> object:
        model = self.predictor.model
        model.train(not model.training)
        return explain_many(self, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(PaGELink, "explain_many", leaves_it_trained)
    assert any("the model or the data changed" in f.what for f in random_graphs(0, range(2)))
