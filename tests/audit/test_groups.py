"""For whom it differs: groups by degree, score and columns, and those that rest on popularity."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink import PaGELink, Settings, errors
from pagelink.audit.game import Game, Value
from pagelink.audit.groups import Columns, make_groups
from pagelink.audit.rows import Row
from pagelink.audit.sampling import classes, stratified
from pagelink.audit.wording import cautions
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
        direct_relations=(), is_measured=True, game=game, metapaths=(), stand_ins=(),
        num_metapaths=0, facts=(), nodes=(), seconds=0.0,
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


@pytest.mark.parametrize(
    ("wanted", "message"),
    [("colour", "The columns are user.age"), ("item.age", "Neither user nor item has a column")],
)
def test_a_column_that_is_not_there(wanted: str, message: str) -> None:
    data = HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = 2
    data["user"].attributes = pa.table({"age": [1, 2]})
    with pytest.raises(errors.SettingsError, match=message):
        Columns(data, ("user", "item"), [wanted])


def test_an_audit_says_who_rests_on_popularity() -> None:
    mechanism = make_mechanism("popularity", num_links=3)
    link_type = mechanism.schema.link_type
    explainer = PaGELink(mechanism.model, mechanism.data, link_type, QUICK)
    audit = explainer.audit(mechanism.pairs)
    assert audit.verdicts == {"degree_only": 3}
    assert all(group.rests_on_popularity for group in audit.groups)
    assert any("rest on popularity alone" in caution for caution in cautions(audit))
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
