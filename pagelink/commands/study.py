"""`pagelink study`: the blind human study, from its questions to its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagelink.commands.common import console

File = Annotated[Path, typer.Argument(help="A study that `pagelink study create` made.")]

study = typer.Typer(help="The blind human study.", no_args_is_help=True)


@study.command()
def invite(
    file: File,
    count: Annotated[int, typer.Option(min=1, max=10_000, help="How many people.")] = 20,
    address: Annotated[
        str, typer.Option(help="Where `pagelink study serve` can be reached.")
    ] = "http://127.0.0.1:8001",
) -> None:
    """Print a personal link for each of so many people."""
    from pagelink.study.database import Study

    if not address.startswith(("http://", "https://")):
        raise typer.BadParameter(f"--address starts with http:// or https://, got {address!r}.")
    with Study.open(file) as opened:
        for _ in range(count):
            print(f"{address.rstrip('/')}/p/{opened.join()}")


@study.command()
def serve(
    file: File,
    host: Annotated[
        str, typer.Option(help="Address to serve on. Beyond this machine it needs a --token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to serve on; 0 takes any that is free.")
    ] = 8001,
    token: Annotated[
        str | None,
        typer.Option(
            help="Only who has this token can join by the first page. Personal links, as of "
            "`pagelink study invite`, work without it: their keys cannot be guessed."
        ),
    ] = None,
) -> None:
    """Ask the questions on web pages, one a page, until interrupted."""
    from urllib.parse import quote

    from pagelink.study.app import WAIT, application
    from pagelink.study.database import Study
    from pagelink.web import serving
    from pagelink.web.security import check_binding

    check_binding(host, token)
    with Study.open(file, wait=WAIT) as opened:
        taken = serving.listen(host, port)
        query = "" if token is None else f"?token={quote(token, safe='')}"
        address = serving.address_of(taken) + query

        def started() -> None:
            console.print(f"The study is at {address}", markup=False)
            console.print("Stop it by Ctrl-C; no answer is lost.")

        serving.serve(application(opened, token), taken, started)
