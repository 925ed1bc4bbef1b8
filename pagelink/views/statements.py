"""Nodes and facts of an explanation in words: the statements all views are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from pagelink.explain.result import Explanation, Node, Path, PathEdge
from pagelink.graph.labels import relation_label
from pagelink.views.text import (
    clean,
    isolate,
    number_word,
    shorten,
    type_words,
    words,
)

if TYPE_CHECKING:
    from pagelink.graph.schema import EdgeType
    from pagelink.graph.typed_graph import TypedGraph

_WORDS_BEFORE_QUOTES = 3
_CHARACTERS_BEFORE_QUOTES = 32
_SHORT_WIDTH = 25.0  # in letter heights, some forty letters
IDLE = "Connecting step (no effect by itself)"
"""What is said of a fact that moves the score in no graph that was tried."""

P = TypeVar("P")


@dataclass(frozen=True)
class NodeWords:
    """How one node is called."""

    node: Node
    name: str
    """Its name, cleaned, otherwise as the graph has it."""
    kind: str
    """Its node type in words, with its index where another node has the same name and type."""
    phrase: str
    """How sentences call it: quoted if long, with its type if the name alone is not clear."""
    degree: int | None
    """Its number of facts in the whole graph, if a path has it."""

    @property
    def links(self) -> str:
        """The degree in words, empty if it is not known."""
        return "" if self.degree is None else f"degree {self.degree:,}"

    @property
    def isolated(self) -> str:
        """The phrase, safe to stand between other words."""
        return isolate(self.phrase)

    @property
    def short(self) -> str:
        """The same, cut if it is long: for a second mention."""
        cut = shorten(self.name, _SHORT_WIDTH, 1)
        return self.isolated if cut == self.name else isolate(f"“{cut}”")


def node_words(explanation: Explanation) -> dict[Node, NodeWords]:
    """Return what each node that an explanation names is called, equal names distinguished."""
    names: dict[Node, str] = {}
    degrees: dict[Node, int] = {}
    relations = {_link_relation(explanation)}
    for fact in explanation.strongest.facts if explanation.strongest else ():
        names.update(zip(fact.nodes, fact.names, strict=True))
        relations.add(words(fact.edge.label))
    for path in _all_paths(explanation):
        names.update(zip(path.nodes, path.names, strict=True))
        degrees.update(zip(path.nodes, path.degrees, strict=True))
        relations.update(words(edge.phrase or edge.label) for edge in path.edges)
    names[explanation.src] = explanation.src_name
    names[explanation.dst] = explanation.dst_name
    names = {node: clean(name) or _numbered(node) for node, name in names.items()}
    phrases = phrases_of(names, relations)
    alike = Counter((node[0], name) for node, name in names.items())
    return {
        node: NodeWords(
            node=node,
            name=name,
            kind=_numbered(node) if alike[node[0], name] > 1 else words(node[0]),
            phrase=phrases[node],
            degree=degrees.get(node),
        )
        for node, name in names.items()
    }


def _all_paths(explanation: Explanation) -> Iterator[Path]:
    """Yield the paths of the sets that are as good, then the returned ones."""
    for alternative in explanation.alternatives:
        yield from alternative.paths
    yield from explanation.paths


def _numbered(node: Node) -> str:
    return f"{words(node[0])} {node[1]}"


def phrases_of(names: Mapping[Node, str], relations: Iterable[str]) -> dict[Node, str]:
    """Return the shortest clear way to call each node: its name, with its type, with its index."""
    taken = {word.casefold() for word in relations} | {words(kind).casefold() for kind, _ in names}
    phrases = {
        node: _quoted(name) if _speaks_for_itself(name, taken) else _with_type(node, name)
        for node, name in names.items()
    }
    for numbered in (False, True):
        seen = Counter(phrases.values())
        phrases = {
            node: _with_type(node, names[node], numbered=numbered) if seen[phrase] > 1 else phrase
            for node, phrase in phrases.items()
        }
    return phrases


def _with_type(node: Node, name: str, *, numbered: bool = False) -> str:
    number = f" (number {node[1]})" if numbered else ""
    return f"{words(node[0])} “{name}”{number}"


def _speaks_for_itself(name: str, taken: set[str]) -> bool:
    """Return whether a name is neither a bare number nor a word of the graph itself."""
    return name.casefold() not in taken and any(character.isalpha() for character in name)


def _quoted(name: str) -> str:
    # A title in the middle of a sentence is not told apart from its words without quotes.
    long = len(name.split()) > _WORDS_BEFORE_QUOTES or len(name) > _CHARACTERS_BEFORE_QUOTES
    return f"“{name}”" if long else name


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


def link_words(explanation: Explanation, nodes: Mapping[Node, NodeWords]) -> Fact:
    """Return the explained link; `nodes` are those of `node_words`."""
    if explanation.src == explanation.dst:  # a malformed link, both of whose ends are no node
        explanation = replace(explanation, src=(explanation.src[0], -2))
        nodes = node_words(explanation)
    relation = _link_relation(explanation)
    return Fact(nodes[explanation.src], relation, nodes[explanation.dst])


def _link_relation(explanation: Explanation) -> str:
    return words(explanation.link_phrase or relation_label(explanation.link_type))


def edge_words(edge: PathEdge, start: NodeWords, end: NodeWords) -> Fact:
    """Return the fact of an edge from one node to another."""
    subject, object_ = (end, start) if reads_backwards(edge) else (start, end)
    return Fact(subject, words(edge.phrase or edge.label), object_)


def reads_backwards(edge: PathEdge) -> bool:
    """Whether the words of an edge read from the walk's end to its start."""
    return edge.label_backwards and not edge.phrase


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
    role: str
    """What is said of a fact that only connects others; empty of all others."""

    def __str__(self) -> str:
        said = f"{self.fact} ({self.details})" if self.details else str(self.fact)
        return f"{said} · {self.role}" if self.role else said


