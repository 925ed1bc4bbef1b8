"""L_path in its forms, and its gradient by the mask logits M.

Over E_path, the edges of the best paths by the current mask: the paper's formula as printed, the
same with means, and that of the released code. Or over all s-t walks of each length (`Walks`),
without a search.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from pagelink.runtime.arrays import Doubles, Floats, Ints, Longs
from pagelink.search.paths import PathGraphs


def path_gradient(
    form: str, logits: Floats, times: Longs, link: Ints, up: Doubles, down: Doubles, count: Longs
) -> tuple[Floats, Floats]:
    """The gradient of L_path by M, for links side by side.

    `sum`, as printed in the paper: -alpha * sum of M over E_path + beta * sum over the others.
    `mean`: the same with means. `released`, as the released code computes it:
    -alpha * mean of sigmoid(M) over E_path, in which an edge counts once for each path that it lies
    on, + beta * mean of sigmoid(M) over the others.

    Args:
        form: one of these; `power`, which adds the walks elsewhere, is as `mean` here.
        logits: M, one value per edge.
        times: the number of paths that the edge lies on; E_path are those with one or more.
        link: the link of the edge.
        up: alpha, per link.
        down: beta, per link.
        count: per link, the number of its edges, with those on no path that have no value here.

    Returns:
        One value per edge; and, per link, that of an edge on no path that has no value here (for
        `released`, at M = 0).
    """
    on_path = times > 0
    if form != "sum":
        on = np.bincount(link[on_path], minlength=len(up))
        down = down / np.maximum(count - on, 1)
        if form == "released":
            on = np.bincount(link, weights=times, minlength=len(up))
        up = up / np.maximum(on, 1)
    if form == "released":
        mask = 1 / (1 + np.exp(-logits.astype(np.float64)))
        by_weight = np.where(on_path, -up[link] * times, down[link])
        return (by_weight * mask * (1 - mask)).astype(np.float32), (down / 4).astype(np.float32)
    rise, fall = -up.astype(np.float32), down.astype(np.float32)
    return np.where(on_path, rise[link], fall[link]), fall


class Walks:
    """The walks from source to target in the path graphs of a batch.

    The entry (s, t) of the l-th power of a weighted adjacency is the sum, over all walks of l arcs
    from s to t, of the product of their weights; parallel arcs add up. One row of the power is
    enough, so a vector is multiplied by the adjacency l times, in log space.

    No walk goes through its source or target in between: path graphs have no such arcs. Sequences
    of relations that paths are held to do not count here.

    Args:
        paths: where walks may be.
        device: where weights are.
    """

    def __init__(self, paths: PathGraphs, device: torch.device | None = None) -> None:
        count = np.diff(paths.node_ptr)
        link = np.repeat(np.arange(paths.num_links), count)
        # A link has one more entry of arc_ptr than it has nodes.
        first = np.arange(len(paths.nodes)) + link
        out_degree = paths.arc_ptr[first + 1] - paths.arc_ptr[first]
        tail = np.repeat(np.arange(len(paths.nodes)), out_degree)
        head = paths.arc_dst + paths.node_ptr[link[tail]]
        self._max_length = paths.max_length
        self._num_nodes = len(paths.nodes)
        self._tail = torch.from_numpy(tail).to(device)
        self._head = torch.from_numpy(head.astype(np.int64)).to(device)
        self.links = np.flatnonzero(count)
        """The links that have walks."""
        start = paths.node_ptr[self.links]
        self._source = torch.from_numpy(start).to(device)
        counts = self.log_weights(torch.zeros(len(tail), dtype=torch.float64, device=device))
        self.log_counts = counts
        """[links, max_length]: log of the number of walks of length 1, 2, ...; -inf: there is none.
        """

    def log_weights(self, arc_log_weight: Tensor) -> Tensor:
        """Return the log of the summed weights of all walks of length 1 to l_max.

        Args:
            arc_log_weight: log of the weight of every arc, finite.

        Returns:
            [links, max_length], with gradients; -inf where there is no walk of the length.
        """
        # -inf has no usable gradient, so that unreached nodes have a finite stand-in for it.
        nowhere = -torch.finfo(arc_log_weight.dtype).max / 4
        reached = arc_log_weight.new_full((self._num_nodes,), nowhere)
        reached = reached.index_fill(0, self._source, 0.0)
        lengths = []
        for _ in range(self._max_length):
            step = reached[self._tail] + arc_log_weight
            with torch.no_grad():
                highest = torch.full_like(reached, nowhere).scatter_reduce(
                    0, self._head, step, "amax"
                )
            there = highest > nowhere / 2
            share = torch.where(there[self._head], (step - highest[self._head]).exp(), 0.0)
            total = torch.zeros_like(reached).index_add(0, self._head, share)
            reached = torch.where(there, highest + torch.where(there, total, 1.0).log(), nowhere)
            lengths.append(reached[self._source + 1])  # the target comes after the source
        found = torch.stack(lengths, dim=1)
        return torch.where(found > nowhere / 2, found, -math.inf)

    def loss(self, arc_log_weight: Tensor) -> Tensor:
        """Return, per link that has walks, minus the log of its mean weight of walks.

        Of each length, the mean weight of its walks, to the power of one over the length (so that
        long walks are not light by their length alone); of these, the mean over the lengths that
        there are.
        """
        there = torch.isfinite(self.log_counts)
        length = torch.arange(1, self._max_length + 1, device=arc_log_weight.device)
        summed = torch.where(there, self.log_weights(arc_log_weight), 0.0)
        counts = torch.where(there, self.log_counts, 0.0).to(summed.dtype)
        mean = torch.where(there, (summed - counts) / length, -math.inf)
        return there.sum(1).to(summed.dtype).log() - torch.logsumexp(mean, dim=1)
