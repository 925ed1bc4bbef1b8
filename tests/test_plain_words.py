"""What people read is in plain words: phrases that do not appear, each with what to write instead.

Read are the texts of the package (all strings, docstrings and parts of f-strings included), its
templates and pages, and the documentation. Comments and names are not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pagelink"

BANNED = {
    r"\bso many\b": "the number of",
    r"\basked for\b": "requested",
    r"\bin 100\b": "rank and score: the sigmoid of a ranking loss is no chance",
    r"\braw scores?\b": "score",
    r"(?<!-)\btold\b": "said, shown or reported; 'told apart' is 'distinguished'",
    r"\b(?:ms|s|seconds|milliseconds) a link\b": "per link",
    r"\blinks an? (?:second|minute|hour)\b": "links per second",
    r"\bthis long\b": "the time or the length itself",
    r"\ball two\b": "both",
    r"\bepochs at most\b": "maximum epochs",
    r"\bone a page\b": "one per page",
}
"""Regular expressions, whatever the case, and what to write instead."""

SUFFIXES = (".html", ".svg", ".txt", ".j2")
SCRIPT_COMMENT = re.compile(r"/\*.*?\*/|(?:^|(?<=\s))//[^\n]*", re.DOTALL)
SCRIPT_STRING = re.compile(r"""(["'`])((?:\\.|(?!\1).)*)\1""", re.DOTALL)
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module with their lines; what an f-string fills in is a pair of braces.

    Strings that follow each other are one text.
    """
    tree = ast.parse(source)
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            filled = [
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            ]
            parts.update(id(part) for part in node.values)
            yield node.lineno, "".join(filled)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def script_strings(source: str) -> Iterator[str]:
    """Yield the texts of a script; what a template fills in is a pair of braces."""
    for text in SCRIPT_STRING.finditer(SCRIPT_COMMENT.sub("", source)):
        yield re.sub(r"\$\{[^}]*\}", "{}", text[2])


def texts() -> Iterator[tuple[str, str]]:
    """Yield everything that people read, with where it is."""
    for file in sorted(PACKAGE.rglob("*")):
        where = str(file.relative_to(ROOT))
        if file.suffix == ".py":
            for line, text in strings(file.read_text("utf-8")):
                yield f"{where}:{line}", text
        elif file.suffix == ".js":
            for text in script_strings(file.read_text("utf-8")):
                yield where, text
        elif file.suffix in SUFFIXES:
            yield where, file.read_text("utf-8")
    for page in PAGES:
        text = page.read_text("utf-8")
        if page.name == "CHANGELOG.md":  # older sections have the words of their time
            text = "## ".join(text.split("## [")[:2])
        yield str(page.relative_to(ROOT)), text


def found(text: str) -> list[str]:
    """Return what a text has of the banned phrases, each with what to write instead."""
    plain = " ".join(text.split())
    return [
        f"{plain[max(0, hit.start() - 30) : hit.end() + 30]!r}: write {instead}"
        for phrase, instead in BANNED.items()
        for hit in re.finditer(phrase, plain, re.IGNORECASE)
    ]


def test_no_banned_phrase_is_read_by_anyone() -> None:
    hits = [f"{where}: {hit}" for where, text in texts() for hit in found(text)]
    assert hits == [], "\n" + "\n".join(hits)


@pytest.mark.parametrize(
    "text",
    [
        "after so many steps", "as it was asked for", "93 in 100", "the raw score falls by 3.10",
        "it is told first", "12 ms a link", "1.5 s a link", "80 links a second", "for this long",
        "the facts of all two", "Epochs at most.", "one a page", "asked\n    for",
    ],
)  # fmt: skip
def test_a_banned_phrase_is_found(text: str) -> None:
    assert found(text)


def test_strings_are_read_whole() -> None:
    source = 'def f(n: int) -> str:\n    """So\n    many."""\n    return f"{n} asked " f"for {n}"\n'
    assert [hit.split(":")[0] for _, text in strings(source) for hit in found(text)] == [
        "'{} asked for {}'", "'So many.'",
    ]  # fmt: skip
    assert list(strings("so_many = 1  # so many\n")) == []


def test_of_scripts_only_the_texts_are_read() -> None:
    source = (
        "// asked for\nconst told = 1; /* it's raw score */\n"
        "el('p', { class: \"menu-told\" });\n"
        "say(`${told.length} asked for`, \"isn't\", '93 in 100');\n"
    )
    read = list(script_strings(source))
    assert read == ["p", "menu-told", "{} asked for", "isn't", "93 in 100"]
    assert [bool(found(text)) for text in read] == [False, False, True, False, True]
