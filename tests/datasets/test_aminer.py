from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch_geometric.data import HeteroData

from pagelink.datasets.aminer import read_aminer
from pagelink.errors import GraphError
from pagelink.tables.load import load_graph, save_graph

PAPERS: list[dict[str, object]] = [
    {
        "id": 10,
        "title": "Paths in graphs",
        "authors": [{"name": "Ada", "id": 1, "org": "X"}, {"name": "Bo", "id": 2}],
        "references": [20, 99, 98, 20],
        "fos": [{"name": "Graph theory", "w": 0.5}, {"name": "Logic", "w": 0.25}],
        "year": 2001,
    },
    {"id": 20, "title": 'Łukasiewicz, "logics"', "authors": ["Cy"], "fos": ["Logic"]},
    {"id": 30, "authors": None, "references": [10, 99]},
]


def write(path: Path, papers: list[dict[str, object]]) -> Path:
    file = path / "papers.txt"
    file.write_text("".join(json.dumps(paper) + "\n" for paper in papers), encoding="utf-8")
    return file


def edges(data: HeteroData, *edge_type: str) -> list[tuple[str, str]]:
    """Return the edges of a relation in names."""
    src, dst = data[edge_type[0]].name, data[edge_type[2]].name
    return [(src[a], dst[b]) for a, b in data[edge_type].edge_index.T.tolist()]


def test_papers_become_a_graph(tmp_path: Path) -> None:
    data = read_aminer(write(tmp_path, PAPERS))
    assert {t: list(zip(data[t].id, data[t].name, strict=True)) for t in data.node_types} == {
        "author": [("1", "Ada"), ("2", "Bo"), ("Cy", "Cy")],
        "paper": [("10", "Paths in graphs"), ("20", 'Łukasiewicz, "logics"'), ("30", "30")],
        "reference": [("99", "99"), ("98", "98")],
        "field": [("Graph theory", "Graph theory"), ("Logic", "Logic")],
    }
    logics = 'Łukasiewicz, "logics"'
    assert edges(data, "author", "writes", "paper") == [
        ("Ada", "Paths in graphs"), ("Bo", "Paths in graphs"), ("Cy", logics)
    ]  # fmt: skip
    # Paper 20 comes after the paper that cites it.
    assert edges(data, "paper", "cites", "paper") == [
        ("Paths in graphs", logics), ("30", "Paths in graphs")
    ]  # fmt: skip
    assert edges(data, "paper", "cites", "reference") == [
        ("Paths in graphs", "99"), ("Paths in graphs", "98"), ("30", "99")
    ]  # fmt: skip
    assert edges(data, "paper", "in", "field") == [
        ("Paths in graphs", "Graph theory"), ("Paths in graphs", "Logic"), (logics, "Logic")
    ]  # fmt: skip
    weights = data["paper", "in", "field"].attributes
    assert weights.to_pydict() == {"weight": [0.5, 0.25, None]}
    assert len(data.edge_types) == 4


def test_it_is_the_graph_that_tables_hold(tmp_path: Path) -> None:
    data = read_aminer(write(tmp_path, PAPERS))
    loaded = load_graph(save_graph(data, tmp_path / "graph"), add_reverse=False)
    assert set(loaded.edge_types) == set(data.edge_types)
    for edge_type in data.edge_types:
        assert edges(loaded, *edge_type) == edges(data, *edge_type)
    assert loaded["paper"].id == data["paper"].id


def test_odd_lines_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "papers.json"
    lines = (
        "\ufeff[",
        '{"id": "a", "title": null, "authors": [{"id": "x"}, {"name": " Yi "}, {}, null]}',
        "",
        ',{"id": "b", "authors": [{"name": "Xu", "id": "x"}, "Yi"], "references": ["a", "", "a"]}',
        '{"id": "c", "authors": [{"name": "Other", "id": "x"}, {"id": "x"}], "fos": []},\r',
        "   ",
        "]",
    )
    file.write_bytes("\n".join(lines).encode())
    data = read_aminer(file)
    # The first name counts, also if it comes later than the node; types without nodes are left out.
    assert list(zip(data["author"].id, data["author"].name, strict=True)) == [
        ("x", "Xu"), ("Yi", "Yi")
    ]  # fmt: skip
    assert data["paper"].name == ["a", "b", "c"]
    assert edges(data, "author", "writes", "paper") == [
        ("Xu", "a"), ("Yi", "a"), ("Xu", "b"), ("Yi", "b"), ("Xu", "c")
    ]  # fmt: skip
    assert edges(data, "paper", "cites", "paper") == [("b", "a")]
    assert data.node_types == ["author", "paper"]
    assert len(data.edge_types) == 2


def test_fields_without_weights_have_no_column(tmp_path: Path) -> None:
    data = read_aminer(write(tmp_path, [{"id": 1, "fos": ["Logic", {"name": "Sets"}, "Logic"]}]))
    assert edges(data, "paper", "in", "field") == [("1", "Logic"), ("1", "Sets")]
    assert "attributes" not in data["paper", "in", "field"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": 1, "title": ', r"is not JSON: .* at character \d+"),
        (b"[1, 2]", r"must hold an object in braces, got \[1, 2\]"),
        (b'{"title": "no id"}', "the paper has no id"),
        (b'{"id": " "}', "the paper has no id"),
        (b'{"id": 10}', "the paper id '10' is there already"),
        (b'{"id": 1.5}', "id must be a text or an integer, got 1.5"),
        (b'{"id": true}', "id must be a text or an integer, got true"),
        (b'{"id": 1, "authors": "Ada"}', 'authors must be a list in brackets, got "Ada"'),
        (b'{"id": 1, "authors": [["Ada"]]}', "the name of an author must be a text"),
        (b'{"id": 1, "references": [{"id": 2}]}', "a reference must be a text or an integer"),
        (b'{"id": 1, "fos": [{"name": "Logic", "w": "0.5"}]}', "w in fos must be a number"),
        (b'{"id": 1, "title": "\xff"}', "is not UTF-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, message: str) -> None:
    file = tmp_path / "papers.txt"
    file.write_bytes(json.dumps(PAPERS[0]).encode() + b"\n\n" + line + b"\n")
    with pytest.raises(GraphError, match=rf"papers\.txt, line 3: {message}") as raised:
        read_aminer(file)
    assert "\n" not in str(raised.value)


def test_a_file_without_a_graph_is_refused(tmp_path: Path) -> None:
    for text in ("", "\n\n", '{"id": 1, "title": "Alone"}\n'):
        (tmp_path / "papers.txt").write_text(text)
        with pytest.raises(GraphError, match="no paper with an author, a reference or a field"):
            read_aminer(tmp_path / "papers.txt")
    with pytest.raises(GraphError, match=r"none\.txt: cannot be read: No such file"):
        read_aminer(tmp_path / "none.txt")


def test_an_error_does_not_repeat_all_of_a_long_line(tmp_path: Path) -> None:
    long = [{"id": 1, "authors": "A" * 10_000}]
    with pytest.raises(GraphError) as raised:
        read_aminer(write(tmp_path, long))  # type: ignore[arg-type]
    assert len(str(raised.value)) < 300 + len(str(tmp_path))
