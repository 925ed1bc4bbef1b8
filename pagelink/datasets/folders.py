"""Data sets as folders: a graph as tables, and beside it what it is and its ground truth.

- `nodes-*`, `edges-*`: the graph, the links to predict among its relations; `load_graph` reads it.
- `extra-dataset.json`: a `DatasetInfo`.
- `extra-ground-truth.jsonl`: the ground-truth paths, see `pagelink.datasets.labels`.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch_geometric.data import HeteroData

from pagelink.datasets.ground_truth import Labels
from pagelink.datasets.labels import label_lines, parse_labels
from pagelink.errors import GraphError
from pagelink.graph import EdgeType
from pagelink.results import versions
from pagelink.table_files import file_errors
from pagelink.tables import save_graph

INFO_FILE = "extra-dataset.json"
LABEL_FILE = "extra-ground-truth.jsonl"


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set is and how it was made."""

    name: str
    link_type: EdgeType
    """The relation to predict."""
    seed: int
    settings: Mapping[str, object]
    """What the data set was made with, besides the seed."""
    paper_split: bool = True
    """Whether the relation to predict is to be left out of message passing, as the paper does."""
    licence: str | None = None
    """What is known of the terms of the data it was made from."""
    versions: Mapping[str, str] = field(default_factory=versions)
    """Versions of the packages that took part."""


def write_dataset(
    folder: Path | str, data: HeteroData, labels: Labels, *, info: DatasetInfo
) -> Path:
    """Write a data set as a folder, which appears under its name when it is complete.

    Args:
        folder: the folder to make; it may be there if it is empty.
        data: the graph; every labelled link is an edge of `info.link_type` in it.
        labels: the ground-truth paths.
        info: what the data set is.

    Returns:
        The folder.

    Raises:
        GraphError: the folder is not empty or cannot be written, the graph cannot be written as
            tables, or it lacks a labelled link.

    Example:
        >>> import tempfile, torch
        >>> data = HeteroData()
        >>> data["user"].num_nodes, data["item"].num_nodes = 2, 1
        >>> data["user", "buys", "item"].edge_index = torch.tensor([[0], [0]])
        >>> data["user", "knows", "user"].edge_index = torch.tensor([[1], [0]])
        >>> data["user", "likes", "item"].edge_index = torch.tensor([[1], [0]])
        >>> labels = {(1, 0): [(("user", "knows", "user", 1, 0), ("user", "buys", "item", 0, 0))]}
        >>> info = DatasetInfo("tiny", ("user", "likes", "item"), seed=0, settings={})
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = write_dataset(Path(place) / "tiny", data, labels, info=info)
        ...     assert read_info(folder) == info
        ...     assert read_labels(folder, data) == labels
        ...     sorted(file.name for file in folder.iterdir())[-4:]
        ['extra-dataset.json', 'extra-ground-truth.jsonl', 'nodes-item.csv', 'nodes-user.csv']
    """
    folder = Path(folder)
    _check_links(data, labels, info.link_type)
    with _new_folder(folder) as fresh:
        save_graph(data, fresh)
        with (fresh / LABEL_FILE).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(label_lines(labels, data, info.link_type))
        text = json.dumps(asdict(info), ensure_ascii=False, indent=2) + "\n"
        (fresh / INFO_FILE).write_text(text, encoding="utf-8", newline="\n")
    return folder


def check_new_folder(folder: Path | str) -> None:
    """Refuse a folder that is there already, unless it is empty.

    Raises:
        GraphError: it is there.
    """
    path = Path(folder)
    with file_errors(path, "written"):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise GraphError(f"{path}: is there already. Give the name of a new folder.")


def read_info(folder: Path | str) -> DatasetInfo | None:
    """Return what a data set is, or None if the folder is a graph and no more.

    Raises:
        GraphError: the file that says so cannot be read.
    """
    path = Path(folder) / INFO_FILE
    # A table of triples is a graph, too, and has nothing beside it.
    if not path.is_file():
        return None
    with file_errors(path, "read"):
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            source, relation, target = map(str, entry["link_type"])
            info = DatasetInfo(**{**entry, "link_type": (source, relation, target)})
        except (ValueError, TypeError, KeyError) as error:
            raise GraphError(
                f"{path}: must be a JSON object that describes a data set, with a link_type of "
                f"three parts: {' '.join(str(error).split())}."
            ) from error
    return info


def read_labels(folder: Path | str, data: HeteroData) -> Labels:
    """Return the ground-truth paths of a data set in the indices of its graph.

    Args:
        folder: the folder of the data set.
        data: its graph, loaded with or without reverse relations. Steps are edges of it in the
            direction of the path, where there are such.

    Raises:
        GraphError: the folder has no ground truth, or one that does not fit the graph; with the
            line.
    """
    path = Path(folder) / LABEL_FILE
    info = read_info(folder)
    if info is None or not path.is_file():
        missing = INFO_FILE if info is None else LABEL_FILE
        raise GraphError(f"{folder}: there is no ground truth here, {missing} is missing.")
    with file_errors(path, "read"), path.open("rb") as file:
        return parse_labels(file, path, data, info.link_type)


def _check_links(data: HeteroData, labels: Labels, link_type: EdgeType) -> None:
    stored = data[link_type].edge_index if link_type in data.edge_types else None
    links = set() if stored is None else set(zip(*stored.tolist(), strict=True))
    for link in labels:
        if link not in links:
            raise GraphError(f"The labelled link {link} is not an edge {link_type} of the graph.")


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Give a folder to fill; it gets its name only if nothing went wrong."""
    check_new_folder(path)
    place = path.resolve()  # of the folder itself, not of a link to it
    fresh = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        with file_errors(path, "written"):
            fresh.mkdir(parents=True)
            yield fresh
            if place.is_dir():
                place.rmdir()
            fresh.rename(place)
    except GraphError as error:
        # The reader knows the name that was asked for, not the one in between.
        raise GraphError(str(error).replace(str(fresh), str(path))) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
