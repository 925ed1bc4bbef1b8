"""The game of the parts of a score: Shapley values, beside those computed by definition."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from support.chains_of_books import LINK, WalkModel, scenes
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink import PaGELink, Settings
from pagelink.audit.game import coalition_values, play, shapley_weights
from pagelink.audit.rows import trials_of_link, without_figures
from pagelink.datasets.mechanisms import make_mechanism
from pagelink.measure.verdict import PARTS
from pagelink.measure.what_else import DRAWS, LinkParts
from pagelink.runtime.arrays import Doubles


def parts_of(explainer: PaGELink, src: int, dst: int) -> LinkParts:
    link, explanation = explainer.link(src, dst), explainer.explain(src, dst)
    row = without_figures(explainer, link, explanation)
    return LinkParts.of(trials_of_link(explainer, link, row), 0)


def by_definition(values: Doubles) -> Doubles:
    """The mean marginal contribution over all orders in which the players may come."""
    number = len(PARTS)
    found = np.zeros((number, values.shape[1]))
    orders = list(permutations(range(number)))
    for order in orders:
        coalition = 0
        for player in order:
            joined = coalition | 1 << player
            found[player] += values[joined] - values[coalition]
            coalition = joined
    return found / len(orders)


def on_the_full_graph(explainer: PaGELink, data: HeteroData, parts: LinkParts) -> Doubles:
    """Every coalition in every draw, by plain PyG on the whole graph: nothing is shared."""
    graph, alone = explainer.graph, parts.alone
    model: Any = explainer.predictor.model
    values = np.empty((2 ** len(PARTS), DRAWS))
    ends = [graph.node(int(end))[1] for end in (alone.link_src[0], alone.link_dst[0])]
    for coalition in range(2 ** len(PARTS)):
        gone = np.zeros(graph.num_edges, dtype=bool)
        for part, edges in enumerate(parts.edges):
            if not coalition >> part & 1:
                # Both directions of each fact, those that the model cannot see, too.
                facts = graph.fact[alone.edges[edges]]
                gone |= np.isin(graph.fact, facts)
        if alone.link_fact[0] >= 0:
            gone |= graph.fact == alone.link_fact[0]
        edge_index = {}
        for number, edge_type in enumerate(data.edge_types):
            kept = np.ones(data[edge_type].edge_index.shape[1], dtype=bool)
            kept[graph.column[(graph.relation == number) & gone]] = False
            edge_index[edge_type] = data[edge_type].edge_index[:, torch.from_numpy(kept)]
        absent = [i for i in range(3) if not coalition >> (len(parts.edges) + i) & 1]
        for draw in range(DRAWS):
            x = {kind: data[kind].x.clone() for kind in data.node_types}
            looks = parts.looks(absent, draw)
            for own, other in zip(alone.nodes.tolist(), looks.tolist(), strict=True):
                (kind, index), (_, like) = graph.node(own), graph.node(other)
                x[kind][index] = data[kind].x[like]
            with torch.no_grad():
                values[coalition, draw] = model(x, edge_index, torch.tensor(ends)[:, None]).item()
    return values


@pytest.mark.parametrize("name", ["metapath", "AND", "two towers", "share", "signed"])
def test_values_are_those_of_the_game_by_definition(name: str) -> None:
    mechanism = make_mechanism(name, num_links=4)
    data = mechanism.data
    explainer = PaGELink(mechanism.model, data, mechanism.schema.link_type, threshold=None)
    src, dst = mechanism.pairs[1]
    parts = parts_of(explainer, src, dst)
    wanted = on_the_full_graph(explainer, data, parts)
    found, num_logits = coalition_values(parts)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert num_logits <= 0.75 * wanted.size
    game = play(parts.trials, 0)
    right = by_definition(wanted)
    for part, each in zip(PARTS, right, strict=True):
        assert game.parts[part].value == pytest.approx(each.mean(), abs=1e-5)
        error = each.std(ddof=1) / np.sqrt(DRAWS)
        assert game.parts[part].error == pytest.approx(error, abs=1e-5)
    # Some part of facts and some part of features counts, or there is nothing to compare.
    values = [game.parts[part].value for part in PARTS]
    assert max(map(abs, values[:4])) > 0.1
    assert max(map(abs, values[4:])) > 0.1
    total = game.base.value + sum(values)
    assert total == pytest.approx(float(parts.trials.work.logits[0]), abs=1e-4)


FACTS = [(0, "owns", 1), (1, "by", 0), (0, "owns", 2), (3, "by", 1), (4, "cites", 3)]


class Product(WalkModel):
    """Six, if the reader owns a book and the book is cited."""

    def forward(self, x: dict[str, Tensor], edges: dict, pair: Tensor) -> Tensor:
        owned = self.conv((x["book"], x["reader"]), edges["book", "rev_owns", "reader"])
        cited = self.conv((x["book"], x["book"]), edges["book", "cites", "book"])
        both = owned[pair[0]].sum(-1).clamp(max=1) * cited[pair[1]].sum(-1).clamp(max=1)
        return 6 * both + 1


def test_a_product_is_shared_by_source_and_target() -> None:
    explainer = PaGELink(Product(), scenes(FACTS), LINK, Settings())
    game = play(parts_of(explainer, 0, 3).trials, 0)
    # No path joins them. Either side alone is worth nothing, both together six.
    assert game.parts["facts_near_src"].value == pytest.approx(3)
    assert game.parts["facts_near_dst"].value == pytest.approx(3)
    assert game.base.value == pytest.approx(1)
    assert game.interaction.value == pytest.approx(6)
    assert game.sizes["facts_near_src"] >= 2


def test_one_part_is_what_the_explanation_says_of_it() -> None:
    mechanism = make_mechanism("features alone", num_links=4)
    explainer = PaGELink(mechanism.model, mechanism.data, mechanism.schema.link_type)
    explanation = next(e for e in explainer.explain_many(mechanism.pairs) if e.what_else)
    link = explainer.link(explanation.src[1], explanation.dst[1])
    row = without_figures(explainer, link, explanation)
    game = play(trials_of_link(explainer, link, row), 0)
    for part in explanation.what_else:  # such a model adds up, so that order plays no part
        assert game.parts[part.name].value == pytest.approx(part.effect, abs=1e-5)
        assert game.parts[part.name].error == pytest.approx(part.error or 0.0, abs=1e-5)
        assert game.sizes[part.name] == part.size


def test_weights() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2 ** len(PARTS), 3))
    np.testing.assert_allclose(shapley_weights(len(PARTS)) @ values, by_definition(values))
