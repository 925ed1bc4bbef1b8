"""`pagelink bench examples`: the models of PyG's own link-prediction examples, as they are.

The classes are taken from the example files of a checkout of PyG and are not changed; graphs are
the real ones at hand, in the shape that the example has. What a user adds is `forward` of an
`Example`, if its model is not called by x_dict, edge_index_dict and edge_label_index.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import ToUndirected

from pagelink.bench.paper.report import Table, say_tables
from pagelink.bench.runs import Figures, RunStore, cell, check_names, shown_progress, timed
from pagelink.datasets.folders import find_data
from pagelink.errors import PageLinkError
from pagelink.explain.explainer import PaGELink
from pagelink.tables.load import load_graph

NAME = "examples"
LINKS = 10
OWN_LINES = 2
"""Lines that every user adds: one to make the explainer, one to explain."""
RATES, TO = ("user", "rates", "movie"), ("user", "to", "item")
SIMILAR = 40
"""Users who rated both films of a pair that counts as similar."""
NOTE = (
    "Classes unchanged, sizes those of the examples, weights of a few training steps, graphs as "
    "near to those of the examples as the data at hand are. The RGCN has 100 instead of 500 "
    "channels and is not trained: one step on all edges takes more than 18 GB. Lines: two to make "
    "the explainer and to explain, the others are the function that calls the model."
)
Forward = Callable[[Any, Any, Tensor], Any]


@dataclass(frozen=True)
class Example:
    """A model of an example, and what it takes to explain it."""

    file: str
    what: str
    graph: Callable[[], Any]
    """The graph, of the shape that the example has."""
    model: Callable[[Any, Any], nn.Module]
    """Of the classes of the file and the graph, the model as the example makes it."""
    link_type: Any
    forward: Forward | None = None
    """What a user adds; None if the model is called as it is."""
    steps: int = 30
    """Training steps, for a score that is not one of random weights alone."""

    @property
    def lines(self) -> int:
        """Lines that a user adds."""
        added = [] if self.forward is None else inspect.getsource(self.forward).splitlines()
        return OWN_LINES + len(added)

    def scores(self, model: nn.Module, data: Any, links: Tensor) -> Tensor:
        """Return the scores of links, called as the explainer calls the model."""
        if self.forward is not None:
            given: Tensor = self.forward(model, data, links)
            return given
        scores: Tensor = model(data.x_dict, data.edge_index_dict, links)
        return scores


def classes_of(file: Path, **names: Any) -> Any:
    """Return the imports and classes of a Python file by name; nothing else of it is run.

    Args:
        file: the file.
        names: what its classes find under a name that they use, such as `data`.

    Raises:
        PageLinkError: there is no such file.
    """
    if not file.is_file():
        raise PageLinkError(
            f"There is no file {file}. Give the folder `examples` of a checkout of PyG: "
            "git clone https://github.com/pyg-team/pytorch_geometric"
        )
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kept = [node for node in tree.body if _is_module(node) or _is_import_of_torch(node)]
    found: dict[str, Any] = {"device": torch.device("cpu"), "__name__": file.stem, **names}
    exec(compile(ast.Module(kept, []), str(file), "exec"), found)
    return SimpleNamespace(**found)


def _is_module(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        ast.unparse(base).endswith("Module") for base in node.bases
    )


def _is_import_of_torch(node: ast.stmt) -> bool:
    # Examples import plotting and the like, which their models do not use.
    if isinstance(node, ast.ImportFrom):
        modules = [str(node.module)]
    else:
        modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
    return {module.split(".")[0] for module in modules} in ({"torch"}, {"torch_geometric"})


@cache
def citations() -> Data:
    """Papers that cite each other, their fields as features: the shape of Cora."""
    stored = load_graph(find_data("vispub-citation"))
    papers, fields = stored["paper"].num_nodes, stored["field"].num_nodes
    x = torch.zeros(papers, fields)
    x[tuple(stored["paper", "in", "field"].edge_index)] = 1.0
    cites = stored["paper", "cites", "paper"].edge_index
    return Data(
        x=functional.normalize(x, p=1.0), name=list(stored["paper"].name),
        edge_index=torch.cat([cites, cites.flip(0)], 1).unique(dim=1),
    )  # fmt: skip


@cache
def _films() -> tuple[HeteroData, Tensor]:
    stored = load_graph(find_data("movielens-small"))
    return stored, stored["user", "likes", "movie"].edge_index


def _similar(likes: Tensor, users: int) -> Tensor:
    # Of the films that enough users like at all, the matrix is small.
    known = (likes[1].bincount() >= SIMILAR).nonzero().view(-1)
    kept = torch.isin(likes[1], known)
    liked = torch.zeros(users, len(known))
    liked[likes[0, kept], torch.searchsorted(known, likes[1, kept])] = 1.0
    both = (liked.T @ liked).fill_diagonal_(0.0) >= SIMILAR
    return known[both.nonzero().T]


def ratings() -> HeteroData:
    """Users and films with features, both directions: the shape of PyG's MovieLens."""
    stored, likes = _films()
    users, films = stored["user"].num_nodes, stored["movie"].num_nodes
    data = HeteroData()
    data["user"].x, data["user"].name = torch.eye(users), stored["user"].name
    data["movie"].x, data["movie"].name = torch.zeros(films, 19), stored["movie"].name
    data["movie"].x[tuple(stored["movie", "has_genre", "genre"].edge_index)] = 1.0
    data[RATES].edge_index = likes
    made: HeteroData = ToUndirected()(data)
    return made


