"""Holds the order of the modules: data flows one way, and so do the imports."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pagelink"

# Each module of the road imports only from modules before it.
ROAD = (
    "errors", "settings", "files", "timer", "kernels", "ragged", "threads", "graph_data",
    "graph_schema", "reverse_relations", "pair_sets", "graph", "store_format", "store_files",
    "store_strings", "store_values", "store", "store_spool", "store_sorting", "store_facts",
    "store_nodes", "store_writer", "text_index", "asked_links", "table_numbers", "table_files",
    "table_folders", "triples", "tables", "table_pieces", "store_triples", "store_build",
    "constraints", "ego_kernels", "computation_graph", "copies", "batches", "pruning",
    "walk_kernels", "path_kernels", "paths", "fused", "tracing", "masking", "model_inputs",
    "predictor", "patch", "influence", "locality", "proofs", "reach", "walk_weights", "learning",
    "candidates", "chains", "candidate_sets", "selection", "edge_mask", "verdicts", "explanation",
    "named_paths", "controls", "evidence", "measuring", "results", "other_targets",
    "removal_search", "counterfactual", "counterfactual_search", "on_request", "explainer", "pyg",
)  # fmt: skip
# These use the road and each other, without cycles, and are never used by the road.
BESIDE = (
    "baselines", "datasets", "models", "evaluation", "views", "description", "demo", "link_tables",
    "job_identity", "jobs", "engine", "checks", "web", "study", "commands", "cli", "__main__",
)  # fmt: skip
# `import pagelink`, `pagelink --help` and drawing a stored explanation must not wait for torch.
QUICK = ("", "cli", "commands", "views")
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
    return rest[0] if rest and rest[0] in ROAD + BESIDE else ""


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
    used: dict[str, set[str]] = {unit: set() for unit in BESIDE}
    for file in sources:
        unit = _unit_of_file(file)
        if unit and unit not in ROAD + BESIDE:
            found.append(f"{file}: neither on the road nor beside it, see the lists in this test")
            continue
        for entry in imported[file]:
            other = unit_of(entry.name)
            if other is None or other == unit:
                continue
            if unit in BESIDE and other in BESIDE:
                used[unit].add(other)
            elif not _may_import(unit, other, entry.when_called or entry.for_types):
                found.append(
                    f"{file}:{entry.line}: {unit or 'the face'} must not import {entry.name}"
                )
    try:
        graphlib.TopologicalSorter(used).prepare()
    except graphlib.CycleError as error:
        found.append(f"import cycle: {' -> '.join(reversed(error.args[1]))}")

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
    if unit in BESIDE:
        return True
    if unit == "":
        return other in ROAD
    if other in ROAD:
        return ROAD.index(other) < ROAD.index(unit)
    # The exceptions: a result says and draws itself, so that a user need not know the views, and
    # an explainer has its links explained by workers, so that a user need not know the engine.
    return when_called and (unit, other) in (
        ("explanation", "views"), ("counterfactual", "views"), ("explainer", "engine"),
    )  # fmt: skip


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


@pytest.mark.parametrize(
    ("sources", "fault"),
    [
        ({"graph.py": "from pagelink.paths import x"}, "graph.py:1: graph must not import"),
        ({"graph.py": "import pagelink.explainer"}, "graph must not import pagelink.explainer"),
        ({"graph.py": "from pagelink import paths"}, "graph must not import pagelink.paths"),
        ({"graph.py": "from . import paths"}, "graph must not import pagelink.paths"),
        ({"graph.py": "from .paths import x as y"}, "graph must not import pagelink.paths.x"),
        ({"graph.py": "from pagelink import Settings"}, "graph must not import pagelink.Settings"),
        ({"graph.py": "import pagelink"}, "graph must not import pagelink"),
        ({"graph.py": "def f():\n    import pagelink.paths"}, "graph.py:2: graph must not"),
        ({"graph.py": "if TYPE_CHECKING:\n    import pagelink.paths"}, "graph.py:2: graph must"),
        ({"explainer.py": "from pagelink.models import x"}, "explainer must not import"),
        ({"explanation.py": "from pagelink.views import text"}, "explanation must not import"),
        ({"explanation.py": "def f():\n    import pagelink.cli"}, "explanation must not import"),
        ({"explainer.py": "def f():\n    import pagelink.views"}, "explainer must not import"),
        ({"__init__.py": "from pagelink.models import x"}, "the face must not import"),
        ({"utils.py": ""}, "utils.py: neither on the road nor beside it"),
        ({"extras/__init__.py": ""}, "extras/__init__.py: neither on the road"),
        (
            {"models/x.py": "import pagelink.datasets", "datasets/y.py": "import pagelink.models"},
            "import cycle",
        ),
        (
            {
                "models/rgcn.py": "import pagelink.datasets",
                "datasets/a.py": "def f():\n    import pagelink.baselines.x",
                "baselines/x.py": "from ..models import rgcn",
            },
            "import cycle",
        ),
        ({"cli.py": "import torch"}, "cli.py: loads torch"),
        ({"cli.py": "from torch.nn import Module"}, "cli.py: loads torch"),
        ({"__init__.py": "import torch_geometric.data"}, "__init__.py: loads torch_geometric"),
        ({"views/svg.py": "if not TYPE_CHECKING:\n    import torch"}, "views/svg.py: loads torch"),
        ({"views/svg.py": "class A:\n    import torch"}, "views/svg.py: loads torch"),
        (
            {"cli.py": "from pagelink import graph", "graph.py": "import torch"},
            "cli.py: loads torch",
        ),
        (
            {"cli.py": "from .views.text import f", "views/__init__.py": "import torch"},
            "cli.py: loads torch",
        ),
        (
            {"__init__.py": "from .graph import TypedGraph", "graph.py": "import torch"},
            "__init__.py: loads torch",
        ),
    ],
)  # fmt: skip
def test_a_wrong_import_is_found(sources: dict[str, str], fault: str) -> None:
    assert any(fault in found for found in faults(sources))


@pytest.mark.parametrize(
    "sources",
    [
        {"graph.py": "import torch\nfrom pagelink.errors import GraphError"},
        {"pyg.py": "from pagelink import explainer\nfrom .settings import Settings"},
        {"explanation.py": "def f():\n    from pagelink.views.text import to_text"},
        {"counterfactual.py": "def f():\n    from pagelink.views.text import to_text"},
        {"views/text.py": "from pagelink.explanation import Explanation\nfrom . import svg"},
        {"views/__init__.py": "from .text import to_text"},
        {"cli.py": "import pagelink\ndef f():\n    import torch, pagelink.models.x"},
        {"cli.py": "if TYPE_CHECKING:\n    import torch\n    from pagelink import PaGELink"},
        {"cli.py": "from pagelink import Settings", "graph.py": "import torch"},
        {
            "__init__.py": "if TYPE_CHECKING:\n    from .graph import TypedGraph",
            "graph.py": "import torch",
        },
        {
            "evaluation/run.py": "from pagelink import baselines, datasets\nimport pagelink.pyg",
            "baselines/x.py": "from pagelink.models.heads import Dot",
        },
    ],
)  # fmt: skip
def test_a_right_import_is_let_through(sources: dict[str, str]) -> None:
    assert faults(sources) == []
