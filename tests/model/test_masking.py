"""Edge weights reach every kind of PyG model, with right gradients, and leave it untouched."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from support.zoo import (
    DIM,
    LINK_TYPE,
    USERS,
    ZOO,
    Hetero,
    Relational,
    make_case,
    make_graph,
    make_homogeneous,
    shared_case,
)
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain.algorithm.utils import clear_masks, set_hetero_masks
from torch_geometric.nn import GCNConv, MessagePassing, SAGEConv
from torch_geometric.utils import (
    add_self_loops,
    coalesce,
    remove_self_loops,
    scatter,
    to_undirected,
)

from pagelink import PaGELink
from pagelink.bench.fuzz.oracles.untouched import same, snapshot
from pagelink.errors import MaskError, ModelError, PageLinkError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.inputs import ModelInput
from pagelink.model.masking import Tracer
from pagelink.model.predictor import LinkPredictor

pytestmark = pytest.mark.filterwarnings("ignore:The type .* contains invalid characters")

LOCAL = [name for name in ZOO if name not in ("HAN", "graph-wide norm")]


def explainer_of(case: Any) -> PaGELink:
    return PaGELink(case.model, case.data, case.link_type, **{"threshold": None} | case.options)


def answerable(explainer: PaGELink) -> tuple[int, int]:
    """A link with paths, so that all of the work is done for it."""
    first = USERS if len(explainer.graph.node_types) == 1 else 0
    pairs = list(itertools.product(range(12), range(first, first + 12)))
    found = explainer.explain_many(pairs)
    return next(pair for pair, explanation in zip(pairs, found, strict=True) if explanation.paths)


def first_batch(explainer: PaGELink, count: int = 1) -> Any:
    """Computation graphs of links with many visible edges."""
    graph = explainer.graph
    link_type = explainer.link_types[0]
    src = graph.node_offset[graph.node_types.index(link_type[0])]
    dst = graph.node_offset[graph.node_types.index(link_type[2])]
    links = np.arange(count)
    return explainer.extractor.extract(src + links, dst + links + 3, np.full(count, -1))


def recorded_full(explainer: PaGELink, batch: Any) -> ModelInput:
    """One link on the full graph, ready for weights."""
    explainer.predictor.mode = "full"
    relation = np.zeros(1, dtype=np.int64)
    inputs = explainer.predictor.inputs(batch, batch.visible, [0], relation)
    return explainer.predictor.record(inputs)[1]


@pytest.mark.parametrize("name", ZOO)
def test_reach_is_found(name: str) -> None:
    case, explainer = shared_case(name)
    reach = explainer.receptive_field
    assert (reach.mode, reach.num_hops) == (case.mode, case.num_hops)


@pytest.mark.parametrize("name", ZOO)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    case = make_case(name)
    case.model.double()
    if isinstance(case.data, Data):
        case.data.x = case.data.x.double()
    else:
        for store in case.data.stores:
            for key, value in list(store.items()):
                if isinstance(value, Tensor) and value.is_floating_point():
                    store[key] = value.double()
    explainer = explainer_of(case)
    batch = first_batch(explainer)
    inputs = explainer.predictor.inputs(batch, batch.visible, [0], np.zeros(1, dtype=np.int64))
    plain, recorded, _ = explainer.predictor.record(inputs)
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(len(batch.edges), generator=generator, dtype=torch.float64) / 2 + 0.5
    with explainer.predictor.weighted(recorded) as run:
        assert torch.allclose(run(torch.ones_like(weights)), plain)
        leaf = weights.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(run(leaf).sum(), leaf)
        assert bool((gradient != 0).any())
        chosen = torch.from_numpy(np.flatnonzero(batch.visible)[:12])
        for edge in chosen.tolist():
            step = torch.zeros_like(weights)
            step[edge] = 1e-6
            with torch.no_grad():
                slope = (run(weights + step) - run(weights - step)).sum() / 2e-6
            assert float(gradient[edge]) == pytest.approx(float(slope), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("name", LOCAL)
def test_weights_act_on_the_right_edges(name: str) -> None:
    """On the full graph, only the visible edges of a link move its score."""
    _, explainer = shared_case(name)
    batch = first_batch(explainer)
    recorded = recorded_full(explainer, batch)
    visible = torch.from_numpy(batch.visible)
    noise = torch.rand(len(visible), generator=torch.Generator().manual_seed(2))
    with explainer.predictor.weighted(recorded) as run, torch.no_grad():
        plain = run(torch.ones(len(visible)))
        unseen = run(torch.where(visible, 1.0, noise))
        seen = run(torch.where(visible, noise, 1.0))
    assert int((~visible).sum()) > 0
    assert torch.allclose(unseen, plain, atol=1e-5)
    assert not torch.allclose(seen, plain, atol=1e-4)


@pytest.mark.parametrize("name", ZOO)
def test_order_of_columns_does_not_matter(name: str) -> None:
    """Shuffled columns with the weights shuffled along give the same score."""
    case = make_case(name)
    explainer = explainer_of(case)
    shuffled = copy.copy(case.data)
    generator = torch.Generator().manual_seed(3)
    stores = [shuffled] if isinstance(shuffled, Data) else shuffled.edge_stores
    for store in stores:
        order = torch.randperm(store.edge_index.shape[1], generator=generator)
        for key in ("edge_index", "edge_attr", "edge_weight", "edge_type"):
            if key in store:
                store[key] = store[key][..., order] if key == "edge_index" else store[key][order]
    other = PaGELink(case.model, shuffled, case.link_type, **{"threshold": None} | case.options)
    scores = []
    for each in (explainer, other):
        batch = first_batch(each)
        graph = each.graph
        # A weight that depends on what the edge says, not on where it stands.
        edges = batch.edges
        weights = 0.5 + 0.5 * np.sin(
            graph.src[edges] * 7.0 + graph.dst[edges] * 13.0 + graph.relation[edges]
        )
        inputs = each.predictor.inputs(batch, batch.visible, [0], np.zeros(1, dtype=np.int64))
        recorded = each.predictor.record(inputs)[1]
        with each.predictor.weighted(recorded) as run:
            scores.append(float(run(torch.from_numpy(weights).float())))
    assert scores[0] == pytest.approx(scores[1], rel=1e-4, abs=1e-5)


def test_same_as_the_masks_of_pyg_on_hetero_conv() -> None:
    data = make_graph()
    model = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM)).eval()
    explainer = PaGELink(model, data, LINK_TYPE, threshold=None)
    batch = first_batch(explainer)
    recorded = recorded_full(explainer, batch)
    generator = torch.Generator().manual_seed(4)
    masks = {t: torch.rand(data[t].num_edges, generator=generator) for t in data.edge_types}
    graph = explainer.graph
    weights = torch.ones(len(batch.edges))
    for position, edge_type in enumerate(graph.edge_types[: len(data.edge_types)]):
        mine = torch.from_numpy(graph.relation[batch.edges] == position)
        weights[mine] = masks[edge_type][torch.from_numpy(graph.column[batch.edges]).long()[mine]]
    with explainer.predictor.weighted(recorded) as run:
        ours = run(weights).detach()
    # PyG masks all edges of the graph; those outside of the computation graph do not matter.
    set_hetero_masks(model, masks, data.edge_index_dict)
    for module in model.modules():
        if isinstance(module, MessagePassing):
            module._apply_sigmoid = False
    with torch.no_grad():
        theirs = model(data.x_dict, data.edge_index_dict, torch.tensor([[0], [3]]))
    clear_masks(model)
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_same_as_a_weighted_mean_by_hand_on_rgcn() -> None:
    data = make_homogeneous()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        from torch_geometric.nn import RGCNConv

        model = Relational(RGCNConv, 7)
    explainer = PaGELink(model, data, ("node", "likes", "node"), threshold=None)
    batch = first_batch(explainer)
    recorded = recorded_full(explainer, batch)
    weights = torch.rand(len(batch.edges), generator=torch.Generator().manual_seed(5))
    with explainer.predictor.weighted(recorded) as run:
        ours = float(run(weights))
    column = explainer.graph.column[batch.edges]
    weight = torch.ones(data.num_edges)
    weight[torch.from_numpy(column).long()] = weights

    def layer(conv: Any, x: Tensor) -> Tensor:
        out = x @ conv.root + conv.bias
        for relation in range(7):
            here = data.edge_type == relation
            row, col = data.edge_index[:, here]
            total = torch.zeros_like(x).index_add_(0, col, x[row] * weight[here, None])
            count = torch.zeros(len(x)).index_add_(0, col, torch.ones(len(col))).clamp(min=1)
            out = out + (total / count[:, None]) @ conv.weight[relation]
        return out

    with torch.no_grad():
        z = layer(model.conv2, torch.tanh(layer(model.conv1, data.x)))
    assert ours == pytest.approx(float((z[0] * z[3]).sum()), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda e: e[:, [2, 0]], [2, 0]),
        (lambda e: e[:, e[0] != e[1]], [0, 1]),
        (lambda e: e.flip(0), [0, 1, 2]),
        (lambda e: torch.stack([e[1], e[0]]), [0, 1, 2]),
        (lambda e: torch.cat([e, e.flip(0)], dim=1), [0, 1, 2, 0, 1, 2]),
        (lambda e: e + torch.tensor([[5], [9]]), [0, 1, 2]),
        (lambda e: e.t().contiguous().t(), [0, 1, 2]),
        (lambda e: e.T[1:].T, [1, 2]),
        (lambda e: e.index_select(1, torch.tensor([1, 1])), [1, 1]),
        (lambda e: torch.stack(e.unbind(0)), [0, 1, 2]),
        (lambda e: torch.cat(e.chunk(3, dim=1)[::-1], dim=1), [2, 1, 0]),
        (lambda e: add_self_loops(e, num_nodes=3)[0], [0, 1, 2, -1, -1, -1]),
        (lambda e: remove_self_loops(e)[0], [0, 1]),
        (lambda e: coalesce(e, num_nodes=3), [1, 0, 2]),
        (lambda e: to_undirected(e[:, :1]), [0, 0]),
        (lambda e: e.clone().long().to("cpu").detach(), [0, 1, 2]),
    ],
)  # fmt: skip
def test_numbers_follow_the_columns(change: Any, expected: list[int]) -> None:
    edge_index = torch.tensor([[1, 0, 2], [0, 1, 2]])
    result = change(Tracer().trace([edge_index])[0])
    assert result.edge_numbers[0].tolist() == expected
    assert result.edge_numbers[1].tolist() == expected
    # The values are what the same code gives on a plain tensor.
    assert torch.equal(result.as_subclass(Tensor), change(edge_index))


@pytest.mark.parametrize("name", ZOO)
def test_model_and_data_come_back_untouched(name: str) -> None:
    case = make_case(name)
    case.model.train()
    next(case.model.parameters()).requires_grad_(False)
    before, random = snapshot(case.model, case.data), torch.random.get_rng_state()
    explainer = explainer_of(case)
    assert explainer.explain(*answerable(explainer)).paths
    assert same(before, snapshot(case.model, case.data))
    assert torch.equal(random, torch.random.get_rng_state())


@pytest.mark.parametrize("calls_before", [0, 1, 5, 8])
def test_model_comes_back_untouched_after_an_exception(calls_before: int) -> None:
    """The exception comes in the middle of a forward pass, at different stages of the work."""
    data = make_graph()
    model = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM))
    explainer = PaGELink(model, data, LINK_TYPE, threshold=None)
    pair = answerable(explainer)
    before = snapshot(model, data)
    calls = 0
    conv = next(m for m in model.modules() if isinstance(m, SAGEConv))
    message = conv.message

    def failing(x_j: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls > calls_before:
            raise RuntimeError("out of luck")
        return message(x_j)

    conv.message = failing
    try:
        with pytest.raises(RuntimeError, match="out of luck"):
            explainer.explain(*pair)
    finally:
        del conv.message
    assert same(before, snapshot(model, data))


class Outside(nn.Module):
    """Aggregates with scatter, outside of MessagePassing."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = x + scatter(self.lin(x)[edge_index[0]], edge_index[1], dim_size=len(x), reduce="mean")
        return (x[links[0]] * x[links[1]]).sum(-1)


