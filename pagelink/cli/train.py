"""`pagelink train` and `pagelink recommend`: a model for a graph, and its best new links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagelink.cli.common import (
    Device,
    Graph,
    Known,
    Many,
    Model,
    Names,
    Phrases,
    Relation,
    Seed,
    console,
    load,
    names_relations,
    output,
    repeatable,
    words_of,
    writing,
)

if TYPE_CHECKING:
    from pagelink.models.commands import Recommendation
    from pagelink.tables.words import Words


def train(
    graph: Graph,
    link: Annotated[
        list[str],
        repeatable(
            "Relation to predict, as user,likes,movie or likes; all, or several, for one model.",
            "RELATION",
        ),
    ],
    out: Annotated[Path, output("Checkpoint to write.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="rgcn, sage, hgt, or nbf, which reads the walks between a pair, and no features. "
            "For several relations: compgcn, rgcn or nbf. Default: rgcn, for several compgcn."
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help="dot, cosine or mlp; for several relations distmult, complex or rotate; not for "
            "nbf. Default: dot, distmult."
        ),
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
    device: Device = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="For several relations: CPU minutes after which training ends."),
    ] = None,
    figures: Annotated[
        Path | None,
        output("For several relations: write MRR and Hits@k of each, CSV or Parquet."),
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

    With --link all, one model for all relations is trained, and tested by filtered ranks.
    """
    if link == ["all"] or len(link) > 1:
        refused = {
            "--paper-split": paper_split, "--known": known, "--figure": figure, "--device": device,
        }  # fmt: skip
        for name, value in refused.items():
            if value is not None:
                raise typer.BadParameter(f"{name} is for a model of one relation.")
        _train_all(
            graph, [] if link == ["all"] else link, out, model, seed,
            {"head": head, "hidden": hidden, "num_layers": layers, "embeddings": embeddings},
            {"epochs": epochs, "lr": lr, "batch_size": batch_size, "minutes": minutes}, figures,
        )  # fmt: skip
        return
    if minutes is not None or figures is not None:
        raise typer.BadParameter("--minutes and --figures are for a model of several relations.")
    from pagelink.models.architectures import model_options
    from pagelink.models.commands import train_and_save

    given = {
        "epochs": epochs, "lr": lr, "batch_size": batch_size, "paper_split": paper_split,
        "known": None if known is None else tuple(known),
    }  # fmt: skip
    options = {"head": head, "hidden": hidden, "num_layers": layers, "embeddings": embeddings}
    options = {key: value for key, value in options.items() if value is not None}
    model = model or "rgcn"
    _refuse_options(model, options, model_options(model))
    with writing(out, graph), writing(figure, graph):
        train_and_save(
            graph, _link_type(link[0], graph), out, model=model, seed=seed, console=console,
            options=options,
            settings={key: value for key, value in given.items() if value is not None},
            figure=figure, device=device,
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


def _train_all(
    graph: Path,
    named: list[str],
    out: Path,
    model: str | None,
    seed: int,
    options: dict[str, Any],
    settings: dict[str, Any],
    figures: Path | None,
) -> None:
    from pagelink.models.knowledge.commands import train_all_and_save

    with writing(out, graph), writing(figures, graph):
        train_all_and_save(
            graph, named, out, model=model, seed=seed, console=console,
            options={key: value for key, value in options.items() if value is not None},
            settings={key: value for key, value in settings.items() if value is not None},
            figures=figures,
        )  # fmt: skip


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
    many: Annotated[
        Path | None,
        typer.Option(
            "--links",
            help="Table of nodes, in a column src (or dst, to list sources), and of relations, in "
            "a column relation; with --out.",
        ),
    ] = None,
    out: Annotated[Path | None, output("With --links: table to write, CSV or Parquet.")] = None,
    known: Known = None,
    link: Relation = None,
    names: Names = None,
    relations: Phrases = None,
) -> None:
    """List the best new targets of a source node, or the best new sources of a target.

    pagelink recommend tables --model model.pt --src "User 3"

    Of a model for several relations, --link says which: --src asks for (source, relation, ?), --dst
    for (?, relation, target).
    """
    if sum(each is not None for each in (src, dst, many)) != 1:
        raise typer.BadParameter("Give one of --src, --dst and --links.")
    if (many is None) != (out is None):
        raise typer.BadParameter("--links and --out go together.")
    words = words_of(names, relations)
    if many is not None and out is not None:
        _recommend_many(graph, model, many, out, k, known, words, link)
        return
    from pagelink.models.commands import recommend as best

    checkpoint = load(graph, model, words, link)
    src_type, relation, dst_type = checkpoint.link_type
    relation = checkpoint.graph.phrase(checkpoint.link_type) or relation
    found = best(checkpoint, src, k, dst=dst, known=known)
    if dst is None:
        console.print(f"Best new targets of {src!r} ({relation} {dst_type}):")
    else:
        console.print(f"Best new sources of {dst!r} ({src_type} {relation}):")
    console.print("Rank  Score")
    digits = _digits([node.logit for node in found])
    for node in found:
        console.print(f"{node.rank:3d}.  {node.logit:5.{digits}f}  {node.name}")
    for line in _held_out(found):
        console.print(line)


