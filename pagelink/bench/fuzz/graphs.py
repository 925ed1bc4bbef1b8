"""Random graphs with random models through `explain_many`: every promise is looked at.

Paths are checked against the graph, figures against the model on graphs whose edges are really
deleted; model, data and what is global have to be as before.
"""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pagelink.bench.fuzz.draws.data import RandomData
from pagelink.bench.fuzz.draws.models import RandomModel
from pagelink.bench.fuzz.draws.questions import RandomQuestions
from pagelink.bench.fuzz.faults import LARGEST, Fault, add_counts
from pagelink.bench.fuzz.oracles.brute_force import BruteForce, DrawnLink, brute_force, reverse_of
from pagelink.bench.fuzz.oracles.figure_checks import (
    check_evidence,
    check_rank,
    check_reason,
    check_scores,
)
from pagelink.bench.fuzz.oracles.multigraphs import Multigraph, Node
from pagelink.bench.fuzz.oracles.path_checks import check_paths
from pagelink.bench.fuzz.oracles.swap_checks import check_swaps
from pagelink.bench.fuzz.oracles.truth import LinkTruth, Truth, written_down
from pagelink.bench.fuzz.oracles.untouched import global_state, same, snapshot
from pagelink.bench.fuzz.oracles.word_checks import check_words
from pagelink.errors import PageLinkError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.schema import EdgeType
from pagelink.runtime.timer import OutOfTimeError

MEASURED = 4
"""Explanations of a case whose measured figures are recomputed."""
AGAIN = 0.1
"""Share of the cases that are explained again in batches of another size."""
COMPARED = "explanations compared with the model on edited full graphs"
MEASURED_TOO = "of these, with what their paths and facts are worth"
SWAPPED = "of these, with facts swapped by hand"
TOO_LOW = "cases in which the depth was found too low"
OFF = f"{LARGEST}difference of a figure, by tau"
Counts = Counter[str]
"""What was met that is no fault, by kind."""


@dataclass(frozen=True)
class RandomCase:
    """A graph with a model, and questions."""

    given: RandomData
    made: RandomModel
    asked: RandomQuestions

    @classmethod
    def draw(cls, seed: int, case: int) -> RandomCase:
        """Draw the case of this number."""
        rng = np.random.default_rng((seed, case))
        given = RandomData.draw(rng)
        return cls(given, RandomModel.draw(rng, given), RandomQuestions.draw(rng, given))

    def explainer(self) -> PaGELink:
        """The explainer under test."""
        given, made, asked = self.given, self.made, self.asked
        return PaGELink(
            made.model, given.data, given.link_types, asked.settings, asked.seed,
            forward=made.forward, output=made.output, threshold=asked.threshold,
            reverse=given.reverse,
        )  # fmt: skip


def random_graphs(seed: int, cases: range) -> Generator[Fault, None, Counts]:
    """Explain links of random graphs; yield every promise that is broken.

    Returns:
        How many cases were refused, by the error; how many explanations were recomputed, and how
        far they are from the truth.
    """
    counts = Counts({COMPARED: 0, MEASURED_TOO: 0, SWAPPED: 0, TOO_LOW: 0, OFF: 0})
    for case in cases:
        drawn = RandomCase.draw(seed, case)
        before = snapshot(drawn.made.model, drawn.given.data), global_state()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            broken = list(_check_case(drawn, counts, np.random.default_rng((seed, case, 1))))
        # Those of PyG about the odd models are UserWarnings.
        said = {f"{each.category.__name__}: {each.message}" for each in seen
                if each.category is not UserWarning}  # fmt: skip
        broken += [f"a warning is shown: {each}" for each in sorted(said)]
        if not same(before[0], snapshot(drawn.made.model, drawn.given.data)):
            broken.append("the model or the data changed")
        if not same(before[1], global_state()):
            broken.append("the state of the process changed")
        yield from (Fault("graphs", case, f"{drawn.made.kind}: {what}") for what in broken)
    return counts


