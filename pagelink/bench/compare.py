"""`pagelink bench compare`: every explainer on a model of one's own, by what needs no labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from pagelink.bench.paper.explainers import run_stage
from pagelink.bench.paper.plan import Plan
from pagelink.bench.paper.runner import COMPARE, RUNS, report, shown_progress
from pagelink.bench.paper.stage import Dataset, Stage
from pagelink.bench.runs import RunStore
from pagelink.bench.subjects import checkpoint_subject
from pagelink.errors import PageLinkError, SettingsError, did_you_mean
from pagelink.models.checkpoint import Checkpoint
from pagelink.rivals.registry import RIVALS


def check_explainers(given: str | None) -> tuple[str, ...]:
    """Return the explainers named in a list with commas, all if there is none.

    Raises:
        SettingsError: there is no such explainer.

    Example:
        >>> check_explainers("degree, pagelink")
        ('degree', 'pagelink')
    """
    names = tuple(name.strip() for name in (given or ",".join(RIVALS)).split(",") if name.strip())
    for name in names:
        if name not in RIVALS:
            raise SettingsError(
                f"An explainer is one of {', '.join(RIVALS)}; got {name!r}."
                + did_you_mean(name, RIVALS)
            )
    return names


def compare_and_print(
    stored: Checkpoint,
    model: Path,
    explainers: Sequence[str],
    out: Path,
    console: Console,
    *,
    links: int,
    seeds: int,
    seed: int,
) -> list[Path]:
    """Run explainers on test links that a model predicts, print the tables, write the reports.

    Args:
        stored: the model with its graph.
        model: the file it is from, which tells its runs from those of others.
        explainers: their names.
        out: folder for the run files and the reports.
        console: where to print.
        links: number of links at most.
        seeds: number of explainer seeds.
        seed: of the choice of the links, and the first one of the explainers.

    Raises:
        PageLinkError: the model predicts no test link.
    """
    name = model.stem
    subject = checkpoint_subject(name, stored, links, seed)
    if not subject.pairs:
        raise PageLinkError(
            f"{model} predicts none of its test links, so there is nothing to explain. Train it "
            "longer, or on more links."
        )
    data = stored.data
    known_by: dict[str, Any] = {
        "checkpoint": hashlib.sha256(model.read_bytes()).hexdigest()[:16],
        "nodes": sum(int(data[kind].num_nodes or 0) for kind in data.node_types),
        "edges": sum(int(data[kind].num_edges) for kind in data.edge_types),
        "links by seed": seed,
    }
    stage = Stage(
        Dataset(name, f"{name} ({', '.join(stored.link_type)})", None),
        Plan(out / "models", seeds, links), subject, known_by,
    )  # fmt: skip
    with shown_progress(console) as step:
        run_stage(RunStore(out / RUNS), stage, explainers, range(seed, seed + seeds), step, COMPARE)
    return report(out, out, console)
