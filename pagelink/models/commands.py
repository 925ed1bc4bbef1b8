"""What `pagelink train` and `pagelink recommend` do.

Training: split, train with a progress bar, report, write the checkpoint. Recommendations: the
targets that a trained model links to a source with the highest logits, or the sources of a target.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError, SettingsError
from pagelink.explain.ranking import places_of
from pagelink.graph.schema import EdgeType, no_relation
from pagelink.measure.held_out import HeldOutShare
from pagelink.models.architectures import make_model
from pagelink.models.calibration import FEWEST_SOURCES, MOST_PAIRS, Calibration, calibrate
from pagelink.models.checkpoint import Checkpoint, save_checkpoint
from pagelink.models.feeds import available, scorer
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import LinkSplit, Negatives, pairs_of_relations, split_graph
from pagelink.models.messages import message_graph
from pagelink.models.reliability import reliability_svg
from pagelink.models.training import Epoch, TrainReport, TrainSettings, train
from pagelink.runtime.files import write_text
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import is_store
from pagelink.tables.load import load_graph
from pagelink.tables.triples import HELD_OUT, read_held_out
from pagelink.views.text import count

_NODES_AT_ONCE = 100_000


@dataclass(frozen=True)
class Recommendation:
    """A target for a source, or a source for a target."""

    index: int
    """Its index within its node type."""
    name: str
    id: str
    """As the tables have it; its index where they have none."""
    rank: int
    """Among all that were ranked; those of the same score have the same, see `Explanation.rank`."""
    logit: float
    probability: float
    held_out_share: HeldOutShare | None = None
    """Share of predictions of this rank (of sources for a target: of this score) that were held-out
    links; None if the model has no calibration, or known links are ranked, too."""


def recommend(
    checkpoint: Checkpoint,
    src: int | str | None = None,
    k: int = 10,
    *,
    dst: int | str | None = None,
    exclude_known: bool = True,
    known: Sequence[str] | None = None,
) -> list[Recommendation]:
    """Return the targets with the highest logits for a source, or sources for a target, best first.

    Of nodes with the same logit the one with the lower index comes first. The given node itself is
    never among them.

    Args:
        checkpoint: the trained model with its graph.
        src: the source, by index or name, whose targets are sought.
        k: the number of nodes, 1 or more; fewer come back if there are no more.
        dst: instead of `src`: the target whose sources are sought.
        exclude_known: leave out the known links of the given node: those of training, validation
            and test, and those of `known`.
        known: other relations whose pairs are no new links, such as `read` beside `will_like`;
            None: those that the model was trained with.

    Raises:
        LinkError: there is no such node.
        SettingsError: k is less than 1, not just one of src and dst is given, or there is no such
            relation between these node types.
    """
    if k < 1:
        raise SettingsError(f"k must be at least 1, got {k}.")
    given = src if dst is None else dst
    if given is None or (src is not None and dst is not None):
        raise SettingsError("Give either src, to get targets, or dst, to get sources.")
    place = 0 if dst is None else 1  # of the given node
    ends = checkpoint.link_type[::2]
    stays, sought = ends[place], ends[1 - place]
    graph = checkpoint.graph
    _, index = graph.node(graph.find_node(stays, given))
    num_src, num_dst = (int(checkpoint.data[t].num_nodes) for t in ends)
    nodes = np.arange((num_dst, num_src)[place])
    pairs = np.full((2, len(nodes)), index)
    pairs[1 - place] = nodes
    if exclude_known:
        links = checkpoint.known(known)
        taken = Negatives.for_links(num_src, num_dst, checkpoint.link_type, links)
        pairs = pairs[:, ~taken.are_known(*pairs)]
    elif stays == sought:
        pairs = pairs[:, nodes != index]
    parts = torch.from_numpy(pairs).split(_NODES_AT_ONCE, dim=1)
    logits = torch.cat([checkpoint.score(part) for part in parts])
    order = torch.argsort(logits, descending=True, stable=True)[:k].tolist()
    found = pairs[1 - place]
    shares = checkpoint.held_out if exclude_known else None

    ranks = places_of(logits.cpu().numpy())[0]

    def share(logit: Tensor, rank: int) -> HeldOutShare | None:
        if shares is None:
            return None
        if place:  # ranks are those of targets
            return shares.of_score(float(logit))
        return shares.of_rank(rank)

    return [
        Recommendation(
            index=int(found[i]),
            name=graph.node_name(graph.flat_index(sought, int(found[i]))),
            id=graph.node_id(graph.flat_index(sought, int(found[i]))),
            rank=int(ranks[i]),
            logit=float(logits[i]),
            probability=float(torch.sigmoid(logits[i])),
            held_out_share=share(logits[i], int(ranks[i])),
        )
        for i in order
    ]


NOT_CALIBRATED = (
    f"What a rank or a score means is not measured: that needs {FEWEST_SOURCES} sources whose "
    f"targets can be ranked, and at most {MOST_PAIRS:,} pairs with them."
)
PART_WORDS = {"valid": "validate", "test": "test"}
DATASET_FILE = "extra-dataset.json"
"""In a folder that `pagelink dataset` made: says how the data set is meant to be split, and which
relations beside the predicted one make a pair known."""


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
    figure: Path | None = None,
    device: str | None = None,
) -> TrainReport:
    """Train a model on a graph, print how it does, and write it to a file.

    `figure` is where to write the reliability figure, an SVG; `device` is where to train.
    """
    place = None if device is None else available(device)  # refused before the graph is read
    source = GraphStore.open(graph) if is_store(graph) else load_graph(graph)
    data = source.data if isinstance(source, GraphStore) else source
    info = _dataset_info(graph)
    as_paper = settings.get("paper_split", bool(info.get("paper_split")))
    defaults = TrainSettings.paper() if as_paper else TrainSettings()
    known = tuple(info.get("known", ())) if link_type == tuple(info.get("link_type", ())) else ()
    chosen = dataclasses.replace(defaults, **{"known": known, **settings})
    pairs_of_relations(data, link_type, chosen.known)  # an unknown relation ends it before the work
    split = given_split(graph, data, link_type) or split_graph(data, link_type, seed)
    predictor = make_model(
        model, data, link_type, paper_split=chosen.paper_split, seed=seed, **options
    )
    console.print(
        f"{split.train.shape[1]} links to train on, {split.valid.shape[1]} to validate, "
        f"{split.test.shape[1]} to test."
    )
    with training_bar(console, chosen.epochs) as step:
        report = train(
            predictor, source, link_type, split, chosen, seed=seed, progress=step, device=place
        )
    console.print(str(report), markup=False)
    calibration = calibrated(predictor, data, link_type, split, chosen, seed=seed)
    console.print(NOT_CALIBRATED if calibration is None else str(calibration), markup=False)
    save_checkpoint(out, predictor, data, link_type, split, report, chosen, calibration)
    console.print(f"Wrote {out}", markup=False)
    if figure is not None and calibration is not None:
        write_text(figure, reliability_svg(calibration))
        console.print(f"Wrote {figure}", markup=False)
    return report


def given_split(graph: Path, data: HeteroData, link_type: EdgeType) -> LinkSplit | None:
    """Return the links of a relation as files beside the graph hold them out; None: there are none.

    Raises:
        GraphError: there is no such relation, or a file cannot be read.
    """
    held_out = read_held_out(graph, data)
    if not held_out:
        return None
    if link_type not in data.edge_types:
        raise GraphError(no_relation(",".join(link_type), data.edge_types))
    none = torch.empty((2, 0), dtype=torch.long)
    parts = [held_out.get(part, {}).get(link_type, none) for part in HELD_OUT]
    train, valid, test = (torch.unique(p, dim=1) for p in (data[link_type].edge_index, *parts))
    return LinkSplit(train, valid, test, given=True)


def held_out_counts(graph: Path, data: HeteroData) -> Iterator[str]:
    """Yield what files beside a graph hold out, in words."""
    for part, links in read_held_out(graph, data).items():
        number = sum(pairs.shape[1] for pairs in links.values())
        of = count(len(links), "relation")
        yield f"Held out to {PART_WORDS[part]}: {number:,} links of {of}."


def calibrated(
    model: LinkModel,
    data: HeteroData,
    link_type: EdgeType,
    split: LinkSplit,
    settings: TrainSettings,
    *,
    seed: int = 0,
) -> Calibration | None:
    """Measure what ranks and scores of a model mean, right after `train` with the same arguments.

    See `calibrate` for what is measured, and for when there is none.
    """
    graph = message_graph(data, link_type, split.train, paper_split=settings.paper_split)
    score = scorer(model, node_inputs(graph), dict(graph.edge_index_dict))
    known = pairs_of_relations(data, link_type, settings.known)
    return calibrate(score, split, link_type, int(data[link_type[2]].num_nodes), seed, known)


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


def _dataset_info(graph: Path) -> dict[str, Any]:
    """Return what a folder that `pagelink dataset` made says of itself; empty of other graphs."""
    file = graph / DATASET_FILE
    found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return found
