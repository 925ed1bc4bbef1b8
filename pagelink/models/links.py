"""Links to learn from, and pairs that are not links.

The known links of a relation are split into training, validation and test links; negatives are
drawn uniformly, or with the degrees that links have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, SettingsError
from pagelink.graph.schema import EdgeType, nearest_relations, no_relation, relations_called
from pagelink.models.messages import fact_codes, pair_codes
from pagelink.runtime.arrays import Bools, Longs

_MOST_DRAWS = 51
_PAIRS_PER_NODE, _FEWEST_NODES = 4, 256


class Negatives:
    """Draws pairs that are not among the known links.

    Args:
        num_src: number of possible sources.
        num_dst: number of possible targets.
        known: pairs that must not be drawn, [2, num_known]; repetitions do no harm.
    """

    def __init__(self, num_src: int, num_dst: int, known: Tensor) -> None:
        self.num_src, self.num_dst = num_src, num_dst
        self._codes: Longs = np.unique(pair_codes(known, num_dst))

    @classmethod
    def for_links(cls, num_src: int, num_dst: int, link_type: EdgeType, links: Tensor) -> Negatives:
        """Take care of relations within one node type: no self-pairs, no turned links.

        There (u, v) and (v, u) are one fact, and a relation such as `resembles` is often stored one
        way only: a turned link would be a wrong negative.
        """
        if link_type[0] == link_type[2]:
            loops = torch.arange(num_src).expand(2, -1)
            links = torch.cat([links, links.flip(0), loops], dim=1)
        return cls(num_src, num_dst, links)

    def are_known(self, src: Longs, dst: Longs) -> Bools:
        """Return which pairs are known links."""
        codes = src * self.num_dst + dst
        place = np.searchsorted(self._codes, codes)
        found: Bools = np.append(self._codes, -1)[place] == codes
        return found

    def uniform(self, count: int, rng: np.random.Generator) -> Tensor:
        """Draw distinct pairs, uniformly among all that are not known; [2, count].

        Raises:
            GraphError: there are not that many pairs.
        """
        free = self.num_src * self.num_dst - len(self._codes)
        if count > free:
            raise GraphError(
                f"{count} negative pairs are wanted, but of the {self.num_src} x {self.num_dst} "
                f"pairs only {free} are not known links. Ask for fewer, or use fewer links."
            )
        ranks = rng.choice(free, size=count, replace=False)
        # The r-th free pair has as many known pairs before it as there are known pairs with at
        # most r free ones before them: no pair is drawn in vain, however dense the links are.
        before = np.searchsorted(self._codes - np.arange(len(self._codes)), ranks, side="right")
        drawn = ranks + before
        return torch.from_numpy(np.stack([drawn // self.num_dst, drawn % self.num_dst]))

    def pooled(self, count: int, rng: np.random.Generator) -> Tensor:
        """Draw pairs of few nodes; [2, count].

        Some sources and as many targets are drawn uniformly, and then pairs of them. A pair of any
        two nodes is as likely as of any other two, but of many pairs the neighbourhoods of a
        quarter as many nodes are sampled. Pairs may repeat.

        Raises:
            GraphError: there are not that many pairs.
        """
        size = max(count // _PAIRS_PER_NODE, _FEWEST_NODES)
        pools = [rng.integers(0, end, size=size) for end in (self.num_src, self.num_dst)]
        pairs, known = np.empty((2, count), dtype=np.int64), np.ones(count, dtype=np.bool_)
        for _ in range(_MOST_DRAWS):
            if not known.any():
                break
            pairs[:, known] = [rng.choice(pool, size=int(known.sum())) for pool in pools]
            known = self.are_known(*pairs)
        rest = self.uniform(int(known.sum()), rng)
        return torch.cat([torch.from_numpy(pairs[:, ~known]), rest], dim=1)

    def matched(self, links: Tensor, targets: Tensor, rng: np.random.Generator) -> Tensor:
        """Draw a pair per link: the same source with a target of another link, drawn at random.

        So sources have exactly, and targets nearly, the degrees of the links: a popular target is
        drawn as often as it is linked. What popularity alone can tell is gone.

        Args:
            links: the links to draw against, [2, num_links].
            targets: targets to draw from, repeated as often as they are linked.
            rng: source of randomness.

        Returns:
            Pairs, [2, num_links] at most: a link whose source has (nearly) all targets as known
            links gets no pair. Pairs may repeat.
        """
        src, pool = links[0].cpu().numpy(), targets.cpu().numpy()
        dst, known = np.empty_like(src), np.ones(len(src), dtype=np.bool_)
        for _ in range(_MOST_DRAWS):
            if not known.any():
                break
            dst[known] = rng.choice(pool, size=int(known.sum()))
            known = self.are_known(src, dst)
        return torch.from_numpy(np.stack([src[~known], dst[~known]]))


def sample_negatives(
    num_src: int, num_dst: int, known: Tensor, count: int, rng: np.random.Generator
) -> Tensor:
    """Draw distinct pairs, uniformly among all pairs that are not known links.

    Args:
        num_src: number of possible sources.
        num_dst: number of possible targets.
        known: pairs that must not be drawn, [2, num_known]; repetitions do no harm.
        count: number of pairs to draw.
        rng: source of randomness.

    Returns:
        Pairs, [2, count], in random order.

    Raises:
        GraphError: there are not that many pairs.

    Example:
        >>> known = torch.tensor([[0, 0, 1], [0, 1, 1]])
        >>> sample_negatives(2, 2, known, 1, np.random.default_rng(0)).tolist()
        [[1], [0]]
    """
    return Negatives(num_src, num_dst, known).uniform(count, rng)


@dataclass(frozen=True)
class LinkSplit:
    """Pairs (source index, target index), [2, num_links] each."""

    train: Tensor
    valid: Tensor
    test: Tensor
    given: bool = field(default=False, kw_only=True)
    """Whether the parts were given, and are used as they are: then (u, v) may be in one part and
    (v, u) in another, also of a relation within one node type."""

    @property
    def parts(self) -> dict[str, Tensor]:
        """The three parts by name."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    @property
    def all(self) -> Tensor:
        """The pairs of all three parts."""
        return torch.cat([self.train, self.valid, self.test], dim=1)


