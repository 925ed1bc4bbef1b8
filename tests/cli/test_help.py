"""What commands say of themselves: versions, examples, groups of options, and suggestions."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from support.shell import shell

import pagelink
from pagelink.cli.main import app
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.tables.load import save_graph

TOP = typer.main.get_command(app)


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
    for name, each in (below or {}).items():
        yield from commands(each, *path, name)


COMMANDS = dict(commands(TOP))


def test_version(tmp_path: Path) -> None:
    done = shell("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"pagelink {pagelink.__version__}\n")


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_begins_with_an_example_that_parses(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = COMMANDS[path]
    what, example, *_ = command.help.replace("\b\n", "").split("\n\n")
    assert "\n" not in what
    given = shlex.split(example)
    assert tuple(given[: len(path) + 1]) == ("pagelink", *path)
    command.make_context(path[-1], given[len(path) + 1 :])  # a wrong option is an error
    monkeypatch.setenv("COLUMNS", "120")
    done = shell(*path, "--help", cwd=Path())
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    start = " ".join(example.split()[: len(path) + 1])
    assert any(line.startswith(start) for line in lines[:8]), done.stdout


def test_the_first_help_has_an_example(tmp_path: Path) -> None:
    lines = shell("--help", cwd=tmp_path).stdout.splitlines()
    assert any(line.strip().startswith("pagelink ") for line in lines[:8])


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_graph_is_positional(path: tuple[str, ...]) -> None:
    for each in COMMANDS[path].params:
        assert each.name != "graph" or each.param_type_name == "argument"


def test_options_of_explain_are_in_groups(tmp_path: Path) -> None:
    panels: dict[str | None, list[str]] = {}
    for each in COMMANDS["explain",].params:
        panels.setdefault(each.rich_help_panel, []).append(each.name)
    assert sorted(panels[None]) == ["graph", "link", "model", "names", "relations", "seed"]
    assert len(panels) == 7
    assert all(len(names) <= 12 for names in panels.values())
    said = shell("explain", "--help", cwd=tmp_path).stdout
    assert "─ Which paths ─" in said
    assert said.index("Which links") < said.index("Which paths") < said.index("Workers")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("help") / "graph"
    dataset = generate_useritemattr()
    dataset.data["user", "likes", "item"].edge_index = dataset.likes
    save_graph(dataset.data, made)
    return made


@pytest.mark.parametrize(
    "given",
    [
        "user,like,item", "users,likes,items", "item,likes,user", "User,Likes,Item", "Likes",
        "user-likes-item", "User likes item",
    ],
)  # fmt: skip
def test_a_wrong_link_suggests_the_nearest(graph: Path, given: str) -> None:
    done = shell("train", str(graph), "--link", given, "--out", "m.pt", cwd=graph.parent)
    assert done.returncode == (1 if given.count(",") == 2 else 2)
    said = " ".join(done.stderr.replace("│", " ").split())
    assert f"There is no relation {given} in the graph" in said
    assert re.search("Did you mean user,likes,item[? ]", said), said


def test_a_relation_by_its_name_alone(graph: Path) -> None:
    given = ("train", str(graph), "--out", "m.pt", "--epochs", "1", "--link")
    done = shell(*given, "likes", cwd=graph.parent)
    assert done.returncode == 0, done.stderr
    other = graph.parent / "other"
    shutil.copytree(graph, other)
    shutil.copy(other / "edges-user__likes__item.csv", other / "edges-user__buys__user.csv")
    shutil.copy(other / "nodes-user.csv", other / "nodes-item.csv")
    done = shell("train", str(other), *given[2:], "buys", cwd=graph.parent)
    assert done.returncode == 2
    assert "may be one of several relations" in done.stderr


def test_a_link_unlike_any_lists_the_relations(graph: Path) -> None:
    done = shell("train", str(graph), "--link", "x,y,z", "--out", "m.pt", cwd=graph.parent)
    assert done.stderr == (
        "error: There is no relation x,y,z in the graph. It has attr,of,item; item,bought_by,user; "
        "item,has,attr; user,buys,item; user,likes,item; item,rev_likes,user.\n"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("train g --link a,b,c --out o --model nbf --head mlp",
         "nbf has no --head; it takes --hidden and --layers."),
        ("train g --link a,b,c --out o --model nbf --no-embeddings", "nbf has no --embeddings"),
        ("dataset --from-release g", "--from-release FOLDER and --out FOLDER go together."),
        ("dataset --from-release g books --out o", "--from-release and its --out stand alone"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(
    given: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = shell(*given.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not list(tmp_path.iterdir())