def _check_case(case: RandomCase, counts: Counts, rng: np.random.Generator) -> Iterator[str]:
    asked = case.asked
    try:
        explainer = case.explainer()
    except PageLinkError as error:
        counts[f"refused, {type(error).__name__}: {_beginning(error)}"] += 1
        return
    except Exception as error:
        yield f"making the explainer raises {type(error).__name__}: {error}"
        return
    counts[f"runs on {explainer.predictor.mode}"] += 1
    side_by_side = _watched(explainer)
    try:
        answers = list(explainer.explain_many(asked.links, **asked.options))
    except Exception as error:
        yield f"explain_many raises {type(error).__name__}: {error}"
        return
    yield from side_by_side
    if len(answers) != len(asked.links):
        yield f"{len(answers)} explanations of {len(asked.links)} links"
        return
    yield from check_answers(case, explainer, answers, counts)
    if rng.random() < AGAIN and asked.settings.deadline is None:
        size = 1 if asked.options["batch_size"] > 1 else 3
        again = explainer.explain_many(asked.links, **{**asked.options, "batch_size": size})
        for first, second in zip(answers, again, strict=True):
            yield from _check_same(first, second, counts)


def _watched(explainer: PaGELink) -> list[str]:
    """List what goes wrong in batches: their links are explained one by one then, unseen."""
    method, seen = explainer.pipeline.method, list[str]()

    def watch(*given: Any) -> list[Explanation]:
        try:
            return method(*given)
        except OutOfTimeError:
            raise  # which has each link explained by itself, in its own time
        except Exception as error:
            seen.append(f"a batch of links raises {type(error).__name__}: {error}")
            raise

    explainer.pipeline = dataclasses.replace(explainer.pipeline, method=watch)
    return seen


def _beginning(error: Exception) -> str:
    """The first words of a message, without what is particular to the case."""
    words = str(error).split(":")[0].split(".")[0].split()
    return " ".join(word for word in words if word.isalpha())[:60]


def check_answers(
    case: RandomCase, explainer: PaGELink, answers: list[Explanation], counts: Counts
) -> Iterator[str]:
    """Yield what is wrong with the explanations of a case's links, given in order."""
    given, made, asked = case.given, case.made, case.asked
    graph, seen = explainer.graph, explainer.receptive_field
    reverse = given.reverse
    drawn = written_down(given, {})
    if reverse is None:
        reverse = reverse_of(drawn.pairs, graph.edge_types)
        if dict(explainer.reverse) != reverse:
            yield f"the reverses found are {explainer.reverse}, not {reverse}"
            return
    drawn = written_down(given, reverse)
    truth = Truth(made, given, drawn, graph.edge_types)
    named = [
        (row, answer, _ends(row, answer.link_type, given, drawn))
        for row, answer in zip(asked.links, answers, strict=True)
    ]
    pairs: dict[EdgeType, list[tuple[Node, Node]]] = {t: [] for t in given.link_types}
    for _, answer, ends in named:
        if ends is not None:
            pairs[answer.link_type].append(ends)
    sample = truth.sample(pairs)
    measured, is_off = 0, False
    for row, answer, ends in named:
        yield from _check_form(answer, on_page=answer is answers[0])
        if ends is None or answer.reason == "invalid":
            counts["invalid links"] += 1
            if ends is not None or answer.reason != "invalid":
                yield f"{row!r} is {answer.reason}: {answer.message}"
            continue
        if (answer.src, answer.dst) != ends:
            yield f"{row!r} was taken for {answer.src}, {answer.dst}"
            continue
        counts[f"reason {answer.reason}"] += 1
        see = partial(_inside, explainer, answer)
        inside = see(drawn)
        link = LinkTruth(truth, *ends, answer.link_type, sample)
        wrong = [
            *check_words(answer, link.noise), *check_paths(answer, drawn, inside, given),
            *check_reason(answer, drawn, inside, given),
        ]  # fmt: skip
        figures = list(check_scores(answer, link))
        if (answer.paths or answer.evidence) and measured < MEASURED:
            measured += 1
            counts[MEASURED_TOO] += 1
            figures += check_evidence(answer, link, inside)
            if measured == 1 and answer.paths:
                counts[SWAPPED] += 1
                figures += check_swaps(explainer, answer, link, see, asked.seed)
        if asked.options.get("rank"):
            figures += check_rank(answer, link, asked.options["rank_sample"])
        is_off = is_off or bool(figures)
        add_counts(counts, {COMPARED: 1, OFF: max(link.compared, default=0.0)})
        yield from (f"{row!r}: {each}" for each in (*wrong, *figures))
    if is_off and seen.num_hops is not None and (made.num_hops or math.inf) > seen.num_hops:
        counts[TOO_LOW] += 1
        yield f"the model was taken to see {seen.num_hops} hops, it has {made.num_hops}"


