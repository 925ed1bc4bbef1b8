from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink.errors import GraphError
from pagelink.store.writer import StoreWriter, save_store
from pagelink.tables import text as text_files
from pagelink.tables.link_tables import read_links
from pagelink.tables.load import build_store, load_graph, save_graph

TABLES = {
    "nodes-user.csv": b"id,name\nu1,Ada\nu2,Bo\n",
    "nodes-item.csv": b"id,name\n007,pen\n8,ink\nMONDO:0005148,diabetes\n",
    "edges-user__buys__item.csv": b"src,dst\nu1,8\nu2,007\n",
}
EDGES = "edges-user__buys__item.csv"


def refused(folder: Path, files: dict[str, bytes | None]) -> str:
    """Write the tables with some changed, added or (None) left out; return the error on loading."""
    for name, content in (TABLES | files).items():
        if content is not None:
            (folder / name).write_bytes(content)
    with pytest.raises(GraphError) as caught:
        load_graph(folder)
    message = str(caught.value)
    assert "\n" not in message, "an error is one line"
    # Tables that are read in pieces are refused in the same words.
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        build_store(folder, folder.parent / f"{folder.name}-store", edges_in_memory=1)
    return message


HEADER = ", line 1 (columns separated by commas): there"
FIELDS = "the row has {} fields, the first one has {}."
ENCODING = "the text is not UTF-8 (byte 0x{:x}). Save the file as UTF-8."
QUOTES = 'the quotes (") in this row do not match.'
EMPTY = ": the file is empty."
NO_USER = "but nodes-user.csv has no user with this id."
NO_ITEM = "but nodes-item.csv has no item with this id."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"src,dst\nu1,8\nu3,8\n", f", line 3: src is 'u3', {NO_USER}"),
        (
            b"src,dst\nu1,MONDO:0005184\n",
            f", line 2: dst is 'MONDO:0005184', {NO_ITEM} Did you mean 'MONDO:0005148'?",
        ),
        (b"src,dst\nu1,7\n", f", line 2: dst is '7', {NO_ITEM} Did you mean '007'?"),
        (b"src,dst\nU1 ,8\n", f", line 2: src is 'U1 ', {NO_USER} Did you mean 'u1'?"),
        (b"src,dst\nu1,zzz\n", f", line 2: dst is 'zzz', {NO_ITEM}"),
        # Lines are counted as an editor does: blank ones, and those within quotes, too.
        (b'src,dst,n\r\nu1,8,"a\r\nb\r\nc"\r\n\r\nu2,9,\r\n', ", line 6: dst is '9'"),
        (b"src,dst\ru1,8\ru2,9\r", ", line 3: dst is '9'"),
        (b"\n\nsrc,dst\nu2,9\n", ", line 4: dst is '9'"),
        (b"src,dst\nu1,8\n,8\n", ", line 3: src is empty."),
        (b'src,dst\nu1,""\n', ", line 2: dst is empty."),
        (b"src,target\nu1,8\n", f"{HEADER} is no column 'dst', only 'src', 'target'."),
        (b"src;dst\nu1;8\n", f"{HEADER} is no column 'src', only 'src;dst'."),
        (b"src,dst,SRC\nu1,8,u1\n", f"{HEADER} are two columns 'src'."),
        (b",src,dst\n0,u1,8\n", ", line 1 (columns separated by commas): column 1 has no name."),
        (b"src,dst\nu1,8\nu1,8,9\n", f", line 3: {FIELDS.format(3, 2)}"),
        (b"src,dst\nu1,8\nu1\n", f", line 3: {FIELDS.format(1, 2)}"),
        (b'src,dst,n\nu1,8,"a\nb"\nu1,8\n', f", line 4: {FIELDS.format(2, 3)}"),
        (b"src,dst,n\nu1,8,caf\xe9\n", f", line 2: {ENCODING.format(0xE9)}"),
        (b"src,dst,\xe9\nu1,8,a\n", f", line 1: {ENCODING.format(0xE9)}"),
        (b"src,dst,n\ru1,8,a\ru1,8,\xe9\r", f", line 3: {ENCODING.format(0xE9)}"),
        ("src,dst\nu1,8\n".encode("utf-16"), f", line 1: {ENCODING.format(0xFF)}"),
        (b'src,dst,n\nu1,8,"\xff\n', f", line 2: {ENCODING.format(0xFF)}"),
        # All rows after the quote would be one long note.
        (b'src,dst,n\nu1,8,a\nu1,8,"open\nu2,8,b\nu2,8,c\n', f", line 3: {QUOTES}"),
        (b'src,dst,n\nu1,8,"' + b"long\n" * 50_000, f", line 2: {QUOTES}"),
        (b"", EMPTY),
        (b"\n\r\n\n", EMPTY),
        (b"\xef\xbb\xbf", EMPTY),
    ],
)
def test_edges(tmp_path: Path, text: bytes, message: str) -> None:
    found = refused(tmp_path, {EDGES: text})
    assert found.startswith(f"{tmp_path / EDGES}{message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"id,name\nu1,a\nu2,b\n\nu1,c\n", ", line 5: the id 'u1' is there already, on line 2."),
        (b"id,name\nu1,a\n,b\n", ", line 3: id is empty."),
        (b"name,age\na,3\n", "there is no column 'id', only 'name', 'age'."),
        (b"id,name\nu1,a,b\n", ", line 2: the row has 3 fields, the first one has 2."),
        (b"id,name\nu1,\xc3\n", ", line 2: the text is not UTF-8"),
        (b"", ": the file is empty."),
    ],
)
def test_nodes(tmp_path: Path, text: bytes, message: str) -> None:
    found = refused(tmp_path, {"nodes-user.csv": text})
    assert str(tmp_path / "nodes-user.csv") in found
    assert message in found


