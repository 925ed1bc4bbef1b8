"""The released UserItemAttr: graph, split, trained model and ground truth of the paper."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.datasets.folders import find_data
from pagelink.datasets.ground_truth import LabelPath, Labels
from pagelink.errors import GraphError, ModelError
from pagelink.graph.schema import EdgeType
from pagelink.models.architectures import RGCN
from pagelink.models.link_model import node_inputs
from pagelink.models.links import LinkSplit

FOLDER = "useritemattr-reference"
LINK_TYPE: EdgeType = ("user", "likes", "item")
TOLERANCE = 1e-4

Arrays = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True)
class ReferenceData:
    """The released data. Indices are those of the files, as is the order of the edges."""

    data: HeteroData
    """The graph for message passing, without `likes`; nodes have names such as "user 3"."""
    link_type: EdgeType
    model: RGCN
    """With the released weights, in evaluation mode."""
    split: LinkSplit
    negatives: LinkSplit
    """The released pairs that are not links, as many as there are links in each part."""
    test_links: tuple[tuple[int, int], ...]
    """The test links that the model predicts (positive logit): the ones that are explained."""
    labels: Labels
    """Ground-truth paths of all links of all parts."""


def load_reference(path: Path | str | None = None) -> ReferenceData:
    """Load the released data and check that the model gives the released logits.

    Args:
        path: the folder `useritemattr-reference`. None: found by `find_data`.

    Raises:
        DataNotFoundError: the folder is not there.
        GraphError: a file of it is missing.
        ModelError: the logits are not the released ones.
    """
    folder = find_data(FOLDER, path)
    graph, split = _read(folder, "synthetic_graph.npz"), _read(folder, "synthetic_split.npz")
    data = _hetero_data(graph)
    model = _load_model(data, _read(folder, "synthetic_model.npz"))
    positive, negative = _links(split, "pos"), _links(split, "neg")

    logits = _all_logits(model, data)
    released = torch.from_numpy(split["full_score_matrix_user_item"])
    gap = float((logits - released).abs().max())
    if not gap <= TOLERANCE:
        raise ModelError(
            f"The logits of the released model must equal full_score_matrix_user_item in {folder} "
            f"to {TOLERANCE}, but they differ by up to {gap:.3g}. A file there is not the released "
            "one."
        )
    predicted = positive.test[:, logits[positive.test[0], positive.test[1]] > 0]
    return ReferenceData(
        data=data,
        link_type=LINK_TYPE,
        model=model,
        split=positive,
        negatives=negative,
        test_links=tuple((int(src), int(dst)) for src, dst in predicted.T),
        labels=dict(_read_labels(_file(folder, "synthetic_path_labels.json"))),
    )


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise GraphError(f"{folder} must hold the released files, but {name} is missing.")
    return folder / name


def _read(folder: Path, name: str) -> Arrays:
    with np.load(_file(folder, name)) as arrays:
        return dict(arrays)


def _hetero_data(graph: Arrays) -> HeteroData:
    data = HeteroData()
    for node_type in graph["ntypes"].tolist():
        size = int(graph[f"num_nodes__{node_type}"])
        data[node_type].num_nodes = size
        data[node_type].name = [f"{node_type} {index}" for index in range(size)]
    for edge_type in map(tuple, graph["canonical_etypes"].tolist()):
        if edge_type != LINK_TYPE:
            key = "__".join(edge_type)
            ends = np.stack([graph[f"{key}__src"], graph[f"{key}__dst"]])
            data[edge_type].edge_index = torch.from_numpy(ends)
    return data


def _links(split: Arrays, sign: str) -> LinkSplit:
    parts = (
        np.stack([split[f"{part}_{sign}_user"], split[f"{part}_{sign}_item"]])
        for part in ("train", "val", "test")
    )
    return LinkSplit(*map(torch.from_numpy, parts))


def _load_model(data: HeteroData, weights: Arrays) -> RGCN:
    """Return the model with the released weights under the names they have here."""
    model = RGCN.for_data(data, LINK_TYPE, paper_split=True)
    names = {}
    for position, node_type in enumerate(model.inputs.node_types):
        names[f"inputs.tables.{position}.weight"] = f"encoder.emb.embeds.{node_type}.weight"
    for depth in range(len(model.layers)):
        theirs = f"encoder.layer{depth + 1}"
        for kind in ("weight", "bias"):
            names[f"layers.{depth}.own.{kind}"] = f"{theirs}.weight0.{kind}"
            # The released `likes` weights are left out: that relation passes no messages.
            for edge_type in model.edge_types:
                own = f"layers.{depth}.relations.{'__'.join(edge_type)}.linear.{kind}"
                names[own] = f"{theirs}.weight.{edge_type[1]}.{kind}"
    model.load_state_dict({own: torch.from_numpy(weights[name]) for own, name in names.items()})
    return model.eval()


@torch.no_grad()
def _all_logits(model: RGCN, data: HeteroData) -> Tensor:
    num_src, num_dst = data["user"].num_nodes, data["item"].num_nodes
    pairs = torch.cartesian_prod(torch.arange(num_src), torch.arange(num_dst)).T
    logits: Tensor = model(node_inputs(data), data.edge_index_dict, pairs)
    return logits.view(num_src, num_dst)


def _read_labels(file: Path) -> Iterator[tuple[tuple[int, int], list[LabelPath]]]:
    for link, paths in json.loads(file.read_text()).items():
        src, dst = (int(end.split(":")[1]) for end in link.split("|"))
        yield (src, dst), [tuple(tuple(step) for step in path) for path in paths]