def split_links(pairs: Tensor, seed: int = 0, *, undirected: bool = False) -> LinkSplit:
    """Split links at random into training, validation and test links, 7:1:2.

    Args:
        pairs: distinct pairs, [2, num_links], at least ten.
        seed: seed of the split.
        undirected: (u, v) and (v, u) are one fact and go into the same part; for relations within
            one node type.

    Raises:
        GraphError: there are too few links, or one of them is there twice.

    Example:
        >>> split = split_links(torch.stack([torch.arange(20), torch.arange(20)]))
        >>> split.train.shape[1], split.valid.shape[1], split.test.shape[1]
        (14, 2, 4)
    """
    count = pairs.shape[1]
    if count < 10:
        raise GraphError(f"A split needs at least 10 links, got {count}.")
    distinct = torch.unique(pairs, dim=1).shape[1]
    if distinct < count:
        raise GraphError(
            f"Links to split must be distinct, but {count - distinct} of {count} are repeated: a "
            "repeated link could be in two parts. Drop the repetitions."
        )
    fact = torch.arange(count)
    if undirected:
        both = torch.stack([pairs.amin(dim=0), pairs.amax(dim=0)])
        fact = torch.unique(both, dim=1, return_inverse=True)[1]
    num_facts = int(fact.max()) + 1
    rank = torch.from_numpy(np.argsort(np.random.default_rng(seed).permutation(num_facts)))
    order = torch.argsort(rank[fact], stable=True)
    num_train, num_valid = num_facts * 7 // 10, num_facts // 10
    bounds = torch.tensor([num_train, num_train + num_valid])
    cuts = torch.searchsorted(rank[fact][order], bounds).tolist()
    train, valid, test = (pairs[:, part] for part in order.tensor_split(cuts))
    return LinkSplit(train, valid, test)


