"""The data that the paper's authors released.

`load_reference` reads UserItemAttr as plain files: graph, split, trained model and ground truth.
`make_released_folders` reads the files of the authors' repository themselves, UserItemAttr and
AugCitation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.datasets.folders import (
    DatasetInfo,
    DatasetSummary,
    check_new_folder,
    find_data,
    write_dataset,
)
from pagelink.datasets.ground_truth import LabelPath, Labels, label_lines, parse_labels
from pagelink.errors import GraphError, ModelError
from pagelink.graph.schema import EdgeType
from pagelink.models.architectures import RGCN
from pagelink.models.link_model import node_inputs
from pagelink.models.links import LinkSplit
from pagelink.tables.dgl_file import read_dgl_graph

FOLDER = "useritemattr-reference"
LINK_TYPE: EdgeType = ("user", "likes", "item")
TOLERANCE = 1e-4
RELEASED: Mapping[str, tuple[str, EdgeType]] = {
    "synthetic": ("UserItemAttr", LINK_TYPE),
    "aug_citation": ("AugCitation", ("author", "likes", "paper")),
}
"""Files of graphs in the folder `datasets` of the authors' repository, what they are in the paper,
and the relation to predict."""
RELEASED_LABELS = "_pred_pair_to_path_labels"

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


def make_released_folders(source: Path | str, out: Path | str) -> list[DatasetSummary]:
    """Write the data sets that the authors released as folders of tables with ground truth.

    DGL is not needed. Nodes are called by type and number, as "author 3"; features are left out,
    as the paper's models have none.

    Args:
        source: the folder `datasets` of the authors' repository: graphs as `dgl.save_graphs` wrote
            them (`synthetic`, `aug_citation`, or one of them), and beside each its labelled paths
            as `torch.save` wrote them (`synthetic_pred_pair_to_path_labels`).
        out: the folder to make, with a folder per data set: `useritemattr`, `augcitation`.

    Raises:
        GraphError: there is no such file, a file cannot be read or does not fit the others, or the
            folder cannot be written.
    """
    source, out = Path(source), Path(out)
    check_new_folder(out)
    found = [name for name in RELEASED if (source / name).is_file()]
    if not found:
        raise GraphError(
            f"{source}: must hold the released graphs, but none of the files "
            f"{', '.join(RELEASED)} is there. Give the folder datasets of the authors' repository."
        )
    # All are read before one is written.
    made = [(*RELEASED[name], *_released(source, name)) for name in found]
    summaries = []
    for (title, link_type, data, labels), file in zip(made, found, strict=True):
        info = DatasetInfo(title, link_type, None, {"released": file})
        folder = write_dataset(out / title.lower(), data, labels, info=info)
        summaries.append(DatasetSummary.of(folder, data, link_type, labels))
    return summaries


def _released(folder: Path, name: str) -> tuple[HeteroData, Labels]:
    data = read_dgl_graph(folder / name)
    for node_type in data.node_types:
        size = data[node_type].num_nodes
        data[node_type].name = [f"{node_type} {index}" for index in range(size)]
    file = _file(folder, f"{name}{RELEASED_LABELS}")
    _, link_type = RELEASED[name]
    try:
        stored = torch.load(file, map_location="cpu", weights_only=True)
        labels: Labels = {}
        for ((src_type, src), (dst_type, dst)), paths in stored.items():
            if (src_type, dst_type) != (link_type[0], link_type[2]):
                raise ValueError(f"the link {src_type} {src}, {dst_type} {dst} is of other types")
            labels[int(src), int(dst)] = [
                tuple((*kind, int(tail), int(head)) for kind, tail, head in path) for path in paths
            ]
        # Read back, so that a step which is no edge of the graph is found here.
        return data, parse_labels(label_lines(labels, data, link_type), file, data, link_type)
    except (
        OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, UnpicklingError,
    ) as error:  # fmt: skip
        raise GraphError(
            f"{file}: must hold, as torch.save writes it, a dictionary from links, each a pair of "
            "(node type, index), to lists of paths, each a list of (relation, source, target): "
            f"{' '.join(str(error).split())[:300]}"
        ) from error
