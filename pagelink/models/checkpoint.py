"""Checkpoints: a trained model with its split, its settings and the schema of its graph, in a file.

The file is a NumPy archive of plain arrays and one JSON text. Nothing in it is pickled, so that
loading a file of unknown origin runs no code of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import CheckpointError, PageLinkError
from pagelink.graph.schema import EdgeType, Schema, differences, graph_schema
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.architectures import MODELS, model_class
from pagelink.models.feeds import scorer
from pagelink.models.figures import Score
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import LinkSplit
from pagelink.models.messages import message_graph
from pagelink.models.training import TrainReport, TrainSettings
from pagelink.runtime.files import write_bytes
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import is_store
from pagelink.tables.load import load_graph

FORMAT = "pagelink checkpoint"
VERSION = 1
SEEN_BY = "seen by"
"""Where the manifest of a store says for which model it was made."""
_HEADER = "header"
_PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Checkpoint:
    """A trained model as it is deployed, ready for `PaGELink(c.model, c.data, c.link_type)`."""

    model: LinkModel
    """With its trained weights, in evaluation mode."""
    link_type: EdgeType
    split: LinkSplit
    report: TrainReport
    settings: TrainSettings
    data: HeteroData
    """The graph as the model saw it in its tests: no validation or test link is in it, and training
    links only if messages pass along them."""
    store: GraphStore | None = None
    """The same graph on disk, if it was given as a store that is just what the model sees."""

    @property
    def source(self) -> HeteroData | GraphStore:
        """What to make an explainer of: the store, where there is one."""
        return self.data if self.store is None else self.store

    @cached_property
    def graph(self) -> TypedGraph:
        """The same graph, flat; it knows the names."""
        if self.store is not None:
            return self.store.graph([self.link_type])
        return TypedGraph.from_data(self.data, [self.link_type])

    @cached_property
    def score(self) -> Score:
        """The model's logits of pairs; the nodes are embedded once."""
        return scorer(self.model, node_inputs(self.data), dict(self.data.edge_index_dict))


def save_checkpoint(
    path: Path | str,
    model: LinkModel,
    data: HeteroData,
    link_type: EdgeType,
    split: LinkSplit,
    report: TrainReport,
    settings: TrainSettings,
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
        "format": FORMAT,
        "version": VERSION,
        "model": names[0],
        "config": model.config,
        "link_type": link_type,
        "settings": dataclasses.asdict(settings),
        "report": report.to_dict(),
        "schema": graph_schema(data),
    }
    arrays = {f"weights/{name}": w.cpu().numpy() for name, w in model.state_dict().items()}
    arrays |= {f"split/{part}": getattr(split, part).cpu().numpy() for part in _PARTS}
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return write_bytes(Path(path), buffer.getvalue())


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
    model, link_type, split, report, settings = read_model(path, given)
    if isinstance(data, GraphStore) and _is_as_seen(data, link_type, settings):
        return Checkpoint(model, link_type, split, report, settings, data.data, data)
    whole = data.data if isinstance(data, GraphStore) else data
    try:
        seen = message_graph(whole, link_type, split.train, paper_split=settings.paper_split)
    except PageLinkError as error:
        raise CheckpointError(f"{path} is damaged: {_first_line(error)}") from error
    return Checkpoint(model, link_type, split, report, settings, seen)


def open_checkpoint(model: Path | str, graph: Path | str) -> Checkpoint:
    """Read a trained model with its graph: tables, triples or a store, as all commands take them.

    Raises:
        CheckpointError: as for `load_checkpoint`.
        GraphError: the graph cannot be read.
    """
    stored = is_store(graph)
    return load_checkpoint(model, GraphStore.open(graph) if stored else load_graph(graph))


def read_model(
    path: Path, given: Schema
) -> tuple[LinkModel, EdgeType, LinkSplit, TrainReport, TrainSettings]:
    """Read what a checkpoint holds, for a graph of which only the schema is known.

    Raises:
        CheckpointError: as for `load_checkpoint`.
    """
    header, arrays = _read(path)
    try:
        differing = list(differences(header["schema"], given))
    except (LookupError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged: {_first_line(error)}") from error
    if differing:
        shown = "; ".join(differing[:5]) + ("; ..." if len(differing) > 5 else "")
        raise CheckpointError(f"The graph is not the one {path} was trained on: {shown}.")
    try:
        link_type = _edge_type(header["link_type"])
        config = dict(header["config"])
        config["edge_types"] = [_edge_type(edge_type) for edge_type in config["edge_types"]]
        config["link_type"] = link_type
        model = model_class(header["model"])(**config)
        model.load_state_dict(
            {n.removeprefix("weights/"): w for n, w in arrays.items() if n.startswith("weights/")}
        )
        split = LinkSplit(*(arrays[f"split/{part}"] for part in _PARTS))
        fanout = tuple(header["settings"]["fanout"])
        settings = TrainSettings(**{**header["settings"], "fanout": fanout})
        report = TrainReport.from_dict(header["report"])
    except (PageLinkError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged: {_first_line(error)}") from error
    return model.eval(), link_type, split, report, settings


def check_checkpoint(path: Path) -> None:
    """Refuse what is no checkpoint, before work on its graph begins.

    Raises:
        CheckpointError: the file is missing, damaged, or no checkpoint.
    """
    _read(path)


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


def _is_as_seen(store: GraphStore, link_type: EdgeType, settings: TrainSettings) -> bool:
    """Whether a store holds just what the model sees: made so, or without the links anyway."""
    if SEEN_BY in store.manifest:
        return True
    both = {link_type, store.graph([link_type]).reverse.get(link_type)}
    return settings.paper_split and not both & {*store.edge_types}


def file_digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read header and arrays; what is no complete checkpoint is refused."""
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint {path}.")
    try:
        archive = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
    except (zipfile.BadZipFile, ValueError, OSError, EOFError) as error:
        raise CheckpointError(
            f"{path} is not a pagelink checkpoint, or only a part of one: {_first_line(error)}"
        ) from error
    if not isinstance(archive, np.lib.npyio.NpzFile) or _HEADER not in archive:
        raise CheckpointError(f"{path} is not a pagelink checkpoint.")
    try:
        with archive:
            header = json.loads(archive[_HEADER].tobytes())
            if header["format"] != FORMAT:
                raise CheckpointError(f"{path} is not a pagelink checkpoint.")
            if header["version"] != VERSION:
                raise CheckpointError(
                    f"{path} has version {header['version']}, this pagelink reads {VERSION}."
                )
            arrays = {name: torch.from_numpy(archive[name]) for name in archive if name != _HEADER}
    except (zipfile.BadZipFile, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged: {_first_line(error)}") from error
    return header, arrays


def _edge_type(given: list[str]) -> EdgeType:
    src_type, relation, dst_type = given
    return src_type, relation, dst_type


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
