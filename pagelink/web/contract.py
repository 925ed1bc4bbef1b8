"""What the explorer speaks, field by field, as OpenAPI documents it.

First what can be asked: the parameters of its addresses, with their ranges. Then what is answered,
as JSON; why a link is predicted is in `explained.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pagelink.settings import Settings

At = Literal["auto", "source", "paths"]
LARGEST = 2**31 - 1
Index = Annotated[
    int, Field(ge=0, le=LARGEST, description="Its position among the nodes of its type.")
]
Name = Annotated[str, Field(max_length=200)]
NodeKey = Annotated[
    str, Field(max_length=240, pattern=r"^.+:\d{1,9}$", description="Node type and index: movie:3.")
]
Fact = Annotated[
    str,
    Field(
        max_length=240,
        pattern=r"^.+:\d{1,9}:\d{1,9}$",
        description="Relation, source and target, by index: buys:3:35.",
    ),
]
Facts = Annotated[list[Fact], Field(max_length=10, description="Facts to add to the graph.")]


@dataclass(frozen=True)
class Choice:
    """The settings that the page offers."""

    paths: int = Settings.num_paths
    length: int = Settings.max_length
    rho: float = Settings.rho
    exclude: tuple[str, ...] = ()
    seed: int = 0
    without: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    end: Literal["dst", "src"] = "dst"
    method: str = "pagelink"
    model: int = 0


class Asked(BaseModel):
    """What all questions have in common: no parameters beyond their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SearchAsked(Asked):
    """A search by name."""

    type: Name = Field("", description="A node type; nothing: all of them.")
    q: Name = Field("", description="What was typed of the name.")
    limit: int = Field(20, ge=1, le=100)


class NodeAsked(Asked):
    """What is known of a node."""

    type: Name = Field(description="A node type.")
    index: Index
    limit: int = Field(10, ge=1, le=200, description="Neighbours per relation at most.")


class ModelRequest(Asked):
    """A question that the model has to be asked."""

    wait: float = Field(20, ge=0, le=30, description="Seconds to wait for the answer.")

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the answer depends on, as the explorer takes it; of lists, each value once."""
        return tuple(
            tuple(sorted(set(value))) if isinstance(value, list) else value
            for name, value in self
            if name != "wait"
        )


class TargetsAsked(ModelRequest):
    """The best new targets of a source."""

    src: Index
    k: int = Field(20, ge=1, le=200, description="How many.")


class SourcesAsked(ModelRequest):
    """The best new sources of a target."""

    dst: Index
    k: int = Field(20, ge=1, le=200, description="How many.")


class LinkAsked(ModelRequest):
    """A link."""

    src: Index
    dst: Index


class EditAsked(LinkAsked):
    """A link, on the graph without some facts, and with others."""

    off: list[Index] = Field([], max_length=200, description="Numbers of the facts to take away.")
    add: Facts = []


class RankAsked(EditAsked):
    """Where an end of a link stands, on such a graph."""

    end: Literal["dst", "src"] = Field(
        "dst", description="Rank the target among targets, or the source among sources."
    )


class WhatIfAsked(LinkAsked):
    """What would have to be different."""

    at: At = Field(
        "auto",
        description="Take away facts at the source, or on paths; auto: on paths if those at the "
        "source do not suffice.",
    )
    top_k: int | None = Field(
        None, ge=1, le=1000, description="The target is to drop out of the first `top_k` targets."
    )
    add: Facts = []


class ExplanationAsked(LinkAsked):
    """Why a link is predicted."""

    paths: int = Field(Choice.paths, ge=1, le=20, description="Paths at most.")
    length: int = Field(Choice.length, ge=1, le=5, description="Facts of a path at most.")
    rho: float = Field(Choice.rho, ge=0, le=1, description="1: faithful, 0: concise.")
    exclude: list[Name] = Field([], max_length=100, description="Relations that no path uses.")
    seed: int = Field(Choice.seed, ge=0, le=LARGEST)
    without: list[NodeKey] = Field([], max_length=20, description="Nodes that no path uses.")
    via: list[NodeKey] = Field(
        [], max_length=20, description="Only paths through at least one of these nodes."
    )
    add: Facts = []
    end: Literal["dst", "src"] = Field(
        Choice.end, description="Rank the target among targets, or the source among sources."
    )
    method: Name = Field(Choice.method, description="The explainer, one of those of `about`.")
    model: int = Field(Choice.model, ge=0, le=9, description="The model, a place in `about`.")

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The link, and the settings."""
        chosen: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(Choice)}
        for name, value in chosen.items():
            if isinstance(value, list):
                chosen[name] = tuple(sorted(set(value)))
        return self.src, self.dst, Choice(**chosen)


