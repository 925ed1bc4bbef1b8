"""The books are consistent facts, and the readers follow the rule."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from pagelink.datasets.books import (
    FACTS,
    LINK_TYPE,
    READ,
    Books,
    generate_books,
    make_books_folder,
    read_books,
    read_names,
)
from pagelink.datasets.folders import read_info, read_labels
from pagelink.errors import SettingsError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.tables.load import load_graph


@pytest.fixture(scope="module")
def books() -> Books:
    return generate_books(seed=0)


def test_every_book_is_there_once_with_author_year_and_subjects() -> None:
    books = read_books()
    assert 120 <= len(books) <= 200
    assert len({book.title for book in books}) == len(books)
    assert [book.year for book in books] == sorted(book.year for book in books)
    for book in books:
        assert book.author
        assert 1400 < book.year < 1929  # in the public domain in the United States
        assert 1 <= len(book.subjects) <= 4
        assert len(book.places) <= 2
        for values in (book.subjects, book.places):
            assert len(set(values)) == len(values)
            assert all(value == value.strip() for value in values)


def test_names_mean_one_thing() -> None:
    books = read_books()
    kinds = [
        {book.title for book in books},
        *({name for book in books for name in book.values(kind)} for kind in FACTS),
        set(read_names()),
    ]
    assert len(read_names()) == len(set(read_names()))
    assert len(set.union(*kinds)) == sum(map(len, kinds))
    # Nothing is there twice in two spellings.
    assert len({name.casefold() for kind in kinds for name in kind}) == len(set.union(*kinds))
    for kind in ("subject", "place"):
        shared = Counter(name for book in books for name in book.values(kind))
        assert [name for name, count in shared.items() if count < 2] == []


def test_the_graph_says_what_the_table_says(books: Books) -> None:
    data = books.data
    for index, book in enumerate(read_books()):
        for kind, (relation, _) in FACTS.items():
            src, dst = data["book", relation, kind].edge_index
            names = {data[kind].name[i] for i in dst[src == index].tolist()}
            assert names == set(book.values(kind))
    assert data["book"].attributes.column("year").to_pylist() == [b.year for b in read_books()]


def test_every_fact_has_its_reverse(books: Books) -> None:
    graph = TypedGraph.from_data(books.data)
    assert len(graph.reverse) == len(books.data.edge_types)
    assert 2 * graph.num_facts == books.data.num_edges


def test_readers_read_and_like_by_the_rule(books: Books) -> None:
    data = books.data
    read = {i: set() for i in range(data["reader"].num_nodes)}
    for reader, book in data[READ].edge_index.t().tolist():
        read[reader].add(book)
    liked: dict[int, set[int]] = {reader: set() for reader in read}
    for reader, book in books.likes.t().tolist():
        liked[reader].add(book)
    for reader, interests in enumerate(books.interests):
        assert len(set(interests)) == 2
        wanted = set()
        for kind, index in interests:
            src, dst = data["book", FACTS[kind][0], kind].edge_index
            those = set(src[dst == index].tolist())
            assert 6 <= len(those) <= 12
            assert len(those & read[reader]) >= 3
            wanted |= those
        assert liked[reader] == wanted - read[reader]
        assert len(read[reader] - wanted) <= 1
        assert len(read[reader]) <= 7


def test_labels_are_the_paths_by_an_interest(books: Books) -> None:
    edges = {
        (*edge_type, *pair)
        for edge_type in books.data.edge_types
        for pair in books.data[edge_type].edge_index.t().tolist()
    }
    assert list(books.labels) == [tuple(link) for link in books.likes.t().tolist()]
    for (reader, liked), paths in books.labels.items():
        assert paths
        assert len(set(paths)) == len(paths)
        for first, second, third in paths:
            assert {first, second, third} <= edges
            assert (first[3], third[4]) == (reader, liked)
            assert first[4] == second[3]
            assert second[4] == third[3]
            assert (second[2], second[4]) in books.interests[reader]
    # All of them, for one link that two interests explain.
    link, paths = max(books.labels.items(), key=lambda item: len(item[1]))
    data, (reader, liked) = books.data, link
    mine = data[READ].edge_index[1][data[READ].edge_index[0] == reader].tolist()
    expected = sum(
        {(b, i), (liked, i)}
        <= set(map(tuple, data["book", FACTS[k][0], k].edge_index.t().tolist()))
        for k, i in books.interests[reader]
        for b in mine
    )
    assert len(paths) == expected


def test_the_seed_decides_the_readers_and_not_the_books(books: Books) -> None:
    again, other = generate_books(seed=0), generate_books(seed=1)
    assert torch.equal(again.likes, books.likes)
    assert again.labels == books.labels
    assert other.interests != books.interests
    for kind, (relation, _) in FACTS.items():
        edge_type = ("book", relation, kind)
        assert torch.equal(other.data[edge_type].edge_index, books.data[edge_type].edge_index)


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_readers": 0}, {"num_readers": 1000}, {"num_read": 6}, {"num_read": 0},
        {"num_interests": 0}, {"min_books": 13}, {"num_others": 1000},
    ],
)  # fmt: skip
def test_sizes_that_do_not_go_together_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=str(next(iter(sizes)))):
        generate_books(**sizes)  # type: ignore[arg-type]


def test_the_folder_has_the_same(tmp_path: Path, books: Books) -> None:
    made = make_books_folder(tmp_path / "books")
    assert made.num_links == books.likes.shape[1]
    data = load_graph(made.folder)
    labels = read_labels(made.folder, data)
    assert len(labels) == len(books.labels)
    assert sorted(map(len, labels.values())) == sorted(map(len, books.labels.values()))
    assert data["book"].name == books.data["book"].name
    info = read_info(made.folder)
    assert info is not None
    assert info.link_type == LINK_TYPE
    assert info.paper_split
    assert "free of copyright" in (info.licence or "")
