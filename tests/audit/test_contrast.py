"""Two targets of one source, and sets of links: what puts one above, what carries all."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
import torch
from support.chains_of_books import LINK, WalkModel, scenes
from torch_geometric.data import HeteroData

from pagelink import PaGELink, Settings, errors
from pagelink.datasets.mechanisms import make_mechanism

QUICK = Settings(strongest=False, what_else=False)
# The reader owns books 1 and 2. Book 1 is by author 0, who wrote book 3; book 2 is by author 1, who
# wrote book 4. Book 5 is by author 1, too, and is owned, so that book 4 has two paths.
FACTS = [
    (0, "owns", 1), (1, "by", 0), (3, "by", 0), (0, "owns", 2), (2, "by", 1), (4, "by", 1),
    (0, "owns", 5), (5, "by", 1), (0, "owns", 6),
]  # fmt: skip


def counted(data: HeteroData, facts: list[tuple[int, str, int]], pair: tuple[int, int]) -> float:
    """The score of a pair on a graph of these facts alone, in the first scene."""
    model = WalkModel("owns by rev_by")
    smaller = scenes(facts, spare=data["reader"].num_nodes // 8 - 1 - _largest(facts))
    x = {kind: smaller[kind].x for kind in smaller.node_types}
    index = {t: smaller[t].edge_index for t in smaller.edge_types}
    return float(model(x, index, torch.tensor(pair)[:, None]))


def _largest(facts: list[tuple[int, str, int]]) -> int:
    return max(max(one, other) for one, _, other in facts)


def explainer() -> tuple[PaGELink, HeteroData]:
    data = scenes(FACTS)
    for kind in data.node_types:  # ids as of a table, which are not the positions
        data[kind].id = [str(i + 1) for i in range(data[kind].num_nodes)]
    return PaGELink(WalkModel("owns by rev_by"), data, LINK, QUICK, threshold=None), data


def test_the_fewest_facts_that_put_one_above_the_other() -> None:
    made, data = explainer()
    found = made.contrast(0, 4, 3)
    assert (found.above, found.below, found.turned) == (("book", 4), ("book", 3), False)
    assert (found.logit_above, found.logit_below) == (pytest.approx(3), pytest.approx(1))
    assert found.verdict == "paths"
    assert found.without_paths == pytest.approx(0)
    # One fact, that book 4 is by author 1, takes both paths away.
    assert [str(fact) for fact in found.facts] == ["book 4 by author 1"]
    assert found.smallest
    left = [fact for fact in FACTS if fact != (4, "by", 1)]
    right = counted(data, left, (0, 4)) - counted(data, left, (0, 3))
    assert found.difference_without == pytest.approx(right) == pytest.approx(-2)
    assert found.turns
    # The other way round: without what holds book 3 up, the difference is larger.
    assert found.difference_widened == pytest.approx(4)
    assert len(found.widening) == 1
    ahead = {each.path.nodes[1]: each.effect for each in found.paths if each.above}
    assert ahead == {("book", 2): pytest.approx(4), ("book", 5): pytest.approx(4)}
    behind = [each.effect for each in found.paths if not each.above]
    assert behind == [pytest.approx(-2)]
    assert "For reader 0 the model scores book 4 above book 3: 3.00 against 1.00." in str(found)
    assert "Without the fact that book 4 by author 1, book 3 would be above book 4" in str(found)


def test_it_says_if_the_other_one_is_above() -> None:
    made, _ = explainer()
    one, other = made.contrast(0, 4, 3), made.contrast(0, 3, 4)
    assert other.turned
    assert (other.above, other.difference) == (one.above, one.difference)
    assert "book 4 above book 3, not below it" in str(other)


def test_data_and_drawing_have_both_targets() -> None:
    made, _ = explainer()
    found = made.contrast(0, 4, 3)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["difference"] == pytest.approx(2)
    assert [each["dst"] for each in values["explanations"]] == [["book", 4], ["book", 3]]
    svg = found.to_svg()
    drawn = ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter()]
    told = " | ".join(drawn)
    assert "score 3.00" in told
    assert "score 1.00" in told
    assert any(text == "book 3" or "book 3" in text for text in drawn)
    assert told.count("owns") >= 3


def test_popularity_is_said() -> None:
    mechanism = make_mechanism("popularity", num_links=12)
    made = PaGELink(mechanism.model, mechanism.data, mechanism.schema.link_type, QUICK)
    src, dst = mechanism.pairs[0]
    others = [other for _, other in mechanism.pairs[1:]]
    scores = [answer.logit or 0.0 for answer in made.explain_many([(src, o) for o in others])]
    lowest = others[scores.index(min(scores))]
    found = made.contrast(src, dst, lowest)
    assert not found.turned
    assert found.verdict == "popularity"
    assert "That is popularity" in str(found)


def test_paths_that_stand_in_for_each_other_are_cut_together() -> None:
    mechanism = make_mechanism("OR of 3", num_links=4)
    made = PaGELink(mechanism.model, mechanism.data, mechanism.schema.link_type, QUICK)
    (src, above), (_, below) = mechanism.pairs[:2]
    found = made.contrast(src, above, below)
    assert found.above == ("track", above)
    # Neither one fact nor two change anything: one of each of the three paths has to go.
    assert all(each.effect == pytest.approx(0, abs=1e-5) for each in found.paths)
    assert found.turns
    assert found.difference_without == pytest.approx(found.difference - 4)
    used = [frozenset(path) for path in mechanism.links[0].used]
    removed = {(fact.type[1], fact.src[1], fact.dst[1]) for fact in found.facts}
    assert len(removed) == 3
    assert all(len(path & removed) == 1 for path in used)
    assert "None of them can be left out" in str(found)
    # Where no facts reach it, none is said to come closest that changes nothing.
    none = made.contrast(src, above, below, budget=2)
    assert not none.turns
    assert "None brings them noticeably closer." in str(none)
    # One chain carries all links, although nothing falls without it.
    together = made.explain_group(mechanism.pairs)
    (only,) = together.metapaths
    assert (only.effect.mean, only.gain.mean) == (pytest.approx(0, abs=1e-5), pytest.approx(4))
    assert together.sentence.endswith("Other chains stand in for what is removed.")


def test_two_targets_that_score_alike() -> None:
    made, _ = explainer()
    found = made.contrast(0, 0, 6)
    assert (found.verdict, found.difference) == ("equal", 0)
    first, last = str(found).split("\n\n")
    assert first == "For reader 0 the model scores book 0 and book 6 alike: -1.00 against -1.00."
    assert last.startswith("The difference is 0.00;")


def test_wrong_targets() -> None:
    made, _ = explainer()
    with pytest.raises(errors.LinkError, match="both targets"):
        made.contrast(0, 4, 4)
    with pytest.raises(errors.LinkError):
        made.contrast(0, 4, "nobody")
    with pytest.raises(errors.SettingsError, match="budget"):
        made.contrast(0, 4, 3, budget=0)


def test_one_explanation_for_a_set_of_links() -> None:
    made, data = explainer()
    size = data["reader"].num_nodes // 8
    links = [(size * i, size * i + book) for i in range(2) for book in (3, 4)]
    found = made.explain_group([*links, ("nobody", 1)])
    assert (found.num_links, found.num_measured, found.num_carried) == (5, 4, 4)
    (only,) = found.metapaths
    assert only.words == "reader → owns → book → by → author ← by ← book"
    assert (only.num_carried, only.num_new) == (4, 4)
    # Without its paths, book 3 loses 2 and book 4 loses 4.
    assert found.effect.mean == pytest.approx(3) == pytest.approx(found.all_paths.mean)
    assert len(only.examples) == 3
    assert "1 chain of facts carries 4 of 4 links" in str(found)
    assert found.verdicts["invalid"] == 1
    assert f"1 link could not be measured. The first: {found.rows[-1].message}" in str(found)
    with pytest.raises(errors.SettingsError, match="no links"):
        made.explain_group([])
