"""Text as views show it: clean, in words, and as wide as a drawing has room for.

How wide text is must be known without a font at hand: it is estimated so that it is rarely wider.
"""

from __future__ import annotations

import functools
import math
import unicodedata
from collections.abc import Iterable

from pagelink.explain.edge_mask import EdgeType

ELLIPSIS = "…"
_BOLD = 1.1
_JOINER = "\u200d"
_ROUNDING = 1e-6
_WORTH_A_WORD = 0.55
"""A text is cut between words if this share of what would fit is left."""
# Shares of the font size, after Verdana and DejaVu Sans, the widest of the fonts in common use.
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[]{}/ -·\u2018\u2019"), frozenset("mwMWQO@%&—…“”")
# Direction marks of a user's text could turn around the words that follow it.
_BIDI_CONTROLS = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"
_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
_MOST_DECIMALS = 6
_LONG_NUMBER = 1e6
_TELLING = 20  # two decimals have this many steps to tell, at least


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


def number_word(number: int) -> str:
    """Return a number as part of a sentence: in letters up to twelve."""
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number:,}"


def ordinal(number: int) -> str:
    """Return a place in an order.

    Example:
        >>> ordinal(2), ordinal(1212), ordinal(1203)
        ('2nd', '1,212th', '1,203rd')
    """
    last = number % 10 if number % 100 // 10 != 1 else 0
    return f"{number:,}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def plural(noun: str) -> str:
    """Return the plural of a regular noun, such as the words of a node type.

    Example:
        >>> plural("movie"), plural("category"), plural("class"), plural("series")
        ('movies', 'categories', 'classes', 'series')
    """
    if noun.endswith("person"):
        return f"{noun.removesuffix('person')}people"
    if noun.endswith("s") and not noun.endswith(("ss", "us", "is")):
        return noun  # "series", or a type that is named in the plural
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


def percent(share: float) -> str:
    """Return a share from 0 to 1 in percent; a small one is not rounded to nothing.

    Example:
        >>> percent(0.42), percent(0.004), percent(0)
        ('42 %', 'less than 1 %', '0 %')
    """
    if 0 < share < 0.005:
        return "less than 1 %"
    return f"{100 * share + 0.0:.0f} %"


def enumerated(items: Iterable[str]) -> str:
    """Return a list as part of a sentence.

    Example:
        >>> enumerated(["a", "b", "c"])
        'a, b and c'
    """
    *others, last = items
    return f"{', '.join(others)} and {last}" if others else last


def numbers(*values: float) -> tuple[str, ...]:
    """Return numbers with two decimals, or as many as it takes to tell them apart.

    Example:
        >>> numbers(12.4, 9.82), numbers(12.4, 12.3996)
        (('12.40', '9.82'), ('12.4000', '12.3996'))
    """
    if any(abs(value) >= _LONG_NUMBER for value in values):
        return tuple(f"{value:.3e}" for value in values)
    for decimals in range(2, _MOST_DECIMALS + 1):
        # Adding 0 turns a rounded -0.0 into 0.0.
        rounded = tuple(round(value, decimals) + 0.0 for value in values)
        if len(set(rounded)) == len(set(values)):
            return tuple(f"{value:.{decimals}f}" for value in rounded)
    return tuple(f"{round(value, 2) + 0.0:.2f}" for value in values)


def decimals_for(size: float) -> int:
    """Return the number of decimals for numbers that differ by this: two, or more if small.

    Example:
        >>> decimals_for(3.2), decimals_for(0.004), decimals_for(0.0)
        (2, 4, 2)
    """
    if not 0 < size < 1 / _TELLING:
        return 2
    return min(_MOST_DECIMALS, 1 + math.ceil(-math.log10(size)))


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return an upper estimate of the width of a line of text, in the unit of `size`.

    Example:
        >>> text_width("木", 10) > text_width("i", 10)
        True
    """
    return sum(map(_character_width, text)) * size * (_BOLD if bold else 1)


@functools.lru_cache(maxsize=4096)
def _character_width(character: str) -> float:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    if unicodedata.east_asian_width(character) in ("W", "F"):
        return 1.05
    if character in _NARROW:
        return 0.42
    if character in _WIDE:
        return 1
    if character.isascii():
        return 0.7 if character.isupper() else 0.64
    return 0.72 if character.isalpha() and not character.isupper() else 0.85


def shorten(text: str, limit: float, size: float, *, bold: bool = False) -> str:
    """Return the text, cut with an ellipsis if it is wider than the limit."""
    if len(_fitting(text, limit, size, bold=bold)) == len(text):
        return text
    kept = _fitting(text, limit - text_width(ELLIPSIS, size, bold=bold), size, bold=bold)
    words_kept = kept[: kept.rfind(" ") + 1]
    if text[len(kept)] != " " and len(words_kept) > _WORTH_A_WORD * len(kept):
        kept = words_kept
    return kept.rstrip(" ,;:") + ELLIPSIS


def wrap(
    text: str, limit: float, size: float, max_lines: int, *, bold: bool = False
) -> tuple[str, ...]:
    """Return the text in lines no wider than the limit, the last one cut if there are too many."""
    lines: list[str] = []
    rest = text
    while rest and len(lines) < max_lines - 1:
        line = _fitting(rest, limit, size, bold=bold) or _clusters(rest)[0]
        if len(line) < len(rest) and rest[len(line)] != " " and " " in line:
            line = line[: line.rindex(" ")]
        lines.append(line)
        rest = rest[len(line) :].lstrip(" ")
    if rest:
        lines.append(shorten(rest, limit, size, bold=bold))
    return tuple(line.strip() for line in lines)


def _fitting(text: str, limit: float, size: float, *, bold: bool) -> str:
    """Return the longest beginning of the text that is no wider than the limit."""
    taken, width = [], 0.0
    for cluster in _clusters(text):
        width += text_width(cluster, size, bold=bold)
        if width > limit + _ROUNDING:
            break
        taken.append(cluster)
    return "".join(taken)


def _clusters(text: str) -> list[str]:
    """Return the text in pieces that must not be cut: letters with their marks, joined emoji."""
    pieces: list[str] = []
    for character in text:
        joins = unicodedata.category(character) in ("Mn", "Me", "Mc") or character == _JOINER
        if pieces and (joins or pieces[-1].endswith(_JOINER)):
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces
