"""PaGELink from end to end: what comes out, and what must not change it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from support.shop import Shop, generated_shop
from support.zoo import ZOO, make_case, make_graph, shared_case

from pagelink import Explanation, PaGELink, Settings
from pagelink.errors import SettingsError

pytestmark = pytest.mark.filterwarnings("ignore:The type .* contains invalid characters")


@pytest.fixture(scope="module")
def shop() -> Shop:
    return generated_shop()


def equal(first: Explanation, second: Explanation) -> None:
    """In the sense of the definitions: masks and logits to 1e-5, paths unless scores are closer."""
    assert (first.src, first.dst, first.reason) == (second.src, second.dst, second.reason)
    assert first.logit == pytest.approx(second.logit, abs=1e-5)
    for edge_type in first.edge_mask:
        assert first.edge_mask[edge_type] == pytest.approx(second.edge_mask[edge_type], abs=1e-5)
    assert len(first.paths) == len(second.paths)
    for mine, other in zip(first.paths, second.paths, strict=True):
        assert mine.score == pytest.approx(other.score, abs=1e-4)
        scores = [path.score for path in first.paths]
        if min((abs(mine.score - s) for s in scores if s != mine.score), default=1.0) > 1e-4:
            assert mine == other


@pytest.mark.parametrize("settings", [Settings(), Settings.paper("useritemattr")])
def test_results_do_not_depend_on_the_batch(shop: Shop, settings: Settings) -> None:
    explainer = PaGELink(shop.model, shop.data, shop.link_type, settings, threshold=None)
    links = list(shop.links[:24])
    whole = list(explainer.explain_many(links, batch_size=24))
    small = list(explainer.explain_many(links, batch_size=5))
    backwards = list(explainer.explain_many(links[::-1], batch_size=7))[::-1]
    for i, link in enumerate(links):
        equal(whole[i], small[i])
        equal(whole[i], backwards[i])
        if i % 8 == 0:
            equal(whole[i], explainer.explain(*link))


def test_results_do_not_depend_on_the_number_of_threads(shop: Shop) -> None:
    explainer = PaGELink(shop.model, shop.data, shop.link_type, threshold=None)
    links = shop.links[:6]
    one = list(explainer.explain_many(links))
    try:
        torch.set_num_threads(2)
        two = list(explainer.explain_many(links))
    finally:
        torch.set_num_threads(1)
    for first, second in zip(one, two, strict=True):
        equal(first, second)


def test_same_seed_same_result_and_another_seed_another(shop: Shop) -> None:
    settings = Settings.paper("useritemattr")

    def run(seed: int) -> list[Explanation]:
        explainer = PaGELink(
            shop.model, shop.data, shop.link_type, settings, seed=seed, threshold=None
        )
        return list(explainer.explain_many(shop.links[:4]))

    first, again, other = run(0), run(0), run(1)
    assert first == again
    buys = ("user", "buys", "item")
    assert np.array_equal(first[0].edge_mask[buys], again[0].edge_mask[buys])
    assert not np.array_equal(first[0].edge_mask[buys], other[0].edge_mask[buys])


@pytest.mark.parametrize("name", ZOO)
def test_logits_are_those_of_the_full_graph(name: str) -> None:
    _, explainer = shared_case(name)
    shift = 80 if len(explainer.graph.node_types) == 1 else 0
    pairs = [(5, 3 + shift), (7, shift), (2, 1 + shift)]
    graph, link_type = explainer.graph, explainer.link_types[0]
    relation = np.full(3, graph.edge_types.index(link_type))
    src, dst = (
        np.array([graph.flat_index(link_type[end], pair[end // 2]) for pair in pairs])
        for end in (0, 2)
    )
    whole = explainer.predictor.logits(explainer.predictor.full_graph(src, dst, relation))
    deployed = [e.logit_deployed for e in explainer.explain_many(pairs)]
    assert deployed == pytest.approx(whole.tolist(), rel=1e-3, abs=1e-4)


def test_edges_of_paths_are_those_of_the_data() -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None)
    pairs = [(u, i) for u in range(25) for i in range(25)]
    seen = 0
    for explanation in explainer.explain_many(pairs):
        for path in explanation.paths:
            seen += 1
            assert path.nodes[0] == explanation.src
            assert path.nodes[-1] == explanation.dst
            assert len(set(path.nodes)) == len(path.nodes) == len(path) + 1
            for edge, tail, head in zip(path.edges, path.nodes, path.nodes[1:], strict=False):
                column = case.data[edge.type].edge_index[:, edge.index].tolist()
                ends = (head, tail) if edge.reversed else (tail, head)
                assert column == [ends[0][1], ends[1][1]]
                assert (edge.type[0], edge.type[2]) == (ends[0][0], ends[1][0])
                assert explanation.edge_mask[edge.type][edge.index] == pytest.approx(edge.mask)
            masks = np.log([edge.mask for edge in path.edges])
            assert path.score == pytest.approx(
                masks.sum() - np.log(path.degrees[1:-1]).sum(), abs=1e-5
            )
    assert seen > 20


def test_every_kept_edge_has_its_own_value(shop: Shop) -> None:
    settings = Settings.paper("useritemattr")
    explainer = PaGELink(shop.model, shop.data, shop.link_type, settings, threshold=None)
    explanation = explainer.explain(*shop.links[0])
    values = np.concatenate([explanation.edge_mask[t] for t in explanation.edge_mask])
    stored = sum(len(explanation.edge_mask.stored(t)[0]) for t in explanation.edge_mask)
    assert (values > 0).sum() == stored > 1000
    assert len(np.unique(values[values > 0])) > 0.99 * stored
    assert len(values) == shop.data.num_edges


def test_budget_bounds_the_number_of_paths(shop: Shop) -> None:
    for budget, count in ((9, 3), (11, 3), (3, 1), (100, 7)):
        settings = Settings(num_paths=7, budget=budget, measure=False)
        explainer = PaGELink(shop.model, shop.data, shop.link_type, settings, threshold=None)
        paths = explainer.explain(*shop.links[0]).paths
        assert len(paths) == count
        assert len(paths) * settings.max_length <= budget


def test_too_small_a_radius_is_refused() -> None:
    case = make_case("HeteroConv SAGE")
    with pytest.raises(SettingsError, match="num_hops is 1, but the model sees 2"):
        PaGELink(case.model, case.data, case.link_type, Settings(num_hops=1))
    wider = PaGELink(case.model, case.data, case.link_type, Settings(num_hops=3), threshold=None)
    usual = PaGELink(case.model, case.data, case.link_type, threshold=None)
    assert wider.explain(5, 3).paths == usual.explain(5, 3).paths
    ends = np.array([5]), np.array([wider.graph.flat_index("item", 3)]), np.array([-1])
    assert len(wider.extractor.extract(*ends).edges) > len(usual.extractor.extract(*ends).edges)


def test_names_and_indices_give_the_same() -> None:
    case = make_case("HeteroConv SAGE")
    case.data["user"].name = [f"User {i}" for i in range(case.data["user"].num_nodes)]
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None)
    by_name, by_index = explainer.explain("User 5", "id:3"), explainer.explain(5, 3)
    assert by_name == by_index
    assert by_name.src_name == "User 5"
    assert "User 5" in str(by_name)


def test_links_of_several_relations() -> None:
    case = make_case("DistMult per link")
    explainer = PaGELink(
        case.model, case.data, [("node", "0", "node"), ("node", "1", "node")], threshold=None,
        **case.options,
    )  # fmt: skip
    first, second, *same = explainer.explain_many(
        [(5, 83), (5, 83, "1"), (5, 83, 1), (5, 83, "relation 1"), (5, 83, ("node", "1", "node"))]
    )
    assert first.link_type[1] == "relation 0"
    assert second.link_type[1] == "relation 1"
    assert first.logit != second.logit
    for each in same:  # the same up to rounding, which depends on the place in a batch
        assert each.link_type == second.link_type
        assert each.logit == pytest.approx(second.logit, abs=1e-5)
        assert each.paths == second.paths
        assert [path.influence for path in each.paths] == pytest.approx(
            [path.influence for path in second.paths], abs=1e-5
        )


def test_round_trip_through_json() -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None)
    for explanation in explainer.explain_many([(5, 3), (0, 0), (10_000, 0)]):
        values = explanation.to_dict(mask=True)
        back = Explanation.from_dict(json.loads(json.dumps(values)))
        assert back == explanation
        assert back.paths == explanation.paths
        assert str(back) == str(explanation)
        assert back.to_html() == explanation.to_html()
        for edge_type in explanation.edge_mask:
            assert back.edge_mask[edge_type] == pytest.approx(
                explanation.edge_mask[edge_type], abs=1e-6
            )
        # Without the mask, which may be megabytes, all else is the same.
        del values["edge_mask"]
        assert explanation.to_dict() == values
        small = Explanation.from_dict(json.loads(json.dumps(values)))
        assert (small, str(small), small.to_html()) == (back, str(back), back.to_html())
        assert len(small.edge_mask) == 0


def test_what_was_found_about_the_model_is_told() -> None:
    local, wide = make_case("HeteroConv SAGE"), make_case("HAN")
    explanation = PaGELink(local.model, local.data, local.link_type, threshold=None).explain(5, 3)
    assert explanation.num_hops == 2
    assert not any("local" in note for note in explanation.notes)
    explanation = PaGELink(wide.model, wide.data, wide.link_type, threshold=None).explain(5, 3)
    assert explanation.num_hops is None
    assert any("not local" in note for note in explanation.notes)
    assert "not local" in str(explanation)


def test_reverse_relations_are_listed() -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(case.model, case.data, case.link_type)
    assert explainer.reverse["user", "buys", "item"] == ("item", "rev_buys", "user")
    alone = PaGELink(case.model, case.data, case.link_type, reverse={})
    assert alone.reverse == {}


def test_a_progress_bar_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None)
    assert len(list(explainer.explain_many([(5, 3)], progress=True))) == 1
    assert "explaining" in capsys.readouterr().out


def test_data_on_another_graph_class_is_refused() -> None:
    case = make_case("HeteroConv SAGE")
    with pytest.raises(Exception, match="must be a torch_geometric HeteroData or Data"):
        PaGELink(case.model, make_graph().to_dict(), case.link_type)


def test_a_link_on_which_the_model_fails_costs_only_itself() -> None:
    case = make_case("embedding by n_id")

    def forward(model: Any, data: Any, links: torch.Tensor) -> torch.Tensor:
        users = data["user"].n_id[links[0]]
        if is_made and bool((users == 7).any()):
            raise ValueError("no luck with user 7")
        x_dict = {t: data[t].n_id for t in data.node_types}
        return model(x_dict, data.edge_index_dict, links)

    is_made = False
    explainer = PaGELink(case.model, case.data, case.link_type, forward=forward, threshold=None)
    is_made = True
    plain = PaGELink(case.model, case.data, case.link_type, threshold=None)
    pairs = [(5, 3), (7, 0), (2, 0)]
    first, failed, last = explainer.explain_many(pairs)
    assert failed.reason == "invalid"
    assert "no luck with user 7" in failed.message
    assert failed.src == ("user", 7)
    equal(first, plain.explain(5, 3))
    equal(last, plain.explain(2, 0))
    with pytest.raises(ValueError, match="no luck"):
        explainer.explain(7, 0)
