from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData

import pagelink.datasets.folders as folders
import pagelink.tables.load as tables
from pagelink.datasets.aminer import make_aminer_folder
from pagelink.datasets.augcitation import build_augcitation, make_augcitation_folder
from pagelink.datasets.folders import (
    DatasetInfo,
    find_labels,
    read_info,
    read_labels,
    write_dataset,
)
from pagelink.datasets.ground_truth import Labels
from pagelink.datasets.useritemattr import generate_useritemattr, make_useritemattr_folder
from pagelink.errors import GraphError, SettingsError
from pagelink.graph.schema import EdgeType
from pagelink.tables.load import load_graph, save_graph

LIKES: EdgeType = ("author", "likes", "paper")


def citation_graph() -> HeteroData:
    """Ada and Bo wrote p; p cites q, and q and r cite each other; r is cited by no one else."""
    data = HeteroData()
    data["paper"].id, data["paper"].name = ["p", "q", "007"], ["Paper, P", "Paper Q", "«R»"]
    data["author"].id, data["author"].name = ["ö:1", "b"], ["Ada", "Bo"]
    for node_type in data.node_types:
        data[node_type].num_nodes = len(data[node_type].id)
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 1], [0, 0, 2]])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1, 2], [1, 2, 1]])
    return data


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return save_graph(citation_graph(), tmp_path / "source")


@pytest.fixture
def dataset(source: Path, tmp_path: Path) -> Path:
    return make_augcitation_folder(source, tmp_path / "made", num_likes=None).folder


def in_ids(labels: Labels, data: HeteroData) -> dict[tuple[str, str], list[list[tuple[str, ...]]]]:
    return {
        (data["author"].id[src], data["paper"].id[dst]): [
            [(*s[:3], data[s[0]].id[s[3]], data[s[2]].id[s[4]]) for s in path] for path in paths
        ]
        for (src, dst), paths in labels.items()
    }


def test_labels_come_back_in_the_indices_of_the_loaded_graph(source: Path, dataset: Path) -> None:
    built = build_augcitation(load_graph(source), num_likes=None)
    data = load_graph(dataset)
    labels = read_labels(dataset, data)
    assert labels == built.labels
    assert in_ids(labels, data)["ö:1", "007"] == [
        [
            ("author", "writes", "paper", "ö:1", "p"),
            ("paper", "rev_writes", "author", "p", "b"),
            ("author", "writes", "paper", "b", "007"),
        ],
        [
            ("author", "writes", "paper", "ö:1", "p"),
            ("paper", "cites", "paper", "p", "q"),
            ("paper", "cites", "paper", "q", "007"),
        ],
    ]
    assert torch.equal(data[LIKES].edge_index, built.likes)


def test_labels_fit_a_graph_with_or_without_reverse_relations(
    source: Path, dataset: Path, tmp_path: Path
) -> None:
    plain = build_augcitation(load_graph(source, add_reverse=False), num_likes=None)
    assert read_labels(dataset, load_graph(dataset, add_reverse=False)) == plain.labels
    info = DatasetInfo("plain", LIKES, seed=0, settings={})
    other = write_dataset(tmp_path / "plain", plain.data, plain.labels, info=info)
    assert "rev_" not in (other / "extra-ground-truth.jsonl").read_text("utf-8")
    assert read_labels(other, load_graph(other)) == read_labels(dataset, load_graph(dataset))


def test_labels_follow_ids_not_the_order_of_the_table(dataset: Path) -> None:
    before = in_ids(read_labels(dataset, load_graph(dataset)), load_graph(dataset))
    table = dataset / "nodes-paper.csv"
    header, *rows = table.read_text("utf-8").splitlines()
    table.write_text("\n".join([header, *reversed(rows)]) + "\n", encoding="utf-8")
    data = load_graph(dataset)
    assert in_ids(read_labels(dataset, data), data) == before


def test_the_file_of_labels_is_as_documented(dataset: Path) -> None:
    lines = (dataset / "extra-ground-truth.jsonl").read_text("utf-8").splitlines()
    entries = {(e["src"], e["dst"]): e["paths"] for e in map(json.loads, lines)}
    assert entries["ö:1", "q"][0] == [
        ["author", "writes", "paper", "ö:1", "p"], ["paper", "cites", "paper", "p", "q"]
    ]  # fmt: skip
    data = load_graph(dataset)
    assert len(entries) == len(lines) == data[LIKES].num_edges


