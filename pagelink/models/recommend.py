"""Recommendations: the targets that a trained model links to a source with the highest logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pagelink.errors import SettingsError
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.negatives import Negatives

_TARGETS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Recommendation:
    """A target for a source."""

    index: int
    """Its index within the target's node type."""
    name: str
    logit: float
    probability: float


def recommend(
    checkpoint: Checkpoint, src: int | str, k: int = 10, *, exclude_known: bool = True
) -> list[Recommendation]:
    """Return the targets with the highest logits for a source, best first.

    Of targets with the same logit the one with the lower index comes first. The source itself is
    never among them.

    Args:
        checkpoint: the trained model with its graph.
        src: the source, by index or name.
        k: how many targets, 1 or more; fewer come back if there are no more.
        exclude_known: leave out the known links of the source: those of training, validation and
            test.

    Raises:
        LinkError: there is no such source.
        SettingsError: k is less than 1.
    """
    if k < 1:
        raise SettingsError(f"k must be at least 1, got {k}.")
    src_type, _, dst_type = checkpoint.link_type
    graph = checkpoint.graph
    _, source = graph.node(graph.find_node(src_type, src))
    num_src, num_dst = (int(checkpoint.data[t].num_nodes) for t in (src_type, dst_type))
    targets = np.arange(num_dst)
    sources = np.full(num_dst, source)
    if exclude_known:
        known = Negatives.for_links(num_src, num_dst, checkpoint.link_type, checkpoint.split.all)
        targets = targets[~known.are_known(sources, targets)]
    elif src_type == dst_type:
        targets = targets[targets != source]
    pairs = torch.from_numpy(np.stack([sources[: len(targets)], targets]))
    logits = torch.cat([checkpoint.score(part) for part in pairs.split(_TARGETS_AT_ONCE, dim=1)])
    order = torch.argsort(logits, descending=True, stable=True)[:k]
    return [
        Recommendation(
            index=int(targets[i]),
            name=graph.node_name(graph.flat_index(dst_type, int(targets[i]))),
            logit=float(logits[i]),
            probability=float(torch.sigmoid(logits[i])),
        )
        for i in order.tolist()
    ]
