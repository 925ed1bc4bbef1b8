"""`pagelink bench`: the benchmarks and their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagelink.cli.common import (
    Many,
    Model,
    Seed,
    console,
    load,
    one_thread,
    output,
    repeatable,
    say_written,
)
from pagelink.errors import SettingsError, need
from pagelink.runtime.files import locked

Quick = Annotated[bool, typer.Option("--quick", help="Tiny graphs, to see that it runs.")]
bench = typer.Typer(help="Benchmarks.", no_args_is_help=True)
Out = Annotated[Path, output("Folder for run files, trained models and reports.")]


@bench.command()
def paper(
    out: Out = Path("out"),
    part: Annotated[Many, repeatable("Only this part.", "NAME")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of explainer seeds.")] = 5,
    links: Annotated[int, typer.Option(min=2, help="Maximum number of links per data set.")] = 200,
    aminer: Annotated[
        Path | None,
        typer.Option(help="Also AugCitation from this AMiner file (a JSON object per line)."),
    ] = None,
    data: Annotated[Many, repeatable("Only this data set.", "NAME")] = None,
    without: Annotated[
        Many, repeatable("explainers and connection: leave this one out.", "NAME")
    ] = None,
    quick: Quick = False,
) -> None:
    """Run the paper's benchmark with all explainers. What was done before is not done again.

    pagelink bench paper --out out
    """
    from pagelink.bench.paper.runner import run_and_print

    if aminer is not None and not aminer.exists():
        raise SettingsError(f"--aminer {aminer}: there is no such file.")
    one_thread()  # so that CPU seconds are those of the work
    with locked(out):
        run_and_print(
            out, part or [], console, seeds=seeds, links=links, quick=quick, aminer=aminer,
            only=data or [], without=without or [],
        )  # fmt: skip


@bench.command()
def compare(
    graph: Annotated[Path, typer.Argument(help="Folder of tables, or a file of triples.")],
    model: Model,
    out: Out = Path("out"),
    links: Annotated[
        int, typer.Option(min=2, help="Maximum number of test links to explain.")
    ] = 100,
    explainers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these explainers. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of explainer seeds.")] = 1,
    seed: Seed = 0,
) -> None:
    """Compare all explainers on a model of your own: effect, sufficiency, verdicts, time.

    pagelink bench compare tables --model model.pt --out out

    Also agreement with the labelled paths, if the graph is a data set that has them.
    """
    from pagelink.bench.paper.runner import compare_and_print
    from pagelink.bench.runs import check_names
    from pagelink.datasets.folders import find_labels
    from pagelink.rivals.registry import RIVALS

    one_thread()
    given = [name.strip() for name in (explainers or "").split(",")]
    names = check_names("explainer", filter(None, given), RIVALS)
    stored = load(graph, model)
    labels = find_labels(graph, stored.whole_data, stored.link_type)
    with locked(out):
        compare_and_print(
            stored, model, names, out, console, links=links, seeds=seeds, seed=seed, labels=labels
        )


@bench.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `bench paper` or `compare` wrote.")],
    out: Annotated[Path | None, output("Folder for the reports. Default: the same.")] = None,
) -> None:
    """Make the reports of a benchmark anew from its run files: Markdown, and one page of HTML.

    pagelink bench report out
    """
    from pagelink.bench.paper.runner import report as write

    with locked(out or folder):
        write(folder, out or folder, console)


@bench.command()
def docs(
    results: Annotated[
        Path | None,
        typer.Option("--from", help="First take the runs of this folder into docs/results."),
    ] = None,
    root: Annotated[Path, typer.Option(help="The checkout.")] = Path(),
) -> None:
    """Write the tables and pictures of the docs from the committed results.

    pagelink bench docs --from out
    """
    from pagelink.bench.docs import publish, write_docs

    if results is not None:
        console.print(f"docs/results: {publish(results, root):,} bytes")
    say_written(write_docs(root))


@bench.command()
def scale(
    out: Annotated[Path, output("Folder for the store, about 10 GB, and scale.json.")],
    only: Annotated[Many, repeatable("build, cold, worker, engines or chaos.", "NAME")] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Nodes of the graph; 10^7 without it.")
    ] = None,
    edges: Annotated[
        int | None,
        typer.Option(min=1, help="Its edges, each stored in both directions; 10^8 without it."),
    ] = None,
    quick: Quick = False,
    seed: Seed = 0,
) -> None:
    """Measure a graph of 10^8 edges on disk, and a job whose workers are killed. Takes an hour.

    pagelink bench scale --out out
    """
    if not only or "chaos" in only:  # on a Ray cluster
        need("pagelink bench scale", "bench", "ray")
    from pagelink.bench.scale.bench import run_and_print

    with locked(out):
        run_and_print(out, only or [], console, quick=quick, seed=seed, nodes=nodes, edges=edges)


@bench.command()
def fuzz(
    out: Annotated[Path, output("Folder for fuzz.md, fuzz.json and finished chunks.")] = Path(
        "out/fuzz"
    ),
    graphs: Annotated[
        int, typer.Option(min=0, help="Random graphs with models, explained and checked.")
    ] = 0,
    searches: Annotated[
        int, typer.Option(min=0, help="Random graphs through extraction, pruning and search.")
    ] = 0,
    interrupts: Annotated[
        int, typer.Option(min=0, help="Ctrl-C at random moments of calls that run a model.")
    ] = 0,
    damage: Annotated[
        int, typer.Option(min=0, help="Random changes of bytes in files that are read back.")
    ] = 0,
    first: Annotated[int, typer.Option(min=0, help="The number of the first case.")] = 0,
    seed: Seed = 0,
) -> None:
    """Check promises on random cases. Goes on where it stopped; exit code 1 if one is broken.

    pagelink bench fuzz --graphs 100 --searches 1000
    """
    from pagelink.bench.fuzz.bench import run_and_print

    wanted = {
        "graphs": graphs, "searches": searches, "interrupts": interrupts, "damage": damage,
    }  # fmt: skip
    if not any(wanted.values()):
        raise SettingsError(f"Say how many cases to run: --{' N or --'.join(wanted)} N.")
    with locked(out):
        faults = run_and_print(out, wanted, console, seed=seed, first=first)
    if faults:
        raise typer.Exit(1)


@bench.command("useritemattr-reference")
def useritemattr_reference(
    data: Annotated[
        Path | None, typer.Option(help="Folder useritemattr-reference. Default: it is looked for.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of explainer seeds.")] = 5,
    links: Annotated[
        int | None,
        typer.Option(min=1, help="Number of links at most. Default: all 129."),
    ] = None,
) -> None:
    """Score explanations of the paper's released data and weights against its labels.

    pagelink bench useritemattr-reference --seeds 5
    """
    from pagelink.bench.paper.ablation import reference_and_print

    reference_and_print(data, seeds, links, console)


@bench.command()
def speed(
    out: Annotated[Path, output("Folder for speed.json and speed.svg.")] = Path("out"),
    quick: Quick = False,
    only: Annotated[Many, repeatable("Only this row.", "NAME")] = None,
    threads: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Only with this number of threads; repeat it. Default: 1 and 2."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Measure how fast links are explained, and print it as a Markdown table.

    pagelink bench speed --out out
    """
    from pagelink.bench.speed.bench import run_and_print

    with locked(out):
        run_and_print(out, quick, only or [], seed, console, threads or [])


