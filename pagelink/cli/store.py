"""`pagelink store`: a graph as a folder of arrays that are mapped into memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from pagelink.cli.common import Names, Phrases, console, output, words_of
from pagelink.runtime.files import TEMPORARY, locked

if TYPE_CHECKING:
    from pagelink.store.graph_store import GraphStore
    from pagelink.tables.words import Words


Step = Callable[[str, int, int], None]


def store(
    graph: Annotated[
        Path, typer.Argument(help="Folder of tables, or a file of triples; a store to --verify.")
    ],
    out: Annotated[Path | None, output("Folder to make.")] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Checkpoint: the store holds what this model sees, without held-out links."
        ),
    ] = None,
    names: Names = None,
    relations: Phrases = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Read all files of the store and compare checksums."),
    ] = False,
) -> None:
    """Turn a graph of any size into a store, which is explained without being read into memory.

    pagelink store tables --out store
    """
    if model is not None and out is None:
        raise typer.BadParameter("--model goes with --out.")
    if out is None and not verify:
        raise typer.BadParameter("Give --out FOLDER to make a store, or --verify to check one.")
    start = time.perf_counter()
    if out is None:
        _say(_verified(graph), "verified in", start)
        return
    with locked(out, lend=True), _steps() as step:
        made = _made(graph, model, out, step, words_of(names, relations))
    _say(made, "built in", start)
    if verify:
        start = time.perf_counter()
        _say(_verified(out), "verified in", start)


def _verified(folder: Path) -> GraphStore:
    from pagelink.store.graph_store import GraphStore

    with _steps() as step:
        return GraphStore.open(folder, verify=step)


def _made(graph: Path, model: Path | None, out: Path, step: Step, words: Words) -> GraphStore:
    from pagelink.store.graph_store import GraphStore
    from pagelink.store.manifest import is_store
    from pagelink.tables.load import build_store, refuse_words_of_store

    if model is None:
        return build_store(graph, out, progress=step, words=words)
    from pagelink.models.checkpoint import check_checkpoint, save_message_store
    from pagelink.store.manifest import check_free, write_errors

    check_free(out)
    check_checkpoint(model)
    if is_store(graph):
        refuse_words_of_store(graph, words)
        return save_message_store(GraphStore.open(graph), model, out, step)
    with write_errors(out):
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
    place = out.absolute().parent
    with TemporaryDirectory(TEMPORARY, f".{out.name}.", place) as folder:
        whole = build_store(graph, Path(folder) / "whole", progress=step, words=words)
        return save_message_store(whole, model, out, step)


def _say(made: GraphStore, deed: str, start: float) -> None:
    manifest = made.manifest
    nodes = sum(each["count"] for each in manifest["nodes"])
    edges = sum(each["count"] for each in manifest["relations"])
    size = sum(each["bytes"] for each in manifest["files"].values())
    console.print(
        f"{made.folder}: {nodes:,} nodes, {edges:,} edges with their reverses, {size:,} bytes in "
        f"{len(manifest['files'])} files, {deed} {time.perf_counter() - start:.1f} s"
    )


@contextmanager
def _steps() -> Iterator[Step]:
    """Show which step is under way, and how far it is."""
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(),
        TextColumn("{task.completed:,.0f}"),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def step(word: str, done: int, total: int) -> None:
            bar.update(task, description=word, completed=done, total=total or None)

        yield step
