"""README fits one screen in a fixed order, and every page opens with its conclusion."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in sorted((ROOT / "docs").glob("*.md"))
    if "{include}" not in page.read_text("utf-8")
]
MOST_CHARACTERS = 700
"""Of an opening: one to three sentences, with the addresses of its links."""
MOST_BYTES = 900_000
"""Of the moving picture, which is loaded with README."""


def opening(text: str) -> str:
    """Return the paragraph under the title, empty if something else stands there."""
    first = text.split("\n\n")[1].strip()
    return "" if re.match(r"```|#|[-*] |\||!\[|<", first) else first


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_opens_with_its_conclusion(page: Path) -> None:
    assert 0 < len(opening(page.read_text("utf-8"))) <= MOST_CHARACTERS


@pytest.mark.parametrize("second", ["```\nx\n```", "## Use", "- a", "| a |", "![a](b.png)"])
def test_other_openings_are_found(second: str) -> None:
    assert opening(f"# Title\n\n{second}\n\nText.") == ""
    assert opening("# Title\n\n`x` is text.\n\n## Use") == "`x` is text."


def test_readme_begins_with_what_it_is_how_it_looks_and_what_it_prints() -> None:
    first, _, rest = (ROOT / "README.md").read_text("utf-8").partition("\n## ")
    order = [
        "pagelink explains",
        "docs/images/explorer.gif",
        "pip install pagelink",
        "```python",
        "The link: ",
    ]
    places = [first.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)
    code = first.split("```python\n")[1].split("```")[0]
    assert len(code.splitlines()) == 6
    rows = [line for line in rest.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 5  # a heading, its rule and five rows


def test_the_moving_picture_is_small_and_moves() -> None:
    picture = (ROOT / "docs" / "images" / "explorer.gif").read_bytes()
    assert len(picture) <= MOST_BYTES
    assert b"NETSCAPE2.0" in picture  # it is repeated
    assert 10 <= picture.count(b"\x21\xf9\x04") <= 14  # one block of timing per frame