@pytest.mark.parametrize(
    "name",
    [
        "edges-a_b.csv", "edges-a__b.csv", "edges-a__b__c__d.csv", "edges-user____item.csv",
        "edges.csv", "nodes.csv", "nodes-.csv", "nodes-a__b.csv", "node-user.csv", "users.parquet",
        "nodes-user.xlsx", "edges-user__buys__item.csv.gz", "Nodes-gene.csv",
    ],
)  # fmt: skip
def test_wrong_names_of_files(tmp_path: Path, name: str) -> None:
    found = refused(tmp_path, {name: b"id\n1\n"})
    assert found.startswith(f"{tmp_path / name}: a table is called nodes-<type> or edges-")


def test_the_same_table_twice(tmp_path: Path) -> None:
    found = refused(tmp_path, {"nodes-user.tsv": b"id\nu1\n"})
    assert found.endswith("nodes-user.tsv: nodes-user.csv is there too, and means the same table.")


def test_missing_tables(tmp_path: Path) -> None:
    found = refused(tmp_path, {"nodes-item.csv": None, "nodes-items.csv": b"id\n8\n"})
    assert found.startswith(
        f"{tmp_path / EDGES}: there are no nodes of type 'item', the file nodes-"
    )
    assert found.endswith("nodes-item.csv (or .tsv, .parquet) is missing. Did you mean 'items'?")
    (tmp_path / EDGES).unlink()
    with pytest.raises(GraphError, match=r": there is no table of edges. .*edges-<source type>__"):
        load_graph(tmp_path)
    with pytest.raises(GraphError, match="graphs: there is no such file or folder"):
        load_graph(tmp_path / "graphs")
    (tmp_path / "graph").mkdir()
    with pytest.raises(GraphError, match=r"no such file or folder. Did you mean 'graph'\?"):
        load_graph(tmp_path / "graphs")
    with pytest.raises(GraphError, match="graph: there is no table of edges"):
        load_graph(tmp_path / "graph")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_folder_where_a_file_should_be(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"nodes-tag.{suffix}").mkdir()
    found = refused(tmp_path, {})
    assert f"nodes-tag.{suffix}: cannot be read: " in found


def parquet(folder: Path, columns: dict[str, object]) -> str:
    pa.parquet.write_table(pa.table(columns), folder / EDGES.replace("csv", "parquet"))
    return refused(folder, {EDGES: None})


def test_parquet(tmp_path: Path) -> None:
    found = parquet(tmp_path, {"src": ["u1", "u1"], "dst": ["8", "9"]})
    assert "edges-user__buys__item.parquet, row 2: dst is '9'" in found
    found = parquet(tmp_path, {"src": ["u1", None], "dst": ["8", "8"]})
    assert "edges-user__buys__item.parquet, row 2: src is empty." in found
    found = parquet(tmp_path, {"src": ["u1"], "dst": [8.0]})
    assert ": the column 'dst' must hold text or integers, it holds double." in found
    found = parquet(tmp_path, {"src": ["u1"]})
    assert ": there is no column 'dst', only 'src'." in found


