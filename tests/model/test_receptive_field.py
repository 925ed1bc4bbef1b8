"""How far models see: what the visible facts are, and models that must not pass as local."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support.zoo import DIM, LINK_TYPE, Hetero, dot, make_graph, make_homogeneous
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GPSConv, HeteroConv, LayerNorm, SAGEConv, SimpleConv

from pagelink import PaGELink
from pagelink.errors import LinkError, ModelError, SettingsError
from pagelink.model.receptive_field import NOT_LOCAL


def really_matters(model: Any, data: HeteroData, pair: tuple[int, int], edge: Any) -> bool:
    """Whether the model's score moves when the fact is really taken out of the graph."""
    edges = {t: e.clone() for t, e in data.edge_index_dict.items()}
    src, relation, dst = edge.type
    ends = edges[edge.type][:, edge.index].clone()
    name = relation.removeprefix("rev_") if relation.startswith("rev_") else f"rev_{relation}"
    for edge_type, (a, b) in (
        (edge.type, (ends[0], ends[1])), ((dst, name, src), (ends[1], ends[0])),
    ):  # fmt: skip
        if edge_type in edges:
            gone = (edges[edge_type][0] == a) & (edges[edge_type][1] == b)
            edges[edge_type] = edges[edge_type][:, ~gone]
    links = torch.tensor(pair).view(2, 1)
    with torch.no_grad():
        before = model(data.x_dict, data.edge_index_dict, links)
        after = model(data.x_dict, edges, links)
    return not torch.equal(before, after)


def smooth(model: nn.Module) -> nn.Module:
    """Large random weights, so that no fact that can matter happens not to."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(
                torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
            )
    return model.eval()


def paths_of(explainer: PaGELink, count: int = 25) -> list[Any]:
    pairs = [(u, i) for u in range(count) for i in range(count)]
    return [e for e in explainer.explain_many(pairs) if e.paths]


@pytest.mark.parametrize("reverse", [True, False])
def test_every_fact_on_a_path_can_move_the_score(reverse: bool) -> None:
    data = make_graph()
    if not reverse:
        for edge_type in list(data.edge_types):
            if edge_type[1].startswith("rev_"):
                del data[edge_type]
        ends = torch.randint(0, 79, (2, 120), generator=torch.Generator().manual_seed(2))
        data["user", "follows", "user"].edge_index = ends
        data["tag", "near", "tag"].edge_index = torch.tensor([[0, 1], [1, 2]])
    model = smooth(Hetero(data, lambda: SAGEConv((DIM, DIM), DIM)))
    explainer = PaGELink(model, data, LINK_TYPE, threshold=None)
    found = paths_of(explainer)
    assert found
    for explanation in found[:20]:
        for path in explanation.paths:
            for edge in path.edges:
                pair = (explanation.src[1], explanation.dst[1])
                assert really_matters(model, data, pair, edge)


def test_unused_relations_do_not_widen_what_is_visible() -> None:
    data = make_graph()
    used = [t for t in data.edge_types if "buys" in t[1]]

    class Some(Hetero):
        def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
            edges = {t: edge_index_dict[t] for t in used}
            return super().forward(x_dict, edges, edge_label_index)

    for layer_data in (data,):
        model = Some(layer_data, lambda: SAGEConv((DIM, DIM), DIM))
        for layer in model.layers:
            layer.convs = HeteroConv({t: SAGEConv((DIM, DIM), DIM) for t in used}).convs

    def forward(model: Any, data: Any, links: Tensor) -> Tensor:
        x = {t: data[t].x for t in ("user", "item")}
        return model(x, data.edge_index_dict, links)

    smooth(model)
    alone = HeteroData()
    for node_type in ("user", "item"):
        alone[node_type].x = data[node_type].x
    for edge_type in used:
        alone[edge_type].edge_index = data[edge_type].edge_index
    pairs = [(u, i) for u in range(25) for i in range(25)]
    whole = PaGELink(model, data, LINK_TYPE, threshold=None, forward=forward)
    part = PaGELink(model, alone, LINK_TYPE, threshold=None, forward=forward)
    assert whole.receptive_field.num_hops == part.receptive_field.num_hops == 2
    seen = 0
    for first, second in zip(whole.explain_many(pairs), part.explain_many(pairs), strict=True):
        assert {p.nodes for p in first.paths} == {p.nodes for p in second.paths}
        seen += len(first.paths)
    assert seen


class GraphNorm(nn.Module):
    """PyG's LayerNorm norms over the whole graph by default."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.norm = SAGEConv(DIM, DIM), SAGEConv(DIM, DIM), LayerNorm(DIM)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = self.conv2(self.norm(self.conv1(x, edge_index)).relu(), edge_index)
        return (x[links[0]] * x[links[1]]).sum(-1)


