"""Checkpoints: a trained model with its split, its settings and the schema of its graph, in a file.

The file is a NumPy archive of plain arrays and one JSON text. Nothing in it is pickled, so that
loading a file of unknown origin runs no code of it.

Beside it, a message store: the graph on disk as one model sees it, without the links that were held
out from it. From such a store a model is explained without its graph in memory. It is made of a
store of the whole graph, a piece at a time.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import CheckpointError
from pagelink.graph.reverse_relations import reverse_name
from pagelink.graph.schema import EdgeType, Schema, differences, edge_type_of, graph_schema
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.held_out import HeldOutShares
from pagelink.models.architectures import MODELS
from pagelink.models.calibration import Calibration
from pagelink.models.checkpoint_file import (
    damage_named,
    read_checkpoint_file,
    refuse_several,
    without_weights,
    write_checkpoint_file,
)
from pagelink.models.feeds import scorer
from pagelink.models.figures import Score
from pagelink.models.link_model import LinkModel, node_inputs, one_of
from pagelink.models.links import LinkSplit, taken_pairs
from pagelink.models.messages import message_graph, pair_codes
from pagelink.models.training import TrainReport, TrainSettings
from pagelink.runtime.arrays import Ints, Longs
from pagelink.store.facts import Step
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import is_store
from pagelink.store.writer import StoreWriter
from pagelink.tables.load import load_graph, refuse_words_of_store
from pagelink.tables.words import Words

SEEN_BY = "seen by"
"""Where the manifest of a store says for which model it was made."""
_WEIGHTS = "weights/"
_PARTS = ("train", "valid", "test")
PIECE = 2_000_000
"""Nodes or edges of a message store that are copied at a time."""


@dataclass(frozen=True)
class TrainedModel:
    """What a checkpoint file holds."""

    model: LinkModel
    """With its trained weights, in evaluation mode."""
    link_type: EdgeType
    split: LinkSplit
    report: TrainReport
    settings: TrainSettings
    calibration: Calibration | None = field(default=None, kw_only=True)
    """What ranks and scores meant on the validation links; None if that was not measured."""

    @property
    def held_out(self) -> HeldOutShares | None:
        """The same as explainers take it, `PaGELink(..., held_out=c.held_out)`."""
        return None if self.calibration is None else self.calibration.shares


@dataclass(frozen=True)
class Checkpoint(TrainedModel):
    """A trained model as it is deployed, ready for `PaGELink(c.model, c.data, c.link_type)`."""

    data: HeteroData
    """The graph as the model saw it in its tests: no validation or test link is in it, and training
    links only if messages pass along them. Of a store it has no edges; `whole_data` has."""
    store: GraphStore | None = None
    """The same graph on disk, if it was given as a store that is just what the model sees."""

    @property
    def source(self) -> HeteroData | GraphStore:
        """What to make an explainer of: the store, where there is one."""
        return self.data if self.store is None else self.store

    @property
    def whole_data(self) -> HeteroData:
        """The graph with all its edges, of a store read into memory."""
        return self.data if self.store is None else self.store.data

    @cached_property
    def graph(self) -> TypedGraph:
        """The same graph, flat; it knows the names."""
        if self.store is not None:
            return self.store.graph([self.link_type])
        return TypedGraph.from_data(self.data, [self.link_type])

    def known(self, relations: Sequence[str] | None = None) -> Tensor:
        """Return the pairs that are no new links, [2, num_pairs].

        These are the links of training, validation and test, and the pairs of other relations.

        Args:
            relations: those relations; None: `settings.known`.

        Raises:
            SettingsError: there is no such relation between these node types.
        """
        names = self.settings.known if relations is None else relations
        data = self.whole_data if names else self.data
        return taken_pairs(data, self.link_type, self.split, names)

    @cached_property
    def score(self) -> Score:
        """The model's logits of pairs; the nodes are embedded once."""
        return scorer(self.model, node_inputs(self.data), dict(self.whole_data.edge_index_dict))


def save_checkpoint(
    path: Path | str,
    model: LinkModel,
    data: HeteroData,
    link_type: EdgeType,
    split: LinkSplit,
    report: TrainReport,
    settings: TrainSettings,
    calibration: Calibration | None = None,
) -> Path:
    """Write a trained model to a file, under a temporary name until it is complete.

    Args:
        path: the file; one of that name is replaced.
        model: one of `MODELS`.
        data: the whole graph, as it was given to `train`.
        link_type: the predicted relation.
        split: its links.
        report: what `train` returned.
        settings: what `train` was given.
        calibration: what `calibrate` returned.

    Raises:
        CheckpointError: the model is not one of `MODELS`.
    """
    names = [name for name, kind in MODELS.items() if type(model) is kind]
    if not names:
        raise CheckpointError(
            f"Only {', '.join(MODELS)} can be stored, got a {type(model).__name__}. Store the "
            "weights of your own model by torch.save(model.state_dict(), ...)."
        )
    header = {
        "model": names[0],
        "config": model.config,
        "link_type": link_type,
        "settings": dataclasses.asdict(settings),
        "report": report.to_dict(),
        "schema": graph_schema(data),
    }
    if calibration is not None:
        header["calibration"] = calibration.to_dict()
    arrays = {f"{_WEIGHTS}{name}": weight for name, weight in model.state_dict().items()}
    arrays |= {f"split/{part}": getattr(split, part) for part in _PARTS}
    return write_checkpoint_file(Path(path), header, arrays)


