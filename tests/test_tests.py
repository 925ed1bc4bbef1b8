"""How the tests themselves are laid out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.compile_kernels import compile_in_a_process, with_kernels

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "pagelink"


def imports_of_tests(source: str) -> list[str]:
    """Return the test files, conftest included, that a source imports, wherever it does so."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # `from . import test_x` and `from tests.graph import test_x` name it behind the import.
            names += [f"{node.module or ''}.{alias.name}" for alias in node.names]
    return [
        name for name in names
        if any(part.startswith("test_") or part == "conftest" for part in name.split(".")[:-1])
        or name.split(".")[-1].startswith("test_") or name == "conftest"
    ]  # fmt: skip


def test_no_test_file_imports_another_one() -> None:
    # What two of them need lies in tests/support.
    files = sorted(TESTS.rglob("*.py"))
    assert len(files) > 50
    found = {
        file.relative_to(TESTS).as_posix(): names
        for file in files
        if (names := imports_of_tests(file.read_text("utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import test_views",
        "from test_graph import hetero",
        "from tests.graph.test_graph import hetero",
        "from tests.graph import test_graph",
        "def test() -> None:\n    from . import test_graph",
        "from conftest import data",
    ],
)
def test_an_import_of_a_test_file_is_found(source: str) -> None:
    assert imports_of_tests(source)


def test_the_folders_are_those_of_the_package() -> None:
    folders = {
        file.parent.relative_to(TESTS) for file in TESTS.rglob("test_*.py") if file.parent != TESTS
    }
    assert {folder.as_posix() for folder in folders if not (PACKAGE / folder).is_dir()} == set()


def test_what_compiles_the_kernels_leaves_no_module_out() -> None:
    # By what a fresh process uses: files on disk may be of tests that ran before.
    modules = set(with_kernels())
    assert len(modules) > 10
    assert modules - compile_in_a_process() == set()
