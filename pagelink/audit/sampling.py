"""Which links an audit looks at: a sample, stratified by source degree, target degree and score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from pagelink.errors import SettingsError
from pagelink.explain.options import check_whole_number
from pagelink.graph.links import Link, LinkLike, LinkReader
from pagelink.models.checkpoint import Checkpoint
from pagelink.runtime.arrays import Doubles, Longs

THIRDS = 3
"""Classes that each of the figures is cut into."""


def distinct(reader: LinkReader, links: Iterable[LinkLike]) -> list[LinkLike]:
    """Return links in their order, each once, however often and in whatever words it is given."""
    found: dict[Link, LinkLike] = {}
    for link in links:
        found.setdefault(reader.read_any(link), link)
    return list(found.values())


def classes(values: Sequence[float] | Doubles | Longs) -> Longs:
    """Cut values into up to three classes of about the same size; equal values stay together.

    Returns:
        The class of each value, from 0 up.

    Example:
        >>> classes([5, 1, 1, 1, 9, 7]).tolist()
        [1, 0, 0, 0, 2, 2]
    """
    given = np.asarray(values, dtype=np.float64)
    if not len(given):
        return np.empty(0, dtype=np.int64)
    # The middle of the places that equal values share.
    order = np.sort(given)
    low, high = np.searchsorted(order, given, "left"), np.searchsorted(order, given, "right")
    cut = np.minimum(THIRDS * (low + high) // (2 * len(given)), THIRDS - 1)
    found: Longs = np.unique(cut, return_inverse=True)[1].reshape(-1)
    return found


def stratified(strata: Sequence[Longs], count: int, seed: int) -> Longs:
    """Draw positions so that each combination of classes has its share of the sample.

    Shares are rounded by the largest remainders, so that the sample has exactly `count` positions
    (all, if there are not more); within a combination positions are drawn at random.

    Args:
        strata: classes of all positions, by each of several figures.
        count: the size of the sample.
        seed: of the draw.

    Returns:
        Positions in ascending order.

    Raises:
        SettingsError: `count` is not a whole number from 1 up.

    Example:
        >>> stratified([np.array([0, 0, 0, 0, 1, 1])], 3, seed=0).tolist()
        [1, 3, 5]
    """
    check_whole_number("sample", count, 1)
    if not strata:
        raise SettingsError("A stratified sample takes at least one figure to cut into classes.")
    total = len(strata[0])
    if count >= total:
        return np.arange(total)
    _, cell = np.unique(np.stack(strata), axis=1, return_inverse=True)
    cell = cell.reshape(-1)
    wanted = np.bincount(cell) * count / total
    sizes = np.floor(wanted).astype(np.int64)
    rest = np.argsort(-(wanted - sizes), kind="stable")[: count - int(sizes.sum())]
    sizes[rest] += 1
    rng = np.random.default_rng((seed, total, count))
    drawn = [
        rng.choice(np.flatnonzero(cell == number), size, replace=False)
        for number, size in enumerate(sizes.tolist())
        if size
    ]
    return np.sort(np.concatenate(drawn))


def predicted_links(
    checkpoint: Checkpoint, count: int, threshold: float | None, seed: int
) -> list[LinkLike]:
    """Return a stratified sample of the test links that a model predicts.

    Args:
        checkpoint: the model with its graph and its test links.
        count: the size of the sample.
        threshold: links of a lower score are not predicted; None: all are.
        seed: of the draw.

    Raises:
        SettingsError: no test link is predicted.
    """
    pairs = checkpoint.split.test
    first = np.unique(pairs.numpy(), axis=1, return_index=True)[1]
    pairs = pairs[:, torch.from_numpy(np.sort(first))]  # each once
    score = checkpoint.score(pairs).double().cpu().numpy()
    kept = np.flatnonzero(score >= (-np.inf if threshold is None else threshold))
    if not len(kept):
        raise SettingsError(
            f"None of the {pairs.shape[1]} test links has a score of {threshold} or more. Give a "
            "lower --threshold, --rank-only, or --links."
        )
    src, dst = pairs[:, torch.from_numpy(kept)].tolist()
    return _sampled(checkpoint, list(zip(src, dst, strict=True)), score[kept], count, seed)


def sample_links(
    checkpoint: Checkpoint, links: Sequence[LinkLike], count: int, seed: int
) -> list[LinkLike]:
    """Return a stratified sample of some links, each once; malformed ones count as of score 0."""
    graph = checkpoint.graph
    reader = LinkReader(graph, [checkpoint.link_type])
    links = distinct(reader, links)
    read = [reader.read_any(link) for link in links]
    valid = [i for i, link in enumerate(read) if link.message is None]
    ends = [[graph.node(node)[1] for node in (read[i].src, read[i].dst)] for i in valid]
    score = np.zeros(len(read))
    if valid:
        score[valid] = checkpoint.score(torch.tensor(ends).T).double().cpu().numpy()
    return _sampled(checkpoint, list(links), score, count, seed)


def _sampled(
    checkpoint: Checkpoint, links: list[LinkLike], score: Doubles, count: int, seed: int
) -> list[LinkLike]:
    graph = checkpoint.graph
    reader = LinkReader(graph, [checkpoint.link_type])
    ends = np.array([(link.src, link.dst) for link in map(reader.read_any, links)]).T
    strata = [classes(np.where(end < 0, -1, graph.degree[end])) for end in ends]
    chosen = stratified([*strata, classes(score)], count, seed)
    return [links[i] for i in chosen.tolist()]
