"""Planted mechanisms: graphs with models of set weights, of which it is known what they use.

Users and items have colours: nodes of the types red, green and blue. A model sees which colours a
user and an item share, so that its paths are user - colour - item, and its head says what sharing
is worth. The kinds of colours play their parts alike but for the head: paths of all of them are
equally short, and the degrees of their nodes are drawn from one distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import MessagePassing

from pagelink.errors import SettingsError, did_you_mean
from pagelink.explain.result import Explanation, Node
from pagelink.graph.schema import EdgeType
from pagelink.measure.verdict import Verdict

Mechanism = Literal[
    "one_metapath", "either", "many", "both", "inhibiting", "mean", "embedding_only"
]  # fmt: skip
MECHANISMS: tuple[str, ...] = get_args(Mechanism)
COLOURS = ("red", "green", "blue")
LINK_TYPE: EdgeType = ("user", "likes", "item")
Head = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""From the shared red, green and blue of each link, and its score by embeddings, to its logit."""
Counts = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class PlantedLink:
    """A link with the right answer."""

    src: int
    dst: int
    verdict: Verdict
    counts: frozenset[tuple[Node, ...]]
    """The paths that speak for the link, by their nodes. Empty: none does."""

    def top_is_right(self, explanation: Explanation) -> bool:
        """Whether the first path speaks for the link.

        Where none does: whether none is called evidence, or the model is said not to use paths.
        """
        if not self.counts:
            return self._nothing_claimed(explanation)
        return bool(explanation.paths) and explanation.paths[0].nodes in self.counts

    def evidence_is_right(self, explanation: Explanation) -> bool:
        """Whether every path that is called evidence speaks for the link."""
        return self._nothing_claimed(explanation) or all(
            path.nodes in self.counts for path in explanation.paths if path.is_evidence
        )

    def _nothing_claimed(self, explanation: Explanation) -> bool:
        evidence = explanation.evidence
        if evidence is not None and evidence.verdict == "structure_not_used":
            return True
        return not any(path.is_evidence for path in explanation.paths)

    def verdict_is_right(self, explanation: Explanation) -> bool:
        """Whether the verdict is the right one."""
        return explanation.evidence is not None and explanation.evidence.verdict == self.verdict


@dataclass(frozen=True)
class Planted:
    """A graph, a model of set weights, and links with the right answers."""

    mechanism: str
    data: HeteroData
    model: nn.Module
    links: tuple[PlantedLink, ...]
    colours: tuple[str, ...]
    """Which colours play the parts of red, green and blue in the head."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The links as an explainer takes them."""
        return [(link.src, link.dst) for link in self.links]


class _Collect(MessagePassing):
    """The sum, or the mean, of the neighbours."""

    def forward(self, x: Tensor, edge_index: Tensor, num_targets: int) -> Tensor:
        collected: Tensor = self.propagate(edge_index, x=x, size=(x.shape[0], num_targets))
        return collected

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


class PlantedModel(nn.Module):
    """Scores a link by the colours that its ends share, one layer deep; it has no parameters."""

    def __init__(self, head: Head, colours: Sequence[str], aggr: str = "sum") -> None:
        super().__init__()
        self.head = head
        self.colours = tuple(colours)
        self.collect = nn.ModuleDict(
            {f"{end}_{colour}": _Collect(aggr) for end in ("user", "item") for colour in colours}
        )

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        """Return the logits of the links."""
        shared = []
        for colour in self.colours:
            user, item = (
                self.collect[f"{end}_{colour}"](
                    x_dict[colour], edge_index_dict[colour, f"rev_{end}_{colour}", end],
                    x_dict[end].shape[0],
                )
                for end in ("user", "item")
            )  # fmt: skip
            shared.append((user[edge_label_index[0]] * item[edge_label_index[1]]).sum(-1))
        own = (
            x_dict["user"][edge_label_index[0]] * x_dict["item"][edge_label_index[1]]
        ).sum(-1)  # fmt: skip
        return self.head(shared[0], shared[1], shared[2], own)


