"""The pages: examples run and print what they say, links lead somewhere, what is named exists."""

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
from functools import cache
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
"""Trained models differ a little between processors: relative and absolute tolerance of numbers."""


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


# What a page names in `code` is ours if it looks like a file of the repository, a dotted name of
# pagelink, a command, or an identifier. All of it is looked up in the sources: nothing is imported,
# so no optional package is needed.
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
PATH = re.compile(r"[\w.<*-][\w.<>*/-]*")
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
DOTTED = re.compile(r"pagelink(?:\.\w+)+")
IMPORT = re.compile(r"(?:from|import) (pagelink[\w.]*)(?: import ([\w, ]+))?")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
FILE_SUFFIXES = (".py", ".md", ".toml", ".js", "/")
FOREIGN = {
    "RAY_AUTH_TOKEN_PATH", "RayCluster", "ReadWriteMany", "authOptions",  # of Ray and Kubernetes
    "edge_time", "process_time", "ru_maxrss",  # of PyTorch Geometric and Python
    "save_to_directory",  # of PyKEEN
}  # fmt: skip
"""Names of other projects that our sources do not use."""


def unreleased(changelog: str) -> str:
    """Return what is said of the next version: older sections name what was there at the time."""
    return "## ".join(changelog.split("## [")[:2])


def mentions(text: str) -> list[str]:
    """Return what a page has in `code`; of imports, here and in its blocks, the imported names."""
    inline = [" ".join(code[2].split()) for code in CODE.finditer(FENCE.sub("", text))]
    blocks = [line for _, block in FENCE.findall(text) for line in block.splitlines()]
    found = [code for code in inline if not IMPORT.match(code)]
    for statement in filter(None, map(IMPORT.match, [*inline, *blocks])):
        module, names = statement[1], statement[2]
        found += [f"{module}.{name.strip()}" for name in names.split(",")] if names else [module]
    return found


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the parsed sources: the package, its tests and examples."""
    files = [
        f for folder in ("pagelink", "tests", "examples") for f in (ROOT / folder).rglob("*.py")
    ]
    return {file: ast.parse(file.read_text("utf-8")) for file in files}


@cache
def identifiers() -> set[str]:
    """Return every identifier in the sources, and every word of their short texts."""
    found = set()
    for file, tree in trees().items():
        if file == Path(__file__):
            continue
        for node in ast.walk(tree):
            for _, value in ast.iter_fields(node):
                if isinstance(value, str):
                    found.update(IDENTIFIER.findall(value) if len(value) < 80 else ())
            if isinstance(node, ast.alias):
                found.update(node.name.split("."))
    return found


def bound(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the names that statements bind, those under `if` and `try` and in `__all__` too."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name, statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                yield alias.asname or alias.name, statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in map(ast.unparse, targets):
                yield target, statement
                if target == "__all__" and statement.value is not None:
                    yield from ((name, statement) for name in ast.literal_eval(statement.value))
        for inner in (
            ("body", "orelse", "handlers") if isinstance(statement, ast.If | ast.Try) else ()
        ):
            yield from bound(getattr(statement, inner, []))


def is_name_of_pagelink(dotted: str) -> bool:
    """Whether a dotted name is a module of pagelink, or bound in one, or in a class of one."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:end])
        file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if file in trees():
            break
    else:
        return False
    body = trees()[file].body
    for name in parts[end:]:
        statement = dict(bound(body)).get(name)
        if statement is None:
            return False
        if not isinstance(statement, ast.ClassDef) or statement.bases:
            return True  # made elsewhere: what it has cannot be read here
        body = statement.body
    return True


def ours() -> set[str]:
    """Return the folders of the repository and of the package."""
    folders = {folder.name for folder in (ROOT / "pagelink").iterdir() if folder.is_dir()}
    return folders | {"pagelink", "tests", "docs", "examples", ".ci"}


def is_file_of_ours(path: str) -> bool:
    """Whether a path, in which `<part>` and `*` stand for anything, leads to a file or folder."""
    pattern = re.sub(r"<[^>]*>", "*", path).rstrip("/")
    return any(next(base.glob(pattern), None) is not None for base in (ROOT, ROOT / "pagelink"))


@cache
def commands() -> dict[str, set[str]]:
    """Return the options of every command, by its words."""
    found: dict[str, set[str]] = {}

    def visit(words: str, command: Any) -> None:
        found[words] = {option for p in command.params for option in [*p.opts, *p.secondary_opts]}
        for name, inner in getattr(command, "commands", {}).items():
            visit(f"{words} {name}", inner)

    visit("pagelink", typer.main.get_command(importlib.import_module("pagelink.cli.main").app))
    return found


