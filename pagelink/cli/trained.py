"""`pagelink explain-trained`: links of a model without messages, as PyKEEN saves it."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagelink.cli.common import (
    Seed,
    check_target,
    console,
    one_thread,
    output,
    progress_bar,
    say_written,
    write_files,
)
from pagelink.cli.link_tables import ALL_FAILED, SOME_FAILED

if TYPE_CHECKING:
    from pagelink.trained.explainer import TrainedExplainer

AT_ONCE = 16
"""Links of a table whose rows are in memory at once."""


def explain_trained(
    folder: Annotated[
        Path,
        typer.Argument(
            help="What result.save_to_directory of PyKEEN wrote. Its model is unpickled, which may "
            "run any code: only open what you trust."
        ),
    ],
    src: Annotated[str | None, typer.Option(help="Head of the link, by name or id.")] = None,
    link: Annotated[str | None, typer.Option(help="Its relation.")] = None,
    dst: Annotated[str | None, typer.Option(help="Its tail.")] = None,
    links: Annotated[
        Path | None,
        typer.Option(help="Table of links (src, dst, link_type), instead of --src and --dst."),
    ] = None,
    out: Annotated[
        Path | None, output("With --links: result, .parquet, .csv, .tsv or .jsonl.")
    ] = None,
    html: Annotated[Path | None, output("Write a web page.")] = None,
    svg: Annotated[Path | None, output("Write a drawing.")] = None,
    json: Annotated[Path | None, output("Write all figures as JSON.")] = None,
    paths: Annotated[int | None, typer.Option(help="Maximum number of paths.")] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Maximum number of facts of a path.")
    ] = None,
    starts: Annotated[
        int, typer.Option(min=5, help="Random starts that an effect is the mean of.")
    ] = 5,
    ends_only: Annotated[
        bool, typer.Option("--ends-only", help="Train only source and target anew, as Kelpie does.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Explain links of a model without messages by the facts that it was trained on.

    pagelink explain-trained saved --src brazil --link accusation --dst uk

    Of a table, the exit code is 1 if every link failed, and 3 if some did.
    """
    is_table = links is not None
    wrong = {
        "Give either --src, --link and --dst, or --links.":
            any((each is None) != is_table for each in (src, link, dst)),
        "--links and --out go together.": is_table != (out is not None),
        "--html, --svg and --json go with --src and --dst.": is_table and any((html, svg, json)),
    }  # fmt: skip
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise typer.BadParameter(message)
    if out is not None:
        from pagelink.views.rows import is_one_file

        check_target(out, links)
        if not is_one_file(out):
            raise typer.BadParameter(f"--out {out} is a folder; give the name of a file.")
    explainer = _explainer(folder, paths, max_length, starts, ends_only, seed)
    if links is not None and out is not None:
        _explain_table(explainer, links, out)
        return
    explanation = explainer.explain(src or "", dst or "", link)
    console.print(str(explanation))
    values = {} if json is None else explanation.to_dict()
    say_written(
        write_files(
            (html, explanation.to_html),
            (svg, explanation.to_svg),
            (json, lambda: dumps(values, ensure_ascii=False, indent=1)),
        )
    )


def _explainer(
    folder: Path, paths: int | None, max_length: int | None, starts: int, ends_only: bool, seed: int
) -> TrainedExplainer:
    from pagelink.trained.explainer import DEFAULT, TrainedExplainer
    from pagelink.trained.saved import load_pykeen
    from pagelink.trained.training import Training

    given = {"num_paths": paths, "max_length": max_length}
    settings = DEFAULT.replace(**{k: v for k, v in given.items() if v is not None})
    one_thread()  # matrices are small, a second thread only costs
    model, triples = load_pykeen(folder)
    return TrainedExplainer(
        model, triples, settings=settings, seed=seed, training=Training(starts=starts),
        ends_only=ends_only,
    )  # fmt: skip


def _explain_table(explainer: TrainedExplainer, links: Path, out: Path) -> None:
    from pagelink.tables.link_tables import read_links
    from pagelink.views.rows import to_rows, to_table, write_rows

    given = read_links(links)
    failed = 0
    # A link of the table is source, target and relation; one of the model has the relation inside.
    asked: list[Any] = [(row.link[0], row.link[2], row.link[1]) if len(row.link) == 3 else row.link
             for row in given]  # fmt: skip

    def rows() -> Iterator[Any]:
        nonlocal failed
        with progress_bar("explaining") as step:
            told: list[dict[str, Any]] = []
            answers = explainer.explain_many(asked, batch_size=AT_ONCE)
            for number, (row, answer) in enumerate(zip(given, answers, strict=True), start=1):
                failed += answer.reason == "invalid"
                told += to_rows(answer, row.line)
                step(number, len(given))
                if number % AT_ONCE == 0 or number == len(given):
                    yield to_table(told)
                    told = []

    write_rows(rows(), out)
    say_written([out])
    if failed:
        console.print(f"{failed} of {len(given)} links failed; the column message says why.")
        raise typer.Exit(ALL_FAILED if failed == len(given) else SOME_FAILED)
