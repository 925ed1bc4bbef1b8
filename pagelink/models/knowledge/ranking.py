"""Filtered ranks of heads and tails, MRR and Hits@k, over all relations and of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pagelink.graph.schema import EdgeType, edge_type_of
from pagelink.models.knowledge.facts import KnownFacts
from pagelink.models.knowledge.model import KnowledgeModel, Vectors

QUERIES_AT_ONCE = 256
HITS = (1, 3, 10)
Ranks = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RankFigures:
    """Means over queries: each link is two of them, for its tail and for its head."""

    num_queries: int
    mrr: float
    """Mean of 1 / rank; NaN without queries."""
    spread: float
    """Half the width of the 95 % interval of the MRR."""
    hits: tuple[float, ...]
    """Share of the queries whose answer is among the first 1, 3 and 10."""

    @classmethod
    def of(cls, ranks: Ranks) -> RankFigures:
        """Return the figures of some ranks.

        Example:
            >>> RankFigures.of(np.array([1.0, 2.0])).mrr
            0.75
        """
        if not len(ranks):
            return cls(0, float("nan"), float("nan"), (float("nan"),) * len(HITS))
        each = 1 / ranks
        error = float(each.std(ddof=1)) / len(each) ** 0.5 if len(each) > 1 else float("nan")
        hits = tuple(float((ranks <= k).mean()) for k in HITS)
        return cls(len(ranks), float(each.mean()), 1.96 * error, hits)

    def __str__(self) -> str:
        hits = ", ".join(f"Hits@{k} {share:.3f}" for k, share in zip(HITS, self.hits, strict=True))
        return f"MRR {self.mrr:.3f} (± {self.spread:.3f}), {hits}"

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RankFigures:
        """Return the figures that were kept as plain values."""
        return cls(**{**plain, "hits": tuple(plain["hits"])})


@dataclass(frozen=True)
class TestRanks:
    """Figures of test links: of both ends, of each end, and of each relation."""

    __test__ = False  # not a test, whatever its name

    both: RankFigures
    tails: RankFigures
    heads: RankFigures
    relations: tuple[tuple[EdgeType, RankFigures], ...]
    """Those with test links, most links first; figures of both ends."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> TestRanks:
        """Return the figures that `to_dict` was called on."""
        relations = tuple(
            (edge_type_of(t), RankFigures.from_dict(each)) for t, each in plain["relations"]
        )
        both, tails, heads = (
            RankFigures.from_dict(plain[name]) for name in ("both", "tails", "heads")
        )
        return cls(both, tails, heads, relations)


def test_ranks(
    tails: Ranks, heads: Ranks, relation: npt.NDArray[np.int64], link_types: Sequence[EdgeType]
) -> TestRanks:
    """Return the figures of ranks of tails and heads of the same links.

    Args:
        tails: ranks, one per link.
        heads: the same.
        relation: of each link, as a position in `link_types`.
        link_types: the relations.
    """
    found = []
    counts = np.bincount(relation, minlength=len(link_types))
    for position in np.argsort(-counts, kind="stable")[: int((counts > 0).sum())].tolist():
        mine = relation == position
        figures = RankFigures.of(np.concatenate([tails[mine], heads[mine]]))
        found.append((link_types[position], figures))
    both = RankFigures.of(np.concatenate([tails, heads]))
    return TestRanks(both, RankFigures.of(tails), RankFigures.of(heads), tuple(found))


test_ranks.__test__ = False  # type: ignore[attr-defined]


def allowed_nodes(
    link_types: Sequence[EdgeType], first: Mapping[str, int], num_nodes: int, inverse: bool
) -> Tensor | None:
    """Return what is added to logits so that only nodes of the right type answer; None: nothing.

    Returns:
        [num_relations, num_nodes], 0 for nodes of the type that is sought and -inf for others.
    """
    if len(first) == 1:
        return None
    ends = sorted([*first.values(), num_nodes])
    mask = torch.full((len(link_types), num_nodes), -torch.inf)
    for position, edge_type in enumerate(link_types):
        start = first[edge_type[0 if inverse else 2]]
        stop = next((end for end in ends if end > start), num_nodes)
        mask[position, start:stop] = 0
    return mask


def filtered_ranks(
    model: KnowledgeModel,
    vectors: Vectors,
    triples: Tensor,
    known: KnownFacts,
    first: Mapping[str, int],
    num_nodes: int,
    *,
    inverse: bool,
) -> Ranks:
    """Return the rank of the tail (inverse: of the head) of each triple, from 1 up.

    One more than the number of nodes of a higher score; one of the same score counts half. Nodes
    that answer the query, too, as a fact of any part says, are not counted.
    """
    one, relation, other = triples if not inverse else triples.flip(0)
    mask = allowed_nodes(model.link_types, first, num_nodes, inverse)
    ranks = []
    with torch.no_grad():
        for part in torch.arange(triples.shape[1]).split(QUERIES_AT_ONCE):
            logits = model.against(vectors, one[part], relation[part], inverse)
            if mask is not None:
                logits = logits + mask[relation[part]]
            true = logits.gather(1, other[part, None])
            rows, answers = known.others(one[part], relation[part], inverse)
            logits[torch.from_numpy(rows), torch.from_numpy(answers)] = -torch.inf
            above, level = (logits > true).sum(dim=1), (logits == true).sum(dim=1)
            ranks.append((1 + above + level / 2).numpy().astype(np.float64))
    return np.concatenate(ranks) if ranks else np.empty(0)
