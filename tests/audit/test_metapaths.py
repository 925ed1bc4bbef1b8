"""Metapaths: what each is worth, on mechanisms of which it is known what they use."""

from __future__ import annotations

import pytest
from support.chains_of_books import LINK, WalkModel, scenes

from pagelink import PaGELink, Settings
from pagelink.audit.metapaths import MetapathWorth, find_metapaths, measure_metapaths
from pagelink.audit.rows import in_words, make_row, trials_of_link, without_figures
from pagelink.audit.summary import carried_by, halves, summarise_metapaths
from pagelink.datasets.mechanisms import PLANS, Mechanism, make_mechanism
from pagelink.explain.result import Path
from pagelink.measure.trials import Trials

QUICK = Settings(strongest=False, what_else=False)
USED = [name for name, plan in PLANS.items() if plan.used]
FEW = ("metapath", "shared, shorter", "AND", "(A or B) and (C or D)", "OR of 3", "second by name")


def explainer_of(mechanism: Mechanism, settings: Settings = QUICK) -> PaGELink:
    if mechanism.max_length is not None:
        settings = settings.replace(max_length=mechanism.max_length)
    link_type = mechanism.schema.link_type
    return PaGELink(mechanism.model, mechanism.data, link_type, settings, threshold=None)


def trials_of(explainer: PaGELink, src: int, dst: int) -> tuple[Trials, tuple[Path, ...]]:
    explanation = explainer.explain(src, dst, rank=False)
    link = explainer.link(src, dst)
    row = without_figures(explainer, link, explanation)
    return trials_of_link(explainer, link, row), explanation.paths


def steps_of(planted: str) -> list[str]:
    """The steps of a planted path, without its nodes."""
    return planted.split()[::2]


def is_used(name: str, found: MetapathWorth) -> bool:
    """Whether a metapath is one that the mechanism uses."""
    walked = []
    for edge_type, is_reversed in found.metapath.steps:
        # What has no stored reverse is walked backwards.
        walked.append(f"rev_{edge_type[1]}" if is_reversed else edge_type[1])
    return walked in [steps_of(path) for path in PLANS[name].used]


def check(name: str) -> None:
    mechanism = make_mechanism(name, num_links=2)
    explainer = explainer_of(mechanism)
    rows, used = [], set()
    for link, explanation in zip(
        mechanism.pairs, explainer.explain_many(mechanism.pairs), strict=True
    ):
        row = make_row(explainer, explainer.link(*link), explanation, game=False)
        found = measure_metapaths(trials_of_link(explainer, explainer.link(*link), row))
        first = found.measured[0]
        assert is_used(name, first), name
        assert first.worth > 0.3
        others = [each for each in found.measured if each.worth == first.worth]
        # Others of the same worth are used, too.
        assert len(others) <= len({tuple(steps_of(path)) for path in PLANS[name].used})
        used |= {in_words(each.metapath.steps, explainer.graph)
                 for each in found.measured if is_used(name, each)}  # fmt: skip
        rows.append(row)
    # Found on one link, and verified on the other.
    assert summarise_metapaths(rows, [0], [1])[0].words in used


@pytest.mark.parametrize("name", FEW)
def test_the_used_metapath_comes_first(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in USED if name not in FEW])
def test_the_used_metapath_comes_first_on_all_mechanisms(name: str) -> None:
    check(name)


def test_figures_are_those_of_all_paths_at_once() -> None:
    # Worth 0.1 each: forty paths together are worth what no single one is.
    mechanism = make_mechanism("forty", num_links=1)
    found = measure_metapaths(*trials_of(explainer_of(mechanism), *mechanism.pairs[0]))
    first = found.measured[0]
    assert (first.effect, first.gain) == (pytest.approx(4), pytest.approx(4))
    assert first.metapath.num_facts == 80
    assert [each.effect for each in found.measured[1:]] == [pytest.approx(0)] * 4
    assert found.num_found == 5


@pytest.mark.parametrize(
    ("name", "pairs"), [("OR of 3", 3), ("(A or B) and (C or D)", 2), ("AND", 0), ("metapath", 0)]
)
def test_which_metapaths_stand_in_for_each_other(name: str, pairs: int) -> None:
    mechanism = make_mechanism(name, num_links=1)
    found = measure_metapaths(*trials_of(explainer_of(mechanism), *mechanism.pairs[0]))
    assert len(found.stand_ins) == pairs
    for one, two in found.stand_ins:
        assert found.measured[one].worth == found.measured[two].worth > 0


FACTS = [(0, "owns", 1), (1, "by", 0), (0, "owns", 2), (2, "by", 0), (3, "by", 0), (2, "cites", 3)]


def test_facts_and_words_of_a_metapath() -> None:
    explainer = PaGELink(WalkModel("owns by rev_by", "owns cites"), scenes(FACTS), LINK, QUICK)
    trials, _ = trials_of(explainer, 0, 3)
    found = {
        in_words(each.steps, explainer.graph): each
        for each in find_metapaths(trials, trials.work.paths)
    }
    written = found["reader → owns → book → by → author ← by ← book"]
    assert written.num_facts == 5  # two ways to the author, and one from there
    cited = found["reader → owns → book → cites → book"]
    assert cited.num_facts == 2
    assert cited.path is not None
    assert cited.path.nodes == (("reader", 0), ("book", 2), ("book", 3))
    assert set(found) == {
        "reader → owns → book → by → author ← by ← book", "reader → owns → book → cites → book",
    }  # fmt: skip


def test_they_are_verified_on_other_links() -> None:
    mechanism = make_mechanism("metapath", num_links=6)
    rows = tuple(explainer_of(mechanism).audit(mechanism.pairs).rows)
    finding, verifying = halves(len(rows), seed=0)
    assert sorted(finding + verifying) == list(range(6))
    (found, *_) = summarise_metapaths(rows, finding, verifying)
    assert found.words == "listener → saves → mix → contains → track"
    assert (found.num_links, found.num_carried, found.worth) == (3, 3, 1.0)
    assert {example.row for example in found.examples} == set(verifying)
    assert found.examples[0].text.count(";") == 1
    # A metapath that was only worth something where it was not looked for is not found.
    assert summarise_metapaths(rows, [], verifying) == ()
    assert carried_by(rows[0]) == [found.words]
