"""Two audits side by side: what a model relies on now that it did not, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagelink.audit.figures import Mean
from pagelink.audit.summary import mean_of
from pagelink.audit.wording import part_words, signed, verdict_rows
from pagelink.errors import SettingsError
from pagelink.explain.result import plain
from pagelink.measure.verdict import PARTS
from pagelink.views.templates import render
from pagelink.views.text import clean, count, words

RELIES, HARDLY = 0.1, 0.05
"""A metapath is relied on from this worth on; below the second one it hardly is."""
CLEARLY = 2.0
"""Standard errors from which on a change is called clear."""


@dataclass(frozen=True)
class Change:
    """A figure in both audits."""

    name: str
    before: float
    after: float
    error: float
    """The standard error of the difference."""

    @property
    def is_clear(self) -> bool:
        """Whether the difference is more than chance, by two standard errors."""
        return abs(self.after - self.before) > CLEARLY * self.error and self.after != self.before


@dataclass(frozen=True)
class Comparison:
    """What has changed from one audit to another."""

    link_type: tuple[str, ...]
    titles: tuple[str, str]
    num_links: tuple[int, int]
    num_common: int
    """Links that both have. If these are two or more, differences of parts are theirs."""
    parts: tuple[Change, ...]
    verdicts: tuple[tuple[str, int, int], ...]
    metapaths: tuple[Change, ...]
    """By the size of the change of their worth."""
    gained: tuple[str, ...]
    """Metapaths that it relies on now and hardly did before."""
    lost: tuple[str, ...]
    new_facts: tuple[str, ...]
    """Facts and nodes that move many predictions now and were not listed before."""
    popularity: tuple[str, ...]
    """Groups that rest on popularity alone now and did not before."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings, ready for JSON."""
        values: dict[str, Any] = plain(self)
        return values

    def __str__(self) -> str:
        return "\n\n".join(
            "\n".join([f"{title}:", *(f"- {line}" for line in lines)])
            for title, lines in sections(self)
            if lines
        )

    def to_html(self) -> str:
        """Return one self-contained page that needs no network."""
        return render(
            "comparison.html", package="pagelink.audit", found=self, sections=sections(self),
            heading=f"{self.titles[0]} → {self.titles[1]}",
        )  # fmt: skip


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """Compare two audits, as their JSON has them.

    Args:
        before: the one.
        after: the other: of another model, or of the same one later.

    Raises:
        SettingsError: they are about links of different types.
    """
    if before["link_type"] != after["link_type"]:
        raise SettingsError(
            f"The audits are about different links: {' '.join(before['link_type'])} and "
            f"{' '.join(after['link_type'])}. Compare audits of the same relation."
        )
    both = [_games(audit) for audit in (before, after)]
    common = sorted(set(both[0]) & set(both[1]))
    names = part_words(before["link_type"])
    parts = [
        _part(names[name], name, before, after, [(both[0][key], both[1][key]) for key in common])
        for name in PARTS
    ]
    metapaths = _metapaths(before, after)
    listed = {(each["kind"], str(each["nodes"])) for each in _carriers(before)}
    groups = [_popular(audit) for audit in (before, after)]
    verdicts = [audit["verdicts"] for audit in (before, after)]
    every = dict(verdict_rows({name: 0 for each in verdicts for name in each}))
    told = [dict(verdict_rows(each)) for each in verdicts]
    return Comparison(
        link_type=tuple(before["link_type"]),
        titles=(before["title"] or "before", after["title"] or "after"),
        num_links=(before["num_links"], after["num_links"]),
        num_common=len(common),
        parts=tuple(parts),
        verdicts=tuple((name, told[0].get(name, 0), told[1].get(name, 0)) for name in every),
        metapaths=metapaths,
        gained=tuple(c.name for c in metapaths if c.after >= RELIES and c.before < HARDLY),
        lost=tuple(c.name for c in metapaths if c.before >= RELIES and c.after < HARDLY),
        new_facts=tuple(
            f"{clean(each['text'])} ({words(each['kind'])}) moves at least {each['num_links']} of "
            f"{count(after['num_links'], 'prediction')}"
            for each in _carriers(after)
            if (each["kind"], str(each["nodes"])) not in listed
        ),
        popularity=tuple(sorted(groups[1] - groups[0])),
    )


def _games(audit: Mapping[str, Any]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    """The parts of each measured link."""
    return {
        (row["relation"], *row["src"], *row["dst"]): row["game"]["parts"]
        for row in audit["rows"]
        if row["game"] is not None
    }


def _part(
    told: str,
    name: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> Change:
    if len(pairs) > 1:
        old, new = (np.array([pair[side][name]["value"] for pair in pairs]) for side in (0, 1))
        return Change(told, float(old.mean()), float(new.mean()), mean_of(new - old).error)
    one, two = (Mean(**audit["parts"][name]) for audit in (before, after))
    return Change(told, one.mean, two.mean, float(np.hypot(one.error, two.error)))


def _metapaths(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """What each metapath is worth in both; what one audit does not list is worth 0 there."""
    worth = [{each["words"]: each["worth"] for each in a["metapaths"]} for a in (before, after)]
    found = [
        Change(name, worth[0].get(name, 0.0), worth[1].get(name, 0.0), 0.0)
        for name in dict.fromkeys([*worth[0], *worth[1]])
    ]
    return tuple(sorted(found, key=lambda each: (-abs(each.after - each.before), each.name)))


def _carriers(audit: Mapping[str, Any]) -> list[Any]:
    return [*audit["facts"], *audit["nodes"]]


def _popular(audit: Mapping[str, Any]) -> set[str]:
    groups = (each for each in audit["groups"] if each["rests_on_popularity"])
    return {f"{each['by']} {each['label']}" for each in groups}


def sections(found: Comparison) -> list[tuple[str, list[str]]]:
    """Return what a comparison says, a heading with its sentences each."""
    one, two = found.titles
    paired = (
        f"the same {found.num_common} links" if found.num_common > 1
        else f"{found.num_links[0]} and {found.num_links[1]} links"
    )  # fmt: skip
    return [
        (f"What the score is made of, in {one} and in {two}, over {paired}",
         [f"{each.name}: {signed(each.before)} → {signed(each.after)} (change "
          f"{signed(each.after - each.before)} ± {each.error:.2f}"
          f"{', clear' if each.is_clear else ''})" for each in found.parts]),
        ("Verdicts", [f"{name}: {old} → {new}" for name, old, new in found.verdicts]),
        ("Relied on now, and hardly before", list(found.gained)),
        ("Relied on before, and hardly now", list(found.lost)),
        ("Worth of metapaths",
         [f"{each.name}: {each.before:.2f} → {each.after:.2f}" for each in found.metapaths[:10]]),
        ("New among what moves many predictions", list(found.new_facts[:10])),
        ("Groups that rest on popularity alone now, and did not before", list(found.popularity)),
    ]  # fmt: skip
