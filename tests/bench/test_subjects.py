"""Subjects: graphs that are read for them alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagelink.bench import subjects
from pagelink.bench.subjects import FB15K_LINK, load_subject, read_fb15k, subject_names
from pagelink.models import NBF


def test_fb15k_relations_are_domains_but_for_the_predicted_one(tmp_path: Path) -> None:
    triples = {
        "train": [("/m/a", "/film/film/genre", "/m/b"), ("/m/a", "/film/film/country", "/m/b")],
        "valid": [("/m/c", FB15K_LINK, "/m/a"), ("/m/b", "/film/actor/film", "/m/c")],
        "test": [("/m/c", "/sports/sport/team", "/m/a")],
    }
    for part, rows in triples.items():
        text = "".join("\t".join(row) + "\n" for row in rows)
        (tmp_path / f"{part}.txt").write_text(text)
    (tmp_path / "names.tsv").write_text("/m/b\tB of many\n/m/x\tnot there\n")
    data = read_fb15k(tmp_path)
    assert data["entity"].id == ["/m/a", "/m/b", "/m/c"]
    assert data["entity"].name == ["/m/a", "B of many", "/m/c"]
    found = {name: data["entity", name, "entity"].edge_index.tolist() for _, name, _ in
             data.edge_types}  # fmt: skip
    assert found == {
        FB15K_LINK: [[2], [0]], f"rev_{FB15K_LINK}": [[0], [2]],
        "film": [[0, 1], [1, 2]], "rev_film": [[1, 2], [0, 1]],
        "sports": [[2], [0]], "rev_sports": [[0], [2]],
    }  # fmt: skip


def test_the_kind_that_looks_at_the_pair_is_a_subject(tmp_path: Path) -> None:
    assert "augcitation-nbf" in subject_names(quick=False)
    subject = load_subject("tiny-nbf", 3, 0, tmp_path)
    assert isinstance(subject.model, NBF)
    # Without edges it knows nothing, however it was trained: all scores are equal but for rounding.
    found = subject.separations
    assert (found.edgeless_auc, found.twin_auc) == pytest.approx((0.5, 0.5), abs=0.05)
    again = load_subject("tiny-nbf", 3, 0, tmp_path)
    assert again.pairs == subject.pairs
    assert (again.separations, again.settings) == (found, subject.settings)


def test_a_model_for_all_relations_is_a_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = [(f"a{i}", subjects.KNOWLEDGE_LINK, f"f{j}") for i in range(8) for j in range(8)]
    kind = [(f"f{j}", "/film/film/genre", f"g{j % 3}") for j in range(8)]
    parts = {"train": acts[:40] + kind, "valid": acts[40:50], "test": acts[50:]}
    folder = tmp_path / "fb15k-237"
    folder.mkdir()
    for part, rows in parts.items():
        (folder / f"{part}.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    monkeypatch.setenv("PAGELINK_DATA", str(tmp_path))
    monkeypatch.setattr(subjects, "KNOWLEDGE_MINUTES", 0.01)
    subject = load_subject(subjects.KNOWLEDGE, 5, 0, tmp_path / "models")
    assert subject.link_type == ("entity", subjects.KNOWLEDGE_LINK, "entity")
    ids = subject.data["entity"].id
    named = {(ids[src], ids[dst]) for src, dst in subject.pairs}
    assert len(named) == 5
    assert named <= {(head, tail) for head, _, tail in acts[50:]}
    assert len(subject.train_links or ()) == 40
    (file,) = (tmp_path / "models").iterdir()
    before = file.read_bytes()
    assert load_subject(subjects.KNOWLEDGE, 5, 0, tmp_path / "models").pairs == subject.pairs
    assert file.read_bytes() == before
