"""A store built of tables, in pieces, is byte for byte the store of the graph they hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
import test_tables
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

import pagelink.table_pieces
from pagelink.graph_schema import graph_schema
from pagelink.store import GraphStore, save_store
from pagelink.store_build import build_store
from pagelink.tables import Format, load_graph, save_graph

pytestmark = pytest.mark.filterwarnings("ignore:There exist type names:UserWarning")


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> object:
    """Text is read in pieces of some rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pagelink.table_pieces, "PIECE_BYTES", 250)
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


@given(test_tables.graphs(), st.sampled_from(["csv", "parquet"]), st.sampled_from([1, 3, 50]))
@settings(max_examples=60, deadline=None)
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
@settings(max_examples=60, deadline=None)
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