def is_command(line: str) -> bool:
    """Whether a line starts with a command of pagelink, and has options of that command only."""
    words = line.split()
    length = max(n for n in range(1, len(words) + 1) if " ".join(words[:n]) in commands())
    command, rest = " ".join(words[:length]), words[length:]
    is_group = any(other.startswith(f"{command} ") for other in commands())
    if is_group and rest and re.fullmatch(r"[a-z]+", rest[0]):
        return False  # a group takes nothing but its commands
    options = commands()[command] | commands()["pagelink"] | {"--help"}
    return all(word.split("=")[0] in options for word in rest if word.startswith("--"))


def is_there(code: str) -> bool:
    """Whether what a page names exists; True of what is not ours, as far as can be told."""
    if code.startswith("pagelink ") and "[" not in code:
        return is_command(code)
    if code.startswith("make "):
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
        return code.split()[1] in targets
    if re.fullmatch(r"--[a-z-]+", code):
        return code == "--help" or any(code in options for options in commands().values())
    if dotted := DOTTED.match(code):
        return is_name_of_pagelink(dotted[0])
    if (test := TEST.fullmatch(code)) is not None:
        tree = trees().get(ROOT / test[1])
        return tree is not None and test[2] in dict(bound(tree.body))
    first, slash, _ = code.partition("/")
    if PATH.fullmatch(code) and (code.endswith(FILE_SUFFIXES) or (slash and first in ours())):
        return is_file_of_ours(code)
    name = re.match(r"(?:\w+\.)*([A-Za-z_]\w*)(?:\(|$)", code)
    if name is None:
        return True
    telling = "(" in code or "_" in name[1].strip("_") or re.search(r"[a-z][A-Z]", name[1])
    return not telling or name[1] in identifiers() | FOREIGN


@pytest.mark.parametrize(
    "page", [*PAGES, *ROOT.glob("*.md")], ids=lambda page: str(page.relative_to(ROOT))
)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    if page.name == "CHANGELOG.md":
        text = unreleased(text)
    assert [code for code in mentions(text) if not is_there(code)] == []


@pytest.mark.parametrize(
    "text",
    [
        "in `pagelink/evaluation/`", "in `evaluation/`", "in `evaluation/a.py`", "in `nothing.py`",
        "in `rivals/nothing.py`", "in `tests/zoo.py`", "in `docs/nothing.md`",
        "in `bench/paper/<part>_of_nothing.py`", "the field `path.no_such_field`",
        "as `pagelink.nothing`", "as `pagelink.settings.Nothing`", "as `pagelink.Nothing(x)`",
        "as `pagelink.settings.Settings.nothing`", "call `explain_nothing(x)`", "a `NothingAtAll`",
        "by `tests/nothing.py::test_a`", "by `tests/test_docs.py::test_nothing`",
        "run `pagelink nothing`", "run `pagelink bench nothing`",
        "run `pagelink explain GRAPH --nothing`", "give `--nothing`", "run `make nothing`",
        "by `from pagelink import nothing`", "```\nfrom pagelink.web.app import nothing\n```\n",
        "```python\nimport pagelink.nothing\n```\n", "split\nover `pagelink\nnothing`",
    ],
)  # fmt: skip
def test_a_wrong_name_is_found(text: str) -> None:
    named = mentions(text)
    assert len(named) == 1
    assert not is_there(named[0])


@pytest.mark.parametrize(
    "text",
    [
        "`pagelink/explain/`", "`explain/explainer.py`", "`settings.py`", "`tests/test_docs.py`",
        "`tests/test_docs.py::test_links_lead_somewhere`",
        "`bench/*/bench.py`", "`pagelink.Settings`", "`pagelink.settings.Settings.paper`",
        "`pagelink.metrics.average`", "`Settings(rho=1)`", "`torch.cat`", "`HeteroData`",
        "`pagelink explain GRAPH --model model.pt`", "`pagelink --help`", "`--rank`", "`make test`",
        "`edges-user__buys__item.csv`", "`out/explanation.html`", "`MONDO:0005148`",
        "```\nfrom pagelink.web.app import explore\n```\n",
    ],
)  # fmt: skip
def test_a_right_name_is_let_through(text: str) -> None:
    (named,) = mentions(text)
    assert is_there(named)


def test_the_map_of_the_folders_is_that_of_the_layers() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (drawn,) = [block for _, block in FENCE.findall(page) if block.startswith("pagelink/\n")]
    package = drawn.partition("\ntests/")[0].partition("\n")[2]
    named = re.findall(r"(?<![\w/])(\w+)(?:/|\.py)", re.sub(r"bench/ .*", "bench/", package))
    layers = ast.parse((ROOT / "tests" / "test_layers.py").read_text("utf-8"))
    order = next(node for name, node in bound(layers.body) if name == "ORDER")
    assert isinstance(order, ast.Assign)
    assert named == [unit for unit in ast.literal_eval(order.value) if unit != "__main__"]


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
    page = (DOCS / "paper.md").read_text("utf-8")
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
    if re.search(rf"^\.\. automodule:: {module.__name__}\n   :members:", text, re.MULTILINE):
        return
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
