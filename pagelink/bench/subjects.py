"""Subjects: models of the benchmarks with their links; the released weights, and trained ones."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch_geometric.data import HeteroData

from pagelink.datasets.augcitation import build_augcitation, citation_graph
from pagelink.datasets.folders import find_data
from pagelink.datasets.ground_truth import Labels
from pagelink.datasets.reference import load_reference
from pagelink.datasets.useritemattr import UserItemAttr, generate_useritemattr
from pagelink.errors import SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.models.architectures import make_model
from pagelink.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pagelink.models.feeds import scorer
from pagelink.models.figures import Separation, link_metrics
from pagelink.models.knowledge.checkpoint import open_predictor
from pagelink.models.knowledge.commands import train_all_and_save
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import LinkSplit, split_graph
from pagelink.models.training import TrainSettings, train
from pagelink.tables.load import load_graph

RELEASED, AMINER, LARGE = "released", "aminer", "useritemattr4"
PAPER_LIKES = 4500
"""Links of the paper's AugCitation."""
KINDS = ("rgcn", "sage", "hgt", "rgcn-shared", "hgt-shared")
"""`shared`: without free node embeddings, one vector for all nodes of a type."""
PAIRWISE = "nbf"
"""The kind that looks at the pair: of AugCitation, whose labels are about inner nodes of paths."""
HGT_EPOCHS = 15
"""On the real graphs, where an epoch of HGT takes many times as long as one of the others."""
KNOWLEDGE, KNOWLEDGE_MINUTES = "fb15k-distmult", 10.0
"""An RGCN with DistMult for all relations of FB15k-237, as Power-Link's paper has it, and the CPU
minutes that it is trained for."""
KNOWLEDGE_LINK = "/film/actor/film./film/performance/film"
"""The relation whose links are explained: an actor acts in a film."""
FB15K_LINK = "/sports/sports_position/players./sports/sports_team_roster/team"
"""The predicted relation of FB15k-237: a sports team has players in that position."""


@dataclass(frozen=True)
class Separations:
    """How well a model tells links from other pairs, beside its twins without edges (ROC-AUC)."""

    auc: float
    matched_auc: float | None
    """On degree-matched negatives."""
    edgeless_auc: float
    """The model itself, run without edges."""
    edgeless_matched_auc: float | None
    twin_auc: float | None
    """The same kind of model, trained without edges."""
    twin_matched_auc: float | None

    @property
    def structural(self) -> bool:
        """Beats itself without edges and its twin, wherever both were measured."""
        pairs = (
            (self.auc, self.edgeless_auc), (self.auc, self.twin_auc),
            (self.matched_auc, self.edgeless_matched_auc),
            (self.matched_auc, self.twin_matched_auc),
        )  # fmt: skip
        return all(own > other for own, other in pairs if own is not None and other is not None)


@dataclass(frozen=True)
class Subject:
    """A trained model with its graph, the links to explain, and their labels if there are any."""

    name: str
    model: LinkModel
    data: HeteroData
    """The graph that messages pass on."""
    link_type: EdgeType
    pairs: tuple[tuple[int, int], ...]
    """Test links that the model predicts, in a random order."""
    labels: Labels | None
    separations: Separations
    whole: HeteroData | None = None
    """The graph with all links, as training takes it."""
    settings: TrainSettings | None = None
    """How it was trained, if it was trained here."""
    train_links: tuple[tuple[int, int], ...] | None = None
    """Links of the training, for explainers that are trained themselves."""


def is_citation(name: str) -> bool:
    """Whether a subject is of an AugCitation graph."""
    return name.split("-", 1)[0] in ("augcitation", AMINER)


def subject_names(quick: bool) -> tuple[str, ...]:
    """The names of the subjects of the part `models`; `load_subject` knows more data sets."""
    if quick:
        return ("tiny-rgcn", "tiny-rgcn-shared")
    every = (f"{data}-{kind}" for data in _ALL_KINDS for kind in KINDS)
    return (RELEASED, *every, f"augcitation-{PAIRWISE}")


def load_subject(
    name: str, links: int, seed: int, folder: Path, source: Path | None = None
) -> Subject:
    """Return a subject; it is trained if the folder has no checkpoint of it.

    Args:
        name: `released`, `KNOWLEDGE`, or the name of a data set, `-` and one of `KINDS` or
            `PAIRWISE`.
        links: number of links at most.
        seed: of the data, the training and the choice of the links.
        folder: where checkpoints are.
        source: for `aminer-`, the citation graph: an AMiner file, or a folder of tables.

    Raises:
        DataNotFoundError: the data are not there.
        GraphError: the source cannot be read or augmented.
    """
    if name == RELEASED:
        return released_subject(links, seed=seed)
    if name == KNOWLEDGE:
        return _knowledge(links, seed, folder / f"{name}-seed{seed}.pt")
    dataset, kind = name.split("-", 1)
    if dataset == AMINER:
        if source is None:
            raise SettingsError(f"{name} needs the citation graph it is built from.")
        data, link_type, labels = _augmented(citation_graph(source), seed)
    else:
        data, link_type, labels = _DATASETS[dataset](seed)
    settings = _SETTINGS[dataset]
    if kind.startswith("hgt") and dataset not in ("useritemattr", "tiny", LARGE):
        settings = dataclasses.replace(settings, epochs=HGT_EPOCHS)
    of = "" if source is None or dataset != AMINER else f"-{source.stem}"
    file = folder / f"{name}{of}-seed{seed}.pt"
    stored = trained(file, kind, data, link_type, settings, seed, split_seed=seed)
    return checkpoint_subject(name, stored, links, seed, labels, data)


