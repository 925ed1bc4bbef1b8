"""`pagelink bench faithfulness --only sides`: the frontier over rho, and runs that are kept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pagelink.bench.answers import DEFAULT, make_explainer
from pagelink.bench.faithfulness import sides
from pagelink.bench.faithfulness.sides import (
    GAIN,
    KNOWING,
    QUICK_LINKS,
    QUICK_PATHS,
    QUICK_RHOS,
    QUICK_SUBJECT,
    REMOVAL,
    RIVALS,
)
from pagelink.bench.runs import Run
from pagelink.bench.subjects import load_subject
from pagelink.cli.main import app
from pagelink.rivals.greedy import all_paths
from pagelink.rivals.ground import FactPath, Ground, facts_of
from pagelink.settings import Settings

COMMAND = ["bench", "faithfulness", "--only", "sides", "--quick", "--out"]


def test_table() -> None:
    share = {"value": 0.25, "low": 0.125, "high": 0.5}
    key = {"subject": "some", "seed": 3}
    figures = {
        **{name: share for name in sides.SHARES}, "paths": 2.5, "links": 8, "supportable": 6,
        "not_positive": {"removal": 1, "gain": 2}, "per link": {},
    }  # fmt: skip
    greedy = {**figures, "per link": {"exhaustive": [True, False, False]}}
    own = {**figures, "verdicts": {"supported": 0.75, "none": 0.25}}
    found = sides.table([
        Run("sides", "rho = 0.5", {**key, "row": "rho = 0.5"}, own, 1, 1, {}, "", ""),
        Run("sides", REMOVAL, {**key, "row": REMOVAL}, greedy, 1, 1, {}, "", ""),
    ])  # fmt: skip
    assert found.columns[-3:] == ("paths", "supported", "none")
    cells = ("0.250 [0.125, 0.500]",) * 4
    assert found.rows[0] == ("rho = 0.5", *cells, "2.50", "0.75", "0.25")
    assert found.rows[1] == (REMOVAL, *cells, "2.50", "-", "-")
    assert "8 links, 6 of them supportable, seed 3" in found.note
    assert "not positive for 1 links, greedy gain for 2; of 2 links not all" in found.note


def test_quick_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = CliRunner().invoke(app, [*COMMAND, str(tmp_path)])
    assert first.exit_code == 0, first.output
    rows = json.loads((tmp_path / "sides.json").read_text())["rows"]
    knowing = [f"knows the labels, rho = {rho:g}" for rho in KNOWING]
    by_rho = [f"rho = {rho:g}" for rho in QUICK_RHOS]
    assert list(rows) == [*by_rho, *RIVALS, *knowing, REMOVAL, GAIN]
    assert rows[REMOVAL]["removal"]["value"] == pytest.approx(1)
    assert rows[GAIN]["gain"]["value"] == pytest.approx(1)
    assert rows[GAIN]["removal"]["value"] < 1
    assert rows[REMOVAL]["gain"]["value"] < 1
    for row in rows.values():
        assert row["links"] == QUICK_LINKS
        assert 0 <= row["label"]["value"] <= 1
        assert "per link" not in row
    assert sum(rows["rho = 1"]["verdicts"].values()) == pytest.approx(1)
    text = (tmp_path / "sides.md").read_text()
    assert text in first.output
    files = sorted((tmp_path / "runs" / "sides").glob("*.json"))
    assert len(files) == len(rows)
    before = {file: file.stat().st_mtime_ns for file in files[1:]}
    files[0].unlink()
    again = CliRunner().invoke(app, [*COMMAND, str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert files[0].exists()
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert (tmp_path / "sides.md").read_text() == text


def worth(
    one: frozenset[FactPath], both: Sequence[dict[frozenset[FactPath], float]], noise: float
) -> float:
    """Of a set, where both sides count; -1 if a path adds less than 5 % to the others."""
    for path in one:
        added = [1 - side[one - {path}] / side[one] for side in both if side[one] > noise]
        if max(added, default=0.0) < 0.05:
            return -1.0
    n, g = (min(max(side[one] / max(side.values()), 0.0), 1.0) for side in both)
    return 2 * n * g / (n + g) if n + g else 0.0


def test_sets_that_know_the_labels_by_brute_force(tmp_path: Path) -> None:
    subject = load_subject(QUICK_SUBJECT, QUICK_LINKS, 0, tmp_path)
    explainer = make_explainer(subject, DEFAULT, Settings(), 0)
    ground = Ground.of(explainer, subject.pairs)
    every = ground.ranked(all_paths(ground, QUICK_PATHS)[0])
    # Any path may be called a labelled one: here it is the last by degree.
    labels = [paths[-1:] for paths in every]
    at_all, best = (sides.knowing(ground, labels, rho, QUICK_PATHS) for rho in (0.0, 1.0))
    labelled = 0
    for link, paths in enumerate(every):
        sets = [frozenset(c) for n in (1, 2, 3) for c in itertools.combinations(paths, n)]
        links, facts = [link] * len(sets), [facts_of([*one]) for one in sets]
        both = [
            {**dict(zip(sets, side(links, facts).tolist(), strict=True)), frozenset(): 0.0}
            for side in (ground.effects, ground.gains)
        ]
        noise = explainer.setup.noise
        assert all(max(side.values()) > noise for side in both)
        worths = {one: worth(one, both, noise) for one in sets}
        assert worths[frozenset(best[link])] == pytest.approx(max(worths.values()), abs=1e-5)
        (label,) = labels[link]
        highest = max(value for one, value in worths.items() if label in one)
        if highest >= 0:
            labelled += 1
            assert label in at_all[link]
            assert worths[frozenset(at_all[link])] == pytest.approx(highest, abs=1e-5)
    assert labelled
