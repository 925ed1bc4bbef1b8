"""AugCitation: a citation graph with author-likes-paper links, and the paths that explain them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.datasets.aminer import read_aminer
from pagelink.datasets.folders import (
    DatasetInfo,
    DatasetSummary,
    check_new_folder,
    write_dataset,
)
from pagelink.datasets.ground_truth import Labels, Rule, find_labelled_pairs
from pagelink.errors import GraphError, SettingsError
from pagelink.graph.reverse_relations import add_reverse_relations
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.tables.files import SUFFIXES
from pagelink.tables.load import load_graph


@dataclass(frozen=True)
class AugCitation:
    """An augmented graph, its links to predict and the paths that explain them."""

    data: HeteroData
    """The citation graph and the links to predict, as one more relation. The paper's split leaves
    that relation out of message passing."""
    link_type: EdgeType
    likes: Tensor
    """The links to predict, [2, num_likes], ordered by author and paper."""
    labels: Labels
    """Ground-truth paths of every link, along the relations of the citation graph."""
    num_qualifying: int
    """Number of pairs among which the links were drawn."""
    settings: Mapping[str, object]
    """What it was made with, besides the graph, its names and the seed."""


def build_augcitation(
    graph: HeteroData,
    *,
    num_likes: int | None = 4500,
    max_length: int = 3,
    max_degree: int = 30,
    max_paths: int = 5,
    seed: int = 0,
    author: str = "author",
    paper: str = "paper",
    relation: str = "likes",
    rule: Rule = "paper",
) -> AugCitation:
    """Augment a citation graph as the paper does.

    A pair of an author and a paper qualifies if a concise and informative path joins them and no
    edge does. The links are drawn at random among these pairs. A relation and its reverse are the
    same facts: they count once in degrees, and a path walks whichever is stored in its direction.

    Args:
        graph: the citation graph; it stays as it is.
        num_likes: number of links. None: all pairs that qualify.
        max_length: l_max, the number of facts of a path at most.
        max_degree: D_max, the degree of the inner nodes of a path at most.
        max_paths: P_max, the number of ground-truth paths of a link at most.
        seed: the same seed draws the same links.
        author: node type of the sources of the links.
        paper: node type of their targets.
        relation: what the new relation is called.
        rule: which paths qualify and which are best, see `pagelink.datasets.ground_truth.Rule`.

    Raises:
        SettingsError: a setting is out of its range, or fewer pairs qualify than links are
            requested.
        GraphError: a node type is missing, or the new relation is there already.

    Example:
        >>> import torch
        >>> graph = HeteroData()
        >>> graph["author"].num_nodes, graph["paper"].num_nodes = 1, 2
        >>> graph["author", "writes", "paper"].edge_index = torch.tensor([[0], [0]])
        >>> graph["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
        >>> build_augcitation(graph, num_likes=1).labels
        {(0, 1): [(('author', 'writes', 'paper', 0, 0), ('paper', 'cites', 'paper', 0, 1))]}
    """
    link_type = (author, relation, paper)
    if link_type in graph.edge_types:
        raise GraphError(
            f"The graph has the relation {link_type} already. Give the graph without it, or call "
            "the new relation something else."
        )
    bounds = {"max_length": max_length, "max_degree": max_degree, "max_paths": max_paths}
    citations = TypedGraph.from_data(graph)
    pairs = find_labelled_pairs(citations, author, paper, rule=rule, **bounds)
    if not len(pairs):
        raise SettingsError(
            f"No pair of {author} and {paper} qualifies in this graph. Raise max_degree or "
            "max_length."
        )
    likes, labels = pairs.draw(num_likes, np.random.default_rng(seed))
    data = copy.copy(graph)
    data[link_type].edge_index = likes
    settings = {"num_likes": num_likes, **bounds, "rule": rule}
    return AugCitation(data, link_type, likes, labels, len(pairs), settings)


def make_augcitation_folder(
    source: Path | str,
    out: Path | str,
    seed: int = 0,
    *,
    licence: str | None = None,
    **options: Any,
) -> DatasetSummary:
    """Augment a citation graph and write it as a folder.

    Args:
        source: a graph that `load_graph` reads, or an AMiner citation file.
        out: the folder to make.
        seed: the same seed gives the same files.
        licence: the terms of the source, to be kept with what is made of it.
        options: the others of `build_augcitation`.

    Raises:
        SettingsError: a setting is out of its range, or fewer pairs qualify than links are
            requested.
        GraphError: the source cannot be read or augmented, or the folder cannot be written.
    """
    check_new_folder(out)
    source = Path(source)
    built = build_augcitation(citation_graph(source), seed=seed, **options)
    # The name of the source, not its place, which means nothing to others.
    settings = {"source": source.resolve().name, **built.settings}
    info = DatasetInfo("AugCitation", built.link_type, seed, settings, licence=licence)
    folder = write_dataset(out, built.data, built.labels, info=info)
    return DatasetSummary.of(
        folder, built.data, built.link_type, built.labels, built.num_qualifying
    )


def citation_graph(source: Path) -> HeteroData:
    """Read a citation graph: a folder or file that `load_graph` reads, or an AMiner file."""
    # What is not there is left to load_graph, whose error says so.
    if not source.is_file() or source.suffix.lower() in SUFFIXES:
        return load_graph(source)
    data = read_aminer(source)
    # As load_graph does, so that the ground truth is in the same relations.
    add_reverse_relations(data)
    return data
