"""What `pagelink train` does: split, train with a progress bar, report, write the checkpoint."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pagelink.graph import EdgeType
from pagelink.models.checkpoint import save_checkpoint
from pagelink.models.links import split_graph
from pagelink.models.registry import make_model
from pagelink.models.report import Epoch, TrainReport
from pagelink.models.train_settings import TrainSettings
from pagelink.models.training import train
from pagelink.tables import load_graph

DATASET_FILE = "extra-dataset.json"
"""In a folder that `pagelink dataset` made: says how the data set is meant to be split."""


def train_and_save(
    graph: Path,
    link_type: EdgeType,
    out: Path,
    *,
    model: str,
    seed: int,
    console: Console,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> TrainReport:
    """Train a model on a graph, print how it does, and write it to a file."""
    data = load_graph(graph)
    chosen = TrainSettings.paper() if _is_paper_data(graph) else TrainSettings()
    if settings.get("paper_split", chosen.paper_split) != chosen.paper_split:
        chosen = TrainSettings.paper() if settings["paper_split"] else TrainSettings()
    chosen = dataclasses.replace(chosen, **settings)
    split = split_graph(data, link_type, seed)
    predictor = make_model(
        model, data, link_type, paper_split=chosen.paper_split, seed=seed, **options
    )
    console.print(
        f"{split.train.shape[1]} links to train on, {split.valid.shape[1]} to validate, "
        f"{split.test.shape[1]} to test."
    )
    with training_bar(console, chosen.epochs) as step:
        report = train(predictor, data, link_type, split, chosen, seed=seed, progress=step)
    console.print(str(report), markup=False)
    save_checkpoint(out, predictor, data, link_type, split, report, chosen)
    console.print(f"Wrote {out}", markup=False)
    return report


@contextmanager
def training_bar(console: Console, epochs: int) -> Iterator[Callable[[Epoch], None]]:
    """A progress bar with loss and AUC."""
    with Progress(
        TextColumn("training"), BarColumn(), TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(), console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("training", total=epochs, figures="")

        def step(epoch: Epoch) -> None:
            figures = f"loss {epoch.loss:.3f}, validation AUC {epoch.valid_auc:.3f}"
            bar.update(task, completed=epoch.number, figures=figures)

        yield step


def _is_paper_data(graph: Path) -> bool:
    file = graph / DATASET_FILE
    return file.is_file() and bool(json.loads(file.read_text("utf-8")).get("paper_split"))
