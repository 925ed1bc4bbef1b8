"""All checks of a model, and their report in words.

With the two checks that only count: how often the model relies on paths at all, and how much of the
explanations runs through hubs, the nodes of highest degree.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pagelink.checks.checked_model import (
    CheckedModel,
    Finding,
    Mark,
    check_randomisation,
    choose_links,
    percent,
)
from pagelink.checks.relations import check_leaks, check_relations
from pagelink.errors import SettingsError
from pagelink.explain.result import Explanation
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.verdict import VERDICTS
from pagelink.models.checkpoint import Checkpoint
from pagelink.runtime.arrays import Bools
from pagelink.runtime.files import write_text
from pagelink.settings import Settings
from pagelink.views.verdict_wording import VERDICT_WORDS

TOP = 0.01
"""Hubs are this share of the nodes, those of highest degree."""
MUCH = 0.5
"""Paths through hubs are worth a warning from this share on."""


def hubs(graph: TypedGraph, share: float = TOP) -> Bools:
    """Return which nodes are hubs: at least one, and all of the same degree together.

    Args:
        graph: the graph.
        share: of the nodes, 0 to 1.
    """
    count = max(int(share * graph.num_nodes), 1)
    bar = np.partition(graph.degree, -count)[-count]
    found: Bools = graph.degree >= max(int(bar), 1)
    return found


def check_hubs(graph: TypedGraph, explanations: Sequence[Explanation]) -> Finding:
    """Count the paths whose inner nodes are hubs.

    Args:
        graph: the graph.
        explanations: of some links in it.
    """
    is_hub = hubs(graph)
    paths = [path for answer in explanations for path in answer.paths]
    inner = [[graph.flat_index(*node) for node in path.nodes[1:-1]] for path in paths]
    through = sum(any(is_hub[v] for v in nodes) for nodes in inner)
    visits = Counter(v for nodes in inner for v in nodes)
    all_visits = sum(visits.values())
    hub_visits = sum(n for v, n in visits.items() if is_hub[v])
    facts = float(graph.degree[is_hub].sum() / max(int(graph.degree.sum()), 1))
    share_of_inner = hub_visits / all_visits if all_visits else 0.0
    figures = {
        "num_hubs": int(is_hub.sum()),
        "least_degree": int(graph.degree[is_hub].min()) if is_hub.any() else 0,
        "num_paths": len(paths),
        "paths_through_hubs": through,
        "share_of_inner_nodes": share_of_inner,
        "share_of_facts": facts,
        "most_visited": [
            {"name": graph.node_name(v), "degree": int(graph.degree[v]), "paths": n}
            for v, n in visits.most_common(5)
        ],
    }
    if not paths:
        return Finding("hubs", "not checked", "There are no paths to look at.", (), figures)
    share = through / len(paths)
    details = [
        f"Hubs are {int(is_hub.sum())} nodes of degree {figures['least_degree']} or more; "
        f"{percent(facts)} of all ends of facts are at them.",
        f"They are {percent(share_of_inner)} of the inner nodes of paths.",
        "Most visited: "
        + ", ".join(
            f"{graph.node_name(v)} (degree {graph.degree[v]}, {n} paths)"
            for v, n in visits.most_common(3)
        )
        + ".",
    ]  # fmt: skip
    mark: Mark = "warning" if share >= MUCH else "fine"
    verdict = (
        f"{percent(share)} of the paths run through the top 1 % of the nodes by degree"
        + (": what they say is true of most links. Try --max-degree." if mark == "warning" else ".")
    )  # fmt: skip
    return Finding("hubs", mark, verdict, tuple(details), figures)


# How often the model relies on paths at all.


WORDS: dict[str, str] = {verdict: words.short for verdict, words in VERDICT_WORDS.items()}
HALF = 0.5


def check_verdicts(explanations: Sequence[Explanation]) -> Finding:
    """Count the verdicts of explanations, and the reasons of links without paths."""
    found: Counter[str] = Counter(
        a.evidence.verdict if a.evidence is not None else a.reason or "not measured"
        for a in explanations
    )
    total = len(explanations)
    figures = {"links": total, "shares": {k: n / total for k, n in sorted(found.items())}}
    details = tuple(
        f"{percent(found[name] / total)} {name.replace('_', ' ')}"
        + (f": {WORDS[name]}." if name in WORDS else ".")
        for name in [*VERDICTS, *sorted(set(found) - set(VERDICTS))]
        if name in found
    )
    supported = found["supported"] / total
    mark: Mark = "fine"
    verdict = f"For {percent(supported)} of the links the paths carry the prediction."
    if not any(name in found for name in VERDICTS):
        mark, verdict = "not checked", "No link has paths."
    elif supported < HALF:
        mark = "warning"
        verdict = (
            f"Only for {percent(supported)} of the links the paths carry the prediction: for the "
            "others no explanation by paths is true of this model."
        )
    return Finding("verdicts", mark, verdict, details, figures)


TITLES = {
    "verdicts": "Does the model rely on paths?",
    "relations": "Do paths avoid what the model cannot see?",
    "randomisation": "Do explanations depend on the model?",
    "leaks": "Do paths merely restate the link?",
    "hubs": "Do paths run through hubs?",
}
LINKS = 50


@dataclass(frozen=True)
class CheckReport:
    """What all checks of a model came to."""

    link_type: tuple[str, str, str]
    num_links: int
    seed: int
    findings: tuple[Finding, ...]

    @property
    def summary(self) -> str:
        """How many checks are fine, and what to look at."""
        by_mark = {
            mark: [TITLES[f.name].rstrip("?").lower() for f in self.findings if f.mark == mark]
            for mark in ("fine", "warning", "not checked")
        }
        line = f"{len(by_mark['fine'])} of {len(self.findings)} checks are fine."
        if by_mark["warning"]:
            line += f" To look at: {'; '.join(by_mark['warning'])}."
        if by_mark["not checked"]:
            line += f" Not checked: {'; '.join(by_mark['not checked'])}."
        return line

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"Checked the explanations of {self.num_links} links ({self.link_type[1]})."
        for finding in self.findings:
            yield ""
            yield f"{TITLES[finding.name]} [{finding.mark}]"
            yield f"  {finding.verdict}"
            for line in finding.details:
                yield f"  - {line}"
        yield ""
        yield self.summary

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings."""
        return {**asdict(self), "summary": self.summary}


