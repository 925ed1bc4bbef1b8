"""Holds what the core may import, and that a missing extra is said before any work."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from pagelink.cli.main import main
from pagelink.errors import MissingExtraError
from pagelink.views.pages import painted

PACKAGE = Path(__file__).parent.parent / "pagelink"
CORE = {"torch", "torch_geometric", "numba", "numpy", "pyarrow", "typer", "rich", "jinja2"}
BESIDE = {"markupsafe": "jinja2", "llvmlite": "numba"}
"""Packages of their own that always come with one of the core."""
NOTEBOOK = {"anywidget", "traitlets"}
"""The second always comes with the first."""
WEB = {"fastapi", "pydantic", "starlette", "uvicorn"}
FOLDERS = {
    "web": WEB,
    "study": WEB | {"nltk", "scipy"},
    "views/notebook.py": NOTEBOOK,
    "views/pages.py": {"resvg_py", "font_source_sans_pro"},
    "engine/ray_engine.py": {"ray"},
    "trained/saved.py": {"pykeen"},
    "bench/trained/cost.py": {"pykeen"},
}
"""What folders and files may import beside the core."""


def others(source: str) -> set[str]:
    """Return the packages that a module imports beside the core and the standard library."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").split(".")[0])
    return names - CORE - BESIDE.keys() - {"pagelink"} - set(sys.stdlib_module_names)


def test_extras_are_imported_only_where_they_belong() -> None:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE).as_posix()
        allowed = FOLDERS.get(file, set()) | FOLDERS.get(file.split("/")[0], set())
        if wrong := others(path.read_text("utf-8")) - allowed:
            found[file] = wrong
    assert found == {}


def test_imports_inside_functions_are_seen() -> None:
    assert others("def f():\n    from scipy.stats import norm") == {"scipy"}
    assert others("import numpy as np, os, torch.nn\nfrom . import b") == set()


def test_the_project_says_the_same() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["project"]

    def names(given: list[str]) -> set[str]:
        return {re.split(r"[>\[]", each)[0].lower().replace("-", "_") for each in given}

    assert names(project["dependencies"]) == CORE
    extras = project["optional-dependencies"]
    assert names(extras["web"]) < WEB | FOLDERS["views/pages.py"]
    assert names(extras["study"]) == {"nltk", "scipy", "pagelink"}
    assert names(extras["ray"]) == {"ray"}
    assert names(extras["notebook"]) < NOTEBOOK
    assert set(re.findall(r"\w+", extras["all"][0])) - {"pagelink"} == {
        "bench", "notebook", "pykeen", "ray", "study", "web",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "missing", "words"),
    [
        (["serve", "--demo"], "fastapi", "pagelink serve needs fastapi, which is not installed: "
         "pip install 'pagelink[web]'."),
        (["serve", "--demo"], "uvicorn", "pip install 'pagelink[web]'"),
        (["study", "serve", "x"], "fastapi", "pip install 'pagelink[study]'"),
        (["study", "report", "x"], "nltk", "pip install 'pagelink[study]'"),
        (["study", "report", "x"], "scipy", "pip install 'pagelink[study]'"),
        (["bench", "scale", "--out", "y"], "ray", "pip install 'pagelink[bench]'"),
        (["explain", "g", "--model", "m", "--src", "a", "--dst", "b", "--png", "p"], "resvg_py",
         "pip install 'pagelink[web]'"),
    ],
)  # fmt: skip
def test_a_missing_extra_is_named_before_any_work(
    arguments: list[str],
    missing: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)  # as if it were not installed
    monkeypatch.setattr(sys, "argv", ["pagelink", *arguments])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_picture_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "font_source_sans_pro", None)
    with pytest.raises(MissingExtraError, match=r"font_source_sans_pro.*pagelink\[web\]"):
        painted("<svg/>")