def test_what_the_data_set_is_comes_back(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "made"
    make_augcitation_folder(source, out, 4, num_likes=2, max_degree=9, licence="CC0 → free")
    info = read_info(out)
    assert info is not None
    assert (info.name, info.link_type, info.seed) == ("AugCitation", LIKES, 4)
    assert info.paper_split is True
    assert info.settings == {
        "source": "source", "num_likes": 2, "max_length": 3, "max_degree": 9, "max_paths": 5,
        "rule": "paper",
    }  # fmt: skip
    assert info.licence == "CC0 → free"
    assert "pagelink" in info.versions
    assert str(tmp_path) not in (out / "extra-dataset.json").read_text("utf-8")
    assert read_info(source) is None


def test_same_seed_same_files(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_useritemattr_folder(tmp_path / name, seed, num_likes=20)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a") != contents(tmp_path / "c")


def test_useritemattr_comes_back(tmp_path: Path) -> None:
    summary = make_useritemattr_folder(tmp_path / "made", seed=5)
    generated = generate_useritemattr(seed=5)
    data = load_graph(tmp_path / "made")
    assert read_labels(tmp_path / "made", data) == generated.labels
    assert torch.equal(data["user", "likes", "item"].edge_index, generated.likes)
    assert data["item"].name == generated.data["item"].name
    info = read_info(tmp_path / "made")
    assert info is not None
    assert (info.name, info.paper_split) == ("UserItemAttr", True)
    num_likes = len(generated.labels)
    assert (summary.num_nodes, summary.num_links) == (250, num_likes)
    assert summary.num_edges == 2 * (1222 + 227) + num_likes
    assert f"{num_likes} are links to predict (user,likes,item), with" in str(summary)


def test_augcitation_out_of_an_aminer_file(tmp_path: Path) -> None:
    file = tmp_path / "papers.txt"
    papers = [
        {"id": "p", "title": "P", "authors": ["Ada", "Bo"], "references": ["q"]},
        {"id": "q", "title": "Q", "authors": ["Bo"], "references": ["z"]},
        {"id": "r", "title": "R", "references": ["z"]},
    ]
    file.write_text("".join(json.dumps(paper) + "\n" for paper in papers))
    graph = make_aminer_folder(file, tmp_path / "graph")
    assert str(graph) == f"{tmp_path / 'graph'}: 6 nodes, 6 edges"
    direct = make_augcitation_folder(file, tmp_path / "direct", num_likes=None)
    make_augcitation_folder(tmp_path / "graph", tmp_path / "by_graph", num_likes=None)
    labels = []
    for name in ("direct", "by_graph"):
        assert '"rev_writes"' in (tmp_path / name / "extra-ground-truth.jsonl").read_text()
        data = load_graph(tmp_path / name)
        labels.append(in_ids(read_labels(tmp_path / name, data), data))
    # Bo's second paper cites what r cites; Ada's coauthor wrote what her paper cites.
    assert labels[0] == labels[1]
    assert labels[0].keys() == {("Ada", "q"), ("Bo", "r")}
    assert (direct.num_links, direct.num_qualifying, direct.mean_paths) == (2, 2, 1.5)
    assert direct.num_edges == 8


def test_a_folder_that_is_there_is_left_alone(source: Path, tmp_path: Path) -> None:
    before = contents(source)
    for make in (
        lambda: make_useritemattr_folder(source),
        lambda: make_augcitation_folder(source, source, num_likes=2),
        lambda: make_aminer_folder(tmp_path / "unread.txt", source),
    ):
        with pytest.raises(GraphError, match="source: is there already"):
            make()
    assert contents(source) == before
    (tmp_path / "empty").mkdir()
    make_augcitation_folder(source, tmp_path / "empty", num_likes=2)
    assert read_info(tmp_path / "empty") is not None


def test_labels_are_found_where_there_are_any(source: Path, dataset: Path) -> None:
    data = load_graph(dataset)
    assert find_labels(dataset, data, LIKES) == read_labels(dataset, data)
    assert find_labels(dataset, data, ("author", "writes", "paper")) is None
    assert find_labels(source, load_graph(source), LIKES) is None


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_half_written_is_left(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def broken(*_: object) -> object:
        yield '{"src": '
        raise fault

    monkeypatch.setattr(folders, "label_lines", broken)
    expected = GraphError if isinstance(fault, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as raised:
        make_augcitation_folder(source, tmp_path / "made", num_likes=2)
    if expected is GraphError:
        assert str(raised.value) == (
            f"{tmp_path / 'made'}: cannot be written: No space left on device."
        )
    assert [file.name for file in tmp_path.iterdir()] == ["source"]


def test_a_fault_of_the_tables_names_the_folder_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables.pa.csv, "write_csv", full)
    made = tmp_path / "made"
    with pytest.raises(GraphError) as raised:
        make_useritemattr_folder(made)
    assert str(raised.value) == f"{made}: cannot be written: No space left on device."
    assert list(tmp_path.iterdir()) == []


def test_a_labelled_link_must_be_in_the_graph(tmp_path: Path) -> None:
    built = build_augcitation(citation_graph(), num_likes=2)
    info = DatasetInfo("x", LIKES, seed=0, settings={})
    data = citation_graph()
    with pytest.raises(GraphError, match=r"labelled link .* is not an edge"):
        write_dataset(tmp_path / "x", data, built.labels, info=info)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON"),
        ('{"src": "b"}', "must be an object of src, dst and paths"),
        ('{"src": "z", "dst": "q", "paths": []}', "no author with the id 'z'"),
        ('{"src": "b", "dst": "q", "paths": {}}', "paths must be a list"),
        ('{"src": "b", "dst": "q", "paths": [[["author", "writes"]]]}', "a path must be a list"),
        ('{"src": "b", "dst": "q", "paths": [[]]}', "a path does not end at dst"),
        (
            '{"src": "b", "dst": "q", "paths": [[["author", "writes", "paper", "ö:1", "p"]]]}',
            "step 1 of a path does not go on",
        ),
        (
            '{"src": "b", "dst": "q", "paths": [[["author", "wrote", "paper", "b", "p"]]]}',
            r"no relation \('author', 'wrote', 'paper'\)",
        ),
        (
            '{"src": "b", "dst": "q", "paths": [[["author", "writes", "paper", "b", "q"]]]}',
            r"no edge \('author', 'writes', 'paper'\) between 'b' and 'q'",
        ),
        ('{"src": "ö:1", "dst": "q", "paths": []}', "the link is there already"),
    ],
)  # fmt: skip
def test_a_bad_line_of_labels_is_named(dataset: Path, line: str, message: str) -> None:
    file = dataset / "extra-ground-truth.jsonl"
    lines = [entry for entry in file.read_text("utf-8").splitlines() if '"src": "ö:1"' in entry]
    file.write_text("\n".join([*lines, line]) + "\n", encoding="utf-8")
    place = rf"extra-ground-truth\.jsonl, line {len(lines) + 1}: "
    with pytest.raises(GraphError, match=place + ".*" + message):
        read_labels(dataset, load_graph(dataset))


def test_a_folder_without_ground_truth_says_so(source: Path, dataset: Path) -> None:
    with pytest.raises(GraphError, match=r"source: there is no ground truth.*extra-dataset\.json"):
        read_labels(source, load_graph(source))
    (dataset / "extra-ground-truth.jsonl").unlink()
    with pytest.raises(GraphError, match=r"extra-ground-truth\.jsonl is missing"):
        read_labels(dataset, load_graph(dataset))


@pytest.mark.parametrize("text", ["", "[]", '{"name": "x"}', '{"link_type": ["a", "b"]}', "\ufffd"])
def test_a_bad_description_is_refused(dataset: Path, text: str) -> None:
    (dataset / "extra-dataset.json").write_text(text, encoding="utf-8")
    with pytest.raises(GraphError, match=r"extra-dataset\.json: must be a JSON object"):
        read_info(dataset)


def test_settings_are_checked(source: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="num_likes must be in"):
        make_augcitation_folder(source, tmp_path / "made")
    with pytest.raises(GraphError, match=r"surce: there is no such file.*Did you mean 'source'"):
        make_augcitation_folder(tmp_path / "surce", tmp_path / "made")
    assert not (tmp_path / "made").exists()
