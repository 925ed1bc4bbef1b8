"""The command line: it parses and prints, nothing else. Heavy imports wait until a command runs.

Groups and longer commands have their own files; the short ones are here.
"""

from __future__ import annotations

import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

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
    Names,
    PerAddress,
    Phrases,
    Port,
    RankOnly,
    Relation,
    Seed,
    Threshold,
    check_demo,
    console,
    errors,
    load,
    load_or_demo,
    one_thread,
    output,
    words_of,
    writing,
)
from pagelink.cli.dataset import dataset
from pagelink.cli.explain import explain
from pagelink.cli.link_tables import report
from pagelink.cli.store import store
from pagelink.cli.study import study
from pagelink.cli.train import recommend, train
from pagelink.cli.trained import explain_trained
from pagelink.errors import PageLinkError, SettingsError, need
from pagelink.runtime.files import locked

if TYPE_CHECKING:
    from pagelink.models.checkpoint import Checkpoint

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
def describe(
    graph: Graph,
    names: Names = None,
    relations: Phrases = None,
    every: Annotated[
        bool, typer.Option("--all", help="List all relations, not only the largest.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Say what is in a graph: nodes, relations, degrees, hubs, neighbourhoods.

    pagelink describe tables
    """
    from pagelink.checks.description import describe as describe_graph
    from pagelink.models.commands import held_out_counts
    from pagelink.tables.load import load_graph

    data = load_graph(graph, words=words_of(names, relations))
    print(describe_graph(data, seed=seed).text(every=every))
    for line in held_out_counts(graph, data):
        print(line)


app.command()(train)
app.command()(recommend)
app.command()(explain)
app.command("explain-trained")(explain_trained)
app.command()(report)
app.command()(audit)


def _in_words(checkpoint: Checkpoint, file: Path | None) -> str:
    about = f"{type(checkpoint.model).__name__}, {checkpoint.report.headline}"
    return about if file is None else f"{file.name}: {about}"


@app.command()
def serve(
    graph: Annotated[
        Path | None, typer.Argument(help="Folder of tables, a file of triples, or a store.")
    ] = None,
    model: MaybeModel = None,
    demo: Demo = False,
    compare_model: Annotated[
        Path | None, typer.Option(help="Another model of the same links, to compare with.")
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="An audit of the model, written by `pagelink audit --json`.")
    ] = None,
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
    link: Relation = None,
    names: Names = None,
    relations: Phrases = None,
    seed: Seed = 0,
) -> None:
    """Explore predictions and their explanations on a local web page.

    pagelink serve tables --model model.pt
    """
    check_demo(graph, model, demo)
    if demo and (compare_model is not None or audit is not None):
        raise typer.BadParameter("--compare-model and --audit go with a graph and --model.")
    if not deadline > 0:
        raise typer.BadParameter(f"--deadline is more than 0 seconds, got {deadline:g}.")
    need("pagelink serve", "web", "fastapi", "uvicorn")
    from pagelink.web.connections import Limits
    from pagelink.web.serving import address_of, check_binding, listen
    from pagelink.web.serving import serve as run

    check_binding(host, token)
    listening = listen(host, port)  # before the work that a taken port would waste
    from pagelink.audit.result import Audit

    told = None if audit is None else Audit.read(audit)
    checkpoint = load_or_demo(graph, model, seed, words_of(names, relations), link)
    taken = checkpoint.known(known)
    from pagelink.explain.explainer import PaGELink
    from pagelink.web.app import make_app
    from pagelink.web.explorer import Explorer

    def explainer_of(opened: Checkpoint) -> PaGELink:
        return PaGELink(
            opened.model, opened.source, opened.link_type, seed=seed,
            threshold=opened.model.threshold(None if rank_only else threshold),
            held_out=opened.held_out, known=taken,
        )  # fmt: skip

    explainer, others = explainer_of(checkpoint), {}
    if compare_model is not None and graph is not None:
        other = load(graph, compare_model, words_of(names, relations), link)
        others[_in_words(other, compare_model)] = explainer_of(other)
    from pagelink.audit.sampling import predicted_links
    from pagelink.datasets.demo import TITLE, strong_examples

    # A large graph has its examples from the few links that are explained in this time.
    seconds = None if graph is None else _SECONDS_FOR_EXAMPLES
    found = strong_examples(explainer, checkpoint.split.test, seconds=seconds)
    title, examples = TITLE, [(each.src[1], each.dst[1]) for each in found]
    if graph is not None:
        title = graph.resolve().name
    explorer = Explorer(
        explainer, checkpoint.split.all, checkpoint.score, taken=taken, title=title,
        model=_in_words(checkpoint, model), deadline=deadline, examples=examples, others=others,
        audit=told,
        sample=partial(predicted_links, checkpoint, threshold=explainer.threshold, seed=seed),
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
        checkpoint = load(graph, model)
        if checkpoint.model.ranks_only:
            raise SettingsError(
                "pagelink check is for models of one relation: it trains them again. Train one by "
                "--link source type,relation,target type."
            )
        check_and_print(checkpoint, links, seed, retrain, json, console)


def _say_interrupted() -> NoReturn:
    errors.print("interrupted (tables of links, audits and benchmarks go on where they stopped)")
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
