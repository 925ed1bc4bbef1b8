"""The facts of a path as statements: who does what to whom, in the direction of the words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pagelink.explanation import Path, PathEdge
from pagelink.views.naming import NodeWords, clean, isolate, type_words, words

_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip


@dataclass(frozen=True)
class Fact:
    """One statement about two nodes, in the direction in which its words read."""

    subject: NodeWords
    relation: str
    object: NodeWords

    def __str__(self) -> str:
        return f"{self.subject.isolated} {isolate(self.relation)} {self.object.isolated}"

    @property
    def short(self) -> str:
        """The same with long names cut: for a second mention."""
        return f"{self.subject.short} {isolate(self.relation)} {self.object.short}"


@dataclass(frozen=True)
class Step:
    """A fact as a path walks it."""

    fact: Fact
    backwards: bool
    """The fact's words read from the walk's end to its start."""
    edge: PathEdge
    stored: str
    """The edge type as the graph stores it."""
    details: str
    """What else is known of the fact, such as its source and date; may be empty."""

    def __str__(self) -> str:
        return f"{self.fact} ({self.details})" if self.details else str(self.fact)


def path_steps(path: Path, nodes: tuple[NodeWords, ...]) -> tuple[Step, ...]:
    """Return the facts of a path in order; `nodes` are the words of its nodes."""
    steps = []
    for edge, start, end in zip(path.edges, nodes[:-1], nodes[1:], strict=True):
        subject, object_ = (end, start) if edge.label_backwards else (start, end)
        fact = Fact(subject, words(edge.label), object_)
        details = ", ".join(f"{clean(k)}: {clean(str(v))}" for k, v in edge.attributes.items())
        steps.append(Step(fact, edge.label_backwards, edge, type_words(edge.type), details))
    return tuple(steps)


def num_facts(paths: Iterable[Path]) -> int:
    """Return how many different facts paths have: an edge and its reverse are one fact."""
    return len(
        {
            (frozenset(ends), words(edge.label))
            for path in paths
            for edge, *ends in zip(path.edges, path.nodes[:-1], path.nodes[1:], strict=True)
        }
    )


def number_word(number: int) -> str:
    """Return a number as part of a sentence: in letters up to twelve."""
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


def counted_facts(paths: Iterable[Path]) -> str:
    """Return how many different facts paths have: "three facts"."""
    number = num_facts(paths)
    return f"{number_word(number)} fact{'' if number == 1 else 's'}"


def these_facts(paths: Iterable[Path]) -> str:
    """Return the facts of paths as part of a sentence: "these three facts"."""
    known = tuple(paths)
    return "this one fact" if num_facts(known) == 1 else f"these {counted_facts(known)}"


def enumerated(items: Iterable[str]) -> str:
    """Return a list as part of a sentence.

    Example:
        >>> enumerated(["a", "b", "c"])
        'a, b and c'
    """
    *others, last = items
    return f"{', '.join(others)} and {last}" if others else last
