"""Scores and ranks on edited graphs are those of the model on the edited full graph."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from support.films import without
from support.zoo import ZOO, make_case, shared_case
from torch_geometric.data import HeteroData

from pagelink import PaGELink
from pagelink.errors import SettingsError
from pagelink.explain.options import facts_of
from pagelink.explain.ranking import EndScores, Facts, open_ends, rank_among, sample_ends
from pagelink.graph.links import End, Link
from pagelink.graph.typed_graph import TypedGraph
from pagelink.views.text import ordinal

pytestmark = pytest.mark.filterwarnings("ignore:The type .* contains invalid characters")


@pytest.mark.parametrize("name", list(ZOO))
@pytest.mark.parametrize("route", ["few", "whole"])
@pytest.mark.parametrize("end", ["dst", "src"])
def test_scores_are_those_of_the_edited_full_graph(
    name: str, route: str, end: End, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, explainer = shared_case(name)
    graph, predictor = explainer.graph, explainer.predictor
    shift = 80 if len(graph.node_types) == 1 else 0
    link_type = explainer.link_types[0]
    src, dst = graph.flat_index(link_type[0], 5), graph.flat_index(link_type[2], 3 + shift)
    link = Link(link_type, src, dst, graph.link_fact(src, dst, link_type))
    facts = np.unique(graph.fact[(graph.src == src) | (graph.dst == dst)])
    facts = facts.astype(np.int64)
    sets: list[Facts] = [(), facts[:1], facts]
    first = graph.flat_index(link_type[0], 0)
    nodes = np.arange(7) + (first if end == "src" else graph.flat_index(link_type[2], shift))
    ends = np.stack([np.full(7, src), np.full(7, dst)])
    ends[("src", "dst").index(end)] = nodes
    scores = EndScores(explainer.setup, link, end=end)
    monkeypatch.setattr(scores, "_whole_graph_is_less", lambda *_: route == "whole")
    found = scores.logits(nodes, sets)

    relation = np.full(len(nodes), graph.edge_types.index(link_type))
    for row, removed in zip(found, sets, strict=True):
        gone = np.append(np.asarray(removed, dtype=np.int64), link.fact)
        wanted = np.isin(graph.fact, gone)
        whole = predictor.full_graph(ends[0], ends[1], relation, wanted)
        assert row == pytest.approx(predictor.logits(whole).double().numpy(), rel=1e-3, abs=1e-4)


def test_edges_are_really_gone() -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None)
    graph = explainer.graph
    link = explainer.reader.read((5, 3))
    facts = np.unique(graph.fact[graph.src == link.src])
    targets = open_ends(graph, link)
    found = EndScores(explainer.setup, link).logits(targets, [facts])
    edited = without(explainer, case.data, facts)
    ends = torch.stack([torch.full((len(targets),), 5), torch.arange(60)[: len(targets)]])
    ends[1] = torch.from_numpy(targets - graph.flat_index("item", 0))
    with torch.no_grad():
        expected = case.model(edited.x_dict, edited.edge_index_dict, ends)
    assert found[0] == pytest.approx(expected.double().numpy(), abs=1e-4)


def test_open_ends_leave_out_what_the_source_is_linked_to() -> None:
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 2, 6
    likes = ("user", "likes", "item")
    data[likes].edge_index = torch.tensor([[0, 0, 1], [0, 2, 5]])
    data["user", "views", "item"].edge_index = torch.tensor([[0], [4]])
    graph = TypedGraph.from_data(data, [likes])

    def of(dst: int) -> list[int]:
        src, end = graph.flat_index("user", 0), graph.flat_index("item", dst)
        link = Link(likes, src, end, graph.link_fact(src, end, likes))
        return [graph.node(int(v))[1] for v in open_ends(graph, link)]

    assert of(1) == [1, 3, 4, 5]
    assert of(2) == [1, 2, 3, 4, 5]  # the link's own target is ranked, although it is linked


def test_open_sources_leave_out_what_the_target_is_linked_to() -> None:
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 5, 2
    likes = ("user", "likes", "item")
    data[likes].edge_index = torch.tensor([[0, 2, 3], [1, 1, 0]])
    graph = TypedGraph.from_data(data, [likes])

    def of(src: int) -> list[int]:
        ends = graph.flat_index("user", src), graph.flat_index("item", 1)
        link = Link(likes, *ends, graph.link_fact(*ends, likes))
        return [graph.node(int(v))[1] for v in open_ends(graph, link, end="src")]

    assert of(1) == [1, 3, 4]
    assert of(2) == [1, 2, 3, 4]


def test_a_source_is_ranked_among_sources() -> None:
    case = make_case("HeteroConv SAGE")
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None)
    asked = {"rank": True, "rank_sample": 1000, "rank_end": "src"}
    links = [(5, 3), (7, 0), (2, 1), (11, 20)]
    ranked = list(explainer.explain_many(links, **asked))
    assert explainer.explain(*links[1], **asked).rank == ranked[1].rank
    for pair, explanation in zip(links, ranked, strict=True):
        link = explainer.reader.read(pair)
        sources = open_ends(explainer.graph, link, end="src")
        ends = torch.stack([torch.from_numpy(sources), torch.full((len(sources),), pair[1])])
        ends[0] -= explainer.graph.flat_index("user", 0)
        edited = without(explainer, case.data, np.array([link.fact] * (link.fact >= 0), dtype=int))
        with torch.no_grad():
            logits = case.model(edited.x_dict, edited.edge_index_dict, ends).numpy()
        assert explanation.rank == rank_among(logits, int(np.searchsorted(sources, link.src)))
        assert (explanation.rank_of, explanation.rank_end) == (len(sources), "src")
        place = f"{ordinal(explanation.rank or 0)} of {len(sources)} users"
        assert f"user {pair[0]} ranks {place} for item {pair[1]}" in str(explanation)
    with pytest.raises(SettingsError, match="rank_end must be 'src' or 'dst', got 'both'"):
        explainer.explain(5, 3, rank=True, rank_end="both")  # type: ignore[arg-type]


def test_the_sample_is_seeded_and_holds_the_target() -> None:
    explainer = PaGELink(
        (case := make_case("HeteroConv SAGE")).model, case.data, case.link_type, threshold=None
    )
    link = explainer.reader.read((5, 3))
    drawn = [sample_ends(explainer.graph, link, 10, seed) for seed in (0, 0, 1)]
    assert all(is_sample for _, is_sample in drawn)
    samples = [nodes for nodes, _ in drawn]
    assert [len(sample) for sample in samples] == [10, 10, 10]
    assert np.array_equal(samples[0], samples[1])
    assert not np.array_equal(samples[0], samples[2])
    for sample in samples:
        assert link.dst in sample
        assert np.isin(sample, open_ends(explainer.graph, link)).all()
        assert (np.diff(sample) > 0).all()


def test_ranks_of_explanations() -> None:
    case = make_case("HeteroConv SAGE")
    before = copy.deepcopy(case.data.to_dict())
    explainer = PaGELink(case.model, case.data, case.link_type, threshold=None)
    links = [(5, 3), (7, 0), (2, 1), (11, 20)]
    plain = list(explainer.explain_many(links))
    assert {(e.rank, e.rank_of, e.rank_without_these) for e in plain} == {(None, None, None)}
    ranked = list(explainer.explain_many(links, rank=True, rank_sample=1000))
    one = explainer.explain(*links[1], rank=True, rank_sample=1000)
    assert (one.rank, one.rank_without_these) == (ranked[1].rank, ranked[1].rank_without_these)
    seen = 0
    for pair, explanation in zip(links, ranked, strict=True):
        link = explainer.reader.read(pair)
        targets = open_ends(explainer.graph, link)
        own = int(np.searchsorted(targets, link.dst))
        ends = torch.stack([torch.full((len(targets),), pair[0]), torch.arange(len(targets))])
        ends[1] = torch.from_numpy(targets - explainer.graph.flat_index("item", 0))
        own_fact = [link.fact] if link.fact >= 0 else []
        for removed, rank in (
            (own_fact, explanation.rank),
            ([*own_fact, *facts_of(explainer.graph, explanation.paths)],
             explanation.rank_without_these),
        ):  # fmt: skip
            if rank is None:
                assert not explanation.paths
                continue
            edited = without(explainer, case.data, np.array(removed, dtype=np.int64))
            with torch.no_grad():
                logits = case.model(edited.x_dict, edited.edge_index_dict, ends).numpy()
            assert rank == rank_among(logits, own)
            seen += 1
        assert explanation.rank_of == len(targets)
        assert type(explanation).from_dict(explanation.to_dict()).rank == explanation.rank
    assert seen >= 6
    for store, same in zip(before.values(), case.data.to_dict().values(), strict=True):
        assert str(store) == str(same)
