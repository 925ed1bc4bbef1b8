"""What commands share: where they print, options, checks, loading, a bar."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pagelink.errors import SettingsError
from pagelink.runtime.files import check_local, locked, write_bytes

if TYPE_CHECKING:
    from pagelink.models.checkpoint import Checkpoint
    from pagelink.tables.words import Words


# Names of files and nodes are printed as they are, whatever brackets they hold.
console = Console(soft_wrap=True, highlight=False, markup=False)
errors = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)

Graph = Annotated[Path, typer.Argument(help="Folder of tables, a file of triples, or a store.")]
Names = Annotated[
    Path | None,
    typer.Option(help="Table of the ids and names of nodes."),
]
Phrases = Annotated[
    Path | None,
    typer.Option(
        "--relations", help="Table of relations and how they read, from source to target and back."
    ),
]
Relation = Annotated[
    str | None,
    typer.Option("--link", help="Which relation, of a model for several: its name."),
]
MaybeModel = Annotated[Path | None, typer.Option(help="Checkpoint that `pagelink train` wrote.")]
Demo = Annotated[
    bool, typer.Option("--demo", help="On a graph of books, with a model trained on the spot.")
]
Host = Annotated[
    str, typer.Option(help="Address to serve on; beyond this machine it takes a --token.")
]
Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Port to serve on; 0 takes any that is free.")
]
PerAddress = Annotated[
    int,
    typer.Option(
        "--connections-per-address", min=1,
        help="Connections from one address at most. Behind a proxy, all come from its address.",
    ),
]  # fmt: skip
Model = Annotated[Path, typer.Option(help="Checkpoint that `pagelink train` wrote.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
THRESHOLD_HELP = "Links with a lower score are not predicted."
RANK_ONLY_HELP = "The model only ranks: explain every given link."
Threshold = Annotated[float, typer.Option(help=THRESHOLD_HELP)]
RankOnly = Annotated[bool, typer.Option("--rank-only", help=RANK_ONLY_HELP)]
Many = list[str] | None
DEVICE_HELP = "Where to compute, as torch names it: cpu, cuda:0. Default: cpu."
Device = Annotated[str | None, typer.Option(help=DEVICE_HELP)]
KNOWN_HELP = (
    "Another relation whose pairs are no new links, as read beside will_like. Default: what the "
    "model was trained with, which is what the data set states."
)


def output(help: str, panel: str | None = None) -> Any:
    """Return an option for the file or folder that a command writes; no address will do."""
    return typer.Option(help=help, metavar="PATH", parser=_local_path, rich_help_panel=panel)


def _local_path(given: str | Path) -> Path:
    try:
        return check_local(given)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from error


Out = Annotated[Path, output("Folder to make.")]


def repeatable(help: str, metavar: str | None = None, panel: str | None = None) -> Any:
    """Return an option that may be given several times."""
    return typer.Option(metavar=metavar, help=f"{help} Repeatable.", rich_help_panel=panel)


Known = Annotated[Many, repeatable(KNOWN_HELP, "RELATION")]


def check_device(device: str | None) -> None:
    """Refuse, before any work, a device that torch cannot use here."""
    if device is not None:
        from pagelink.models.feeds import available

        available(device)


def check_target(out: Path | None, *inputs: Path | None, option: str = "--out") -> None:
    """Refuse, before any work, a result that would replace what it is made from."""
    if out is None:
        return
    for given in inputs:
        if given is not None and given.exists() and out.exists() and out.samefile(given):
            raise typer.BadParameter(f"{option} {out} is an input; choose another name.")
    graphs = [given for given in inputs if given is not None and given.exists()]
    if any(out.resolve().parent == (g if g.is_dir() else g.parent).resolve() for g in graphs):
        from pagelink.tables.reader import is_part_of_graph

        part_of = next((graph for graph in graphs if is_part_of_graph(out, graph)), None)
        if part_of is not None:
            raise typer.BadParameter(
                f"{option} {out} would be read as a part of the graph {part_of}; write it to "
                f"another folder, or call it extra-{out.name}."
            )
    if out.is_dir():
        raise typer.BadParameter(f"{option} {out} is a folder; give the name of a file.")


@contextmanager
def writing(out: Path | None, *inputs: Path | None) -> Iterator[None]:
    """Have a file to this command alone as long as it works on it; None is no file."""
    check_target(out, *inputs)
    with nullcontext() if out is None else locked(out):
        yield


def import_pyg() -> None:
    """Import PyTorch Geometric, and leave PyTorch's compiler until something uses it.

    PyTorch Geometric imports the compiler to recognise compiled models, which takes most of a
    second. PyTorch imports it by itself at the first use of `torch._dynamo`.
    """
    compiler = "torch._dynamo"
    if compiler not in sys.modules:
        importlib.import_module("torch")
        sys.modules[compiler] = ModuleType(compiler)
        try:
            importlib.import_module("torch_geometric")
        finally:
            del sys.modules[compiler]


def load(
    graph: Path, model: Path, words: Words | None = None, link: str | None = None
) -> Checkpoint:
    """Return a trained model with its graph; of one for several relations, that for `link`."""
    import_pyg()
    from pagelink.models.knowledge.checkpoint import open_predictor
    from pagelink.store.addresses import fetched

    return open_predictor(fetched(model), fetched(graph), words, link)


def proof_of(model: Path) -> Path:
    """Return where what is found out about a model is kept: beside it, or its copy here."""
    from pagelink.store.addresses import fetched

    return fetched(model).with_name(f"{model.name}.proof")


def words_of(names: Path | None, relations: Path | None) -> Words:
    """Return the files that say how nodes and relations are called."""
    import_pyg()
    from pagelink.tables.words import Words

    return Words(names, relations)


def load_or_demo(
    graph: Path | None,
    model: Path | None,
    seed: int,
    words: Words | None = None,
    link: str | None = None,
) -> Checkpoint:
    """Return a trained model with its graph; without them, those of the demo."""
    if graph is not None and model is not None:
        return load(graph, model, words, link)
    from pagelink.datasets.demo import make_demo

    one_thread()  # the graph is tiny, a second thread only costs
    return make_demo(seed, console)


def check_demo(graph: Path | None, model: Path | None, demo: bool) -> None:
    """Refuse anything but a graph with a model, or the demo."""
    if demo == (graph is not None or model is not None) or (graph is None) != (model is None):
        raise typer.BadParameter("Give a graph and --model, or --demo alone.")


def one_thread() -> None:
    """Have torch use one thread."""
    import torch

    torch.set_num_threads(1)


def write_files(*wanted: tuple[Path | None, Callable[[], str | bytes]]) -> list[Path]:
    """Write what is requested, each to its path, and return the paths."""
    written = []
    for path, make in wanted:
        if path is not None:
            made = make()
            written.append(write_bytes(path, made.encode() if isinstance(made, str) else made))
    return written


def say_written(files: Iterable[Path]) -> None:
    """Name the files that were written."""
    for file in files:
        console.print(f"Wrote {file}")


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
            rate = "" if not speed else f"{speed:.1f} per second"
            bar.update(task, completed=done, total=total, rate=rate)

        yield step
