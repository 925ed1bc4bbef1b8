"""Holds the order of the folders: data flows one way, and so do the imports."""

from __future__ import annotations

import ast
import graphlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pagelink"

# From top to bottom: a folder imports only from folders above it. The first ones are the road of a
# link through the method; those from `views` on use it and are never used by it.
ORDER = (
    "errors", "settings", "runtime", "layers", "graph", "store", "tables", "model", "search",
    "measure", "explain", "trained", "views", "models", "datasets", "rivals", "metrics", "checks",
    "engine", "audit", "web", "study", "bench", "cli", "__main__",
)  # fmt: skip
# A result says and draws itself, so that a user need not know the views, and an explainer has its
# links explained by workers, its model audited and embeddings trained anew, so that a user need not
# know the engine, the audit nor what trains: imported when called.
WHEN_CALLED = (
    ("explain", "views"), ("explain", "engine"), ("explain", "audit"), ("explain", "trained"),
)  # fmt: skip
MOST_MODULES, MOST_LINES = 16, 400
# `import pagelink`, `pagelink --help` and drawing a stored explanation must not wait for torch.
QUICK = ("", "cli", "views")
SLOW = ("torch", "torch_geometric")
TYPES_ONLY = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


@dataclass(frozen=True)
class Import:
    """One import statement, by what it imports."""

    name: str
    """The full dotted name: of a module, or of something in a module."""
    line: int
    when_called: bool
    """Inside a function: nothing is imported when the module is."""
    for_types: bool
    """Under `if TYPE_CHECKING`: never imported at run time."""


def imports(module: str, source: str, is_package: bool) -> Iterator[Import]:
    """Yield what a module imports, relative imports resolved, wherever the statement stands."""

    def visit(node: ast.AST, when_called: bool, for_types: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, when_called, for_types)
        elif isinstance(node, ast.ImportFrom):
            # One dot is the package a module lies in; a package lies in itself.
            here = module.split(".") if is_package else module.split(".")[:-1]
            base = here[: len(here) - node.level + 1] if node.level else []
            inner = node.module.split(".") if node.module else []
            for alias in node.names:
                name = ".".join([*base, *inner, alias.name])
                yield Import(name, node.lineno, when_called, for_types)
        elif isinstance(node, ast.If) and ast.unparse(node.test) in TYPES_ONLY:
            for statement in node.body:
                yield from visit(statement, when_called, True)
            for statement in node.orelse:
                yield from visit(statement, when_called, for_types)
        else:
            inside = when_called or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, inside, for_types)

    yield from visit(ast.parse(source), False, False)


def unit_of(name: str) -> str | None:
    """Return the part of pagelink a dotted name lies in, "" for its face, None for others."""
    first, *rest = name.split(".")
    if first != "pagelink":
        return None
    # `from pagelink import Settings` asks the face, `from pagelink import graph` a module.
    return rest[0] if rest and rest[0] in ORDER else ""


def faults(sources: Mapping[str, str]) -> list[str]:
    """Return in words what is wrong with the imports of a package.

    Args:
        sources: Source by file, relative to the package, with slashes: `views/text.py`.
    """
    found = []
    names = {file: _module_name(file) for file in sources}
    imported = {
        file: list(imports(names[file], source, file.endswith("__init__.py")))
        for file, source in sources.items()
    }
    for file in sources:
        unit = _unit_of_file(file)
        if unit and unit not in ORDER:
            found.append(f"{file}: a folder without a place, see ORDER in this test")
            continue
        for entry in imported[file]:
            other = unit_of(entry.name)
            if other in (None, unit):
                continue
            if not _may_import(unit, other, entry.when_called or entry.for_types):
                found.append(
                    f"{file}:{entry.line}: {unit or 'the face'} must not import {entry.name}"
                )
    found += _cycles(names, imported)

    loaded = {names[file]: _loaded(imported[file]) for file in sources}
    for file, name in names.items():
        if _unit_of_file(file) in QUICK:
            found += [f"{file}: loads {slow}" for slow in SLOW if slow in _closure(name, loaded)]
    return found


def _unit_of_file(file: str) -> str:
    return "" if file == "__init__.py" else file.split("/")[0].removesuffix(".py")


