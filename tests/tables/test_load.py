from __future__ import annotations

import copy
import datetime
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.table_folders import graphs, small, write
from torch_geometric.data import Data, HeteroData

from pagelink.datasets.folders import DataNotFoundError, find_data
from pagelink.errors import GraphError, SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.tables.load import Format, load_graph, save_graph

# PyTorch Geometric warns once of a double underscore; here such names are meant.
pytestmark = pytest.mark.filterwarnings("ignore:There exist type names:UserWarning")

BUYS = ("user", "buys", "item")


def contents(data: HeteroData) -> dict[object, object]:
    """Everything a graph holds, as plain values; what is absent is None."""
    found: dict[object, object] = {}
    for node_type in data.node_types:
        store = data[node_type]
        found[node_type] = {
            "num_nodes": store.num_nodes,
            "id": store.id,
            "name": store.name,
            "x": store.x.tolist() if "x" in store else None,
            "x_names": store.x_names if "x" in store else None,
            "attributes": store.attributes.to_pydict() if "attributes" in store else None,
        }
        assert set(store.keys()) <= {*found[node_type]}, "something else was stored"  # type: ignore[misc]
    for edge_type in data.edge_types:
        store = data[edge_type]
        assert store.edge_index.dtype == torch.int64
        assert store.edge_index.shape[0] == 2
        attributes = store.attributes.to_pydict() if "attributes" in store else None
        found[edge_type] = (store.edge_index.t().tolist(), attributes)
    return found


# Reading a folder


def test_ids_are_text_and_nodes_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    data = load_graph(small(tmp_path), add_reverse=False)
    assert data.node_types == ["item", "user"]
    assert data["item"].id == ["007", "7", "07"]
    assert data["item"].name == ["pen", "ink", "07"]  # the id where the name is empty
    assert data["user"].name == ["Ada", "Bo"]
    assert data["item"].num_nodes == 3
    assert data.edge_types == [BUYS]
    assert data[BUYS].edge_index.tolist() == [[0, 1, 0], [1, 0, 2]]
    assert "attributes" not in data[BUYS]
    assert "x" not in data["item"]


def test_without_a_name_column_names_are_ids(tmp_path: Path) -> None:
    data = load_graph(small(tmp_path, user="id\nu2\nu1\n"))
    assert data["user"].name == data["user"].id == ["u2", "u1"]
    assert data["user"].name is not data["user"].id


def test_words_for_nothing_are_names_like_others(tmp_path: Path) -> None:
    data = load_graph(small(tmp_path, user="id,name\nu1,NA\nu2,null\nnan,NaN\n"))
    assert data["user"].id == ["u1", "u2", "nan"]
    assert data["user"].name == ["NA", "null", "NaN"]


def test_numbers_are_features_and_the_rest_attributes(tmp_path: Path) -> None:
    user = (
        "age,id,born,score,zip,name,height\n"
        "30,u1,1990-01-02,-1.5e1,01234,Ada,\n"
        "40,u2,1980-01-02,.5,99999,Bo,1.8\n"
    )
    store = load_graph(small(tmp_path, user=user))["user"]
    assert store.x_names == ["age", "score"]
    assert store.x.dtype == torch.float32
    assert store.x.tolist() == [[30, -15], [40, 0.5]]
    assert store.attributes.to_pydict() == {
        "born": ["1990-01-02", "1980-01-02"],
        "zip": ["01234", "99999"],  # as numbers they would lose a zero
        "height": [None, 1.8],  # no model can read the missing one
    }


def test_further_columns_of_edges_are_kept_in_order(tmp_path: Path) -> None:
    buys = (
        "weight,src,date,dst,source,pmid,sign,long\n"
        '2,u2,2020-01-01,7,"a, b",0042,+,123456789012345678901\n'
        ',u1,,007,"",0043,-,2\n'
    )
    data = load_graph(small(tmp_path, buys=buys))
    assert data[BUYS].edge_index.tolist() == [[1, 0], [1, 0]]
    assert data[BUYS].attributes.to_pydict() == {
        "weight": [2, None],
        "date": ["2020-01-01", None],
        "source": ["a, b", ""],  # quotes around nothing are a text
        "pmid": ["0042", "0043"],
        "sign": ["+", "-"],
        "long": ["123456789012345678901", "2"],
    }
    assert data["item", "rev_buys", "user"].attributes is data[BUYS].attributes


