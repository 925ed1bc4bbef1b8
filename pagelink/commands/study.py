"""`pagelink study`: the blind human study, from its questions to its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="A study that `pagelink study create` made.")]

study = typer.Typer(help="The blind human study.", no_args_is_help=True)


@study.command()
def invite(
    file: File,
    count: Annotated[int, typer.Option(min=1, max=10_000, help="How many people.")] = 20,
    address: Annotated[
        str, typer.Option(help="Where `pagelink study serve` can be reached.")
    ] = "http://127.0.0.1:8000",
) -> None:
    """Print a personal link for each of so many people."""
    from pagelink.study.database import Study

    if not address.startswith(("http://", "https://")):
        raise typer.BadParameter(f"--address starts with http:// or https://, got {address!r}.")
    with Study.open(file) as opened:
        for _ in range(count):
            print(f"{address.rstrip('/')}/p/{opened.join()}")
