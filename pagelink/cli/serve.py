"""`pagelink serve`: the explorer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagelink.cli.common import RankOnly, Seed, Threshold, check_demo, console, load_or_demo
from pagelink.errors import need

if TYPE_CHECKING:
    from pagelink.models.checkpoint import Checkpoint
    from pagelink.web.explorer import Explorer


Host = Annotated[
    str, typer.Option(help="Address to serve on; beyond this machine it takes a --token.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")]
Token = Annotated[
    str | None, typer.Option(help="Who opens the page with ?token=... is let in, nobody else.")
]


def serve(
    graph: Annotated[
        Path | None, typer.Argument(help="Folder of tables, a file of triples, or a store.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Checkpoint that `pagelink train` wrote.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="A generated graph, with a model trained on the spot.")
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    open: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
    threshold: Threshold = 0.0,
    rank_only: RankOnly = False,
    deadline: Annotated[
        float, typer.Option(help="Seconds an explanation may take; what is found is shown.")
    ] = 60.0,
    seed: Seed = 0,
) -> None:
    """Explore predictions and their explanations on a local web page."""
    check_demo(graph, model, demo)
    if not deadline > 0:
        raise typer.BadParameter(f"--deadline is more than 0 seconds, got {deadline:g}.")
    need("pagelink serve", "web", "fastapi", "uvicorn")
    from pagelink.web.serving import address_of, check_binding, listen
    from pagelink.web.serving import serve as run

    check_binding(host, token)
    taken = listen(host, port)  # before the work that a taken port would waste
    checkpoint = load_or_demo(graph, model, seed)
    title = graph.resolve().name if graph is not None else "UserItemAttr (generated)"
    explorer = _explorer(checkpoint, title, None if rank_only else threshold, deadline, seed)
    from pagelink.web.app import make_app

    address = address_of(taken, token)

    def started() -> None:
        console.print(f"Explore at {address} (stop with Ctrl+C)", markup=False)
        if open:
            typer.launch(address)

    run(make_app(explorer, token=token), taken, started)


def _explorer(
    checkpoint: Checkpoint, title: str, threshold: float | None, deadline: float, seed: int
) -> Explorer:
    from pagelink.explain.explainer import PaGELink
    from pagelink.web.explorer import Explorer

    explainer = PaGELink(
        checkpoint.model, checkpoint.source, checkpoint.link_type, seed=seed, threshold=threshold
    )
    name, auc = type(checkpoint.model).__name__, checkpoint.report.test_auc
    return Explorer(
        explainer, checkpoint.split.all, checkpoint.score, title=title,
        model=f"{name}, test ROC-AUC {auc:.3f}", deadline=deadline,
    )  # fmt: skip
