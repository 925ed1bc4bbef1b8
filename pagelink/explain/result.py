"""Results, which know how they were made: the learned mask of a link, its paths, all of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from pagelink.errors import GraphError
from pagelink.measure.verdict import Evidence
from pagelink.settings import Settings

EdgeType = tuple[str, str, str]
Stored = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


class EdgeMask(Mapping[EdgeType, npt.NDArray[np.float32]]):
    """The learned mask of a link, per edge type, one value per edge of the data in its order.

    Only the edges that have a value are stored; an array over all edges of a type, 0 elsewhere, is
    made when it is looked up.
    """

    def __init__(self, sizes: Mapping[EdgeType, int], values: Mapping[EdgeType, Stored]) -> None:
        self._sizes = dict(sizes)
        self._values = dict(values)
        self._edges: tuple[npt.NDArray[Any], ...] = ()

    @classmethod
    def of_edges(
        cls,
        sizes: Mapping[EdgeType, int],
        relation: npt.NDArray[Any],
        column: npt.NDArray[Any],
        logits: npt.NDArray[np.float32],
    ) -> EdgeMask:
        """Return the mask of some edges: the position of their type in `sizes`, column, logit.

        They are put in order by type when they are first looked up.
        """
        mask = cls(sizes, {})
        mask._edges = relation, column, logits
        return mask

    def _stored(self) -> dict[EdgeType, Stored]:
        if self._edges:
            relation, column, logits = self._edges
            order = np.argsort(relation, kind="stable")
            bounds = np.searchsorted(relation[order], np.arange(len(self._sizes) + 1))
            column, value = column[order].astype(np.int64), 1 / (1 + np.exp(-logits[order]))
            for edge_type, first, last in zip(self._sizes, bounds, bounds[1:], strict=False):
                if last > first:
                    self._values[edge_type] = column[first:last], value[first:last]
            self._edges = ()
        return self._values

    def __getitem__(self, edge_type: EdgeType) -> npt.NDArray[np.float32]:
        dense = np.zeros(self._sizes[edge_type], dtype=np.float32)
        index, value = self.stored(edge_type)
        dense[index] = value
        return dense

    def __iter__(self) -> Iterator[EdgeType]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def stored(self, edge_type: EdgeType) -> Stored:
        """Return the columns that have a value, and the values."""
        empty = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        return self._stored().get(edge_type, empty)

    def to_list(self) -> list[dict[str, Any]]:
        """Return the stored values as plain lists."""
        return [
            {
                "type": list(edge_type),
                "size": size,
                "index": self.stored(edge_type)[0].tolist(),
                "value": [round(float(v), 6) for v in self.stored(edge_type)[1]],
            }
            for edge_type, size in self._sizes.items()
        ]

    @classmethod
    def from_list(cls, entries: list[dict[str, Any]]) -> EdgeMask:
        """Return the mask that `to_list` gave."""
        sizes: dict[EdgeType, int] = {}
        values = {}
        for entry in entries:
            src, relation, dst = entry["type"]
            edge_type = (src, relation, dst)
            sizes[edge_type] = entry["size"]
            values[edge_type] = (
                np.asarray(entry["index"], dtype=np.int64),
                np.asarray(entry["value"], dtype=np.float32),
            )
        return cls(sizes, values)


Node = tuple[str, int]
Reason = Literal[
    "not_connected", "beyond_max_length", "pruned_away", "excluded",
    "predicted_negative", "invalid", "out_of_time",
]  # fmt: skip
REASONS: tuple[str, ...] = get_args(Reason)


@dataclass(frozen=True)
class PathEdge:
    """One fact of a path, as it is walked."""

    type: EdgeType
    """The stored edge type that is walked."""
    index: int
    """Its column in `data[type].edge_index` (in `data.edge_index` of a homogeneous graph)."""
    reversed: bool
    """Walked against the stored direction, because the graph stores no reverse of this fact."""
    label: str
    """The relation in words."""
    label_backwards: bool
    """The words read from the walk's end to its start: "A <- buys - B" for "B buys A"."""
    mask: float
    """The learned mask of the edge, 0..1."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of the fact: its source, its date, and the like."""
    influence: float | None = None
    """How much the logit falls when this fact alone is removed; None if it was not measured."""


