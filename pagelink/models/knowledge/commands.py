"""What `pagelink train --link all` does, and answers of trained models for many nodes at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch_geometric.data import HeteroData

from pagelink.errors import LinkError, ModelError, did_you_mean
from pagelink.graph.schema import EdgeType
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.commands import Recommendation, recommend
from pagelink.models.knowledge.checkpoint import of_relation, save_knowledge
from pagelink.models.knowledge.encoders import LAYERS
from pagelink.models.knowledge.facts import relations_to_predict, split_relations, training_graph
from pagelink.models.knowledge.model import EncoderModel, KnowledgeModel
from pagelink.models.knowledge.ranking import HITS, TestRanks
from pagelink.models.knowledge.training import (
    KnowledgeEpoch,
    KnowledgeReport,
    KnowledgeSettings,
    train_knowledge,
)
from pagelink.models.knowledge.walks import WalkModel
from pagelink.tables.link_tables import write_rows
from pagelink.tables.load import load_graph

WALKS = "nbf"
DEFAULT_MODEL = "compgcn"
OF_WALKS = {"batch_size": 8, "queries": 512, "lr": 0.005, "valid_links": 100, "test_links": 500}
"""Every query costs a pass over the graph: fewer of them, and a smaller sample to validate on."""


def make_knowledge_model(
    name: str, data: HeteroData, link_types: Sequence[EdgeType], **options: Any
) -> KnowledgeModel:
    """Return an untrained model for several relations of a graph.

    Args:
        name: `rgcn`, `compgcn`, or `nbf`, which has no embeddings and reads the walks between a
            pair.
        data: the graph that messages pass on.
        link_types: the relations to predict.
        options: further arguments of `EncoderModel` or `WalkModel`.

    Raises:
        ModelError: there is no such model, or it has no such argument.
    """
    names = [*LAYERS, WALKS]
    if name not in names:
        raise ModelError(
            f"A model for several relations is one of {', '.join(names)}, got {name!r}."
            + did_you_mean(name, names)
        )
    kind: type[EncoderModel] | type[WalkModel] = WalkModel if name == WALKS else EncoderModel
    own = {} if name == WALKS else {"encoder": name}
    try:
        return kind.for_data(data, link_types, **own, **options)
    except TypeError as error:
        raise ModelError(f"The model {name} does not take all of {sorted(options)}.") from error


def train_all_and_save(
    graph: Path,
    named: Sequence[str],
    out: Path,
    *,
    model: str | None,
    seed: int,
    console: Console,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    figures: Path | None = None,
) -> KnowledgeReport:
    """Train one model for several relations, print how it does, and write it to a file.

    `named` are the relations; none: all of them. `figures` is a table to write, of each relation.
    """
    whole = load_graph(graph)
    link_types = relations_to_predict(whole, named)
    splits = split_relations(graph, whole, link_types, seed)
    data = training_graph(whole, splits)
    name = model or DEFAULT_MODEL
    chosen = KnowledgeSettings(**{**(OF_WALKS if name == WALKS else {}), **settings})
    predictor = make_knowledge_model(name, data, link_types, seed=seed, **options)
    counts = [sum(s.parts[part].shape[1] for s in splits.values())
              for part in ("train", "valid", "test")]  # fmt: skip
    console.print(
        f"{len(link_types):,} relations; {counts[0]:,} links to train on, {counts[1]:,} to "
        f"validate, {counts[2]:,} to test."
    )
    with _bar(console, chosen.epochs) as step:
        report = train_knowledge(predictor, data, splits, chosen, seed=seed, progress=step)
    console.print(str(report), markup=False)
    save_knowledge(out, predictor, whole, splits, report, chosen)
    console.print(f"Wrote {out}", markup=False)
    if figures is not None:
        write_rows(figures, relation_table(report.test))
        console.print(f"Wrote {figures}", markup=False)
    return report


def relation_table(test: TestRanks) -> pa.Table:
    """Return the filtered figures of each relation with test links, both ends, most links first."""
    rows = [
        {"src_type": t[0], "relation": t[1], "dst_type": t[2], "links": each.num_queries // 2,
         "mrr": each.mrr, "mrr_error": each.spread,
         **{f"hits_at_{k}": share for k, share in zip(HITS, each.hits, strict=True)}}
        for t, each in test.relations
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


@contextmanager
def _bar(console: Console, epochs: int) -> Iterator[Callable[[KnowledgeEpoch], None]]:
    with Progress(
        TextColumn("training"), BarColumn(), TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(), console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("training", total=epochs, figures="")

        def step(epoch: KnowledgeEpoch) -> None:
            figures = f"loss {epoch.loss:.3f}, validation MRR {epoch.valid_mrr:.3f}"
            bar.update(task, completed=epoch.number, figures=figures)

        yield step


class Answer(NamedTuple):
    """What was found for one node."""

    node: str | int
    relation: str
    """Of the links that were sought."""
    found: list[Recommendation] | LinkError
    """The error: there is no such node, or no such relation."""


def recommend_many(
    checkpoint: Checkpoint,
    nodes: Sequence[str | int | tuple[str | int, str | None]],
    k: int = 10,
    *,
    end: str = "src",
    **options: Any,
) -> Iterator[Answer]:
    """Yield recommendations for many nodes; the graph is embedded once, whatever the relations.

    Args:
        checkpoint: the trained model with its graph.
        nodes: sources whose targets are sought, by name, id or index; or targets. Of a model for
            several relations, each may be given with the relation that is meant.
        k: the number of recommendations for each.
        end: what `nodes` are, `src` or `dst`.
        options: further arguments of `recommend`.
    """
    views: dict[str | None, Checkpoint] = {}
    for each in nodes:
        node, named = each if isinstance(each, tuple) else (each, None)
        ends: dict[str, Any] = {end: node}
        try:
            if named not in views:
                views[named] = of_relation(checkpoint, named)
            relation = views[named].link_type[1]
            yield Answer(node, relation, recommend(views[named], k=k, **ends, **options))
        except LinkError as error:
            yield Answer(node, named or "", error)


def recommendation_table(answers: Iterator[Answer]) -> pa.Table:
    """Return recommendations for many nodes as a table, a row for each; errors in a column."""
    rows = []
    for node, relation, found in answers:
        asked = {"node": str(node), "relation": relation}
        if isinstance(found, LinkError):
            rows.append({**asked, "error": str(found)})
            continue
        rows += [{**asked, **dataclasses.asdict(each)} for each in found]
    columns = [("node", pa.string()), ("relation", pa.string()), ("rank", pa.int64()),
               ("name", pa.string()), ("id", pa.string()), ("index", pa.int64()),
               ("logit", pa.float64()), ("error", pa.string())]  # fmt: skip
    names = [name for name, _ in columns]
    kept = [{key: row[key] for key in names if key in row} for row in rows]
    return pa.Table.from_pylist(kept, schema=pa.schema(columns))
