"""The k-core theorem: how much of a large random graph pruning leaves, to be held against counts.

Random graphs are G(n, m): m edges drawn uniformly from all pairs of n nodes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pagelink.errors import SettingsError
from pagelink.pruning import protected_core

Longs = npt.NDArray[np.int64]

_HALVINGS = 200


def poisson_tail(mean: float, least: int) -> float:
    """Return P(X >= k) of a Poisson variable: ``1 - sum over j < k of mean^j / j! * exp(-mean)``.

    Example:
        >>> round(poisson_tail(2.0, 2), 6)
        0.593994
    """
    term, below = math.exp(-mean), 0.0
    for j in range(least):
        below += term
        term *= mean / (j + 1)
    return 1 - below


def core_threshold(core: int) -> float:
    """Return the mean degree above which a large random graph has a k-core.

    With psi_k(mu) = P(Poisson(mu) >= k)::

        c_k = min over mu > 0 of mu / psi_(k-1)(mu)

    Args:
        core: k, 1 or more. The infimum for k = 1 and 2 is a limit at mu = 0: 0 and 1.

    Raises:
        SettingsError: k is less than 1.

    Example:
        >>> [round(core_threshold(k), 2) for k in (2, 3, 4, 5)]
        [1.0, 3.35, 5.15, 6.8]
    """
    return _over_tail(_at_threshold(core), core)


def core_shares(mean_degree: float, core: int) -> tuple[float, float]:
    """Return the shares of nodes and edges that the k-core of a large random graph has.

    The theorem of Pittel, Spencer and Wormald, with c the mean degree and mu the larger root of
    mu / psi_(k-1)(mu) = c::

        nodes = psi_k(mu)        edges = mu^2 / c^2

    Both are 0 for c below `core_threshold`. A node is reached by an edge whose other end stays in
    the core with probability mu / c: so it has Poisson(mu) such edges and stays if these are k, and
    an edge stays if both of its ends do.

    Args:
        mean_degree: c = d * (n - 1); the paper's d * n is the same for large n.
        core: k, 1 or more.

    Returns:
        The two shares. By the theorem, |V^k| / n and |E^k| / m tend to them in probability.

    Raises:
        SettingsError: k is less than 1, or the mean degree is negative.

    Example:
        The paper's figure, about 0.69 for both:

        >>> nodes, edges = core_shares(7.0, core=5)
        >>> round(nodes, 3), round(edges, 3)
        (0.692, 0.694)
    """
    if not mean_degree >= 0:
        raise SettingsError(f"mean_degree must not be negative, got {mean_degree!r}.")
    low, high = _at_threshold(core), mean_degree
    if mean_degree <= _over_tail(low, core):
        return 0.0, 0.0
    # mu / psi grows from its minimum on, and at mu = c it is above c: the root lies between.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _over_tail(middle, core) > mean_degree else (middle, high)
    return poisson_tail(high, core), (high / mean_degree) ** 2


def random_graph(num_nodes: int, num_edges: int, seed: int) -> tuple[Longs, Longs]:
    """Return a graph drawn from G(n, m): the two ends of each edge, the smaller one first.

    Raises:
        SettingsError: There are not that many pairs of nodes.

    Example:
        >>> src, dst = random_graph(5, 10, seed=0)
        >>> sorted(zip(src.tolist(), dst.tolist()))[:5]
        [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2)]
    """
    pairs = math.comb(num_nodes, 2)
    if not 0 <= num_edges <= pairs:
        raise SettingsError(f"{num_nodes} nodes have {pairs} pairs, {num_edges} were asked for.")
    code = np.random.default_rng(seed).choice(pairs, size=num_edges, replace=False, shuffle=False)
    # Pairs (i, j) with i < j are numbered by j, then i: j(j - 1) / 2 + i. The root is off by one
    # where rounding has it just on the wrong side.
    dst = ((1 + np.sqrt(1 + 8 * code.astype(np.float64))) / 2).astype(np.int64)
    dst -= dst * (dst - 1) // 2 > code
    dst += (dst + 1) * dst // 2 <= code
    return code - dst * (dst - 1) // 2, dst


def counted_core_shares(src: Longs, dst: Longs, num_nodes: int, core: int) -> tuple[float, float]:
    """Return the shares of nodes and edges that the k-core of a given graph has.

    ``|V^k| / |V|`` and ``|E^k| / |E|``, by the pruning that explanations use, with no node
    protected; NaN over no nodes or no edges.

    Args:
        src: One end of each undirected edge, no self-loops.
        dst: The other end.
        num_nodes: Number of nodes.
        core: k.

    Example:
        A triangle with a tail of two edges keeps three of five nodes and three of five edges.

        >>> ends = np.array([0, 1, 2, 2, 3]), np.array([1, 2, 0, 3, 4])
        >>> counted_core_shares(*ends, num_nodes=5, core=2)
        (0.6, 0.6)
    """
    nobody, none = np.zeros(0, dtype=np.int64), np.zeros(num_nodes, dtype=np.bool_)
    kept = protected_core(src, dst, num_nodes, nobody, core, none)
    nodes = float(kept.mean()) if num_nodes else math.nan
    return nodes, float((kept[src] & kept[dst]).mean()) if len(src) else math.nan


def _over_tail(mean: float, core: int) -> float:
    """Return mu / psi_(k-1)(mu); at 0 its limit."""
    if mean == 0:
        return 1.0 if core == 2 else 0.0
    return mean / poisson_tail(mean, core - 1)


def _at_threshold(core: int) -> float:
    """Return where mu / psi_(k-1)(mu) is least.

    Its derivative is 0 where psi = mu * psi', that is P(X >= k-1) = (k-1) P(X = k-1), or
    sum over j >= 0 of mu^j (k-1)! / (k-1+j)! = k-1. The left side grows with mu, from 1.
    """
    if core < 1:
        raise SettingsError(f"core must be at least 1, got {core!r}.")
    if core <= 2:
        return 0.0
    low, high = 0.0, 2.0 * core
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _tail_in_first_terms(middle, core - 1) > core - 1 else (
            middle, high,
        )  # fmt: skip
    return high


def _tail_in_first_terms(mean: float, least: int) -> float:
    """Return P(X >= k) / P(X = k): 1 + mu / (k+1) + mu^2 / ((k+1)(k+2)) + ..."""
    term, total, j = 1.0, 0.0, least
    while term > 1e-17 * total:
        total += term
        j += 1
        term *= mean / j
    return total
