"""`pagelink dataset`: graphs with known explanations, as folders of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagelink.commands.common import Out, Seed, console

dataset = typer.Typer(help="Make graphs with known explanations.", no_args_is_help=True)


@dataset.command()
def useritemattr(out: Out, seed: Seed = 0) -> None:
    """The paper's synthetic graph of users, items and attributes."""
    from pagelink.datasets.make import make_useritemattr_folder

    console.print(str(make_useritemattr_folder(out, seed=seed)), markup=False)


@dataset.command()
def aminer(
    source: Annotated[Path, typer.Option("--from", help="AMiner file: a JSON object a line.")],
    out: Out,
) -> None:
    """A citation graph in our table form, from the public AMiner files."""
    from pagelink.datasets.make import make_aminer_folder

    console.print(str(make_aminer_folder(source, out)), markup=False)


@dataset.command()
def augcitation(
    source: Annotated[
        Path, typer.Option("--from", help="Citation graph: a folder of tables, or an AMiner file.")
    ],
    out: Out,
    num_likes: Annotated[int, typer.Option(min=1, help="Number of links.")] = 4500,
    rule: Annotated[
        str,
        typer.Option(
            help="paper: D_max bounds inner nodes, as the paper says. released: source and target, "
            "too, as the released data have it."
        ),
    ] = "paper",
    seed: Seed = 0,
) -> None:
    """The paper's augmented citation graph, from any citation graph."""
    from pagelink.datasets.make import make_augcitation_folder

    if rule not in ("paper", "released"):
        raise typer.BadParameter(f"--rule is paper or released; got {rule!r}.")
    made = make_augcitation_folder(
        source, out, num_likes=num_likes, seed=seed,
        rule="released" if rule == "released" else "paper",
    )  # fmt: skip
    console.print(str(made), markup=False)
