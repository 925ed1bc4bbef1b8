"""Ground-truth paths as lines of JSON, in the ids of the graph.

A line is one link: `{"src": id, "dst": id, "paths": [path, ...]}`, best path first. A path is a
list of steps from src to dst, and a step is `[source type, relation, target type, source id, target
id]`: an edge as it is stored. It is walked from target to source where the graph has no such edge
the other way.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch_geometric.data import HeteroData

from pagelink.datasets.ground_truth import LabelPath, Labels, Step
from pagelink.errors import GraphError
from pagelink.explain.building import versions
from pagelink.graph.lookup import edge_walked, triple_of
from pagelink.graph.reverse_relations import REVERSE_PREFIX
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.tables.files import file_errors
from pagelink.tables.load import save_graph


def label_lines(labels: Labels, data: HeteroData, link_type: EdgeType) -> Iterator[str]:
    r"""Yield the lines that state the labels.

    Example:
        >>> data = HeteroData()
        >>> data["user"].id, data["item"].num_nodes = ["ada", "bo"], 2
        >>> labels = {(1, 0): [(("user", "buys", "item", 1, 0),)]}
        >>> list(label_lines(labels, data, ("user", "likes", "item")))
        ['{"src": "bo", "dst": "0", "paths": [[["user", "buys", "item", "bo", "0"]]]}\n']
    """
    ids = {node_type: _ids(data, node_type) for node_type in data.node_types}
    for (src, dst), paths in labels.items():
        entry = {
            "src": ids[link_type[0]][src],
            "dst": ids[link_type[2]][dst],
            "paths": [[[*step[:3], ids[step[0]][step[3]], ids[step[2]][step[4]]] for step in path]
                      for path in paths],
        }  # fmt: skip
        yield json.dumps(entry, ensure_ascii=False) + "\n"


def parse_labels(
    lines: Iterable[str | bytes], path: Path, data: HeteroData, link_type: EdgeType
) -> Labels:
    """Return the labels that lines state, in the indices of a graph.

    A step names an edge; which way it is walked is found out, and the step returned is the edge
    that `data` stores in this direction, if there is one. So it does not matter whether reverse
    relations were there when the labels were written.

    Args:
        lines: the lines of a file; bytes are UTF-8.
        path: how to call the file in errors.
        data: the graph, with the ids that the lines use.
        link_type: the relation that the labels explain.

    Raises:
        GraphError: a line is no such line, or names what is not in the graph; with the line.
    """
    reader = _Reader.of(data)
    labels: Labels = {}
    for number, line in enumerate(lines, start=1):
        try:
            link, paths = reader.link(json.loads(line), link_type)
            if link in labels:
                raise ValueError("the link is there already.")
        except json.JSONDecodeError as error:
            raise GraphError(f"{path}, line {number}: is not JSON: {error.msg}.") from error
        except ValueError as error:
            raise GraphError(f"{path}, line {number}: {error}") from error
        labels[link] = paths
    return labels


def _ids(data: HeteroData, node_type: str) -> Sequence[str]:
    store = data[node_type]
    return [str(key) for key in (store["id"] if "id" in store else range(store.num_nodes))]


@dataclass(frozen=True)
class _Reader:
    graph: TypedGraph
    index: dict[str, dict[str, int]]
    """Flat indices of the nodes by type and id."""

    @classmethod
    def of(cls, data: HeteroData) -> _Reader:
        graph = TypedGraph.from_data(data)
        index = {
            node_type: {key: int(first) + i for i, key in enumerate(_ids(data, node_type))}
            for node_type, first in zip(graph.node_types, graph.node_offset, strict=False)
        }
        return cls(graph, index)

    def link(self, entry: object, link_type: EdgeType) -> tuple[tuple[int, int], list[LabelPath]]:
        """Read a line; a ValueError says what is wrong with it."""
        if not isinstance(entry, dict) or entry.keys() != {"src", "dst", "paths"}:
            raise ValueError("must be an object of src, dst and paths.")
        src = self._node(link_type[0], entry["src"])
        dst = self._node(link_type[2], entry["dst"])
        if not isinstance(entry["paths"], list):
            raise ValueError("paths must be a list of lists of steps.")
        paths = [self._path(path, src, dst) for path in entry["paths"]]
        return (self.graph.node(src)[1], self.graph.node(dst)[1]), paths

    def _node(self, node_type: object, key: object) -> int:
        nodes = self.index.get(str(node_type), {})
        if str(key) not in nodes:
            raise ValueError(f"the graph has no {node_type} with the id {key!r}.")
        return nodes[str(key)]

    def _path(self, path: object, src: int, dst: int) -> LabelPath:
        if not isinstance(path, list) or not all(
            isinstance(step, list) and len(step) == 5 and all(isinstance(s, str) for s in step)
            for step in path
        ):
            raise ValueError(
                "a path must be a list of steps [source type, relation, target type, source id, "
                "target id], all of them texts."
            )
        node = src
        steps: list[Step] = []
        for src_type, relation, dst_type, src_key, dst_key in path:
            ends = self._node(src_type, src_key), self._node(dst_type, dst_key)
            if node not in ends:
                raise ValueError(f"step {len(steps) + 1} of a path does not go on from the last.")
            other = ends[1] if node == ends[0] else ends[0]
            steps.append(self._step(node, other, (src_type, relation, dst_type)))
            node = other
        if node != dst:
            raise ValueError("a path does not end at dst.")
        return tuple(steps)

    def _step(self, node: int, other: int, edge_type: EdgeType) -> Step:
        graph = self.graph
        edge = edge_walked(graph, node, other, self._stored(edge_type))
        if edge < 0:
            raise ValueError(
                f"the graph has no edge {edge_type} between {graph.node_id(node)!r} and "
                f"{graph.node_id(other)!r}."
            )
        return triple_of(graph, edge)

    def _stored(self, edge_type: EdgeType) -> EdgeType:
        """Return a relation of the graph: the given one, or the one that it is the reverse of."""
        known = self.graph.edge_types
        src, relation, dst = edge_type
        if edge_type not in known and relation.startswith(REVERSE_PREFIX):
            edge_type = dst, relation.removeprefix(REVERSE_PREFIX), src
        if edge_type not in known:
            raise ValueError(f"the graph has no relation {edge_type}.")
        return edge_type


# Data sets as folders: a graph as tables, and beside it what it is and its ground truth.
#
# - `nodes-*`, `edges-*`: the graph, the links to predict among its relations; `load_graph` reads
#   it.
# - `extra-dataset.json`: a `DatasetInfo`.
# - `extra-ground-truth.jsonl`: the ground-truth paths, see `pagelink.datasets.folders`.


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