class Global(nn.Module):
    """Attention over all nodes beside message passing."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GPSConv(DIM, SAGEConv(DIM, DIM), heads=2, dropout=0.0, norm=None)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, links: Tensor) -> Tensor:
        x = self.conv(x, edge_index)
        return (x[links[0]] * x[links[1]]).sum(-1)


@pytest.mark.parametrize("size", [15, 30, 60])
@pytest.mark.parametrize("kind", [GraphNorm, Global])
def test_models_that_see_the_whole_graph_never_pass_as_local(kind: Any, size: int) -> None:
    """On small graphs, too: the logit is the full graph's, whatever the batch."""
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        data = make_homogeneous()
        data.x = torch.randn(size, DIM, generator=generator)
        data.num_nodes = size
        edges = torch.randint(0, size, (2, 2 * size), generator=generator)
        data.edge_index = torch.cat([edges, edges.flip(0)], dim=1)
        data.edge_type = torch.zeros(4 * size, dtype=torch.long)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = kind().eval()
        explainer = PaGELink(model, data, "likes", threshold=None)
        # Attention over the nodes as they come in needs all nodes, but not all edges.
        assert explainer.receptive_field.mode == "full" or kind is Global
        assert explainer.receptive_field.mode != "subgraphs"
        pairs = [(i, size - 1 - i) for i in range(5)]
        with torch.no_grad():
            truth = model(data.x, data.edge_index, data.edge_type, torch.tensor(pairs).t())
        found = [e.logit_deployed for e in explainer.explain_many(pairs)]
        assert found == pytest.approx(truth.tolist(), abs=1e-4)


def test_whole_graph_models_on_a_large_graph_are_called_not_local() -> None:
    data = make_homogeneous()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GraphNorm()
    assert PaGELink(model, data, "likes", threshold=None).receptive_field.note == NOT_LOCAL


class Towers(nn.Module):
    """One layer for one link type, three for another."""

    def __init__(self, data: HeteroData) -> None:
        super().__init__()
        self.near = nn.ModuleList([Hetero(data, lambda: SAGEConv((DIM, DIM), DIM)).layers[0]])
        self.far = nn.ModuleList(
            [Hetero(data, lambda: SAGEConv((DIM, DIM), DIM)).layers[0] for _ in range(3)]
        )

    def forward(self, data: Any, links: Tensor) -> Tensor:
        far = data.edge_label_type == data.edge_types.index(("user", "views", "item"))
        scores = []
        for layers in (self.near, self.far):
            x = data.x_dict
            for layer in layers:
                x = layer(x, data.edge_index_dict)
            scores.append(dot(x, links))
        return torch.where(far, scores[1], scores[0])


def test_the_link_type_that_sees_farthest_counts() -> None:
    data = make_graph()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Towers(data)
    explainer = PaGELink(
        model, data, [("user", "buys", "item"), ("user", "views", "item")], threshold=None,
        forward=lambda model, data, links: model(data, links),
    )  # fmt: skip
    assert explainer.receptive_field.num_hops == 3
    data.edge_label_type = torch.tensor([data.edge_types.index(("user", "views", "item"))])
    with torch.no_grad():
        truth = float(model(data, torch.tensor([[0], [0]])))
    del data.edge_label_type
    assert explainer.explain(0, 0, "views").logit_deployed == pytest.approx(truth, rel=1e-4)


def test_only_declared_link_types_are_explained() -> None:
    data = make_graph()
    explainer = PaGELink(
        Hetero(data, lambda: SAGEConv((DIM, DIM), DIM)), data, LINK_TYPE, threshold=None
    )
    with pytest.raises(LinkError, match=r"not a link type of this explainer.* user,likes,item"):
        explainer.explain(3, 5, ("item", "has", "tag"))
    rows = np.array([[5, 3]])
    assert next(explainer.explain_many(rows)).src == ("user", 5)  # type: ignore[arg-type]
    assert next(explainer.explain_many(torch.tensor(rows))).dst == ("item", 3)  # type: ignore[arg-type]
    assert explainer.explain(torch.tensor(5), np.int64(3)).src == ("user", 5)  # type: ignore[arg-type]