@pytest.mark.parametrize(
    "text",
    [
        "id,name\nu1,Ada\nu2,Bo\n",
        "\ufeffid,name\nu1,Ada\nu2,Bo\n",
        "id,name\r\nu1,Ada\r\nu2,Bo\r\n",
        "id,name\ru1,Ada\ru2,Bo",
        "\n\nid,name\n\nu1,Ada\n\n\nu2,Bo\n\n",
        ' ID ,"NAME"\n"u1","Ada"\nu2,"Bo"',
    ],
    ids=["plain", "byte-order mark", "Windows", "old Mac", "blank lines", "capitals and quotes"],
)
def test_the_same_table_written_in_other_ways(tmp_path: Path, text: str) -> None:
    data = load_graph(small(tmp_path, user=text))
    assert data["user"].id == ["u1", "u2"]
    assert data["user"].name == ["Ada", "Bo"]


def test_names_with_commas_quotes_line_ends_and_any_script(tmp_path: Path) -> None:
    names = [
        "a, b",
        'the "best"',
        "two\nlines",
        "two\r\nlines",
        "日本語 شعر ก็ 🧬",
        "  x ",
        '5" nails',
    ]
    rows = "".join(f'{i},"{name.replace(chr(34), chr(34) * 2)}"\n' for i, name in enumerate(names))
    data = load_graph(small(tmp_path, user=f"id,name\n{rows}u1,5' 10\" tall\nu2,\n"))
    assert data["user"].name == [*names, "5' 10\" tall", "u2"]


def test_line_ends_within_a_name_where_a_block_of_the_file_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagelink.tables.files.BLOCK_SIZE", 64)
    names = ["a\nb,c\n" * (i % 7) + "." for i in range(200)]
    rows = "".join(f'{i},"{name}"\n' for i, name in enumerate(names))
    data = load_graph(small(tmp_path, user=f"id,name\n{rows}u1,\nu2,\n"))
    assert data["user"].name == [*names, "u1", "u2"]


def test_header_without_rows(tmp_path: Path) -> None:
    for end in ("\n", ""):
        data = load_graph(small(tmp_path, user=f"id,name,age{end}", buys=f"src,dst,weight{end}"))
        assert data["user"].num_nodes == 0
        assert data["user"].id == data["user"].name == []
        assert data["user"].x.shape == (0, 1)
        assert data[BUYS].edge_index.shape == (2, 0)
        assert data[BUYS].attributes.column_names == ["weight"]
        assert data["item", "rev_buys", "user"].edge_index.shape == (2, 0)


def test_parquet_and_tsv_in_one_folder(tmp_path: Path) -> None:
    write(tmp_path, {"nodes-user.TSV": "id\tname\nu1\tAda, the first\nu2\tBo\n"})
    day = datetime.date(2020, 1, 1)
    pa.parquet.write_table(
        pa.table(
            {"Id": pa.array([7, 8], pa.int32()), "pages": [1.0, 2.0], "in_print": [True, None]}
        ),
        tmp_path / "nodes-item.parquet",
    )
    pa.parquet.write_table(
        pa.table(
            {
                "dst": pa.array(["8", "7"]).dictionary_encode(),
                "src": pa.array(["u2", "u1"], pa.large_string()),
                "day": [day, None],
                "__index_level_0__": [0, 1],
            }
        ),
        tmp_path / "edges-user__buys__item.parquet",
    )
    data = load_graph(tmp_path)
    assert data["user"].name == ["Ada, the first", "Bo"]
    assert data["item"].id == data["item"].name == ["7", "8"]
    assert data["item"].x_names == ["pages"]
    assert data["item"].attributes.to_pydict() == {"in_print": [True, None]}
    assert data[BUYS].edge_index.tolist() == [[1, 0], [1, 0]]
    assert data[BUYS].attributes.to_pydict() == {"day": [day, None]}


def test_dictionary_of_integers_in_parquet(tmp_path: Path) -> None:
    small(tmp_path, item="id\n5\n6\n")
    (tmp_path / "edges-user__buys__item.csv").unlink()
    table = pa.table({"src": ["u1"], "dst": pa.array([6]).dictionary_encode()})
    pa.parquet.write_table(table, tmp_path / "edges-user__buys__item.parquet")
    assert load_graph(tmp_path)[BUYS].edge_index.tolist() == [[0], [1]]


