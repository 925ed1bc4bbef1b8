"""The paper's two statements about random graphs, to be held against counts.

The k-core theorem says how much of a large random graph pruning leaves; the proposition, that there
are far fewer paths between two nodes than subgraphs. Random graphs are G(n, m): m edges drawn
uniformly from all pairs of n nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from pagelink.errors import SettingsError
from pagelink.runtime.arrays import Longs
from pagelink.search.pruning import protected_core

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
        raise SettingsError(f"{num_nodes} nodes have {pairs} pairs, got {num_edges} edges.")
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


# The proposition on the size of the search: paths between two nodes against subgraphs.
#
# In a random graph G(n, m), m edges drawn uniformly from all pairs of n nodes, the paths between
# two nodes are far fewer than the sets of edges; so an explainer that returns paths has less to
# choose from. The numbers outgrow a float, so their logs are returned.


_MOST_EDGES = 20


def log_expected_paths(num_nodes: int, num_edges: int, max_length: int | None = None) -> float:
    """Return the log of the expected number of simple paths between two nodes of G(n, m).

    There are (n-2)! / (n-1-l)! ways to choose the inner nodes of a path of l edges in order, and
    with N = C(n, 2) all of its edges are drawn with probability C(N-l, m-l) / C(N, m)::

        Z = sum over l = 1 .. n-1 of (n-2)! / (n-1-l)! * (m)_l / (N)_l
        (a)_l = a * (a - 1) * ... * (a - l + 1)

    This is exact. The proof of the paper uses its limit, `log_paths_in_the_limit`.

    Args:
        num_nodes: n, 2 or more.
        num_edges: m.
        max_length: l_max, 1 or more, if only paths of at most this number of edges count.

    Returns:
        log Z, minus infinity if there are no edges. The number itself soon outgrows a float.

    Raises:
        SettingsError: n is below 2, l_max below 1, or there are not that many pairs of nodes.

    Example:
        In a complete graph of four nodes: one path of one edge, two of two, two of three.

        >>> round(math.exp(log_expected_paths(4, 6)), 6)
        5.0
    """
    pairs = _pairs(num_nodes, num_edges)
    if max_length is not None and max_length < 1:
        raise SettingsError(f"max_length must be at least 1, got {max_length!r}.")
    longest = min(num_nodes - 1, num_edges, max_length or num_nodes)
    # Term by term: the next length has one inner node and one drawn edge more.
    term, terms = 0.0, []
    for length in range(1, longest + 1):
        term += math.log((num_edges - length + 1) / (pairs - length + 1))
        terms.append(term)
        term += math.log(max(num_nodes - 1 - length, 1))
    if not terms:
        return -math.inf
    largest = max(terms)
    return largest + math.log(math.fsum(math.exp(each - largest) for each in terms))


def log_paths_in_the_limit(num_nodes: int, density: float) -> float:
    """Return the log of the paper's estimate of the number of paths: ``(n-2)! * d^(n-1) * e``.

    It holds up to a factor 1 + o(1) as n grows at a fixed density d. Nearly all paths it counts
    visit nearly all nodes.

    Example:
        In a complete graph the sum of 1 / j! that stands for e is nearly complete at once.

        >>> round(math.exp(log_paths_in_the_limit(4, 1.0)), 3)
        5.437
    """
    return math.lgamma(num_nodes - 1) + (num_nodes - 1) * math.log(density) + 1


def log_subgraphs(num_edges: int) -> float:
    """Return the log of the number of edge-induced subgraphs of a graph: ``log 2^m``.

    As in the paper, every set of edges counts, connected or not, the empty one too.

    Example:
        >>> round(math.exp(log_subgraphs(5)), 6)
        32.0
    """
    return num_edges * math.log(2)


def count_paths(src: Sequence[int], dst: Sequence[int], start: int, end: int) -> int:
    """Return the number of simple paths between two nodes of a small graph, by walking them all.

    Example:
        >>> count_paths([0, 1, 0, 2], [1, 3, 2, 3], start=0, end=3)
        2
    """
    neighbours: dict[int, list[int]] = {start: [], end: []}
    for one, other in zip(src, dst, strict=True):
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)

    def walk(node: int, visited: frozenset[int]) -> int:
        if node == end:
            return 1
        return sum(walk(to, visited | {to}) for to in neighbours[node] if to not in visited)

    return walk(start, frozenset([start]))


def count_connected_subgraphs(src: Sequence[int], dst: Sequence[int]) -> int:
    """Return the number of non-empty connected sets of edges of a small graph, by trying all.

    The choice that is left to an explainer that only returns connected subgraphs.

    Raises:
        SettingsError: There are more than 20 edges, a million sets.

    Example:
        Of the seven sets of three edges in a row, only the two outer ones do not hang together.

        >>> count_connected_subgraphs([0, 1, 2], [1, 2, 3])
        6
    """
    edges = list(zip(src, dst, strict=True))
    if len(edges) > _MOST_EDGES:
        raise SettingsError(f"At most {_MOST_EDGES} edges can be counted, got {len(edges)}.")
    every = range(1, len(edges) + 1)
    return sum(_connected(chosen) for size in every for chosen in combinations(edges, size))


def _connected(edges: Sequence[tuple[int, int]]) -> bool:
    reached, waiting = set(edges[0]), list(edges[1:])
    while waiting:
        left = [edge for edge in waiting if reached.isdisjoint(edge)]
        if len(left) == len(waiting):
            return False
        reached.update(node for edge in waiting if not reached.isdisjoint(edge) for node in edge)
        waiting = left
    return True


def _pairs(num_nodes: int, num_edges: int) -> int:
    pairs = math.comb(num_nodes, 2)
    if num_nodes < 2 or not 0 <= num_edges <= pairs:
        raise SettingsError(
            f"Two nodes or more have {pairs} pairs, got {num_nodes} nodes and {num_edges} edges."
        )
    return pairs