def trained(
    file: Path, kind: str, data: HeteroData, link_type: EdgeType, settings: TrainSettings,
    seed: int, split_seed: int, split: LinkSplit | None = None, dropout: float = 0.0,
) -> Checkpoint:  # fmt: skip
    """Return the model of a checkpoint, which is trained first if there is no such file.

    Args:
        file: the checkpoint.
        kind: one of `KINDS`, or `PAIRWISE`.
        data: the graph with all links.
        link_type: the predicted relation.
        settings: of the training.
        seed: of the first weights and the training.
        split_seed: of the split of the links.
        split: the split itself, if it is another.
        dropout: of the model.
    """
    if not file.exists():
        options: dict[str, Any] = {"dropout": dropout} if dropout else {}
        if kind.endswith("-shared"):
            options["embeddings"] = False
        model = make_model(
            kind.removesuffix("-shared"), data, link_type, paper_split=settings.paper_split,
            seed=seed, **options,
        )  # fmt: skip
        split = split or split_graph(data, link_type, split_seed)
        report = train(model, data, link_type, split, settings, seed=seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        save_checkpoint(file, model, data, link_type, split, report, settings)
    return load_checkpoint(file, data)


def checkpoint_subject(
    name: str,
    stored: Checkpoint,
    links: int,
    seed: int,
    labels: Labels | None = None,
    whole: HeteroData | None = None,
) -> Subject:
    """Return a trained model as a subject, with test links that it predicts."""
    test, of_test = stored.report.test, stored.split.test
    pairs = _chosen(of_test[:, stored.score(of_test) >= 0], links, seed)
    return Subject(
        name, stored.model, stored.data, stored.link_type, pairs, labels,
        Separations(*_aucs(test.model), *_aucs(test.edgeless), *_aucs(test.retrained_edgeless)),
        whole, stored.settings, as_pairs(stored.split.train),
    )  # fmt: skip


def _aucs(found: Separation | None) -> tuple[Any, float | None]:
    """The ROC-AUC against all and against degree-matched negatives; None where not measured."""
    if found is None:
        return None, None
    return found.auc, None if np.isnan(found.matched_auc) else found.matched_auc


def _chosen(pairs: torch.Tensor, links: int | None, seed: int) -> tuple[tuple[int, int], ...]:
    order = np.random.default_rng(seed).permutation(pairs.shape[1])[:links]
    return as_pairs(pairs[:, torch.from_numpy(order)])


def as_pairs(links: torch.Tensor) -> tuple[tuple[int, int], ...]:
    """Links as pairs of numbers."""
    return tuple((int(src), int(dst)) for src, dst in links.numpy().T)


def released_subject(
    links: int | None = None, path: Path | None = None, seed: int | None = None
) -> Subject:
    """Return the paper's released data and weights.

    Args:
        links: number of links at most. None: all.
        path: folder of the data. None: it is looked for.
        seed: of the choice and the order of the links. None: the first ones as they are.

    Raises:
        DataNotFoundError: the data are not there.
    """
    reference = load_reference(path)
    pairs = tuple(reference.test_links[:links])
    if seed is not None:
        pairs = _chosen(torch.tensor(reference.test_links).T, links, seed)
    return Subject(
        RELEASED, reference.model, reference.data, reference.link_type, pairs, reference.labels,
        _separations(
            reference.model, reference.data, reference.split.test, reference.negatives.test
        ),
        train_links=as_pairs(reference.split.train),
    )  # fmt: skip


def _knowledge(links: int, seed: int, file: Path) -> Subject:
    """A model for all relations; its test links of one relation, whatever their scores."""
    triples = find_data("fb15k-237") / "train.txt"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        train_all_and_save(
            triples, (), file, model="rgcn", seed=seed, console=Console(quiet=True),
            options={"head": "distmult"}, settings={"minutes": KNOWLEDGE_MINUTES, "epochs": 1000},
        )  # fmt: skip
    stored = open_predictor(file, triples, link=KNOWLEDGE_LINK)
    test = stored.split.test
    others = torch.from_numpy(np.random.default_rng(seed).permutation(test.shape[1]))
    return Subject(
        KNOWLEDGE, stored.model, stored.data, stored.link_type, _chosen(test, links, seed), None,
        _separations(stored.model, stored.data, test, torch.stack([test[0], test[1, others]])),
        train_links=as_pairs(stored.split.train),
    )  # fmt: skip


def _separations(
    model: LinkModel, data: HeteroData, links: torch.Tensor, others: torch.Tensor
) -> Separations:
    """How well a model tells links from other pairs, with and without edges."""
    x_dict, edges = node_inputs(data), dict(data.edge_index_dict)
    no_edges = {t: torch.empty(2, 0, dtype=torch.long) for t in edges}
    own, edgeless = (
        link_metrics(score(links), score(others))[0]
        for score in (scorer(model, x_dict, edges), scorer(model, x_dict, no_edges))
    )
    return Separations(own, None, edgeless, None, None, None)


Loaded = tuple[HeteroData, EdgeType, Labels | None]


def _with_links(generated: UserItemAttr) -> Loaded:
    data = copy.copy(generated.data)
    data[generated.link_type].edge_index = generated.likes
    return data, generated.link_type, generated.labels


def _useritemattr(seed: int) -> Loaded:
    return _with_links(generate_useritemattr(seed=seed))


def _large(seed: int) -> Loaded:
    """Four times the graph: what explains some hundred links is then a small part of it."""
    return _with_links(
        generate_useritemattr(
            num_users=400, num_items=400, num_attrs=200, num_has=908, num_wanted=140,
            items_per_user=208, num_buys=4888, seed=seed,
        )
    )  # fmt: skip


def _tiny(seed: int) -> Loaded:
    return _with_links(
        generate_useritemattr(
            num_users=40, num_items=40, num_attrs=20, num_has=60, num_wanted=12, max_prefers=4,
            items_per_user=15, num_buys=160, min_shared=1, seed=seed,
        )
    )  # fmt: skip


def _augcitation(seed: int) -> Loaded:
    return _augmented(load_graph(find_data("vispub-citation")), seed)


def _augmented(graph: HeteroData, seed: int) -> Loaded:
    """As many links as the paper has, or all pairs that qualify where there are fewer of these."""
    try:
        built = build_augcitation(graph, num_likes=PAPER_LIKES, seed=seed)
    except SettingsError:
        built = build_augcitation(graph, num_likes=None, seed=seed)
    return built.data, built.link_type, built.labels


def _movielens(seed: int) -> Loaded:
    return load_graph(find_data("movielens-small")), ("user", "likes", "movie"), None


def _hetionet(seed: int) -> Loaded:
    return load_graph(find_data("hetionet-core")), ("compound", "treats", "disease"), None


def _vispub(seed: int) -> Loaded:
    return load_graph(find_data("vispub-citation")), ("author", "writes", "paper"), None


def _fb15k(seed: int) -> Loaded:
    return read_fb15k(find_data("fb15k-237")), ("entity", FB15K_LINK, "entity"), None


def read_fb15k(folder: Path) -> HeteroData:
    """Read all triples of FB15k-237; its relations, but the predicted one, are their domains.

    The domain is the first word of a relation's name, such as `film`. With a relation for each of
    the 237 names, a pass over the same edges takes many times as long.
    """
    ids: dict[str, int] = {}
    pairs: dict[str, dict[tuple[int, int], None]] = {}
    for part in ("train", "valid", "test"):
        for line in (folder / f"{part}.txt").read_text(encoding="utf-8").splitlines():
            head, relation, tail = line.split("\t")
            ends = ids.setdefault(head, len(ids)), ids.setdefault(tail, len(ids))
            name = relation if relation == FB15K_LINK else relation.split("/")[1]
            pairs.setdefault(name, {})[ends] = None
    names = dict(
        line.split("\t", 1)
        for line in (folder / "names.tsv").read_text(encoding="utf-8").splitlines()
    )
    data = HeteroData()
    data["entity"].num_nodes = len(ids)
    data["entity"].id, data["entity"].name = list(ids), [names.get(key, key) for key in ids]
    for name, edges in sorted(pairs.items()):
        edge_index = torch.tensor(list(edges)).T.contiguous()
        data["entity", name, "entity"].edge_index = edge_index
        data["entity", f"rev_{name}", "entity"].edge_index = edge_index.flip(0)
    return data


_ALL_KINDS = ("useritemattr", "augcitation", "movielens", "hetionet")
_DATASETS: dict[str, Callable[[int], Loaded]] = {
    "useritemattr": _useritemattr, "augcitation": _augcitation, "movielens": _movielens,
    "hetionet": _hetionet, "vispub": _vispub, "fb15k": _fb15k, "tiny": _tiny, LARGE: _large,
}  # fmt: skip
_PAPER = dataclasses.replace(TrainSettings.paper(), retrain_edgeless=True)
_OURS = TrainSettings(epochs=30, patience=5, retrain_edgeless=True)
_SETTINGS = {
    "useritemattr": _PAPER, "augcitation": _PAPER, AMINER: _PAPER, "movielens": _OURS,
    "hetionet": _OURS, "vispub": _OURS, "fb15k": dataclasses.replace(_OURS, epochs=20),
    LARGE: _PAPER, "tiny": dataclasses.replace(_PAPER, epochs=5),
}  # fmt: skip
