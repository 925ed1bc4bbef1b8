"""What a graph is like: counts, hubs, and the neighbourhoods that explaining a link deals with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch_geometric.data import Data, HeteroData

from pagelink.errors import GraphError
from pagelink.graph.computation_graph import NO_FACT, Extractor
from pagelink.graph.labels import phrase_of
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Longs
from pagelink.views.text import count

NUM_HOPS = 2
MAX_SAMPLE = 50
MAX_HUBS = 10
MAX_RELATIONS = 10
MAX_LABEL = 60


@dataclass(frozen=True)
class Degrees:
    """How many facts the nodes of a type have; all 0 if there are no nodes."""

    mean: float
    median: float
    max: int


@dataclass(frozen=True)
class Hub:
    """One of the nodes with the most facts."""

    node_type: str
    index: int
    name: str
    degree: int


@dataclass(frozen=True)
class Spread:
    """Median and maximum over a sample."""

    median: float
    max: int


@dataclass(frozen=True)
class Neighbourhood:
    """Sizes of the graphs within `NUM_HOPS` in-edge hops of the nodes, or pairs, of a sample."""

    num_sampled: int
    num_nodes: Spread
    num_edges: Spread
    num_visible: Spread
    """Edges that a model of `NUM_HOPS` layers can see."""


@dataclass(frozen=True)
class GraphDescription:
    """Counts, degrees, hubs and neighbourhood sizes of a graph. Its `str` is a text to read."""

    num_nodes: Mapping[str, int]
    num_edges: Mapping[EdgeType, int]
    num_facts: int
    """Edges and their reverses counted once; duplicates and self-loops are not counted."""
    reverse: Mapping[EdgeType, EdgeType]
    degrees: Mapping[str, Degrees]
    hubs: tuple[Hub, ...]
    """The nodes with the most facts, biggest first."""
    neighbourhood: Neighbourhood
    link_type: EdgeType | None
    """The sample is of pairs of its two node types, or of single nodes if it is None."""
    seed: int
    phrases: Mapping[EdgeType, tuple[str, str]] = field(default_factory=dict)
    """How relations read, from source to target and back."""

    def __str__(self) -> str:
        return self.text()

    def text(self, *, every: bool = False) -> str:
        """Return the text to read, with the largest relations, or with `every` one."""
        return "\n".join(_lines(self, every))


def describe(
    data: HeteroData | Data, link_type: EdgeType | None = None, *, seed: int = 0
) -> GraphDescription:
    """Describe a graph.

    Args:
        data: the graph.
        link_type: sample random pairs of its two node types, as an explainer would see them,
            instead of random nodes. It need not be a relation of the graph.
        seed: of the sample of at most 50.

    Raises:
        GraphError: the graph is malformed, or has no nodes or relations to describe.
        LinkError: the link type does not fit the graph.

    Example:
        >>> import torch
        >>> data = HeteroData()
        >>> data["user"].name, data["user"].num_nodes = ["Ada", "Bo", "Cy"], 3
        >>> data["user", "knows", "user"].edge_index = torch.tensor([[0, 1], [1, 2]])
        >>> description = describe(data)
        >>> description.degrees["user"].max, description.hubs[0].name
        (2, 'Bo')
    """
    if isinstance(data, HeteroData) and not data.edge_types:
        raise GraphError("The graph has no relations.")
    graph = TypedGraph.from_data(data, [] if link_type is None else [link_type])
    ends = graph.node_offset.tolist()
    degree_of = {
        node_type: graph.degree[start:stop]
        for node_type, start, stop in zip(graph.node_types, ends[:-1], ends[1:], strict=True)
    }
    biggest = np.argsort(-graph.degree, kind="stable")[:MAX_HUBS].tolist()
    src, dst = _sample(graph, link_type, np.random.default_rng(seed))
    return GraphDescription(
        num_nodes={t: len(degree) for t, degree in degree_of.items()},
        num_edges=dict(zip(graph.edge_types, graph.edge_counts, strict=True)),
        num_facts=int(graph.representative.sum()),
        reverse=graph.reverse,
        degrees={
            t: Degrees(float(degree.mean()), float(np.median(degree)), int(degree.max()))
            if len(degree)
            else Degrees(0.0, 0.0, 0)
            for t, degree in degree_of.items()
        },
        hubs=tuple(
            Hub(*graph.node(node), graph.node_name(node), int(graph.degree[node]))
            for node in biggest
        ),
        neighbourhood=_neighbourhood(graph, src, dst, link_type),
        link_type=link_type,
        seed=seed,
        phrases=dict(graph.phrases),
    )


def _sample(
    graph: TypedGraph, link_type: EdgeType | None, random: np.random.Generator
) -> tuple[Longs, Longs]:
    """Return the ends of random pairs, or random nodes as both ends."""
    if link_type is None:
        if graph.num_nodes == 0:
            raise GraphError("The graph has no nodes.")
        nodes = random.permutation(graph.num_nodes)[:MAX_SAMPLE]
        return nodes, nodes
    pairs = []
    for node_type in (link_type[0], link_type[2]):
        position = graph.node_types.index(node_type)
        low, high = graph.node_offset[position : position + 2].tolist()
        if low == high:
            raise GraphError(f"The graph has no nodes of type {node_type!r}.")
        pairs.append(random.integers(low, high, size=MAX_SAMPLE))
    return pairs[0], pairs[1]


def _neighbourhood(
    graph: TypedGraph, src: Longs, dst: Longs, link_type: EdgeType | None
) -> Neighbourhood:
    extractor = Extractor(graph, NUM_HOPS)
    sizes = []
    # One at a time: fifty neighbourhoods of a dense graph are many times the graph.
    for s, t in zip(src.tolist(), dst.tolist(), strict=True):
        fact = NO_FACT if link_type is None else graph.link_fact(s, t, link_type)
        found = extractor.extract(np.array([s]), np.array([t]), np.array([fact]))
        sizes.append((len(found.nodes), len(found.edges), int(found.visible.sum())))
    columns = np.array(sizes).T
    spreads = (Spread(float(np.median(column)), int(column.max())) for column in columns)
    return Neighbourhood(len(sizes), *spreads)


def _lines(it: GraphDescription, every: bool) -> Iterator[str]:
    total = sum(it.num_nodes.values())
    edges = sum(it.num_edges.values())
    yield (
        f"{total:,} nodes of {count(len(it.num_nodes), 'type')}, {edges:,} edges of "
        f"{count(len(it.num_edges), 'relation')}; {it.num_facts:,} facts, counting an edge and "
        "its reverse once."
    )
    yield ""
    rows: list[tuple[str, ...]] = [("node type", "nodes", "mean degree", "median", "max")]
    for node_type, size in it.num_nodes.items():
        degrees = it.degrees[node_type]
        rows.append(
            (node_type, f"{size:,}", f"{degrees.mean:,.1f}", f"{degrees.median:,g}",
             f"{degrees.max:,}")
        )  # fmt: skip
    yield from _aligned(rows)
    yield ""
    shown: dict[EdgeType, int] = {}
    for edge_type, size in it.num_edges.items():
        # A relation and its reverse are one line.
        if it.reverse.get(edge_type) not in shown:
            shown[edge_type] = size
    largest = sorted(shown, key=lambda edge_type: -shown[edge_type])[:MAX_RELATIONS]
    listed = list(shown) if every or len(shown) <= MAX_RELATIONS + 1 else largest
    # Where phrases are given they take the place of the names of reverses, which are made up.
    rows = [("relation", "edges", "reads" if it.phrases else "reverse")]
    for edge_type in listed:
        back = it.reverse.get(edge_type)
        # Of one node type, the relation alone says it all.
        name = edge_type[1] if len(it.num_nodes) == 1 and not every else " - ".join(edge_type)
        other = _phrases(it, edge_type) if it.phrases else back[1] if back else "none"
        half = MAX_LABEL // 2 if not it.phrases else MAX_LABEL * 2 // 3
        widths = (None, None) if every else (MAX_LABEL + MAX_LABEL // 2 - half, half)
        rows.append((_cut(name, widths[0]), f"{shown[edge_type]:,}", _cut(other, widths[1])))
    yield from _aligned(rows)
    if it.phrases:
        worded = sum(any(t in it.phrases for t in (e, it.reverse.get(e))) for e in shown)
        yield f"{worded} of {count(len(shown), 'relation')} have phrases; the others read by name."
    if len(listed) < len(shown):
        rest = sum(shown.values()) - sum(shown[edge_type] for edge_type in listed)
        others = count(len(shown) - len(listed), "smaller relation")
        yield f"... and {others} with {rest:,} edges; --all lists them."
    yield ""
    yield "Biggest hubs:"
    rows = [(f"  {hub.name} ({hub.node_type})", f"{hub.degree:,}") for hub in it.hubs]
    yield from _aligned(rows)
    yield ""
    around = it.neighbourhood
    what = "node" if it.link_type is None else f"pair of {it.link_type[0]} and {it.link_type[2]}"
    yield f"Within {NUM_HOPS} hops of a {what} ({around.num_sampled} sampled, seed {it.seed}):"
    rows = [("", "median", "max")]
    for label, spread in (
        ("  nodes", around.num_nodes),
        ("  edges", around.num_edges),
        ("  edges a model can see", around.num_visible),
    ):
        rows.append((label, f"{spread.median:,.0f}", f"{spread.max:,}"))
    yield from _aligned(rows)


def _phrases(it: GraphDescription, edge_type: EdgeType) -> str:
    """How a relation reads each way; a dash: by its name."""
    ways = (phrase_of(edge_type, it.phrases, it.reverse, backwards) for backwards in (False, True))
    return " / ".join(filter(None, ways)) or "-"


def _cut(name: str, width: int | None) -> str:
    """Cut a long name in front: the ends of addresses tell them apart."""
    return name if width is None or len(name) <= width else f"...{name[3 - width :]}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Put the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells])
