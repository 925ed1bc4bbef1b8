"""For whom it differs: groups by degree, score and columns, and those that rest on popularity."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from pagelink import PaGELink, Settings, errors
from pagelink.audit.game import Game, Value
from pagelink.audit.groups import Columns, make_groups
from pagelink.audit.rows import Row
from pagelink.audit.sampling import classes, stratified
from pagelink.audit.summary import summarised
from pagelink.audit.wording import cautions, differs_words
from pagelink.datasets.mechanisms import make_mechanism
from pagelink.measure.verdict import PARTS

QUICK = Settings(strongest=False, what_else=False)


def make_row(place: int, **given: object) -> Row:
    """A row of which all is set by hand."""
    parts = {name: Value(0.0, 0.0) for name in PARTS}
    parts["path_facts"] = Value(float(place % 2), 0.0)
    game = Game(Value(0.0, 0.0), parts, dict.fromkeys(PARTS, 1), Value(0.0, 0.0), 1)
    row = Row(
        src=("user", place), dst=("item", place), src_name=f"u{place}", dst_name=f"i{place}",
        relation="likes", src_degree=place, dst_degree=3, logit=float(place), is_predicted=True,
        verdict="supported", ends=None, reason=None, message="", noise=0.01, max_length=3,
        num_hops=2, direct_relations=(), is_measured=True, game=game, metapaths=(), stand_ins=(),
        num_metapaths=0, facts=(), nodes=(), is_settled=True, seconds=0.0,
    )  # fmt: skip
    return dataclasses.replace(row, **given)  # type: ignore[arg-type]


def test_thirds_of_degree_and_score() -> None:
    groups = make_groups([make_row(i) for i in range(6)])
    labels = [(group.by, group.label, group.num_links) for group in groups]
    assert labels == [
        ("degree of the source", "0 to 1", 2), ("degree of the source", "2 to 3", 2),
        ("degree of the source", "4 to 5", 2), ("degree of the target", "3", 6),
        ("score", "0 to 1", 2), ("score", "2 to 3", 2), ("score", "4 to 5", 2),
    ]  # fmt: skip
    assert groups[1].rows == (2, 3)
    assert groups[1].logit == pytest.approx(2.5)
    assert groups[1].parts["path_facts"].mean == pytest.approx(0.5)
    assert groups[1].parts["path_facts"].error == pytest.approx(0.5)


def test_popularity_alone_and_clear_differences() -> None:
    rows = [make_row(i, verdict="degree_only" if i < 4 else "supported") for i in range(12)]
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = 12
    kinds = ["even" if i % 2 == 0 else "odd" for i in range(12)]
    data["user"].attributes = pa.table({"kind": kinds, "age": list(range(12))})
    data["item"].year = torch.arange(12) % 2
    columns = Columns(data, ("user", "item"), ["kind", "item.year"])
    groups = {(group.by, group.label): group for group in make_groups(rows, columns)}
    low, high = groups["degree of the source", "0 to 3"], groups["degree of the source", "8 to 11"]
    assert (low.rests_on_popularity, high.rests_on_popularity) == (True, False)
    assert low.verdicts == {"degree_only": 4}
    odd = groups["kind of the source", "odd"]
    assert odd.num_links == 6
    assert odd.parts["path_facts"].mean == 1.0
    assert groups["year of the target", "1"].rows == odd.rows
    assert odd.differs == ()  # without any spread, no standard error tells
    spread = [make_row(i) for i in range(40)]
    for i, row in enumerate(spread):
        assert row.game is not None
        parts = row.game.parts | {"features_src": Value(0.01 * (i % 3) + (i >= 27), 0.0)}
        spread[i] = dataclasses.replace(row, game=dataclasses.replace(row.game, parts=parts))
    top = [group for group in make_groups(spread) if group.by == "score"][-1]
    assert top.differs == ("features_src",)
    audit = summarised(
        spread, make_groups, seed=0, link_type=("user", "likes", "item"), threshold=0.0,
        settings={}, versions={}, title="",
    )  # fmt: skip
    own, others = (
        sum(0.01 * (i % 3) + (i >= 27) for i in range(40) if (i in top.rows) == inside)
        / sum((i in top.rows) == inside for i in range(40))
        for inside in (True, False)
    )
    told = f"features of the user (+{own:.2f}, others +{others:.2f})"
    assert differs_words(top, audit) == told
    assert told in audit.to_html()


def test_columns_of_numbers_and_what_is_not_known() -> None:
    rows = [make_row(i, logit=1 + i / 10_000) for i in range(30)]
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = 30
    data["user"].age = torch.arange(30.0)
    data["user"].age[[4, 5]] = float("nan")
    years = [None if i == 7 else 1990 + i % 3 for i in range(30)]
    data["item"].attributes = pa.table({"year": years, "kind": ["b"] * 20 + ["a"] * 9 + [""]})
    columns = Columns(data, ("user", "item"), ["age", "year", "kind"])
    groups = make_groups(rows, columns)

    def labels(by: str) -> list[tuple[str, int]]:
        return [(group.label, group.num_links) for group in groups if group.by == by]

    # From the lowest class up; what is not known comes last, and makes no number a word.
    thirds = [("0 to 10", 9), ("11 to 20", 10), ("21 to 29", 9), ("unknown", 2)]
    assert labels("age of the source") == thirds
    # A few values each have their own group, the most common first.
    own = [("1990", 10), ("1992", 10), ("1991", 9), ("unknown", 1)]
    assert labels("year of the target") == own
    assert labels("kind of the target") == [("b", 20), ("a", 9), ("unknown", 1)]
    # As many digits as tell the classes apart.
    assert [label for label, _ in labels("score")] == [
        "1 to 1.0009", "1.0010 to 1.0019", "1.0020 to 1.0029"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("colour", "The columns are user.age, item.year."),
        ("item.age", "Neither user nor item has a column"),
        ("yaer", "Did you mean 'year'"),
    ],
)
def test_a_column_that_is_not_there(wanted: str, message: str) -> None:
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = 2
    data["user"].attributes = pa.table({"age": [1, 2]})
    data["item"].year = torch.tensor([1990, 2000])
    data["item"].x = torch.zeros(2, 4)
    with pytest.raises(errors.SettingsError, match=message):
        Columns(data, ("user", "item"), [wanted])
    with pytest.raises(errors.SettingsError, match=message):  # a single one need not be in a list
        Columns(data, ("user", "item"), wanted)


def test_columns_of_a_homogeneous_graph() -> None:
    data = Data(x=torch.zeros(30, 2), edge_index=torch.zeros(2, 30, dtype=torch.long))
    data.edge_type = torch.zeros(30, dtype=torch.long)
    data.colour = ["red" if i < 10 else "blue" for i in range(30)]
    rows = [make_row(i, src=("node", i), dst=("node", 29 - i)) for i in range(30)]
    groups = make_groups(rows, Columns(data, ("node", "node"), ["colour"]))
    told = [(group.by, group.label, group.num_links) for group in groups if "colour" in group.by]
    assert told == [
        ("colour of the source", "blue", 20), ("colour of the source", "red", 10),
        ("colour of the target", "blue", 20), ("colour of the target", "red", 10),
    ]  # fmt: skip
    with pytest.raises(errors.SettingsError, match="The columns are node"):
        Columns(data, ("node", "node"), ["edge_type"])


def test_an_audit_says_who_rests_on_popularity() -> None:
    mechanism = make_mechanism("popularity", num_links=3)
    link_type = mechanism.schema.link_type
    explainer = PaGELink(mechanism.model, mechanism.data, link_type, QUICK)
    audit = explainer.audit(mechanism.pairs)
    assert audit.verdicts == {"degree_only": 3}
    assert all(group.rests_on_popularity for group in audit.groups)
    assert any("rest on popularity alone" in caution.text for caution in cautions(audit))
    # Any other facts at that end would have done: no metapath is said to carry anything.
    assert audit.metapaths == ()
    with pytest.raises(errors.SettingsError, match="no links"):
        explainer.audit([])
    with pytest.raises(errors.SettingsError, match="column 'colour'"):
        explainer.audit(mechanism.pairs, by=["colour"])


def test_a_sample_has_every_combination_by_its_share() -> None:
    rng = np.random.default_rng(3)
    one, two = rng.integers(0, 3, (2, 900))
    chosen = stratified([one, two], 90, seed=0)
    assert len(chosen) == len(set(chosen.tolist())) == 90
    for a in range(3):
        for b in range(3):
            share = np.sum((one == a) & (two == b)) / 10
            assert abs(np.sum((one[chosen] == a) & (two[chosen] == b)) - share) <= 1
    assert stratified([one, two], 90, seed=0).tolist() == chosen.tolist()
    assert stratified([one, two], 90, seed=1).tolist() != chosen.tolist()
    assert stratified([one], 1000, seed=0).tolist() == list(range(900))
    with pytest.raises(errors.SettingsError):
        stratified([one], 0, seed=0)
    assert classes(np.array([], dtype=np.int64)).tolist() == []
