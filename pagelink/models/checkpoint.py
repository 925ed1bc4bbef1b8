"""Checkpoints: a trained model with its split, its settings and the schema of its graph, in a file.

The file is a NumPy archive of plain arrays and one JSON text. Nothing in it is pickled, so that
loading a file of unknown origin runs no code of it.
"""

from __future__ import annotations

import dataclasses
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
from pagelink.files import write_bytes
from pagelink.graph import EdgeType, TypedGraph
from pagelink.models.feeds import scorer
from pagelink.models.figures import Score
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import LinkSplit
from pagelink.models.messages import message_graph
from pagelink.models.registry import MODELS, model_class
from pagelink.models.report import TrainReport
from pagelink.models.schema import differences, graph_schema
from pagelink.models.train_settings import TrainSettings

FORMAT = "pagelink checkpoint"
VERSION = 1
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

    @cached_property
    def graph(self) -> TypedGraph:
        """The same graph, flat; it knows the names."""
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


def load_checkpoint(path: Path | str, data: HeteroData) -> Checkpoint:
    """Read a trained model for a graph. No code in the file is run.

    Args:
        path: a file written by `save_checkpoint`.
        data: the whole graph the model was trained on; it is not changed.

    Raises:
        CheckpointError: the file is missing, damaged, or no checkpoint; or the graph is not the
            model's, with what differs.
    """
    path = Path(path)
    header, arrays = _read(path)
    given = graph_schema(data)
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
        seen = message_graph(data, link_type, split.train, paper_split=settings.paper_split)
    except (PageLinkError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged: {_first_line(error)}") from error
    return Checkpoint(model.eval(), link_type, split, report, settings, seen)


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
