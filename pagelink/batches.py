"""A stream of links, cut into batches that fit into memory.

Links are extracted a few at a time and gathered until the next one would go beyond the limit; which
links share a batch never shows in a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter, process_time

import numpy as np

from pagelink.asked_links import Link
from pagelink.computation_graph import ComputationGraphs, Extractor

GIGABYTE = 2**30
BYTES_AN_EDGE = 80
"""Of an edge of a computation graph: itself, its mask, and copies on the way."""
LINKS_AT_ONCE = 64
"""Links that are extracted at once at most."""


@dataclass
class Batch:
    """Links to explain side by side, in the order they were asked for, with malformed ones."""

    links: list[Link] = field(default_factory=list)
    graphs: list[ComputationGraphs] = field(default_factory=list)
    """Of the links that are not malformed."""
    visible: list[int] = field(default_factory=list)
    """Their numbers of visible edges."""
    size: float = 0.0
    """Bytes that explaining will take, about."""
    cpu: float = 0.0
    """CPU seconds spent so far."""
    seconds: float = 0.0

    @property
    def valid(self) -> list[Link]:
        """The links that are not malformed."""
        return [link for link in self.links if link.message is None]


class Batches:
    """Makes batches out of a stream of links.

    Args:
        extractor: extracts computation graphs.
        bytes_a_visible_edge: what the model needs for an edge that goes through it.
        one_by_one: the model takes one link at a time.
    """

    def __init__(self, extractor: Extractor, bytes_a_visible_edge: float, one_by_one: bool) -> None:
        self._extractor = extractor
        self._bytes_a_visible_edge = bytes_a_visible_edge
        self._one_by_one = one_by_one

    def cut(self, links: Iterable[Link], most_links: int, memory: float) -> Iterator[Batch]:
        """Yield all links in order, in batches of at most so many links and gigabytes.

        A link that needs more than that has a batch of its own.
        """
        limit = memory * GIGABYTE
        batch = Batch()
        for link, graph, cpu, seconds in self._extracted(iter(links), limit, most_links):
            visible = 0 if graph is None else int(graph.visible.sum())
            size = 0.0 if graph is None else self._size(graph, visible)
            full = batch.size + size > limit or (self._one_by_one and bool(batch.graphs))
            if batch.links and full:
                yield batch
                batch = Batch()
            batch.links.append(link)
            if graph is not None:
                batch.graphs.append(graph)
                batch.visible.append(visible)
            batch.size += size
            batch.cpu += cpu
            batch.seconds += seconds
            if len(batch.links) == most_links:  # before the next link is even read
                yield batch
                batch = Batch()
        if batch.links:
            yield batch

    def _size(self, graph: ComputationGraphs, visible: int) -> float:
        return visible * self._bytes_a_visible_edge + len(graph.edges) * BYTES_AN_EDGE

    def _extracted(
        self, links: Iterator[Link], limit: float, most_links: int
    ) -> Iterator[tuple[Link, ComputationGraphs | None, float, float]]:
        """Each link with its computation graph (None if malformed) and the seconds it took."""
        count, largest, read = 1, 1.0, 0
        while group := list(islice(links, min(count, most_links - read % most_links))):
            read += len(group)
            started = process_time(), perf_counter()
            valid = [link for link in group if link.message is None]
            graphs = iter(self.extract(valid))
            cpu = (process_time() - started[0]) / max(len(valid), 1)
            seconds = (perf_counter() - started[1]) / max(len(valid), 1)
            for link in group:
                if link.message is not None:
                    yield link, None, 0.0, 0.0
                    continue
                graph = next(graphs)
                largest = max(largest, self._size(graph, int(graph.visible.sum())))
                yield link, graph, cpu, seconds
            # No more at once than take a quarter of the room, by the largest one so far.
            room = min(limit / 4 / largest, LINKS_AT_ONCE)
            count = max(1, min(2 * count, int(room)))

    def extract(self, links: list[Link]) -> list[ComputationGraphs]:
        """Return the computation graphs of some links."""
        if not links:
            return []
        ends = ([link.src for link in links], [link.dst for link in links])
        facts = [link.fact for link in links]
        graphs = self._extractor.extract(*(np.array(values) for values in (*ends, facts)))
        return [graphs.only(i) for i in range(len(links))]
