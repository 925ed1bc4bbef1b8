"""The command line: parses and prints, nothing else. Heavy imports wait until a command runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from pagelink.errors import PageLinkError, SettingsError

if TYPE_CHECKING:
    from pagelink.counterfactual import Counterfactual
    from pagelink.explainer import PaGELink
    from pagelink.explanation import Explanation
    from pagelink.models.checkpoint import Checkpoint
    from pagelink.on_request import OnRequest
    from pagelink.settings import Settings

app = typer.Typer(
    help="Explain link predictions of graph neural networks by a few short paths.",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
)  # fmt: skip
bench = typer.Typer(help="Benchmarks.", no_args_is_help=True)
dataset = typer.Typer(help="Make graphs with known explanations.", no_args_is_help=True)
app.add_typer(bench, name="bench")
app.add_typer(dataset, name="dataset")
console = Console(soft_wrap=True, highlight=False)
errors = Console(stderr=True, soft_wrap=True, highlight=False)

Graph = Annotated[Path, typer.Argument(help="Folder of tables, or a file of triples.")]
Model = Annotated[Path, typer.Option(help="Checkpoint that `pagelink train` wrote.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Out = Annotated[Path, typer.Option(help="Folder to make.")]
_debug = False


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:
    global _debug
    _debug = debug


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the picture.")] = Path("out"),
    seed: Seed = 0,
) -> None:
    """Generate a graph, train a model, and explain one of its predictions."""
    import torch

    from pagelink.demo import run_demo

    torch.set_num_threads(1)  # the graph is tiny, a second thread only costs
    run_demo(out, seed, console)


@app.command()
def describe(graph: Graph, seed: Seed = 0) -> None:
    """Say what is in a graph: nodes, relations, degrees, hubs, neighbourhoods."""
    from pagelink.description import describe as describe_graph
    from pagelink.tables import load_graph

    print(describe_graph(load_graph(graph), seed=seed))


@app.command()
def train(
    graph: Graph,
    link: Annotated[str, typer.Option(help="Relation to predict, as user,likes,movie.")],
    out: Annotated[Path, typer.Option(help="Checkpoint to write.")],
    model: Annotated[str, typer.Option(help="rgcn, sage or hgt.")] = "rgcn",
    head: Annotated[str, typer.Option(help="dot, cosine or mlp.")] = "dot",
    hidden: Annotated[int, typer.Option(min=1, help="Length of the embeddings.")] = 64,
    layers: Annotated[int, typer.Option(min=1, help="Number of layers.")] = 2,
    embeddings: Annotated[
        bool, typer.Option(help="Give nodes without features an embedding of their own.")
    ] = True,
    paper_split: Annotated[
        bool | None,
        typer.Option(
            help="Leave the predicted relation out of message passing, as the paper does. "
            "Default: only for the paper's own data sets."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs at most.")] = None,
    lr: Annotated[float | None, typer.Option(help="Step size of Adam.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Links a step, on sampled neighbourhoods.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Train a link predictor on a graph and test it beside two plain rivals."""
    from pagelink.models.commands import train_and_save

    _check_target(out, graph)
    given = {"epochs": epochs, "lr": lr, "batch_size": batch_size, "paper_split": paper_split}
    train_and_save(
        graph, _link_type(link), out, model=model, seed=seed, console=console,
        options={"head": head, "hidden": hidden, "num_layers": layers, "embeddings": embeddings},
        settings={key: value for key, value in given.items() if value is not None},
    )  # fmt: skip


@app.command()
def recommend(
    graph: Graph,
    model: Model,
    src: Annotated[str, typer.Option(help="Source node, by name or id.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many targets.")] = 10,
) -> None:
    """List the best new targets of a source node."""
    from pagelink.models.recommend import recommend as best_targets

    checkpoint = _load(graph, model)
    _, relation, dst = checkpoint.link_type
    console.print(f"Best new targets of {src!r} ({relation} {dst}):", markup=False)
    for rank, target in enumerate(best_targets(checkpoint, src, k), start=1):
        console.print(f"{rank:3d}.  {target.probability:.3f}  {target.name}", markup=False)


