"""`pagelink bench paper`, `compare`, `report` and `docs`: the paper's benchmark and its reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagelink.cli.common import Model, Seed, console, load
from pagelink.errors import SettingsError

Out = Annotated[Path, typer.Option(help="Folder for run files, trained models and reports.")]


def paper(
    out: Out = Path("out"),
    part: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this part. Repeatable.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of explainer seeds.")] = 5,
    links: Annotated[int, typer.Option(min=2, help="Links of a data set at most.")] = 200,
    aminer: Annotated[
        Path | None,
        typer.Option(help="Also AugCitation from this AMiner file (a JSON object a line)."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tiny generated graph, to see that it runs.")
    ] = False,
) -> None:
    """Run the paper's benchmark with all explainers. What was done before is not done again."""
    import torch

    from pagelink.bench.paper.runner import run_and_print

    if aminer is not None and not aminer.exists():
        raise SettingsError(f"--aminer {aminer}: there is no such file.")
    torch.set_num_threads(1)  # so that CPU seconds are those of the work
    run_and_print(
        out, part or [], console, seeds=seeds, links=links, quick=quick, aminer=aminer
    )  # fmt: skip


def compare(
    graph: Annotated[Path, typer.Option(help="Folder of tables, or a file of triples.")],
    model: Model,
    out: Out = Path("out"),
    links: Annotated[int, typer.Option(min=2, help="Test links to explain at most.")] = 100,
    explainers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these explainers. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of explainer seeds.")] = 1,
    seed: Seed = 0,
) -> None:
    """Compare all explainers on a model of your own: effect, sufficiency, verdicts, time."""
    import torch

    from pagelink.bench.paper.runner import compare_and_print
    from pagelink.bench.runs import check_names
    from pagelink.rivals.registry import RIVALS

    torch.set_num_threads(1)
    given = [name.strip() for name in (explainers or "").split(",")]
    names = check_names("explainer", filter(None, given), RIVALS)
    compare_and_print(
        load(graph, model), model, names, out, console, links=links, seeds=seeds, seed=seed
    )  # fmt: skip


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `bench paper` or `compare` wrote.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the reports. Default: the same.")
    ] = None,
) -> None:
    """Make the reports of a benchmark anew from its run files: Markdown, and one page of HTML."""
    from pagelink.bench.paper.runner import report as write

    write(folder, out or folder, console)


def docs(
    results: Annotated[
        Path | None,
        typer.Option("--from", help="First take the runs of this folder into docs/results."),
    ] = None,
    root: Annotated[Path, typer.Option(help="The checkout.")] = Path(),
) -> None:
    """Write the tables of the docs and the README from the committed results."""
    from pagelink.bench.paper.runner import publish, write_docs

    if results is not None:
        console.print(f"docs/results: {publish(results, root):,} bytes", markup=False)
    for file in write_docs(root):
        console.print(f"Wrote {file}", markup=False)


def scale(
    out: Annotated[Path, typer.Option(help="Folder for the store, about 30 GB, and scale.json.")],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="build, cold, worker, engines or chaos. Repeatable."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny versions, to see that they run.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Measure a graph of 10^8 edges on disk, and a job whose workers are killed. Takes an hour."""
    from pagelink.bench.scale.bench import run_and_print

    run_and_print(out, only or [], console, quick=quick, seed=seed)


def add_to(bench: typer.Typer) -> None:
    """Add the commands to `pagelink bench`."""
    for command in (paper, compare, report, docs, scale):
        bench.command()(command)
