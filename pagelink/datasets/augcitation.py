"""AugCitation: a citation graph with author-likes-paper links, and the paths that explain them."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.datasets.ground_truth import Labels, Rule, find_labelled_pairs
from pagelink.errors import GraphError, SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph


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
        SettingsError: a setting is out of its range, or fewer pairs qualify than links are wanted.
        GraphError: a node type is missing, or the new relation is there already.

    Example:
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
    pairs = find_labelled_pairs(
        TypedGraph.from_data(graph), author, paper,
        max_length=max_length, max_degree=max_degree, max_paths=max_paths, rule=rule,
    )  # fmt: skip
    if not len(pairs):
        raise SettingsError(
            f"No pair of {author} and {paper} qualifies in this graph. Raise max_degree or "
            "max_length."
        )
    if num_likes is None:
        num_likes = len(pairs)
    if not 1 <= num_likes <= len(pairs):
        raise SettingsError(
            f"num_likes must be in 1..{len(pairs)}, the number of pairs of {author} and {paper} "
            f"that qualify in this graph; got {num_likes}. Ask for fewer, or raise max_degree or "
            "max_length."
        )
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(pairs), size=num_likes, replace=False))
    likes = torch.from_numpy(np.stack([pairs.src[chosen], pairs.dst[chosen]]))
    data = copy.copy(graph)
    data[link_type].edge_index = likes
    return AugCitation(
        data=data,
        link_type=link_type,
        likes=likes,
        labels=pairs.labels(chosen),
        num_qualifying=len(pairs),
    )
