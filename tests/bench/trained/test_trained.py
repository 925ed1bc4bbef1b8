"""The benchmark of models without messages, on a tiny graph."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from pagelink.bench.trained.bench import COST_LINKS, _correlation, run_and_print
from pagelink.bench.trained.rows import ROWS
from pagelink.bench.trained.subjects import PLANS, TINY, fit, load_facts, tail_ranks
from pagelink.errors import SettingsError


def test_the_tiny_version_runs_and_is_not_done_again(tmp_path: Path) -> None:
    console = Console(file=io.StringIO())
    given = {"models": ["ComplEx"], "predictions": 2, "links": 1, "seeds": 2, "quick": True}
    runs = run_and_print(tmp_path, console, **given)  # type: ignore[arg-type]
    again = run_and_print(tmp_path, console, **given)  # type: ignore[arg-type]
    assert [run.date for run in runs] == [run.date for run in again]
    deletion, agreement, cost = runs
    assert set(deletion.figures) == {"predictions", "none", *ROWS}
    assert deletion.figures["none"]["facts"] == 0
    assert all(deletion.figures[row]["facts"] > 0 for row in ROWS)
    assert agreement.figures["links"] == 1
    written = json.loads((tmp_path / "trained.json").read_text("utf-8"))
    assert written["quick"]
    assert len(written["tables"]) == 3
    seconds = [len(mine["links"]) for mine in cost.figures.values()]
    assert seconds == [COST_LINKS] * 2


def test_a_part_alone_and_agreement_on_the_last_links(tmp_path: Path) -> None:
    console = Console(file=io.StringIO())
    (run,) = run_and_print(
        tmp_path, console, models=["ComplEx"], only=["agreement"], predictions=2, links=1, seeds=2,
        quick=True,
    )  # fmt: skip
    assert run.key["part"] == "agreement"
    of_sets, of_links = (
        sorted(json.loads(file.read_text("utf-8"))["key"]["link"] for file in
               (tmp_path / "runs" / part).glob("*.json") if not file.name.endswith("-0.json"))
        for part in ("trained-sets", "trained-links")
    )  # fmt: skip
    assert len(of_links) == 1
    assert of_links == of_sets
    with pytest.raises(SettingsError, match="deletion"):
        run_and_print(tmp_path, console, only=["deletions"], quick=True)


def test_a_model_that_is_trained_again_learns_and_repeats_itself() -> None:
    facts = load_facts(TINY)
    plan = PLANS[TINY]
    one, two, other = (fit("complex", facts, plan, seed) for seed in (0, 0, 1))
    assert one.nodes.equal(two.nodes)
    assert not one.nodes.equal(other.nodes)
    ranks = tail_ranks(one, facts, facts.train[:40])
    assert (1 / ranks).mean() > 0.5


def test_ranks_leave_out_what_is_known() -> None:
    facts = load_facts(TINY)
    model = fit("complex", facts, PLANS[TINY], 0)
    link = facts.test[:1]
    (rank,) = tail_ranks(model, facts, link)
    head, relation, tail = link[0].tolist()
    count = len(facts.entities)
    ends = torch.tensor([head]).expand(count), torch.tensor([relation]).expand(count)
    score = model.scores(*ends, torch.arange(count)).tolist()
    code = facts.codes(np.array([[head, relation, end] for end in range(len(score))]))
    better = [end for end in range(len(score)) if score[end] > score[tail] + 1e-6
              and code[end] not in facts.known]  # fmt: skip
    assert rank == 1 + len(better)


def test_the_correlation_is_that_of_ranks() -> None:
    one = np.array([0.1, 5.0, 2.0, 3.0])
    assert round(_correlation(one, one**3, by_rank=True), 9) == 1
    assert round(_correlation(one, one**3, by_rank=False), 3) == 0.898
    assert round(_correlation(one, np.array([1.0, 2.0, 3.0, 4.0]), by_rank=True), 9) == 0.4
    assert np.isnan(_correlation(one, np.ones(4), by_rank=True))