@dataclass(frozen=True, eq=False)
class Path:
    """A simple path from the source to the target of the link.

    Two paths are equal if nodes and relations agree in order.
    """

    nodes: tuple[Node, ...]
    edges: tuple[PathEdge, ...]
    names: tuple[str, ...]
    """How the nodes are called, in the same order."""
    degrees: tuple[int, ...]
    """Degrees of the nodes in the whole graph, in the same order."""
    score: float
    """Score(p) of the paper: the sum over its edges of log sigmoid(M_e) - log D_v."""
    influence: float | None = None
    """How much the logit falls when the facts of this path alone are removed."""
    marginal: float | None = None
    """How much the influence of the returned paths falls when this one is left out of them."""
    added: float | None = None
    """How much the logit of the graph without any path rises when the facts of this path alone are
    put into it; measured only where the influence is one of insertion."""
    connection: float | None = None
    """Its influence minus the mean influence of control pairs: two facts of the same relations at
    source and target that are on no common path. None if there are no such facts."""
    is_evidence: bool | None = None
    """Whether its marginal influence is beyond the noise, and so is that of some set of paths; else
    it is only context. None: not measured. For a predicted negative: whether it speaks
    for the link, by its influence alone."""
    runs: int | None = None
    """In how many runs, each with a seed of its own, it was returned; None if there was but one."""

    @property
    def weakest(self) -> int | None:
        """Position of the fact whose removal alone lowers the score least."""
        values = [edge.influence for edge in self.edges]
        known = [value for value in values if value is not None]
        return values.index(min(known)) if known else None

    @property
    def relations(self) -> tuple[tuple[EdgeType, bool], ...]:
        """Edge type of each fact, and whether it is walked against the stored direction."""
        return tuple((edge.type, edge.reversed) for edge in self.edges)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Path):
            return NotImplemented
        return (self.nodes, self.relations) == (other.nodes, other.relations)

    def __hash__(self) -> int:
        return hash((self.nodes, self.relations))

    def __len__(self) -> int:
        return len(self.edges)