@app.command()
def explain(
    graph: Graph,
    model: Model,
    src: Annotated[str | None, typer.Option(help="Source node, by name or id.")] = None,
    dst: Annotated[str | None, typer.Option(help="Target node, by name or id.")] = None,
    links: Annotated[
        Path | None, typer.Option(help="Table of links (src, dst), instead of --src and --dst.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --links: result, .parquet, .csv, .tsv or .jsonl.")
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
    threshold: Annotated[
        float, typer.Option(help="Links with a lower raw score are not predicted.")
    ] = 0.0,
    rank_only: Annotated[
        bool, typer.Option("--rank-only", help="The model only ranks: explain whatever is asked.")
    ] = False,
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
    _check_target(out, links, model, graph)
    given = {
        "num_paths": paths, "max_length": max_length, "max_degree": max_degree, "budget": budget,
        "exclude_relations": exclude_relation, "exclude_nodes": _nodes(exclude_node),
        "via": _nodes(via), "metapaths": _metapaths(metapath),
        "forbid_metapaths": _metapaths(forbid_metapath), "before": before,
        "date_column": date_column, "deadline": deadline,
    }  # fmt: skip
    from pagelink.settings import Settings

    settings = Settings().replace(**{k: v for k, v in given.items() if v is not None})
    checkpoint = _load(graph, model)
    explainer = _explainer(checkpoint, settings, None if rank_only else threshold, seed)
    if links is not None and out is not None:
        from pagelink.on_request import OnRequest

        asked = OnRequest(rank=rank, runs=runs, negatives=negatives)
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


@app.command()
def check(
    graph: Graph,
    model: Model,
    links: Annotated[int, typer.Option(min=1, help="Test links to explain.")] = 50,
    retrain: Annotated[
        bool, typer.Option(help="Also train a model on links paired at random, to compare with.")
    ] = True,
    json: Annotated[Path | None, typer.Option(help="Write all figures as JSON.")] = None,
    seed: Seed = 0,
) -> None:
    """Check whether explanations of a model are true of it, and say so in words."""
    from pagelink.checks.report import check_and_print

    _check_target(json, graph, model)
    check_and_print(_load(graph, model), links, seed, retrain, json, console)


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


@bench.command("useritemattr-reference")
def useritemattr_reference(
    data: Annotated[
        Path | None, typer.Option(help="Folder useritemattr-reference. Default: it is looked for.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of explainer seeds.")] = 5,
    links: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many links. Default: all 129.")
    ] = None,
) -> None:
    """Score explanations of the paper's released data and weights against its labels."""
    from pagelink.evaluation.reference_report import run_and_print

    run_and_print(data, seeds, links, console)


@bench.command()
def speed(
    out: Annotated[Path, typer.Option(help="Folder for speed.json and speed.svg.")] = Path("out"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny versions of the rows, to see that they run.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this row. Repeatable.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Measure how fast links are explained, and print it as a Markdown table."""
    from pagelink.evaluation.speed_report import run_and_print

    run_and_print(out, quick, only or [], seed, console)


@bench.command()
def faithfulness(
    subject: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this model. Repeatable.")
    ] = None,
    links: Annotated[int, typer.Option(min=2, help="Links of a model at most.")] = 200,
    out: Annotated[
        Path, typer.Option(help="Folder for faithfulness.json and trained models.")
    ] = Path("out"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny generated graphs, to see that it runs.")
    ] = False,
    rho_curve: Annotated[
        bool, typer.Option("--rho-curve", help="Also the default under other values of rho.")
    ] = False,
    retrain: Annotated[
        bool, typer.Option("--retrain", help="UserItemAttr: also train without the paths. Slow.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Measure whether explanations are true of the model, beside plain rankings of paths."""
    import torch

    from pagelink.evaluation.faithfulness_report import run_and_print

    torch.set_num_threads(1)
    run_and_print(
        subject or [], out, console, links=links, quick=quick, seed=seed, rho_curve=rho_curve,
        retrain=retrain,
    )  # fmt: skip


def _link_type(given: str) -> tuple[str, str, str]:
    parts = tuple(part.strip() for part in given.split(","))
    if len(parts) != 3:
        raise typer.BadParameter(f"--link is source type,relation,target type; got {given!r}.")
    return parts[0], parts[1], parts[2]


def _check_target(out: Path | None, *inputs: Path | None) -> None:
    """Refuse, before any work, a result that would replace what it is made from."""
    if out is None:
        return
    for given in inputs:
        if given is not None and given.exists() and out.exists() and out.samefile(given):
            raise typer.BadParameter(f"--out {out} is an input; choose another name.")
    if out.is_dir():
        raise typer.BadParameter(f"--out {out} is a folder; give the name of a file.")


def _nodes(given: list[str] | None) -> list[tuple[str, str]] | None:
    if given is None:
        return None
    for node in given:
        if "=" not in node:
            raise typer.BadParameter(f"A node is TYPE=NAME, as movie=Heat (1995); got {node!r}.")
    return [(node.split("=", 1)[0], node.split("=", 1)[1]) for node in given]


def _metapaths(given: list[str] | None) -> list[list[str]] | None:
    return None if given is None else [[name.strip() for name in m.split(",")] for m in given]


def _load(graph: Path, model: Path) -> Checkpoint:
    from pagelink.models.checkpoint import load_checkpoint
    from pagelink.tables import load_graph

    return load_checkpoint(model, load_graph(graph))


def _explainer(
    checkpoint: Checkpoint, settings: Settings, threshold: float | None, seed: int
) -> PaGELink:
    from pagelink.explainer import PaGELink

    return PaGELink(
        checkpoint.model, checkpoint.data, checkpoint.link_type, settings, seed,
        threshold=threshold,
    )  # fmt: skip


def _explain_table(
    explainer: PaGELink,
    links: Path,
    out: Path,
    graph: Path,
    model: Path,
    memory: float | None,
    asked: OnRequest,
) -> None:
    from pagelink.explainer import MEMORY
    from pagelink.jobs import explain_table, fingerprint

    with _progress("explaining") as step:
        result = explain_table(
            explainer, links, out, progress=step, memory=MEMORY if memory is None else memory,
            identity={"model": fingerprint(model), "graph": fingerprint(graph)}, asked=asked,
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

    from pagelink.files import write_bytes, write_text

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


@contextmanager
def _progress(word: str) -> Iterator[Any]:
    """A bar with the rate and the time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (
        TextColumn(word), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        Remaining(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(word, total=None, rate="")

        def step(done: int, total: int) -> None:
            speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
            rate = "" if not speed else f"{speed:.1f} a second"
            bar.update(task, completed=done, total=total, rate=rate)

        yield step


def main() -> None:
    """Run the command line; errors made on purpose become one line and exit code 1."""
    try:
        app()
    except SystemExit as stop:
        interrupted = 130  # typer's code for it
        sys.exit(1 if stop.code == interrupted else stop.code)
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(1)
    except (PageLinkError, OSError) as error:
        if _debug:
            raise
        words = " ".join(str(error).split())
        errors.print(f"[bold red]error:[/] {escape(words)}")
        sys.exit(2 if isinstance(error, SettingsError) else 1)
