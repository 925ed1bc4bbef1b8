"""`pagelink audit`: what a model relies on, for whom, and what has changed."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagelink.cli.common import (
    Many,
    MaybeModel,
    RankOnly,
    Seed,
    Threshold,
    check_target,
    console,
    load,
    output,
    repeatable,
    say_written,
    write_files,
)
from pagelink.cli.link_tables import shown
from pagelink.runtime.files import locked

if TYPE_CHECKING:
    from pagelink.graph.links import LinkLike
    from pagelink.models.checkpoint import Checkpoint


def audit(
    graph: Annotated[
        Path | None, typer.Argument(help="Folder of tables, a file of triples, or a store.")
    ] = None,
    model: MaybeModel = None,
    links: Annotated[
        Path | None,
        typer.Option(help="Table of links (src, dst). Default: test links that are predicted."),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of links, drawn by source degree, target degree and score. Default: 500 "
            "of the test links, all of a table.",
        ),
    ] = None,
    by: Annotated[Many, repeatable("Group links by this column of their ends.", "COLUMN")] = None,
    out: Annotated[Path | None, output("Page to write.")] = None,
    json: Annotated[Path | None, output("Write all figures as JSON.")] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Compare two audits that were written as JSON.", metavar="A B"),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Maximum number of facts of a path.")
    ] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds per link.")] = None,
    engine: Annotated[
        str | None, typer.Option(help="processes or ray. Default: this process.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --engine: how many. Default: one per core.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="With --engine ray: a running cluster, auto or host:port.")
    ] = None,
    threshold: Threshold = 0.0,
    rank_only: RankOnly = False,
    seed: Seed = 0,
) -> None:
    """Find out what a model relies on, over many links, and for whom that differs.

    pagelink audit tables --model model.pt --out audit.html

    pagelink audit --compare before.json after.json

    Started again after an interruption, it goes on where it stopped.
    """
    if compare is not None:
        _compare(compare, out, json, given=(graph, model, links, sample, by, engine))
        return
    if graph is None or model is None or (out is None and json is None):
        raise typer.BadParameter(
            "Give a graph, --model, and --out or --json; or --compare and two audits."
        )
    if engine is None and (workers is not None or address is not None):
        raise typer.BadParameter("--workers and --address go with --engine.")
    check_target(out, links, model, graph)
    check_target(json, links, model, graph, option="--json")
    from pagelink.audit.job import audit_job
    from pagelink.engine import FromFiles, engine_of
    from pagelink.settings import Settings

    chosen = {"max_length": max_length, "deadline": deadline}
    settings = Settings().replace(**{k: v for k, v in chosen.items() if v is not None})
    limit = None if rank_only else threshold
    opening = FromFiles(graph, model, settings, seed, limit)
    target = (out or json or Path()).absolute()
    with locked(target), shown("measuring", "steps, two per link") as step:
        checkpoint = load(graph, model)
        wanted = _links(checkpoint, links, sample, limit, seed)
        found = audit_job(
            opening, opening.of(checkpoint), wanted, target.with_name(f"{target.name}.parts"),
            by=by or (), title=graph.resolve().name, progress=step,
            engine=None if engine is None else engine_of(engine, workers, address),
        )  # fmt: skip
    console.print(str(found))
    say_written(write_files((out, found.to_html), (json, found.to_json)))


def _links(
    checkpoint: Checkpoint, table: Path | None, sample: int | None, limit: float | None, seed: int
) -> list[LinkLike]:
    """The links of a table, or the test links that are predicted; all of them, or a sample."""
    from pagelink.audit.sampling import distinct, predicted_links, sample_links
    from pagelink.graph.links import LinkReader
    from pagelink.tables.link_tables import read_links

    if table is None:
        return predicted_links(checkpoint, sample or 500, limit, seed)
    listed = [row.link for row in read_links(table)]
    given = distinct(LinkReader(checkpoint.graph, [checkpoint.link_type]), listed)
    if len(given) < len(listed):
        more = len(listed) - len(given)
        console.print(f"{more} of the links in {table} are repeated; each counts once.")
    return given if sample is None else sample_links(checkpoint, given, sample, seed)


def _compare(
    files: tuple[Path, Path], out: Path | None, json: Path | None, given: tuple[object, ...]
) -> None:
    if any(each is not None for each in given):
        raise typer.BadParameter("--compare takes two audits, and --out or --json; nothing else.")
    for file in (out, json):
        check_target(file, *files)
    from pagelink.audit.comparison import compare
    from pagelink.audit.result import Audit

    names = [file.stem for file in files]
    if names[0] == names[1]:
        names = [str(file) for file in files]
    found = compare(Audit.read(files[0]), Audit.read(files[1]), (names[0], names[1]))
    console.print(str(found))
    say_written(
        write_files(
            (out, found.to_html), (json, lambda: dumps(found.to_dict(), ensure_ascii=False))
        )
    )
