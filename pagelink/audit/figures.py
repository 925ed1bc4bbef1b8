"""The figures of an audit: what a model relies on over many links, and for whom that differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagelink.audit.rows import Row
from pagelink.errors import SettingsError
from pagelink.explain.result import Node, plain
from pagelink.measure.verdict import PartName

VERSION = 3
"""Of the fields of an audit's JSON."""
READABLE = (2, VERSION)


@dataclass(frozen=True)
class Mean:
    """A mean over links."""

    mean: float
    error: float
    """Its standard error over the links, that of the draws of features included; of a single link,
    that of the draws."""
    mean_abs: float
    """The mean of absolute values: parts that add to some scores and take from others count."""


@dataclass(frozen=True)
class Example:
    """A link with a path, in words."""

    link: str
    text: str
    logit: float
    row: int
    """Its place among the rows of the audit."""


@dataclass(frozen=True)
class StandIn:
    """Another metapath that does the same, and for how many links."""

    words: str
    num_links: int


@dataclass(frozen=True)
class MetapathSummary:
    """What a metapath is worth, over links that were not used to find it."""

    words: str
    worth: float
    """The mean over these links, 0..1; 0 for a link that does not have the metapath."""
    found_worth: float
    """The same over the links that it was found on."""
    num_links: int
    """Links that have it."""
    num_carried: int
    """Links that it carries: its worth is more than half of that of their best metapath."""
    effect: Mean
    """What the logits lose without all its paths, over the links that have it."""
    gain: Mean
    """What the logits without any path gain by its paths alone."""
    examples: tuple[Example, ...]
    stand_ins: tuple[StandIn, ...]


@dataclass(frozen=True)
class CarrierSummary:
    """A fact or a node that moves several predictions."""

    kind: str
    nodes: tuple[Node, ...]
    text: str
    degree: int
    num_links: int
    """Links whose score moves noticeably without it."""
    num_raised: int
    """Of these, links whose score it raises."""
    num_untried: int
    """Further links that it was not tried on, for lack of time."""
    effect: Mean
    """What their logits lose without it."""
    rows: tuple[int, ...]
    """The places of these links among the rows of the audit."""


@dataclass(frozen=True)
class Group:
    """Links that have something in common."""

    by: str
    label: str
    num_links: int
    logit: float
    """The mean score."""
    parts: dict[PartName, Mean]
    differs: tuple[PartName, ...]
    """Parts whose mean differs from that of all other links by three standard errors or more."""
    verdicts: dict[str, int]
    rests_on_popularity: bool
    """At least half of its links with a verdict rest on nothing but how many facts an end has."""
    metapath: str | None
    """What carries most of its links; None: no metapath does."""
    rows: tuple[int, ...]


@dataclass(frozen=True)
class AuditFigures:
    """What a model relies on, in figures."""

    link_type: tuple[str, str, str]
    num_links: int
    """Links that were measured."""
    num_failed: int
    """Links that could not be: malformed, or out of time."""
    base: Mean
    """The score without any part."""
    logit: Mean
    parts: dict[PartName, Mean]
    interaction: Mean
    num_logits: int
    """Logits that the games took, of `num_coalitions` without sharing any."""
    num_coalitions: int
    num_finding: int
    """Links on which metapaths were found; their figures are from the `num_verifying` others."""
    num_verifying: int
    verdicts: dict[str, int]
    direct_relations: dict[str, int]
    """Relations that join source and target of links directly, and how many links."""
    metapaths: tuple[MetapathSummary, ...]
    facts: tuple[CarrierSummary, ...]
    nodes: tuple[CarrierSummary, ...]
    groups: tuple[Group, ...]
    noise: float
    max_length: int
    seed: int
    threshold: float | None
    settings: dict[str, Any]
    versions: dict[str, str]
    seconds: float
    """CPU time of all links."""
    title: str
    rows: tuple[Row, ...]
    records: dict[str, int] | None = None
    """Metapaths along nodes without other facts, and how many links have one that moves their
    score, see `Row.records`; None: an audit of version 2, which did not look for them."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings, ready for JSON."""
        return {"version": VERSION, **plain(self)}

    def to_json(self) -> str:
        """Return everything as JSON, which `Audit.read` reads."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


def read_audit(path: Path | str) -> Mapping[str, Any]:
    """Return an audit that was written as JSON.

    Raises:
        SettingsError: the file is no audit, or one of another version.
    """
    try:
        values = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read as the JSON of an audit: {error}.") from error
    if not isinstance(values, dict) or not (
        values.get("version") in READABLE and "parts" in values
    ):
        raise SettingsError(
            f"{path} is not an audit of version {VERSION}, as `pagelink audit --json` writes it."
        )
    return values
