"""`pagelink dataset`: graphs with known explanations, as folders of tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.markup import escape

from pagelink.cli.bench import add_to
from pagelink.cli.common import Graph, Model, Out, Seed, check_target, console, errors, load
from pagelink.cli.explain import explain
from pagelink.cli.serve import serve
from pagelink.cli.store import store
from pagelink.cli.study import study
from pagelink.errors import PageLinkError, SettingsError

dataset = typer.Typer(help="Make graphs with known explanations.", no_args_is_help=True)


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


# The command line: parses and prints, nothing else. Heavy imports wait until a command runs.


app = typer.Typer(
    help="Explain link predictions of graph neural networks by a few short paths.",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
)  # fmt: skip
bench = typer.Typer(help="Benchmarks.", no_args_is_help=True)
add_to(bench)
app.add_typer(bench, name="bench")
app.add_typer(dataset, name="dataset")
app.add_typer(study, name="study")
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

    from pagelink.datasets.demo import run_demo

    torch.set_num_threads(1)  # the graph is tiny, a second thread only costs
    run_demo(out, seed, console)


@app.command()
def describe(graph: Graph, seed: Seed = 0) -> None:
    """Say what is in a graph: nodes, relations, degrees, hubs, neighbourhoods."""
    from pagelink.checks.description import describe as describe_graph
    from pagelink.tables.load import load_graph

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

    check_target(out, graph)
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
    from pagelink.models.commands import recommend as best_targets

    checkpoint = load(graph, model)
    _, relation, dst = checkpoint.link_type
    console.print(f"Best new targets of {src!r} ({relation} {dst}):", markup=False)
    for rank, target in enumerate(best_targets(checkpoint, src, k), start=1):
        console.print(f"{rank:3d}.  {target.probability:.3f}  {target.name}", markup=False)


app.command()(explain)
app.command()(serve)
app.command()(store)


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

    check_target(json, graph, model)
    check_and_print(load(graph, model), links, seed, retrain, json, console)


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
    from pagelink.bench.paper.ablation import reference_and_print

    reference_and_print(data, seeds, links, console)


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
    from pagelink.bench.speed.bench import run_and_print

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

    from pagelink.bench.faithfulness.report import run_and_print

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


def _say_interrupted() -> NoReturn:
    errors.print("interrupted (tables of links and benchmarks go on where they stopped)")
    sys.exit(1)


def main() -> None:
    """Run the command line; errors made on purpose become one line and exit code 1."""
    try:
        app()
    except SystemExit as stop:
        interrupted = 130  # typer's code for it
        if stop.code == interrupted:
            _say_interrupted()
        sys.exit(stop.code)
    except KeyboardInterrupt:
        _say_interrupted()
    except (PageLinkError, OSError) as error:
        if _debug:
            raise
        words = " ".join(str(error).split())
        errors.print(f"[bold red]error:[/] {escape(words)}")
        sys.exit(2 if isinstance(error, SettingsError) else 1)
