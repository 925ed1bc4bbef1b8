"""Models that are known as a whole are run without their code, and say the same."""

from __future__ import annotations

import copy
import gc
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import HeteroData

from pagelink import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.layers.fixed import fixed
from pagelink.layers.flat import flat_model
from pagelink.model import flat_passes
from pagelink.model.edited_logits import EditedLogits, edge_gradient
from pagelink.model.flat_passes import FlatRun
from pagelink.models import LinkModel, make_model
from pagelink.runtime.arrays import Longs
from pagelink.runtime.csr import Csr
from tests.support.zoo import LINK_TYPE, links_of, make_case, make_graph

LINKS = links_of(make_case("HeteroConv SAGE"))[:4]
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "SAGE": ("sage", {}),
    "RGCN": ("rgcn", {}),
    "three layers": ("sage", {"num_layers": 3}),
    "one layer": ("rgcn", {"num_layers": 1}),
    "cosine": ("sage", {"head": "cosine"}),
    "MLP, dropout": ("rgcn", {"head": "mlp", "dropout": 0.5}),
    "shared vectors": ("sage", {"embeddings": False}),
}


def graph() -> HeteroData:
    """A graph in which the targets of links have no features."""
    data = make_graph()
    data[LINK_TYPE[2]].num_nodes = data[LINK_TYPE[2]].num_nodes
    del data[LINK_TYPE[2]].x
    return data


def model_of(data: HeteroData, kind: str = "SAGE") -> LinkModel:
    name, options = KINDS[kind]
    model = make_model(name, data, LINK_TYPE, hidden=8, seed=1, **options)
    return model.train()  # it is explained as it is in evaluation


def explainer_of(kind: str = "SAGE") -> PaGELink:
    data = graph()
    return PaGELink(model_of(data, kind), data, LINK_TYPE, threshold=None)


def batch_of(explainer: PaGELink) -> tuple[ComputationGraphs, Longs]:
    links = [explainer.link(*link) for link in LINKS]
    batch = ComputationGraphs.joined(explainer.setup.batches.extract(links))
    return batch, explainer.setup.relations(links)


def explained(explainer: PaGELink, *, flat: bool) -> list[Explanation]:
    explainer.predictor.flat = flat
    return list(explainer.explain_many(LINKS))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least_fixed", [flat_passes.LEAST_FIXED, 0])
def test_explanations_are_those_of_the_models_own_code(
    kind: str, least_fixed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat_passes, "LEAST_FIXED", least_fixed)
    explainer = explainer_of(kind)
    assert explainer.predictor.flat
    both = explained(explainer, flat=True), explained(explainer, flat=False)
    assert any(answer.evidence is not None for answer in both[0])
    pairs = zip(*both, strict=True)
    for one, other in pairs:
        assert [path.nodes for path in one.paths] == [path.nodes for path in other.paths]
        assert one.logit == pytest.approx(other.logit, abs=1e-5)
        for mine, its in zip(one.paths, other.paths, strict=True):
            assert mine.influence == pytest.approx(its.influence, abs=1e-5)
        for key, mask in one.edge_mask.items():
            torch.testing.assert_close(mask, other.edge_mask[key], atol=1e-4, rtol=0)
        verdicts = [each.evidence and each.evidence.verdict for each in (one, other)]
        assert verdicts[0] == verdicts[1]
        parts = zip(one.what_else, other.what_else, strict=True)
        assert all(a.effect == pytest.approx(b.effect, abs=1e-5) for a, b in parts)


