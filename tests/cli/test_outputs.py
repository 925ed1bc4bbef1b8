"""What commands write: where to, who is alone with it, and which exit code tells what."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer
from support.shell import shell
from typer.models import OptionInfo

from pagelink.cli import main as cli
from pagelink.cli.common import _local_path
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.runtime.files import locked
from pagelink.tables.load import save_graph

INPUTS = {
    "graph", "model", "links", "store_path", "source", "aminer", "data", "results", "root", "names",
    "relations", "many", "compare_model", "audit", "folder",
}  # fmt: skip
"""Options and arguments that name what a command reads."""


AT_ADDRESSES = {(("explain",), "out")}
"""Outputs that may be at an address."""


def commands(app: typer.Typer, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield (*path, name), command.callback
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, *path, str(group.name))


COMMANDS = dict(commands(cli.app))


def options(command: Any) -> Iterator[tuple[str, OptionInfo]]:
    """Yield the options of a command that are paths."""
    for name, hint in get_type_hints(command, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind, info = get_args(hint)[:2]
            if isinstance(info, OptionInfo) and Path in (kind, *get_args(kind)):
                yield name, info


def outputs(command: Any) -> list[str]:
    return [f"--{name}" for name, info in options(command) if info.parser is _local_path]


def test_every_output_is_an_option_that_refuses_addresses() -> None:
    assert sum(len(outputs(command)) for command in COMMANDS.values()) >= 20
    for path, command in COMMANDS.items():
        for name, info in options(command):
            is_free = name in INPUTS or (path, name) in AT_ADDRESSES
            assert (info.parser is _local_path) != is_free, (path, name)


@pytest.mark.parametrize(
    "path", [path for path, command in COMMANDS.items() if outputs(command)], ids=" ".join
)
def test_an_address_is_refused_before_the_work(path: tuple[str, ...], tmp_path: Path) -> None:
    for option in outputs(COMMANDS[path]):
        done = shell(*path, option, "s3://bucket/result", cwd=tmp_path)
        assert done.returncode == 2
        assert "is an address (s3)" in " ".join(done.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph and a trained model."""
    made = tmp_path_factory.mktemp("outputs")
    dataset = generate_useritemattr()
    dataset.data["user", "likes", "item"].edge_index = dataset.likes
    save_graph(dataset.data, made / "graph")
    done = shell(
        "train", "graph", "--link", "user,likes,item", "--epochs", "1", "--hidden", "8", "--out",
        "model.pt", cwd=made,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return made


EXPLAIN = ("explain", "graph", "--model", "model.pt")


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (("train", "graph", "--link", "user,likes,item"), "x.pt"),
        (("store", "graph"), "store"),
        (("store", "graph", "--model", "model.pt"), "store"),
        (("dataset", "useritemattr"), "data"),
        (("dataset", "books"), "data"),
        (("study", "create", "graph", "--model", "model.pt"), "x.study"),
        (("bench", "speed", "--quick"), "bench"),
        (("bench", "scale", "--quick"), "bench"),
        (("bench", "faithfulness", "--quick"), "bench"),
        (("bench", "paper", "--quick"), "bench"),
        (("bench", "compare", "graph", "--model", "model.pt"), "bench"),
        ((*EXPLAIN, "--links", "links.csv"), "x.parquet"),
        ((*EXPLAIN, "--links", "links.csv"), "run-1.5"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_a_command_is_alone_with_its_output(
    folder: Path, arguments: tuple[str, ...], out: str
) -> None:
    (folder / "links.csv").write_text("src,dst\nUser 1,Item 2\n")
    with locked(folder / out):
        done = shell(*arguments, "--out", out, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert f"error: {out} is being written by process" in done.stderr
    assert not (folder / out).exists()


@pytest.mark.parametrize(
    ("links", "code", "told"),
    [
        (["Nobody,Item 2", "User 1,Nothing"], 1, "2 of 2 links failed."),
        (["Nobody,Item 2", "User 1,Item 2", "User 2"], 3, "2 of 3 links failed."),
        (["User 1,Item 2"], 0, ""),
        ([], 0, ""),
    ],
)
def test_exit_codes_of_a_table(folder: Path, links: list[str], code: int, told: str) -> None:
    (folder / "links.csv").write_text("\n".join(["src,dst", *links]) + "\n")
    done = shell(*EXPLAIN, "--links", "links.csv", "--out", "rows.csv", cwd=folder)
    assert done.returncode == code, done.stderr
    assert done.stderr.endswith(told and f"{told}\n")
    assert len((folder / "rows.csv").read_text().splitlines()) >= 1 + len(links)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_ends_in_another_error_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    def interrupted() -> None:
        try:
            signal.raise_signal(number)
        finally:
            raise AttributeError("a module that was imported half")

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(cli, "app", interrupted)
    done = shell(cwd=tmp_path)
    assert (done.returncode, done.stderr.split()[0]) == (1, "interrupted")
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_interruption_within_exec_has_the_same_exit_code(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(
        "import signal, pagelink.cli.main as cli\n"
        "cli.app = lambda: exec('signal.raise_signal(signal.SIGINT)', {'signal': signal})\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"], capture_output=True, text=True, cwd=tmp_path,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.split()[0]) == (1, "interrupted")