def _inside(explainer: PaGELink, answer: Explanation, drawn: Multigraph) -> BruteForce:
    """The computation graph of a link, by what was found of the model."""
    seen, edge_types = explainer.receptive_field, explainer.graph.edge_types

    def chosen(mask: Any) -> set[EdgeType]:
        return {t for t, is_chosen in zip(edge_types, mask, strict=True) if is_chosen}

    used, along = chosen(seen.seen_relations), chosen(seen.along_relations)
    found = None if seen.num_hops is None else max(seen.num_hops, answer.settings.num_hops or 0)
    if answer.num_hops != found:
        used = along = set(edge_types)  # the check has found that more counts than was seen
    link = DrawnLink(answer.src, answer.dst, answer.link_type)
    inside = brute_force(drawn, link, answer.num_hops, used, along)
    if answer.num_hops is not None:
        return inside
    visible = {edge for edge in inside.edges if edge.type in used}
    return BruteForce(inside.hops, inside.edges, visible, {drawn.fact(edge) for edge in visible})


def _ends(
    row: Any, link_type: EdgeType, given: RandomData, drawn: Multigraph
) -> tuple[Node, Node] | None:
    """The nodes that a row names, or None if it is no link."""
    if not isinstance(row, tuple | list) or len(row) not in (2, 3):
        return None
    if len(row) == 3 and row[2] not in given.link_types:
        return None
    chosen = row[2] if len(row) == 3 else given.link_types[0]
    data = given.data
    found: list[Node] = []
    for kind, key in zip((chosen[0], chosen[2]), row[:2], strict=True):
        store = data[kind] if kind in drawn.sizes and len(drawn.sizes) and hasattr(
            data, "node_types") else data  # fmt: skip
        if isinstance(key, str):
            names = list(store["name"]) if "name" in store else []
            if names.count(key) == 1:
                found.append((kind, names.index(key)))
                continue
            if names.count(key) > 1:
                return None
            bare = key.removeprefix("id:")
            if not bare.isdecimal() or (names and bare == key):
                return None
            key = int(bare)
        if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < drawn.sizes[kind]:
            return None
        found.append((kind, key))
    return None if found[0] == found[1] else (found[0], found[1])


def _check_form(answer: Explanation, on_page: bool) -> Iterator[str]:
    """Yield if an explanation cannot be kept and shown."""
    try:
        text = json.dumps(answer.to_dict(mask=True), allow_nan=False)
        again = Explanation.from_dict(json.loads(text))
        if json.dumps(again.to_dict(mask=True)) != text:
            yield "it is another one after to_dict and from_dict"
        if not str(answer).strip() or (on_page and not answer._repr_html_()):
            yield "it has no text"
    except Exception as error:
        yield f"showing it raises {type(error).__name__}: {error}"


def _check_same(first: Explanation, second: Explanation, counts: Counts) -> Iterator[str]:
    """Yield if two explanations of a link differ by more than rounding."""
    close = partial(math.isclose, rel_tol=1e-3, abs_tol=1e-3)
    name = f"{first.src} to {first.dst} in batches of another size"
    if (first.src, first.dst, first.reason) != (second.src, second.dst, second.reason):
        yield f"{name}: {first.reason}, then {second.reason}"
        return
    if first.logit is not None and not close(first.logit, second.logit or 0.0):
        yield f"{name}: logit {first.logit}, then {second.logit}"
    if set(first.paths) != set(second.paths):
        # Sets of paths of the same worth, to the last digit that rounding leaves.
        counts["other paths in batches of another size"] += 1
