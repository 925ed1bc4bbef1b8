"""The command line: parses and prints, nothing else. Heavy imports wait until a command runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelink.errors import PageLinkError

app = typer.Typer(
    help="Explain link predictions of graph neural networks by a few short paths.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(help="Benchmarks.", no_args_is_help=True)
app.add_typer(bench, name="bench")
console = Console()
errors = Console(stderr=True)

Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")]
_debug = False


@app.callback()
def _options(debug: Debug = False) -> None:
    global _debug
    _debug = debug


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the picture.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="Seed of graph, model and explainer.")] = 0,
) -> None:
    """Generate a graph, train a model, and explain one of its predictions."""
    import torch

    from pagelink.demo import run_demo

    torch.set_num_threads(1)  # the graph is tiny, a second thread only costs
    run_demo(out, seed, console)


@bench.command("useritemattr-reference")
def useritemattr_reference(
    data: Annotated[
        Path | None, typer.Option(help="Folder useritemattr-reference. Default: it is looked for.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of explainer seeds.")] = 5,
    links: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many links. Default: all 129.")
    ] = None,
) -> None:
    """Score explanations of the paper's released data and weights against its labels."""
    from pagelink.evaluation.reference_report import run_and_print

    run_and_print(data, seeds, links, console)


def main() -> None:
    """Run the command line; errors made on purpose become one line and exit code 1."""
    try:
        app()
    except PageLinkError as error:
        if _debug:
            raise
        errors.print(f"[bold red]error:[/] {error}", markup=True, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(1)
