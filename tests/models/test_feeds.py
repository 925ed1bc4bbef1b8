from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models import MODELS, make_model, node_inputs
from pagelink.models.feeds import Inputs
from pagelink.models.messages import Messages, reverse_of
from pagelink.models.sampling import NeighbourSampler

LIKES: EdgeType = ("user", "likes", "item")
REV_LIKES: EdgeType = ("item", "rev_likes", "user")
SIZES = {"user": 40, "item": 30, "tag": 12}
NONE = torch.empty(2, 0, dtype=torch.long)
Node = tuple[str, int]
Edge = tuple[EdgeType, int, int]


def graph(seed: int = 0) -> HeteroData:
    """A sparse random graph: parallel relations, a self-relation with loops, features of tags."""
    rng = np.random.default_rng(seed)
    data = HeteroData()
    for node_type, size in SIZES.items():
        data[node_type].num_nodes = size
    data["tag"].x = torch.from_numpy(rng.normal(size=(SIZES["tag"], 3))).float()

    def random_edges(src: str, dst: str, count: int) -> Tensor:
        codes = rng.choice(SIZES[src] * SIZES[dst], size=count, replace=False)
        return torch.from_numpy(np.stack([codes // SIZES[dst], codes % SIZES[dst]]))

    data[LIKES].edge_index = random_edges("user", "item", 60)
    data[REV_LIKES].edge_index = data[LIKES].edge_index.flip(0)[:, rng.permutation(60)]
    data["user", "buys", "item"].edge_index = random_edges("user", "item", 30)
    data["item", "has", "tag"].edge_index = random_edges("item", "tag", 25)
    data["tag", "rev_has", "item"].edge_index = data["item", "has", "tag"].edge_index.flip(0)
    data["user", "knows", "user"].edge_index = random_edges("user", "user", 30)
    return data


def sampler_of(data: HeteroData, fanout: tuple[int, ...], fast: bool = False) -> NeighbourSampler:
    messages = Messages(data, LIKES, reverse_of(data, LIKES))
    return NeighbourSampler(TypedGraph.from_data(data), node_inputs(data), messages, fanout, fast)


def parts_of(data: HeteroData, inputs: Inputs) -> tuple[set[Node], list[Edge]]:
    """The nodes and edges of a sample in the numbers of the graph, told by the ids of the nodes."""
    x_dict, edge_index_dict, _ = inputs
    ids = {t: x_dict[t].tolist() for t in ("user", "item")}
    rows = [row.tolist() for row in data["tag"].x]
    ids["tag"] = [rows.index(row.tolist()) for row in x_dict["tag"]]
    for index in ids.values():
        assert len(set(index)) == len(index)
    edges = [
        (edge_type, ids[edge_type[0]][src], ids[edge_type[2]][dst])
        for edge_type, edge_index in edge_index_dict.items()
        for src, dst in edge_index.T.tolist()
    ]
    return {(t, i) for t, index in ids.items() for i in index}, edges


def by_hand(
    data: HeteroData, pairs: Tensor, held: Tensor, hops: int
) -> tuple[set[Node], list[Edge]]:
    """All nodes within some in-edge hops, and the edges into those that are not at the rim."""
    out = {(src, dst) for src, dst in held.T.tolist()}
    all_edges = [
        (edge_type, src, dst)
        for edge_type in data.edge_types
        for src, dst in data[edge_type].edge_index.T.tolist()
        if not (edge_type == LIKES and (src, dst) in out)
        and not (edge_type == REV_LIKES and (dst, src) in out)
    ]
    inner: set[Node] = set()
    nodes = {("user", i) for i in pairs[0].tolist()} | {("item", i) for i in pairs[1].tolist()}
    for _ in range(hops):
        inner = set(nodes)
        nodes |= {(t[0], src) for t, src, dst in all_edges if (t[2], dst) in inner}
    return nodes, [(t, src, dst) for t, src, dst in all_edges if (t[2], dst) in inner]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_with_large_fanout_the_sample_is_the_whole_neighbourhood(hops: int) -> None:
    data = graph()
    sampler = sampler_of(data, (100,) * hops)
    for first in range(0, 60, 12):
        held = data[LIKES].edge_index[:, first : first + 3]
        pairs = torch.cat([held, torch.tensor([[first % 40], [first % 30]])], dim=1)
        inputs = sampler.inputs(pairs, held, seed=0)
        nodes, edges = parts_of(data, inputs)
        wanted_nodes, wanted_edges = by_hand(data, pairs, held, hops)
        assert nodes == wanted_nodes
        assert Counter(edges) == Counter(wanted_edges)
        x_dict, _, label_index = inputs
        assert torch.equal(x_dict["user"][label_index[0]], pairs[0])
        assert torch.equal(x_dict["item"][label_index[1]], pairs[1])


@pytest.mark.parametrize("kind", MODELS)
def test_with_large_fanout_logits_are_those_of_the_full_graph(kind: str) -> None:
    data = graph()
    model = make_model(kind, data, LIKES, hidden=8).eval()
    messages = Messages(data, LIKES, reverse_of(data, LIKES))
    pairs = data[LIKES].edge_index[:, 5:15]
    for held in (NONE, pairs):
        full = model(node_inputs(data), messages.without(held), pairs)
        sampled = model(*sampler_of(data, (100, 100)).inputs(pairs, held, seed=0))
        torch.testing.assert_close(sampled, full)
    torch.testing.assert_close(messages.without(NONE), dict(data.edge_index_dict))


def test_fanout_bounds_the_in_edges_of_a_node_by_each_relation() -> None:
    data = graph()
    pairs = data[LIKES].edge_index[:, :20]
    _, edges = parts_of(data, sampler_of(data, (2, 1)).inputs(pairs, NONE, seed=0))
    _, everything = by_hand(data, pairs, NONE, 2)
    seeds = {("user", i) for i in pairs[0].tolist()} | {("item", i) for i in pairs[1].tolist()}
    taken = Counter((t, dst) for t, _, dst in edges)
    there = Counter((t, dst) for t, _, dst in everything)
    assert len(edges) < len(everything)
    assert len(set(edges)) == len(edges)
    assert set(edges) <= set(everything)
    for (t, dst), count in taken.items():
        assert count == min(there[t, dst], 2 if (t[2], dst) in seeds else 1)


def test_every_in_edge_is_drawn_equally_often() -> None:
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 6, 1
    data[LIKES].edge_index = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 0, 0, 0, 0, 0]])
    sampler = sampler_of(data, (2,))
    counts = np.zeros(6)
    for seed in range(1000):
        x_dict, edges, _ = sampler.inputs(torch.tensor([[0], [0]]), torch.tensor([[5], [0]]), seed)
        counts[x_dict["user"][edges[LIKES][0]].numpy()] += 1
    # Two of five are drawn 1,000 times: 400 each, with a deviation of about 16.
    assert counts[5] == 0
    assert (np.abs(counts[:5] - 400) < 80).all()


