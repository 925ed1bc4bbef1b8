"""Tables whose rows say of which relation their links are: each is answered as that relation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.knowledge import write_graph
from support.shell import shell

from pagelink.engine import FromFiles
from pagelink.errors import GraphError, LinkError
from pagelink.graph.links import LinkReader
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.knowledge.checkpoint import open_predictor
from pagelink.models.knowledge.commands import recommend_many
from pagelink.tables.link_tables import read_links, read_nodes
from pagelink.tables.load import load_graph
from pagelink.tables.words import Words

OPENED = ("train.txt", "--model", "model.pt")
FIGURES = ("src", "dst", "relation", "reason", "logit", "influence", "text", "rank", "rank_of")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("by-row")
    write_graph(folder)
    (folder / "relations.tsv").write_text("lives in\tis at home in\tis the home of\n")
    said = shell(
        "train", "train.txt", "--link", "all", "--out", "model.pt", "--epochs", "10", "--hidden",
        "16", "--batch-size", "32", cwd=folder,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    return folder


def rows_of(file: Path) -> list[dict[str, Any]]:
    read = pa.parquet.read_table if file.suffix == ".parquet" else pa.csv.read_csv
    rows: list[dict[str, Any]] = read(file).to_pylist()
    return rows


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, abs=1e-4)
    return bool(one == other)


def test_each_row_is_explained_as_its_relation(trained: Path, tmp_path: Path) -> None:
    given = [("p0", "c0", "lives in"), ("p0", "l0", "is from"), ("p0", "c0", "is at home in"),
             ("p3", "c1", "knows"), ("p0", "c0", ""), ("p0", "c0", "lives on")]  # fmt: skip
    columns = dict(zip(("src", "dst", "relation"), zip(*given, strict=True), strict=True))
    pa.parquet.write_table(pa.table(columns), tmp_path / "links.parquet")
    lines = [",".join(columns), *map(",".join, given)]
    (tmp_path / "links.csv").write_text("\n".join(lines) + "\n")
    words = ("--relations", "relations.tsv")
    found = {}
    for table, more in (("links.csv", ()), ("links.parquet", ("--link", "knows"))):
        out = tmp_path / f"{table}.rows.parquet"
        said = shell("explain", *OPENED, "--links", str(tmp_path / table), "--out", str(out),
                     "--rank", *words, *more, cwd=trained)  # fmt: skip
        assert said.returncode == 3, said.stderr
        found[table] = rows_of(out)
    by_line: dict[int, list[dict[str, Any]]] = {}
    for row in found["links.csv"]:
        by_line.setdefault(row["line"] - 2, []).append(row)
    assert [by_line[i][0]["relation"] for i in range(6)] == [
        "lives in", "is from", "lives in", "knows", "", "lives on"
    ]  # fmt: skip
    assert [by_line[i][0]["reason"] == "invalid" for i in range(6)] == [*[False] * 4, True, True]
    assert "names none of the 4 relations" in by_line[4][0]["message"]
    assert "Did you mean entity,lives in,entity" in by_line[5][0]["message"]
    for name in FIGURES:
        assert by_line[0][0][name] == by_line[2][0][name]
    # Each is what a command for its relation alone says.
    for line in (0, 1, 3):
        src, dst, relation = given[line]
        (tmp_path / "one.csv").write_text(f"src,dst\n{src},{dst}\n")
        out = tmp_path / f"one-{line}.parquet"
        said = shell("explain", *OPENED, "--link", relation, "--links", str(tmp_path / "one.csv"),
                     "--out", str(out), "--rank", *words, cwd=trained)  # fmt: skip
        assert said.returncode == 0, said.stderr
        alone = rows_of(out)
        assert len(alone) == len(by_line[line])
        for one, other in zip(alone, by_line[line], strict=True):
            assert {n: (one[n], other[n]) for n in FIGURES if not same(one[n], other[n])} == {}
    # With --link, a row that names none is of that relation.
    blank = [row for row in found["links.parquet"] if row["line"] == 5]
    assert (blank[0]["relation"], blank[0]["reason"]) == ("knows", None)
    second = [row for row in found["links.parquet"] if row["line"] == 2]
    assert second[0]["relation"] == "is from"


def test_workers_and_audits_read_the_same_column(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text(
        "src,dst,relation\np0,c0,lives in\np0,l0,is from\np0,c0,sings\n"
    )
    shared = (*OPENED, "--links", str(tmp_path / "links.csv"))
    said = shell(
        "explain", *shared, "--out", str(tmp_path / "parts"), "--workers", "1", cwd=trained
    )
    assert said.returncode == 3, said.stderr
    rows = [row for file in sorted((tmp_path / "parts").glob("*.parquet")) for row in rows_of(file)]
    first = {row["line"]: (row["relation"], row["reason"]) for row in rows}
    assert first == {2: ("lives in", None), 3: ("is from", None), 4: ("sings", "invalid")}
    said = shell("audit", *shared, "--json", str(tmp_path / "audit.json"), cwd=trained)
    assert said.returncode == 0, said.stderr
    audited = json.loads((tmp_path / "audit.json").read_text())
    assert {row["relation"] for row in audited["rows"]} == {"lives in", "is from", "sings"}
    # Without a column, and without --link, it is refused before any work.
    (tmp_path / "bare.csv").write_text("src,dst\np0,c0\n")
    for command in (("explain", "--out", str(tmp_path / "x.csv")),
                    ("audit", "--json", str(tmp_path / "x.json"))):  # fmt: skip
        said = shell(command[0], *OPENED, "--links", str(tmp_path / "bare.csv"), *command[1:],
                     cwd=trained)  # fmt: skip
        assert (said.returncode, "predicts 4 relations" in said.stderr) == (1, True), said.stderr


def test_a_model_of_one_relation_refuses_rows_of_others(trained: Path, tmp_path: Path) -> None:
    said = shell("train", "train.txt", "--link", "entity,lives in,entity", "--out", "one.pt",
                 "--epochs", "2", "--hidden", "8", cwd=trained)  # fmt: skip
    assert said.returncode == 0, said.stderr
    (tmp_path / "links.csv").write_text(
        "src,dst,relation\np0,c0,lives in\np0,l0,is from\np0,c0,is at home in\n"
    )
    out = tmp_path / "rows.parquet"
    said = shell("explain", "train.txt", "--model", "one.pt", "--links",
                 str(tmp_path / "links.csv"), "--out", str(out), "--rank-only", "--relations",
                 "relations.tsv", cwd=trained)  # fmt: skip
    assert said.returncode == 3, said.stderr
    first = {row["line"]: (row["reason"] == "invalid", row["message"]) for row in rows_of(out)}
    assert [first[line][0] for line in (2, 3, 4)] == [False, True, False]
    assert "'is from' is not a link type" in first[3][1]
    (tmp_path / "nodes.csv").write_text("src,relation\np0,lives in\np0,is from\n")
    said = shell("recommend", "train.txt", "--model", "one.pt", "--links",
                 str(tmp_path / "nodes.csv"), "--out", str(tmp_path / "best.csv"), "-k", "2",
                 cwd=trained)  # fmt: skip
    assert "2 nodes, 3 rows, 1 of an error" in said.stdout, said.stderr
    assert "not is from" in rows_of(tmp_path / "best.csv")[-1]["error"]


def test_recommendations_by_row(trained: Path, tmp_path: Path) -> None:
    table = tmp_path / "nodes.csv"
    table.write_text("src,relation\np0,lives in\np0,is from\np1,\np1,is at home in\n")
    said = shell("recommend", *OPENED, "--links", str(table), "--out", str(tmp_path / "best.csv"),
                 "-k", "2", "--relations", "relations.tsv", cwd=trained)  # fmt: skip
    assert "4 nodes, 7 rows, 1 of an error" in said.stdout, said.stderr
    rows = rows_of(tmp_path / "best.csv")
    assert [(row["node"], row["relation"]) for row in rows] == [
        *[("p0", "lives in")] * 2, *[("p0", "is from")] * 2, ("p1", ""), *[("p1", "lives in")] * 2
    ]  # fmt: skip
    assert "say which one by --link, or in a column relation" in rows[4]["error"]
    assert all(row["id"][0] in "pcl" for row in rows if not row["error"])
    # As by the predictor of that relation, which has embedded the graph by itself.
    alone = open_predictor(trained / "model.pt", trained, link="is from")
    (answer,) = recommend_many(alone, ["p0"], 2)
    assert isinstance(answer.found, list)
    assert [each.id for each in answer.found] == [row["id"] for row in rows[2:4]]
    logits = [each.logit for each in answer.found]
    assert np.allclose(logits, [row["logit"] for row in rows[2:4]], atol=1e-6)


def test_how_relations_are_named(trained: Path) -> None:
    data = load_graph(trained / "train.txt", words=Words(relations=trained / "relations.tsv"))
    types = [t for t in data.edge_types if not t[1].startswith("rev_")]
    reader = LinkReader(TypedGraph.from_data(data), types)
    for given in ("lives in", "entity,lives in,entity", "is at home in", types[1], list(types[1])):
        wanted = types[1] if isinstance(given, tuple | list) else ("entity", "lives in", "entity")
        assert reader.read(("p0", "c0", given)).type == wanted
    with pytest.raises(LinkError, match="'is the home of' is not a link type"):
        reader.read(("p0", "c0", "is the home of"))  # the other way round


def test_an_error_names_the_nearest_of_many_relations() -> None:
    data = load_graph_of_many()
    reader = LinkReader(TypedGraph.from_data(data), data.edge_types)
    with pytest.raises(LinkError, match=r"Did you mean n,/a/kind_17,n") as near:
        reader.read((0, 1, "kind 17."))
    with pytest.raises(LinkError, match=r"and 192 more\.$") as far:
        reader.read((0, 1, "zzzzz"))
    assert max(len(str(near.value)), len(str(far.value))) < 300


def load_graph_of_many() -> Any:
    from torch import tensor
    from torch_geometric.data import HeteroData

    data = HeteroData()
    data["n"].num_nodes = 3
    for i in range(200):
        data["n", f"/a/kind_{i}", "n"].edge_index = tensor([[0], [1]])
    return data


def test_tables_with_two_such_columns_are_refused(tmp_path: Path) -> None:
    for name, read in (("links.csv", read_links), ("nodes.csv", read_nodes)):
        ends = "src,dst" if name == "links.csv" else "src"
        (tmp_path / name).write_text(f"{ends},relation,link_type\n")
        with pytest.raises(GraphError, match="both link_type and relation"):
            read(tmp_path / name)  # type: ignore[operator]


def test_an_opening_without_a_relation_needs_rows_that_name_one(trained: Path) -> None:
    graph, model = trained / "train.txt", trained / "model.pt"
    with pytest.raises(LinkError, match="predicts 4 relations"):
        FromFiles(graph, model).open()
    explainer = FromFiles(graph, model, by_row=True).open()
    with pytest.raises(LinkError, match="names none of the 4 relations"):
        explainer.explain("p0", "c0")
    assert explainer.explain("p0", "c0", "lives in").link_type == ("entity", "lives in", "entity")


def test_held_out_links_of_every_relation_are_left_out_of_ranks(trained: Path) -> None:
    explainer = FromFiles(trained / "train.txt", trained / "model.pt", by_row=True).open()
    held_out = (trained / "valid.txt").read_text().splitlines()
    assert len({line.split("\t")[1] for line in held_out}) > 1
    for line in held_out:
        src, relation, dst = line.split("\t")
        link = explainer.link(src, dst, relation)
        assert link.dst in explainer.known.ends(link)