def plant(
    mechanism: str, num_links: int = 48, seed: int = 0, num_decoys: int | None = None
) -> Planted:
    """Make a graph and a model with a known mechanism.

    Args:
        mechanism: one of `MECHANISMS`. `one_metapath`: a shared red counts, a green and a blue one
            are decoys. `either`: a red or a green one is enough. `many`: one of five reds is
            enough. `both`: red and green are needed together. `inhibiting`: red speaks for the link
            and green against it; a third of the links has no red, and for another third green
            outweighs it. `mean`: the share of red in all reds of both ends. `embedding_only`: the
            paths move the score by less than a hundredth.
        num_links: links with right answers.
        seed: of the graph.
        num_decoys: blue paths of each link, which never count. None: two, and one beside the green
            decoy of `one_metapath`.

    Raises:
        SettingsError: there is no such mechanism.

    Example:
        >>> planted = plant("either", num_links=3)
        >>> [len(link.counts) for link in planted.links]
        [2, 2, 2]
    """
    if mechanism not in MECHANISMS:
        raise SettingsError(
            f"A mechanism is one of {', '.join(MECHANISMS)}, got {mechanism!r}."
            + did_you_mean(mechanism, MECHANISMS)
        )
    rng = np.random.default_rng((seed, MECHANISMS.index(mechanism)))
    # Which type comes first in the graph must not tell which one counts.
    colours = tuple(rng.permutation(COLOURS).tolist())
    third = np.arange(num_links) % 3
    reds: Sequence[int] = [1] * num_links
    greens: Sequence[int] = [1] * num_links
    if mechanism == "many":
        reds, greens = [5] * num_links, [0] * num_links
    elif mechanism == "inhibiting":
        reds = np.where(third == 1, 0, 1).tolist()
        greens = np.where(third == 2, 4, 1).tolist()
    elif mechanism == "mean":
        reds = rng.integers(1, 4, num_links).tolist()
    if num_decoys is None:
        num_decoys = 1 if mechanism == "one_metapath" else 2
    counts = dict(zip(colours, (reds, greens, [num_decoys] * num_links), strict=True))
    data, shared = coloured_graph(
        counts, rng, 8 if mechanism == "mean" else 4, 30 if mechanism == "both" else 60
    )
    if mechanism == "embedding_only":
        own = torch.from_numpy(rng.random((2, num_links, 4))).float()
        data["user"].x, data["item"].x = 0.5 + own[0], 0.5 + own[1]
    which = {"either": colours[:2], "both": colours[:2], "embedding_only": ()}
    links = []
    for i in range(num_links):
        verdict: Verdict = "supported"
        if mechanism == "embedding_only":
            verdict = "structure_not_used"
        elif mechanism == "inhibiting" and third[i]:
            verdict = "structure_against"
        paths = frozenset(
            (("user", i), (colour, node), ("item", i))
            for colour in which.get(mechanism, colours[:1])
            for node in shared[colour][i]
        )
        links.append(PlantedLink(i, i, verdict, paths))
    model = PlantedModel(_HEADS[mechanism], colours, "mean" if mechanism == "mean" else "sum")
    return Planted(mechanism, data, model.eval(), tuple(links), colours)


def coloured_graph(
    counts: Counts, rng: np.random.Generator, least: int = 4, num_colours: int = 60
) -> tuple[HeteroData, dict[str, list[list[int]]]]:
    """Draw users and items with colours, user i and item i sharing some of each kind.

    Args:
        counts: per kind of colour, the number that user i and item i share.
        rng: where random numbers come from.
        least: colours of a kind that each user and item has at least; it has up to four more.
        num_colours: nodes of each kind.

    Returns:
        The graph, every relation with its reverse; nodes of a colour are one-hot. And per kind and
        pair, the shared nodes.
    """
    data = HeteroData()
    num_pairs = len(next(iter(counts.values())))
    for end in ("user", "item"):
        data[end].x = torch.zeros(num_pairs, 1)
    shared: dict[str, list[list[int]]] = {}
    for colour in COLOURS:
        data[colour].x = torch.eye(num_colours)
        shared[colour] = []
        edges: dict[str, list[tuple[int, int]]] = {"user": [], "item": []}
        for i, count in enumerate(counts[colour]):
            order = rng.permutation(num_colours).tolist()
            both = order[:count]
            shared[colour].append(sorted(both))
            used = count
            for end in ("user", "item"):
                more = max(least + int(rng.integers(5)) - count, 0)
                edges[end] += [(i, node) for node in [*both, *order[used : used + more]]]
                used += more
        for end, pairs in edges.items():
            index = torch.tensor(pairs)[torch.from_numpy(rng.permutation(len(pairs)))].t()
            data[end, f"{end}_{colour}", colour].edge_index = index.contiguous()
            data[colour, f"rev_{end}_{colour}", end].edge_index = index.flip(0).contiguous()
    return data, shared


def _at_most_one(shared: Tensor) -> Tensor:
    return shared.clamp(max=1)


_HEADS: dict[str, Head] = {
    "one_metapath": lambda red, green, blue, own: 5 * red - 2 + 0 * (green + blue + own),
    "either": lambda red, green, blue, own: (
        3 - 5 * (1 - _at_most_one(red)) * (1 - _at_most_one(green)) + 0 * (blue + own)
    ),
    "many": lambda red, green, blue, own: 5 * _at_most_one(red) - 2 + 0 * (green + blue + own),
    "both": lambda red, green, blue, own: 5 * red * green - 2 + 0 * (blue + own),
    "inhibiting": lambda red, green, blue, own: 4 + 2 * red - green + 0 * (blue + own),
    "mean": lambda red, green, blue, own: 0.2 + 60 * red + 0 * (green + blue + own),
    "embedding_only": lambda red, green, blue, own: own + 1e-3 * (red - green) + 0 * blue,
}
