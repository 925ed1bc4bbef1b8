"""A store built of tables, in pieces, is byte for byte the store of the graph they hold."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.shell import shell
from support.table_folders import graphs, small, write
from torch_geometric.data import HeteroData

import pagelink.tables.files
from pagelink.errors import GraphError, StoreError
from pagelink.graph.schema import graph_schema
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import HALF_WRITTEN, MANIFEST, is_store
from pagelink.store.writer import save_store
from pagelink.tables.load import Format, build_store, load_graph, save_graph

pytestmark = pytest.mark.filterwarnings("ignore:There exist type names:UserWarning")


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> object:
    """Text is read in pieces of some rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pagelink.tables.files, "BLOCK_SIZE", 250)
        yield


def assert_built_alike(source: Path, folder: Path, limit: int, add_reverse: bool = True) -> None:
    data = load_graph(source, add_reverse=add_reverse)
    whole = save_store(data, folder / "whole")
    built = build_store(source, folder / "built", add_reverse=add_reverse, edges_in_memory=limit)
    assert built.manifest == whole.manifest
    assert built.digest == whole.digest
    assert built.schema == graph_schema(data)
    assert {f.name for f in built.folder.iterdir()} == {f.name for f in whole.folder.iterdir()}
    GraphStore.open(built.folder, verify=True)


