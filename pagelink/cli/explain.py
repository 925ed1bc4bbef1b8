"""`pagelink explain --links TABLE --out FOLDER`: a table of links, by several workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagelink.cli.common import (
    Graph,
    Model,
    RankOnly,
    Seed,
    Threshold,
    check_target,
    console,
    errors,
    load,
    progress_bar,
)

if TYPE_CHECKING:
    from pagelink.engine import Engine, FromFiles, Summary
    from pagelink.explain.counterfactual import Counterfactual
    from pagelink.explain.explainer import PaGELink
    from pagelink.explain.options import ExplainOptions
    from pagelink.explain.result import Explanation
    from pagelink.models.checkpoint import Checkpoint
    from pagelink.settings import Settings


SECONDS_A_LINE = 30.0


def explain_into_folder(
    opening: FromFiles,
    links: Path,
    out: Path,
    engine: Engine,
    *,
    asked: ExplainOptions,
    memory: float | None,
    chunk: int | None,
    collect: bool,
) -> None:
    """Run the job, show how far it is, and say what came of it."""
    from pagelink.engine import explain_folder
    from pagelink.engine.job import LINKS_A_CHUNK
    from pagelink.explain.explainer import MEMORY

    with _shown() as step:
        summary = explain_folder(
            opening, links, out, engine, asked=asked, memory=MEMORY if memory is None else memory,
            chunk=LINKS_A_CHUNK if chunk is None else chunk, collect=collect, progress=step,
        )  # fmt: skip
    _say(summary, links, out)


@contextmanager
def _shown() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; a line now and then in the log of a job that nobody watches."""
    if console.is_terminal:
        with progress_bar("explaining") as bar:
            yield bar
        return
    started = said = time.monotonic()
    before: int | None = None

    def step(done: int, total: int) -> None:
        nonlocal said, before
        now = time.monotonic()
        before = done if before is None else before
        if now - said >= SECONDS_A_LINE:
            said = now
            rate = (done - before) / (now - started)
            left = f", {(total - done) / rate / 60:.0f} minutes left" if rate else ""
            errors.print(f"{done} of {total} links, {rate:.1f} a second{left}")

    yield step


def _say(summary: Summary, links: Path, out: Path) -> None:
    if summary.resumed:
        console.print(f"{summary.resumed} links were done by an earlier run.")
    counts = ", ".join(f"{count} {name}" for name, count in summary.reasons.items())
    console.print(
        f"{summary.num_links} links ({counts}), {summary.num_rows} rows in {summary.num_parts} "
        f"parts: {out}", markup=False,
    )  # fmt: skip
    if summary.verdicts:
        told = ", ".join(f"{count} {name}" for name, count in summary.verdicts.items())
        console.print(f"Verdicts: {told}.")
    if summary.overhead is not None:
        console.print(
            f"{summary.rate:.1f} links a second by {summary.workers} workers, "
            f"{summary.restarts} of them replaced; {summary.overhead:.1%} of their time was not "
            "spent on explaining."
        )
    if summary.slowest:
        worst = summary.slowest[0]
        console.print(
            f"The slowest link took {worst['seconds']:.2f} s (line {worst['line']}).", markup=False
        )
    for message in summary.invalid:
        errors.print(f"{links}, {message}", markup=False)
    more = summary.reasons.get("invalid", 0) - len(summary.invalid)
    if more > 0:
        errors.print(f"... and {more} more; see the rows with reason invalid.")


# `pagelink explain`: one link, or a table of links.