def test_other_files_are_ignored(tmp_path: Path) -> None:
    small(tmp_path)
    write(tmp_path, dict.fromkeys(("extra-x.csv", "README.md", "LICENSE", ".edges-x.csv"), "\0"))
    (tmp_path / "pictures").mkdir()
    assert load_graph(str(tmp_path)).num_nodes == 5


def test_a_graph_can_be_copied_and_moved(tmp_path: Path) -> None:
    buys = "src,dst,weight,source\nu1,7,1.5,a\n"
    data = load_graph(small(tmp_path, buys=buys, user="id,age,job\nu1,3,x\nu2,4,y\n"))
    for other in (copy.copy(data), copy.deepcopy(data), data.clone(), data.to("cpu")):
        assert contents(other) == contents(data)


# The graphs that the project measures itself on

NODES = {
    "hetionet-core": {
        "anatomy": 398, "compound": 1_538, "disease": 136, "gene": 17_498, "pathway": 1_822,
        "pharmacologic_class": 345, "side_effect": 5_701, "symptom": 415,
    },
    "movielens-small": {"genre": 19, "movie": 9_742, "tag": 1_475, "user": 610},
    "vispub-citation": {
        "author": 6_991, "field": 2_726, "paper": 3_752, "reference": 9_789, "venue": 5,
    },
}  # fmt: skip
EDGES = {
    "hetionet-core": {
        ("compound", "binds", "gene"): 11_571,
        ("compound", "causes", "side_effect"): 138_944,
        ("compound", "downregulates", "gene"): 5_000,
        ("compound", "palliates", "disease"): 390,
        ("compound", "resembles", "compound"): 6_583,
        ("compound", "treats", "disease"): 755,
        ("compound", "upregulates", "gene"): 5_000,
        ("disease", "associates", "gene"): 12_623,
        ("disease", "downregulates", "gene"): 7_625,
        ("disease", "localizes", "anatomy"): 3_602,
        ("disease", "presents", "symptom"): 3_357,
        ("disease", "resembles", "disease"): 543,
        ("disease", "upregulates", "gene"): 7_733,
        ("gene", "interacts", "gene"): 146_943,
        ("gene", "participates", "pathway"): 84_372,
        ("pharmacologic_class", "includes", "compound"): 1_029,
    },
    "movielens-small": {
        ("movie", "has_genre", "genre"): 22_050,
        ("movie", "has_tag", "tag"): 3_574,
        ("user", "likes", "movie"): 48_580,
        ("user", "rated_below_4", "movie"): 52_256,
        ("user", "used", "tag"): 2_080,
    },
    "vispub-citation": {
        ("author", "writes", "paper"): 14_717,
        ("paper", "cites", "paper"): 18_575,
        ("paper", "cites", "reference"): 45_429,
        ("paper", "in", "field"): 35_250,
        ("paper", "published_in", "venue"): 3_752,
    },
}
NAMES = {
    "hetionet-core": ("symptom", 0, "Abdomen, Acute"),
    "movielens-small": ("tag", 0, '"artsy"'),
    "vispub-citation": ("venue", 2, "IEEE Transactions on Visualization and Computer Graphics"),
}


@pytest.mark.parametrize("name", NODES)
def test_real_graphs(name: str, tmp_path: Path) -> None:
    try:
        folder = find_data(name)
    except DataNotFoundError as error:
        pytest.skip(str(error))
    data = load_graph(folder)
    assert {t: data[t].num_nodes for t in data.node_types} == NODES[name]
    sizes = {t: data[t].num_edges for t in data.edge_types}
    backward = {(dst, f"rev_{r}", src): n for (src, r, dst), n in EDGES[name].items()}
    assert sizes == EDGES[name] | backward
    assert data.edge_types[: len(EDGES[name])] == sorted(EDGES[name])
    for (src, relation, dst), size in EDGES[name].items():
        forth, back = data[src, relation, dst], data[dst, f"rev_{relation}", src]
        assert torch.equal(forth.edge_index, back.edge_index.flip(0)), size
    node_type, index, called = NAMES[name]
    assert data[node_type].name[index] == called
    # In these files ids are positions, so that every edge can be checked without pyarrow.
    edge_type = min(EDGES[name])
    text = (folder / f"edges-{'__'.join(edge_type)}.csv").read_text()
    assert data[edge_type].edge_index.t().tolist() == [
        [int(end) for end in line.split(",")] for line in text.split()[1:]
    ]
    for kind in ("csv", "parquet"):
        saved = save_graph(data, tmp_path / kind, format=kind)
        assert len(list(saved.iterdir())) == len(NODES[name]) + len(EDGES[name])
        again = load_graph(saved)
        assert again.metadata() == data.metadata()
        assert all(again[t].id == data[t].id for t in data.node_types)
        assert all(again[t].name == data[t].name for t in data.node_types)
        assert all(torch.equal(again[t].edge_index, data[t].edge_index) for t in sizes)


