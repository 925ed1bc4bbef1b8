"""Checkpoints of models for all relations, and the one way to open a checkpoint of any kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import CheckpointError, LinkError
from pagelink.graph.labels import relation_label
from pagelink.graph.schema import EdgeType, differences, edge_type_of, graph_schema, no_relation
from pagelink.models.checkpoint import Checkpoint, open_checkpoint
from pagelink.models.checkpoint_file import (
    FOR_SEVERAL,
    damage_named,
    read_checkpoint_file,
    without_weights,
    write_checkpoint_file,
)
from pagelink.models.knowledge.facts import Splits, held_out_of_graph, training_graph
from pagelink.models.knowledge.model import EncoderModel, KnowledgeModel
from pagelink.models.knowledge.training import KnowledgeReport, KnowledgeSettings
from pagelink.models.knowledge.walks import WalkModel
from pagelink.models.link_model import one_of
from pagelink.models.links import LinkSplit
from pagelink.models.training import TrainSettings
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import is_store
from pagelink.tables.load import load_graph, refuse_words_of_store
from pagelink.tables.words import Words
from pagelink.views.text import words

KINDS: dict[str, type[EncoderModel] | type[WalkModel]] = {
    "encoder": EncoderModel, "walks": WalkModel
}  # fmt: skip
_PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class OneOfMany(Checkpoint):
    """A model for several relations, as the predictor of one of them."""

    report: KnowledgeReport  # type: ignore[assignment]
    """Of the training for all of them."""


def save_knowledge(
    path: Path | str,
    model: KnowledgeModel,
    data: HeteroData,
    splits: Splits,
    report: KnowledgeReport,
    settings: KnowledgeSettings,
) -> Path:
    """Write a trained model for all relations to a file.

    Args:
        path: the file; one of that name is replaced.
        model: one of `KINDS`.
        data: the whole graph, before links were held out of it.
        splits: the links of every relation.
        report: what `train_knowledge` returned.
        settings: what it was given.
    """
    (kind,) = (name for name, each in KINDS.items() if type(model) is each)
    header = {
        FOR_SEVERAL: True,
        "model": kind,
        "config": model.config,
        "given": [split.given for split in splits.values()],
        "settings": dataclasses.asdict(settings),
        "report": report.to_dict(),
        "schema": graph_schema(data),
    }
    arrays: dict[str, Tensor] = {f"weights/{k}": v for k, v in model.state_dict().items()}
    for part in _PARTS:
        rows = [
            torch.cat([torch.full((1, pairs.shape[1]), position), pairs])
            for position, split in enumerate(splits.values())
            for pairs in [split.parts[part]]
        ]
        arrays[f"split/{part}"] = torch.cat(rows, dim=1)
    return write_checkpoint_file(Path(path), header, arrays)


def open_predictor(
    model: Path | str, graph: Path | str, words: Words | None = None, link: str | None = None
) -> Checkpoint:
    """Read a trained model of any kind with its graph, as the predictor of one relation.

    Args:
        model: the checkpoint.
        graph: tables, triples or a store.
        words: names of nodes and phrases of relations.
        link: which relation, of a model for several: its name, all three parts, or its last part
            if the name is an address.

    Raises:
        CheckpointError: as for `load_checkpoint`.
        GraphError: the graph cannot be read.
        LinkError: the model does not predict this relation, or several, and none is named.
    """
    header, arrays = read_checkpoint_file(Path(model))
    if not header.get(FOR_SEVERAL):
        found = open_checkpoint(model, graph, words)
        if link is not None and link not in (found.link_type[1], ",".join(found.link_type)):
            raise LinkError(f"The model predicts {','.join(found.link_type)}, not {link}.")
        return found
    if is_store(graph):
        refuse_words_of_store(Path(graph), words)
        return _view(Path(model), header, arrays, GraphStore.open(graph), link)
    return _view(Path(model), header, arrays, load_graph(graph, words=words), link)


def _view(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, Tensor],
    source: HeteroData | GraphStore,
    link: str | None,
) -> Checkpoint:
    """Return the predictor of one relation."""
    store = source if isinstance(source, GraphStore) else None
    with damage_named(path):
        given = graph_schema(source) if store is None else store.schema
        differing = list(differences(header["schema"], given))
        types: list[EdgeType] = list(map(edge_type_of, header["config"]["link_types"]))
    if differing:
        shown = "; ".join(differing[:5]) + ("; ..." if len(differing) > 5 else "")
        raise CheckpointError(f"The graph is not the one {path} was trained on: {shown}.")
    link_type = _chosen(types, link)
    with damage_named(path):
        config = {**header["config"], "link_types": types}
        config["edge_types"] = list(map(edge_type_of, config["edge_types"]))
        weights = {
            name.removeprefix("weights/"): array
            for name, array in arrays.items()
            if name.startswith("weights/")
        }
        with without_weights():
            whole = one_of("A model", KINDS, header["model"])(**config)
        whole.load_state_dict(weights, assign=True)
        splits = _splits(arrays, types, header["given"])
        settings = KnowledgeSettings(**header["settings"])
        report = KnowledgeReport.from_dict(header["report"])
        data = source if store is None else store.data
        if store is not None and any(held_out_of_graph(split) for split in splits.values()):
            data, store = store.whole_data(), None  # the links are cut in memory
        seen = training_graph(data, splits)
    return OneOfMany(
        whole.eval().of_relation(link_type), link_type, splits[link_type], report,
        TrainSettings(epochs=settings.epochs), data=seen, store=store,
    )  # fmt: skip


def _chosen(types: list[EdgeType], link: str | None) -> EdgeType:
    found = types if link is None else [t for t in types if link in (t[1], ",".join(t))]
    # Else by what readers see of it: "symptom_of" of "/medicine/symptom/symptom_of".
    found = found or [t for t in types if link in (short := relation_label(t), words(short))]
    if len(found) == 1:
        return found[0]
    if link is None:
        raise LinkError(f"The model predicts {len(types)} relations: say which one by --link.")
    if found:
        several = ", ".join(",".join(t) for t in found[:5])
        raise LinkError(f"{link!r} may be one of several relations: {several}.")
    raise LinkError("The model does not predict this relation. " + no_relation(link, types))


def _splits(
    arrays: Mapping[str, Tensor], types: list[EdgeType], given: list[bool]
) -> dict[EdgeType, LinkSplit]:
    parts = []
    for part in _PARTS:
        rows = arrays[f"split/{part}"]
        counts = torch.bincount(rows[0], minlength=len(types))
        if len(counts) > len(types) or bool((rows[0].diff() < 0).any()):
            raise ValueError(f"its {part} links are of other relations")
        parts.append(rows[1:].split(counts.tolist(), dim=1))
    return {
        edge_type: LinkSplit(*(part[i] for part in parts), given=given[i])
        for i, edge_type in enumerate(types)
    }
