"""The claims of the paper beside stored runs: the words, the tables and the pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pagelink.bench import docs as paper_docs
from pagelink.bench.paper import claims
from pagelink.bench.paper.explainers import BOUND
from pagelink.bench.runs import RunStore

ROOT = Path(__file__).parents[3]
KEY = {"subject": "released", "title": "Released", "published": "UserItemAttr"}


def explained(store: RunStore, row: str, seed: int, **figures: Any) -> None:
    key = {**KEY, "row": f"{row}, seed {seed}", "seed": seed, "settings": {"path_loss": "released"}}
    if row == BOUND:
        key = {**KEY, "row": row, "settings": {}}
    store.do("explainers", f"{row} seed {seed}", key, lambda: {"row": row, "links": 10, **figures})


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """Ten links, eight supportable; of three the default misses the label, one is supportable."""
    store = RunStore(tmp_path)
    explained(store, BOUND, 0, **{"effect@3": 4.0, "links supportable": 8})
    explained(
        store, "pagelink", 0,
        **{"auc": 0.9, "effect@3": 3.0, "label@3": 0.7, "label@3 supportable": 7 / 8},
    )  # fmt: skip
    for seed, auc in enumerate((0.9, 1.0)):
        explained(store, "paper", seed, **{"auc": auc, "effect@3": -0.5, "hit rate@10": 0.25})
    explained(store, "degree", 0, **{"auc": 0.99, "effect@3": -1.0})
    return store


def test_the_conclusion_counts_links_whose_labels_do_nothing(store: RunStore) -> None:
    said = claims.conclusion(store)
    assert 'here with `path_loss="released"`, 2 seeds' in said
    assert "0.954 in the paper, 0.962 with its released code, 0.950 ± 0.071" in said
    assert "changes the score of the released model by +0.50 logits" in said
    assert (
        "those of the default by -3.00, and those of a greedy search over all paths by -4.00"
        in said
    )
    assert "For 2 of 10 links no labelled path has a positive effect" in said
    assert "Of the 3 links for which the default shows no labelled path, 2 are such links." in said


def test_nothing_is_concluded_without_runs(tmp_path: Path) -> None:
    empty = RunStore(tmp_path)
    assert claims.conclusion(empty) == ""
    assert claims.label_table([]) is None
    assert claims.count_table(empty) is None
    assert claims.pictures(empty) == {}


def test_figures_of_the_paper_its_code_and_ours_are_under_each_other(store: RunStore) -> None:
    table = claims.label_table(list(store.all("explainers")))
    assert table is not None
    rows = {row[0]: row[1:] for row in table.rows}
    assert list(rows)[:4] == [
        "**Released**", "PaGE-Link, paper", "PaGE-Link, released code",
        '`paper`, `path_loss="released"`, 2 seeds',
    ]  # fmt: skip
    assert rows["GNNExp-Link, paper"] == ("0.608", "0.000", "0.008", "0.016", "0.046")
    assert rows["GNNExp-Link, released code"] == ("0.605", "0.000", "0.008", "0.016", "0.047")
    assert rows['`paper`, `path_loss="released"`, 2 seeds'][1] == "0.250"
    assert rows["`degree`, no model"][0] == "0.990"
    assert not any(name.startswith("`gnnexp") for name in rows)


def test_forms_of_the_path_loss_are_beside_the_paper_and_its_code(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    assert claims.loss_table([]) is None
    names = ("auc", *(f"hit@{b}" for b in (10, 50, 100, 200)), *(f"first {n}" for n in (1, 3, 5)))
    for seed, auc in enumerate((0.9, 1.0)):
        figures = {**dict.fromkeys(names, 0.5), "auc": auc}
        for label in ("released settings, L_path with means", "released settings, before learning"):
            store.do("reference", f"{label} {seed}", {"label": label}, lambda own=figures: own)
    table = claims.loss_table(list(store.all("reference")))
    assert table is not None
    assert [row[0] for row in table.rows] == [
        "paper", "released code", '`path_loss="mean"`, 2 seeds'
    ]  # fmt: skip
    assert table.rows[0][1:] == ("0.954", "0.163", "0.705", "0.790", "0.907", "-", "-", "-")
    assert table.rows[1][5:] == ("0.938", "0.744", "0.922", "0.977")
    assert table.rows[2][1:3] == ("0.950 ± 0.071", "0.500")


def test_pictures_on_pages_are_drawn_from_the_committed_results() -> None:
    pages = "".join((ROOT / name).read_text("utf-8") for name in paper_docs.FILES)
    drawn = paper_docs.drawings(RunStore(ROOT / paper_docs.RESULTS))
    assert len(drawn) == 7
    for name, svg in drawn.items():
        assert f"](images/{name.name})" in pages
        assert ET.fromstring(svg).tag.endswith("svg")
        stored = (ROOT / name).read_text("utf-8")
        assert stored == svg, f"{name} is out of date: run `pagelink bench docs`"


def test_pictures_have_words_for_those_who_cannot_see_them() -> None:
    found = claims.pictures(RunStore(ROOT / paper_docs.RESULTS))
    words, svg = found[claims.CASE]
    assert "pagelink" in words
    assert "gnnexp" in words
    assert "do not join the two" in words
    assert "subgraphx" not in svg
    assert all(len(words) > 40 and "\n" not in words for words, _ in found.values())


def test_only_pictures_that_a_page_shows_are_written(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / paper_docs.RESULTS).symlink_to(ROOT / paper_docs.RESULTS)
    page = tmp_path / "docs" / "paper.md"
    marks = [f"<!-- benchmark:{claims.CASE.removesuffix('.svg')} -->", "<!-- /benchmark:"]
    page.write_text(f"{marks[0]}\n{marks[1]}{claims.CASE.removesuffix('.svg')} -->\n")
    written = [file.name for file in paper_docs.write_docs(tmp_path)]
    assert written == ["paper.md", claims.CASE]
    assert f"](images/{claims.CASE})" in page.read_text("utf-8")
    assert paper_docs.write_docs(tmp_path) == []
