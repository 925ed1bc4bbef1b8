"""Results, which know how they were made: the paths of a link, what they are worth, all of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, get_args

from pagelink.errors import GraphError
from pagelink.explain.edge_mask import EdgeMask, EdgeType
from pagelink.measure.held_out import HeldOutShare
from pagelink.measure.verdict import Evidence, Part
from pagelink.settings import Settings

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
    active: bool | None = None
    """Whether removing it alone moves the score in some graph that has its path: G, G without
    another path, G0 with this path, and with this path and a random part of all other facts on
    paths. False: idle, it only connects others. None: not measured."""
    added: bool = False
    """The graph does not hold the fact: it was added to see what the model does with it."""
    phrase: str = ""
    """How the fact reads in the direction of the walk, if the relation has a phrase for it."""


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
    influence_error: float | None = None
    """The standard error of the influence, where it is a mean over random starts (models without
    messages); None: it is exact."""
    gain: float | None = None
    """How much the logit of the graph without any path rises when the facts of this path alone are
    put into it."""
    marginal: float | None = None
    """How much the influence of the returned paths falls when this one is left out of them."""
    share: float | None = None
    """The same as a share of what the returned paths do: by removal or by insertion, whichever is
    larger."""
    connection: float | None = None
    """Of a path of three or more facts: the share of its influence that is lost when only its inner
    facts, which touch neither end, are swapped with others of their kind. Near 0 the effect comes
    from its first and last fact, and that they are connected adds nothing. Where other paths stand
    in for the inner facts, it is the share of its gain, without those. None: not measured, its
    influence is not noticed, or there is nothing to swap with."""
    is_evidence: bool | None = None
    """Whether the model relies on it: the verdict says that paths count for what they connect, and
    its share is at least 5 %; else it is only context. None: not measured. For a predicted
    negative: whether it speaks for the link, by its influence alone."""
    bundle: int | None = None
    """Paths of the same number count together: one of them alone speaks against the link, and is
    shown with the one that it needs. None: it stands for itself."""
    runs: int | None = None
    """In how many runs, each with a seed of its own, it was returned; None if there was but one."""

    @property
    def idle(self) -> tuple[int, ...]:
        """Positions of the facts that move the score in no graph that was tried."""
        return tuple(place for place, edge in enumerate(self.edges) if edge.active is False)

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
class NamedFact:
    """A fact that need not lie on a path, in the direction in which it is stored."""

    nodes: tuple[Node, Node]
    names: tuple[str, str]
    edge: PathEdge


@dataclass(frozen=True)
class StrongestFacts:
    """As many facts as the returned paths have, whose joint removal lowers the score most.

    They are anywhere in what the model sees, and the strongest that were found.
    """

    facts: tuple[NamedFact, ...]
    """The one that was found first, first; each with what it does alone."""
    effect: float
    """How much the logit falls when all of them are removed."""
    share: float | None
    """The effect of the returned paths as a share of that; None if it is not above the noise."""


@dataclass(frozen=True)
class Alternative:
    """Another set of paths, as good as the returned one."""

    worth: float
    paths: tuple[Path, ...]


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
    alternatives: tuple[Alternative, ...] = ()
    """Further sets of paths whose worth is within 5 % of that of the returned ones, best first."""
    strongest: StrongestFacts | None = None
    """The facts that count most, on paths or not; None if they were not looked for."""
    what_else: tuple[Part, ...] = ()
    """What the score rests on, part by part, where the model does not rely on paths or there are
    none; empty if it was not measured."""
    rank: int | None = None
    """Rank of the target (or the source, see `rank_end`) among those ranked: the mean of the best
    and the worst place that those of the same score could have, rounded down. None: not ranked."""
    rank_ties: int | None = None
    """How many others have the same score; None: not ranked."""
    rank_without_these: int | None = None
    """The rank on the graph without the facts of the returned paths; None if there are none."""
    rank_ties_without_these: int | None = None
    """How many others have the same score there; None if there are no paths."""
    rank_without_strongest: int | None = None
    """The rank on the graph without the strongest facts; None if there are none."""
    rank_of: int | None = None
    """How many nodes were ranked: those that the other end is not linked to, and its own; all of
    them, or a sample."""
    rank_is_sample: bool | None = None
    """Whether the nodes that were ranked are a random sample; None: not ranked."""
    rank_end: Literal["src", "dst"] | None = None
    """Which end was ranked, the target (`dst`) or the source (`src`); None: not ranked."""
    held_out_share: HeldOutShare | None = None
    """Share of predictions of this rank, if it is known among all targets, else of this score, that
    were links held out from the model. None: not known, or the link is part of the graph."""
    node_types: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Those that relations of the graph connect: drawings colour a type by its place here."""
    runs: int | None = None
    """How many runs, each with a seed of its own, `Path.runs` counts; None if there was but one."""
    versions: Mapping[str, str] = field(repr=False, compare=False, default_factory=dict)
    trained: bool = False
    """Whether the model passes no messages: facts are left out of its training, not its input."""
    link_phrase: str = ""
    """How the predicted relation reads from source to target, if it has a phrase."""

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

    def to_dict(self, *, mask: bool = False) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings, ready for JSON.

        Args:
            mask: also `edge_mask`, the learned mask of every edge that the model sees, which may be
                megabytes. The facts of paths have their masks without it.
        """
        values = {
            **{
                each.name: plain(getattr(self, each.name))
                for each in fields(self)
                if each.name not in ("edge_mask", "settings")
            },
            "probability": self.probability,
            "settings": self.settings.to_dict(),
        }
        return values | {"edge_mask": self.edge_mask.to_list()} if mask else values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Explanation:
        """Return the explanation that `to_dict` gave; `edge_mask` is empty if it was left out."""
        reason, evidence = values["reason"], values.get("evidence")
        held_out = values.get("held_out_share")
        if reason is not None and reason not in REASONS:
            raise GraphError(f"reason must be one of {REASONS}, got {reason!r}.")
        given = _fields_in(cls, values)
        given |= {
            "link_type": tuple(values["link_type"]),
            "src": tuple(values["src"]),
            "dst": tuple(values["dst"]),
            "paths": tuple(_path_from_dict(path) for path in values["paths"]),
            "evidence": None if evidence is None else Evidence.from_dict(evidence),
            "alternatives": tuple(
                Alternative(each["worth"], tuple(map(_path_from_dict, each["paths"])))
                for each in values.get("alternatives", ())
            ),
            "held_out_share": None if held_out is None else HeldOutShare(**held_out),
            "strongest": _strongest_from_dict(values.get("strongest")),
            "what_else": tuple(Part(**part) for part in values.get("what_else", ())),
            "notes": tuple(values["notes"]),
            "direct_relations": tuple(values.get("direct_relations", ())),
            "node_types": tuple(values.get("node_types", ())),
            "edge_mask": EdgeMask.from_list(values.get("edge_mask", [])),
            "settings": Settings.from_dict(values["settings"]),
        }
        return cls(**given)


def sigmoid(logit: float) -> float:
    """Return the probability of a logit."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else 1 - 1 / (1 + math.exp(logit))


def _fields_in(kind: type[Explanation | Path], values: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: values[each.name] for each in fields(kind) if each.name in values}


def _edge_from_dict(values: Mapping[str, Any]) -> PathEdge:
    return PathEdge(**{**values, "type": tuple(values["type"])})


def _strongest_from_dict(values: Mapping[str, Any] | None) -> StrongestFacts | None:
    if values is None:
        return None
    facts = []
    for fact in values["facts"]:
        (one, first), (other, second) = fact["nodes"]
        names = fact["names"][0], fact["names"][1]
        edge = _edge_from_dict(fact["edge"])
        facts.append(NamedFact(((one, first), (other, second)), names, edge))
    return StrongestFacts(tuple(facts), values["effect"], values["share"])


def _path_from_dict(values: Mapping[str, Any]) -> Path:
    given = _fields_in(Path, values)
    given |= {
        "nodes": tuple((kind, index) for kind, index in values["nodes"]),
        "edges": tuple(map(_edge_from_dict, values["edges"])),
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
