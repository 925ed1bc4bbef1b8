from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError
from pagelink.graph.schema import EdgeType
from pagelink.models import (
    LinkSplit,
    Negatives,
    message_graph,
    sample_negatives,
    split_graph,
    split_links,
)
from pagelink.models.links import check_split
from pagelink.models.messages import Messages, reverse_of

LIKES: EdgeType = ("user", "likes", "item")
REV_LIKES: EdgeType = ("item", "rev_likes", "user")
BUYS: EdgeType = ("user", "buys", "item")
KNOWS: EdgeType = ("user", "knows", "user")


def pairs_of(edge_index: Tensor) -> list[tuple[int, int]]:
    return [(src, dst) for src, dst in edge_index.T.tolist()]


# Splits


def test_split_is_seven_to_one_to_two() -> None:
    pairs = torch.stack([torch.arange(714), torch.arange(714) * 3])
    split = split_links(pairs, seed=3)
    assert [part.shape[1] for part in (split.train, split.valid, split.test)] == [499, 71, 144]
    assert {tuple(p) for p in split.all.T.tolist()} == {tuple(p) for p in pairs.T.tolist()}
    assert torch.equal(split_links(pairs, seed=3).all, split.all)
    assert not torch.equal(split_links(pairs, seed=4).all, split.all)


def test_split_refuses_too_few_and_repeated_links() -> None:
    with pytest.raises(GraphError, match="at least 10"):
        split_links(torch.zeros(2, 9, dtype=torch.long))
    pairs = torch.stack([torch.arange(12), torch.arange(12)])
    pairs[:, 5] = pairs[:, 4]
    with pytest.raises(GraphError, match="1 of 12 are repeated"):
        split_links(pairs)


def test_both_directions_of_an_undirected_link_stay_together() -> None:
    one_way = torch.tensor([(a, b) for a in range(9) for b in range(a + 1, 9)]).T
    pairs = torch.cat([one_way, one_way[:, :20].flip(0)], dim=1)
    split = split_links(pairs, undirected=True)
    assert sorted(pairs_of(split.all)) == sorted(pairs_of(pairs))
    check_split(graph(), KNOWS, split)
    with pytest.raises(GraphError, match="both training and"):
        check_split(graph(), KNOWS, split_links(pairs))


def test_a_relation_of_a_graph_is_split_without_its_copies() -> None:
    data = graph()
    data[LIKES].edge_index = torch.cat([data[LIKES].edge_index, data[LIKES].edge_index], dim=1)
    split = split_graph(data, LIKES)
    assert sorted(pairs_of(split.all)) == sorted(pairs_of(graph()[LIKES].edge_index))
    data[KNOWS].edge_index = torch.cat([data[KNOWS].edge_index, data[KNOWS].edge_index.flip(0)], 1)
    check_split(data, KNOWS, split_graph(data, KNOWS))
    with pytest.raises(GraphError, match=r"no relation .*hates"):
        split_graph(data, ("user", "hates", "item"))


def test_a_split_must_fit_the_graph() -> None:
    good = split_graph(graph(), LIKES)
    with pytest.raises(GraphError, match="1 links are both validation and test"):
        check_split(graph(), LIKES, LinkSplit(good.train, good.valid, good.valid[:, :1]))
    with pytest.raises(GraphError, match="valid part of the split has no links"):
        check_split(graph(), LIKES, LinkSplit(good.train, good.valid[:, :0], good.test))
    with pytest.raises(GraphError, match=r"item indices in 0\.\.5, got 6\.\.6"):
        check_split(graph(), LIKES, LinkSplit(good.train, good.valid, torch.tensor([[0], [6]])))


# Negatives


def test_negatives_are_all_pairs_but_the_known_ones() -> None:
    rng = np.random.default_rng(1)
    known = torch.tensor([[0, 0, 2, 2, 2, 4, 4], [0, 1, 0, 1, 2, 2, 2]])
    drawn = sample_negatives(5, 3, known, 9, rng)
    assert {tuple(p) for p in drawn.T.tolist()} == {
        (0, 2), (1, 0), (1, 1), (1, 2), (3, 0), (3, 1), (3, 2), (4, 0), (4, 1)
    }  # fmt: skip
    with pytest.raises(GraphError, match=r"5 x 3 pairs only 9 are not known"):
        sample_negatives(5, 3, known, 10, rng)


def test_negatives_are_drawn_uniformly() -> None:
    rng = np.random.default_rng(0)
    known = torch.tensor([[0, 1, 1], [0, 0, 2]])
    draws = torch.cat([sample_negatives(3, 3, known, 2, rng) for _ in range(3000)], dim=1)
    counts = np.bincount((draws[0] * 3 + draws[1]).numpy(), minlength=9)
    assert (counts[[0, 3, 5]] == 0).all()
    # Each of the six free pairs is expected 1,000 times, with a deviation of about 26.
    assert (np.abs(counts[[1, 2, 4, 6, 7, 8]] - 1000) < 130).all()


def test_matched_negatives_keep_the_source_and_the_popularity_of_the_target() -> None:
    known = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 1]])
    negatives = Negatives(6, 3, known)
    links = torch.tensor([[4] * 4000, [0] * 4000])
    drawn = negatives.matched(links, known[1], np.random.default_rng(0))
    assert torch.equal(drawn[0], links[0])
    # Target 0 has three of four links.
    assert abs(float((drawn[1] == 0).float().mean()) - 0.75) < 0.03
    assert set(drawn[1].tolist()) == {0, 1}
    # Sources 0 and 3 have a known link to one of the two targets, so they get the other.
    again = negatives.matched(torch.tensor([[0, 3], [0, 1]]), known[1], np.random.default_rng(0))
    assert pairs_of(again) == [(0, 1), (3, 0)]
    # Source 0 linked to all targets there are gets none.
    full = Negatives(6, 3, torch.tensor([[0, 0], [0, 1]]))
    assert full.matched(known[:, :2], known[1], np.random.default_rng(0))[0].tolist() == [1]