def split_graph(data: HeteroData, link_type: EdgeType, seed: int = 0) -> LinkSplit:
    """Split the links of a relation of a graph, 7:1:2.

    Copies of a link count once; within one node type (u, v) and (v, u) go into the same part.

    Raises:
        GraphError: the graph does not have the relation, or too few links of it.
    """
    if link_type not in data.edge_types:
        raise GraphError(no_relation(",".join(link_type), data.edge_types))
    pairs = torch.unique(data[link_type].edge_index, dim=1)
    return split_links(pairs, seed, undirected=link_type[0] == link_type[2])


def pairs_of_relations(data: HeteroData, link_type: EdgeType, relations: Sequence[str]) -> Tensor:
    """Return the pairs of sources and targets of a relation that other relations join, too.

    Whoever has read a book needs no recommendation of it: its pair is no new link.

    Args:
        data: the graph.
        link_type: the relation to predict.
        relations: names of other relations between the same node types, in either direction:
            `read`, or `reader,read,book`.

    Returns:
        The pairs, source first, [2, num_pairs].

    Raises:
        SettingsError: there is no such relation between these node types.

    Example:
        >>> data = HeteroData()
        >>> data["book", "read_by", "reader"].edge_index = torch.tensor([[4, 5], [0, 1]])
        >>> pairs_of_relations(data, ("reader", "likes", "book"), ["read_by"]).tolist()
        [[0, 1], [4, 5]]
    """
    ends = link_type[::2]
    joining = [each for each in data.edge_types if each[::2] in (ends, ends[::-1])]
    parts = [torch.empty((2, 0), dtype=torch.long)]
    for given in relations:
        found = relations_called(given, joining)
        if not found:
            raise SettingsError(
                f"There is no relation {given!r} between {ends[0]} and {ends[1]}. "
                + (nearest_relations(given, joining) if joining else "There is none at all.")
            )
        for each in found:
            pairs = data[each].edge_index.cpu()
            parts.append(pairs if each[::2] == ends else pairs.flip(0))
    return torch.cat(parts, dim=1)


def taken_pairs(
    data: HeteroData, link_type: EdgeType, split: LinkSplit, relations: Sequence[str]
) -> Tensor:
    """Return the pairs that are no new links, [2, num_pairs]: nothing ranks or recommends them.

    These are the links of training, validation and test, and the pairs of other relations; see
    `pairs_of_relations`.
    """
    return torch.cat([split.all, pairs_of_relations(data, link_type, relations)], dim=1)


def check_split(data: HeteroData, link_type: EdgeType, split: LinkSplit) -> None:
    """Refuse a split that does not fit the graph, or whose parts overlap.

    Raises:
        GraphError: an end of a link is not a node, a part is empty, or a link is in two parts.
    """
    for row, node_type in enumerate(link_type[::2]):
        size = int(data[node_type].num_nodes)
        for name, part in split.parts.items():
            if not part.shape[1]:
                raise GraphError(f"The {name} part of the split has no links of {link_type}.")
            low, high = int(part[row].min()), int(part[row].max())
            if low < 0 or high >= size:
                raise GraphError(
                    f"Links of {link_type} must have {node_type} indices in 0..{size - 1}, got "
                    f"{low}..{high}."
                )
    num_dst = int(data[link_type[2]].num_nodes)
    if split.given:
        codes = [pair_codes(part, num_dst) for part in split.parts.values()]
    else:
        codes = [fact_codes(part, link_type, num_dst) for part in split.parts.values()]
    parts = zip(("training", "validation", "test"), codes, strict=True)
    for (name, part_codes), (other_name, other_codes) in combinations(parts, 2):
        shared = np.intersect1d(part_codes, other_codes)
        if len(shared):
            src, dst = divmod(int(shared[0]), num_dst)
            raise GraphError(
                f"{len(shared)} links are both {name} and {other_name} links of "
                f"{link_type}, such as ({src}, {dst}): the model would be tested on what it was "
                "shown. Within one node type (u, v) and (v, u) are one link."
            )
