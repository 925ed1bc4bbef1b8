"""The pages: their examples run and print what they say, their links lead somewhere."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer
from typer.testing import CliRunner

import pagelink
import pagelink.metrics
import pagelink.models
from pagelink import PageLinkError, Settings

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
NEAR = 0.05
"""Trained models differ a little between processors: numbers may be off by so much of themselves,
or by so much."""


@dataclass(frozen=True)
class Block:
    """A block of Python in a page, with what the page says it prints."""

    line: int
    code: str
    printed: str | None


def blocks(text: str) -> list[Block]:
    """Return the blocks of Python; a block of text right behind one is what it prints."""
    found = list(FENCE.finditer(text))
    listed = []
    for block, after in zip_longest(found, found[1:]):
        if block[1] != "python":
            continue
        follows = (
            after is not None
            and after[1] == "text"
            and not text[block.end() : after.start()].strip()
        )
        line = text.count("\n", 0, block.start()) + 2
        listed.append(Block(line, block[2], after[2] if follows and after else None))
    return listed


def run(block: Block, names: dict[str, Any], page: str) -> str:
    """Run a block and return what it prints; an error made on purpose is its last line."""
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.code, page, "exec")
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, names)
        except PageLinkError as error:
            if block.printed is None or not block.printed.startswith(type(error).__name__):
                raise
            print(f"{type(error).__name__}: {error}")
    return printed.getvalue()


def numbers(text: str) -> list[float]:
    """Return all numbers in a text."""
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def tells_the_same(said: str, printed: str) -> bool:
    """Whether two texts have the same words, and nearly the same numbers."""
    said, printed = (
        "\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (said, printed)
    )
    return NUMBER.sub("#", said) == NUMBER.sub("#", printed) and all(
        math.isclose(a, b, rel_tol=NEAR, abs_tol=NEAR)
        for a, b in zip(numbers(said), numbers(printed), strict=True)
    )


def test_examples_are_found_and_compared() -> None:
    page = "a\n\n```python\nprint(1.5)\n```\n\n```text\n1.52\n```\n\n"
    page += "```python\nx\n```\nb\n```text\n```\n"
    first, second = blocks(page)
    assert (first.line, first.printed, second.printed) == (4, "1.52\n", None)
    assert tells_the_same(first.printed or "", run(first, {}, "page"))
    assert not tells_the_same("1.60\n", run(first, {}, "page"))
    assert not tells_the_same("1.5 in all\n", run(first, {}, "page"))
    with pytest.raises(NameError):
        run(second, {}, "page")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page.read_text("utf-8"))], ids=lambda page: page.stem
)
def test_examples_print_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    monkeypatch.setitem(sys.modules, "page", type(sys)("page"))
    for block in blocks(page.read_text("utf-8")):
        printed = run(block, names, str(page))
        if block.printed is not None:
            assert tells_the_same(block.printed, printed), f"line {block.line}: {printed}"


def links(page: Path) -> Iterator[str]:
    """Yield where the links and images of a page lead, those to other sites apart."""
    text = FENCE.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub and MyST make them."""
    text = FENCE.sub("", page.read_text("utf-8"))
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"[`*_]|\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


@pytest.mark.parametrize(
    "page", [*PAGES, *ROOT.glob("*.md")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        file, _, anchor = unquote(target).partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{target}: there is no such file"
        if anchor:
            assert anchor in anchors(path), f"{target}: there is no such heading"


def test_every_page_is_reached_from_the_first_one() -> None:
    listed = {DOCS / "index.md"}
    for page in PAGES:
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            entries = [line for line in tree.split("\n") if line and not line.startswith(":")]
            listed |= {page.parent / f"{entry}.md" for entry in entries}
    assert listed == set(PAGES)


def marked(source: str) -> Iterator[str]:
    """Yield the names of what has a docstring that says it differs from the paper."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        for before, child in zip([None, *node.body], node.body, strict=False):
            if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                continue
            if "Differs from the paper" not in " ".join(str(child.value.value).split()):
                continue
            if isinstance(before, ast.AnnAssign):
                yield ast.unparse(before.target)
            elif isinstance(before, ast.Assign):
                yield ast.unparse(before.targets[0])
            else:
                yield getattr(node, "name", "")


def test_every_difference_from_the_paper_is_on_the_page() -> None:
    page = (DOCS / "how-it-works.md").read_text("utf-8")
    section = page.partition("\n## Differs from the paper\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"`([^`]+)`", section))))
    sources = [path.read_text("utf-8") for path in (ROOT / "pagelink").rglob("*.py")]
    marks = [name for source in sources for name in marked(source)]
    assert len(marks) == sum(
        len(re.findall(r"Differs\s+from\s+(#\s+)?the\s+paper", source)) for source in sources
    ), "a mark that is not in a docstring is not found by this test"
    presets = {
        field.name
        for field in fields(Settings)
        for preset in map(Settings.paper, ("useritemattr", "augcitation"))
        if getattr(preset, field.name) != getattr(Settings(), field.name)
    }
    assert set(marks) | presets <= named


@pytest.mark.parametrize("module", [pagelink, pagelink.models, pagelink.metrics])
def test_every_public_name_is_in_the_reference(module: Any) -> None:
    text = "\n".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    described = set(re.findall(r"^\.\. auto\w+:: \S*?(\w+)$", text, re.MULTILINE))
    public = {name for name in module.__all__ if callable(getattr(module, name))}
    assert public <= described


def test_every_command_is_described_with_all_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    monkeypatch.setenv("COLUMNS", "200")
    described = importlib.import_module("commands")
    top = typer.main.get_command(described.app)
    pages = {
        context.command_path: "\n".join(described.as_markdown(command, context))
        for command, context in described.commands(
            top, top.context_class(top, info_name="pagelink")
        )
    }
    assert {"pagelink explain", "pagelink bench speed", "pagelink dataset aminer"} <= set(pages)
    for path, text in pages.items():
        said = CliRunner().invoke(described.app, [*path.split()[1:], "--help"]).output
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", said)) - {"--help"}
        assert options <= set(re.findall(r"--[a-z][a-z-]*", text)), path
