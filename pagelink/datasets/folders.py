"""Data sets as folders: a graph as tables, and beside it what it is and its ground truth.

- `nodes-*`, `edges-*`: the graph, the links to predict among its relations; `load_graph` reads it.
- `extra-dataset.json`: a `DatasetInfo`.
- `extra-ground-truth.jsonl`: the ground-truth paths, see `pagelink.datasets.ground_truth`.

A folder appears under its name when it is complete; `find_data` says where the known ones are.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch_geometric.data import HeteroData

from pagelink.datasets.ground_truth import Labels, label_lines, parse_labels
from pagelink.errors import GraphError, PageLinkError
from pagelink.explain.building import versions
from pagelink.graph.reverse_relations import REVERSE_PREFIX
from pagelink.graph.schema import EdgeType
from pagelink.models.commands import DATASET_FILE
from pagelink.runtime.files import temporary_name
from pagelink.tables.files import file_errors
from pagelink.tables.load import save_graph

DATA_VARIABLE = "PAGELINK_DATA"
LABEL_FILE = "extra-ground-truth.jsonl"


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set is and how it was made."""

    name: str
    link_type: EdgeType
    """The relation to predict."""
    seed: int | None
    """None: nothing was drawn here."""
    settings: Mapping[str, object]
    """What the data set was made with, besides the seed."""
    paper_split: bool = True
    """Whether the relation to predict is to be left out of message passing, as the paper does."""
    known: tuple[str, ...] = ()
    """Other relations whose pairs are no new links, such as `read` beside `will_like`."""
    licence: str | None = None
    """What is known of the terms of the data it was made from."""
    versions: Mapping[str, str] = field(default_factory=versions)
    """Versions of the packages that took part."""


@dataclass(frozen=True)
class DatasetSummary:
    """What was written. Its text is for people.

    Example:
        >>> print(DatasetSummary(Path("aug"), 9, 30, ("author", "likes", "paper"), 4, 12, 1.5))
        aug: 9 nodes, 30 edges; of these 4 are links to predict (author,likes,paper), drawn among \
12 pairs that qualify, with 1.50 ground-truth paths on average
    """

    folder: Path
    num_nodes: int
    num_edges: int
    """Links to predict included, reverse relations not."""
    link_type: EdgeType | None = None
    num_links: int = 0
    num_qualifying: int | None = None
    """Number of pairs among which the links were drawn, if they were."""
    mean_paths: float = 0.0
    """Number of ground-truth paths per link."""

    @classmethod
    def of(
        cls,
        folder: Path,
        data: HeteroData,
        link_type: EdgeType | None = None,
        labels: Labels | None = None,
        num_qualifying: int | None = None,
    ) -> DatasetSummary:
        """Return the summary of what was written to a folder."""
        labels = labels or {}
        num_edges = sum(
            data[t].num_edges for t in data.edge_types if not t[1].startswith(REVERSE_PREFIX)
        )
        mean_paths = sum(map(len, labels.values())) / max(1, len(labels))
        return cls(
            folder, data.num_nodes, num_edges, link_type, len(labels), num_qualifying, mean_paths
        )

    def __str__(self) -> str:
        text = f"{self.folder}: {self.num_nodes:,} nodes, {self.num_edges:,} edges"
        if self.link_type is None:
            return text
        text += f"; of these {self.num_links:,} are links to predict ({','.join(self.link_type)})"
        if self.num_qualifying is not None:
            text += f", drawn among {self.num_qualifying:,} pairs that qualify"
        return f"{text}, with {self.mean_paths:.2f} ground-truth paths on average"


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
        (fresh / DATASET_FILE).write_text(text, encoding="utf-8", newline="\n")
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
    path = Path(folder) / DATASET_FILE
    # A table of triples is a graph, too, and has nothing beside it.
    if not path.is_file():
        return None
    with file_errors(path, "read"):
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            source, relation, target = map(str, entry["link_type"])
            own = {"link_type": (source, relation, target), "known": tuple(entry.get("known", ()))}
            info = DatasetInfo(**{**entry, **own})
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
        missing = DATASET_FILE if info is None else LABEL_FILE
        raise GraphError(f"{folder}: there is no ground truth here, {missing} is missing.")
    with file_errors(path, "read"), path.open("rb") as file:
        return parse_labels(file, path, data, info.link_type)


def find_labels(folder: Path | str, data: HeteroData, link_type: EdgeType) -> Labels | None:
    """Return the ground-truth paths of links of a type; None where the folder has none.

    Args:
        folder: of any graph, or a file.
        data: as for `read_labels`.
        link_type: the relation of the links.

    Raises:
        GraphError: the ground truth does not fit the graph; with the line.
    """
    if not (Path(folder) / LABEL_FILE).is_file():
        return None
    info = read_info(folder)
    return read_labels(folder, data) if info and info.link_type == link_type else None


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
    fresh = temporary_name(place)
    try:
        with file_errors(path, "written"):
            fresh.mkdir(parents=True)
            yield fresh
            if place.is_dir():
                place.rmdir()
            fresh.rename(place)
    except GraphError as error:
        # The caller knows the name that was given, not the one in between.
        raise GraphError(str(error).replace(str(fresh), str(path))) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


class DataNotFoundError(PageLinkError, FileNotFoundError):
    """A data folder is not where it was looked for."""


def find_data(name: str, path: Path | str | None = None) -> Path:
    """Return the folder of a data set.

    It is `path` if that is given; else the folder `name` in the folder that the environment
    variable PAGELINK_DATA names, if it is set; else `../shared/data/<name>`, seen from the current
    folder or from the folder that holds the package.

    Raises:
        DataNotFoundError: there is no such folder. The message says where it was looked for.

    Example:
        >>> find_data("my-data", path="/nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        pagelink.datasets.folders.DataNotFoundError: The data folder 'my-data' is not at ...
    """
    if path is not None:
        places = [Path(path)]
    elif os.environ.get(DATA_VARIABLE):
        places = [Path(os.environ[DATA_VARIABLE]) / name]
    else:
        roots = (Path.cwd(), Path(__file__).parents[2])
        places = [root.resolve().parent / "shared" / "data" / name for root in roots]
    for place in places:
        if place.is_dir():
            return place
    looked = " or ".join(str(place) for place in dict.fromkeys(places))
    raise DataNotFoundError(
        f"The data folder {name!r} is not at {looked}. Give its path, or set {DATA_VARIABLE} to "
        f"the folder that holds {name!r}."
    )
