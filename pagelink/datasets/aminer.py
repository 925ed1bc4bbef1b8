"""The AMiner citation files read as a graph: one JSON object per line, one line per paper."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch_geometric.data import HeteroData

from pagelink.datasets.folders import DatasetSummary, check_new_folder
from pagelink.errors import GraphError
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Longs
from pagelink.tables.files import file_errors
from pagelink.tables.load import save_graph

WRITES: EdgeType = ("author", "writes", "paper")
CITES: EdgeType = ("paper", "cites", "paper")
CITES_OTHER: EdgeType = ("paper", "cites", "reference")
IN: EdgeType = ("paper", "in", "field")


def read_aminer(path: Path | str) -> HeteroData:
    r"""Read an AMiner citation file.

    Each line is a JSON object with `id`, the only field that must be there, `title`, `authors` (a
    list of `{"name", "id"}`, or of names), `references` (a list of ids) and `fos` (fields of study:
    a list of `{"name", "w"}`, or of names). Other fields are ignored, and so are blank lines. The
    object may also be an element of an array that has one element per line.

    The graph has nodes of the types author, paper, field, and reference: a cited paper that has no
    line of its own. They have an `id` and a `name`; the name is the id, or the id the name, where
    only one is known. Relations are (author, writes, paper), (paper, cites, paper),
    (paper, cites, reference) and (paper, in, field), the last with the column `weight` if the file
    has weights. What a line says twice is one edge. Types without nodes are left out. Nodes and
    edges are in the order of their first appearance.

    The file is read line by line; memory is proportional to the graph.

    Raises:
        GraphError: the file cannot be read, or holds no graph; with the line.

    Example:
        >>> import tempfile
        >>> line = '{"id": 7, "title": "Paths", "authors": [{"name": "Ada", "id": 1}], "fos": []}\n'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "papers.json"
        ...     _ = file.write_text(line)
        ...     data = read_aminer(file)
        >>> data["author"].name, data["paper"].id, data.edge_types
        (['Ada'], ['7'], [('author', 'writes', 'paper')])
    """
    path = Path(path)
    graph = _GraphSoFar()
    with file_errors(path, "read"), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                # Some releases are one JSON array, with the commas at either end of the lines.
                text = line.decode("utf-8-sig").strip().strip(",").strip()
                if text not in ("", "[", "]"):
                    graph.add(json.loads(text))
            except UnicodeDecodeError as error:
                raise GraphError(f"{path}, line {number}: is not UTF-8.") from error
            except json.JSONDecodeError as error:
                raise GraphError(
                    f"{path}, line {number}: is not JSON: {error.msg} at character {error.pos + 1} "
                    "of it. Each line must hold one whole object."
                ) from error
            except ValueError as error:
                raise GraphError(f"{path}, line {number}: {error}") from error
    data = graph.finish()
    if not data.edge_types:
        raise GraphError(f"{path}: there is no paper with an author, a reference or a field in it.")
    return data


def make_aminer_folder(source: Path | str, out: Path | str) -> DatasetSummary:
    """Write the graph of an AMiner citation file as a folder of tables.

    Raises:
        GraphError: the file cannot be read, or the folder is not empty or cannot be written.
    """
    check_new_folder(out)
    data = read_aminer(source)
    return DatasetSummary.of(save_graph(data, out), data)


def _items(entry: dict[str, object], key: str) -> list[object]:
    items = entry.get(key)
    if items is None:
        return []
    if not isinstance(items, list):
        raise ValueError(f"{key} must be a list in brackets, got {_short(items)}.")
    return items


def _word(value: object, what: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{what} must be a text or an integer, got {_short(value)}.")
    return str(value).strip()


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:40]}..."


class _Nodes:
    """Nodes of one type, numbered as they come."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
        self.names: list[str] = []

    def add(self, key: str, name: str = "") -> int:
        index = self.index.setdefault(key, len(self.index))
        if index == len(self.names):
            self.names.append(name)
        # The first name counts, once there is one.
        self.names[index] = self.names[index] or name
        return index


class _GraphSoFar:
    """What has been read; which cited ids are papers of the file is known at the end only."""

    def __init__(self) -> None:
        self.authors, self.papers, self.cited, self.fields = (_Nodes() for _ in range(4))
        # The two ends of one edge after the other; lists of Python integers would take far more.
        self.writes, self.cites, self.has_field = (array("q") for _ in range(3))
        self.weights = array("d")

    def add(self, entry: object) -> None:
        """Read a line, which is one paper; a ValueError says what is wrong with it."""
        if not isinstance(entry, dict):
            raise ValueError(f"must hold an object in braces, got {_short(entry)}.")
        key = _word(entry.get("id"), "id")
        if not key:
            raise ValueError("the paper has no id.")
        if key in self.papers.index:
            raise ValueError(f"the paper id {key!r} is there already.")
        paper = self.papers.add(key, _word(entry.get("title"), "title"))
        authors: dict[str, str] = {}
        for item in _items(entry, "authors"):
            author = item if isinstance(item, dict) else {"name": item}
            name = _word(author.get("name"), "the name of an author")
            authors.setdefault(_word(author.get("id"), "the id of an author") or name, name)
        fields: dict[str, float] = {}
        for item in _items(entry, "fos"):
            field = item if isinstance(item, dict) else {"name": item}
            weight = np.nan if field.get("w") is None else field["w"]
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise ValueError(f"w in fos must be a number, got {_short(weight)}.")
            fields.setdefault(_word(field.get("name"), "the name in fos"), float(weight))
        cited = dict.fromkeys(_word(item, "a reference") for item in _items(entry, "references"))
        for found in (authors, fields, cited):
            found.pop("", None)  # null, or an object that says nothing
        for key, name in authors.items():
            self.writes.extend((self.authors.add(key, name), paper))
        for key in cited:
            self.cites.extend((paper, self.cited.add(key)))
        for name, weight in fields.items():
            self.has_field.extend((paper, self.fields.add(name)))
            self.weights.append(weight)

    def finish(self) -> HeteroData:
        data = HeteroData()
        papers = self.papers.index
        references = _Nodes()
        inside = np.array([key in papers for key in self.cited.index], dtype=bool)
        target = np.array(
            [papers[key] if key in papers else references.add(key) for key in self.cited.index],
            dtype=np.int64,
        )
        for node_type, nodes in (
            ("author", self.authors), ("paper", self.papers),
            ("reference", references), ("field", self.fields),
        ):  # fmt: skip
            if nodes.index:
                data[node_type].num_nodes = len(nodes.index)
                data[node_type].id = list(nodes.index)
                data[node_type].name = [
                    name or key for key, name in zip(nodes.index, nodes.names, strict=True)
                ]
        paper, cited = _ends(self.cites)
        to_paper = inside[cited]
        cites = np.stack([paper, target[cited]])
        for edge_type, edge_index in (
            (WRITES, _ends(self.writes)),
            (CITES, cites[:, to_paper]),
            (CITES_OTHER, cites[:, ~to_paper]),
            (IN, _ends(self.has_field)),
        ):
            if edge_index.shape[1]:
                data[edge_type].edge_index = torch.from_numpy(edge_index)
        weight = pa.array(np.array(self.weights), from_pandas=True)  # NaN becomes null
        if weight.null_count < len(weight):
            data[IN].attributes = pa.table({"weight": weight})
        return data


def _ends(edges: array[int]) -> Longs:
    """Return an edge list [2, num_edges] of its own, out of edges one after the other."""
    return np.ascontiguousarray(np.array(edges, dtype=np.int64).reshape(-1, 2).T)
