"""How wide text is, without a font at hand: estimated so that it is rarely wider than that."""

from __future__ import annotations

import functools
import unicodedata

ELLIPSIS = "…"
_BOLD = 1.1
_JOINER = "\u200d"
_ROUNDING = 1e-6
_WORTH_A_WORD = 0.55
"""A text is cut between words if this share of what would fit is left."""
# Shares of the font size, after Verdana and DejaVu Sans, the widest of the fonts in common use.
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[]{}/ -·\u2018\u2019"), frozenset("mwMWQO@%&—…“”")


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