@bench.command()
def faithfulness(
    subject: Annotated[Many, repeatable("Only this model.", "NAME")] = None,
    only: Annotated[
        Many,
        repeatable(
            "planted (known mechanisms), models, strongest (the facts that count most), sides "
            "(removal and gain over rho), experts (drugs and diseases) or robust (other judges). "
            "Default: the first two; models if some are named.",
            "NAME",
        ),
    ] = None,
    links: Annotated[
        int | None,
        typer.Option(
            min=2, help="Links per model at most, 200; per mechanism, 300; strongest, 100."
        ),
    ] = None,
    explainer: Annotated[Many, repeatable("planted: only this row.", "NAME")] = None,
    slow_links: Annotated[
        int | None,
        typer.Option(min=2, help="strongest: links of its slow rows. Default: all."),
    ] = None,
    out: Annotated[Path, output("Folder for results and trained models.")] = Path("out"),
    quick: Quick = False,
    rho_curve: Annotated[
        bool, typer.Option("--rho-curve", help="Also the default under other values of rho.")
    ] = False,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="UserItemAttr: also train without the paths. Slow.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Measure whether explanations are true of the model, beside plain rankings of paths.

    pagelink bench faithfulness --out out
    """
    from pagelink.bench.faithfulness.report import run_parts

    one_thread()
    with locked(out):
        run_parts(
            only or [], subject or [], out, console, links=links, explainers=explainer or [],
            slow_links=slow_links, quick=quick, seed=seed, rho_curve=rho_curve, retrain=retrain,
        )  # fmt: skip


@bench.command()
def knowledge(
    graph: Annotated[
        Path | None,
        typer.Argument(help="File of triples or folder of tables. Default: FB15k-237."),
    ] = None,
    model: Annotated[str, typer.Option(help="compgcn, rgcn or nbf.")] = "compgcn",
    head: Annotated[
        str | None, typer.Option(help="distmult, complex or rotate; not for nbf.")
    ] = None,
    minutes: Annotated[float, typer.Option(help="CPU minutes of each training.")] = 60.0,
    only: Annotated[Many, repeatable("graph, none or random.", "NAME")] = None,
    out: Annotated[Path, output("Folder for run files.")] = Path("out"),
    seed: Seed = 0,
) -> None:
    """Train one model for all relations with the graph, without it and on a random one.

    pagelink bench knowledge --minutes 60 --out out

    What was done before is not done again.
    """
    from pagelink.bench.knowledge import run_and_print

    one_thread()
    with locked(out):
        run_and_print(
            out, console, graph=graph, model=model, minutes=minutes, only=only or [], seed=seed,
            options={} if head is None else {"head": head},
        )  # fmt: skip


@bench.command()
def examples(
    folder: Annotated[Path, typer.Argument(help="The folder `examples` of a checkout of PyG.")],
    only: Annotated[Many, repeatable("Only this example, such as link_pred.", "NAME")] = None,
    links: Annotated[int, typer.Option(min=1, help="Links per example.")] = 10,
    out: Annotated[Path, output("Folder for run files and the table.")] = Path("out"),
) -> None:
    """Explain the models of PyG's link-prediction examples, their classes unchanged.

    pagelink bench examples pytorch_geometric/examples --out out

    What was done before is not done again.
    """
    from pagelink.bench.pyg_examples import run_and_print

    one_thread()
    with locked(out):
        run_and_print(folder, out, console, only or [], links)


@bench.command()
def trained(
    data: Annotated[Many, repeatable("UMLS or FB15k-237; default: UMLS.", "NAME")] = None,
    model: Annotated[Many, repeatable("ComplEx or TransE; default: both.", "NAME")] = None,
    only: Annotated[Many, repeatable("Only deletion, agreement or cost.", "PART")] = None,
    predictions: Annotated[
        int, typer.Option(min=1, help="Predictions whose explanations are deleted.")
    ] = 100,
    links: Annotated[
        int, typer.Option(min=1, help="UMLS: the last of these, of which single sets are deleted.")
    ] = 10,
    seeds: Annotated[int, typer.Option(min=2, help="Number of trainings of each model.")] = 5,
    out: Annotated[Path, output("Folder for results.")] = Path("out"),
    quick: Quick = False,
) -> None:
    """Compare explanations of models without messages with really training again.

    pagelink bench trained --data UMLS --out out

    What was done before is not done again.
    """
    from pagelink.bench.trained.bench import run_and_print

    one_thread()
    with locked(out):
        run_and_print(
            out, console, data=data or ["UMLS"], models=model or [], only=only or [],
            predictions=predictions, links=links, seeds=seeds, quick=quick,
        )  # fmt: skip