def path_steps(path: Path, nodes: tuple[NodeWords, ...]) -> tuple[Step, ...]:
    """Return the facts of a path in order; `nodes` are the words of its nodes."""
    steps = []
    # Where no fact does anything there is nothing that a step could connect.
    some_act = any(edge.active for edge in path.edges)
    for edge, start, end in zip(path.edges, nodes[:-1], nodes[1:], strict=True):
        fact = edge_words(edge, start, end)
        known = [f"{clean(k)}: {clean(str(v))}" for k, v in edge.attributes.items()]
        details = ", ".join([*(["added"] if edge.added else []), *known])
        role = IDLE if some_act and edge.active is False else ""
        steps.append(Step(fact, reads_backwards(edge), edge, type_words(edge.type), details, role))
    return tuple(steps)


@dataclass(frozen=True)
class PathGroup(Generic[P]):
    """Paths that are shown together, under a heading: as they are, or in words."""

    heading: str
    paths: tuple[P, ...]
    is_context: bool = False
    """They were measured, and the model does not rely on them."""
    is_drawn: bool = False
    """The heading says what a drawing of the paths alone would not."""


FactKey = tuple[frozenset[Node], str]


def fact_key(edge: PathEdge, start: Node, end: Node) -> FactKey:
    """Return what two edges have in common if they state the same fact, whichever way they go."""
    return frozenset((start, end)), words(edge.label)


def fact_keys(path: Path) -> tuple[FactKey, ...]:
    """Return the facts of a path in order, by `fact_key`."""
    return tuple(map(fact_key, path.edges, path.nodes[:-1], path.nodes[1:]))


def num_facts(paths: Iterable[Path]) -> int:
    """Return how many different facts paths have: an edge and its reverse are one fact."""
    return len({fact for path in paths for fact in fact_keys(path)})


def counted_facts(paths: Iterable[Path]) -> str:
    """Return how many different facts paths have: "three facts"."""
    number = num_facts(paths)
    return f"{number_word(number)} fact{'' if number == 1 else 's'}"


def these_facts(paths: Iterable[Path]) -> str:
    """Return the facts of paths as part of a sentence: "these three facts"."""
    known = tuple(paths)
    return "this one fact" if num_facts(known) == 1 else f"these {counted_facts(known)}"


def fact_sentence(graph: TypedGraph, fact: int) -> str:
    """Return a fact of a graph, by its number, in words; it need not be on a path."""
    edges = np.flatnonzero(graph.fact == fact)
    # The direction in which the graph states it; a self-loop has no edge that stands for it.
    edge = int(next((each for each in edges if graph.representative[each]), edges[0]))
    edge_type = graph.edge_types[graph.relation[edge]]
    return statement(graph, edge_type, int(graph.src[edge]), int(graph.dst[edge]))


def statement(graph: TypedGraph, edge_type: EdgeType, src: int, dst: int) -> str:
    """Return a fact of a relation between two flat nodes in words."""
    said, turned = graph.relation_words(edge_type)
    ends = [clean(graph.node_name(node)) for node in (src, dst)]
    subject, thing = ends[::-1] if turned else ends
    return f"{subject} {words(said)} {thing}"
