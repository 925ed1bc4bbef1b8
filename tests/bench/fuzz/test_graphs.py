"""A small version of the random graphs with models, and that faults would be seen."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from pagelink import Explanation
from pagelink.bench.fuzz import graphs
from pagelink.bench.fuzz.faults import Fault
from pagelink.bench.fuzz.graphs import RandomCase, check_answers, random_graphs
from pagelink.bench.fuzz.oracles import swap_checks
from pagelink.errors import PageLinkError
from pagelink.explain.edge_mask import EdgeMask
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Alternative


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
    assert counts[graphs.COMPARED] > counts[graphs.MEASURED_TOO] > counts[graphs.SWAPPED] > 10


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


Explained = tuple[RandomCase, PaGELink, tuple[Explanation, ...], int]


@cache
def explained(*, with_parts: bool = False) -> Explained:
    """A case in which a link has several paths, all measured, and what else counts if wanted."""
    more: Any = {"measure": True, "deadline": None, "rho": 0.0, "strongest": True}
    for number in range(200):
        case = RandomCase.draw(5, number)
        settings = dataclasses.replace(case.asked.settings, what_else=True, **more)
        asked = dataclasses.replace(case.asked, settings=settings, options={}, threshold=None)
        case = dataclasses.replace(case, asked=asked)
        if case.made.kind in ("HAN", "busy sources"):
            continue
        try:
            explainer = case.explainer()
        except PageLinkError:
            continue
        answers = tuple(explainer.explain_many(asked.links))
        for place, answer in enumerate(answers[:2]):
            if bool(answer.what_else) == with_parts and has_much_to_say(answer, with_parts):
                return case, explainer, answers, place
    raise AssertionError("no such case")


def has_much_to_say(answer: Explanation, with_parts: bool) -> bool:
    """Whether there are paths of different shares, and facts that count."""
    if with_parts:
        return True
    shares = {path.share for path in answer.paths}
    if len(shares) < 2 or len(answer.paths[0]) < 2 or answer.strongest is None:
        return False
    counting = any(abs(edge.influence or 0.0) > 0.1 for edge in answer.paths[0].edges)
    return counting and len(answer.strongest.facts) > 1


def wrong(changed: Explanation, found: Explained) -> list[str]:
    case, explainer, _, place = found
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
        "logit_only_these", "gain",
    ):  # fmt: skip
        off = replace(evidence, **{name: getattr(evidence, name) + 0.1})
        yield name, replace(answer, evidence=off)
    for name in ("influence", "marginal", "score", "gain", "share"):
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
    yield "max_length", replace(answer, evidence=replace(evidence, max_length=9))
    yield "rho_reached", replace(answer, evidence=replace(evidence, rho_reached=1.1))
    yield "worth", replace(answer, evidence=replace(evidence, worth=1.1))
    yield "ends", replace(answer, evidence=replace(evidence, ends="src"))
    degrees = replace(evidence, verdict="degree_only", ends="src", control=None)
    yield "only degrees", replace(answer, evidence=degrees)
    yield "is_evidence", with_path(is_evidence=not path.is_evidence)
    yield "a bundle of one", with_path(bundle=1)
    least_first = tuple(sorted(answer.paths, key=lambda each: each.share or 0.0))
    yield "order of the paths", replace(answer, paths=least_first)
    moving = [i for i, each in enumerate(path.edges) if abs(each.influence or 0.0) > 0.1]
    idle = replace(path.edges[moving[0]], active=False)
    yield "active", with_path(edges=(*path.edges[: moving[0]], idle, *path.edges[moving[0] + 1 :]))
    strongest = answer.strongest
    assert strongest is not None
    yield "no strongest facts", replace(answer, strongest=None)
    for name in ("effect", "share"):
        off = replace(strongest, **{name: (getattr(strongest, name) or 0.0) + 0.1})
        yield f"{name} of the strongest", replace(answer, strongest=off)
    fewer = replace(strongest, facts=strongest.facts[1:])
    yield "a strong fact is missing", replace(answer, strongest=fewer)
    yield (
        "the same set again",
        replace(answer, alternatives=(Alternative(evidence.worth or 1.0, answer.paths),)),
    )
    yield "link_in_graph", replace(answer, link_in_graph=not answer.link_in_graph)
    yield "not a number", with_path(connection=float("nan"))
    sizes = {t: len(answer.edge_mask[t]) for t in answer.edge_mask}
    values = {t: (np.arange(n), np.full(n, 2, dtype=np.float32)) for t, n in sizes.items()}
    yield "mask", replace(answer, edge_mask=EdgeMask(sizes, values))


def changed_parts(answer: Explanation) -> Iterator[tuple[str, Explanation]]:
    """The same with something wrong in what else counts."""
    replace = dataclasses.replace
    for number, part in enumerate(answer.what_else[:4]):
        for off in (replace(part, size=part.size + 1), replace(part, effect=part.effect + 1)):
            parts = (*answer.what_else[:number], off, *answer.what_else[number + 1 :])
            yield f"{part} is {off}", replace(answer, what_else=parts)
    yield "no parts", replace(answer, what_else=())


def test_everything_that_is_wrong_is_seen() -> None:
    found = explained()
    answer = found[2][found[3]]
    assert wrong(answer, found) == []
    assert [name for name, changed in changes(answer) if not wrong(changed, found)] == []


def test_wrong_parts_of_what_else_counts_are_seen() -> None:
    found = explained(with_parts=True)
    answer = found[2][found[3]]
    assert wrong(answer, found) == []
    assert [name for name, changed in changed_parts(answer) if not wrong(changed, found)] == []


def test_a_score_after_a_swap_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = swap_checks.swapped_logits
    monkeypatch.setattr(swap_checks, "swapped_logits", lambda *given: logits(*given) + 0.5)
    faults, _ = run(0, range(6))
    assert any("after a swap the score is" in fault.what for fault in faults)


def test_partners_the_wrong_way_round_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = swap_checks.draw

    def turned(*given: Any) -> Any:
        swaps = drawing(*given)
        swaps.partners[:, 1:] = swaps.partners[:, :0:-1].copy()
        return swaps

    monkeypatch.setattr(swap_checks, "draw", turned)
    faults, _ = run(0, range(6))
    assert faults


def test_swaps_that_make_new_paths_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = swap_checks.draw

    def heedless(given: Any, jobs: Any, max_length: int, seed: int) -> Any:
        return drawing(given, jobs, 0, seed)

    monkeypatch.setattr(swap_checks, "draw", heedless)
    faults, _ = run(0, range(12))
    assert any("a swap makes a path" in fault.what for fault in faults)


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
