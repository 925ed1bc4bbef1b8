"""What commands share: where they print, options, checks, loading, a bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from pagelink.models.checkpoint import Checkpoint


console = Console(soft_wrap=True, highlight=False)
errors = Console(stderr=True, soft_wrap=True, highlight=False)

Graph = Annotated[Path, typer.Argument(help="Folder of tables, a file of triples, or a store.")]
Model = Annotated[Path, typer.Option(help="Checkpoint that `pagelink train` wrote.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Threshold = Annotated[float, typer.Option(help="Links with a lower raw score are not predicted.")]
RankOnly = Annotated[
    bool, typer.Option("--rank-only", help="The model only ranks: explain whatever is asked.")
]
Out = Annotated[Path, typer.Option(help="Folder to make.")]


def check_target(out: Path | None, *inputs: Path | None) -> None:
    """Refuse, before any work, a result that would replace what it is made from."""
    if out is None:
        return
    for given in inputs:
        if given is not None and given.exists() and out.exists() and out.samefile(given):
            raise typer.BadParameter(f"--out {out} is an input; choose another name.")
    if out.is_dir():
        raise typer.BadParameter(f"--out {out} is a folder; give the name of a file.")


def load(graph: Path, model: Path) -> Checkpoint:
    """Return a trained model with its graph."""
    from pagelink.models.checkpoint import open_checkpoint

    return open_checkpoint(model, graph)


@contextmanager
def progress_bar(word: str) -> Iterator[Any]:
    """A bar with the rate and the time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (
        TextColumn(word), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        Remaining(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(word, total=None, rate="")

        def step(done: int, total: int) -> None:
            speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
            rate = "" if not speed else f"{speed:.1f} a second"
            bar.update(task, completed=done, total=total, rate=rate)

        yield step
