"""Books: well-known public-domain books, and invented readers whose tastes follow a known rule.

The books, their authors, subjects and places are facts that anyone can check, in
`data/books.csv`. Facts are free of copyright; the selection is our own and under the licence of the
project. The readers are invented: `generate_books` has the rule by which they read and like.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from pagelink.datasets.folders import DatasetInfo, DatasetSummary, write_dataset
from pagelink.datasets.ground_truth import LabelPath, Labels
from pagelink.errors import SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.runtime.arrays import Longs

LINK_TYPE: EdgeType = ("reader", "will_like", "book")
READ: EdgeType = ("reader", "read", "book")
FACTS: dict[str, tuple[str, str]] = {
    "author": ("is_by", "wrote"),
    "subject": ("is_about", "rev_is_about"),
    "place": ("is_set_in", "rev_is_set_in"),
}
"""What is known of a book, by node type: the relation from the book, and the one to the book.
No verb agrees with all subjects ("whaling", "castaways") and places ("the South Seas"): these facts
always read from the book."""
LICENCE = (
    "Facts about published books, which are free of copyright; selected by the pagelink "
    "developers, MIT licence. The readers are invented."
)
Interest = tuple[str, int]
"""An author, a subject or a place: node type and index."""


@dataclass(frozen=True)
class Book:
    """A line of `data/books.csv`."""

    title: str
    author: str
    year: int
    """In which it was first published; of a serial, the first part."""
    subjects: tuple[str, ...]
    places: tuple[str, ...]
    """Where it is set; may be empty."""

    def values(self, node_type: str) -> tuple[str, ...]:
        """Return the names of its author, its subjects or its places."""
        return {"author": (self.author,), "subject": self.subjects, "place": self.places}[node_type]


def read_books() -> list[Book]:
    """Return the books that are shipped with the package, oldest first.

    Example:
        >>> read_books()[0].title
        "Le Morte d'Arthur"
    """
    with _data_file("books.csv").open(encoding="utf-8", newline="") as file:
        return [
            Book(
                row["title"], row["author"], int(row["year"]),
                tuple(filter(None, row["subjects"].split(";"))),
                tuple(filter(None, row["places"].split(";"))),
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip


def read_names() -> list[str]:
    """Return the first names of readers that are shipped with the package."""
    return _data_file("readers.txt").read_text(encoding="utf-8").split()


def _data_file(name: str) -> Path:
    return Path(str(resources.files("pagelink.datasets") / "data" / name))


@dataclass(frozen=True)
class Books:
    """The graph, the links to predict and the paths that explain them."""

    data: HeteroData
    """The graph for message passing, without `will_like`."""
    link_type: EdgeType
    likes: Tensor
    """The links to predict, [2, num_likes], ordered by reader and book."""
    labels: Labels
    """The paths of the rule, for every link."""
    interests: tuple[tuple[Interest, ...], ...]
    """Per reader; the graph does not have them."""


def generate_books(
    *,
    num_readers: int = 136,
    num_interests: int = 2,
    min_books: int = 6,
    max_books: int = 12,
    num_read: int = 3,
    num_others: int = 1,
    seed: int = 0,
) -> Books:
    """Return the graph of books with readers drawn by a rule.

    The rule: a reader has two interests, each an author, a subject or a place of 6 to 12 books. Of
    the books of an interest the reader has read three, drawn at random, and will like all others.
    The reader has also read one book drawn among all, which says nothing. So the paths that explain
    why a reader will like a book lead by a book that the reader has read and an interest that both
    have: Ada read "Robinson Crusoe", which is about castaways, as "The Mysterious Island" is. There
    are other paths to the same book, by what books have in common by chance and by other readers.

    Args:
        num_readers: number of readers; there are names for 136.
        num_interests: number of interests per reader.
        min_books: number of books of an interest at least, more than `num_read`.
        max_books: number of books of an interest at most.
        num_read: number of books of an interest that a reader has read.
        num_others: number of books drawn among all that a reader has read.
        seed: the same seed gives the same readers.

    Raises:
        SettingsError: numbers that do not go together.

    Example:
        >>> made = generate_books(seed=0)
        >>> made.data["book"].num_nodes
        199
    """
    books, names = read_books(), read_names()
    if not 1 <= num_readers <= len(names):
        raise SettingsError(f"num_readers must be in 1..{len(names)}, got {num_readers}.")
    data = _nodes(books, names[:num_readers])
    members = {
        interest: those
        for interest, those in _add_facts(data, books).items()
        if min_books <= len(those) <= max_books
    }
    known = list(members)
    if not (1 <= num_read < min_books and 1 <= num_interests <= len(known)):
        raise SettingsError(
            f"It must be that 1 <= num_read < min_books, and num_interests must be in "
            f"1..{len(known)}, the number of authors, subjects and places of {min_books} to "
            f"{max_books} books; got {num_read}, {min_books} and {num_interests}."
        )
    if not 0 <= num_others <= len(books):
        raise SettingsError(f"num_others must be in 0..{len(books)}, got {num_others}.")

    rng = np.random.default_rng(seed)
    interests, read = [], []
    for _ in range(num_readers):
        mine = tuple(known[i] for i in rng.choice(len(known), size=num_interests, replace=False))
        drawn = [rng.choice(members[i], size=num_read, replace=False) for i in mine]
        others = rng.choice(len(books), size=num_others, replace=False)
        interests.append(mine)
        read.append(np.unique(np.concatenate([*drawn, others])))
    ends = np.repeat(np.arange(num_readers), [len(those) for those in read]), np.concatenate(read)
    _add_relation(data, READ, "was_read_by", np.stack(ends))
    labels = _labels(data, interests, read, members)
    return Books(data, LINK_TYPE, torch.tensor(list(labels)).t(), labels, tuple(interests))


def make_books_folder(out: Path | str, seed: int = 0) -> DatasetSummary:
    """Generate the readers of the books and write the graph as a folder.

    Args:
        out: the folder to make.
        seed: the same seed gives the same files.

    Raises:
        GraphError: the folder is not empty or cannot be written.
    """
    made = generate_books(seed=seed)
    made.data[LINK_TYPE].edge_index = made.likes
    info = DatasetInfo("Books", LINK_TYPE, seed, {}, known=(READ[1],), licence=LICENCE)
    folder = write_dataset(out, made.data, made.labels, info=info)
    return DatasetSummary.of(folder, made.data, LINK_TYPE, made.labels)


def _nodes(books: list[Book], readers: list[str]) -> HeteroData:
    data = HeteroData()
    names = {"reader": readers, "book": [book.title for book in books]}
    for node_type in FACTS:
        names[node_type] = sorted({name for book in books for name in book.values(node_type)})
    for node_type, those in names.items():
        data[node_type].num_nodes = len(those)
        data[node_type].name = those
    data["book"].attributes = pa.table({"year": [book.year for book in books]})
    return data


def _add_facts(data: HeteroData, books: list[Book]) -> dict[Interest, Longs]:
    """Add what is known of the books; return the books of every author, subject and place."""
    members: dict[Interest, Longs] = {}
    for node_type, (relation, back) in FACTS.items():
        position = {name: index for index, name in enumerate(data[node_type].name)}
        pairs = np.array(
            [(i, position[name]) for i, book in enumerate(books) for name in book.values(node_type)]
        ).T
        _add_relation(data, ("book", relation, node_type), back, pairs)
        for index in range(len(position)):
            members[node_type, index] = pairs[0, pairs[1] == index]
    return members


def _add_relation(data: HeteroData, edge_type: EdgeType, back: str, pairs: Longs) -> None:
    data[edge_type].edge_index = torch.from_numpy(pairs)
    data[edge_type[2], back, edge_type[0]].edge_index = torch.from_numpy(pairs[::-1].copy())


def _labels(
    data: HeteroData,
    interests: list[tuple[Interest, ...]],
    read: list[Longs],
    members: dict[Interest, Longs],
) -> Labels:
    """Return the paths of the rule; those by the least connected nodes first, as in the paper."""
    degree = {node_type: np.zeros(data[node_type].num_nodes) for node_type in data.node_types}
    for edge_type in data.edge_types:  # every fact is there in both directions
        degree[edge_type[0]] += np.bincount(
            data[edge_type].edge_index[0].numpy(), minlength=len(degree[edge_type[0]])
        )
    found: dict[tuple[int, int], list[tuple[float, LabelPath]]] = {}
    for reader, (mine, those) in enumerate(zip(interests, read, strict=True)):
        for node_type, index in mine:
            relation, back = FACTS[node_type]
            of_interest = members[node_type, index]
            for liked in np.setdiff1d(of_interest, those).tolist():
                for book in np.intersect1d(of_interest, those).tolist():
                    path: LabelPath = (
                        (*READ, reader, book),
                        ("book", relation, node_type, book, index),
                        (node_type, back, "book", index, liked),
                    )
                    rank = degree["book"][book] + degree[node_type][index]
                    found.setdefault((reader, liked), []).append((rank, path))
    return {link: [path for _, path in sorted(found[link])] for link in sorted(found)}