@pytest.mark.parametrize("kind", KINDS)
def test_edited_graphs_and_gradients_are_those_of_the_models_own_code(kind: str) -> None:
    explainer = explainer_of(kind)
    predictor, (batch, relation) = explainer.predictor, batch_of(explainer)
    rng = np.random.default_rng(0)
    whole = predictor.needed(batch)
    half = whole & (rng.random(len(whole)) < 0.5)
    links = rng.integers(0, batch.num_links, 30)
    slots = [
        rng.choice(np.arange(*batch.edge_ptr[i : i + 2]), 5, replace=False) for i in links.tolist()
    ]
    found = []
    for predictor.flat in (True, False):
        model = EditedLogits(predictor, batch, relation)
        first = model.logits(whole, Edits(links[:1], Csr.of(slots[:1])))  # of one link only
        both = [model.logits(base, Edits(links, Csr.of(slots))) for base in (whole, half, whole)]
        recorded = explainer.setup.logits(batch, relation)[1]
        some = edge_gradient(predictor, recorded, len(batch.edges), np.array([0, 3]))
        found.append(np.concatenate([first, *both, some]))
    assert found[0] == pytest.approx(found[1], abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5])
def test_what_cannot_change_is_computed_once(kind: str, share: float) -> None:
    """With weights of some edges, and other features of some nodes, scores and gradients agree."""
    explainer, rng = explainer_of(kind), np.random.default_rng(1)
    batch, relation = batch_of(explainer)
    run = explainer.setup.logits(batch, relation)[1].flat
    assert isinstance(run, FlatRun)
    graph, num_edges = run.graph, int(max(each.max() for each in run.graph.which)) + 1
    free, moving = rng.random(num_edges) < share, rng.random(len(graph.first)) < share
    given = torch.rand(1 + int(free.sum()), generator=torch.Generator().manual_seed(0))
    given[0] = 1
    other = torch.where(torch.from_numpy(moving)[:, None], graph.first.flip(0), graph.first)
    some = fixed(graph, free, moving)
    assert sum(len(level.src) for level in some.levels) <= sum(map(len, graph.which))
    found = []
    with run.passes.borrowed(None, gradient=True):
        kept = other[torch.from_numpy(np.searchsorted(graph.known, some.known))]
        for each, first in ((graph, other), (some, kept)):
            weights = given.clone().requires_grad_()
            of_edges = weights[torch.from_numpy(np.where(free, np.cumsum(free), 0))]
            scores = replace(each, first=first).scores(weights if each is some else of_edges)
            slope = torch.zeros(len(given))
            if free.any():
                (slope,) = torch.autograd.grad(scores.sum(), weights)
            found.append(torch.cat([scores.detach(), slope[1:]]))
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


def test_weights_that_change_are_noticed() -> None:
    explainer = explainer_of()
    before = explainer.explain(*LINKS[0])
    with torch.no_grad():
        for parameter in explainer.predictor.model.parameters():
            parameter.data *= 1.5
    after = explainer.explain(*LINKS[0])
    assert after.logit != pytest.approx(before.logit)
    explainer.predictor.flat = False
    assert explainer.explain(*LINKS[0]).logit == pytest.approx(after.logit, abs=1e-4)


def _hook(model: LinkModel) -> None:
    model.layers[0].register_forward_hook(lambda module, given, out: out)


def _own_forward(model: LinkModel) -> None:
    model.layers[1].forward = model.layers[1].forward


def _another_module(model: LinkModel) -> None:
    class Doubled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    model.layers[0].own[0] = Doubled(8, 8)  # type: ignore[index,union-attr]


def _double(model: LinkModel) -> None:
    model.double()


@pytest.mark.parametrize("change", [_hook, _own_forward, _another_module, _double])
def test_a_model_that_is_changed_is_run_by_its_own_code(change: Any) -> None:
    model = model_of(graph())
    assert flat_model(model) is not None
    change(model)
    assert flat_model(model) is None


def test_nothing_is_left_of_a_batch_that_is_gone_and_copies_have_none() -> None:
    explainer = explainer_of()
    predictor, (batch, _) = explainer.predictor, batch_of(explainer)
    passes = predictor.flat_passes(batch)
    assert passes is not None
    assert predictor.flat_passes(batch) is passes
    again = pickle.loads(pickle.dumps(predictor))
    assert again.flat_passes(batch) is not passes
    assert copy.copy(predictor).flat
    del batch
    gc.collect()
    assert predictor._last._passes is None