def load_checkpoint(path: Path | str, data: HeteroData | GraphStore) -> Checkpoint:
    """Read a trained model for a graph. No code in the file is run.

    Args:
        path: a file written by `save_checkpoint`.
        data: the whole graph the model was trained on; it is not changed. A store may also hold
            just what the model sees of it, see `save_message_store`; then the graph stays on disk.
            Other stores do, too, if messages do not pass along the predicted relation and it is
            not stored; else the predicted relation is cut in memory, and so the graph is flattened
            there.

    Raises:
        CheckpointError: the file is missing, damaged, or no checkpoint; or the graph is not the
            model's, with what differs.
    """
    path = Path(path)
    given = _schema_of(data, path) if isinstance(data, GraphStore) else graph_schema(data)
    trained = read_model(path, given)
    if isinstance(data, GraphStore):
        if _is_as_seen(data, trained):
            return Checkpoint(**vars(trained), data=data.frame, store=data)
        data = data.data
    link_type, paper_split = trained.link_type, trained.settings.paper_split
    with damage_named(path):
        seen = message_graph(data, link_type, trained.split.train, paper_split=paper_split)
    return Checkpoint(**vars(trained), data=seen)


def open_checkpoint(model: Path | str, graph: Path | str, words: Words | None = None) -> Checkpoint:
    """Read a trained model with its graph: tables, triples or a store, as all commands take them.

    `words` are files with names of nodes and phrases of relations; a store has its own.

    Raises:
        CheckpointError: as for `load_checkpoint`.
        GraphError: the graph cannot be read.
    """
    if is_store(graph):
        refuse_words_of_store(Path(graph), words)
        return load_checkpoint(model, GraphStore.open(graph))
    return load_checkpoint(model, load_graph(graph, words=words))


def read_model(path: Path, given: Schema) -> TrainedModel:
    """Read what a checkpoint holds, for a graph of which only the schema is known.

    Raises:
        CheckpointError: as for `load_checkpoint`.
    """
    header, arrays = read_checkpoint_file(path)
    refuse_several(header, path)
    with damage_named(path):
        differing = list(differences(header["schema"], given))
    if differing:
        shown = "; ".join(differing[:5]) + ("; ..." if len(differing) > 5 else "")
        raise CheckpointError(f"The graph is not the one {path} was trained on: {shown}.")
    with damage_named(path):
        link_type = edge_type_of(header["link_type"])
        model = _model(header, arrays)
        parts = [arrays[f"split/{part}"] for part in _PARTS]
        for part, links in zip(_PARTS, parts, strict=True):
            _check_links(part, links, [given["nodes"][end]["count"] for end in link_type[::2]])
        given_settings = header["settings"]
        # Files of earlier versions have no known relations.
        lists = {name: tuple(given_settings.get(name, ())) for name in ("fanout", "known")}
        settings = TrainSettings(**{**given_settings, **lists})
        report = TrainReport.from_dict(header["report"])
        # Files of earlier versions have none.
        found = header.get("calibration")
        calibration = None if found is None else Calibration.from_dict(found)
    split = LinkSplit(*parts)
    return TrainedModel(model, link_type, split, report, settings, calibration=calibration)