class SaveAsked(ExplanationAsked):
    """An explanation as a file, with what is switched off."""

    off: list[Index] = Field([], max_length=200, description="Facts that are switched off.")

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The link, the settings, and the facts, each once."""
        return *super().arguments, tuple(sorted(set(self.off)))


class Answer(BaseModel):
    """What every answer has in common: it is not changed, and has no fields beyond its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Node(Answer):
    """A node of the graph."""

    type: str
    index: int = Field(description="Its position among the nodes of its type.")
    name: str
    degree: int = Field(description="Its number of facts in the whole graph.")


class Relation(Answer):
    """A relation that can be excluded from paths, together with its reverse."""

    name: str = Field(description="What `exclude` takes.")
    words: str
    src_type: str
    dst_type: str
    facts: int


class Nodes(Answer):
    """Nodes whose names hold what was typed, best first."""

    total: int = Field(description="How many there are; `nodes` has the first of them.")
    nodes: list[Node]
    is_near: bool = Field(description="No name holds what was typed; these are near it.")


class Known(Answer):
    """A target that the source is known to be linked to."""

    node: Node
    in_graph: bool = Field(description="False: held out, the model has not seen this link.")


class FactGroup(Answer):
    """The facts of one relation at a node."""

    words: str = Field(description="The relation in words.")
    backwards: bool = Field(description="The words read from the other node to this one.")
    total: int
    nodes: list[Node] = Field(description="The first of the other ends.")


class Attribute(Answer):
    """What a column of a table says of a node."""

    name: str
    value: str


class NodeCard(Answer):
    """What is known of a node."""

    node: Node
    id: str = Field(description="What it is called in the table it comes from.")
    attributes: list[Attribute]
    address: str | None = Field(description="Where more is said of it, if a column has that.")
    facts: list[FactGroup]


class Source(Answer):
    """A source: what it is linked to already."""

    node: Node
    known_total: int
    known: list[Known]
    facts: list[FactGroup]


class Spread(Answer):
    """How the scores of all targets (or sources) that were ranked are spread."""

    lowest: float
    highest: float
    counts: list[int] = Field(description="How many are in each of equal steps between the two.")


class Target(Answer):
    """A target (or a source) with the model's word on it."""

    rank: int
    node: Node
    logit: float
    probability: float


class Targets(Answer):
    """The best new targets of a source."""

    src: Node
    total: int = Field(description="How many targets were scored.")
    spread: Spread
    targets: list[Target]


class Sources(Answer):
    """The best new sources of a target, and its known ones."""

    dst: Node
    total: int = Field(description="How many sources were scored.")
    spread: Spread
    sources: list[Target]
    known_total: int
    known: list[Known]


class Score(Answer):
    """The model's word on a link on the graph without some facts."""

    off: list[int]
    logit: float
    probability: float
    logit_before: float
    probability_before: float
    sentence: str


class Rank(Answer):
    """Where the target stands among the new targets of the source (or the source among sources)."""

    off: list[int]
    rank: int
    rank_before: int
    ties: int = Field(description="Others of the same score; their mean place is the rank.")
    of: int
    logit: float
    logit_before: float
    spread: Spread = Field(description="Of the scores without the facts.")
    is_sample: bool = Field(description="Not all targets were ranked, but a random sample.")


class RemovedFact(Answer):
    """A fact that the prediction hangs on."""

    fact: int | None = Field(description="Its number; null: it was added.")
    added: str | None = Field(description="Of an added fact, what `add` was given; else null.")
    sentence: str


class WhatIf(Answer):
    """What would have to be different for the model to decide otherwise."""

    found: bool
    at: Literal["source", "paths"] = Field(description="Where the facts are.")
    sentence: str
    facts: list[RemovedFact]
    logit: float | None = Field(description="Null, as what follows: there was no time for it.")
    logit_without: float | None
    rank: int | None
    rank_without: int | None
    rank_of: int
    instead: str | None


class Working(Answer):
    """The answer is not there yet: ask again under the same address."""

    question: str = Field(description="What DELETE /api/questions/... takes.")
    state: Literal["waiting", "working"]
    ahead: int = Field(description="Questions before this one.")
    seconds: float = Field(description="Since the work on it began.")
    calls: int = Field(description="How often the model was asked so far.")


class Problem(Answer):
    """Why there is no answer."""

    code: Literal["not_found", "invalid", "busy", "cancelled", "failed"]
    message: str