@given(graphs(), st.sampled_from(["csv", "parquet"]), st.sampled_from([1, 3, 50]))
@settings(max_examples=40, deadline=None)
def test_a_folder_of_tables(data: HeteroData, format: Format, limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = save_graph(data, Path(folder) / "tables", format=format, with_reverse=True)
        assert_built_alike(source, Path(folder), limit)


WORDS = st.sampled_from(["a", "b", "ü", "12", "13", "x y"])


@given(
    st.lists(st.fixed_dictionaries({
        "head": WORDS, "relation": st.sampled_from(["r", "s", "rev_r"]), "tail": WORDS,
        "head_type": st.sampled_from(["k", "j"]), "tail_type": st.sampled_from(["k", "j"]),
        "head_name": st.sampled_from(["", "n", "m"]), "tail_name": st.sampled_from(["", "n", "é"]),
        "year": st.sampled_from(["", "1", "2"]), "note": st.sampled_from(["", "1.5", "x"]),
    }), min_size=1, max_size=30),
    st.sets(st.sampled_from(["types", "names", "year", "note"])),
    st.sampled_from(["csv", "parquet"]), st.sampled_from([1, 4, 50]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_triples(rows: list[dict[str, str]], there: set[str], suffix: str, limit: int) -> None:
    columns = ["head", "relation", "tail", *(there & {"year", "note"})]
    columns += [
        f"{end}_{word[:-1]}" for word in there & {"types", "names"} for end in ("head", "tail")
    ]
    table = pa.table({c: pa.array([row[c] for row in rows], pa.string()) for c in columns})
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"triples.{suffix}"
        if suffix == "csv":
            pa.csv.write_csv(table, source)
        else:
            pa.parquet.write_table(table, source, row_group_size=3)
        assert_built_alike(source, Path(folder), limit)


def test_parquet_with_integers_dictionaries_and_missing_numbers(tmp_path: Path) -> None:
    source = tmp_path / "tables"
    source.mkdir()
    users = {
        "ID": np.arange(50, 60), "name": pa.array(["x", None] * 5).dictionary_encode(),
        "age": np.arange(10.0), "height": [None, 1] * 5,
        "kind": pa.array(["k"] * 10).dictionary_encode(),
    }  # fmt: skip
    pa.parquet.write_table(pa.table(users), source / "nodes-user.parquet", row_group_size=4)
    items = {"id": [2**62, -5, 7]}
    pa.parquet.write_table(pa.table(items), source / "nodes-item.parquet")
    buys = {"src": np.arange(50, 60), "dst": pa.array([7, -5] * 5).cast(pa.string())}
    pa.parquet.write_table(pa.table(buys), source / "edges-user__buys__item.parquet")
    (source / "edges-item__like__item.tsv").write_text("src\tdst\tn\n7\t-5\t1\n-5\t7\t\n7\t7\t2\n")
    assert_built_alike(source, tmp_path, 3)


def test_a_large_random_graph_through_many_buckets(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    source = tmp_path / "tables"
    source.mkdir()
    for node_type, size in (("a", 300), ("b", 200)):
        pa.parquet.write_table(
            pa.table({"id": np.arange(size)}), source / f"nodes-{node_type}.parquet"
        )
    sizes = {"a": 300, "b": 200}
    for src, relation, dst, count in (
        ("a", "r", "b", 6000), ("a", "s", "b", 500), ("a", "t", "a", 4000), ("b", "u", "b", 50),
    ):  # fmt: skip
        # A few nodes have most of the edges.
        ends = [(generator.random(count) ** 4 * sizes[t]).astype(np.int64) for t in (src, dst)]
        table = pa.table({"src": ends[0], "dst": ends[1]})
        pa.parquet.write_table(table, source / f"edges-{src}__{relation}__{dst}.parquet")
        if relation == "s":  # all but a few of its edges are there in the other direction
            turned = pa.table({"src": ends[1][5:], "dst": ends[0][5:]})
            pa.parquet.write_table(turned, source / "edges-b__of__a.parquet")
    assert_built_alike(source, tmp_path, 700)
    built = GraphStore.open(tmp_path / "built")
    assert not list(tmp_path.glob("built/temporary*"))
    again = build_store(source, tmp_path / "without", add_reverse=False, edges_in_memory=500)
    near = again.graph().near_reverses([("a", "s", "b")])
    assert near == {("a", "s", "b"): [("b", "of", "a")]}
    assert built.graph().near_reverses([("a", "s", "b")]) == {}


def test_an_id_that_is_there_twice_among_integers(tmp_path: Path) -> None:
    source = write(
        tmp_path,
        {"nodes-a.csv": "id\n" + "\n".join(map(str, [*range(200), 7, 9])) + "\n",
         "edges-a__r__a.csv": "src,dst\n1,2\n"},
    )  # fmt: skip
    with pytest.raises(GraphError, match="line 202: the id '7' is there already, on line 9") as one:
        build_store(source, tmp_path / "store")
    with pytest.raises(GraphError) as other:
        load_graph(source)
    assert str(one.value) == str(other.value)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("limit", [20_000, 200_000])
def test_a_full_disk_is_said_and_nothing_is_left(tmp_path: Path, limit: int) -> None:
    source = tmp_path / "triples.csv"
    lines = [f"n{i},r,n{i * 7 % 9000}\n" for i in range(9000)]
    source.write_text("head,relation,tail\n" + "".join(lines))
    build_store(source, tmp_path / "before")  # compiles: kernels are files, too

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        done = shell("store", str(source), "--out", str(tmp_path / "store"), cwd=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.returncode == 1
    assert "cannot be written: File too large. Make room, or give another folder" in done.stderr
    assert str(tmp_path / "store") in done.stderr
    assert not (tmp_path / "store").exists()


def test_the_command_makes_and_checks_a_store(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from pagelink.cli.main import app

    def run(*words: object) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["store", *map(str, words)])
        if isinstance(result.exception, StoreError):
            return 1, str(result.exception)
        return result.exit_code, result.output

    tables, out = tmp_path / "tables", tmp_path / "out"
    tables.mkdir()
    small(tables)
    code, said = run(tables, "--out", out, "--verify")
    assert code == 0
    assert "5 nodes, 6 edges with their reverses" in said
    assert "built in" in said
    assert "verified in" in said
    assert load_graph(out)["user"].name == ["Ada", "Bo"]
    assert is_store(out)
    assert not (out / HALF_WRITTEN).exists()
    assert run(out, "--verify")[0] == 0
    assert run(tables)[0] == 2
    assert "there is a store already" in run(tables, "--out", out)[1]
    path = out / "dst.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\7")
    code, said = run(out, "--verify")
    assert code == 1
    assert "dst.npy: the file was changed" in said
    (out / MANIFEST).unlink()
    with pytest.raises(GraphError, match="there is no table of edges"):
        load_graph(out)
