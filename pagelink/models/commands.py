"""What `pagelink train` and `pagelink recommend` do.

Training: split, train with a progress bar, report, write the checkpoint. Recommendations: the
targets that a trained model links to a source with the highest logits.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pagelink.errors import SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.models.architectures import make_model
from pagelink.models.checkpoint import Checkpoint, save_checkpoint
from pagelink.models.links import Negatives, split_graph
from pagelink.models.training import Epoch, TrainReport, TrainSettings, train
from pagelink.tables.load import load_graph

_TARGETS_AT_ONCE = 100_000


@dataclass(frozen=True)
class Recommendation:
    """A target for a source."""

    index: int
    """Its index within the target's node type."""
    name: str
    logit: float
    probability: float


def recommend(
    checkpoint: Checkpoint, src: int | str, k: int = 10, *, exclude_known: bool = True
) -> list[Recommendation]:
    """Return the targets with the highest logits for a source, best first.

    Of targets with the same logit the one with the lower index comes first. The source itself is
    never among them.

    Args:
        checkpoint: the trained model with its graph.
        src: the source, by index or name.
        k: the number of targets, 1 or more; fewer come back if there are no more.
        exclude_known: leave out the known links of the source: those of training, validation and
            test.

    Raises:
        LinkError: there is no such source.
        SettingsError: k is less than 1.
    """
    if k < 1:
        raise SettingsError(f"k must be at least 1, got {k}.")
    src_type, _, dst_type = checkpoint.link_type
    graph = checkpoint.graph
    _, source = graph.node(graph.find_node(src_type, src))
    num_src, num_dst = (int(checkpoint.data[t].num_nodes) for t in (src_type, dst_type))
    targets = np.arange(num_dst)
    sources = np.full(num_dst, source)
    if exclude_known:
        known = Negatives.for_links(num_src, num_dst, checkpoint.link_type, checkpoint.split.all)
        targets = targets[~known.are_known(sources, targets)]
    elif src_type == dst_type:
        targets = targets[targets != source]
    pairs = torch.from_numpy(np.stack([sources[: len(targets)], targets]))
    logits = torch.cat([checkpoint.score(part) for part in pairs.split(_TARGETS_AT_ONCE, dim=1)])
    order = torch.argsort(logits, descending=True, stable=True)[:k]
    return [
        Recommendation(
            index=int(targets[i]),
            name=graph.node_name(graph.flat_index(dst_type, int(targets[i]))),
            logit=float(logits[i]),
            probability=float(torch.sigmoid(logits[i])),
        )
        for i in order.tolist()
    ]


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
    as_paper = settings.get("paper_split", _is_paper_data(graph))
    defaults = TrainSettings.paper() if as_paper else TrainSettings()
    chosen = dataclasses.replace(defaults, **settings)
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
