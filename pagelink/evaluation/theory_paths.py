"""The proposition on the size of the search: paths between two nodes against subgraphs.

In a random graph G(n, m), m edges drawn uniformly from all pairs of n nodes, the paths between two
nodes are far fewer than the sets of edges; so an explainer that returns paths has less to choose
from. The numbers outgrow a float, so their logs are returned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from pagelink.errors import SettingsError

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
        max_length: l_max, 1 or more, if only paths of at most so many edges count.

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
