"""The command line: it parses and prints, nothing else. Heavy imports wait until a command runs.

Groups and longer commands have their own files; the short ones are here.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from pagelink import __version__
from pagelink.cli.audit import audit
from pagelink.cli.bench import bench
from pagelink.cli.common import (
    Demo,
    Graph,
    Host,
    Known,
    MaybeModel,
    Model,
    PerAddress,
    Port,
    RankOnly,
    Seed,
    Threshold,
    check_demo,
    console,
    errors,
    load,
    load_or_demo,
    one_thread,
    output,
    writing,
)
from pagelink.cli.dataset import dataset
from pagelink.cli.explain import explain
from pagelink.cli.link_tables import report
from pagelink.cli.store import store
from pagelink.cli.study import study
from pagelink.errors import PageLinkError, SettingsError, need
from pagelink.runtime.files import locked

app = typer.Typer(
    help="Explain link predictions of graph neural networks by a few short paths.\n\n"
    'pagelink explain tables --model model.pt --src "User 3" --dst "Alien (1979)"',
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
)  # fmt: skip
app.add_typer(bench, name="bench")
app.add_typer(dataset, name="dataset")
app.add_typer(study, name="study")
_debug = False
_SECONDS_FOR_EXAMPLES = 8.0
"""What `serve` takes at most to find links to begin with."""


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"pagelink {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:
    global _debug
    _debug = debug


@app.command()
def demo(
    out: Annotated[Path, output("Folder for the page and the picture.")] = Path("out"),
    seed: Seed = 0,
) -> None:
    """Train a model on books and their readers, and explain one of its predictions.

    pagelink demo --out out
    """
    from pagelink.datasets.demo import run_demo

    one_thread()  # the graph is tiny, a second thread only costs
    with locked(out):
        run_demo(out, seed, console)


@app.command()
def describe(graph: Graph, seed: Seed = 0) -> None:
    """Say what is in a graph: nodes, relations, degrees, hubs, neighbourhoods.

    pagelink describe tables
    """
    from pagelink.checks.description import describe as describe_graph
    from pagelink.tables.load import load_graph

    print(describe_graph(load_graph(graph), seed=seed))


@app.command()
def train(
    graph: Graph,
    link: Annotated[str, typer.Option(help="Relation to predict, as user,likes,movie.")],
    out: Annotated[Path, output("Checkpoint to write.")],
    model: Annotated[
        str,
        typer.Option(
            help="rgcn, sage, hgt, or nbf, which reads the walks between a pair, and no features."
        ),
    ] = "rgcn",
    head: Annotated[
        str | None, typer.Option(help="dot, cosine or mlp; not for nbf. Default: dot.")
    ] = None,
    hidden: Annotated[
        int | None,
        typer.Option(min=1, help="Length of the embeddings. Default: 64, for nbf 32."),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="Number of layers. Default: 2, for nbf 3.")
    ] = None,
    embeddings: Annotated[
        bool | None,
        typer.Option(
            help="Give nodes without features an embedding of their own. Default: yes; nbf has "
            "none."
        ),
    ] = None,
    paper_split: Annotated[
        bool | None,
        typer.Option(
            help="Leave the predicted relation out of message passing, as the paper does. "
            "Default: only for the paper's own data sets."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Maximum epochs.")] = None,
    lr: Annotated[float | None, typer.Option(help="Step size of Adam.")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Batch size: links per step, on sampled neighbourhoods (nbf: on all)."
        ),
    ] = None,
    known: Known = None,
    figure: Annotated[
        Path | None,
        output("Write the reliability of the shares of held-out links as a figure (SVG)."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Train a link predictor on a graph and test it beside two plain rivals.

    pagelink train tables --link user,likes,movie --out model.pt
    """
    from pagelink.models.architectures import model_options
    from pagelink.models.commands import train_and_save

    given = {
        "epochs": epochs, "lr": lr, "batch_size": batch_size, "paper_split": paper_split,
        "known": None if known is None else tuple(known),
    }  # fmt: skip
    options = {"head": head, "hidden": hidden, "num_layers": layers, "embeddings": embeddings}
    options = {key: value for key, value in options.items() if value is not None}
    _refuse_options(model, options, model_options(model))
    with writing(out, graph), writing(figure, graph):
        train_and_save(
            graph, _link_type(link, graph), out, model=model, seed=seed, console=console,
            options=options,
            settings={key: value for key, value in given.items() if value is not None},
            figure=figure,
        )  # fmt: skip


def _refuse_options(model: str, given: Iterable[str], taken: Sequence[str]) -> None:
    """Refuse options that a model does not have, by their names on the command line."""
    flags = {
        "head": "--head", "hidden": "--hidden", "num_layers": "--layers",
        "embeddings": "--embeddings",
    }  # fmt: skip
    for key in given:
        if key not in taken:
            own = " and ".join(flag for name, flag in flags.items() if name in taken)
            raise typer.BadParameter(f"{model} has no {flags[key]}; it takes {own}.")


