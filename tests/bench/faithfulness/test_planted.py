"""`pagelink bench faithfulness --only planted`: figures by hand, tables, and runs that are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.explanations import make_evidence, make_explanation, make_path
from typer.testing import CliRunner

from pagelink.bench.faithfulness import planted
from pagelink.bench.faithfulness.planted import EVIDENCE, EXPLAINERS, FIRST, VERDICT
from pagelink.bench.runs import Run
from pagelink.cli.main import app
from pagelink.datasets.mechanisms import Mechanism, MechanismLink, make_mechanism
from pagelink.explain.result import Explanation
from pagelink.explain.result import Path as ResultPath

STEPS = {"mix": ("saves", "contains"), "artist": ("follows", "rev_by")}


def through(link: MechanismLink, kind: str, evidence: bool) -> ResultPath:
    """A path through the planted mix, which is used, or through some artist."""
    mixes = [other for path in link.used for name, _, other in path if name == "saves"]
    inner = (kind, mixes[0] if kind == "mix" else 0)
    relations = [(step, False) for step in STEPS[kind]]
    nodes = [("listener", link.src), inner, ("track", link.dst)]
    return replace(make_path(nodes, relations), is_evidence=evidence)


def answer(link: MechanismLink, verdict: str, *paths: tuple[str, bool]) -> Explanation:
    shown = [through(link, kind, evidence) for kind, evidence in paths]
    return make_explanation(*shown, evidence=make_evidence(verdict))


def test_figures_by_hand() -> None:
    mechanism = make_mechanism("metapath", 4)
    a, b, c, d = mechanism.links
    answers = [
        answer(a, "supported", ("mix", True)),
        answer(b, "supported", ("mix", True), ("artist", True)),
        answer(c, "structure_not_used", ("artist", False), ("mix", False)),
        answer(d, "supported", ("mix", True), ("artist", False)),
    ]
    figures = planted.judged(mechanism, answers, seed=0)
    assert figures[FIRST]["value"] == 0.75
    assert figures[EVIDENCE]["value"] == 0.75
    assert figures[VERDICT]["value"] == 0.75
    assert 0 <= figures[FIRST]["low"] < 0.75 < figures[FIRST]["high"] <= 1
    assert figures["verdicts"] == {"supported": 3, "structure_not_used": 1}
    assert figures["first paths"] == {"saves contains": 3, "follows rev_by": 1}

    # No answer is a wrong answer, but nothing that is not there is called evidence.
    figures = planted.judged(mechanism, [*answers[:3], make_explanation()], seed=0)
    assert [figures[key]["value"] for key in (FIRST, EVIDENCE, VERDICT)] == [0.5, 0.75, 0.5]


def test_without_a_used_path_no_first_path_is_right() -> None:
    mechanism = make_mechanism("popularity", 2)
    answers = [make_explanation(evidence=make_evidence("supported"))] * 2
    assert planted.judged(mechanism, answers, seed=0)[FIRST] is None
    # A verdict that explanations do not have yet is compared by its name.
    answers = [make_explanation(evidence=make_evidence("degree_only")), answers[0]]
    assert planted.judged(mechanism, answers, seed=0)[VERDICT]["value"] == 0.5


def run(mechanism: str, explainer: str, first: float | None, **verdicts: int) -> Run:
    share = {"value": 0.25, "low": 0.125, "high": 0.5}
    figures = {
        FIRST: None if first is None else {**share, "value": first}, EVIDENCE: share,
        VERDICT: share, "verdicts": verdicts,
    }  # fmt: skip
    key: dict[str, Any] = {
        "mechanism": mechanism, "explainer": explainer, "links": 8, "seed": 3,
        "settings": {"max_length": 3},
    }  # fmt: skip
    return Run("planted", f"{mechanism} {explainer}", key, figures, 1, 1, {}, "", "2026-01-01")


def test_tables() -> None:
    runs = [
        run("popularity", "default", None, supported=6, degree_only=2),
        run("metapath", "default", 0.4, supported=8),
        run("metapath", "gradient", 0.3, supported=8),
    ]
    main, first, *_ = planted.tables(runs)
    assert main.rows[0] == (
        "metapath", "0.400 [0.125, 0.500]", "0.250 [0.125, 0.500]", "0.250 [0.125, 0.500]",
        "supported", "-",
    )  # fmt: skip
    assert main.rows[1][0] == "popularity"  # in the order of the mechanisms
    assert (main.rows[1][1], *main.rows[1][-2:]) == ("-", "degree_only", "supported 6")
    assert "8 links per mechanism, seed 3, paths of at most 3 facts" in main.note
    assert first.columns == ("", *EXPLAINERS)
    assert first.rows[0] == ("metapath", "0.400", "-", "-", "0.300", "-", "-")
    assert planted.tables([]) == []


def test_quick_run_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planted, "QUICK_MECHANISMS", ("parallel",))
    command = ["bench", "faithfulness", "--only", "planted", "--quick", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    files = sorted((tmp_path / "runs" / "planted").glob("*.json"))
    assert len(files) == len(EXPLAINERS)
    for file in files:
        stored = json.loads(file.read_text())
        assert stored["key"]["links"] == planted.QUICK_LINKS
        assert sum(stored["figures"]["verdicts"].values()) == planted.QUICK_LINKS
        assert 0 <= stored["figures"][FIRST]["value"] <= 1
    table = (tmp_path / "planted.md").read_text()
    assert table in first.output
    assert "| parallel |" in table
    files[0].unlink()
    made: list[int] = []

    def counted(*given: Any) -> Mechanism:
        made.append(1)
        return make_mechanism(*given)

    monkeypatch.setattr(planted, "make_mechanism", counted)
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert made == [1]
    assert (tmp_path / "planted.md").read_text() == table


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    command = ["bench", "faithfulness", "--only", "plnated", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code != 0
    assert "Did you mean 'planted'" in str(done.exception) + done.output
