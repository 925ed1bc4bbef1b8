"""Every table of results in README and docs is made from a result file of the repository."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pagelink.bench import docs

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CLAIMS = "words of the paper and what was found about them, with figures of other tables"
SETTINGS = "settings side by side, no results"
WORDS = "what a name means, no results"
NO_RESULTS = {
    ("benchmark.md", "here, Power-Link"): SETTINGS,
    ("explainers.md", "Needs, Cost per link, Returns, Use it"): "kinds of explainers, no results",
    ("explorer.md", "address, answer"): "addresses and what they answer, no results",
    ("faithfulness.md", "row, what it removes"): WORDS,
    ("paper.md", "in the paper, what it says, in the code, what we found"): CLAIMS,
    ("paper.md", "line, says, in the code"): "lines of the paper's algorithm",
    ("paper.md", "L_path, E_path, end of learning"): SETTINGS,
    ("paper.md", "GNNExp-Link, released, tuned, PGExp-Link, released, tuned"): SETTINGS,
    ("paper.md", "paper or its released code, pagelink"): SETTINGS,
    ("knowledge.md", "link, score, and without the returned paths, its first path"):
        "what the command above it printed",
    ("paper.md", "paper, released code, pagelink"): SETTINGS,
    ("reading.md", "Line, Meaning, Field"): "example lines and what they mean",
    ("sanity.md", "Mechanism, Right answer, Top path right, Verdict right, "
     "Exactly the paths that count"): "tests/datasets/test_planted.py counts them in each run",
    ("scale.md", "measured"): "of a run with 30 GB on disk, whose file is not kept here",
    ("speed.md", "row, what is measured, figure"): "how each figure is taken, no results",
}  # fmt: skip
"""Tables with digits that no result file makes, by page and head, and why."""


def loose(text: str) -> list[str]:
    """Return the heads of tables with digits in their bodies that stand between no markers.

    A head is that of all columns which have one. Blocks of code are left out.
    """
    text = docs.MARKED.sub("", text)
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    heads = []
    for table in re.findall(r"(?:^ *\|.*\n?)+", text, re.MULTILINE):
        head, _, *body = table.strip().splitlines()
        if any(re.search(r"\d", row) for row in body):
            heads.append(", ".join(filter(None, (cell.strip() for cell in head.split("|")))))
    return heads


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_of_results_come_from_result_files(page: Path) -> None:
    found = {(page.name, head) for head in loose(page.read_text("utf-8"))}
    assert found == {entry for entry in NO_RESULTS if entry[0] == page.name}


def test_a_table_outside_of_markers_is_found() -> None:
    table = "| | effect |\n| --- | --: |\n| default | 0.8 |\n"
    assert loose(f"# A\n\n{table}\nEnd.\n") == ["effect"]
    assert loose(f"1. Step:\n\n   {table}") == ["effect"]
    assert loose(f"<!-- benchmark:sides -->\n{table}<!-- /benchmark:sides -->\n") == []
    assert loose(f"```text\n{table}```\n") == []
    assert loose(table.replace("0.8", "high")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_with_markers_are_those_that_are_written(page: Path) -> None:
    text = page.read_text("utf-8")
    assert bool(docs.MARKED.search(text)) == (page.relative_to(ROOT) in docs.FILES)
    assert docs.NOT_RUN not in text


def test_parts_of_the_benchmark_explain_the_same_links() -> None:
    # Runs on an earlier version of a model would stand beside those on the present one.
    found: dict[tuple[str, int], dict[str, str]] = {}
    for file in sorted((ROOT / docs.RESULTS).glob("*/*.json")):
        key = json.loads(file.read_text("utf-8"))["key"]
        if "pairs" in key:
            found.setdefault((key["data"], key["links"]), {})[key["pairs"]] = file.parent.name
    assert len(found) > 5
    assert {links: parts for links, parts in found.items() if len(parts) > 1} == {}