def explain(
    graph: Graph,
    model: Model,
    src: Annotated[str | None, typer.Option(help="Source node, by name or id.")] = None,
    dst: Annotated[str | None, typer.Option(help="Target node, by name or id.")] = None,
    links: Annotated[
        Path | None, typer.Option(help="Table of links (src, dst), instead of --src and --dst.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="With --links: result, .parquet, .csv, .tsv or .jsonl; or a folder of parts, "
            "which several workers fill."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a web page.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write a drawing.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything as JSON.")] = None,
    paths: Annotated[int | None, typer.Option(help="Number of paths at most.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Facts of a path at most.")] = None,
    max_degree: Annotated[int | None, typer.Option(help="Degree of inner nodes at most.")] = None,
    budget: Annotated[int | None, typer.Option(help="Facts of all paths at most.")] = None,
    exclude_relation: Annotated[
        list[str] | None, typer.Option(help="No path uses this relation. Repeatable.")
    ] = None,
    exclude_node: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE=NAME", help="No path goes through this node. Repeatable."),
    ] = None,
    via: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE=NAME", help="Only paths through such a node. Repeatable."),
    ] = None,
    metapath: Annotated[
        list[str] | None,
        typer.Option(help="Only paths along these relations, as likes,rev_likes,likes. Repeats."),
    ] = None,
    forbid_metapath: Annotated[
        list[str] | None, typer.Option(help="No path along these relations. Repeatable.")
    ] = None,
    before: Annotated[str | None, typer.Option(help="Only facts before this date.")] = None,
    date_column: Annotated[str | None, typer.Option(help="Column of the dates.")] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds for a link.")] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            help="With --links: about how many gigabytes links side by side may take. Default: 1."
        ),
    ] = None,
    threshold: Threshold = 0.0,
    rank_only: RankOnly = False,
    counterfactual: Annotated[
        bool,
        typer.Option("--counterfactual", help="Also find the facts that the prediction hangs on."),
    ] = False,
    top_k: Annotated[
        int | None,
        typer.Option(help="With --counterfactual: the target is to drop out of the first so many."),
    ] = None,
    at: Annotated[
        str, typer.Option(help="With --counterfactual: facts at the source, or on paths.")
    ] = "source",
    rank: Annotated[
        bool, typer.Option("--rank", help="Also rank the target, with and without these paths.")
    ] = False,
    runs: Annotated[
        int, typer.Option(min=1, help="Explain with so many seeds, and count each path.")
    ] = 1,
    negatives: Annotated[
        bool, typer.Option("--negatives", help="Of links not predicted: paths for and against.")
    ] = False,
    engine: Annotated[
        str | None, typer.Option(help="With a folder as --out: processes (the default) or ray.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="With a folder: how many. Default: one per core.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="With --engine ray: a running cluster, auto or host:port.")
    ] = None,
    chunk: Annotated[
        int | None, typer.Option(min=1, help="With a folder: links a part. Default: 256.")
    ] = None,
    store_path: Annotated[
        Path | None,
        typer.Option(help="With a folder: where the graph lies for the workers, if elsewhere."),
    ] = None,
    collect: Annotated[
        bool, typer.Option("--collect", help="With a folder that the workers do not share.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Explain one link, or a table of links."""
    if (links is None) == (src is None and dst is None) or (src is None) != (dst is None):
        raise typer.BadParameter("Give either --src and --dst, or --links.")
    if (links is None) != (out is None):
        raise typer.BadParameter("--links and --out go together.")
    if links is not None and any((html, svg, png, json)):
        raise typer.BadParameter("--html, --svg, --png and --json go with --src and --dst.")
    if links is not None and counterfactual:
        raise typer.BadParameter(
            "--counterfactual goes with --src and --dst: the rows of a table are paths, and it is "
            "about sets of facts."
        )
    if links is None and memory is not None:
        raise typer.BadParameter("--memory goes with --links: one link is explained by itself.")
    if at not in ("source", "paths"):
        raise typer.BadParameter(f"--at is source or paths; got {at!r}.")
    if not counterfactual and (top_k is not None or at != "source"):
        raise typer.BadParameter("--top-k and --at go with --counterfactual.")
    is_folder = out is not None and (out.is_dir() or not out.suffix)
    options = (engine, workers, address, chunk, store_path)
    if not is_folder and (collect or any(option is not None for option in options)):
        raise typer.BadParameter(
            "--engine, --workers, --address, --chunk, --store-path and --collect go with --links "
            "and a folder as --out."
        )
    check_target(None if is_folder else out, links, model, graph)
    given = {
        "num_paths": paths, "max_length": max_length, "max_degree": max_degree, "budget": budget,
        "exclude_relations": exclude_relation, "exclude_nodes": _nodes(exclude_node),
        "via": _nodes(via), "metapaths": _metapaths(metapath),
        "forbid_metapaths": _metapaths(forbid_metapath), "before": before,
        "date_column": date_column, "deadline": deadline,
    }  # fmt: skip
    from pagelink.settings import Settings

    settings = Settings().replace(**{k: v for k, v in given.items() if v is not None})
    limit = None if rank_only else threshold
    if links is not None and out is not None and is_folder:
        from pagelink.engine import FromFiles, engine_of
        from pagelink.explain.options import ExplainOptions

        explain_into_folder(
            FromFiles(graph, model, settings, seed, limit, store_path), links, out,
            engine_of(engine or "processes", workers, address), memory=memory, chunk=chunk,
            collect=collect, asked=ExplainOptions(rank=rank, runs=runs, negatives=negatives),
        )  # fmt: skip
        return
    checkpoint = load(graph, model)
    explainer = _explainer(checkpoint, settings, limit, seed)
    if links is not None and out is not None:
        from pagelink.explain.options import ExplainOptions

        asked = ExplainOptions(rank=rank, runs=runs, negatives=negatives)
        _explain_table(explainer, links, out, graph, model, memory, asked)
        return
    explanation = explainer.explain(src or "", dst or "", rank=rank, runs=runs, negatives=negatives)
    console.print(str(explanation), markup=False)
    found = None
    if counterfactual:
        place: Any = at
        known = checkpoint.split.all
        of_source = known[1, known[0] == explanation.src[1]].tolist()
        found = explainer.counterfactual(
            src or "", dst or "", top_k=top_k, at=place, known=of_source
        )
        console.print(f"\n{found}", markup=False)
    _write_views(explanation, found, html, svg, png, json)


def _nodes(given: list[str] | None) -> list[tuple[str, str]] | None:
    if given is None:
        return None
    for node in given:
        if "=" not in node:
            raise typer.BadParameter(f"A node is TYPE=NAME, as movie=Heat (1995); got {node!r}.")
    return [(node.split("=", 1)[0], node.split("=", 1)[1]) for node in given]


def _metapaths(given: list[str] | None) -> list[list[str]] | None:
    return None if given is None else [[name.strip() for name in m.split(",")] for m in given]


def _explainer(
    checkpoint: Checkpoint, settings: Settings, threshold: float | None, seed: int
) -> PaGELink:
    from pagelink.explain.explainer import PaGELink

    return PaGELink(
        checkpoint.model, checkpoint.source, checkpoint.link_type, settings, seed,
        threshold=threshold,
    )  # fmt: skip


def _explain_table(
    explainer: PaGELink,
    links: Path,
    out: Path,
    graph: Path,
    model: Path,
    memory: float | None,
    asked: ExplainOptions,
) -> None:
    from pagelink.engine.opening import fingerprint, graph_fingerprint
    from pagelink.engine.table_job import explain_table
    from pagelink.explain.explainer import MEMORY

    with progress_bar("explaining") as step:
        result = explain_table(
            explainer, links, out, progress=step, memory=MEMORY if memory is None else memory,
            identity={"model": fingerprint(model), "graph": graph_fingerprint(graph)}, asked=asked,
        )  # fmt: skip
    if result.resumed:
        console.print(f"{result.resumed} links were done by an earlier run.")
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(result.reasons.items()))
    console.print(
        f"{result.num_links} links ({counts}), {result.num_rows} rows: {result.path}", markup=False
    )
    for message in result.invalid[:20]:
        errors.print(f"{links}, {message}", markup=False)
    if len(result.invalid) > 20:
        errors.print(f"... and {len(result.invalid) - 20} more; see the rows with reason invalid.")


def _write_views(
    explanation: Explanation,
    counterfactual: Counterfactual | None,
    html: Path | None,
    svg: Path | None,
    png: Path | None,
    json: Path | None,
) -> None:
    from json import dumps

    from pagelink.runtime.files import write_bytes, write_text

    def everything() -> str:
        values = explanation.to_dict()
        if counterfactual is not None:
            values["counterfactual"] = counterfactual.to_dict()
        return dumps(values, ensure_ascii=False, indent=1)

    for path, make in (
        (html, explanation.to_html), (svg, explanation.to_svg), (json, everything),
    ):  # fmt: skip
        if path is not None:
            console.print(f"Wrote {write_text(path, make())}", markup=False)
    if png is not None:
        console.print(f"Wrote {write_bytes(png, explanation.to_png())}", markup=False)
