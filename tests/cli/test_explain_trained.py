"""`pagelink explain-trained`: a folder that PyKEEN wrote, on the command line."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.shell import shell

from pagelink import explain_trained
from pagelink.errors import GraphError, ModelError
from pagelink.trained.saved import load_pykeen
from pagelink.views.rows import read_rows

TOWNS = ["Rome", "Oslo", "Bern", "Kyiv", "Lima", "Cork", "Nice", "Baku"]
KINDS = ["flies to", "trades with"]


def save(folder: Path, *, inverse: bool = False) -> Path:
    """What `save_to_directory` of a result of PyKEEN writes of model and facts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = pytest.importorskip("pykeen.models")
        from pykeen.triples import TriplesFactory

        rng = np.random.default_rng(0)
        rows = np.unique(rng.integers(0, (8, 2, 8), (40, 3)), axis=0)
        named = [[TOWNS[h], KINDS[r], TOWNS[t]] for h, r, t in rows.tolist() if h != t]
        facts = TriplesFactory.from_labeled_triples(
            np.array(named), create_inverse_triples=inverse,
            entity_to_id={name: i for i, name in enumerate(TOWNS)},
            relation_to_id={name: i for i, name in enumerate(KINDS)},
        )  # fmt: skip
        model = models.DistMult(triples_factory=facts, embedding_dim=4, random_seed=0)
        folder.mkdir()
        torch.save(model, folder / "trained_model.pkl")
        facts.to_path_binary(folder / "training_triples")
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("pykeen") / "saved")


ONE = ("--src", "Rome", "--link", "flies to", "--dst", "Oslo")


def test_one_link_is_explained_as_in_python(saved: Path, tmp_path: Path) -> None:
    done = shell(
        "explain-trained", str(saved), *ONE, "--json", "it.json", "--html", "it.html",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (answer,) = explain_trained(*load_pykeen(saved), [("Rome", "flies to", "Oslo")])
    assert done.stdout.startswith(str(answer))
    told = json.loads((tmp_path / "it.json").read_text("utf-8"))
    assert told["src_name"] == "Rome"
    assert told["trained"]
    assert "mimics" in (tmp_path / "it.html").read_text("utf-8")


def test_a_table_of_links_with_one_that_fails(saved: Path, tmp_path: Path) -> None:
    table = "src,dst,link_type\nRome,Oslo,flies to\nRome,Atlantis,flies to\nRome,Oslo,\n"
    (tmp_path / "links.csv").write_text(table, "utf-8")
    done = shell(
        "explain-trained", str(saved), "--links", "links.csv", "--out", "rows.parquet",
        "--paths", "1", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3
    assert "2 of 3 links failed" in done.stdout
    rows: list[Any] = [row for part in read_rows(tmp_path / "rows.parquet") for row in
                       part.to_pylist()]  # fmt: skip
    assert [(row["line"], row["reason"]) for row in rows] == [
        (2, rows[0]["reason"]), (3, "invalid"), (4, "invalid"),
    ]  # fmt: skip
    assert rows[0]["reason"] != "invalid"
    assert "Atlantis" in rows[1]["message"]
    assert "head, relation and tail" in rows[2]["message"]


@pytest.mark.parametrize(
    "given",
    [
        ("--src", "Rome", "--dst", "Oslo"),
        (*ONE, "--out", "rows.csv"),
        ("--links", "links.csv"),
        ("--links", "links.csv", "--out", "rows.csv", "--html", "it.html"),
        ("--links", "links.csv", "--out", "folder"),
    ],
)
def test_options_that_do_not_go_together(given: tuple[str, ...], tmp_path: Path) -> None:
    assert shell("explain-trained", "saved", *given, cwd=tmp_path).returncode == 2


def test_what_cannot_be_explained_is_refused_with_what_to_do(saved: Path, tmp_path: Path) -> None:
    save(tmp_path / "inverse", inverse=True)
    done = shell("explain-trained", "inverse", *ONE, cwd=tmp_path)
    assert done.returncode == 1
    assert "create_inverse_triples" in done.stderr
    with pytest.raises(ModelError, match=r"has no trained_model\.pkl and no training_triples"):
        load_pykeen(tmp_path)
    broken = tmp_path / "broken"
    (broken / "training_triples").mkdir(parents=True)
    (broken / "trained_model.pkl").write_text("no pickle", "utf-8")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_pykeen(broken)
    (broken / "trained_model.pkl").write_bytes((saved / "trained_model.pkl").read_bytes())
    with pytest.raises(GraphError, match="cannot be read"):
        load_pykeen(broken)


def test_explain_points_from_such_a_folder_to_the_right_command(
    saved: Path, tmp_path: Path
) -> None:
    (tmp_path / "graph.tsv").write_text("Rome\tflies to\tOslo\n", "utf-8")
    given = ("--model", str(saved), "--src", "Rome", "--dst", "Oslo")
    done = shell("explain", "graph.tsv", *given, cwd=tmp_path)
    assert done.returncode == 1
    assert f"pagelink explain-trained {saved}" in " ".join(done.stderr.split())
