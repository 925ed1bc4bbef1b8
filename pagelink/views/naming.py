"""What the nodes and relations of an explanation are called in its views."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pagelink.explain.result import EdgeType, Explanation, Node
from pagelink.views.lettering import shorten

# Direction marks of a user's text could turn around the words that follow it.
_BIDI_CONTROLS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"
_WORDS_BEFORE_QUOTES = 3
_CHARACTERS_BEFORE_QUOTES = 32
_SHORT_WIDTH = 25.0  # in letter heights, some forty letters


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
    """Its number of links in the whole graph, if a path tells it."""

    @property
    def links(self) -> str:
        """The degree in words, empty if it is not known."""
        return "" if self.degree is None else count(self.degree, "link")

    @property
    def isolated(self) -> str:
        """The phrase, safe to stand between other words."""
        return isolate(self.phrase)

    @property
    def short(self) -> str:
        """The same, cut if it is long: for a second mention."""
        cut = shorten(self.name, _SHORT_WIDTH, 1)
        return self.isolated if cut == self.name else isolate(f"“{cut}”")


def isolate(text: str) -> str:
    """Return a text so that, if it reads right to left, it does not turn around its neighbours."""
    if not text.isascii() and any(
        unicodedata.bidirectional(character) in ("R", "AL") for character in text
    ):
        return f"{_FIRST_STRONG_ISOLATE}{text}{_POP_ISOLATE}"
    return text


def clean(text: str) -> str:
    r"""Return the text on one line, without characters that XML or a terminal cannot take.

    Example:
        >>> clean("two\nlines \x1b[31mred")
        'two lines [31mred'
    """
    if text.isascii() and text.isprintable():  # most are; letter by letter takes its time
        return " ".join(text.split())
    return legal("".join(character for character in text if character not in _BIDI_CONTROLS))


def legal(text: str) -> str:
    """Return the text on one line, with only the characters that XML knows; `clean` does more."""
    return " ".join("".join(character for character in text if _is_legal(character)).split())


def _is_legal(character: str) -> bool:
    if character.isspace():
        return True
    if unicodedata.category(character) in ("Cc", "Cs"):
        return False
    return ord(character) & 0xFFFE != 0xFFFE  # U+FFFE, U+FFFF and their like are no characters


def words(identifier: str) -> str:
    """Return a type or a relation as words.

    Example:
        >>> words("rated_below_4")
        'rated below 4'
    """
    return clean(identifier.replace("_", " ")) or "?"


def type_words(edge_type: EdgeType) -> str:
    """Return an edge type as the graph stores it, on one line.

    Example:
        >>> type_words(("user", "buys", "item"))
        'user → buys → item'
    """
    return " → ".join(map(clean, edge_type))


def count(number: int, noun: str) -> str:
    """Return a number of things in words.

    Example:
        >>> count(1, "link"), count(4361, "link")
        ('1 link', '4,361 links')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def node_words(explanation: Explanation) -> dict[Node, NodeWords]:
    """Return what each node of the link and its paths is called, like names told apart."""
    names: dict[Node, str] = {}
    degrees: dict[Node, int] = {}
    for path in explanation.paths:
        names.update(zip(path.nodes, path.names, strict=True))
        degrees.update(zip(path.nodes, path.degrees, strict=True))
    names[explanation.src] = explanation.src_name
    names[explanation.dst] = explanation.dst_name
    names = {node: clean(name) or _numbered(node) for node, name in names.items()}
    relations = {words(edge.label) for path in explanation.paths for edge in path.edges}
    relations.add(words(explanation.link_type[1]))
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