def _model(header: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> LinkModel:
    """Make the model of a checkpoint. Its sizes are those of the weights in it, or it fails."""
    weights = {
        name.removeprefix(_WEIGHTS): array
        for name, array in arrays.items()
        if name.startswith(_WEIGHTS)
    }
    config = dict(header["config"])
    config["edge_types"] = [edge_type_of(edge_type) for edge_type in config["edge_types"]]
    config["link_type"] = edge_type_of(header["link_type"])
    # Each layer has weights of its own for each relation.
    if config["num_layers"] * max(1, len(config["edge_types"])) > len(weights):
        raise ValueError(f"it has no weights for {config['num_layers']} layers")
    kind = one_of("A model", MODELS, header["model"])
    with without_weights():
        model = kind(**config)
    wanted = {name: weight.dtype for name, weight in model.state_dict().items()}
    if any(weight.dtype != wanted.get(name, weight.dtype) for name, weight in weights.items()):
        raise ValueError("its weights are numbers of another kind")
    model.load_state_dict(weights, assign=True)
    return model.eval()


def _check_links(part: str, links: Tensor, counts: Sequence[int]) -> None:
    """Refuse links that are none of the graph's."""
    if links.dtype != torch.long or links.dim() != 2 or len(links) != 2:
        raise ValueError(f"its {part} links are not pairs of nodes")
    for ends, count in zip(links, counts, strict=True):
        if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < count:
            raise ValueError(f"its {part} links have nodes that the graph has not")


def check_checkpoint(path: Path) -> None:
    """Refuse what is no checkpoint, before work on its graph begins.

    Raises:
        CheckpointError: the file is missing, damaged, or no checkpoint.
    """
    read_checkpoint_file(path)


def _schema_of(store: GraphStore, path: Path) -> Schema:
    """The schema of the whole graph that a store is of."""
    seen_by = store.manifest.get(SEEN_BY)
    if seen_by is None:
        return store.schema
    if seen_by["checkpoint"] != file_digest(path):
        raise CheckpointError(
            f"{store.folder} holds what another model than {path} sees of its graph. Make a store "
            "for this one: pagelink store GRAPH --model MODEL --out FOLDER."
        )
    schema: Schema = seen_by["schema"]
    return schema


def _is_as_seen(store: GraphStore, trained: TrainedModel) -> bool:
    """Whether a store holds just what the model sees: made so, or without the links anyway."""
    if SEEN_BY in store.manifest:
        return True
    link_type = trained.link_type
    both = {link_type, store.graph([link_type]).reverse.get(link_type)}
    return trained.settings.paper_split and not both & {*store.edge_types}


def file_digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_message_store(
    store: GraphStore, model: Path, out: Path, progress: Step | None = None
) -> GraphStore:
    """Write what a trained model sees of a graph as a store of its own.

    Args:
        store: the whole graph that the model was trained on.
        model: its checkpoint.
        out: the folder to make.
        progress: called for each step with its name, done and total.

    Raises:
        CheckpointError: the graph is not the model's.
        StoreError: the folder cannot be written.
    """
    if SEEN_BY in store.manifest:
        raise CheckpointError(
            f"{store.folder} holds only what a model sees of its graph. Give the whole graph."
        )
    trained = read_model(model, store.schema)
    link_type, paper_split = trained.link_type, trained.settings.paper_split
    data = store.frame
    reverse = store.graph([link_type]).reverse.get(link_type) or reverse_name(link_type)
    num_dst = int(data[link_type[2]].num_nodes)
    train = trained.split.train.numpy()
    wanted = np.sort(pair_codes(trained.split.train, num_dst))

    def kept(edge_type: EdgeType, edges: Longs) -> Longs:
        """Which edges of a piece the model sees."""
        if edge_type not in (link_type, reverse):
            return np.arange(edges.shape[1])
        src, dst = edges if edge_type == link_type else edges[::-1]
        return np.flatnonzero(np.isin(src * num_dst + dst, wanted))

    gone = (link_type, reverse) if paper_split else ()
    with StoreWriter(out, progress=progress) as writer:
        _copy_nodes(store, writer)
        relations = [t for t in store.edge_types if t not in gone]
        for edge_type in relations:
            for edges in _pieces(store.ends(edge_type)):
                writer.add_edges(edge_type, edges[:, kept(edge_type, edges)])
        if not paper_split:
            for edge_type in dict.fromkeys((link_type, reverse)):
                if edge_type not in store.edge_types:
                    writer.add_edges(edge_type, train if edge_type == link_type else train[::-1])
        for edge_type in relations:
            table = data[edge_type].get("attributes")
            if table is not None:
                both = zip(_pieces(store.ends(edge_type)), _rows(table), strict=True)
                pieces = (rows.take(pa.array(kept(edge_type, edges))) for edges, rows in both)
                writer.set_edge_attributes(edge_type, table.schema, pieces)
        seen_by = {"checkpoint": file_digest(model), "schema": store.schema}
        return writer.finish(add_reverse=False, notes={SEEN_BY: seen_by})


def _copy_nodes(store: GraphStore, writer: StoreWriter) -> None:
    for node_type in store.frame.node_types:
        nodes = store.frame[node_type]
        texts = {key: nodes[name] for key, name in (("names", "name"), ("ids", "id"))
                 if name in nodes}  # fmt: skip
        for first in range(0, nodes.num_nodes, PIECE):
            last = min(first + PIECE, nodes.num_nodes)
            part = {key: strings.block(first, last) for key, strings in texts.items()}
            writer.add_nodes(node_type, last - first, **part)
        if "x" in nodes:
            x = nodes["x"].numpy()
            rows = (x[i : i + PIECE] for i in range(0, max(len(x), 1), PIECE))
            writer.set_features(node_type, rows, nodes.get("x_names"))
        if "attributes" in nodes:
            table = nodes["attributes"]
            writer.set_node_attributes(node_type, table.schema, _rows(table))


def _pieces(ends: Ints) -> Iterator[Longs]:
    for first in range(0, len(ends), PIECE):
        yield ends[first : first + PIECE].T.astype(np.int64)


def _rows(table: pa.Table) -> Iterator[pa.Table]:
    for first in range(0, table.num_rows, PIECE):
        yield table.slice(first, PIECE)
