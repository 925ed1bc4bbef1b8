"""Checkpoints of models for all relations, and the one way to open a checkpoint of any kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.errors import CheckpointError, LinkError
from pagelink.graph.schema import (
    EdgeType,
    differences,
    edge_type_of,
    graph_schema,
    nearest_relations,
    relations_called,
    several_relations,
)
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.checkpoint import Checkpoint, open_checkpoint
from pagelink.models.checkpoint_file import (
    FOR_SEVERAL,
    damage_named,
    read_checkpoint_file,
    without_weights,
    write_checkpoint_file,
)
from pagelink.models.figures import Score
from pagelink.models.knowledge.facts import Splits, held_out_of_graph, training_graph
from pagelink.models.knowledge.model import EachRelation, EncoderModel, KnowledgeModel
from pagelink.models.knowledge.training import KnowledgeReport, KnowledgeSettings
from pagelink.models.knowledge.walks import WalkModel
from pagelink.models.link_model import node_inputs, one_of
from pagelink.models.links import LinkSplit
from pagelink.models.training import TrainSettings
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import is_store
from pagelink.tables.load import load_graph, refuse_words_of_store
from pagelink.tables.words import Words

KINDS: dict[str, type[EncoderModel] | type[WalkModel]] = {
    "encoder": EncoderModel, "walks": WalkModel
}  # fmt: skip
_PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class OneOfMany(Checkpoint):
    """A model for several relations, as the predictor of one of them."""

    report: KnowledgeReport  # type: ignore[assignment]
    """Of the training for all of them."""
    splits: Splits = field(default_factory=dict, kw_only=True)
    """The links of all of them."""
    is_named: bool = field(default=True, kw_only=True)
    """The relation was named; else it is the first one, and links are to name theirs."""
    shared: dict[str, Any] = field(default_factory=dict, kw_only=True, repr=False, compare=False)
    """What the predictors of all relations have in common, once it was computed."""

    @property
    def whole(self) -> KnowledgeModel:
        """The model for all relations."""
        model: Any = self.model
        found: KnowledgeModel = model.whole
        return found

    @cached_property
    def graph(self) -> TypedGraph:
        """The graph, flat; all predicted relations are its own."""

        def flat() -> TypedGraph:
            if self.store is not None:
                return self.store.graph([self.link_type])
            return TypedGraph.from_data(self.data, [self.link_type])

        found: TypedGraph = self._once("graph", flat)
        return found

    @cached_property
    def score(self) -> Score:
        """The model's logits of pairs; the nodes are embedded once for all relations."""

        def encoded() -> tuple[Any, Any]:
            inputs = node_inputs(self.data)
            edges = self.whole.edges(inputs, dict(self.whole_data.edge_index_dict))
            return self.whole.encode(inputs, edges), edges.first

        model: Any = self.model
        with torch.no_grad():
            run: Score = model.on_vectors(*self._once("encoded", encoded))
        return torch.no_grad()(run)

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self.shared:
            self.shared[name] = make()
        return self.shared[name]

    def of(self, link_type: EdgeType) -> OneOfMany:
        """Return the predictor of another relation."""
        return dataclasses.replace(
            self, model=self.whole.of_relation(link_type), link_type=link_type,
            split=self.splits[link_type], is_named=True,
        )  # fmt: skip


def of_relation(checkpoint: Checkpoint, named: str | None) -> Checkpoint:
    """Return the predictor of the relation that is named, as `relations_called` reads it.

    Raises:
        LinkError: the model does not predict it, or several, and none is named.
    """
    if isinstance(checkpoint, OneOfMany):
        if checkpoint.is_named and not (named or "").strip():
            return checkpoint
        return checkpoint.of(_chosen(checkpoint.whole.link_types, named, checkpoint.graph))
    if (named or "").strip():
        _chosen([checkpoint.link_type], named, checkpoint.graph)
    return checkpoint


def explained_as(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return how `PaGELink` is to take a model: of one for several relations, links of all.

    Returns:
        Its arguments `link_type` (the chosen relation first), `forward` and `known`.
    """
    if not isinstance(checkpoint, OneOfMany):
        return {"link_type": checkpoint.link_type, "known": checkpoint.known()}
    types = dict.fromkeys([checkpoint.link_type, *checkpoint.whole.link_types])
    return {
        "link_type": list(types),
        "forward": EachRelation(checkpoint.whole, checkpoint.data.edge_types),
        "known": {t: split.all for t, split in checkpoint.splits.items()},
    }


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
    model: Path | str,
    graph: Path | str,
    words: Words | None = None,
    link: str | None = None,
    *,
    by_row: bool = False,
) -> Checkpoint:
    """Read a trained model of any kind with its graph, as the predictor of one relation.

    Args:
        model: the checkpoint.
        graph: tables, triples or a store.
        words: names of nodes and phrases of relations.
        link: which relation, of a model for several, as `relations_called` reads it.
        by_row: links will say of which relation they are, so that none need be named here.

    Raises:
        CheckpointError: as for `load_checkpoint`.
        GraphError: the graph cannot be read.
        LinkError: the model does not predict this relation, or several, and none is named.
    """
    header, arrays = read_checkpoint_file(Path(model))
    if not header.get(FOR_SEVERAL):
        return of_relation(open_checkpoint(model, graph, words), link)
    if is_store(graph):
        refuse_words_of_store(Path(graph), words)
        found = _view(Path(model), header, arrays, GraphStore.open(graph))
    else:
        found = _view(Path(model), header, arrays, load_graph(graph, words=words))
    return found if by_row and link is None else of_relation(found, link)


def _view(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, Tensor],
    source: HeteroData | GraphStore,
) -> OneOfMany:
    """Return the predictor of the first relation, which nobody has named yet."""
    store = source if isinstance(source, GraphStore) else None
    with damage_named(path):
        given = graph_schema(source) if store is None else store.schema
        differing = list(differences(header["schema"], given))
        types: list[EdgeType] = list(map(edge_type_of, header["config"]["link_types"]))
    if differing:
        shown = "; ".join(differing[:5]) + ("; ..." if len(differing) > 5 else "")
        raise CheckpointError(f"The graph is not the one {path} was trained on: {shown}.")
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
        data = source if store is None else store.frame
        if store is not None and any(held_out_of_graph(split) for split in splits.values()):
            data, store = store.data, None  # the links are cut in memory
        seen = training_graph(data, splits)
    return OneOfMany(
        whole.eval().of_relation(types[0]), types[0], splits[types[0]], report,
        TrainSettings(epochs=settings.epochs), data=seen, store=store, splits=splits,
        is_named=False,
    )  # fmt: skip


def _chosen(types: Sequence[EdgeType], named: str | None, graph: TypedGraph) -> EdgeType:
    if named is None or not named.strip():
        raise LinkError(
            f"The model predicts {len(types)} relations: say which one by --link, or in a column "
            "relation of a table."
        )
    phrases = {t: (phrase, "") for t in types if (phrase := graph.phrase(t))}
    found = relations_called(named, types, phrases)
    if len(found) == 1:
        return found[0]
    if found:
        raise LinkError(several_relations(f"{named!r}", found))
    if len(types) == 1:
        raise LinkError(f"The model predicts {','.join(types[0])}, not {named}.")
    raise LinkError(
        f"{named!r} is none of the {len(types)} relations that the model predicts. "
        + nearest_relations(named, types)
    )


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