@pytest.mark.parametrize("content", [b"", b"id\n1\n", b"PAR1 this is not really one PAR1"])
def test_a_file_that_is_not_parquet(tmp_path: Path, content: bytes) -> None:
    found = refused(tmp_path, {"nodes-user.csv": None, "nodes-user.parquet": content})
    assert "nodes-user.parquet: cannot be read: " in found


def test_a_suggestion_does_not_take_long(tmp_path: Path) -> None:
    ids = b"".join(b"gene:%07d\n" % i for i in range(300_000))
    files = {"nodes-item.csv": b"id\n" + ids, EDGES: b"src,dst\nu1,gene:x299999\n"}
    assert "has no item with this id. Did you mean 'gene:" in refused(tmp_path, dict(files))


# Features


FINITE = "but a feature is a finite number"


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-inf", "1e39", "-4e38"])
def test_features_that_are_not_finite(tmp_path: Path, value: str) -> None:
    text = f"id,age,size\nu1,1,2\nu2,3,{value}\n".encode()
    message = refused(tmp_path, {"nodes-user.csv": text})
    assert re.search(rf"nodes-user\.csv, line 3: size is .*, {FINITE}", message)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39])
def test_features_of_parquet_that_are_not_finite(tmp_path: Path, value: float) -> None:
    table = pa.table({"id": ["u1", "u2", "u3"], "size": [0.5, value, 2.0]})
    pa.parquet.write_table(table, tmp_path / "nodes-user.parquet")
    message = refused(tmp_path, {"nodes-user.csv": None})
    assert f"nodes-user.parquet, row 2: size is {value}, {FINITE}" in message


def test_columns_with_gaps_are_attributes_and_may_hold_anything(tmp_path: Path) -> None:
    for name, content in TABLES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "nodes-user.csv").write_text("id,size\nu1,nan\nu2,\n")
    data = load_graph(tmp_path)
    assert "x" not in data["user"]
    assert data["user"].attributes["size"][1].as_py() is None


@pytest.mark.parametrize("key", ["x", "edge_attr", "edge_weight"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_of_a_graph_in_memory_that_are_not_finite(
    tmp_path: Path, key: str, value: float
) -> None:
    data = HeteroData()
    data["user"].num_nodes = 2
    data["user", "knows", "user"].edge_index = torch.tensor([[0, 1], [1, 0]])
    place = data["user"] if key == "x" else data["user", "knows", "user"]
    place[key] = torch.tensor([[1.0, 2.0], [3.0, value]])
    with pytest.raises(GraphError, match=rf"{key}: \[1, 1\] is {value}, but features are finite"):
        save_store(data, tmp_path / "store")
    if key == "x":
        with pytest.raises(GraphError, match=rf"{key}: \[1, 1\] is {value}"):
            save_graph(data, tmp_path / "graph")
    with StoreWriter(tmp_path / "pieces") as writer:
        writer.add_nodes("user", 4)
        pieces = [np.ones((3, 1)), np.array([[value]])]
        with pytest.raises(GraphError, match=r"The features of 'user': \[3, 0\] is"):
            writer.set_features("user", iter(pieces))


# Long fields


def test_long_fields_are_read(tmp_path: Path) -> None:
    long = "x" * 200_000
    for name, content in TABLES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "nodes-user.csv").write_text(f"id,text\nu1,{long}\nu2,short\n")
    (tmp_path / EDGES).write_text(f"src,dst,text\nu1,8,{long}\nu2,007,\n")
    before = csv.field_size_limit()
    data = load_graph(tmp_path)
    assert data["user"].attributes["text"].to_pylist() == [long, "short"]
    assert data["user", "buys", "item"].attributes["text"][0].as_py() == long
    (tmp_path / "links.csv").write_text(f"src,dst\n{long},8\nu1,8\n")
    assert [row.link for row in read_links(tmp_path / "links.csv")] == [(long, "8"), ("u1", "8")]
    assert csv.field_size_limit() == before, "it is one for the whole process"


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_field_that_is_too_long_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quote: str
) -> None:
    monkeypatch.setattr(text_files, "MOST_CHARACTERS", 1000)
    text = f"id,text\nu1,{quote}{'x' * 1001}{quote}\nu2,short\n".encode()
    message = refused(tmp_path, {"nodes-user.csv": text})
    assert "line 2: a field that begins in this row has more than 1,000 characters" in message
    (tmp_path / "links.csv").write_text(f"src,dst\nu1,8\n{'x' * 1001},8\n")
    with pytest.raises(GraphError, match=r"line 3: a field .* has more than 1,000 characters"):
        read_links(tmp_path / "links.csv")