def test_numbers_are_no_names() -> None:
    data = make_graph()
    data["user"].name = [str(1000 + i) for i in range(data["user"].num_nodes)]
    explainer = PaGELink(
        Hetero(data, lambda: SAGEConv((DIM, DIM), DIM)), data, LINK_TYPE, threshold=None
    )
    assert explainer.explain("1005", 3).src == ("user", 5)
    assert explainer.explain("id:5", 3).src == ("user", 5)
    with pytest.raises(LinkError, match=r"There is no user called '5'.*'id:5'"):
        explainer.explain("5", 3)


def test_a_near_mirror_of_the_link_type_is_pointed_out() -> None:
    data = make_graph()
    buys = data["user", "buys", "item"].edge_index
    data["user", "likes", "item"].edge_index = buys[:, :30]
    data["item", "liked_by", "user"].edge_index = buys[:, :31].flip(0)
    model = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM))
    pair = buys[:, 0].tolist()
    explanation = PaGELink(model, data, LINK_TYPE, threshold=None).explain(*pair)
    assert any("liked_by mirrors most links of likes" in note for note in explanation.notes)
    told = PaGELink(
        model, data, LINK_TYPE, threshold=None, reverse={LINK_TYPE: ("item", "liked_by", "user")}
    ).explain(*pair)
    assert not any("mirrors" in note for note in told.notes)
    assert told.link_in_graph
    assert not any("lik" in edge.type[1] for path in told.paths for edge in path.edges)


def test_relations_with_labels_only_are_left_alone() -> None:
    data = make_graph()
    data["user", "likes", "item"].edge_label_index = torch.tensor([[0], [1]])
    model = Hetero(make_graph(), lambda: SAGEConv((DIM, DIM), DIM))
    explainer = PaGELink(model, data, LINK_TYPE, threshold=None)
    assert explainer.explain(5, 3).logit is not None


def test_within_inference_mode() -> None:
    data = make_graph()
    model = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM))
    with torch.inference_mode():
        inside = PaGELink(model, data, LINK_TYPE, threshold=None).explain(5, 3)
    outside = PaGELink(model, data, LINK_TYPE, threshold=None).explain(5, 3)
    assert inside.paths == outside.paths
    assert inside.epochs == outside.epochs > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": -1}, "seed must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"settings": {"core": 2}}, "settings must be Settings"),
        ({"threshold": "a"}, "threshold must be"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], words: str) -> None:
    data = make_graph()
    model = Hetero(data, lambda: SAGEConv((DIM, DIM), DIM))
    with pytest.raises(SettingsError, match=words):
        PaGELink(model, data, LINK_TYPE, **options)
    for link_type in (0, None, ("user", "likes"), "likes", ()):
        with pytest.raises(LinkError, match="A link type is"):
            PaGELink(model, data, link_type)


class Deaf(torch.nn.Module):
    """Passes messages, and does not listen to them; or not any more once the score is high."""

    def __init__(self, highest: float | None) -> None:
        super().__init__()
        self.highest = highest
        self.conv = HeteroConv({t: SAGEConv((4, 4), 4, root_weight=False) for t in DEAF_RELATIONS})

    def forward(self, x_dict, edge_index_dict, edge_label_index):  # type: ignore[no-untyped-def]
        h = self.conv(x_dict, edge_index_dict)
        src, dst = edge_label_index
        own = (x_dict["a"][src] * x_dict["b"][dst]).sum(1).abs() + 1
        if self.highest is None:
            return own + 0 * h["a"][src].sum(1)
        heard = h["a"][src].abs().sum(1) * h["b"][dst].abs().sum(1)
        return torch.clamp(50 * heard, max=self.highest)


DEAF_RELATIONS = [("a", "r", "b"), ("b", "rev_r", "a")]


def deaf_graph() -> HeteroData:
    generator = torch.Generator().manual_seed(0)
    data = HeteroData()
    for node_type in "ab":
        data[node_type].x = torch.randn(40, 4, generator=generator)
    data["a", "r", "b"].edge_index = torch.randint(0, 40, (2, 160), generator=generator)
    data["b", "rev_r", "a"].edge_index = data["a", "r", "b"].edge_index.flip(0)
    return data


