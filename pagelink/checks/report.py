"""All checks of a model, and their report in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from pagelink.checks.hubs import check_hubs
from pagelink.checks.leaks import check_leaks
from pagelink.checks.randomisation import check_randomisation
from pagelink.checks.relations import check_relations
from pagelink.checks.subject import Finding, Subject, choose_links
from pagelink.checks.verdicts import check_verdicts
from pagelink.errors import SettingsError
from pagelink.files import write_text
from pagelink.graph import TypedGraph
from pagelink.models.checkpoint import Checkpoint
from pagelink.settings import Settings

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
        SettingsError: no links are asked for.
    """
    if num_links < 1:
        raise SettingsError(f"num_links must be at least 1, got {num_links}.")
    links = choose_links(checkpoint, num_links, seed)
    subject = Subject(
        checkpoint.model, checkpoint.data, checkpoint.link_type, links, settings or Settings(), seed
    )
    explanations = subject.explain()
    graph = TypedGraph.from_data(checkpoint.data, [checkpoint.link_type])
    findings = (
        check_verdicts(explanations),
        check_relations(subject, explanations),
        check_randomisation(subject, checkpoint, retrain=retrain),
        check_leaks(subject, explanations, checkpoint.split.all),
        check_hubs(graph, explanations),
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
