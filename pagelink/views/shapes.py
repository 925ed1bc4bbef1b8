"""The shapes of a drawing, as templates draw them: places and lettering, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from pagelink.views.naming import NodeWords


@dataclass(frozen=True)
class Box:
    """A node, drawn once for all the rows it spans."""

    words: NodeWords
    x: float
    y: float
    width: float
    height: float
    name: tuple[str, ...]
    detail: str
    text_x: float
    text_ys: tuple[float, ...]
    """Where its lettering starts; a very tall box repeats it."""
    caption: str
    strong: bool
    """The source, the target, or a node that several paths share."""
    muted: bool
    """Of a path that is only context."""


@dataclass(frozen=True)
class Arrow:
    """One step of a path, drawn from the left to the right."""

    rank: int
    """Of its path."""
    step: int
    """Its position in the path."""
    x1: float
    x2: float
    y: float
    backwards: bool
    label: str
    title: str
    effect: str
    """How the score changes without the fact alone, with its sign; empty if unmeasured."""
    thickness: float
    """Of its line: by that change, as a share of the largest one drawn."""
    muted: bool


@dataclass(frozen=True)
class Badge:
    """The rank of a path, at the start of its row."""

    x: float
    y: float
    rank: int
    muted: bool


@dataclass(frozen=True)
class Heading:
    """What the paths below it are."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Question:
    """The link that is explained: a dashed line, its label in the middle."""

    x1: float
    x2: float
    y: float
    label: str
    label_width: float
    title: str


@dataclass(frozen=True)
class Layout:
    """A drawing, placed."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    badges: tuple[Badge, ...]
    headings: tuple[Heading, ...]
    question: Question
    message: tuple[str, ...]
    message_x: float
    message_y: float
