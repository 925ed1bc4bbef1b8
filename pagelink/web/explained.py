"""What the explorer answers to why a link is predicted, field by field, as OpenAPI documents it."""

from __future__ import annotations

from pydantic import Field

from pagelink.measure.verdict import Ends, PartName, Verdict
from pagelink.web.contract import Answer, Node


class Step(Answer):
    """One fact of a path, as it is walked."""

    fact: int | None = Field(
        description="The number of the fact, which `off` takes; null: it was added."
    )
    added: str | None = Field(description="Of an added fact, what `add` was given; else null.")
    sentence: str
    relation: str
    backwards: bool = Field(description="The words read from the step's end to its start.")
    details: str = Field(description="What else is known of the fact; may be empty.")
    influence: float | None = Field(
        description="How much the logit falls without this fact alone; null: not measured."
    )
    active: bool | None = Field(
        description="False: it moves the score in no graph that was tried; null: not measured."
    )
    role: str = Field(description="What is said of a fact that only connects others; or empty.")


class Path(Answer):
    """A path from the source to the target."""

    number: int
    nodes: list[Node]
    steps: list[Step]
    remarks: list[str]
    influence: float | None = Field(description="How much the logit falls without its facts.")
    gain: float | None = Field(
        description="How much the logit of the graph without any path rises with its facts."
    )
    marginal: float | None
    share: str = Field(description="Its part in what the paths do, in words; may be empty.")
    connection: float | None
    is_evidence: bool | None
    bundle: int | None = Field(description="Paths of the same number count together.")
    together: str = Field(description="Why it is one item with those of its bundle; or empty.")


class Group(Answer):
    """Paths that are shown together."""

    heading: str
    is_context: bool = Field(description="The model does not rely on these paths.")
    paths: list[Path]


class Circumstance(Answer):
    """The model's word on the link under one circumstance, in words."""

    circumstance: str
    score: str


class Figure(Answer):
    """One of the model's answers on edited graphs."""

    about: str
    value: str


class EqualSet(Answer):
    """A set of paths that is as good as the returned one."""

    worth: float
    lines: list[str] = Field(description="A line per path.")


class EquallyGood(Answer):
    """Sets of paths that are as good as the returned one."""

    heading: str
    sets: list[EqualSet]
    more: str = Field(description="How many others there are; empty if all are listed.")


class StrongFact(Answer):
    """One of the facts that count most."""

    sentence: str
    remark: str
    influence: float | None


class Strongest(Answer):
    """The facts that count most, on paths or not."""

    heading: str
    sentence: str
    facts: list[StrongFact] = Field(description="Empty if they are those of the paths.")


class Part(Answer):
    """A part of what the model sees."""

    name: PartName
    about: str
    change: str = Field(description="Of the score without the part, in words.")
    effect: float
    error: float | None


class WhatElse(Answer):
    """What the score rests on, part by part."""

    heading: str
    sentence: str
    parts: list[Part]


class AddedFact(Answer):
    """A fact that was added to the graph."""

    added: str = Field(description="What `add` was given.")
    sentence: str


class Explained(Answer):
    """Why the model predicts a link, or why there is nothing to show."""

    src: Node
    dst: Node
    link: str
    logit: float | None
    probability: float | None
    verdict: Verdict | None
    ends: Ends | None = Field(description="Which end counts, where only degrees do.")
    link_in_graph: bool = Field(description="It was taken out to explain it.")
    reason: str | None = Field(description="Why there are no paths, or not all of them.")
    opening: list[str] = Field(description="What a reader has to know before all else.")
    scores: list[Circumstance]
    score_sentence: str
    requests: list[str] = Field(description="What is known of the score beside it; may be empty.")
    influence: float | None = Field(description="Of the paths together.")
    groups: list[Group]
    added: list[AddedFact] = Field(description="Facts that were added to the graph.")
    caveat: str
    equally_good: EquallyGood | None
    strongest: Strongest | None
    what_else: WhatElse | None
    figures: list[Figure]
    notes: list[str]
    svg: str = Field(
        description="The drawing; `data-path` and `data-step` say what a line belongs to, "
        "`data-path` and `data-at` which node of a path a box is."
    )
    svg_smallest: int = Field(description="In a frame of fewer pixels the compact one is meant.")
    svg_compact: str = Field(description="The same with names in more lines.")
    svg_compact_smallest: int = Field(
        description="In a frame of fewer pixels the narrow one is meant."
    )
    svg_narrow: str = Field(description="The same for narrow windows: paths under each other.")
    text: str
    seconds: float