# Writing


def graph(**changes: object) -> HeteroData:
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 2, 3
    data[BUYS].edge_index = torch.tensor([[0, 1, 0], [1, 0, 2]])
    for key, value in changes.items():
        data["user"][key] = value
    return data


def test_a_graph_without_ids_and_names(tmp_path: Path) -> None:
    saved = save_graph(graph(), tmp_path / "new" / "graph")
    assert saved == tmp_path / "new" / "graph"
    assert {file.name: file.read_text() for file in saved.iterdir()} == {
        "nodes-user.csv": '"id"\n0\n1\n',
        "nodes-item.csv": '"id"\n0\n1\n2\n',
        "edges-user__buys__item.csv": '"src","dst"\n0,1\n1,0\n0,2\n',
    }
    assert [folder.name for folder in tmp_path.iterdir()] == ["new"]
    assert [folder.name for folder in (tmp_path / "new").iterdir()] == ["graph"]


def test_features_get_names(tmp_path: Path) -> None:
    x = torch.tensor([[0.1, 3e38], [1e-45, -0.0]])
    store = load_graph(save_graph(graph(x=x), tmp_path / "graph"))["user"]
    assert store.x_names == ["x0", "x1"]
    assert torch.equal(store.x, x)


def test_ids_that_look_like_numbers_are_not_changed(tmp_path: Path) -> None:
    for ids in (["1.50", "2"], ["1e3", "5"], ["-0", "0"], ["007", "7"], ["1", "9" * 30]):
        saved = save_graph(graph(id=ids), tmp_path / ids[0])
        assert load_graph(saved)["user"].id == ids


def test_parquet_keeps_types_that_csv_has_not(tmp_path: Path) -> None:
    data = graph(attributes=pa.table({"day": [datetime.date(2020, 1, 1), None], "no": ["1", "2"]}))
    kept = load_graph(save_graph(data, tmp_path / "parquet", format="parquet"))
    assert kept["user"].attributes == data["user"].attributes
    text = load_graph(save_graph(data, tmp_path / "csv"))["user"]
    assert text.attributes.to_pydict() == {"day": ["2020-01-01", None]}
    assert text.x_names == ["no"]


def test_odd_type_names_are_legal_file_names(tmp_path: Path) -> None:
    odd: EdgeType = ("_a__b/c", "http://x?y=%5F_", "λ:1\n")
    data = HeteroData()
    data[odd[0]].num_nodes = data[odd[2]].num_nodes = 1
    data[odd].edge_index = torch.tensor([[0], [0]])
    saved = save_graph(data, tmp_path / "graph")
    assert sorted(file.name for file in saved.iterdir()) == [
        "edges-%5Fa_%5Fb%2Fc__http%3A%2F%2Fx%3Fy=%255F%5F__λ%3A1%0A.csv",
        "nodes-%5Fa_%5Fb%2Fc.csv",
        "nodes-λ%3A1%0A.csv",
    ]
    assert load_graph(saved, add_reverse=False).edge_types == [odd]


def test_a_folder_is_not_overwritten_unasked(tmp_path: Path) -> None:
    old = tmp_path / "graph"
    old.mkdir()
    small(old)
    write(old, {"README.md": "mine", "predictions.txt": "mine too", "nodes-old.csv": "id\n"})
    with pytest.raises(GraphError, match="graph: the folder is not empty"):
        save_graph(graph(), old)
    assert load_graph(old)["user"].name == ["Ada", "Bo"]
    save_graph(graph(), old, overwrite=True)
    assert load_graph(old)["user"].name == ["0", "1"]
    assert {file.name for file in old.iterdir()} == {
        "README.md", "predictions.txt", "nodes-user.csv", "nodes-item.csv",
        "edges-user__buys__item.csv",
    }  # fmt: skip
    assert [folder.name for folder in tmp_path.iterdir()] == ["graph"]