def _module_name(file: str) -> str:
    parts = ["pagelink", *file.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _may_import(unit: str, other: str, when_called: bool) -> bool:
    if unit == "":  # the face names what it has, wherever that lives
        return other in ORDER[: ORDER.index("views")]
    if other == "":
        return ORDER.index(unit) >= ORDER.index("views")
    if when_called and (unit, other) in WHEN_CALLED:
        return True
    return ORDER.index(other) < ORDER.index(unit)


def _cycles(names: Mapping[str, str], imported: Mapping[str, list[Import]]) -> list[str]:
    """Return the cycles of imports among modules, wherever the import stands, those inside too."""
    modules = set(names.values())
    used: dict[str, set[str]] = {}
    for file, entries in imported.items():
        own = names[file]
        for entry in entries:
            # The last part may be a name in the module, and a package is not its modules.
            other = entry.name if entry.name in modules else entry.name.rpartition(".")[0]
            if other in modules - {own} and _unit_of_file(file) == unit_of(other):
                used.setdefault(own, set()).add(other)
    try:
        graphlib.TopologicalSorter(used).prepare()
    except graphlib.CycleError as error:
        return [f"import cycle: {' -> '.join(reversed(error.args[1]))}"]
    return []


def _loaded(entries: list[Import]) -> set[str]:
    return {entry.name for entry in entries if not entry.when_called and not entry.for_types}


def _closure(module: str, loaded: Mapping[str, set[str]]) -> set[str]:
    """Return every module that is loaded with a module, those of other packages by first name."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        parts = waiting.pop().split(".")
        if parts[0] != "pagelink":
            seen.add(parts[0])
            continue
        # Loading a.b.c loads a and a.b too; the last part may also be a name in the module.
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name in loaded and name not in seen:
                seen.add(name)
                waiting += loaded[name]
    return seen


def test_an_unknown_module_is_one_fault() -> None:
    # It is not taken for the face of the package, which must not load torch.
    assert len(faults({"utils.py": "import torch"})) == 1


def test_pagelink_keeps_the_order() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert files
    assert faults({f.relative_to(PACKAGE).as_posix(): f.read_text("utf-8") for f in files}) == []


def test_no_folder_and_no_module_is_too_full() -> None:
    files = [f for f in PACKAGE.rglob("*.py") if f.name != "__init__.py"]
    folders = Counter(file.parent.relative_to(PACKAGE).as_posix() for file in files)
    assert {name: count for name, count in folders.items() if count > MOST_MODULES} == {}
    lines = {
        f.relative_to(PACKAGE).as_posix(): len(f.read_text("utf-8").splitlines()) for f in files
    }
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.parametrize(
    ("sources", "fault"),
    [
        ({"graph/a.py": "from pagelink.search.paths import x"}, "graph/a.py:1: graph must not"),
        ({"graph/a.py": "import pagelink.explain.explainer"}, "graph must not import"),
        ({"graph/a.py": "from pagelink import search"}, "graph must not import pagelink.search"),
        ({"graph/a.py": "from .. import search"}, "graph must not import pagelink.search"),
        ({"graph/a.py": "from ..search import x as y"}, "graph must not import pagelink.search.x"),
        ({"graph/a.py": "from pagelink import Settings"}, "must not import pagelink.Settings"),
        ({"graph/a.py": "import pagelink"}, "graph must not import pagelink"),
        ({"graph/a.py": "def f():\n    import pagelink.search"}, "graph/a.py:2: graph must not"),
        ({"graph/a.py": "if TYPE_CHECKING:\n    import pagelink.search"}, "graph/a.py:2: graph"),
        ({"explain/a.py": "from pagelink.models import x"}, "explain must not import"),
        ({"explain/a.py": "from pagelink.views import text"}, "explain must not import"),
        ({"explain/a.py": "def f():\n    import pagelink.cli"}, "explain must not import"),
        ({"measure/a.py": "def f():\n    import pagelink.views"}, "measure must not import"),
        ({"models/a.py": "import pagelink.datasets"}, "models must not import"),
        ({"__init__.py": "from pagelink.models import x"}, "the face must not import"),
        ({"utils.py": ""}, "utils.py: a folder without a place"),
        ({"extras/__init__.py": ""}, "extras/__init__.py: a folder without a place"),
        (
            {"graph/a.py": "from pagelink.graph.b import x", "graph/b.py": "from . import a"},
            "import cycle",
        ),
        (
            {
                "bench/x/a.py": "def f():\n    import pagelink.bench.y.b",
                "bench/y/b.py": "from ..x.a import f",
            },
            "import cycle",
        ),
        ({"cli/a.py": "import torch"}, "cli/a.py: loads torch"),
        ({"cli/a.py": "from torch.nn import Module"}, "cli/a.py: loads torch"),
        ({"__init__.py": "import torch_geometric.data"}, "__init__.py: loads torch_geometric"),
        ({"views/svg.py": "if not TYPE_CHECKING:\n    import torch"}, "views/svg.py: loads torch"),
        ({"views/svg.py": "class A:\n    import torch"}, "views/svg.py: loads torch"),
        (
            {"cli/a.py": "from pagelink.graph import b", "graph/b.py": "import torch"},
            "cli/a.py: loads torch",
        ),
        (
            {"cli/a.py": "from ..views.text import f", "views/__init__.py": "import torch"},
            "cli/a.py: loads torch",
        ),
        (
            {"__init__.py": "from .graph.a import TypedGraph", "graph/a.py": "import torch"},
            "__init__.py: loads torch",
        ),
    ],
)  # fmt: skip
def test_a_wrong_import_is_found(sources: dict[str, str], fault: str) -> None:
    assert any(fault in found for found in faults(sources))


@pytest.mark.parametrize(
    "sources",
    [
        {"graph/a.py": "import torch\nfrom pagelink.errors import GraphError"},
        {"graph/a.py": "from pagelink.graph.b import x", "graph/b.py": ""},
        {"explain/a.py": "def f():\n    from pagelink.views.text import to_text"},
        {"views/text.py": "from pagelink.explain.result import Explanation\nfrom . import svg"},
        {"views/__init__.py": "from .text import to_text"},
        {"cli/a.py": "import pagelink\ndef f():\n    import torch, pagelink.models.x"},
        {"cli/a.py": "if TYPE_CHECKING:\n    import torch\n    from pagelink import PaGELink"},
        {"cli/a.py": "from pagelink import Settings", "graph/a.py": "import torch"},
        {
            "__init__.py": "if TYPE_CHECKING:\n    from .graph.a import TypedGraph",
            "graph/a.py": "import torch",
        },
        {
            "bench/run.py": "from pagelink import rivals, datasets\nimport pagelink.explain.pyg",
            "rivals/x.py": "from pagelink.models.heads import Dot",
        },
    ],
)  # fmt: skip
def test_a_right_import_is_let_through(sources: dict[str, str]) -> None:
    assert faults(sources) == []