@dataclass(frozen=True)
class Explanation:
    """Why the model predicts a link: a few short paths, or the reason why there are none.

    `logit` is the model's word with the explained link taken out of the graph; `logit_deployed` is
    its word on the graph as it is, the same number unless the link is part of the graph.
    """

    link_type: EdgeType
    src: Node
    dst: Node
    src_name: str
    dst_name: str
    logit: float | None
    logit_deployed: float | None
    paths: tuple[Path, ...]
    reason: Reason | None
    message: str
    """The reason in words; empty if there are paths and nothing went wrong."""
    notes: tuple[str, ...]
    """What else a reader must know: pruning was undone, the model is not local, and the like."""
    edge_mask: EdgeMask = field(repr=False, compare=False)
    num_hops: int | None
    """L, the number of hops the model sees; None if it sees the whole graph."""
    epochs: int
    """Mask-learning steps taken."""
    settings: Settings = field(repr=False)
    seed: int
    seconds: float = field(compare=False)
    """CPU seconds for this link (its share of its batch)."""
    evidence: Evidence | None = None
    """What the paths are worth to the model; None if it was not measured."""
    link_in_graph: bool = False
    """Whether the explained link was among the edges of the graph."""
    threshold: float | None = 0.0
    """Links with a lower logit are predicted negatives; None: the model only ranks."""
    noise: float = field(default=0.0, compare=False)
    """Tau: the largest change of the score that counts as none."""
    direct_relations: tuple[str, ...] = ()
    """Relations that join source and target directly and may be the link itself under another name,
    as `Settings.exclude_relations` takes them; the first note is about them."""
    rank: int | None = None
    """Rank of the target (or the source, see `rank_end`) among those ranked: one more than there
    are of a higher score. None: not requested."""
    rank_without_these: int | None = None
    """The same on the graph without the facts of the returned paths; None if there are none."""
    rank_of: int | None = None
    """How many nodes were ranked: a sample of those the other end is not linked to, and its own."""
    rank_end: Literal["src", "dst"] | None = None
    """Which end was ranked, the target (`dst`) or the source (`src`); None: not requested."""
    runs: int | None = None
    """How many runs, each with a seed of its own, `Path.runs` counts; None if there was but one."""
    versions: Mapping[str, str] = field(repr=False, compare=False, default_factory=dict)

    @property
    def is_negative(self) -> bool:
        """Whether the model does not predict the link, also where the deadline cut its paths."""
        if self.reason != "out_of_time" or self.logit is None or self.threshold is None:
            return self.reason == "predicted_negative"
        return self.logit < self.threshold

    @property
    def probability(self) -> float | None:
        """sigmoid(logit)."""
        return None if self.logit is None else sigmoid(self.logit)

    @property
    def probability_deployed(self) -> float | None:
        """sigmoid(logit_deployed)."""
        return None if self.logit_deployed is None else sigmoid(self.logit_deployed)

    def __str__(self) -> str:
        from pagelink.views.pages import to_text

        return to_text(self)

    def to_svg(self) -> str:
        """Draw the paths from the source on the left to the target on the right."""
        from pagelink.views.pages import to_svg

        return to_svg(self)

    def to_png(self) -> bytes:
        """Draw the same as a PNG."""
        from pagelink.views.pages import to_png

        return to_png(self)

    def to_html(self) -> str:
        """Return one self-contained page that needs no network."""
        from pagelink.views.pages import to_html

        return to_html(self)

    def _repr_html_(self) -> str:
        from pagelink.views.pages import to_html_fragment

        return to_html_fragment(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings, ready for JSON."""
        return {
            **{
                each.name: plain(getattr(self, each.name))
                for each in fields(self)
                if each.name not in ("edge_mask", "settings")
            },
            "probability": self.probability,
            "edge_mask": self.edge_mask.to_list(),
            "settings": self.settings.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Explanation:
        """Return the explanation that `to_dict` gave."""
        reason, evidence = values["reason"], values.get("evidence")
        if reason is not None and reason not in REASONS:
            raise GraphError(f"reason must be one of {REASONS}, got {reason!r}.")
        given = _fields_in(cls, values)
        given |= {
            "link_type": tuple(values["link_type"]),
            "src": tuple(values["src"]),
            "dst": tuple(values["dst"]),
            "paths": tuple(_path_from_dict(path) for path in values["paths"]),
            "evidence": None if evidence is None else Evidence(**evidence),
            "notes": tuple(values["notes"]),
            "direct_relations": tuple(values.get("direct_relations", ())),
            "edge_mask": EdgeMask.from_list(values["edge_mask"]),
            "settings": Settings.from_dict(values["settings"]),
        }
        return cls(**given)


def sigmoid(logit: float) -> float:
    """Return the probability of a logit."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else 1 - 1 / (1 + math.exp(logit))


def _fields_in(kind: type[Explanation | Path], values: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: values[each.name] for each in fields(kind) if each.name in values}


def _path_from_dict(values: Mapping[str, Any]) -> Path:
    given = _fields_in(Path, values)
    given |= {
        "nodes": tuple((kind, index) for kind, index in values["nodes"]),
        "edges": tuple(
            PathEdge(**{**edge, "type": tuple(edge["type"])}) for edge in values["edges"]
        ),
        "names": tuple(values["names"]),
        "degrees": tuple(values["degrees"]),
    }
    return Path(**given)


def plain(value: Any) -> Any:
    """Return what JSON can hold: dataclasses as dicts, tuples as lists, dates and others as text.

    Example:
        >>> plain((("user", 3), None))
        [['user', 3], None]
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return str(value)