def ratings_with_ids() -> HeteroData:
    """The same with the ids of users and films beside their features."""
    data = ratings()
    for kind in data.node_types:
        data[kind].n_id = torch.arange(data[kind].num_nodes)
    return data


def ratings_by_id() -> HeteroData:
    """The same with user ids and a relation between similar films."""
    data = ratings()
    users = data["user"].num_nodes
    data["movie", "sims", "movie"].edge_index = _similar(data[RATES].edge_index, users)
    data["user"].x = torch.arange(users)
    return data


def purchases() -> HeteroData:
    """The same with ids alone, under the names of PyG's Taobao."""
    stored, likes = _films()
    data = HeteroData()
    for kind, source in (("user", "user"), ("item", "movie")):
        data[kind].x = torch.arange(stored[source].num_nodes)
        data[kind].name = stored[source].name
    data[TO].edge_index = likes
    made: HeteroData = ToUndirected()(data)
    made["item", "to", "item"].edge_index = _similar(likes, stored["user"].num_nodes)
    return made


def users_and_films() -> Data:
    """The same as one kind of node, users first."""
    stored, likes = _films()
    users = stored["user"].num_nodes
    both = torch.stack([likes[0], likes[1] + users])
    return Data(
        edge_index=torch.cat([both, both.flip(0)], 1), num_nodes=users + stored["movie"].num_nodes,
        name=[*stored["user"].name, *stored["movie"].name],
    )  # fmt: skip


def triples() -> Data:
    """FB15k-237 with inverse relations, as PyG's RelLinkPredDataset has it."""
    lines = (find_data("fb15k-237") / "train.txt").read_text(encoding="utf-8").splitlines()
    head, relation, tail = zip(*(line.split("\t") for line in lines), strict=True)
    entities, ends = np.unique([*head, *tail], return_inverse=True)
    names, kinds = np.unique(relation, return_inverse=True)
    edges = torch.from_numpy(ends.reshape(2, -1))
    kind = torch.from_numpy(kinds.reshape(-1))
    return Data(
        edge_index=torch.cat([edges, edges.flip(0)], 1), num_nodes=len(entities),
        edge_type=torch.cat([kind, kind + len(names)]),
    )  # fmt: skip


# What a user adds, one function per way in which the examples call their models.


def encode_and_decode(model: Any, data: Any, links: Tensor) -> Any:  # noqa: D103
    return model.decode(model.encode(data.x, data.edge_index), links)


def inner_product(model: Any, data: Any, links: Tensor) -> Any:  # noqa: D103
    return model.decode(model.encode(data.x, data.edge_index), links, sigmoid=False)


def by_relation(model: Any, data: Any, links: Tensor) -> Any:  # noqa: D103
    z = model.encode(data.edge_index, data.edge_type)
    return model.decode(z, links, data.edge_label_type)


def by_edges(model: Any, data: Any, links: Tensor) -> Any:  # noqa: D103
    return model(data.edge_index, links)


def with_ids(model: Any, data: Any, links: Tensor) -> Any:  # noqa: D103
    ids = data["user"].n_id, data["movie"].n_id
    return model(*ids, data.x_dict, data.edge_index_dict, links)


def _num(data: Any, *kinds: str) -> list[int]:
    return [data[kind].num_nodes for kind in kinds]


