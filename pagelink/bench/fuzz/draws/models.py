"""Random small models as users write them, with random weights and the users' habits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import (
    FiLMConv,
    GraphConv,
    RGCNConv,
)

from pagelink.bench.fuzz.draws.data import RandomData, edge_types_of, one_of
from pagelink.bench.fuzz.draws.labelled import Labelled, train_on_walks
from pagelink.bench.fuzz.draws.layers import DIM, Vectors, hetero_layers, homogeneous_conv
from pagelink.graph.schema import HOMOGENEOUS_NODE_TYPE, EdgeType
from pagelink.model.inputs import Output
from pagelink.model.predictor import Forward

ACTIVATIONS = (torch.relu, torch.tanh, nn.functional.elu)


@dataclass(frozen=True)
class RandomModel:
    """A model, and what is known of it."""

    model: nn.Module
    kind: str
    forward: Forward | None
    output: Output
    num_hops: int | None
    """How far it sees along the edges; None: not by the number of hops alone."""

    @classmethod
    def draw(cls, rng: np.random.Generator, given: RandomData) -> RandomModel:
        """Draw a model for a graph; the global random state stays as it was."""
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of PyG, about what is meant to be odd
            torch.manual_seed(int(rng.integers(2**31)))
            made = _draw(rng, given)
            _draw_habits(rng, made.model)
        return made


def _draw_habits(rng: np.random.Generator, model: nn.Module) -> None:
    """Leave the model as users do: in training mode, half frozen, with hooks and gradients."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean, module.running_var = torch.randn(DIM), torch.rand(DIM) + 0.5
    model.train(bool(rng.random() < 0.5))
    frozen, used = rng.random() < 0.2, rng.random() < 0.2
    for parameter in model.parameters():
        parameter.requires_grad_(not (frozen and rng.random() < 0.5))
        if used and parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)
    if rng.random() < 0.2:
        model.register_forward_hook(_look_only)


def _look_only(module: nn.Module, given: Any, output: Any) -> None:
    """A hook of a user's that changes nothing."""


def _draw(rng: np.random.Generator, given: RandomData) -> RandomModel:
    data, several = given.data, len(given.link_types) > 1
    num_layers = one_of(rng, 1, 2, 2, 3, 4)
    habits = Habits(
        activation=one_of(rng, *ACTIVATIONS), norm=one_of(rng, "", "", "batch", "layer"),
        skips=bool(rng.random() < 0.3), joins=one_of(rng, "", "", "", "sum", "max"),
        dropout=bool(rng.random() < 0.5), detaches=bool(rng.random() < 0.1),
    )  # fmt: skip
    known = edge_types_of(given)
    types = [*known, *(t for t in given.link_types if t not in known)]
    by_relation = several or rng.random() < 0.2
    kind = one_of(rng, "dot", "dot", "mlp", "bilinear")
    head = Head(kind, {types.index(t): t for t in given.link_types}, by_relation)
    output: Output = "probability" if rng.random() < 0.1 else "logit"
    inner: nn.Module
    more: int | None = 0
    repeats, is_labelled = rng.random() < 0.15, rng.random() < 0.08
    if is_labelled:
        bias, looped = (bool(rng.random() < 0.5) for _ in range(2))
        marking = Labelled(given, head.link_types, num_layers, bias, looped)
        train_on_walks(marking, given, rng)
        name, inner = f"NBFNet, {'bias' if bias else 'no bias'}", marking
    elif isinstance(data, Data):
        name, conv, more = homogeneous_conv(rng, data)
        layers = [conv() for _ in range(num_layers)]
        layers = layers[:1] * num_layers if repeats else layers
        inner = HomogeneousModel(data, layers, habits, head)
    else:
        name, layers, more = hetero_layers(rng, data, num_layers)
        layers = layers[:1] * num_layers if repeats else layers
        inner = HeteroModel(data, layers, habits, head)
    takes_data = by_relation or is_labelled or name.endswith("edges") or rng.random() < 0.2
    scale, offset = one_of(rng, *8 * [(1.0, 0.0)], (1.0, 500.0), (1_000.0, 0.0))
    model = OnScale(inner, output, scale, offset)
    hops = None if more is None else num_layers + more
    return RandomModel(model, name, _by_data if takes_data else None, output, hops)


