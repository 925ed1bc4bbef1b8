"""Triples as they come: no header, compressed, N-Triples, with names and held-out parts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from pagelink.errors import GraphError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.tables.load import build_store, load_graph, save_graph
from pagelink.tables.triples import held_out_files, read_held_out
from pagelink.tables.words import Words

ROWS = (("m1", "/film/genre", "g1"), ("m2", "/film/genre", "g1"), ("p1", "acts_in", "m2"))
GENRE, ACTS = ("entity", "/film/genre", "entity"), ("entity", "acts_in", "entity")


def text(separator: str, header: str = "") -> str:
    return header + "".join(separator.join(row) + "\n" for row in ROWS)


def nt() -> str:
    lines = [f"<{h}> <{r}> <{t}> .\n" for h, r, t in ROWS]
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    lines += [f'<m1> {label} "Étranger"@fr .\n', f'<m1> {label} "Al\\u0069en \\"1\\""@en .\n']
    return "# a comment\n\n" + "".join(lines) + '<m1> <year> "1979"^^<http://x/int> .\n'


FILES = {
    "a.txt": text("\t"),
    "b.txt": text(","),
    "a.tsv": text("\t"),
    "a.csv": text(","),
    "named.csv": text(",", "subject,predicate,object\n"),
    "hetionet.tsv": text("\t", "source\tmetaedge\ttarget\n"),
    "neo.csv": "from,to,type\n" + "".join(f"{h},{t},{r}\n" for h, r, t in ROWS),
    "turned.tsv": "T\tR\tH\n" + "".join(f"{t}\t{r}\t{h}\n" for h, r, t in ROWS),
    "a.nt": nt(),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_is_the_same_graph(tmp_path: Path, name: str, compressed: bool) -> None:
    content = FILES[name].encode()
    path = tmp_path / (f"{name}.gz" if compressed else name)
    path.write_bytes(gzip.compress(content) if compressed else content)
    data = load_graph(path, add_reverse=False)
    assert data["entity"].id == ["m1", "g1", "m2", "p1"]
    assert data[GENRE].edge_index.tolist() == [[0, 2], [1, 1]]
    assert data[ACTS].edge_index.tolist() == [[3], [2]]
    store = build_store(path, tmp_path / "store", add_reverse=False, edges_in_memory=2)
    assert store.schema["relations"][0]["count"] == 2
    assert list(store.data["entity"].name) == data["entity"].name
    assert data["entity"].name[0] == ('Alien "1"' if ".nt" in name else "m1")


@pytest.mark.parametrize("names", ["012", ["f1", "f2", "f3"], ["Head", "Relation", "Tail"]])
def test_parquet_with_names_or_numbers_of_columns(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table([*map(list, zip(*ROWS, strict=True))], [*names]), path)
    data = load_graph(path, add_reverse=False)
    assert data["entity"].id == ["m1", "g1", "m2", "p1"]
    assert data[GENRE].edge_index.tolist() == [[0, 2], [1, 1]]
    pa.parquet.write_table(pa.table([["m1"], ["a"], ["g1"]], ["0", "1", "3"]), path)
    with pytest.raises(GraphError, match="there is no column 'head'"):
        load_graph(path)


def test_quotes_are_letters_in_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text('5" nail\tis_a\tnail\n"x\tis_a\tnail\n')
    assert load_graph(path)["entity"].id == ['5" nail', "nail", '"x']


def test_faults_are_named_with_their_line(tmp_path: Path) -> None:
    for name, content, wanted in (
        ("a.txt", "a\tr\tb\na\tr\n", "line 2: the row has 2 fields"),
        ("b.txt", "a\tr\tb\na\t\tb\n", "line 2: relation is empty"),
        ("c.tsv", "a\tr\tb\t3\n", "there is no header, and 4 columns"),
        ("d.nt", "<a> <r> <b> .\n<a> <r> b .\n", "line 2: this is no triple"),
        ("e.csv", "head,relation\na,b\n", "there is no column 'tail'"),
        ("f.txt", "a\tb\nc\td\n", "there is no header, and 2 columns.*Pairs of one relation"),
        ("g.txt", "a r b\nc r d\n", "and 1 column. Without a header they are head, relation, tail"),
        ("h.txt", "Head\tis part of\tBody\n", "put one above it that does: head, relation, tail"),
        ("i.txt", "", "the file is empty"),
        ("j.csv", "head,relation,tail\n", "there are no triples"),
    ):
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(GraphError, match=wanted):
            load_graph(path)


def test_a_header_of_other_words_is_no_triple(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    rows = "".join(f"a{i}\tr{i % 3}\tb{i % 4}\n" for i in range(9))
    path.write_text("Quelle\tArt\tZiel\n" + rows)
    with pytest.raises(GraphError, match=r"line 1: none of 'Quelle', 'Art', 'Ziel' is in any"):
        load_graph(path)
    path.write_text("Quelle\tr1\tZiel\n" + rows)  # the relation occurs again
    assert load_graph(path)["entity"].id[:2] == ["Quelle", "Ziel"]
    path.write_text("head\trelation\ttail\nQuelle\tArt\tZiel\n" + rows)  # as the error says
    assert load_graph(path)["entity"].id[:2] == ["Quelle", "Ziel"]


def test_what_a_spreadsheet_or_an_editor_adds(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbf"Smith, Ada",works at / for,x-y\r\n\r\nx-y,part of,Z\r\n\r\n')
    data = load_graph(path, add_reverse=False)
    assert data["entity"].id == ["Smith, Ada", "x-y", "Z"]
    assert [t[1] for t in data.edge_types] == ["part of", "works at / for"]


def test_names_and_phrases(tmp_path: Path) -> None:
    path, names, relations = (tmp_path / n for n in ("a.txt", "names.tsv", "relations.csv"))
    path.write_text(text("\t"))
    names.write_text("m1\tAlien\ng1\tSci-Fi\nm1\tAgain\nelsewhere\tX\n")
    relations.write_text("Relation,Phrase,Reverse\n/film/genre,has genre,is the genre of\n")
    words = Words(names, relations)
    data = load_graph(path, words=words)
    assert data["entity"].name == ["Alien", "Sci-Fi", "m2", "p1"]
    assert data["entity"].id == ["m1", "g1", "m2", "p1"]
    assert data[GENRE].phrases == ["has genre", "is the genre of"]
    back = (GENRE[2], f"rev_{GENRE[1]}", GENRE[0])
    folder = save_graph(data, tmp_path / "folder")
    assert load_graph(folder)[GENRE].phrases == data[GENRE].phrases
    store = build_store(path, tmp_path / "store", words=words)
    for graph in (TypedGraph.from_data(data), store.graph()):
        assert graph.phrase(GENRE) == graph.phrase(back, backwards=True) == "has genre"
        assert graph.phrase(back) == graph.phrase(GENRE, backwards=True) == "is the genre of"
        assert graph.relation_words(back) == ("has genre", True)
        assert graph.phrase(ACTS) == ""
        assert graph.relation_words(ACTS) == ("acts in", False)
    with pytest.raises(GraphError, match="has the names and phrases that it was made with"):
        load_graph(tmp_path / "store", words=words)
    names.write_text("Alien\tm1\n")
    with pytest.raises(GraphError, match="none of its ids is a node"):
        load_graph(path, words=words)
    relations.write_text("relation,phrase\nfilms,x\n")
    with pytest.raises(GraphError, match="none of its relations is one of the graph"):
        load_graph(path, words=Words(relations=relations))


def test_what_is_held_out_beside_it(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(text("\t"))
    (tmp_path / "valid.csv").write_text("head,relation,tail\nm3,/film/genre,g1\n")
    columns = {"tail": ["m1", "m2"], "relation": ["acts_in", "new"], "head": ["p1", "p1"]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "test.parquet")
    assert [*held_out_files(tmp_path / "train.txt")] == ["valid", "test"]
    data = load_graph(tmp_path)  # the folder is the graph of its training file
    assert data["entity"].id == ["m1", "g1", "m2", "p1", "m3"]
    assert data[GENRE].edge_index.shape == (2, 2)
    held_out = read_held_out(tmp_path, data)
    assert held_out["valid"][GENRE].tolist() == [[4], [1]]
    assert torch.equal(held_out["test"][ACTS], torch.tensor([[3], [0]]))
    assert held_out["test"]["entity", "new", "entity"].tolist() == [[3], [2]]
    (tmp_path / "dev.txt").write_text("a\tr\tb\n")
    with pytest.raises(GraphError, match=r"valid\.csv: dev\.txt is there too"):
        load_graph(tmp_path)
