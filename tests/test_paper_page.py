"""The page that goes through the paper: all that the paper numbers is on it, and what it names."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "paper.md").read_text("utf-8")
SECTIONS = ("Problem and definitions", "Method", "Data sets", "Experiments")
NUMBERED = (
    *(f"Equation {number}" for number in range(1, 5)),
    *(f"Table {number}" for number in range(1, 7)),
    *(f"Figure {number}" for number in ("1", "2a", "2b", "3", "4a", "4b", "5", "6")),
    "Definition 3.1", "Proposition 4.1", "Problem 4.2", "Theorem 5.1", "Algorithm 1",
    "Appendix A (1) to (12)", "Theorem B.1", "Lemma C.1", "Lemma C.2", "Appendix E",
    "AugCitation", "UserItemAttr", "Section 7",
)  # fmt: skip
"""What the paper numbers, with its data sets and its human evaluation."""
LINES = range(1, 16)
"""The lines of its algorithm."""
DOTTED = re.compile(r"`(pagelink(?:\.\w+)+)`")
FILE = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def section(name: str) -> str:
    assert f"\n## {name}\n" in PAGE
    return PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The rows of the tables of a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] not in ("in the paper", "line")]


def claims() -> list[list[str]]:
    """The rows of the four sections, those of the algorithm's lines apart."""
    return [row for name in SECTIONS for row in rows(section(name)) if not row[0][0].isdigit()]


@pytest.mark.parametrize("name", NUMBERED)
def test_all_that_the_paper_numbers_is_on_the_page(name: str) -> None:
    found = [row for row in claims() if re.search(rf"{re.escape(name)}(?!\d)", row[0])]
    assert len(found) == 1, name


def test_every_line_of_the_algorithm_is_on_the_page() -> None:
    numbers = [row[0] for row in rows(section("Method")) if row[0][0].isdigit()]
    assert sorted(int(n) for cell in numbers for n in cell.split(", ")) == list(LINES)


def test_every_row_is_whole() -> None:
    assert all(len(row) == 4 and all(row) for row in claims())
    nowhere = [row[0] for row in claims() if not DOTTED.search(row[2]) and "](" not in row[2]]
    assert nowhere == []


def named() -> list[str]:
    return sorted(set(DOTTED.findall(PAGE)))


def lookup(dotted: str) -> Any:
    """What a dotted name stands for, imported."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


@pytest.mark.parametrize("dotted", named())
def test_every_name_can_be_imported(dotted: str) -> None:
    assert lookup(dotted) is not None


def test_a_wrong_name_cannot_be_imported() -> None:
    with pytest.raises(AttributeError):
        lookup("pagelink.search.paths.no_such_function")
    assert len(named()) > 40


@pytest.mark.parametrize(("file", "test"), sorted(set(FILE.findall(PAGE))))
def test_every_test_that_is_named_exists(file: str, test: str) -> None:
    source = (ROOT / file).read_text("utf-8")
    assert not test or f"\ndef {test}(" in source


def test_the_references_are_those_of_the_citation_file() -> None:
    cite = " ".join(section("How to cite").split())
    stored = (ROOT / "CITATION.cff").read_text("utf-8")
    for key in ("title", "version", "doi", "start", "end"):
        for value in re.findall(rf"^ *{key}: \"?(.*?)\"?$", stored, re.MULTILINE):
            assert value in cite
    for given, family in re.findall(r"given-names: (.*)\n\s+family-names: (.*)", stored):
        assert f"{given} {family}" in cite
