"""What users hand in by mistake, and what graphs look like at their edges."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from support.hand_drawn import (
    BUYS,
    KNOWS,
    LIKES,
    VIEWS,
    Pairs,
    Walks,
    assert_is_path,
    draw,
    inner,
    relations,
)
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from pagelink import Explanation, PaGELink, PageLinkError, Settings
from pagelink.errors import GraphError, LinkError, ModelError, SettingsError

REV_LIKES = ("item", "rev_likes", "user")
# Two users and two items in a square, a third user and a third item beyond, and an isolated pair.
SQUARE: Pairs = [(0, 1), (1, 1), (1, 0), (2, 0), (2, 2), (1, 2)]
SIZES = {"user": 4, "item": 4}


def explainer(
    data: HeteroData | None = None, model: Any = None, link_type: Any = LIKES, **options: Any
) -> PaGELink:
    data = draw(SIZES, {BUYS: SQUARE}) if data is None else data
    return PaGELink(model or Walks(scale=0.01), data, link_type, **options)


def named() -> HeteroData:
    data = draw(SIZES, {BUYS: SQUARE})
    data["user"].name = ["Ada Lovelace", "Bob", "Charles", "Charles"]
    data["item"].name = ["Tea", "Coffee", "Milk", "1"]
    return data


def summary(explanation: Explanation) -> dict[str, Any]:
    """All but the seconds it took."""
    values = dataclasses.asdict(dataclasses.replace(explanation, seconds=0.0))
    values["edge_mask"] = explanation.edge_mask.to_list()
    return values


class TestNodes:
    def test_names_and_indices(self) -> None:
        explain = explainer(named()).explain
        expected = summary(explain(0, 0))
        same: list[Any] = [("Ada Lovelace", "Tea"), ("id:0", 0), (np.int64(0), "id:0")]
        for src, dst in same:
            assert summary(explain(src, dst)) == expected
        # "1" is the name of item 3; "id:1" is item 1.
        assert explain(0, "1").dst == ("item", 3)
        assert explain(0, "id:1").dst == explain(0, 1).dst == ("item", 1)

    @pytest.mark.parametrize(
        ("src", "dst", "message"),
        [
            ("Ada Lovelase", "Tea", "no user called 'Ada Lovelase'. Did you mean 'Ada Lovelace'?"),
            ("Bob", "Cofee", "no item called 'Cofee'. Did you mean 'Coffee'?"),
            ("Charles", "Tea", "2 nodes of type 'user' are called 'Charles': .*'id:2', 'id:3'"),
            (4, 0, r"user index must be in 0\.\.3, got 4"),
            (0, 99, r"item index must be in 0\.\.3, got 99"),
            (-1, 0, r"user index must be in 0\.\.3, got -1"),
            (0, -1, r"item index must be in 0\.\.3, got -1"),
            ("id:7", 0, r"user index must be in 0\.\.3, got 7"),
            (0.0, 0, "A user is given by index or name, got 0.0"),
            (None, 0, "A user is given by index or name, got None"),
            (True, 0, "A user is given by index or name, got True"),
        ],
    )
    def test_unknown_ones(self, src: Any, dst: Any, message: str) -> None:
        explain = explainer(named())
        with pytest.raises(LinkError, match=message):
            explain.explain(src, dst)
        (only,) = explain.explain_many([(src, dst)])
        assert only.reason == "invalid"
        assert re.search(message, only.message)
        assert (only.src_name, only.dst_name) == (str(src), str(dst))
        assert only.paths == ()
        assert only.logit is None

    def test_types_without_names(self) -> None:
        with pytest.raises(LinkError, match=r"nodes of this type have no names.*data\['user'\]"):
            explainer().explain("Ada", 0)

    def test_source_is_target(self) -> None:
        data = draw({"user": 3}, {KNOWS: [(0, 1), (1, 2)]})
        model = Walks(scale=0.01, ends=("user", "user"))
        explain = explainer(data, model, ("user", "likes", "user"))
        with pytest.raises(LinkError, match="'user 1' is both source and target"):
            explain.explain(1, 1)
        reasons = [e.reason for e in explain.explain_many([(0, 2), (1, 1), (0, 1)])]
        assert reasons == [None, "invalid", None]

    def test_the_same_index_of_two_types_is_not_the_same_node(self) -> None:
        assert explainer().explain(0, 0).reason is None


class TestLinkTypes:
    def test_a_relation_that_takes_no_part_in_message_passing(self) -> None:
        data = draw(SIZES, {BUYS: SQUARE})
        assert LIKES not in data.edge_types
        explanation = explainer(data).explain(0, 0)
        assert explanation.reason is None
        assert explanation.link_type == LIKES
        assert explanation.logit == explanation.logit_deployed
        assert LIKES not in data.edge_types

    @pytest.mark.parametrize(
        ("link_type", "message"),
        [
            (("usr", "likes", "item"), "node type 'usr', .* Did you mean 'user'"),
            (
                ("user", "likes", "shop"),
                r"node type 'shop', which is not in the graph \(user, item",
            ),
            ("likes", "A link type is .source type, relation, target type., got 'likes'"),
            ((), r"A link type is .*, got \(\)"),
            (("user", "likes"), "A link type is"),
            ([LIKES, ("user", "likes", "itm")], "node type 'itm', .* Did you mean 'item'"),
        ],
    )
    def test_unknown_ones(self, link_type: Any, message: str) -> None:
        with pytest.raises(LinkError, match=message):
            explainer(link_type=link_type)

    def test_of_a_single_link(self) -> None:
        data = draw(SIZES, {BUYS: SQUARE, KNOWS: [(0, 2)]})
        explain = explainer(data, link_type=[LIKES, BUYS])
        assert explain.explain(0, 0).link_type == LIKES
        assert explain.explain(0, 0, "buys").link_type == BUYS
        assert explain.explain(0, 0, BUYS).link_type == BUYS
        assert explain.explain(0, 0, LIKES).link_type == LIKES
        with pytest.raises(LinkError, match=r"'lieks' is not a .* Did you mean user,likes,item"):
            explain.explain(0, 0, "lieks")
        with pytest.raises(LinkError, match=r"is not a link type .* Did you mean"):
            explain.explain(0, 0, ("user", "byus", "item"))
        # A relation of the graph that the explainer was not made for: the model may not score it.
        with pytest.raises(LinkError, match=r"'knows' is not a link type"):
            explain.explain(0, 0, "knows")
        links: list[Any] = [
            (0, 0), (0, 0, "lieks"), (0, 0, "buys"), (0, 0, None), (0, 0, 7), (0, 0, list(BUYS))
        ]  # fmt: skip
        found = list(explain.explain_many(links))
        assert [e.reason for e in found] == [None, "invalid", None, "invalid", "invalid", None]
        assert [e.link_type for e in found if e.reason is None] == [LIKES, BUYS, BUYS]

    def test_a_relation_name_of_several_link_types_is_refused(self) -> None:
        items, shops = ("user", "likes", "item"), ("user", "likes", "shop")
        data = draw(
            {"user": 3, "item": 3, "shop": 3},
            {BUYS: SQUARE[:4], ("user", "visits", "shop"): [(0, 1), (1, 1), (1, 0)]},
        )
        explain = explainer(data, link_type=[items, shops])
        with pytest.raises(
            LinkError, match="'likes' may be one of several relations: user,likes,item"
        ):
            explain.explain(0, 1, "likes")
        assert explain.explain(0, 1, items).link_type == items

    def test_a_homogeneous_graph_needs_only_the_name(self) -> None:
        data = Data(
            x=torch.ones(4, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4
        )

        def forward(model: Any, data: Data, links: Tensor) -> Tensor:
            edges = {("node", "is_linked_to", "node"): data.edge_index}
            scores: Tensor = model({"node": data.x}, edges, links)
            return scores

        model = Walks(scale=0.01, ends=("node", "node"))
        explain = PaGELink(model, data, "likes", forward=forward)
        explanation = explain.explain(0, 2)
        assert explanation.link_type == ("node", "likes", "node")
        assert [path.nodes for path in explanation.paths] == [
            (("node", 0), ("node", 1), ("node", 2))
        ]
        assert explain.explain(0, 3).reason == "not_connected"
        with pytest.raises(LinkError, match=r"node index must be in 0\.\.3"):
            explain.explain(0, 4)


class TestGraphs:
    @pytest.mark.parametrize(
        ("pairs", "message"),
        [
            ([(0, 0), (0, 4)], r"'buys'.* edge_index\[1, 1\] is 4, .* 4 nodes of type 'item'"),
            ([(0, 0), (-1, 0)], r"'buys'.* edge_index\[0, 1\] is -1"),
        ],
    )
    def test_edges_out_of_bounds(self, pairs: Pairs, message: str) -> None:
        with pytest.raises(GraphError, match=message):
            explainer(draw(SIZES, {BUYS: pairs}))

    def test_no_edges(self) -> None:
        for data in (draw(SIZES, {}), draw(SIZES, {BUYS: []})):
            with pytest.raises(GraphError, match="no edges"):
                explainer(data)

    def test_no_nodes_of_a_type(self) -> None:
        with pytest.raises(GraphError, match="no nodes of type 'item'"):
            explainer(draw({"user": 3, "item": 0}, {KNOWS: [(0, 1)]}))

    def test_no_message_reaches_any_link(self) -> None:
        # shops write to nobody who can be linked.
        data = draw(
            {"user": 2, "item": 2, "shop": 2},
            {("user", "in", "shop"): [(0, 1), (1, 1)]}, reverse=False,
        )  # fmt: skip
        with pytest.raises(GraphError, match=r"no message can reach.*ToUndirected"):
            explainer(data)

    def test_only_one_node_receives_messages(self) -> None:
        data = draw({"user": 4}, {KNOWS: [(0, 1), (2, 1), (3, 1)]}, reverse=False)
        model = Walks(scale=0.01, ends=("user", "user"))
        explanation = explainer(data, model, ("user", "likes", "user")).explain(0, 1)
        assert [relations(path) for path in explanation.paths] == [["knows"]]

    def test_an_isolated_end(self) -> None:
        explain = explainer()
        for src, dst in ((3, 0), (0, 3), (3, 3)):
            explanation = explain.explain(src, dst)
            assert explanation.reason == "not_connected"
            assert explanation.message
            assert explanation.paths == ()
            assert explanation.logit is not None

    def test_source_and_target_of_one_type(self) -> None:
        link_type = ("user", "likes", "user")
        model = Walks(scale=0.01, ends=("user", "user"))
        data = draw(
            {"user": 4, "item": 2}, {KNOWS: [(0, 1), (2, 1)], BUYS: [(0, 0), (2, 0), (3, 1)]}
        )
        settings = Settings(measure=False)
        explanation = explainer(data, model, link_type, settings=settings).explain(0, 2)
        assert {tuple(path.nodes) for path in explanation.paths} == {
            (("user", 0), ("user", 1), ("user", 2)), (("user", 0), ("item", 0), ("user", 2))
        }  # fmt: skip
        for path in explanation.paths:
            assert_is_path(path, explanation, data)

    def test_empty_relations(self) -> None:
        full = explainer(draw(SIZES, {BUYS: SQUARE}))
        more = explainer(draw(SIZES, {VIEWS: [], BUYS: SQUARE, KNOWS: []}))
        first, second = full.explain(0, 0), more.explain(0, 0)
        assert first.paths
        assert [p.nodes for p in first.paths] == [p.nodes for p in second.paths]
        assert second.edge_mask[VIEWS].shape == (0,)
        assert second.notes == first.notes  # that no message went along no edge is not worth a word

    def test_self_loops(self) -> None:
        loops: Pairs = [(0, 0), (1, 1), (2, 2)]
        data = draw(SIZES, {BUYS: SQUARE, KNOWS: loops})
        explanation = explainer(data).explain(0, 0)
        assert explanation.paths
        for path in explanation.paths:
            assert_is_path(path, explanation, data)
            assert "knows" not in " ".join(relations(path))
        plain = explainer().explain(0, 0)
        assert [p.degrees for p in plain.paths] == [p.degrees for p in explanation.paths]

    def test_duplicate_edges(self) -> None:
        data = draw(SIZES, {BUYS: SQUARE + SQUARE[:3] + SQUARE[:1]})
        explanation = explainer(data).explain(0, 0)
        plain = explainer().explain(0, 0)
        assert len(set(explanation.paths)) == len(explanation.paths)
        assert {p.nodes for p in explanation.paths} == {p.nodes for p in plain.paths}
        degrees = {p.nodes: p.degrees for p in plain.paths}
        assert all(degrees[p.nodes] == p.degrees for p in explanation.paths)

    def test_a_relation_that_the_model_never_uses(self) -> None:
        # The direct way is by `views`, which the model leaves out.
        data = draw(SIZES, {BUYS: SQUARE, VIEWS: [(0, 0), (0, 2)]})
        explanation = explainer(data, Walks({"views": 0.0}, scale=0.01)).explain(0, 0)
        assert explanation.paths
        for path in explanation.paths:
            assert not {"views", "rev_views"} & set(relations(path))
        assert (
            "The score rests on no message along views, rev_views; paths through them are left out."
        ) in explanation.notes
        used = explainer(data, settings=Settings(measure=False)).explain(0, 0)
        assert relations(used.paths[0]) == ["views"]
        assert not any("no message" in note for note in used.notes)

    @pytest.mark.parametrize(
        ("count", "named"),
        [(1, "r0; paths through it"), (8, "r6, r7; paths through them"),
         (11, "r6, r7 and 3 more; paths through them")],
    )  # fmt: skip
    def test_many_relations_that_the_model_never_uses(self, count: int, named: str) -> None:
        data = draw(SIZES, {BUYS: SQUARE})
        for i in range(count):
            data["user", f"r{i}", "item"].edge_index = torch.tensor([[0], [i % 2]])
        unused = Walks({f"r{i}": 0.0 for i in range(count)}, scale=0.01)
        (note,) = (n for n in explainer(data, unused).explain(0, 0).notes if "no message" in n)
        assert note.startswith("The score rests on no message along r0")
        assert note.endswith(f"{named} are left out.")

    def test_joined_only_by_what_the_model_never_uses(self) -> None:
        data = draw(SIZES, {BUYS: [(0, 1), (2, 2)], VIEWS: [(0, 0)]})
        explanation = explainer(data, Walks({"views": 0.0}, scale=0.01)).explain(0, 0)
        assert explanation.reason == "not_connected"
        assert "cannot see" in explanation.message

    def test_one_way_relations(self) -> None:
        # Without reverses no message ever leaves an item, but facts are walked either way.
        data = draw(
            {"user": 3, "item": 1}, {KNOWS: [(1, 0), (2, 1)], BUYS: [(1, 0)]}, reverse=False
        )
        explanation = explainer(data).explain(0, 0)
        (path,) = explanation.paths
        assert [(edge.type, edge.reversed) for edge in path.edges] == [(KNOWS, True), (BUYS, False)]
        assert_is_path(path, explanation, data)


class Bad(Walks):
    """Gives a bad score to links of one user; whom, can be said after the explainer was made."""

    def __init__(self, value: float, **options: Any) -> None:
        super().__init__(**options)
        self.value = value
        self.bad_feature = -1.0

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        scores = super().forward(x_dict, edge_index_dict, links)
        bad = x_dict["user"][links[0]].view(-1) == self.bad_feature
        return torch.where(bad, torch.full_like(scores, self.value), scores)


class Raises(Bad):
    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        if (x_dict["user"][links[0]] == self.bad_feature).any():
            raise IndexError("index out of range in self")
        return super().forward(x_dict, edge_index_dict, links)


class BadGradient(Bad):
    """Finite scores whose gradient is not a number for links of one user."""

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        scores = Walks.forward(self, x_dict, edge_index_dict, links)
        good = (x_dict["user"][links[0]].view(-1) != self.bad_feature).to(scores.dtype)
        return 1 + torch.sqrt(scores * good)


def marked() -> HeteroData:
    """User 1 has a feature of 2, the others of 1."""
    data = draw(SIZES, {BUYS: SQUARE})
    data["user"].x[1] = 2
    return data


class TestScores:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_not_finite_from_the_start(self, value: float) -> None:
        with pytest.raises(ModelError, match="NaN or infinite scores"):
            explainer(model=Walks(scale=0.01, bias=value))
        data = draw(SIZES, {BUYS: SQUARE})
        data["item"].x[1] = value
        with pytest.raises(ModelError, match="NaN or infinite scores"):
            explainer(data)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("batch_size", [1, 2, 32])
    def test_not_finite_for_one_link_of_a_batch(self, value: float, batch_size: int) -> None:
        model = Bad(value, scale=0.01)
        explain = explainer(marked(), model)
        links = [(0, 0), (1, 1), (2, 1), (0, 2)]
        before = [explain.explain(*link) for link in links]
        model.bad_feature = 2.0
        found = list(explain.explain_many(links, batch_size=batch_size))
        assert [e.reason for e in found] == [None, "invalid", None, None]
        assert found[1].paths == ()
        assert found[1].logit is None
        assert str(value) in found[1].message
        assert (found[1].src, found[1].dst) == (("user", 1), ("item", 1))
        for i in (0, 2, 3):
            assert found[i].paths == before[i].paths
            assert found[i].logit == pytest.approx(before[i].logit)
            assert [p.score for p in found[i].paths] == pytest.approx(
                [p.score for p in before[i].paths], abs=1e-5
            )
        assert explain.explain(1, 1).reason == "invalid"

    def test_a_model_that_fails_for_one_link_of_a_batch(self) -> None:
        model = Raises(0.0, scale=0.01)
        explain = explainer(marked(), model)
        model.bad_feature = 2.0
        found = list(explain.explain_many([(0, 0), (1, 1), (2, 1)]))
        assert [e.reason for e in found] == [None, "invalid", None]
        assert "index out of range" in found[1].message

    @pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
    def test_a_gradient_that_is_not_finite_for_one_link_of_a_batch(self) -> None:
        model = BadGradient(0.0, scale=0.01)
        explain = explainer(marked(), model)
        model.bad_feature = 2.0
        first, second, third = explain.explain_many([(0, 0), (1, 1), (2, 1)])
        for explanation in (first, third):
            assert explanation.reason is None
            assert all(math.isfinite(path.score) for path in explanation.paths)
        # Either it says that it cannot, or it gives numbers; never paths ranked by NaN.
        assert second.reason == "invalid" or all(math.isfinite(p.score) for p in second.paths)

    def test_predicted_negatives(self) -> None:
        links = [(0, 0), (2, 1), (0, 3)]
        logits = [e.logit or 0.0 for e in explainer().explain_many(links)]
        between = sorted(logits)[1] + 1e-6
        ways: list[dict[str, Any]] = [
            {"model": Walks(scale=0.01, bias=-between)}, {"threshold": between}
        ]  # fmt: skip
        for options in ways:
            found = list(explainer(**options).explain_many(links))
            negative = [e.reason == "predicted_negative" for e in found]
            assert negative == [logit < between for logit in logits]
            for e in found:
                if e.reason == "predicted_negative":
                    assert e.paths == ()
                    assert e.logit is not None
                    assert "does not predict" in e.message
            ranked = explainer(**options | {"threshold": None}).explain_many(links)
            assert [e.reason for e in ranked] == [None, None, "not_connected"]

    def test_predicted_negatives_anywhere_in_a_batch(self) -> None:
        # All three have paths; one of them is a negative.
        explain = explainer(marked(), threshold=None)
        links = [(0, 0), (1, 1), (2, 1)]
        alone = [explain.explain(*link) for link in links]
        logits = [e.logit or 0.0 for e in alone]
        threshold = sorted(logits)[1] - 1e-6
        judge = explainer(marked(), threshold=threshold)
        for order in itertools.permutations(range(3)):
            found = list(judge.explain_many([links[i] for i in order]))
            for i, explanation in zip(order, found, strict=True):
                assert alone[i].paths
                negative = logits[i] < threshold
                assert explanation.reason == ("predicted_negative" if negative else None)
                assert explanation.paths == (() if negative else alone[i].paths)

    def test_probabilities_out_of_range(self) -> None:
        with pytest.raises(ModelError, match="output='logit'"):
            explainer(model=Walks(scale=10.0), output="probability")

    def test_several_numbers_per_link(self) -> None:
        class Wide(Walks):
            def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
                return super().forward(x_dict, edge_index_dict, links)[:, None].expand(-1, 2)

        with pytest.raises(ModelError, match="one number per link"):
            explainer(model=Wide())

    def test_a_model_that_uses_no_edges(self) -> None:
        answer = explainer(model=Walks(layers=0), threshold=None).explain(0, 0)
        assert answer.reason is None
        assert answer.evidence is not None
        assert answer.evidence.verdict == "structure_not_used"
        assert not answer.paths

    @pytest.mark.parametrize("model", [None, "model", lambda *args: None])
    def test_no_model(self, model: Any) -> None:
        with pytest.raises(ModelError, match=r"must be a torch.nn.Module"):
            PaGELink(model, draw(SIZES, {BUYS: SQUARE}), LIKES)


def chain(length: int) -> HeteroData:
    """User 0 and item 0 joined by one path of some facts; beyond, another component."""
    last = length - 1
    knows: Pairs = [(i, i + 1) for i in range(last)]
    far = length
    knows += [(far, far + 1), (far + 1, far + 2), (far + 2, far + 3), (far + 3, far)]
    return draw({"user": far + 4, "item": 2}, {KNOWS: knows, BUYS: [(last, 0), (far, 1)]})


class NotLocal(Walks):
    """The number of all edges is part of every score."""

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        count: int = sum(edge_index.shape[1] for edge_index in edge_index_dict.values())
        return super().forward(x_dict, edge_index_dict, links) + 0.01 * count


class TestReasons:
    def test_beyond_max_length(self) -> None:
        data = chain(3)
        short = Settings(max_length=2, longer=False)
        explanation = explainer(data, settings=short).explain(0, 0)
        assert explanation.reason == "beyond_max_length"
        assert "at most 2 facts" in explanation.message
        assert explanation.paths == ()
        assert explainer(data, settings=Settings(max_length=3)).explain(0, 0).reason is None

    @pytest.mark.parametrize("max_length", [1, 2])
    def test_longer_paths_are_found_where_they_carry_the_score(self, max_length: int) -> None:
        settings = Settings(max_length=max_length)
        explanation = explainer(chain(3), settings=settings).explain(0, 0)
        assert explanation.reason is None
        assert [len(path) for path in explanation.paths] == [3]
        assert explanation.settings == settings
        assert explanation.evidence is not None
        assert explanation.evidence.max_length == 3
        assert explanation.evidence.verdict == "supported"

    @pytest.mark.parametrize("length", [4, 6, 9])
    def test_beyond_max_length_for_a_model_that_is_not_local(self, length: int) -> None:
        # It sees every edge, so nothing but the bound stands in the way.
        settings = Settings(longer=False)
        explain = explainer(chain(length), NotLocal(scale=0.01), settings=settings)
        assert explain.receptive_field.mode == "full"
        assert explain.explain(0, 0).reason == "beyond_max_length"
        # Three facts more than asked for are looked at, where the score needs them.
        explanation = explain.replace(Settings()).explain(0, 0)
        assert [len(path) for path in explanation.paths] == [length] * (length <= 6)
        assert explanation.reason == (None if length <= 6 else "beyond_max_length")

    def test_one_way_relations_of_a_model_that_is_not_local(self) -> None:
        # Item 1 writes to nobody, but the two facts at it are seen like all others.
        data = draw(SIZES, {BUYS: [(0, 1), (1, 1), (1, 0), (2, 2)]}, reverse=False)
        explain = explainer(data, NotLocal(scale=0.01))
        assert explain.receptive_field.mode == "full"
        explanation = explain.explain(0, 0)
        assert [inner(path) for path in explanation.paths] == [[("item", 1), ("user", 1)]]

    def test_excluded(self) -> None:
        # Every path runs through user 1, who has four facts.
        settings = Settings(max_degree=3)
        explanation = explainer(settings=settings).explain(0, 0)
        assert [inner(path) for path in explainer().explain(0, 0).paths] == [
            [("item", 1), ("user", 1)]
        ]
        assert explainer().explain(0, 0).paths[0].degrees[2] == 3
        assert explanation.reason is None
        explanation = explainer(settings=Settings(max_degree=2)).explain(0, 0)
        assert explanation.reason == "excluded"
        assert "more than 2 facts" in explanation.message
        assert explanation.paths == ()

    def test_pruned_away(self) -> None:
        # Every node of the path has two facts.
        data = draw(SIZES, {BUYS: [(0, 1), (1, 1), (1, 0), (2, 2)]})
        kept = explainer(data, settings=Settings(core=2, unpruned_fallback=False)).explain(0, 0)
        assert kept.reason is None
        assert not any("Pruning" in note for note in kept.notes)

        strict = Settings(core=3, unpruned_fallback=False)
        explanation = explainer(data, settings=strict).explain(0, 0)
        assert explanation.reason == "pruned_away"
        assert "core=3" in explanation.message
        assert explanation.paths == ()

        explanation = explainer(data, settings=Settings(core=3)).explain(0, 0)
        assert explanation.reason is None
        assert [inner(path) for path in explanation.paths] == [[("item", 1), ("user", 1)]]
        assert any("unpruned graph was used" in note for note in explanation.notes)

    def test_pruned_away_as_a_hub(self) -> None:
        settings = Settings(hub_degree=2, unpruned_fallback=False)
        assert explainer(settings=settings).explain(0, 0).reason == "pruned_away"
        fallback = explainer(settings=Settings(hub_degree=2)).explain(0, 0)
        assert fallback.reason is None
        assert any("unpruned graph was used" in note for note in fallback.notes)

    def test_pruning_is_undone_only_for_links_that_need_it(self) -> None:
        dense: Pairs = [(u, v) for u in range(3) for v in range(3)]
        thin: Pairs = [(3, 4), (4, 4), (4, 3)]
        data = draw({"user": 5, "item": 5}, {BUYS: dense + thin})
        explain = explainer(data, settings=Settings(core=3))
        found = list(explain.explain_many([(0, 0), (3, 3), (1, 2)]))
        assert [e.reason for e in found] == [None, None, None]
        notes = [any("unpruned" in note for note in e.notes) for e in found]
        assert notes == [False, True, False]


class TestTheLinkItself:
    @pytest.mark.parametrize(
        "stored", [[LIKES, REV_LIKES], [LIKES], [REV_LIKES]], ids=["both ways", "forth", "back"]
    )
    def test_is_never_part_of_its_explanation(self, stored: list[Any]) -> None:
        data = draw(SIZES, {BUYS: SQUARE})
        likes: Pairs = [(0, 2), (0, 0), (2, 0), (0, 0)]
        edge_index = torch.tensor(likes).t()
        if LIKES in stored:
            data[LIKES].edge_index = edge_index
        if REV_LIKES in stored:
            data[REV_LIKES].edge_index = edge_index.flip(0)
        settings = Settings(num_paths=100, core=0, rho=0)  # all paths, whatever they are worth
        explanation = explainer(data, settings=settings).explain(0, 0)
        assert explanation.link_in_graph
        assert explanation.logit is not None
        assert explanation.logit_deployed is not None
        assert explanation.logit < explanation.logit_deployed
        without = data.clone()
        for edge_type in stored:
            columns = torch.tensor([0, 2])
            without[edge_type].edge_index = data[edge_type].edge_index[:, columns]
        assert explanation.logit == explainer(without).explain(0, 0).logit

        assert explanation.paths
        assert min(len(path) for path in explanation.paths) > 1
        for path in explanation.paths:
            assert_is_path(path, explanation, data)
        walked = {(e.type, e.index) for path in explanation.paths for e in path.edges}
        for edge_type in stored:
            assert not {(edge_type, 1), (edge_type, 3)} & walked
            mask = explanation.edge_mask[edge_type]
            assert mask.shape == (4,)
            assert mask[1] == mask[3] == 0
            assert mask[0] > 0  # other links of the relation are facts like any other
        if REV_LIKES in stored:  # a message from the item that user 0 likes reaches user 0
            assert any(edge_type in stored for edge_type, _ in walked)

    def test_another_relation_between_the_ends_is_a_path(self) -> None:
        data = draw(SIZES, {BUYS: [*SQUARE, (0, 0)], LIKES: [(0, 0)]})
        explanation = explainer(data, settings=Settings(num_paths=20)).explain(0, 0)
        assert ["buys"] in [relations(path) for path in explanation.paths]
        assert ["likes"] not in [relations(path) for path in explanation.paths]

    def test_not_in_the_graph(self) -> None:
        explanation = explainer(draw(SIZES, {BUYS: SQUARE, LIKES: [(2, 2)]})).explain(0, 0)
        assert not explanation.link_in_graph
        assert explanation.logit == explanation.logit_deployed

    def test_predicted_only_because_it_is_in_the_graph(self) -> None:
        data = draw(SIZES, {BUYS: SQUARE, LIKES: [(0, 0)]})
        plain = explainer(data).explain(0, 0)
        assert plain.logit is not None
        assert plain.logit_deployed is not None
        between = (plain.logit + plain.logit_deployed) / 2
        explanation = explainer(data, threshold=between).explain(0, 0)
        assert explanation.reason == "predicted_negative"
        assert "With the link itself in the graph" in explanation.message

    def test_isolated_without_it(self) -> None:
        data = draw(SIZES, {BUYS: SQUARE, LIKES: [(3, 3)]})
        explanation = explainer(data).explain(3, 3)
        assert explanation.reason == "not_connected"
        assert explanation.link_in_graph


class TestBatches:
    LINKS: tuple[Any, ...] = (
        (0, 0), (9, 0), "Ada", (0, 3), (2, 1), (0,), None, (0, 0, "likse"), (1, 1), (0, 0, 0, 0),
        [2, 2], ("x", 0), 7, (0, 2),
    )  # fmt: skip
    REASONS = (
        None, "invalid", "invalid", "not_connected", None, "invalid", "invalid", "invalid", None,
        "invalid", None, "invalid", "invalid", None,
    )  # fmt: skip

    @pytest.mark.parametrize("batch_size", [1, 3, 32])
    def test_a_bad_row_costs_only_itself(self, batch_size: int) -> None:
        explain = explainer()
        found = list(explain.explain_many(self.LINKS, batch_size=batch_size))
        assert tuple(e.reason for e in found) == self.REASONS
        for link, explanation in zip(self.LINKS, found, strict=True):
            assert isinstance(explanation, Explanation)
            assert bool(explanation.message) == (explanation.reason is not None)
            assert str(explanation)
            assert Explanation.from_dict(explanation.to_dict()) == explanation
            if explanation.reason != "invalid":
                alone = explain.explain(*link)
                assert (explanation.src, explanation.dst) == (alone.src, alone.dst)
                assert [p.nodes for p in explanation.paths] == [p.nodes for p in alone.paths]
                assert explanation.logit == pytest.approx(alone.logit)

    def test_only_bad_rows(self) -> None:
        found = list(explainer().explain_many([(9, 9), (8, 8)]))
        assert [e.reason for e in found] == ["invalid", "invalid"]
        assert [e.src_name for e in found] == ["9", "8"]

    def test_no_rows(self) -> None:
        assert list(explainer().explain_many([])) == []

    def test_any_iterable_is_read_only_as_far_as_needed(self) -> None:
        read = []

        def endless() -> Any:
            while True:
                read.append(1)
                yield (0, 0)

        stream = explainer().explain_many(endless(), batch_size=4)
        for _ in range(4):
            assert next(stream).reason is None
        assert len(read) == 4

    @pytest.mark.parametrize("batch_size", [0, -1])
    def test_batch_size(self, batch_size: int) -> None:
        with pytest.raises(SettingsError, match="batch_size must be a whole number from 1 up"):
            explainer().explain_many([(0, 0)], batch_size=batch_size)


class TestSettings:
    @pytest.mark.parametrize(
        "values",
        [
            {"max_length": 0}, {"max_length": -3}, {"num_paths": 0}, {"budget": 0},
            {"budget": 2, "max_length": 3}, {"max_degree": 0}, {"num_hops": 0}, {"core": -1},
            {"hub_degree": 0}, {"epochs": -1}, {"learning_rate": 0}, {"learning_rate": -0.1},
            {"learning_rate": math.nan}, {"alpha": -1}, {"beta": -0.5}, {"pred_weight": -1},
            {"paths_per_epoch": 0}, {"patience": 0}, {"entropy": -1}, {"size": -1},
            {"alpha": math.nan}, {"path_loss": "max"}, {"path_schedule": "none"}, {"start": "zero"},
        ],
        ids=str,
    )  # fmt: skip
    def test_out_of_range(self, values: dict[str, Any]) -> None:
        with pytest.raises(SettingsError, match=f"{next(iter(values))} must"):
            Settings(**values)
        with pytest.raises(SettingsError):
            Settings().replace(**values)

    @pytest.mark.parametrize(
        "values",
        [
            {"max_length": None}, {"num_paths": None}, {"core": None}, {"epochs": None},
            {"max_length": 2.5}, {"num_paths": 1.5}, {"core": 1.5}, {"max_length": "3"},
            {"alpha": "1"}, {"learning_rate": None}, {"learning_rate": math.inf},
            {"alpha": math.inf},
        ],
        ids=str,
    )  # fmt: skip
    def test_of_the_wrong_kind(self, values: dict[str, Any]) -> None:
        with pytest.raises(SettingsError, match=next(iter(values))):
            Settings(**values)

    def test_unknown(self) -> None:
        with pytest.raises(
            SettingsError, match=r"no setting 'max_lenght'.* Did you mean 'max_length'"
        ):
            Settings().replace(max_lenght=3)
        with pytest.raises(SettingsError, match="no setting 'pathz'"):
            Settings.from_dict({"pathz": 3})
        with pytest.raises(SettingsError, match=r"'useritematr'.* Did you mean 'useritemattr'"):
            Settings.paper("useritematr")

    def test_fewer_hops_than_the_model_sees(self) -> None:
        explain = explainer()
        assert explain.receptive_field.num_hops == 2
        with pytest.raises(SettingsError, match="num_hops is 1, but the model sees 2 hops"):
            explainer(settings=Settings(num_hops=1))
        wider = explainer(settings=Settings(num_hops=4))
        assert wider.explain(0, 0).paths == explain.explain(0, 0).paths

    def test_output(self) -> None:
        with pytest.raises(SettingsError, match="output must be 'logit' or 'probability'"):
            explainer(output="score")

    @pytest.mark.parametrize(("num_paths", "budget", "count"), [(9, 3, 1), (9, 7, 2), (2, 90, 2)])
    def test_budget(self, num_paths: int, budget: int, count: int) -> None:
        # Three parallel relations: many paths of one fact.
        data = draw(
            SIZES, {BUYS: [*SQUARE, (0, 0)], VIEWS: [(0, 0)], ("user", "gets", "item"): [(0, 0)]}
        )
        settings = Settings(num_paths=num_paths, budget=budget)
        assert len(explainer(data, settings=settings).explain(0, 0).paths) == count


def test_every_error_has_one_base() -> None:
    for error in (GraphError, LinkError, ModelError, SettingsError):
        assert issubclass(error, PageLinkError)