def _by_data(model: nn.Module, data: Any, links: Tensor) -> Tensor:
    """Hand a model all that there is."""
    score: Tensor = model(data, links)
    return score


class OnScale(nn.Module):
    """A model that returns probabilities, or scores on a scale of their own."""

    def __init__(self, inner: nn.Module, output: Output, scale: float, offset: float) -> None:
        super().__init__()
        self.inner, self.output, self.scale, self.offset = inner, output, scale, offset

    def forward(self, *given: Any) -> Tensor:
        """Score links, given as the inner model takes them."""
        score: Tensor = self.inner(*given)
        if self.output == "probability":
            return torch.sigmoid(score / 4)
        return score * self.scale + self.offset


@dataclass(frozen=True)
class Habits:
    """What stands between layers."""

    activation: Callable[[Tensor], Tensor]
    norm: str
    skips: bool
    joins: str
    """How the vectors of all layers are read out: their sum, their maximum, or only the last."""
    dropout: bool
    detaches: bool
    """Only the last layer has a gradient."""

    def read(self, kept: Sequence[Vectors]) -> Vectors:
        """What the head is given, of what the layers made."""
        if not self.joins:
            return kept[-1]
        stacked = {kind: torch.stack([each[kind] for each in kept]) for kind in kept[0]}
        return {kind: x.sum(0) if self.joins == "sum" else x.amax(0) for kind, x in stacked.items()}


class Between(nn.Module):
    """What stands between two layers."""

    def __init__(self, habits: Habits, kinds: Sequence[str]) -> None:
        super().__init__()
        self.habits = habits
        make = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}.get(habits.norm)
        self.norms = nn.ModuleDict({kind: make(DIM) if make else nn.Identity() for kind in kinds})
        self.dropout = nn.Dropout(0.5 if habits.dropout else 0.0)

    def forward(self, before: Vectors, after: Mapping[str, Tensor | None], last: bool) -> Vectors:
        """The vectors after a layer; a type that gets no message keeps its own."""
        vectors = {}
        for kind, old in before.items():
            new = after.get(kind)
            if new is None:
                vectors[kind] = old
                continue
            if not last:
                new = self.dropout(self.habits.activation(self.norms[kind](new)))
                new = new.detach() if self.habits.detaches else new
            vectors[kind] = old + new if self.habits.skips else new
        return vectors


class Head(nn.Module):
    """Scores pairs of vectors; with `by_relation`, each relation with a vector of its own.

    Args:
        kind: dot, mlp or bilinear.
        link_types: the predicted relations by their position among the data's edge types.
        by_relation: the position of the relation of each link is given.
    """

    def __init__(self, kind: str, link_types: dict[int, EdgeType], by_relation: bool) -> None:
        super().__init__()
        self.kind, self.link_types, self.by_relation = kind, link_types, by_relation
        self.relation = nn.Embedding(max(link_types) + 1, DIM)
        self.mlp = nn.Sequential(nn.Linear(2 * DIM, DIM), nn.ReLU(), nn.Linear(DIM, 1))
        self.bilinear = nn.Bilinear(DIM, DIM, 1)

    def forward(self, z: Vectors, links: Tensor, kinds: Tensor | None) -> Tensor:
        """One number per link."""
        if not self.by_relation or kinds is None:
            (link_type, *_) = self.link_types.values()
            return self._score(z[link_type[0]][links[0]], z[link_type[2]][links[1]])
        scores = next(iter(z.values())).new_zeros(links.shape[1])
        for position, (src, _, dst) in self.link_types.items():
            mine = kinds == position
            source = z[src][links[0, mine]] * self.relation(kinds[mine])
            scores = scores.masked_scatter(mine, self._score(source, z[dst][links[1, mine]]))
        return scores

    def _score(self, source: Tensor, target: Tensor) -> Tensor:
        if self.kind == "mlp":
            mixed: Tensor = self.mlp(torch.cat([source, target], -1))
            return mixed.squeeze(-1)
        if self.kind == "bilinear":
            score: Tensor = self.bilinear(source, target)
            return score.squeeze(-1)
        return (source * target).sum(-1)