def test_an_empty_folder_and_a_link_to_a_folder_can_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save_graph(graph(), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load_graph(tmp_path / "real").num_nodes == 5


def test_nothing_is_left_of_a_graph_that_could_not_be_written(tmp_path: Path) -> None:
    old = tmp_path / "graph"
    old.mkdir()
    small(old)
    data = graph(name=["a", "\ud800"])
    with pytest.raises(GraphError, match=r"data\['user'\].name holds .* no valid text"):
        save_graph(data, old, overwrite=True)
    assert [folder.name for folder in tmp_path.iterdir()] == ["graph"]
    assert load_graph(old)["user"].name == ["Ada", "Bo"]


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "graph"
    old.mkdir()
    small(old)
    rename, done = Path.rename, []

    def fail_once(path: Path, target: Path) -> Path:
        done.append(target)
        if len(done) == 2:  # the first puts the old folder aside
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(GraphError, match="graph: cannot be written: No space left on device"):
        save_graph(graph(), old, overwrite=True)
    assert [folder.name for folder in tmp_path.iterdir()] == ["graph"]
    assert load_graph(old)["user"].name == ["Ada", "Bo"]


def with_lists() -> HeteroData:
    return graph(attributes=pa.table({"tags": [["a"], ["b", "c"]]}))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: graph(id=["a", "a"]), r"data\['user'\].id must hold 2 different ids"),
        (lambda: graph(id=["a", ""]), r"data\['user'\].id must hold 2 different ids"),
        (lambda: graph(x=torch.zeros(2)), r"data\['user'\].x must have the shape \[2, "),
        (lambda: graph(x=torch.zeros(2, 2), x_names=["a"]), "x_names must hold 2 names"),
        (lambda: graph(x=torch.zeros(2, 1), x_names=["Name"]), "cannot be called 'Name'"),
        (lambda: graph(x=torch.zeros(2, 2), x_names=["a", "a"]), "cannot be called 'a'"),
        (lambda: graph(attributes=[1, 2]), "attributes must be a pyarrow.Table with 2 rows"),
        (lambda: graph(attributes=pa.table({"a": [1]})), "a pyarrow.Table with 2 rows"),
        (lambda: graph(y=torch.zeros(2)), r"data\['user'\].y cannot be written as a table"),
        (with_lists, "graph: cannot be written: .*list"),
        (lambda: Data(x=torch.zeros(2, 1)), "save_graph needs a HeteroData, got Data"),
    ],
)  # fmt: skip
def test_graphs_that_tables_cannot_hold(
    tmp_path: Path, make: Callable[[], HeteroData], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        save_graph(make(), tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def test_bad_formats_and_places(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"format must be one of .*'xlsx'"):
        save_graph(graph(), tmp_path / "graph", format="xlsx")  # type: ignore[arg-type]
    (tmp_path / "file").touch()
    with pytest.raises(GraphError, match="file: there is a file of this name"):
        save_graph(graph(), tmp_path / "file")
    with pytest.raises(GraphError, match="cannot be written: Not a directory"):
        save_graph(graph(), tmp_path / "file" / "graph")
    data = graph()
    data["user", "r" * 300, "item"].edge_index = data[BUYS].edge_index
    with pytest.raises(GraphError, match=r"cannot be written: .*name too long"):
        save_graph(data, tmp_path / "graph")


# Any graph that is loaded can be saved and loaded again


@given(graphs(), st.sampled_from(["csv", "parquet"]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_saving_and_loading_gives_the_same_graph(
    data: HeteroData, format: Format, add: bool
) -> None:
    before = contents(data)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_graph(
            save_graph(data, Path(folder) / "one", format=format, with_reverse=True),
            add_reverse=add,
        )
        assert contents(data) == before
        given_types = set(data.edge_types)
        again = contents(loaded)
        assert {key: again[key] for key in before} == before
        added = set(loaded.edge_types) - given_types
        assert all(relation.startswith("rev_") for _, relation, _ in added)
        assert add or not added
        # What was loaded once is a fixed point, its reverses left to the loader or not.
        for every in (False, True):
            path = save_graph(
                loaded, Path(folder) / f"two-{every}", format=format, with_reverse=every
            )
            twice = load_graph(path, add_reverse=add or not every)
            if add or every:
                assert contents(twice) == again


def test_the_order_of_types_is_kept_by_saving_and_loading(tmp_path: Path) -> None:
    loaded = load_graph(save_graph(graph(), tmp_path / "one"))
    twice = load_graph(save_graph(loaded, tmp_path / "two"))
    assert twice.metadata() == loaded.metadata()
    assert np.array_equal(twice[BUYS].edge_index, loaded[BUYS].edge_index)
