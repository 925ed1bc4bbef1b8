"""`pagelink dataset`: graphs whose links come with the paths that explain them, as folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagelink.cli.common import Out, Seed, console, output
from pagelink.runtime.files import locked

dataset = typer.Typer(
    help="Make graphs with known explanations.",
    no_args_is_help=True, invoke_without_command=True,
)  # fmt: skip


@dataset.callback()
def _from_release(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from-release",
            help="The paper's own graphs: the folder datasets of its authors' repository.",
        ),
    ] = None,
    out: Annotated[Path | None, output("--from-release: folder to make.")] = None,
) -> None:
    """Make graphs with known explanations.

    pagelink dataset --from-release datasets --out tables
    """
    if context.invoked_subcommand is not None:
        if source is not None or out is not None:
            raise typer.BadParameter(
                "--from-release and its --out stand alone; give those of "
                f"{context.invoked_subcommand} behind its name."
            )
        return
    if source is None or out is None:
        raise typer.BadParameter("--from-release FOLDER and --out FOLDER go together.")
    from pagelink.datasets.reference import make_released_folders

    with locked(out):
        for made in make_released_folders(source, out):
            console.print(str(made))


@dataset.command()
def useritemattr(out: Out, seed: Seed = 0) -> None:
    """The paper's synthetic graph of users, items and attributes.

    pagelink dataset useritemattr --out tables
    """
    from pagelink.datasets.useritemattr import make_useritemattr_folder

    with locked(out):
        console.print(str(make_useritemattr_folder(out, seed=seed)))


@dataset.command()
def books(out: Out, seed: Seed = 0) -> None:
    """The demo's graph: public-domain books, and invented readers drawn by a known rule.

    pagelink dataset books --out tables
    """
    from pagelink.datasets.books import make_books_folder

    with locked(out):
        console.print(str(make_books_folder(out, seed=seed)))


@dataset.command()
def aminer(
    source: Annotated[Path, typer.Option("--from", help="AMiner file: a JSON object per line.")],
    out: Out,
) -> None:
    """A citation graph in our table form, from the public AMiner files.

    pagelink dataset aminer --from dblp.json --out tables
    """
    from pagelink.datasets.aminer import make_aminer_folder

    with locked(out):
        console.print(str(make_aminer_folder(source, out)))


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
    """The paper's augmented citation graph, from any citation graph.

    pagelink dataset augcitation --from dblp.json --out tables
    """
    from pagelink.datasets.augcitation import make_augcitation_folder

    if rule not in ("paper", "released"):
        raise typer.BadParameter(f"--rule is paper or released; got {rule!r}.")
    with locked(out):
        made = make_augcitation_folder(
            source, out, num_likes=num_likes, seed=seed,
            rule="released" if rule == "released" else "paper",
        )  # fmt: skip
    console.print(str(made))