@app.command()
def recommend(
    graph: Graph,
    model: Model,
    src: Annotated[
        str | None, typer.Option(help="Source node, by name or id, to list its targets.")
    ] = None,
    dst: Annotated[
        str | None, typer.Option(help="Target node, by name or id, to list its sources instead.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many of them.")] = 10,
    known: Known = None,
) -> None:
    """List the best new targets of a source node, or the best new sources of a target.

    pagelink recommend tables --model model.pt --src "User 3"
    """
    if (src is None) == (dst is None):
        raise typer.BadParameter("Give either --src or --dst.")
    from pagelink.models.commands import recommend as best

    checkpoint = load(graph, model)
    src_type, relation, dst_type = checkpoint.link_type
    found = best(checkpoint, src, k, dst=dst, known=known)
    if dst is None:
        console.print(f"Best new targets of {src!r} ({relation} {dst_type}):")
    else:
        console.print(f"Best new sources of {dst!r} ({src_type} {relation}):")
    from pagelink.views.text import percent

    console.print("Rank  Score")
    for node in found:
        console.print(f"{node.rank:3d}.  {node.logit:5.2f}  {node.name}")
    shares = [node.held_out_share for node in found if node.held_out_share is not None]
    if shares:
        each = ", ".join(percent(each.share) for each in shares)
        like = {"rank": "ranks", "score": "scores"}[shares[0].by]
        console.print(
            f"Share of predictions of these {like} that were held-out links (a lower bound: not "
            f"every true link is known): {each}."
        )


app.command()(explain)
app.command()(report)
app.command()(audit)


@app.command()
def serve(
    graph: Annotated[
        Path | None, typer.Argument(help="Folder of tables, a file of triples, or a store.")
    ] = None,
    model: MaybeModel = None,
    demo: Demo = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Annotated[
        str | None, typer.Option(help="Who opens the page with ?token=... is let in, nobody else.")
    ] = None,
    open: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
    threshold: Threshold = 0.0,
    rank_only: RankOnly = False,
    known: Known = None,
    deadline: Annotated[
        float, typer.Option(help="Seconds an explanation may take; what is found is shown.")
    ] = 60.0,
    per_address: PerAddress = 128,
    seed: Seed = 0,
) -> None:
    """Explore predictions and their explanations on a local web page.

    pagelink serve tables --model model.pt
    """
    check_demo(graph, model, demo)
    if not deadline > 0:
        raise typer.BadParameter(f"--deadline is more than 0 seconds, got {deadline:g}.")
    need("pagelink serve", "web", "fastapi", "uvicorn")
    from pagelink.web.connections import Limits
    from pagelink.web.serving import address_of, check_binding, listen
    from pagelink.web.serving import serve as run

    check_binding(host, token)
    listening = listen(host, port)  # before the work that a taken port would waste
    checkpoint = load_or_demo(graph, model, seed)
    taken = checkpoint.known(known)
    from pagelink.explain.explainer import PaGELink
    from pagelink.web.app import make_app
    from pagelink.web.explorer import Explorer

    explainer = PaGELink(
        checkpoint.model, checkpoint.source, checkpoint.link_type, seed=seed,
        threshold=None if rank_only else threshold, held_out=checkpoint.held_out,
        known=taken,
    )  # fmt: skip
    from pagelink.datasets.demo import TITLE, strong_examples

    # A large graph has its examples from the few links that are explained in this time.
    seconds = None if graph is None else _SECONDS_FOR_EXAMPLES
    found = strong_examples(explainer, checkpoint.split.test, seconds=seconds)
    title, examples = TITLE, [(each.src[1], each.dst[1]) for each in found]
    if graph is not None:
        title = graph.resolve().name
    name, auc = type(checkpoint.model).__name__, checkpoint.report.test_auc
    explorer = Explorer(
        explainer, checkpoint.split.all, checkpoint.score, taken=taken, title=title,
        model=f"{name}, test ROC-AUC {auc:.3f}", deadline=deadline, examples=examples,
    )  # fmt: skip
    address = address_of(listening, token)

    def started() -> None:
        console.print(f"Explore at {address} (stop with Ctrl+C)")
        if open:
            typer.launch(address)

    limits = Limits(per_address=per_address)
    run(make_app(explorer, token=token), listening, started, limits)


app.command()(store)


@app.command()
def check(
    graph: Graph,
    model: Model,
    links: Annotated[int, typer.Option(min=1, help="Test links to explain.")] = 50,
    retrain: Annotated[
        bool, typer.Option(help="Also train a model on links paired at random, to compare with.")
    ] = True,
    json: Annotated[Path | None, output("Write all figures as JSON.")] = None,
    seed: Seed = 0,
) -> None:
    """Check whether explanations of a model are true of it, and say so in words.

    pagelink check tables --model model.pt
    """
    from pagelink.checks.report import check_and_print

    with writing(json, graph, model):
        check_and_print(load(graph, model), links, seed, retrain, json, console)


def _link_type(given: str, graph: Path) -> tuple[str, str, str]:
    parts = tuple(part.strip() for part in given.split(","))
    if len(parts) != 3:
        from pagelink.graph.schema import no_relation
        from pagelink.tables.load import load_graph

        near = no_relation(given, load_graph(graph).edge_types)
        raise typer.BadParameter(f"--link is source type,relation,target type. {near}")
    return parts[0], parts[1], parts[2]


def _say_interrupted() -> NoReturn:
    errors.print("interrupted (tables of links and benchmarks go on where they stopped)")
    # Interrupted within an `exec` of a text, as dataclasses do it, Python would end by the signal
    # whatever we say, unless another one follows.
    exec("")
    sys.exit(1)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an error came up while an interruption was on its way."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _was_interrupted(error.__context__)
    )


def main() -> None:
    """Run the command line; errors made on purpose become one line and exit code 1."""
    # Asked to end, a command ends as by Ctrl-C: its workers, locks and temporary files go with it.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
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
        errors.print(Text.assemble(("error:", "bold red"), f" {words}"))
        sys.exit(2 if isinstance(error, SettingsError) else 1)
    except Exception as error:
        # Interrupted while a library was imported half, say, cleaning up fails in some other way.
        if not _debug and _was_interrupted(error):
            _say_interrupted()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
