"""`pagelink explain`: one link, or a table of links."""

from __future__ import annotations

from functools import partial
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from pagelink.cli.common import (
    DEVICE_HELP,
    RANK_ONLY_HELP,
    THRESHOLD_HELP,
    Graph,
    Many,
    Model,
    Names,
    Phrases,
    Relation,
    Seed,
    check_device,
    check_target,
    console,
    load,
    metapaths_of,
    names_relations,
    nodes_of,
    output,
    proof_of,
    repeatable,
    say_written,
    words_of,
    write_files,
)
from pagelink.cli.link_tables import run_table
from pagelink.errors import need

_text = partial(dumps, ensure_ascii=False, indent=1)
LINKS, ONE, MANY = "Which links", "Results of one link", "Results of a table of links"
PATHS, MORE, WORK = "Which paths", "Further questions", "Workers, time and memory"


def explain(
    graph: Graph,
    model: Model,
    src: Annotated[
        str | None, typer.Option(help="Source node, by name or id.", rich_help_panel=LINKS)
    ] = None,
    dst: Annotated[
        str | None, typer.Option(help="Target node, by name or id.", rich_help_panel=LINKS)
    ] = None,
    links: Annotated[
        Path | None,
        typer.Option(
            help="Table of links (src, dst; relation), instead of these.", rich_help_panel=LINKS
        ),
    ] = None,
    threshold: Annotated[float, typer.Option(help=THRESHOLD_HELP, rich_help_panel=LINKS)] = 0.0,
    rank_only: Annotated[
        bool, typer.Option("--rank-only", help=RANK_ONLY_HELP, rich_help_panel=LINKS)
    ] = False,
    html: Annotated[Path | None, output("Write a web page.", ONE)] = None,
    svg: Annotated[Path | None, output("Write a drawing.", ONE)] = None,
    png: Annotated[Path | None, output("Write a picture.", ONE)] = None,
    json: Annotated[Path | None, output("Write all figures as JSON; see --mask.", ONE)] = None,
    mask: Annotated[
        bool,
        typer.Option(
            "--mask",
            rich_help_panel=ONE,
            help="With --json: also the learned mask of every edge, which may be megabytes.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Result, .parquet, .csv, .tsv or .jsonl; or a folder of parts, which several "
            "workers fill: one that exists, or a name without an ending of letters. Or an address.",
            metavar="PATH",
            rich_help_panel=MANY,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        output("Write a web page about all links: verdicts, metapaths, slowest, worst.", MANY),
    ] = None,
    paths: Annotated[
        int | None, typer.Option(help="Maximum number of paths.", rich_help_panel=PATHS)
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of facts of a path; see --no-longer.", rich_help_panel=PATHS
        ),
    ] = None,
    no_longer: Annotated[
        bool,
        typer.Option(
            "--no-longer",
            rich_help_panel=PATHS,
            help="No longer paths, even where those of --max-length do not carry the score.",
        ),
    ] = False,
    max_degree: Annotated[
        int | None, typer.Option(help="Maximum degree of inner nodes.", rich_help_panel=PATHS)
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Maximum number of facts of all paths.", rich_help_panel=PATHS),
    ] = None,
    exclude_relation: Annotated[
        Many, repeatable("No path uses this relation.", panel=PATHS)
    ] = None,
    exclude_node: Annotated[
        Many, repeatable("No path goes through this node.", "TYPE=NAME", PATHS)
    ] = None,
    via: Annotated[Many, repeatable("Only paths through such a node.", "TYPE=NAME", PATHS)] = None,
    metapath: Annotated[
        Many, repeatable("Only paths along these relations, as likes,rev_likes,likes.", panel=PATHS)
    ] = None,
    forbid_metapath: Annotated[
        Many, repeatable("No path along these relations.", panel=PATHS)
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Only facts before this date.", rich_help_panel=PATHS)
    ] = None,
    date_column: Annotated[
        str | None, typer.Option(help="Column of the dates.", rich_help_panel=PATHS)
    ] = None,
    prefer: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=MORE,
            help="Of sets that are alike, one of facts with a large value in this column.",
        ),
    ] = None,
    counterfactual: Annotated[
        bool,
        typer.Option(
            "--counterfactual",
            rich_help_panel=MORE,
            help="Also find the facts that the prediction hangs on.",
        ),
    ] = False,
    top_k: Annotated[
        int | None,
        typer.Option(
            help="With --counterfactual: the target is to drop out of the first K.",
            rich_help_panel=MORE,
        ),
    ] = None,
    at: Annotated[
        str,
        typer.Option(
            help="With --counterfactual: facts at the source, or on paths.", rich_help_panel=MORE
        ),
    ] = "source",
    instead: Annotated[
        str | None,
        typer.Option(
            help="Say what puts --dst above this other target, or below it.",
            metavar="NAME",
            rich_help_panel=MORE,
        ),
    ] = None,
    rank: Annotated[
        bool | None,
        typer.Option(
            "--rank/--no-rank",
            rich_help_panel=MORE,
            help="Rank the target, with and without these facts. Default: of one link, if a pass "
            "over a graph in memory scores all targets.",
            show_default=False,
        ),
    ] = None,
    rank_sample: Annotated[
        int | None,
        typer.Option(
            min=2,
            rich_help_panel=MORE,
            help="Rank among this number of targets at most, drawn at random. Default: all, if a "
            "pass over a graph in memory scores them, else 100.",
        ),
    ] = None,
    rank_end: Annotated[
        str,
        typer.Option(help="dst ranks the target, src the source.", rich_help_panel=MORE),
    ] = "dst",
    embeddings: Annotated[
        bool,
        typer.Option(
            "--embeddings",
            rich_help_panel=MORE,
            help="Also say what the paths' facts put into learned embeddings of the two nodes.",
        ),
    ] = False,
    runs: Annotated[
        int,
        typer.Option(
            min=1,
            rich_help_panel=MORE,
            help="Number of seeds to explain with; each path is counted.",
        ),
    ] = 1,
    negatives: Annotated[
        bool,
        typer.Option(
            "--negatives",
            rich_help_panel=MORE,
            help="Of links not predicted: paths for and against.",
        ),
    ] = False,
    deadline: Annotated[
        float | None, typer.Option(help="Seconds per link.", rich_help_panel=WORK)
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            help="With --links: about how many gigabytes links side by side may take. Default: 1.",
            rich_help_panel=WORK,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="With a folder as --out: processes (the default) or ray.", rich_help_panel=WORK
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="With a folder: how many. Default: one per core.", rich_help_panel=WORK
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            help="With --engine ray: a running cluster, auto or host:port.", rich_help_panel=WORK
        ),
    ] = None,
    worker_memory: Annotated[
        float | None,
        typer.Option(
            help="With --engine ray: gigabytes that a machine needs for each worker.",
            rich_help_panel=WORK,
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option(
            min=1, help="With a folder: links per part. Default: 256.", rich_help_panel=WORK
        ),
    ] = None,
    store_path: Annotated[
        Path | None,
        typer.Option(
            help="With a folder: where the graph lies for the workers, if elsewhere.",
            rich_help_panel=WORK,
        ),
    ] = None,
    collect: Annotated[
        bool,
        typer.Option(
            "--collect", rich_help_panel=WORK, help="With a folder that the workers do not share."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            rich_help_panel=WORK,
            help="With --links: explain a sample, write nothing, and say what all links will take.",
        ),
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|[HOST:]PORT",
            rich_help_panel=WORK,
            help="With --links: how far the job is, for Prometheus.",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help=DEVICE_HELP, rich_help_panel=WORK)] = None,
    link: Relation = None,
    names: Names = None,
    relations: Phrases = None,
    seed: Seed = 0,
) -> None:
    """Explain one link, or a table of links.

    pagelink explain tables --model model.pt --src "User 3" --dst "Alien (1979)"

    Of a table, the exit code is 1 if every link failed, and 3 if some did.
    """
    from pagelink.views.rows import is_one_file

    is_table = links is not None
    is_folder = out is not None and not is_one_file(out)
    of_workers = (engine, workers, address, worker_memory, chunk, store_path, collect or None)
    wrong = {
        "Give either --src and --dst, or --links.":
            is_table != (src is None and dst is None) or (src is None) != (dst is None),
        "--links and --out go together.": is_table != (out is not None),
        "--html, --svg, --png and --json go with --src and --dst.":
            is_table and any((html, svg, png, json)),
        "--report goes with --links: it is about all links of a table.":
            report is not None and not is_table,
        "--mask goes with --json.": mask and json is None,
        "--report and --out are two files.": report is not None and report == out,
        "--counterfactual goes with --src and --dst: the rows of a table are paths, and it is "
        "about sets of facts.": is_table and counterfactual,
        "--instead goes with --src and --dst, and with --svg and --json.":
            instead is not None and (is_table or html is not None or png is not None),
        "--instead and --counterfactual are two questions; ask one at a time.":
            instead is not None and counterfactual,
        "--embeddings goes with --src and --dst: it takes many passes over the graph per link.":
            is_table and embeddings,
        "--memory goes with --links: one link is explained by itself.":
            not is_table and memory is not None,
        "--dry-run and --metrics go with --links.": not is_table and (dry_run or bool(metrics)),
        f"--at is source or paths; got {at!r}.": at not in ("source", "paths"),
        f"--rank-end is src or dst; got {rank_end!r}.": rank_end not in ("src", "dst"),
        "--rank-end and --rank-sample go with --rank.":
            (rank_end != "dst" or rank_sample is not None) and not rank
            and (is_table or rank is False),
        "--top-k and --at go with --counterfactual.":
            not counterfactual and (top_k is not None or at != "source"),
        "--engine, --workers, --address, --worker-memory, --chunk, --store-path and --collect go "
        "with --links and a folder as --out.":
            not is_folder and any(option is not None for option in of_workers),
    }  # fmt: skip
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise typer.BadParameter(message)
    check_target(None if is_folder else out, links, model, graph)
    check_target(report, links, model, graph, option="--report")
    check_device(device)
    if png is not None:
        need("--png", "web", "resvg_py", "font_source_sans_pro")
    given = {
        "num_paths": paths, "max_length": max_length, "max_degree": max_degree, "budget": budget,
        "exclude_relations": exclude_relation, "exclude_nodes": nodes_of(exclude_node),
        "via": nodes_of(via), "metapaths": metapaths_of(metapath),
        "forbid_metapaths": metapaths_of(forbid_metapath), "before": before,
        "date_column": date_column, "prefer": prefer, "deadline": deadline,
        "longer": False if no_longer else None,
    }  # fmt: skip
    from pagelink.settings import Settings

    settings = Settings().replace(**{k: v for k, v in given.items() if v is not None})
    limit = None if rank_only else threshold
    on_request: dict[str, Any] = {
        "rank": rank, "rank_sample": rank_sample, "rank_end": rank_end, "runs": runs,
        "negatives": negatives,
    }  # fmt: skip
    if rank is None:  # which end, or among how many, is asked of what is to be ranked
        on_request["rank"] = True if rank_end != "dst" or rank_sample is not None else None
    words, by_row = words_of(names, relations), names_relations(links)
    from pagelink.engine import FromFiles, engine_of

    opening = FromFiles(
        graph, model, settings, seed, limit, store_path, words, link, device, by_row=by_row
    )
    if links is not None and out is not None:
        from pagelink.explain.options import ExplainOptions

        on_request["rank"] = bool(rank)
        where = (engine or "processes", workers, address, worker_memory)
        run_table(
            opening, links, out, engine_of(*where) if is_folder else None,
            {"asked": ExplainOptions(**on_request), "memory": memory, "chunk": chunk,
             "collect": collect}, report, metrics, dry_run=dry_run,
        )  # fmt: skip
        return
    explainer = opening.of(load(graph, model, opening.words, link), proof_of(model))
    if instead is not None:
        contrast = explainer.contrast(src or "", dst or "", instead)
        console.print(str(contrast))
        say_written(write_files((svg, contrast.to_svg), (json, lambda: _text(contrast.to_dict()))))
        return
    explanation = explainer.explain(src or "", dst or "", **on_request)
    if embeddings:
        explanation = explainer.with_embeddings(explanation)
    console.print(str(explanation))
    values = {} if json is None else explanation.to_dict(mask=mask)
    if counterfactual:
        place: Any = at
        found = explainer.counterfactual(src or "", dst or "", top_k=top_k, at=place)
        console.print(f"\n{found}")
        values["counterfactual"] = found.to_dict()
    written = write_files(
        (html, explanation.to_html),
        (svg, explanation.to_svg),
        (json, lambda: _text(values)),
        (png, explanation.to_png),
    )
    say_written(written)