def _digits(scores: Sequence[float]) -> int:
    """Return how many digits, two to six, tell all scores apart that differ."""
    different = len(set(scores))
    enough = (n for n in range(2, 6) if len({f"{score:.{n}f}" for score in scores}) == different)
    return next(enough, 6)


def _held_out(found: Sequence[Recommendation]) -> Iterator[str]:
    """Say which share of such predictions were held-out links, once for ranks that are alike."""
    from pagelink.views.text import percent

    shares = [(node.rank, node.held_out_share) for node in found if node.held_out_share is not None]
    if not shares:
        return
    like = {"rank": "ranks", "score": "scores"}[shares[0][1].by]
    said = []
    for share, alike in groupby(shares, key=lambda each: percent(each[1].share)):
        ranks = [rank for rank, _ in alike]
        ends = f" {ranks[0]}" if ranks[0] == ranks[-1] else f"s {ranks[0]} to {ranks[-1]}"
        said.append(f"{share} (rank{ends})")
    yield (
        f"Share of predictions of these {like} that were held-out links (a lower bound: not every "
        f"true link is known): {', '.join(said)}."
    )


def _recommend_many(
    graph: Path,
    model: Path,
    many: Path,
    out: Path,
    k: int,
    known: Many,
    words: Words,
    link: str | None,
) -> None:
    from pagelink.models.knowledge.commands import recommend_many, recommendation_table
    from pagelink.tables.link_tables import read_nodes, write_rows

    with writing(out, graph, model, many):
        end, nodes = read_nodes(many)
        checkpoint = load(graph, model, words, link, by_row=names_relations(many))
        found = recommend_many(checkpoint, nodes, k, end=end, known=known)
        table = recommendation_table(found)
        write_rows(out, table)
    failed = table.num_rows - table["error"].null_count
    faults = f", {failed:,} of an error" if failed else ""
    console.print(f"{len(nodes):,} nodes, {table.num_rows:,} rows{faults}: {out}")


def _link_type(given: str, graph: Path) -> tuple[str, str, str]:
    """Return the relation that is named in full, or by its middle part where that is clear."""
    parts = tuple(part.strip() for part in given.split(","))
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    from pagelink.graph.schema import no_relation, relations_called, several_relations
    from pagelink.tables.load import load_graph

    known = load_graph(graph).edge_types
    found = relations_called(given, known)
    if len(found) == 1:
        return found[0]
    raise typer.BadParameter(
        several_relations(f"--link {given}", found)
        if found
        else f"--link is source type,relation,target type. {no_relation(given, known)}"
    )