EXAMPLES = {
    each.file.removesuffix(".py"): each
    for each in (
        Example(
            "link_pred.py", "GCN, product", citations,
            lambda of, data: of.Net(data.num_features, 128, 64), "cites", encode_and_decode,
        ),
        Example(
            "autoencoder.py", "GAE of a GCN", citations,
            lambda of, data: of.GAE(of.GCNEncoder(data.num_features, 16)), "cites", inner_product,
        ),
        Example(
            "rgcn_link_pred.py", "RGCN in 5 blocks, DistMult", triples,
            lambda of, data: of.GAE(
                of.RGCNEncoder(data.num_nodes, 100, int(data.edge_type.max()) + 1),
                of.DistMultDecoder((int(data.edge_type.max()) + 1) // 2, 100),
            ),
            0, by_relation, steps=0,
        ),
        Example(
            "lightgcn.py", "LightGCN", users_and_films,
            lambda of, data: of.LightGCN(data.num_nodes, embedding_dim=64, num_layers=2),
            "likes", by_edges,
        ),
        Example(
            "hetero/hetero_link_pred.py", "SAGE by to_hetero", ratings,
            lambda of, data: of.Model(hidden_channels=32), RATES,
        ),
        Example(
            "hetero/temporal_link_pred.py", "SAGE by to_hetero", ratings,
            lambda of, data: of.Model(hidden_channels=32), RATES,
        ),
        Example(
            "hetero/bipartite_sage.py", "SAGE, a tower per side", ratings_by_id,
            lambda of, data: of.Model(*_num(data, "user"), 64, 64), RATES,
        ),
        Example(
            "hetero/bipartite_sage_unsup.py", "SAGE, a tower per side", purchases,
            lambda of, data: of.Model(*_num(data, "user", "item"), 64, 64), TO,
        ),
        Example(
            "hetero/recommender_system.py", "SAGE of three layers by to_hetero", ratings_with_ids,
            lambda of, data: of.Model(*_num(data, "user", "movie"), 64), RATES, with_ids,
        ),
    )
}  # fmt: skip


def run_and_print(
    folder: Path, out: Path, console: Console, only: Iterable[str] = (), links: int = LINKS
) -> None:
    """Explain links by the models of the examples and print the table.

    Args:
        folder: the folder `examples` of a checkout of PyG.
        out: folder of the run files; what was done before is not done again.
        console: where it is shown.
        only: names of examples; none: all.
        links: links per example.
    """
    store = RunStore(out / "runs")
    names = check_names("example", only, EXAMPLES)
    with shown_progress(console) as progress:
        for name in names:
            progress(name)
            work = partial(run_example, EXAMPLES[name], folder, links)
            store.do(NAME, name, {"example": name, "links": links}, work)
    say_tables([table(store)], out, NAME, console, quick=False)


def run_example(example: Example, folder: Path, num_links: int) -> Figures:
    """Train the model of an example for a few steps and explain links with it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        data = example.graph()
        model = example.model(classes_of(folder / example.file, data=data), data)
        stored = _train(example, model, data)
    chosen = np.random.default_rng(0).choice(stored.shape[1], num_links, replace=False)
    explainer, setup = timed(
        lambda: PaGELink(
            model.eval(), data, example.link_type, forward=example.forward, threshold=None
        )
    )
    pairs = stored[:, torch.from_numpy(chosen)].t().tolist()
    found, seconds = timed(lambda: list(explainer.explain_many(pairs)))
    return {
        "what": example.what, "lines": example.lines, "mode": explainer.receptive_field.mode,
        "hops": explainer.receptive_field.num_hops, "setup": setup, "links": len(pairs),
        "seconds per link": seconds / len(pairs), "with paths": sum(bool(e.paths) for e in found),
        "steps": example.steps,
    }  # fmt: skip


def _train(example: Example, model: nn.Module, data: Any) -> Tensor:
    # Stored links against as many random pairs, as most examples do.
    edges: Tensor = (
        data[example.link_type].edge_index if isinstance(data, HeteroData) else data.edge_index
    )
    if "edge_type" in data:
        edges = edges[:, data.edge_type == example.link_type]
        data.edge_label_type = torch.full((2 * edges.shape[1],), example.link_type)
    optimizer = None
    for _ in range(example.steps):
        random = torch.stack([edges[0], edges[1][torch.randperm(edges.shape[1])]])
        scores = example.scores(model, data, torch.cat([edges, random], 1))
        # Lazy layers have parameters only now.
        optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=0.01)
        labels = torch.cat([torch.ones(edges.shape[1]), torch.zeros(edges.shape[1])])
        loss = functional.binary_cross_entropy_with_logits(scores.view(-1), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if "edge_label_type" in data:
        del data.edge_label_type
    return edges


def table(store: RunStore) -> Table:
    """Return the table of all runs, in the order of `EXAMPLES`."""
    runs = {run.key["example"]: run.figures for run in store.all(NAME)}
    rows = [
        (
            EXAMPLES[name].file, found["what"], str(found["lines"]),
            f"{found['mode']}, {found['hops']} hops", cell(found["setup"], 1),
            cell(1000 * found["seconds per link"], 0), f"{found['with paths']} of {found['links']}",
        )
        for name, found in ((name, runs[name]) for name in EXAMPLES if name in runs)
    ]  # fmt: skip
    columns = (
        "example", "model", "lines added", "runs on", "CPU s to set up", "CPU ms per link",
        "links with paths",
    )  # fmt: skip
    return Table("Models of PyG's link-prediction examples", columns, rows, NOTE)
