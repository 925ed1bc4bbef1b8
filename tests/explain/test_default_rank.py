"""One link is ranked among all open ends unless that is dear; ties have their mean place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.chains_of_books import LINK, WalkModel, scenes
from support.deep_models import DEEP
from support.zoo import built, make_case
from torch import Tensor

from pagelink import PaGELink, Settings
from pagelink.errors import GraphError, SettingsError
from pagelink.explain.options import NOT_RANKED, SAMPLE, ExplainOptions
from pagelink.explain.ranking import (
    MOST_RANKED,
    EndScores,
    KnownLinks,
    open_ends,
    place_among,
    places_of,
    rank_among,
)
from pagelink.measure.verdict import Evidence
from pagelink.runtime.timer import OutOfTimeError
from pagelink.store.writer import save_store

pytestmark = pytest.mark.filterwarnings("ignore:The type .")


def test_ties_have_their_mean_place() -> None:
    ranks, ties = places_of([3.0, 1.0, 3.0, 2.0, 1.0, 1.0, 1.0])
    assert ranks.tolist() == [1, 5, 1, 3, 5, 5, 5]
    assert ties.tolist() == [1, 3, 1, 0, 3, 3, 3]
    assert place_among(np.zeros(301), 7) == (151, 300)  # not the first of them
    # What the arithmetic may change makes no rank, and what it may not change does.
    assert place_among(np.array([1.0 + 1e-7, 1.0, 1.0 - 1e-7]), 1) == (2, 2)
    assert rank_among(np.array([1.0 + 1e-4, 1.0, 1.0 - 1e-4]), 1) == 2
    # No number is the lowest score.
    assert places_of([np.nan, 0.0, -np.inf, np.inf])[0].tolist() == [3, 2, 3, 1]


def test_ranks_do_not_depend_on_the_order() -> None:
    rng = np.random.default_rng(0)
    scores = rng.choice([0.5, 1.5, 2.5, *rng.normal(size=20)], 200)
    order = rng.permutation(200)
    ranks, ties = places_of(scores)
    again, tied = places_of(scores[order])
    assert np.array_equal(again, ranks[order])
    assert np.array_equal(tied, ties[order])
    for own in range(0, 200, 17):
        higher, same = (scores > scores[own]).sum(), (scores == scores[own]).sum() - 1
        assert (ranks[own], ties[own]) == ((2 * higher + same + 2) // 2, same)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_one_link_is_ranked_among_all_open_targets(batch_size: int) -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None)
    links = [(5, 3), (7, 0), (11, 20)]
    ranked = list(explainer.explain_many(links, rank=True, batch_size=batch_size))
    for pair, many in zip(links, ranked, strict=True):
        one = explainer.explain(*pair)
        assert one.rank_of == len(open_ends(explainer.graph, explainer.link(*pair)))
        assert (one.rank_is_sample, one.rank_end) == (False, "dst")
        for name in ("rank", "rank_ties", "rank_without_these", "rank_ties_without_these"):
            assert getattr(one, name) == getattr(many, name)
        assert f"of {one.rank_of} items" in str(one)
        assert explainer.explain(*pair, rank=False).rank is None
    assert {each.rank for each in explainer.explain_many(links)} == {None}
    sample = explainer.explain(5, 3, rank_sample=10)
    assert (sample.rank_of, sample.rank_is_sample) == (10, True)
    assert "of a sample of 10 items" in str(sample)
    with pytest.raises(SettingsError, match="rank must be True, False or None, got 'all'"):
        explainer.explain(5, 3, rank="all")  # type: ignore[arg-type]


def test_a_store_is_ranked_on_request_only(tmp_path: Path) -> None:
    case = make_case("HeteroConv SAGE")
    store = save_store(case.data, tmp_path / "store")
    explainer = PaGELink(case.model, store, case.link_type, threshold=None)
    assert explainer.explain(5, 3).rank is None
    memory = PaGELink(case.model, case.data, case.link_type, threshold=None).explain(5, 3)
    asked = explainer.explain(5, 3, rank=True)
    assert asked.rank_of == min(memory.rank_of or 0, SAMPLE)
    assert asked.rank == memory.rank  # there are no more than that


def test_what_takes_a_pass_per_target_is_ranked_on_request_only() -> None:
    name = next(name for name in DEEP if name.startswith("NBFNet"))
    case = built(DEEP[name])
    explainer = PaGELink(
        case.model, case.data, case.link_type, **{"threshold": None, **case.options}
    )
    assert explainer.receptive_field.knows_link
    assert explainer.explain(5, 3).rank is None
    assert explainer.explain(5, 3, rank=True, rank_sample=5).rank_of == 5
    options = ExplainOptions(rank=True)
    assert options.num_ranked(in_one_pass=False) == SAMPLE < MOST_RANKED
    assert options.num_ranked(in_one_pass=True) == MOST_RANKED


def test_known_links_are_not_ranked() -> None:
    case = make_case("HeteroConv SAGE")
    plain = PaGELink(case.model, case.data, case.link_type, threshold=None)
    open_ = [plain.graph.node(int(v))[1] for v in open_ends(plain.graph, plain.link(5, 3))]
    known = torch.tensor([[5, 5, 5, 6], [3, open_[0], open_[1], 3]])
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None, known=known)
    answer, before = explainer.explain(5, 3), plain.explain(5, 3)
    assert before.rank_of is not None
    assert answer.rank_of == before.rank_of - 2  # its own target is ranked, although it is known
    assert plain.replace(known=known).explain(5, 3).rank == answer.rank
    assert explainer.counterfactual(5, 3, top_k=1).rank_of == answer.rank_of
    at_source = explainer.explain(5, 3, rank_end="src")
    assert at_source.rank_of == (plain.explain(5, 3, rank_end="src").rank_of or 0) - 1
    for wrong in (torch.tensor([[5], [1000]]), torch.ones(2, 3), torch.ones(3, 2).long()):
        with pytest.raises(GraphError, match="known must"):
            plain.replace(known=wrong)


def test_known_links_within_one_type_count_both_ways() -> None:
    data = scenes([(0, "owns", 1), (1, "cites", 2)])
    kind = ("book", "resembles", "book")
    graph = PaGELink(Both(), data, kind, threshold=None).graph
    known = KnownLinks.of(graph, kind, np.array([[1, 2], [2, 3]]))
    link = PaGELink(Both(), data, kind, threshold=None).link(2, 0)
    assert sorted(graph.node(int(v))[1] for v in known.ends(link)) == [1, 3]


class Both(WalkModel):
    """Scores two books by how often they are cited."""

    def forward(self, x: dict[str, Tensor], edges: dict[Any, Tensor], pair: Tensor) -> Tensor:
        found = self.conv((x["book"], x["book"]), edges["book", "cites", "book"]).sum(-1)
        return found[pair[0]] + found[pair[1]]


def test_all_targets_tie_without_the_paths() -> None:
    facts = [(0, "owns", 1), (1, "by", 0), (2, "by", 0)]
    answer = PaGELink(WalkModel("owns by rev_by"), scenes(facts), LINK, threshold=None).explain(
        0, 2
    )
    assert answer.rank_of is not None
    assert answer.rank is not None
    assert answer.rank <= 2
    assert answer.rank_ties_without_these == answer.rank_of - 1
    assert answer.rank_without_these == (answer.rank_of + 1) // 2
    assert f"(tied with {answer.rank_of - 1} others)" in str(answer)


def test_a_deadline_leaves_out_a_rank_that_was_not_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = make_case("HeteroConv SAGE")
    settings = Settings(deadline=600.0)
    explainer = PaGELink(case.model, case.data, case.link_type, settings, threshold=None)

    def late(*_: Any) -> Any:
        raise OutOfTimeError

    monkeypatch.setattr(EndScores, "_on_whole_graph", late)
    monkeypatch.setattr(EndScores, "_on_computation_graphs", late)
    answer = explainer.explain(5, 3)
    assert (answer.rank, answer.reason) == (None, None)
    assert NOT_RANKED in answer.notes
    assert explainer.explain(5, 3, rank=True).reason == "out_of_time"


class Unseen(WalkModel):
    """No link that is tried shows it, but the score of one book rests on an edge."""

    def forward(self, x: dict[str, Tensor], edges: dict[Any, Tensor], pair: Tensor) -> Tensor:
        cited = self.conv((x["book"], x["book"]), edges["book", "cites", "book"])
        return 1 + x["reader"][pair[0], 0] + self.slope * cited[pair[1]].sum(-1)


@pytest.mark.parametrize("slope", [0.0, 2.0])
def test_the_score_without_edges_is_measured_without_paths(slope: float) -> None:
    facts = [(0, "owns", 1), (3, "cites", 4)]
    explainer = PaGELink(Unseen(slope=slope), scenes(facts), LINK)
    # As if no link that was tried had shown that edges count.
    explainer.receptive_field = replace(explainer.receptive_field, uses_edges=False)
    answer = explainer.replace().explain(0, 4)
    if slope:
        assert (answer.reason, answer.evidence) == ("not_connected", None)
    else:
        assert isinstance(answer.evidence, Evidence)
        assert answer.evidence.logit_without_edges == answer.logit


class Owned(WalkModel):
    """Scores a link by how many books its reader owns, whichever these are."""

    def forward(self, x: dict[str, Tensor], edges: dict[Any, Tensor], pair: Tensor) -> Tensor:
        owned = self.conv((x["book"], x["reader"]), edges["book", "rev_owns", "reader"])
        return owned.sum(-1)[pair[0]]


def test_a_fact_that_joins_both_ends_does_not_tell_which_of_them_counts() -> None:
    data = scenes([(0, "owns", 1), (0, "owns", 2), (0, "owns", 3), (1, "owns", 2)])
    settings = Settings(max_length=1, longer=False)
    answer = PaGELink(Owned(), data, LINK, settings).explain(0, 1)
    assert answer.evidence is not None
    assert [len(path) for path in answer.paths] == [1]
    assert (answer.evidence.verdict, answer.evidence.ends) == ("degree_only", "either")
    assert (
        "What counts is how much is known about reader 0 or book 1 (a fact that joins both does "
        "not tell which), not what they are connected to" in str(answer)
    )
