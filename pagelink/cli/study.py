"""`pagelink study`: the blind human study, from its questions to its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pagelink.cli.common import (
    Demo,
    Host,
    MaybeModel,
    PerAddress,
    Port,
    Seed,
    check_demo,
    check_target,
    console,
    load_or_demo,
    output,
    progress_bar,
    say_written,
    write_files,
    writing,
)
from pagelink.errors import need

File = Annotated[Path, typer.Argument(help="A study that `pagelink study create` made.")]

study = typer.Typer(help="The blind human study.", no_args_is_help=True)


@study.command()
def create(
    out: Annotated[Path, output("File to make; one that exists is never overwritten.")],
    graph: Annotated[
        Path | None, typer.Argument(help="Folder of tables, or a file of triples.")
    ] = None,
    model: MaybeModel = None,
    explainers: Annotated[
        str, typer.Option(help="Explainers to compare, with commas.")
    ] = "pagelink,gnnexp,pgexp,degree,random",
    links: Annotated[int, typer.Option(min=1, help="Predicted links to ask about.")] = 100,
    forecasts: Annotated[
        int | None, typer.Option(min=0, help="Forecast questions. Default: one for each link.")
    ] = None,
    budget: Annotated[int, typer.Option(help="Maximum number of facts of an explanation.")] = 9,
    per_person: Annotated[
        int, typer.Option(min=1, help="Maximum number of questions for one person.")
    ] = 20,
    difference: Annotated[
        float, typer.Option(help="Difference of shares that the study is to tell.")
    ] = 0.1,
    demo: Demo = False,
    seed: Seed = 0,
) -> None:
    """Pick predicted links, explain each by every explainer, and freeze the questions.

    pagelink study create tables --model model.pt --out movies.study
    """
    check_demo(graph, model, demo)
    if not 0 < difference < 1:
        raise typer.BadParameter(f"--difference is between 0 and 1, got {difference:g}.")
    from pagelink.study.create import Plan, lines_about
    from pagelink.study.create import create as make
    from pagelink.study.explaining import explainer_names
    from pagelink.study.storage import refuse_existing

    plan = Plan(explainer_names(explainers), links, forecasts, budget, per_person, seed=seed)
    with writing(out, graph, model):
        refuse_existing(out)
        made = make(load_or_demo(graph, model, seed), out, plan, progress_bar)
    for line in lines_about(made, plan, difference):
        console.print(line)


@study.command()
def invite(
    file: File,
    count: Annotated[int, typer.Option(min=1, max=10_000, help="How many people.")] = 20,
    address: Annotated[
        str, typer.Option(help="Where `pagelink study serve` can be reached.")
    ] = "http://127.0.0.1:8001",
) -> None:
    """Print a personal link for each of a number of people.

    pagelink study invite movies.study --count 20
    """
    from pagelink.study.database import Study

    if not address.startswith(("http://", "https://")):
        raise typer.BadParameter(f"--address starts with http:// or https://, got {address!r}.")
    with Study.open(file) as opened:
        for _ in range(count):
            print(f"{address.rstrip('/')}/p/{opened.join()}")


@study.command()
def serve(
    file: File,
    host: Host = "127.0.0.1",
    port: Port = 8001,
    token: Annotated[
        str | None,
        typer.Option(
            help="Only who has this token can join by the first page. Personal links, as of "
            "`pagelink study invite`, work without it: their keys cannot be guessed."
        ),
    ] = None,
    per_address: PerAddress = 128,
) -> None:
    """Ask the questions on web pages, one per page, until interrupted.

    pagelink study serve movies.study
    """
    need("pagelink study serve", "study", "fastapi", "uvicorn")
    from pagelink.study.app import WAIT, application
    from pagelink.study.database import Study
    from pagelink.web import serving
    from pagelink.web.connections import Limits
    from pagelink.web.serving import check_binding

    check_binding(host, token)
    with Study.open(file, wait=WAIT) as opened:
        taken = serving.listen(host, port)
        address = serving.address_of(taken, token)

        def started() -> None:
            console.print(f"The study is at {address}")
            console.print("Stop it by Ctrl-C; no answer is lost.")

        limits = Limits(per_address=per_address)
        serving.serve(application(opened, token), taken, started, limits)


@study.command()
def report(
    file: File,
    json: Annotated[Path | None, output("Write all figures as JSON.")] = None,
    html: Annotated[Path | None, output("Write a page with plots.")] = None,
    csv: Annotated[Path | None, output("Write the raw data, a row per answer.")] = None,
    seed: Seed = 0,
) -> None:
    """Say what people chose and understood, how sure that is, and whether they agree.

    pagelink study report movies.study --html report.html
    """
    need("pagelink study report", "study", "nltk", "scipy")
    from json import dumps

    from pagelink.study.database import Study, read_records
    from pagelink.study.report import make_report
    from pagelink.study.report_views import print_report, to_csv, to_html

    for target in (json, html, csv):
        check_target(target, file)
    with Study.open(file) as opened:
        made = make_report(opened, seed)
        answers = read_records(opened).answers
    # Files first: they are there, too, if whoever reads the text stops early.
    written = write_files(
        (json, lambda: dumps(made.to_dict(), indent=2) + "\n"),
        (html, lambda: to_html(made)),
        (csv, lambda: to_csv(answers)),
    )
    print_report(made, console)
    say_written(written)


@study.command()
def simulate(
    file: File,
    out: Annotated[Path, output("File to make: the questions, answered.")],
    people: Annotated[int, typer.Option(min=1, help="How many people.")] = 30,
    like: Annotated[
        str, typer.Option(help="How likely each is chosen: pagelink=0.6,degree=0.2,none=0.2.")
    ] = "none=1",
    understanding: Annotated[
        str, typer.Option(help="How likely a forecast is right: without=0.4,with=0.6.")
    ] = "",
    agree: Annotated[
        float, typer.Option(help="How likely people do the same as others, 0 to 1.")
    ] = 0.0,
    seed: Seed = 0,
) -> None:
    """Let people of known behaviour fill in a copy, to plan a study. Answers are not copied.

    pagelink study simulate movies.study --out answered.study --people 30
    """
    from pagelink.study.simulate import Behaviour, parse_probabilities, simulate_copy

    behaviour = Behaviour(
        parse_probabilities(like, "--like"), parse_probabilities(understanding, "--understanding"),
        agree,
    )  # fmt: skip
    with writing(out, file):
        simulate_copy(file, out, people, behaviour, seed)
    console.print(f"Wrote {out}: {people} simulated people.")
