"""Which link the demo shows, and that its model is worth explaining."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from rich.console import Console
from support.explanations import make_evidence, make_explanation, strong

from pagelink import PaGELink
from pagelink.datasets.books import generate_books
from pagelink.datasets.demo import (
    SETTINGS,
    _nodes,
    _shown,
    _strength,
    make_demo,
    strong_examples,
)
from pagelink.errors import ModelError
from pagelink.explain.result import StrongestFacts
from pagelink.models.architectures import RGCN
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.commands import recommend
from pagelink.models.training import train
from pagelink.web.explorer import Explorer

LINKS = torch.zeros(2, 5, dtype=torch.long)
NONE = make_explanation(reason="predicted_negative")
AGAINST, NOT_USED, SUPPORTED, LATER = (
    make_explanation(strong(), evidence=make_evidence(verdict), seed=seed)
    for seed, verdict in enumerate(
        ("structure_against", "structure_not_used", "supported", "supported")
    )
)
FACTS_OF = {share: StrongestFacts((), 1.0, share) for share in (0.4, 0.9)}


class Prepared:
    """An explainer with its answers prepared."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def explain_many(self, links: Any) -> Any:
        return iter(self.answers)


@pytest.mark.parametrize(
    ("answers", "shown"),
    [
        ((NONE, AGAINST, NOT_USED, SUPPORTED), SUPPORTED),
        ((NONE, replace(SUPPORTED, strongest=FACTS_OF[0.4]),
          replace(LATER, strongest=FACTS_OF[0.9])), replace(LATER, strongest=FACTS_OF[0.9])),
        ((NONE, NOT_USED, AGAINST), NOT_USED),
        ((NONE, NOT_USED), NOT_USED),
    ],
)  # fmt: skip
def test_the_strongest_link_that_relies_on_its_paths_is_shown(answers: Any, shown: Any) -> None:
    assert _shown(Prepared(*answers), LINKS) == shown  # type: ignore[arg-type]


def test_no_prediction_is_an_error_in_words() -> None:
    with pytest.raises(ModelError, match="predicts none of 1 test links"):
        _shown(Prepared(NONE), LINKS)  # type: ignore[arg-type]


def test_examples_share_no_node() -> None:
    found = strong_examples(Prepared(SUPPORTED, LATER, SUPPORTED), LINKS)  # type: ignore[arg-type]
    assert len(found) == 1


@pytest.fixture(scope="module")
def demo() -> Checkpoint:
    return make_demo(0, Console(quiet=True))


def test_the_model_needs_the_facts(demo: Checkpoint) -> None:
    settings = replace(SETTINGS, retrain_edgeless=True, epochs=20)
    twin = RGCN.for_data(demo.data, demo.link_type, paper_split=True, seed=0)
    figures = train(twin, demo.data, demo.link_type, demo.split, settings).test
    assert figures.retrained_edgeless is not None
    assert demo.report.test_auc > 0.9
    assert demo.report.test_auc > figures.retrained_edgeless.auc + 0.15
    assert demo.report.uses_structure


def test_explanations_find_the_rule(demo: Checkpoint) -> None:
    """Most first paths are the rule's; nearly all explanations have one that is."""
    labels = generate_books(seed=0).labels
    explainer = PaGELink(demo.model, demo.data, demo.link_type)
    links = [tuple(link) for link in demo.split.test.t().tolist()]
    with_paths = [each for each in explainer.explain_many(links) if each.paths]
    assert len(with_paths) > 0.6 * len(links)
    supported = [each.evidence.verdict == "supported" for each in with_paths if each.evidence]
    assert sum(supported) > 0.9 * len(with_paths)
    planted = [
        [path.nodes in {_nodes(p) for p in labels[each.src[1], each.dst[1]]} for path in each.paths]
        for each in with_paths
    ]
    assert sum(each[0] for each in planted) > 0.7 * len(with_paths)
    assert sum(any(each) for each in planted) > 0.85 * len(with_paths)

    examples = strong_examples(explainer, demo.split.test, 4)
    assert len(examples) == 4
    assert all(each.evidence and each.evidence.verdict == "supported" for each in examples)
    strengths = [_strength(each) for each in examples]
    assert strengths == sorted(strengths, reverse=True)
    nodes = [node for each in examples for node in each.paths[0].nodes]
    assert len(set(nodes)) == len(nodes)


def test_books_that_were_read_are_not_recommended(demo: Checkpoint) -> None:
    read = demo.data["reader", "read", "book"].edge_index
    explainer = PaGELink(demo.model, demo.data, demo.link_type)
    explorer = Explorer(explainer, demo.split.all, demo.score, taken=demo.known())
    for reader in (24, 36):
        of_reader = set(read[1, read[0] == reader].tolist())
        assert of_reader
        offered = {target.node.index for target in explorer.targets(reader, 200).targets}
        assert not offered & of_reader
        assert offered == {book.index for book in recommend(demo, reader, 200)}
        # A book that was read is explained, and ranked among those that are new.
        one = min(of_reader)
        assert explorer.rank(reader, one, []).of == len(offered) + 1
        assert {known.node.index for known in explorer.source(reader, 200).known}.isdisjoint(
            of_reader
        )
    readers = set(read[0, read[1] == 8].tolist())
    assert readers.isdisjoint(each.node.index for each in explorer.sources(8, 200).sources)
