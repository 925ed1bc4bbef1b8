from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelink.errors import GraphError
from pagelink.tables.load import build_store, load_graph, save_graph

KNOWS = ("entity", "knows", "entity")


def table(folder: Path, text: str, name: str = "triples.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_nodes_are_in_order_of_first_appearance(tmp_path: Path) -> None:
    data = load_graph(
        table(tmp_path, "head,relation,tail\nb,knows,007\na,knows,b\n7,likes,b\na,knows,b\n")
    )
    assert data["entity"].id == data["entity"].name == ["b", "007", "a", "7"]
    assert data["entity"].num_nodes == 4
    assert data.edge_types == [
        KNOWS, ("entity", "likes", "entity"),
        ("entity", "rev_knows", "entity"), ("entity", "rev_likes", "entity"),
    ]  # fmt: skip
    assert data[KNOWS].edge_index.tolist() == [[0, 2, 2], [1, 0, 0]]


def test_types_names_and_further_columns(tmp_path: Path) -> None:
    data = load_graph(
        table(
            tmp_path,
            "Tail_Name\tHEAD\tRelation\ttail\thead_type\ttail_type\thead_name\tpmid\tweight\n"
            "T2D\t1\ttreats\tMONDO:5148\tdrug\tdisease\t\t0012\t0.5\n"
            "\t1\tbinds\t1\tdrug\tgene\tmetformin\t0013\t1\n"
            '"type 2, diabetes"\t2\ttreats\tMONDO:5148\tdrug\tdisease\t\t0014\t2\n',
            "triples.tsv",
        ),
        add_reverse=False,
    )
    assert data.node_types == ["disease", "drug", "gene"]
    assert data["drug"].id == ["1", "2"]
    assert data["drug"].name == ["metformin", "2"]  # the first name that is not empty
    assert data["disease"].name == ["T2D"]
    assert data["gene"].id == data["gene"].name == ["1"]  # not the drug 1
    treats = data["drug", "treats", "disease"]
    assert treats.edge_index.tolist() == [[0, 1], [0, 0]]
    assert treats.attributes.to_pydict() == {"pmid": ["0012", "0014"], "weight": [0.5, 2.0]}
    binds = data["drug", "binds", "gene"]
    assert binds.attributes.to_pydict() == {"pmid": ["0013"], "weight": [1.0]}


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "triples.parquet"
    columns = {
        "head": [3, 1],
        "relation": ["knows"] * 2,
        "tail": ["1", "3"],
        "head_name": ["a", None],
    }
    pa.parquet.write_table(pa.table(columns), path, row_group_size=1)
    data = load_graph(path)
    assert data["entity"].id == ["3", "1"]
    assert data["entity"].name == ["a", "1"]
    assert data[KNOWS].edge_index.tolist() == [[0, 1], [1, 0]]
    assert data.edge_types == [KNOWS]  # both directions of the edge are there


def test_saved_as_a_folder_it_is_the_same_graph(tmp_path: Path) -> None:
    text = "head,relation,tail,note\n" + "".join(
        f"{i},is/has,{i * i % 7},n{i}\n" for i in range(20)
    )
    data = load_graph(table(tmp_path, text))
    again = load_graph(save_graph(data, tmp_path / "graph"))
    assert again.metadata() == data.metadata()
    for edge_type in data.edge_types:
        assert again[edge_type].edge_index.tolist() == data[edge_type].edge_index.tolist()
        assert again[edge_type].attributes == data[edge_type].attributes
    assert again["entity"].id == data["entity"].id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("head,relation,tail\n", "triples.csv: there are no triples"),
        ("", "triples.csv: the file is empty"),
        (
            "head,relatoin,tail\na,b,c\n",
            r"triples.csv, line 1 .*no column 'relation', only 'head', 'relatoin'",
        ),
        ("head,relation,tail\na,b,c\n,b,c\n", "triples.csv, line 3: head is empty"),
        ("head,relation,tail\na,,c\n", "triples.csv, line 2: relation is empty"),
        ('head,relation,tail\na,r,c\n\na,r,""\n', "triples.csv, line 4: tail is empty"),
        ("head,relation,tail,tail_type\na,b,c,d\n", "head_type and tail_type must both be there"),
        ("head,relation,tail,head_type,tail_type\na,b,c,d,\n", "line 2: tail_type is empty"),
        ("head,relation,tail\na,b\n", "triples.csv, line 2: the row has 2 fields"),
    ],
)
def test_bad_triples(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        load_graph(table(tmp_path, text))
    assert "\n" not in str(caught.value)
    # Read in pieces, they are refused in the same words.
    with pytest.raises(GraphError, match=f"^{re.escape(str(caught.value))}$"):
        build_store(tmp_path / "triples.csv", tmp_path / "store")


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"graph.doc: a table of triples ends in .csv, .tsv"):
        load_graph(table(tmp_path, "head,relation,tail\na,b,c\n", "graph.doc"))


ends = st.tuples(st.sampled_from("uv"), st.sampled_from("0123"))
names = st.sampled_from(["", "Ada", "Bo"])
rows = st.lists(st.tuples(ends, st.sampled_from("rs"), ends, names, names), min_size=1, max_size=30)


@given(rows)
def test_against_a_loop_over_the_rows(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[tuple[str, str], str, tuple[str, str], str, str]],
) -> None:
    ids: dict[str, list[str]] = {}
    called: dict[tuple[str, str], str] = {}
    edges: dict[tuple[str, str, str], list[list[int]]] = {}
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for number, (head, relation, tail, head_name, tail_name) in enumerate(rows):
        for (kind, key), name in ((head, head_name), (tail, tail_name)):
            if key not in ids.setdefault(kind, []):
                ids[kind].append(key)
            if name:
                called.setdefault((kind, key), name)
        edge_type = (head[0], relation, tail[0])
        ends = [ids[kind].index(key) for kind, key in (head, tail)]
        edges.setdefault(edge_type, []).append(ends)
        numbers.setdefault(edge_type, []).append(number)
    header = "head_type,head,relation,tail_type,tail,head_name,tail_name,number\n"
    lines = [",".join([*h, r, *t, hn, tn, str(i)]) for i, (h, r, t, hn, tn) in enumerate(rows)]
    folder = tmp_path_factory.mktemp("triples")
    data = load_graph(table(folder, header + "\n".join(lines)), add_reverse=False)
    assert {t: data[t].id for t in data.node_types} == ids
    for kind in ids:
        assert data[kind].name == [called.get((kind, key), key) for key in ids[kind]]
    assert {t: data[t].edge_index.t().tolist() for t in data.edge_types} == edges
    assert {t: data[t].attributes["number"].to_pylist() for t in data.edge_types} == numbers
