from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support.dgl_files import EDGES, dgl_file

from pagelink.datasets.folders import DataNotFoundError, find_data, read_info, read_labels
from pagelink.datasets.ground_truth import Rule, find_labelled_pairs
from pagelink.datasets.reference import ReferenceData, load_reference, make_released_folders
from pagelink.errors import GraphError, ModelError
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models import node_inputs
from pagelink.tables.load import load_graph


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return find_data("useritemattr-reference")
    except DataNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def reference(folder: Path) -> ReferenceData:
    return load_reference(folder)


def test_sizes(reference: ReferenceData) -> None:
    data = reference.data
    assert {t: data[t].num_nodes for t in data.node_types} == {
        "attr": 50, "item": 100, "user": 100
    }  # fmt: skip
    assert {t[1]: data[t].num_edges for t in data.edge_types} == {
        "buys": 1222, "bought_by": 1222, "has": 227, "of": 227
    }  # fmt: skip
    assert data["user"].name[3] == "user 3"
    for part in (reference.split, reference.negatives):
        assert [p.shape[1] for p in (part.train, part.valid, part.test)] == [499, 71, 144]
    assert len(reference.labels) == 714
    assert set(reference.labels) == {(u, i) for u, i in reference.split.all.T.tolist()}


def test_edges_are_in_the_order_of_the_file(reference: ReferenceData, folder: Path) -> None:
    with np.load(folder / "synthetic_graph.npz") as arrays:
        for edge_type in reference.data.edge_types:
            src, dst = (arrays["__".join((*edge_type, end))] for end in ("src", "dst"))
            assert reference.data[edge_type].edge_index.tolist() == [src.tolist(), dst.tolist()]


def test_logits_are_the_released_ones(reference: ReferenceData, folder: Path) -> None:
    with np.load(folder / "synthetic_split.npz") as arrays:
        released = [torch.from_numpy(arrays[f"test_{sign}_score"]) for sign in ("pos", "neg")]
    inputs = node_inputs(reference.data), reference.data.edge_index_dict
    with torch.no_grad():
        links = reference.model(*inputs, reference.split.test)
        negatives = reference.model(*inputs, reference.negatives.test)
    torch.testing.assert_close(links, released[0], atol=1e-4, rtol=0)
    torch.testing.assert_close(negatives, released[1], atol=1e-4, rtol=0)
    assert not reference.model.training


def test_predicted_test_links(reference: ReferenceData) -> None:
    assert len(reference.test_links) == 129
    test = [(u, i) for u, i in reference.split.test.T.tolist()]
    assert set(reference.test_links) < set(test)
    inputs = node_inputs(reference.data), reference.data.edge_index_dict
    with torch.no_grad():
        logits = reference.model(*inputs, torch.tensor(reference.test_links).T)
    assert (logits > 0).all()


def test_labels_are_paths_of_the_graph(reference: ReferenceData) -> None:
    edges = {
        (*t, src, dst)
        for t in reference.data.edge_types
        for src, dst in reference.data[t].edge_index.T.tolist()
    }
    for (user, item), paths in reference.labels.items():
        for path in paths:
            assert set(path) <= edges
            assert (path[0][3], path[-1][4]) == (user, item)


@pytest.mark.parametrize(
    ("rule", "num_pairs", "num_equal"),
    # The rule as printed gives other paths to six links: it counts facts at hubs, too.
    [("released", 714, 714), ("paper", 3538, 708)],
)
def test_ground_truth_reproduces_the_released_labels(
    reference: ReferenceData, rule: Rule, num_pairs: int, num_equal: int
) -> None:
    graph = TypedGraph.from_data(reference.data)
    labels = find_labelled_pairs(graph, "user", "item", rule=rule).labels()
    assert len(labels) == num_pairs
    assert labels.keys() >= reference.labels.keys()
    equal = [set(labels[link]) == set(paths) for link, paths in reference.labels.items()]
    assert sum(equal) == num_equal


def test_other_weights_are_noticed(folder: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(folder, changed, copy_function=shutil.copyfile)
    with np.load(folder / "synthetic_model.npz") as arrays:
        weights = {key: arrays[key].copy() for key in arrays}
    weights["encoder.layer2.weight.has.bias"][0] += 1  # into attrs in the last layer: no effect
    changed.chmod(0o755)
    np.savez(changed / "synthetic_model.npz", **weights)
    assert len(load_reference(changed).test_links) == 129
    weights["encoder.layer2.weight.buys.bias"][0] += 0.01
    np.savez(changed / "synthetic_model.npz", **weights)
    with pytest.raises(ModelError, match=r"differ by up to 0\.\d+"):
        load_reference(changed)
    (changed / "synthetic_graph.npz").unlink()
    with pytest.raises(GraphError, match=r"synthetic_graph\.npz is missing"):
        load_reference(changed)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="nowhere"):
        load_reference(tmp_path / "nowhere")


def test_released_files_become_tables(tmp_path: Path) -> None:
    likes = ("user", "likes", "item")
    source, out = tmp_path / "datasets", tmp_path / "tables"
    source.mkdir()
    with pytest.raises(GraphError, match="none of the files synthetic, aug_citation"):
        make_released_folders(source, out)
    (source / "synthetic").write_bytes(dgl_file("coo"))
    with pytest.raises(GraphError, match="synthetic_pred_pair_to_path_labels is missing"):
        make_released_folders(source, out)
    file = source / "synthetic_pred_pair_to_path_labels"
    link, step = (("user", 0), ("item", 1)), (("user", "buys", "item"), 0, torch.tensor(1))
    for wrong in ([], {link[::-1]: []}, {link: [[step, ("buys",)]]}, {link: [[(step[0], 0, 9)]]}):
        torch.save(wrong, file)
        with pytest.raises(GraphError, match="a dictionary from links"):
            make_released_folders(source, out)
    file.write_bytes(b"no pickle")
    with pytest.raises(GraphError, match="a dictionary from links"):
        make_released_folders(source, out)
    torch.save({link: [[(step[0], 0, 2)]]}, file)
    with pytest.raises(GraphError, match="path_labels, line 1: "):
        make_released_folders(source, out)
    assert not out.exists()
    torch.save({link: [[step]]}, file)
    (made,) = make_released_folders(source, out)
    assert made.folder == out / "useritemattr"
    assert (made.num_links, made.num_nodes) == (1, 9)
    data = load_graph(made.folder)
    assert {kind: data[kind].edge_index.tolist() for kind in EDGES} == EDGES
    assert read_labels(made.folder, data) == {(0, 1): [(("user", "buys", "item", 0, 1),)]}
    info = read_info(made.folder)
    assert info is not None
    assert (info.name, info.link_type, info.seed) == ("UserItemAttr", likes, None)
