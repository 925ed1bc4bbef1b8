"""Two audits side by side: what a model relies on now that it did not, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagelink.audit.result import Audit
from pagelink.audit.rows import Row
from pagelink.audit.summary import mean_of, measured_rows
from pagelink.audit.wording import number_moved, part_words, signed, verdict_rows
from pagelink.errors import SettingsError
from pagelink.explain.result import plain
from pagelink.measure.verdict import PARTS, PartName
from pagelink.views.templates import render
from pagelink.views.text import clean, count, words

RELIES, HARDLY = 0.1, 0.05
"""A metapath is relied on from this worth on; below the second one it hardly is."""
CLEARLY = 2.0
"""Standard errors beyond which a change is called clear."""


@dataclass(frozen=True)
class Change:
    """A figure in both audits."""

    name: str
    before: float
    after: float
    error: float
    """The standard error of the difference."""
    is_clear: bool
    """The difference is noticed, and more than chance: two links or more, two standard errors."""

    def appears(self) -> bool:
        """Return whether a metapath is relied on now and hardly was before, clearly."""
        return self.is_clear and self.after >= RELIES and self.before < HARDLY

    def disappears(self) -> bool:
        """Return whether a metapath was relied on before and hardly is now, clearly."""
        return self.is_clear and self.before >= RELIES and self.after < HARDLY


@dataclass(frozen=True)
class Comparison:
    """What has changed from one audit to another."""

    link_type: tuple[str, ...]
    names: tuple[str, str]
    num_links: tuple[int, int]
    num_common: int
    """Links that both have. If these are two or more, parts and metapaths are compared on them."""
    parts: tuple[Change, ...]
    verdicts: tuple[tuple[str, int, int], ...]
    metapaths: tuple[Change, ...]
    """By the size of the change of their worth."""
    gained: tuple[str, ...]
    """Metapaths that it relies on now and hardly did before, clearly."""
    lost: tuple[str, ...]
    new_facts: tuple[str, ...]
    """Facts and nodes that move several predictions now and were not listed before."""
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
            heading=f"{self.names[0]} → {self.names[1]}",
        )  # fmt: skip


def compare(
    before: Audit, after: Audit, names: tuple[str, str] = ("before", "after")
) -> Comparison:
    """Compare two audits.

    Args:
        before: the one.
        after: the other: of another model, or of the same one later.
        names: what the comparison calls them.

    Raises:
        SettingsError: they are about links of different types.
    """
    if before.link_type != after.link_type:
        raise SettingsError(
            f"The audits are about different links: {' '.join(before.link_type)} and "
            f"{' '.join(after.link_type)}. Compare audits of the same relation."
        )
    both = before, after
    common = _common(*both)
    told = part_words(before.link_type)
    metapaths = _metapaths(both, common)
    popular = [{f"{group.by} {group.label}" for group in audit.groups if group.rests_on_popularity}
               for audit in both]  # fmt: skip
    every = dict(verdict_rows({name: 0 for audit in both for name in audit.verdicts}))
    old, new = (dict(verdict_rows(audit.verdicts)) for audit in both)
    return Comparison(
        link_type=before.link_type,
        names=names,
        num_links=(before.num_links, after.num_links),
        num_common=len(common),
        parts=tuple(_part(both, name, told[name], common) for name in PARTS),
        verdicts=tuple((name, old.get(name, 0), new.get(name, 0)) for name in every),
        metapaths=metapaths,
        gained=tuple(each.name for each in metapaths if each.appears()),
        lost=tuple(each.name for each in metapaths if each.disappears()),
        new_facts=tuple(_new_facts(*both, common)),
        popularity=tuple(sorted(popular[1] - popular[0])),
    )  # fmt: skip


def _new_facts(before: Audit, after: Audit, common: Sequence[tuple[int, int]]) -> Iterator[str]:
    """What moves several predictions now and was not listed before, and how many of both."""
    listed = {(each.kind, each.nodes) for each in (*before.facts, *before.nodes)}
    measured = measured_rows(after.rows)
    same = {measured[place] for _, place in common}
    for each in (*after.facts, *after.nodes):
        if (each.kind, each.nodes) not in listed:
            told = number_moved(each.num_links, each.num_untried, after.num_links)
            if len(same) < after.num_links:  # it may be new because the links are
                told += f", {len(same.intersection(each.rows))} of the {len(same)} that are in both"
            yield f"{clean(each.text)} ({words(each.kind)}) {told}"


def _measured(audit: Audit) -> list[Row]:
    return [row for row in audit.rows if row.game is not None]


def _part(
    both: Sequence[Audit], name: PartName, told: str, common: Sequence[tuple[int, int]]
) -> Change:
    values = [[row.game.parts[name].value for row in audit.rows if row.game is not None]
              for audit in both]  # fmt: skip
    return _change(told, values, common, max(audit.noise for audit in both))


def _common(before: Audit, after: Audit) -> list[tuple[int, int]]:
    """The links that both have, by their places among the measured ones of each."""
    old, new = (
        {(row.relation, row.src, row.dst): place for place, row in enumerate(_measured(each))}
        for each in (before, after)
    )
    return [(old[key], new[key]) for key in sorted(old.keys() & new.keys())]


def _change(
    name: str, values: Sequence[list[float]], common: Sequence[tuple[int, int]], least: float
) -> Change:
    """A figure of links in both audits: of the same links, if there are two or more.

    Args:
        name: the figure.
        values: of the links of each audit.
        common: the links that both have.
        least: a change that is noticed.
    """
    old, new = values
    if len(common) > 1:
        old, new = ([values[side][pair[side]] for pair in common] for side in (0, 1))
        error = mean_of(np.subtract(new, old)).error
    else:
        error = float(np.hypot(mean_of(old).error, mean_of(new).error))
    before, after = mean_of(old).mean, mean_of(new).mean
    is_clear = min(len(old), len(new)) > 1 and abs(after - before) > max(CLEARLY * error, least)
    return Change(name, before, after, error, is_clear)


def _metapaths(both: Sequence[Audit], common: Sequence[tuple[int, int]]) -> tuple[Change, ...]:
    """What each metapath is worth in both, over all links; 0 for a link that does not have it."""
    worth = [[{each.words: each.worth for each in row.metapaths} for row in _measured(audit)]
             for audit in both]  # fmt: skip
    listed = dict.fromkeys(each.words for audit in both for each in audit.metapaths)
    found = [
        _change(name, [[of.get(name, 0.0) for of in side] for side in worth], common, HARDLY)
        for name in listed
    ]
    return tuple(sorted(found, key=lambda each: (-abs(each.after - each.before), each.name)))


def sections(found: Comparison) -> list[tuple[str, list[str]]]:
    """Return what a comparison says, a heading with its sentences each."""
    one, two = found.names
    paired = (
        f"the same {found.num_common} links" if found.num_common > 1
        else f"{found.num_links[0]} and {found.num_links[1]} links"
    )  # fmt: skip
    return [
        (f"What the score is made of, in {one} and in {two}, over {paired}",
         [f"{each.name}: {signed(each.before)} → {signed(each.after)} (change "
          f"{signed(each.after - each.before)} ± {each.error:.2f}"
          f"{', clear' if each.is_clear else ''})" for each in found.parts]),
        (f"Verdicts, of {found.num_links[0]} and of {count(found.num_links[1], 'link')}",
         [f"{name}: {old} → {new}" for name, old, new in found.verdicts]),
        ("Relied on now, and hardly before", list(found.gained)),
        ("Relied on before, and hardly now", list(found.lost)),
        (f"Worth of metapaths, over {paired}",
         [f"{each.name}: {each.before:.2f} → {each.after:.2f} (± {each.error:.2f}"
          f"{', clear' if each.is_clear else ''})" for each in found.metapaths[:10]]),
        ("New among what moves several predictions", list(found.new_facts[:10])),
        ("Groups that rest on popularity alone now, and did not before", list(found.popularity)),
    ]  # fmt: skip
