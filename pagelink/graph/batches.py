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

from pagelink.graph.computation_graph import ComputationGraphs, Extractor, Found, num_edges
from pagelink.graph.links import Link
from pagelink.runtime.arrays import Longs
from pagelink.runtime.timer import OutOfTimeError, Timer

GIGABYTE = 2**30
BYTES_PER_EDGE = 80
"""Of an edge of a computation graph: itself, its mask, and copies on the way."""
BYTES_PER_NODE = 16
"""Of a node of a computation graph that is being found."""
LINKS_AT_ONCE = 64
"""Links that are extracted at once at most."""
SHORT = 0.125
"""A pass of the links of a batch takes this share of the deadline at most: a link of longer passes
is not worth the company."""


@dataclass
class Batch:
    """Links to explain side by side, in the order they were given, with malformed ones."""

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
    late: dict[int, float] = field(default_factory=dict)
    """The links whose time was over before they were extracted, by position, and their seconds."""

    @property
    def valid(self) -> list[Link]:
        """The links to explain: neither malformed nor late."""
        return [
            link
            for place, link in enumerate(self.links)
            if link.message is None and place not in self.late
        ]


class Batches:
    """Makes batches out of a stream of links.

    Args:
        extractor: extracts computation graphs.
        bytes_per_edge: what the model needs for an edge that goes through it.
        one_by_one: the model takes one link at a time.
        seconds_per_edge: how long a pass takes for an edge, about.
    """

    def __init__(
        self,
        extractor: Extractor,
        bytes_per_edge: float,
        one_by_one: bool,
        seconds_per_edge: float = 0.0,
    ) -> None:
        self.extractor = extractor
        self._bytes_per_edge, self._seconds_per_edge = bytes_per_edge, seconds_per_edge
        self._one_by_one = one_by_one

    @property
    def num_hops(self) -> int | None:
        """The radius of the computation graphs; None: each is the whole graph."""
        return self.extractor.num_hops

    def cut(
        self,
        links: Iterable[Link],
        most_links: int,
        memory: float,
        deadline: float | None = None,
    ) -> Iterator[Batch]:
        """Yield all links in order, in batches within the limits on links and gigabytes.

        A link that needs more than that, or much of its deadline for one pass, has a batch of its
        own.
        """
        limit = memory * GIGABYTE
        longest = np.inf if deadline is None else SHORT * deadline
        batch = Batch()
        for link, graph, cpu, seconds in self._extracted(iter(links), limit, most_links, deadline):
            visible = 0 if graph is None else int(graph.visible.sum())
            stored = 0 if graph is None else len(graph.edges)
            size = visible * self._bytes_per_edge + stored * BYTES_PER_EDGE
            full = batch.size + size > limit or (self._one_by_one and bool(batch.graphs))
            full |= (sum(batch.visible) + visible) * self._seconds_per_edge > longest
            if batch.links and full:
                yield batch
                batch = Batch()
            if graph is not None:
                batch.graphs.append(graph)
                batch.visible.append(visible)
                batch.size += size
                batch.cpu += cpu
                batch.seconds += seconds
            elif link.message is None:
                batch.late[len(batch.links)] = cpu
            batch.links.append(link)
            if len(batch.links) == most_links:  # before the next link is even read
                yield batch
                batch = Batch()
        if batch.links:
            yield batch

    def _extracted(
        self, links: Iterator[Link], limit: float, most_links: int, deadline: float | None
    ) -> Iterator[tuple[Link, ComputationGraphs | None, float, float]]:
        """Each link with its computation graph and the seconds it took.

        There is none if the link is malformed, or if its time was over before.
        """
        # As if each computation graph had all nodes.
        room = limit / (4 * BYTES_PER_NODE * max(self.extractor.num_nodes, 1))
        at_once = max(1, int(min(LINKS_AT_ONCE, room)))
        read = 0
        while group := list(islice(links, min(at_once, most_links - read % most_links))):
            read += len(group)
            started = process_time(), perf_counter()
            for part, found in self._that_fit(group, limit, deadline):
                yield from self._part(part, found, deadline, started)
                started = process_time(), perf_counter()

    def _part(
        self,
        links: list[Link],
        found: Found | None,
        deadline: float | None,
        started: tuple[float, float],
    ) -> Iterator[tuple[Link, ComputationGraphs | None, float, float]]:
        """Extract links at once, or one by one where that takes too much of their time."""
        valid = [link for link in links if link.message is None]
        graphs: Iterator[ComputationGraphs | None]
        try:
            until = Timer(deadline, len(valid)).last
            graphs = iter(self.extract(valid, found, until))
        except OutOfTimeError:
            if len(valid) > 1:
                for link in links:
                    now = process_time(), perf_counter()
                    yield from self._part([link], None, deadline, now)
                return
            graphs = iter([None])
        cpu = (process_time() - started[0]) / max(len(valid), 1)
        seconds = (perf_counter() - started[1]) / max(len(valid), 1)
        for link in links:
            if link.message is not None:
                yield link, None, 0.0, 0.0
            else:
                yield link, next(graphs), cpu, seconds

    def _that_fit(
        self, links: list[Link], limit: float, deadline: float | None
    ) -> Iterator[tuple[list[Link], Found | None]]:
        """Cut links into parts that take a quarter of the room when they are extracted at once.

        What was found on the way is given along where nothing had to be cut.
        """
        valid = [link for link in links if link.message is None]
        try:
            until = Timer(deadline, len(valid)).last
            found = self.extractor.find(*_arrays(valid), until=until) if valid else []
        except OutOfTimeError:
            for link in links:
                yield [link], None
            return
        sizes = num_edges(found).tolist() if valid else []
        if 4 * BYTES_PER_EDGE * sum(sizes) <= limit:
            yield links, found
            return
        counts = iter(sizes)
        part: list[Link] = []
        taken = 0
        for link in links:
            size = BYTES_PER_EDGE * next(counts) if link.message is None else 0
            if part and 4 * (taken + size) > limit:
                yield part, None
                part, taken = [], 0
            part.append(link)
            taken += size
        yield part, None

    def extract(
        self, links: list[Link], found: Found | None = None, until: float | None = None
    ) -> list[ComputationGraphs]:
        """Return the computation graphs of some links; `found` is what is known of them.

        Raises:
            OutOfTimeError: they were not extracted by `until`, a time of `time.perf_counter`.
        """
        if not links:
            return []
        graphs = self.extractor.extract(*_arrays(links), found=found, until=until)
        return [graphs.only(i) for i in range(len(links))]


def _arrays(links: list[Link]) -> Longs:
    """[3, num_links]: the source, the target and the fact of each link."""
    return np.array([(link.src, link.dst, link.fact) for link in links]).T
