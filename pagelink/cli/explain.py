"""`pagelink explain`: one link, or a table of links."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagelink.cli.common import (
    Graph,
    Many,
    Model,
    RankOnly,
    Seed,
    Threshold,
    check_target,
    console,
    errors,
    load,
    output,
    progress_bar,
    repeatable,
    say_written,
    write_files,
)
from pagelink.errors import need

if TYPE_CHECKING:
    from pagelink.engine import Engine, FromFiles


SECONDS_A_LINE = 30.0
ALL_FAILED, SOME_FAILED = 1, 3
"""Exit codes of a table of links; 2 is a wrong option."""


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
        output(
            "With --links: result, .parquet, .csv, .tsv or .jsonl; or a folder of parts, which "
            "several workers fill: one that exists, or a name without an ending of letters."
        ),
    ] = None,
    html: Annotated[Path | None, output("Write a web page.")] = None,
    svg: Annotated[Path | None, output("Write a drawing.")] = None,
    png: Annotated[Path | None, output("Write a picture.")] = None,
    json: Annotated[Path | None, output("Write everything as JSON.")] = None,
    paths: Annotated[int | None, typer.Option(help="Number of paths at most.")] = None,
    max_length: Annotated[
        int | None,
        typer.Option(help="Facts of a path at most; see --no-longer."),
    ] = None,
    no_longer: Annotated[
        bool,
        typer.Option(
            "--no-longer",
            help="No longer paths, even where those of --max-length do not carry the score.",
        ),
    ] = False,
    max_degree: Annotated[int | None, typer.Option(help="Degree of inner nodes at most.")] = None,
    budget: Annotated[int | None, typer.Option(help="Facts of all paths at most.")] = None,
    exclude_relation: Annotated[Many, repeatable("No path uses this relation.")] = None,
    exclude_node: Annotated[
        Many, repeatable("No path goes through this node.", "TYPE=NAME")
    ] = None,
    via: Annotated[Many, repeatable("Only paths through such a node.", "TYPE=NAME")] = None,
    metapath: Annotated[
        Many,
        typer.Option(help="Only paths along these relations, as likes,rev_likes,likes. Repeats."),
    ] = None,
    forbid_metapath: Annotated[Many, repeatable("No path along these relations.")] = None,
    before: Annotated[str | None, typer.Option(help="Only facts before this date.")] = None,
    date_column: Annotated[str | None, typer.Option(help="Column of the dates.")] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds per link.")] = None,
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
        typer.Option(help="With --counterfactual: the target is to drop out of the first K."),
    ] = None,
    at: Annotated[
        str, typer.Option(help="With --counterfactual: facts at the source, or on paths.")
    ] = "source",
    rank: Annotated[
        bool, typer.Option("--rank", help="Also rank the target, with and without these facts.")
    ] = False,
    rank_end: Annotated[
        str, typer.Option(help="With --rank: dst ranks the target, src the source.")
    ] = "dst",
    runs: Annotated[
        int, typer.Option(min=1, help="Number of seeds to explain with; each path is counted.")
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
        int | None, typer.Option(min=1, help="With a folder: links per part. Default: 256.")
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
    """Explain one link, or a table of links.

    Of a table, the exit code is 1 if every link failed, and 3 if some did.
    """
    from pagelink.views.rows import is_one_file

    is_table = links is not None
    is_folder = out is not None and not is_one_file(out)
    of_workers = (engine, workers, address, chunk, store_path, collect or None)
    wrong = {
        "Give either --src and --dst, or --links.":
            is_table != (src is None and dst is None) or (src is None) != (dst is None),
        "--links and --out go together.": is_table != (out is not None),
        "--html, --svg, --png and --json go with --src and --dst.":
            is_table and any((html, svg, png, json)),
        "--counterfactual goes with --src and --dst: the rows of a table are paths, and it is "
        "about sets of facts.": is_table and counterfactual,
        "--memory goes with --links: one link is explained by itself.":
            not is_table and memory is not None,
        f"--at is source or paths; got {at!r}.": at not in ("source", "paths"),
        f"--rank-end is src or dst; got {rank_end!r}.": rank_end not in ("src", "dst"),
        "--rank-end goes with --rank.": rank_end != "dst" and not rank,
        "--top-k and --at go with --counterfactual.":
            not counterfactual and (top_k is not None or at != "source"),
        "--engine, --workers, --address, --chunk, --store-path and --collect go with --links and a "
        "folder as --out.": not is_folder and any(option is not None for option in of_workers),
    }  # fmt: skip
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise typer.BadParameter(message)
    check_target(None if is_folder else out, links, model, graph)
    if png is not None:
        need("--png", "web", "resvg_py", "font_source_sans_pro")
    given = {
        "num_paths": paths, "max_length": max_length, "max_degree": max_degree, "budget": budget,
        "exclude_relations": exclude_relation, "exclude_nodes": _nodes(exclude_node),
        "via": _nodes(via), "metapaths": _metapaths(metapath),
        "forbid_metapaths": _metapaths(forbid_metapath), "before": before,
        "date_column": date_column, "deadline": deadline, "longer": False if no_longer else None,
    }  # fmt: skip
    from pagelink.settings import Settings

    settings = Settings().replace(**{k: v for k, v in given.items() if v is not None})
    limit = None if rank_only else threshold
    on_request: dict[str, Any] = {
        "rank": rank, "rank_end": rank_end, "runs": runs, "negatives": negatives,
    }  # fmt: skip
    if links is not None and out is not None:
        from pagelink.engine import FromFiles, engine_of
        from pagelink.explain.options import ExplainOptions

        _explain_table(
            FromFiles(graph, model, settings, seed, limit, store_path), links, out,
            engine_of(engine or "processes", workers, address) if is_folder else None,
            {"asked": ExplainOptions(**on_request), "memory": memory, "chunk": chunk,
             "collect": collect},
        )  # fmt: skip
        return
    from pagelink.explain.explainer import PaGELink

    checkpoint = load(graph, model)
    explainer = PaGELink(
        checkpoint.model, checkpoint.source, checkpoint.link_type, settings, seed, threshold=limit,
        held_out=checkpoint.held_out,
    )  # fmt: skip
    explanation = explainer.explain(src or "", dst or "", **on_request)
    console.print(str(explanation))
    values: dict[str, Any] = {}
    if counterfactual:
        place: Any = at
        known = checkpoint.split.all
        of_source = known[1, known[0] == explanation.src[1]].tolist()
        found = explainer.counterfactual(
            src or "", dst or "", top_k=top_k, at=place, known=of_source
        )
        console.print(f"\n{found}")
        values["counterfactual"] = found.to_dict()
    written = write_files(
        (html, explanation.to_html),
        (svg, explanation.to_svg),
        (json, lambda: dumps(explanation.to_dict() | values, ensure_ascii=False, indent=1)),
        (png, explanation.to_png),
    )
    say_written(written)


def _nodes(given: Many) -> list[tuple[str, str]] | None:
    if given is None:
        return None
    for node in given:
        if "=" not in node:
            raise typer.BadParameter(f"A node is TYPE=NAME, as movie=Heat (1995); got {node!r}.")
    return [(node.split("=", 1)[0], node.split("=", 1)[1]) for node in given]


def _metapaths(given: Many) -> list[list[str]] | None:
    return None if given is None else [[name.strip() for name in m.split(",")] for m in given]


def _explain_table(
    opening: FromFiles, links: Path, out: Path, engine: Engine | None, options: dict[str, Any]
) -> None:
    """Run the job, show how far it is, and say what came of it."""
    from pagelink.engine import explain_table

    given = {name: value for name, value in options.items() if value is not None}
    with _shown() as step:
        summary = explain_table(opening, links, out, engine, progress=step, **given)
    if summary.damaged:
        errors.print(f"{summary.damaged} parts of an earlier run were damaged and made again.")
    if summary.resumed:
        console.print(f"{summary.resumed} links were done by an earlier run.")
    counts = ", ".join(f"{count} {name}" for name, count in summary.reasons.items())
    parts = "" if engine is None else f" in {summary.num_parts} parts"
    console.print(f"{summary.num_links} links ({counts}), {summary.num_rows} rows{parts}: {out}")
    for name, number in summary.direct.items():
        errors.print(
            f"For {number} of {summary.num_links} links {name!r} joins source and target directly: "
            "it may be the link itself under another name. If so, leave it out by "
            f"--exclude-relation {name}."
        )
    if engine is not None:
        if summary.verdicts:
            told = ", ".join(f"{count} {name}" for name, count in summary.verdicts.items())
            console.print(f"Verdicts: {told}.")
        if summary.overhead is not None:
            console.print(
                f"{summary.rate:.1f} links per second by {summary.workers} workers, "
                f"{summary.restarts} of them replaced; {summary.overhead:.1%} of their time was "
                "not spent on explaining."
            )
        if summary.slowest:
            worst = summary.slowest[0]
            console.print(f"The slowest link took {worst['seconds']:.2f} s (line {worst['line']}).")
    for message in summary.invalid:
        errors.print(f"{links}, {message}")
    more = summary.reasons.get("invalid", 0) - len(summary.invalid)
    if more > 0:
        errors.print(f"... and {more} more; see the rows with reason invalid.")
    if summary.failed:
        errors.print(f"{summary.failed} of {summary.num_links} links failed.")
        raise typer.Exit(ALL_FAILED if summary.failed == summary.num_links else SOME_FAILED)


@contextmanager
def _shown() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; a line now and then in the log of a job that nobody watches."""
    if console.is_terminal:
        with progress_bar("explaining") as bar:
            yield bar
        return
    said = time.monotonic()
    first: tuple[float, int] | None = None  # what an earlier run has done is not our pace

    def step(done: int, total: int) -> None:
        nonlocal said, first
        now = time.monotonic()
        first = first or (now, done)
        if now - said >= SECONDS_A_LINE and now > first[0]:
            said = now
            rate = (done - first[1]) / (now - first[0])
            left = f", {(total - done) / rate / 60:.0f} minutes left" if rate else ""
            errors.print(f"{done} of {total} links, {rate:.1f} per second{left}")

    yield step