def test_a_model_that_ignores_its_messages_is_said_to() -> None:
    data = deaf_graph()
    explainer = PaGELink(Deaf(None), data, ("a", "likes", "b"))
    pairs = [(a, b) for a in range(6) for b in range(6)]
    answers = list(explainer.explain_many(pairs))
    assert all("does not use the graph" in str(answer) for answer in answers)
    with_paths = [answer for answer in answers if answer.paths]
    assert with_paths
    for answer in with_paths:
        assert answer.evidence is not None
        assert answer.evidence.verdict == "structure_not_used"
        assert not any(path.is_evidence for path in answer.paths)


def test_a_saturated_model_is_explained() -> None:
    explainer = PaGELink(Deaf(2.0), deaf_graph(), ("a", "likes", "b"))
    answers = list(explainer.explain_many([(a, b) for a in range(4) for b in range(4)]))
    assert any(answer.paths for answer in answers)


class Centred(Deaf):
    """Scores links by how they compare with the others that are asked for."""

    def forward(self, x_dict, edge_index_dict, edge_label_index):  # type: ignore[no-untyped-def]
        h = self.conv(x_dict, edge_index_dict)
        scores = (h["a"][edge_label_index[0]] * h["b"][edge_label_index[1]]).sum(1)
        return scores - scores.mean()


def test_a_score_that_depends_on_the_other_links_is_refused() -> None:
    with pytest.raises(ModelError, match="depends on the other links it is given"):
        PaGELink(Centred(None), deaf_graph(), ("a", "likes", "b"))


def test_a_relation_is_not_called_unseen_if_its_reverse_is_seen() -> None:
    data = deaf_graph()
    data["a", "r", "b"].edge_index = data["a", "r", "b"].edge_index
    model = Deaf(2.0)
    del model.conv.convs[("b", "rev_r", "a")]
    model.forward = lambda x, e, ends: model.conv(x, e)["b"][ends[1]].sum(1)  # type: ignore[method-assign]
    explainer = PaGELink(model, data, ("a", "likes", "b"), threshold=None)
    answer = next(a for a in explainer.explain_many([(i, j) for i in range(9) for j in range(9)])
                  if a.paths)  # fmt: skip
    assert not any("rests on no message" in note for note in answer.notes)


class Table(nn.Module):
    """Counts common neighbours by a table that has a row for each node, used whole."""

    def __init__(self, num_nodes: int) -> None:
        super().__init__()
        self.conv = SimpleConv("add")
        self.eye = nn.Parameter(torch.eye(num_nodes))

    def forward(self, edge_index: Tensor, ends: Tensor) -> Tensor:
        h = self.conv(self.eye, edge_index)
        return 0.02 * (h[ends[0]] * h[ends[1]]).sum(-1) + 0.5


def test_a_table_of_all_nodes_used_whole_is_noticed() -> None:
    others = torch.arange(2, 62)
    spokes = torch.cat([torch.stack([torch.full_like(others, hub), others]) for hub in (0, 1)], 1)
    data = Data(edge_index=torch.cat([spokes, spokes.flip(0)], 1), num_nodes=62)
    explainer = PaGELink(
        Table(62), data, ("node", "to", "node"),
        forward=lambda model, data, ends: model(data.edge_index, ends),
    )  # fmt: skip
    assert explainer.predictor.mode != "subgraphs"
    assert explainer.explain(0, 1).evidence is not None


def test_a_model_that_puts_its_edges_in_order_is_local() -> None:
    """The order is read from the edges, and then which edges are which: not from messages."""

    class Own(SAGEConv):
        def message(self, x_j: Tensor) -> Tensor:
            return 2 * x_j

    class Ordered(Hetero):
        def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Tensor) -> Tensor:
            ordered = {t: e[:, torch.argsort(e[1])] for t, e in edge_index_dict.items()}
            return super().forward(x_dict, ordered, edge_label_index)

    data = make_graph()
    torch.manual_seed(0)
    model = Ordered(data, lambda: Own((DIM, DIM), DIM))
    field = PaGELink(model.eval(), data, LINK_TYPE, threshold=None).receptive_field
    assert (field.mode, field.num_hops) == ("subgraphs", 2)