def test_the_sample_depends_on_the_seed_alone() -> None:
    data = graph()
    pairs = data[LIKES].edge_index[:, :20]
    sampler = sampler_of(data, (2, 1))
    state = torch.get_rng_state(), np.random.get_state(legacy=False)
    first = parts_of(data, sampler.inputs(pairs, NONE, seed=1))
    sampler.inputs(pairs[:, :3], pairs, seed=5)  # nothing of an earlier batch is left behind
    again = parts_of(data, sampler.inputs(pairs, NONE, seed=1))
    other = parts_of(data, sampler.inputs(pairs, NONE, seed=2))
    assert first == again
    assert first[1] != other[1]
    assert torch.equal(torch.get_rng_state(), state[0])
    assert str(np.random.get_state(legacy=False)) == str(state[1])


def test_a_fanout_must_be_positive() -> None:
    with pytest.raises(SettingsError, match="fanout must be numbers from 1 up"):
        sampler_of(graph(), (2, 0))


@pytest.mark.parametrize("kind", [kind for kind, model in MODELS.items() if model.takes_adjacency])
def test_a_layer_computes_only_the_rows_that_the_next_one_needs(kind: str) -> None:
    data = graph()
    model = make_model(kind, data, LIKES, hidden=8).eval()
    pairs = data[LIKES].edge_index[:, 5:9]
    plain = sampler_of(data, (2, 1)).inputs(pairs, pairs, seed=3)
    by_layer = sampler_of(data, (2, 1), fast=True).inputs(pairs, pairs, seed=3)
    torch.testing.assert_close(model(*by_layer), model(*plain))
    first, last = by_layer[1]
    assert last.rows == {"user": len(set(pairs[0].tolist())), "item": len(set(pairs[1].tolist())),
                         "tag": 0}  # fmt: skip
    assert sum(first.rows.values()) < sum(len(x) for x in by_layer[0].values())


def test_nodes_choose_the_same_sources_where_they_can() -> None:
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 200, 50
    both = torch.cartesian_prod(torch.arange(200), torch.arange(50)).T
    data[LIKES].edge_index = both
    pairs = torch.stack([torch.zeros(50, dtype=torch.long), torch.arange(50)])
    x_dict, edges, _ = sampler_of(data, (4,)).inputs(pairs, NONE, seed=0)
    assert edges[LIKES].shape[1] == 4 * 50
    assert len(x_dict["user"]) <= 1 + 4  # the end of the links, and four for all items
