"""Every link is checked against the full graph: what was found on other links is not trusted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.full_graph import without
from support.zoo import DIM, LINK_TYPE, Hetero, dot, make_graph
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv

from pagelink import PaGELink, Settings
from pagelink.bench.faithfulness.judges import without_facts
from pagelink.explain import checking
from pagelink.web.explorer import Explorer

PAIRS = [(u, i) for u in range(6) for i in range(5)]


class Changing(nn.Module):
    """Sees one hop, until it is told to see more: then it has further layers, or a mean over all.

    Stands for a model that sees farther on other links than on those it was tried on.
    """

    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layers = nn.ModuleList(
                HeteroConv({t: SAGEConv((DIM, DIM), DIM) for t in data.edge_types})
                for _ in range(3)
            )
        self.depth, self.centred = 1, False

    def forward(self, x_dict: Any, edge_index_dict: Any, links: Tensor) -> Tensor:
        for layer in self.layers[: self.depth]:
            x_dict = {t: torch.tanh(x) for t, x in layer(x_dict, edge_index_dict).items()}
        if self.centred:
            x_dict = {t: x - x.mean(0) for t, x in x_dict.items()}
        return dot(x_dict, links)


def truth(model: nn.Module, data: HeteroData, pairs: list[tuple[int, int]]) -> list[float]:
    with torch.no_grad():
        found: list[float] = model(
            data.x_dict, data.edge_index_dict, torch.tensor(pairs).t()
        ).tolist()
    return found


@pytest.mark.parametrize("check", ["auto", "wider", "full"])
@pytest.mark.parametrize("batch_size", [1, 7, 256])
def test_a_link_that_sees_farther_is_explained_on_a_wider_graph(
    check: Any, batch_size: int
) -> None:
    data = make_graph()
    model = Changing(data)
    settings = Settings(check=check, epochs=1)
    explainer = PaGELink(model, data, LINK_TYPE, settings, threshold=None)
    assert explainer.receptive_field.num_hops == 1
    model.depth = 3
    answers = list(explainer.explain_many(PAIRS, batch_size=batch_size))
    expected = truth(model, data, PAIRS)
    assert [answer.logit for answer in answers] == pytest.approx(expected, abs=answers[0].noise)
    wide = [answer for answer in answers if answer.num_hops != 1]
    assert len(wide) > len(PAIRS) / 2
    for answer in wide:
        assert answer.num_hops in (2, 3, 4)
        assert checking.WIDER.format(hops=answer.num_hops) in answer.notes
    measured = [answer for answer in wide if answer.evidence is not None]
    assert measured
    for answer in measured:
        bare = without(data, lambda edge_type, u, v: torch.ones_like(u).bool())
        pair = (answer.src[1], answer.dst[1])
        assert answer.evidence is not None
        (exact,) = truth(model, bare, [pair])
        assert answer.evidence.logit_without_edges == pytest.approx(exact, abs=answer.noise)


def test_where_no_radius_does_the_full_graph_is_used() -> None:
    data = make_graph()
    model = Changing(data)
    explainer = PaGELink(model, data, LINK_TYPE, Settings(epochs=1), threshold=None)
    model.centred = True
    answers = list(explainer.explain_many(PAIRS[:6]))
    noise = answers[0].noise
    assert [a.logit for a in answers] == pytest.approx(truth(model, data, PAIRS[:6]), abs=noise)
    whole = [answer for answer in answers if answer.num_hops is None]
    assert whole
    for answer in whole:
        assert checking.WHOLE in answer.notes
    ends = whole[0].src[1], whole[0].dst[1]
    assert explainer.counterfactual(*ends, top_k=5).logit == pytest.approx(whole[0].logit, abs=1e-5)
    explorer = Explorer(explainer)
    for off in ((), (0, 1)):
        found = explorer.rank(*ends, off)
        assert found.logit_before == pytest.approx(whole[0].logit, abs=noise)
        left = without_facts(data, explainer.graph, list(off))
        assert found.logit == pytest.approx(truth(model, left, [ends])[0], abs=noise)


def test_a_link_that_agrees_says_nothing_and_needs_one_more_pass() -> None:
    data = make_graph()
    model = Changing(data)
    explainer = PaGELink(model, data, LINK_TYPE, Settings(epochs=1), threshold=None)
    passes = 0

    def count() -> None:
        nonlocal passes
        passes += 1

    explainer.predictor.before_pass = count
    scored = explainer.pipeline.setup_for(explainer.link(*PAIRS[0]))
    assert scored is explainer.setup
    assert passes == 2  # its own score, and that of the full graph
    notes = {note for answer in explainer.explain_many(PAIRS) for note in answer.notes}
    assert not notes & {checking.WHOLE, checking.UNCHECKED}
    assert not any(note.startswith("This link's score") for note in notes)


def test_a_forward_that_ignores_the_relation_is_told_so() -> None:
    data = make_graph()
    types = [("user", "buys", "item"), ("user", "views", "item")]
    model = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM))

    def by_type(model: Any, data: Any, links: Tensor) -> Tensor:
        return model(data.x_dict, data.edge_index_dict, links) + data.edge_label_type

    same, other = (
        PaGELink(model, data, types, Settings(epochs=1), threshold=None, forward=forward)
        for forward in (None, by_type)
    )
    assert same.receptive_field.ignores_type
    assert not other.receptive_field.ignores_type
    assert any("same for all link types" in note for note in same.explain(3, 5).notes)
    one = PaGELink(model, data, types[0], Settings(epochs=1), threshold=None)
    assert not one.receptive_field.ignores_type
