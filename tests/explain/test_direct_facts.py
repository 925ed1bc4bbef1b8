"""A link never explains itself: what states it under another name is told first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.hand_drawn import BUYS, LIKES, VIEWS, Pairs, Walks, draw
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from pagelink import Explanation, PaGELink, Settings
from pagelink.engine import Sent, explain_table
from pagelink.errors import GraphError
from pagelink.graph.schema import EdgeType
from pagelink.store.writer import save_store

SIZES = {"user": 4, "item": 4}
SQUARE: Pairs = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]


def explainer(data: Any, link_type: Any = LIKES, settings: Any = None, **options: Any) -> PaGELink:
    given = {"threshold": None} | options
    return PaGELink(Walks(scale=0.01), data, link_type, settings, **given)


def homogeneous(model: Any, data: Data, links: Tensor) -> Tensor:
    edges = {("node", "is_linked_to", "node"): data.edge_index}
    scores: Tensor = model({"node": data.x}, edges, links)
    return scores


def flat(*edge_type: int) -> Data:
    ends = torch.tensor([(u, v + 4) for u, v in SQUARE]).t()
    data = Data(x=torch.ones(8, 1), edge_index=torch.cat([ends, ends.flip(0)], dim=1))
    if edge_type:
        data.edge_type = torch.tensor(edge_type)
    return data


class TestHomogeneous:
    def explain(self, data: Data, link_type: Any, **options: Any) -> Explanation:
        model = Walks(scale=0.01, ends=("node", "node"))
        made = PaGELink(model, data, link_type, forward=homogeneous, threshold=None, **options)
        return made.explain(0, 5)

    @pytest.mark.parametrize("link_type", ["likes", "is_linked_to", "0", 0])
    def test_the_only_relation_is_the_links(self, link_type: Any) -> None:
        found = self.explain(flat(), link_type)
        assert found.link_in_graph
        assert found.direct_relations == ()
        assert [len(path) for path in found.paths] == [3]

    def test_the_names_of_to_homogeneous(self) -> None:
        data = draw(SIZES, {BUYS: SQUARE}).to_homogeneous()
        for link_type in ("buys", BUYS, "user__buys__item"):
            found = self.explain(data, link_type)
            assert found.link_type == ("node", "user__buys__item", "node")
            assert found.link_in_graph
            assert [len(path) for path in found.paths] == [3]

    def test_they_read_without_the_types(self) -> None:
        data = draw(SIZES, {BUYS: SQUARE, VIEWS: SQUARE[:5]}).to_homogeneous()
        found = self.explain(data, "buys")
        assert {edge.label for path in found.paths for edge in path.edges} == {"buys", "views"}
        assert "node 0 buys node 5" in str(found)
        assert found.direct_relations == ("user__views__item",)
        steps = [(e.type[1], e.reversed, e.label_backwards) for p in found.paths for e in p.edges]
        for name, turned, backwards in steps:
            assert backwards == (turned != ("__rev_" in name))

    def test_relations_read_by_their_names(self) -> None:
        data = flat(*[0] * 8, *[1] * 8)
        found = self.explain(data, "0", reverse={}, relation_names=["cites", "cited_by"])
        assert found.link_type == ("node", "cites", "node")
        assert "node 0 cites node 5" in str(found)
        text = str(self.explain(data, "0", reverse={}))
        assert "node 0 relation 0 node 5" in text
        assert "node 0 0 node 5" not in text

    def test_settings_name_relations_by_value_too(self) -> None:
        data = flat(*[0] * 8, *[1] * 8)
        for settings in (
            Settings(exclude_relations=("0",)), Settings(exclude_relations=("relation 0",)),
            Settings(forbid_metapaths=(("0",), ("1",))),
        ):  # fmt: skip
            assert all(len(p) > 1 for p in self.explain(data, "x", settings=settings).paths)

    def test_a_heterogeneous_graph_has_names(self) -> None:
        with pytest.raises(GraphError, match="relation_names is for a homogeneous graph"):
            explainer(draw(SIZES, {BUYS: SQUARE}), relation_names=["buys"])


def synonym(more: dict[EdgeType, Pairs] | None = None) -> HeteroData:
    return draw(SIZES, {BUYS: SQUARE, **(more or {})})


def test_a_direct_fact_is_told_first_where_the_type_is_not_stored() -> None:
    found = explainer(synonym()).explain(0, 1)
    assert found.direct_relations == ("buys",)
    assert found.notes[0].startswith("'buys' joins source and target directly, and the graph holds")
    assert "exclude_relations=['buys']" in found.notes[0]
    assert str(found).splitlines()[1] == found.notes[0]
    assert str(found).count(found.notes[0]) == 1
    html = found.to_html()
    assert html.index("joins source and target directly") < html.index('class="pagelink-lead"')
    back = json.loads(json.dumps(found.to_dict()))
    assert back["direct_relations"] == ["buys"]
    assert Explanation.from_dict(back) == found


def test_nothing_is_told_without_a_direct_fact_or_if_it_is_left_out() -> None:
    assert explainer(synonym()).explain(0, 2).direct_relations == ()
    left_out = explainer(synonym(), settings=Settings(exclude_relations=("buys",)))
    assert left_out.explain(0, 1).direct_relations == ()
    # The model does not see it, so it lies on no path.
    blind = PaGELink(
        Walks({"buys": 0.0}, scale=0.01), synonym({VIEWS: SQUARE[:5]}), LIKES, threshold=None
    )
    assert blind.explain(0, 1).direct_relations == ("views",)


@pytest.mark.parametrize(
    ("joined", "most"), [(SQUARE[:5], True), (SQUARE[:4], False), ([(0, 1)], False)]
)
def test_a_stored_type_is_restated_by_what_joins_most_of_its_links(
    joined: Pairs, most: bool
) -> None:
    found = explainer(synonym({VIEWS: joined}), BUYS).explain(0, 1)
    assert found.direct_relations == ("views",)
    assert ("most links of this type" in found.notes[0]) is most
    assert ("if it states the link under another name" in found.notes[0]) is not most
    assert "exclude_relations=['views']" in found.notes[0]


def test_what_joins_the_asked_links_alone_is_told() -> None:
    """Stored links under one name, the links asked about under another."""
    data = draw(SIZES, {BUYS: SQUARE[:5], VIEWS: SQUARE[5:]})
    asked = explainer(data, BUYS).explain_many(SQUARE[5:])
    assert [each.direct_relations for each in asked] == [("views",)] * 3


def test_both_kinds_are_one_note() -> None:
    data = synonym({VIEWS: SQUARE[:5], LIKES: [(0, 1)], ("user", "knows", "item"): [(0, 1)]})
    found = explainer(data, BUYS).explain(0, 1)
    assert found.direct_relations == ("views", "likes", "knows")
    assert found.notes[0].startswith("'views' joins source and target directly, as it does most")
    assert found.notes[0].endswith(
        "'likes' and 'knows' join source and target directly: if they state the link under another "
        "name, set exclude_relations=['likes', 'knows']."
    )
    assert str(found).splitlines()[1] == found.notes[0]


def test_the_links_own_relation_the_other_way_is_none_of_them() -> None:
    knows: EdgeType = ("user", "knows", "user")
    data = draw({"user": 3}, {knows: [(0, 1), (1, 0), (1, 2)]})
    model = Walks(scale=0.01, ends=("user", "user"))
    made = PaGELink(model, data, knows, threshold=None)
    assert made.explain(0, 1).direct_relations == ()


def test_the_exact_name_is_given() -> None:
    other: EdgeType = ("user", "buys", "shop")
    data = draw({**SIZES, "shop": 2}, {BUYS: SQUARE, other: [(0, 0), (1, 1)]})
    found = explainer(data).explain(0, 1)
    assert found.direct_relations == ("user__buys__item",)
    again = explainer(data, settings=Settings(exclude_relations=found.direct_relations))
    assert all(len(path) > 1 for path in again.explain(0, 1).paths)


def test_company_and_store_make_no_difference(tmp_path: Path) -> None:
    data = synonym({VIEWS: SQUARE[:5]})
    links = [(u, v) for u in range(4) for v in range(4)]
    alone = explainer(data, BUYS)
    expected = [alone.explain(*link).direct_relations for link in links]
    assert expected.count(("views",)) == 5
    for made in (alone, explainer(save_store(data, tmp_path / "store"), BUYS)):
        for batch_size in (1, 3, 16):
            found = made.explain_many(links, batch_size=batch_size)
            assert [each.direct_relations for each in found] == expected


def test_the_summary_of_a_table_counts_them(tmp_path: Path) -> None:
    sent = Sent(explainer(synonym({VIEWS: [(3, 3)]})))
    for rows, told in (("0,0\n0,1\n0,2\n3,3\n", {"buys": 3}), ("0,0\n0,1\n0,2\n0,3\n", {})):
        table, out = tmp_path / "links.csv", tmp_path / f"{len(told)}.parquet"
        table.write_text("src,dst\n" + rows)
        assert explain_table(sent, table, out).direct == told