class Partly(Outside):
    def __init__(self) -> None:
        super().__init__()
        self.conv = SAGEConv(DIM, DIM)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        return super().forward(self.conv(x, edge_index), edge_index, edge_type, links)


class ByMatrix(Partly):
    """One layer by MessagePassing, another by a product with a sparse matrix."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = self.conv(x, edge_index)
        matrix = torch.sparse_coo_tensor(
            edge_index.flip(0), torch.ones(edge_index.shape[1]), (len(x), len(x))
        )
        x = x + torch.sparse.mm(matrix, self.lin(x))
        return (x[links[0]] * x[links[1]]).sum(-1)


class Dense(Partly):
    """The same by a dense matrix."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = self.conv(x, edge_index)
        matrix = torch.zeros(len(x), len(x))
        matrix[edge_index[1], edge_index[0]] = 1
        x = x + matrix @ self.lin(x)
        return (x[links[0]] * x[links[1]]).sum(-1)


class Sparse(nn.Module):
    """Turns the edges into a sparse matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = SAGEConv(DIM, DIM)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        value = torch.ones(edge_index.shape[1])
        size = (len(x), len(x))
        adjacency = torch.sparse_coo_tensor(edge_index.flip(0), value, size).coalesce()
        x = self.inner(x, adjacency)
        return (x[links[0]] * x[links[1]]).sum(-1)


class Remembers(nn.Module):
    """Uses edges it kept from elsewhere."""

    def __init__(self, edge_index: Tensor) -> None:
        super().__init__()
        self.kept, self.gnn = edge_index, SAGEConv(DIM, DIM)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = self.gnn(x, self.kept)
        return (x[links[0]] * x[links[1]]).sum(-1)


class Chance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = SAGEConv(DIM, DIM)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = self.conv(x + torch.randn(x.shape), edge_index)
        return (x[links[0]] * x[links[1]]).sum(-1)


class EmbeddingOnly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = self.lin(x)
        return (x[links[0]] * x[links[1]]).sum(-1)


class CachedGCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = GCNConv(DIM, DIM, cached=True)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = self.body(x, edge_index)
        return (x[links[0]] * x[links[1]]).sum(-1)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda data: CachedGCN(), MaskError, r"'body' \(GCNConv\) has cached=True.*False"),
        (lambda data: Outside(), MaskError, r"\(Outside\) collects vectors.*MessagePassing"),
        (lambda data: Partly(), MaskError, r"\(Partly\) collects vectors.*MessagePassing"),
        (lambda data: ByMatrix(), MaskError, r"\(ByMatrix\) passes messages.*outside"),
        (lambda data: Dense(), MaskError, r"\(Dense\) collects vectors.*MessagePassing"),
        (lambda data: Sparse(), MaskError, r"\(SAGEConv\).*sparse matrix|\(Sparse\) collects"),
        (lambda data: Remembers(data.edge_index), MaskError, r"'gnn' \(SAGEConv\).*of its own"),
        (lambda data: Chance(), ModelError, "deterministic|random"),
        (
            lambda data: Relational(lambda a, b, r: SAGEConv((-1, -1), b), 7),
            ModelError, "lazy parameter.*never initialised",
        ),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_models_that_ignore_the_mask_are_refused(make: Any, error: Any, words: str) -> None:
    data = make_homogeneous()
    model = make(data)
    before = [m.training for m in model.modules()]
    with pytest.raises(error, match=words) as caught:
        PaGELink(model, data, ("node", "likes", "node"), threshold=None)
    assert isinstance(caught.value, PageLinkError)
    assert [m.training for m in model.modules()] == before


def test_a_cached_layer_is_refused_before_it_runs() -> None:
    """Running it on a sub-graph would leave that in its cache."""
    data = make_homogeneous()
    model = CachedGCN()
    with pytest.raises(MaskError):
        PaGELink(model, data, ("node", "likes", "node"))
    assert model.body._cached_edge_index is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # importing the compiler
def test_compiled_models_are_run_eagerly() -> None:
    data = make_graph()
    model = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM))
    explainer = PaGELink(model, data, LINK_TYPE, threshold=None)
    pair = answerable(explainer)
    plain = explainer.explain(*pair)
    compiled = PaGELink(torch.compile(model), data, LINK_TYPE, threshold=None).explain(*pair)
    assert compiled.logit == pytest.approx(plain.logit)
    assert compiled.paths == plain.paths
    assert plain.paths


def test_weights_of_another_pass_are_refused() -> None:
    data: HeteroData = make_graph()
    model = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM))
    graph = TypedGraph.from_data(data, [LINK_TYPE])
    predictor = LinkPredictor(model, data, graph)
    ends = np.array([0]), np.array([graph.flat_index("item", 3)]), np.array([0])
    recorded = predictor.record(predictor.full_graph(*ends))[1]
    short = dataclasses.replace(recorded, calls=recorded.calls[:3])
    with predictor.weighted(short) as run, pytest.raises(MaskError, match="expected 0"):
        run(torch.ones(graph.num_edges))