class HeteroModel(nn.Module):
    """Encoders per node type, layers on dicts, a head."""

    def __init__(
        self, data: HeteroData, layers: Sequence[nn.Module], habits: Habits, head: Head
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleDict(
            {
                kind: nn.Linear(data[kind].x.shape[1], DIM)
                if "x" in data[kind]
                else nn.Embedding(max(data[kind].num_nodes, 1), DIM)
                for kind in data.node_types
            }
        )
        self.layers = nn.ModuleList(layers)
        self.between = Between(habits, data.node_types)
        self.habits, self.head = habits, head

    def forward(self, given: Any, *rest: Any) -> Tensor:
        """Score links: `(data, links)` or `(x_dict, edge_index_dict, links)`."""
        if len(rest) == 2:
            x_dict, values, links, kinds = given, {"edge_index": rest[0]}, rest[1], None
        else:
            x_dict = {t: given[t].x if "x" in given[t] else given[t].n_id for t in given.node_types}
            values = {
                key: {t: given[t][key] for t in given.edge_types if key in given[t]}
                for key in ("edge_index", "edge_weight", "edge_attr")
            }
            links, kinds = rest[0], given.edge_label_type
        z = {kind: self.encoders[kind](x) for kind, x in x_dict.items()}
        kept = [z]
        for number, layer in enumerate(self.layers):
            z = self.between(z, _run(layer, z, values), number == len(self.layers) - 1)
            kept.append(z)
        score: Tensor = self.head(self.habits.read(kept), links, kinds)
        return score


def _run(layer: nn.Module, z: Vectors, values: dict[str, Any]) -> Mapping[str, Tensor | None]:
    """Hand a layer the edge values that its convolutions take."""
    takes = getattr(layer, "takes", None)
    more = {f"{takes}_dict": values[takes]} if takes and values.get(takes) else {}
    found: Mapping[str, Tensor | None] = layer(z, values["edge_index"], **more)
    return found


class HomogeneousModel(nn.Module):
    """An encoder, layers on a homogeneous graph, a head."""

    def __init__(self, data: Data, layers: Sequence[nn.Module], habits: Habits, head: Head) -> None:
        super().__init__()
        kind = HOMOGENEOUS_NODE_TYPE
        has_x = "x" in data and data.x is not None
        self.encoder = (
            nn.Linear(data.x.shape[1], DIM) if has_x else nn.Embedding(data.num_nodes, DIM)
        )
        self.layers = nn.ModuleList(layers)
        self.between = Between(habits, [kind])
        self.habits, self.head = habits, head

    def forward(self, given: Any, *rest: Any) -> Tensor:
        """Score links: `(data, links)` or `(x, edge_index, [edge_type,] links)`."""
        kind, links, kinds, weight = HOMOGENEOUS_NODE_TYPE, rest[-1], None, None
        edge_type = None
        if len(rest) == 1:
            kinds, weight = given.edge_label_type, given.get("edge_weight")
            edge_type, edge_index = given.get("edge_type"), given.edge_index
            given = given.x if given.get("x") is not None else given.n_id
        else:
            edge_index, edge_type = rest[0], rest[1] if len(rest) == 3 else None
        z = {kind: self.encoder(given)}
        kept = [z]
        for number, layer in enumerate(self.layers):
            relational = isinstance(layer, RGCNConv | FiLMConv)
            more = (edge_type,) if relational else ()
            if isinstance(layer, GraphConv) and weight is not None:
                more = (weight,)
            new = {kind: layer(z[kind], edge_index, *more)}
            z = self.between(z, new, number == len(self.layers) - 1)
            kept.append(z)
        score: Tensor = self.head(self.habits.read(kept), links, kinds)
        return score