def test_pooled_negatives_are_of_few_nodes_and_never_known() -> None:
    rng = np.random.default_rng(0)
    links = torch.from_numpy(rng.integers(0, 500, size=(2, 4000)))
    negatives = Negatives(500, 500, links)
    pairs = negatives.pooled(1200, rng)
    assert pairs.shape == (2, 1200)
    assert not negatives.are_known(*pairs.numpy()).any()
    assert all(len(torch.unique(end)) <= 300 for end in pairs)
    sources = torch.cat([negatives.pooled(1200, rng)[0] for _ in range(100)])
    # 120,000 draws of 500 sources are 240 each; in pools of 300, with a deviation of about 34.
    counts = torch.bincount(sources, minlength=500)
    assert int(counts.min()) > 80
    assert int(counts.max()) < 400


def test_where_nearly_all_pairs_are_known_pooled_negatives_are_the_others() -> None:
    known = torch.cartesian_prod(torch.arange(9), torch.arange(10)).T
    pairs = Negatives(10, 10, known).pooled(6, np.random.default_rng(0))
    assert pairs[0].tolist() == [9] * 6


def test_negatives_within_one_type_are_no_loops_and_no_turned_links() -> None:
    links = torch.tensor([[0, 1], [1, 2]])
    drawn = Negatives.for_links(3, 3, KNOWS, links).uniform(2, np.random.default_rng(0))
    assert sorted(pairs_of(drawn)) == [(0, 2), (2, 0)]
    across = Negatives.for_links(3, 3, LIKES, links).uniform(7, np.random.default_rng(0))
    assert (1, 0) in pairs_of(across)
    assert (0, 0) in pairs_of(across)


# Messages


def graph() -> HeteroData:
    """Users who like and buy and know; every edge of `likes` has a weight and a line in a table."""
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 9, 6
    likes = torch.tensor([(u, i) for u in range(6) for i in range(6) if (u + i) % 2]).T
    data[LIKES].edge_index = likes
    data[LIKES].edge_weight = likes[0] * 10.0 + likes[1]
    data[LIKES].attributes = pa.table({"src": likes[0].numpy(), "dst": likes[1].numpy()})
    data[LIKES].note = [f"{u}-{i}" for u, i in pairs_of(likes)]
    data[REV_LIKES].edge_index = likes.flip(0)[:, torch.arange(likes.shape[1] - 1, -1, -1)]
    data[BUYS].edge_index = torch.tensor([[0, 1], [2, 3]])
    knows = torch.tensor([(a, b) for a in range(9) for b in range(a + 1, 9)]).T
    data[KNOWS].edge_index = knows
    return data


def test_training_links_alone_pass_messages_with_their_attributes() -> None:
    data = graph()
    split = split_graph(data, LIKES)
    seen = message_graph(data, LIKES, split.train)
    train = set(pairs_of(split.train))
    kept = [pair for pair in pairs_of(data[LIKES].edge_index) if pair in train]
    assert pairs_of(seen[LIKES].edge_index) == kept
    assert seen[LIKES].edge_weight.tolist() == [10.0 * u + i for u, i in kept]
    assert seen[LIKES].attributes.to_pydict() == {
        "src": [u for u, _ in kept], "dst": [i for _, i in kept],
    }  # fmt: skip
    assert seen[LIKES].note == [f"{u}-{i}" for u, i in kept]
    assert set(pairs_of(seen[REV_LIKES].edge_index.flip(0))) == train
    assert seen[BUYS].edge_index is data[BUYS].edge_index
    assert data[LIKES].num_edges == 18  # the graph given stays as it was
    assert message_graph(data, LIKES, split.train, paper_split=True).edge_types == [BUYS, KNOWS]


def test_the_predicted_relation_may_be_missing() -> None:
    data = graph()
    split = split_graph(data, LIKES)
    del data[LIKES], data[REV_LIKES]
    seen = message_graph(data, LIKES, split.train)
    assert torch.equal(seen[LIKES].edge_index, split.train)
    assert torch.equal(seen[REV_LIKES].edge_index, split.train.flip(0))
    assert data.edge_types == [BUYS, KNOWS]
    with pytest.raises(GraphError, match=r"1 of 3 training links are not edges of .*'buys'"):
        message_graph(data, BUYS, torch.tensor([[0, 1, 1], [2, 3, 4]]))


def test_held_out_links_are_out_both_ways_with_all_copies() -> None:
    data = graph()
    likes = data[LIKES].edge_index
    del data[LIKES].attributes
    data[LIKES].edge_index = torch.cat([likes, likes[:, :2]], dim=1)
    messages = Messages(data, LIKES, reverse_of(data, LIKES))
    left = messages.without(likes[:, :5])
    assert sorted(pairs_of(left[LIKES])) == sorted(pairs_of(likes[:, 5:]))
    assert sorted(pairs_of(left[REV_LIKES].flip(0))) == sorted(pairs_of(likes[:, 5:]))
    assert left[BUYS] is data[BUYS].edge_index


def test_within_one_type_a_turned_link_is_held_out_too() -> None:
    data = graph()
    messages = Messages(data, KNOWS, reverse_of(data, KNOWS))
    left = messages.without(torch.tensor([[5], [2]]))
    assert (2, 5) not in pairs_of(left[KNOWS])
    assert left[KNOWS].shape[1] == data[KNOWS].num_edges - 1