def check(
    checkpoint: Checkpoint,
    *,
    num_links: int = LINKS,
    seed: int = 0,
    settings: Settings | None = None,
    retrain: bool = True,
) -> CheckReport:
    """Run all checks on the model of a checkpoint.

    Args:
        checkpoint: the model, with its graph and its split.
        num_links: test links to explain, the predicted ones first.
        seed: where random numbers come from.
        settings: how to explain.
        retrain: also train a model on links paired at random, to compare with.

    Raises:
        SettingsError: no links are requested.
    """
    if num_links < 1:
        raise SettingsError(f"num_links must be at least 1, got {num_links}.")
    links = choose_links(checkpoint, num_links, seed)
    checked = CheckedModel(
        checkpoint.model,
        checkpoint.whole_data,
        checkpoint.link_type,
        links,
        settings or Settings(),
        seed,
    )
    explanations = checked.explain()
    findings = (
        check_verdicts(explanations),
        check_relations(checked, explanations),
        check_randomisation(checked, checkpoint, retrain=retrain),
        check_leaks(checked, explanations, checkpoint.split.all),
        check_hubs(checkpoint.graph, explanations),
    )
    return CheckReport(checkpoint.link_type, len(links), seed, findings)


def check_and_print(
    checkpoint: Checkpoint,
    num_links: int,
    seed: int,
    retrain: bool,
    out: Path | None,
    console: Console,
) -> CheckReport:
    """Run all checks, print the report, and write it as JSON if asked."""
    report = check(checkpoint, num_links=num_links, seed=seed, retrain=retrain)
    console.print(str(report), markup=False)
    if out is not None:
        text = json.dumps(report.to_dict(), ensure_ascii=False, indent=1)
        console.print(f"Wrote {write_text(out, text)}", markup=False)
    return report
