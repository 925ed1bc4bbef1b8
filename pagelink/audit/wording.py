"""What an audit says, in plain words: computed once, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pagelink.audit.figures import AuditFigures, CarrierSummary, Group, Mean, MetapathSummary
from pagelink.audit.rows import Row
from pagelink.measure.verdict import PARTS, VERDICTS, PartName
from pagelink.views.score_wording import support
from pagelink.views.text import clean, count, enumerated, words
from pagelink.views.verdict_wording import VERDICT_WORDS

MANY, LEAST, SEVERAL = 0.2, 3, 2
"""A fact or a node that moves at least this share of the links, and this number, is pointed out; so
is what joins source and target of as many as the last and may be the link itself."""
SMALLEST = 0.005
"""A change below this is shown as 0.00."""
LISTED = 5
"""Metapaths, facts and nodes in the text."""


def part_words(link_type: Sequence[str]) -> dict[PartName, str]:
    """Return the parts of a score in words, with the types of the ends."""
    src, dst = (words(link_type[0]), words(link_type[2]))
    if src == dst:
        src, dst = f"source {src}", f"target {dst}"
    return {
        "path_facts": f"facts on paths from {src} to {dst}",
        "facts_near_src": f"other facts near the {src}",
        "facts_near_dst": f"other facts near the {dst}",
        "facts_between": "other facts, as near to both",
        "features_src": f"features of the {src}",
        "features_dst": f"features of the {dst}",
        "features_others": "features of all other nodes",
    }


def signed(value: float) -> str:
    """Return a change of a score with its sign; 0 has none.

    Example:
        >>> signed(1.2), signed(0.001)
        ('+1.20', '0.00')
    """
    return support(value) if abs(value) >= SMALLEST else "0.00"


def mean_words(mean: Mean) -> str:
    """Return a mean with its standard error: "+1.20 ± 0.10"."""
    return f"{signed(mean.mean)} ± {mean.error:.2f}"


def heading(audit: AuditFigures) -> str:
    """Return what the audit is about."""
    src, relation, dst = map(words, audit.link_type)
    about = f"{src} → {relation} → {dst}"
    return f"{clean(audit.title)}: {about}" if audit.title else about


def headline(audit: AuditFigures) -> list[str]:
    """Return what a reader has to know, in a few sentences."""
    if not audit.num_links:
        return [unmeasured(audit.rows)]
    told = [_made_of(audit), _relies(audit)]
    carriers = [each for each in audit.metapaths if each.num_carried]
    if carriers:
        first = carriers[0]
        verified = f"of the {count(audit.num_verifying, 'link')} that it was verified on, and"
        told.append(
            f"The chain of facts that carries most is {first.words}: it carries "
            f"{'it, and' if audit.num_links == 1 else f'{first.num_carried} {verified}'} "
            f"{_loses(first)}."
        )
    elif audit.metapaths:
        told.append("No chain of facts that was found carries links that it was not found on.")
    if audit.num_failed:
        told.append(unmeasured(audit.rows))
    return told


def unmeasured(rows: Sequence[Row]) -> str:
    """Say how many links could not be measured, and why the first of them; empty if all were."""
    failed = [row for row in rows if not row.is_measured]
    if not failed:
        return ""
    why = next((f" The first: {clean(row.message)}" for row in failed if row.message), "")
    if len(failed) == len(rows):
        return f"None of the links could be measured.{why}"
    return f"{count(len(failed), 'link')} could not be measured.{why}"


def _made_of(audit: AuditFigures) -> str:
    names, base = part_words(audit.link_type), audit.base.mean
    clear = [
        name for name in PARTS
        if abs(audit.parts[name].mean) > max(2 * audit.parts[name].error, audit.noise)
    ]  # fmt: skip
    most = sorted(clear, key=lambda name: -audit.parts[name].mean)
    up = [f"{names[n]} ({signed(audit.parts[n].mean)})" for n in most if audit.parts[n].mean > 0]
    down = [f"{names[n]} ({signed(audit.parts[n].mean)})" for n in most if audit.parts[n].mean < 0]
    start = (
        f"The score of the only link is {audit.logit.mean:.2f}; without anything that the model "
        f"sees of it, it is {base:.2f}"
        if audit.num_links == 1
        else f"Over {count(audit.num_links, 'link')} the mean score is {audit.logit.mean:.2f}; "
        f"without anything that the model sees of them it is {base:.2f}"
    )
    if not clear:
        return f"{start}. No part of what it sees changes the score clearly."
    told = f"{start}. What raises it: {enumerated(up)}" if up else f"{start}. Nothing raises it"
    return f"{told}; what lowers it: {enumerated(down)}." if down else f"{told}."


def _relies(audit: AuditFigures) -> str:
    judged = sum(audit.verdicts.get(name, 0) for name in VERDICTS)
    if not judged:
        return "No link has paths to judge."
    paths, only = audit.verdicts.get("supported", 0), audit.verdicts.get("degree_only", 0)
    return (
        f"For {paths} of {count(judged, 'link')} with a verdict, paths carry the prediction; for "
        f"{only} it is only how many facts an end has, its popularity."
    )


def _loses(metapath: MetapathSummary) -> str:
    one = metapath.num_links == 1
    verb = ("lose" if metapath.effect.mean >= 0 else "gain") + ("s" if one else "")
    # On most of the links that have it; on a few, most chains stand in for some others.
    others = sum(2 * each.num_links >= metapath.num_links for each in metapath.stand_ins)
    return (
        f"without all its paths {'the score' if one else 'these scores'} {verb} "
        f"{abs(metapath.effect.mean):.2f}{'' if one else ' on average'}, by them alone "
        f"{'it gains' if one else 'they gain'} {metapath.gain.mean:.2f}"
        + (f"; {count(others, 'other chain')} can stand in for it" if others else "")
    )


def halves_words(audit: AuditFigures) -> str:
    """Say which links metapaths were found on, and verified on."""
    if audit.num_links == 1:
        return "found on the only link, and not verified on another one"
    found = count(audit.num_finding, "link")
    return f"found on {found} and verified on {audit.num_verifying} others"


@dataclass(frozen=True)
class Caution:
    """What looks like a leak, a shortcut or a group that rests on popularity."""

    text: str
    key: str
    """Of the figure that it is about; see `pagelink.web.audited.opened`."""
    num_links: int


def cautions(audit: AuditFigures) -> list[Caution]:
    """Return what a reader has to look at."""
    several, most = max(SEVERAL, MANY * audit.num_links), max(LEAST, MANY * audit.num_links)
    told = [
        Caution(
            f"{words(name)!r} joins source and target directly for {number} of "
            f"{count(audit.num_links, 'link')}: it may be the link itself under another name.",
            f"direct-{at}", number,
        )
        for at, (name, number) in enumerate(sorted(audit.direct_relations.items()))
        if number >= several
    ]  # fmt: skip
    told += [
        Caution(
            f"{name} joins source and target by way of what has no other facts, and raises "
            f"{number} of {count(audit.num_links, 'prediction')}: it may be a record of the link "
            "itself.",
            f"record-{at}", number,
        )
        for at, (name, number) in enumerate(sorted((audit.records or {}).items()))
        if number >= several
    ]  # fmt: skip
    for kind, found in (("fact", audit.facts), ("node", audit.nodes)):
        told += [
            Caution(
                f"{_named(each)} {moves(each, audit.num_links)}.", f"{kind}-{at}", each.num_links
            )
            for at, each in enumerate(found[:2])
            if each.num_links >= most
        ]
    told += [
        Caution(
            f"Predictions for links with {group.by} {clean(group.label)} rest on popularity alone: "
            f"{popular} of {count(group.num_links, 'link')}.",
            f"group-{at}-popular", popular,
        )
        for at, group in enumerate(audit.groups)
        if group.rests_on_popularity and (popular := group.verdicts.get("degree_only", 0))
    ]  # fmt: skip
    return told


def _named(carrier: CarrierSummary) -> str:
    """A fact, or a node with its type, unless its name says it: "The genre Drama", "User 7"."""
    if len(carrier.nodes) > 1:
        return f"The fact that {clean(carrier.text)}"
    kind, name = words(carrier.kind), clean(carrier.text)
    is_said = name.casefold().startswith(f"{kind} ".casefold())
    return _capital(name) if is_said else f"The {kind} {name}"


def moves(carrier: CarrierSummary, num_links: int) -> str:
    """Say how many predictions a fact or a node moves, and which way."""
    raised, lowered = carrier.num_raised, carrier.num_links - carrier.num_raised
    way = f"raises {raised} of them and lowers {lowered}"
    if not (raised and lowered):
        way = f"{'raises' if raised else 'lowers'} all of them"
    moved = number_moved(carrier.num_links, carrier.num_untried, num_links)
    return f"{moved}: it {way}, by {carrier.effect.mean_abs:.2f} on average"


def number_moved(moved: int, untried: int, num_links: int) -> str:
    """Say how many predictions move.

    Example:
        >>> number_moved(3, 0, 20), number_moved(3, 2, 20)
        ('moves 3 of 20 predictions', 'moves at least 3 of 20 predictions')
    """
    return f"moves {'at least ' if untried else ''}{moved} of {count(num_links, 'prediction')}"


def verdict_rows(verdicts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the verdicts in words, those that rely on paths first, then reasons."""
    told = [
        (_capital(VERDICT_WORDS[name].short), verdicts[name])
        for name in reversed(VERDICT_WORDS)
        if name in verdicts
    ]
    others = sorted(set(verdicts) - set(VERDICT_WORDS))
    return told + [(_capital(words(name)), verdicts[name]) for name in others]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def differs_words(group: Group, audit: AuditFigures) -> str:
    """Say in which parts a group differs clearly from all other links, and what these have."""
    names, others = part_words(audit.link_type), audit.num_links - group.num_links
    told = []
    for name in group.differs:
        own = group.parts[name].mean
        rest = (audit.num_links * audit.parts[name].mean - group.num_links * own) / others
        told.append(f"{names[name]} ({signed(own)}, others {signed(rest)})")
    return enumerated(told) if told else ""


def to_text(audit: AuditFigures) -> str:
    """Return the audit as text."""
    names = part_words(audit.link_type)
    blocks = [heading(audit), "\n".join(headline(audit))]
    if not audit.num_links:
        return "\n\n".join(blocks)
    if found := cautions(audit):
        blocks.append(_list("To look at", (each.text for each in found)))
    parts = [
        f"{names[name]}: {mean_words(audit.parts[name])} (mean absolute value "
        f"{audit.parts[name].mean_abs:.2f})"
        for name in PARTS
    ]
    parts.append(f"base value, without any part: {audit.base.mean:.2f}")
    parts.append(f"interaction of source and target: {mean_words(audit.interaction)}")
    blocks.append(_list("What the score is made of (Shapley values, logits)", parts))
    blocks.append(_list("Verdicts", (f"{told}: {n}" for told, n in verdict_rows(audit.verdicts))))
    blocks.append(_list(
        f"Metapaths, {halves_words(audit)}",
        (f"{each.words}: worth {each.worth:.2f}, carries {each.num_carried} of "
         f"{audit.num_verifying}" for each in audit.metapaths[:LISTED]),
    ))  # fmt: skip
    for kind, carriers in (("Facts", audit.facts), ("Nodes", audit.nodes)):
        blocks.append(_list(
            f"{kind} that move most predictions",
            (f"{clean(each.text)}: {moves(each, audit.num_links)}" for each in carriers[:LISTED]),
        ))  # fmt: skip
    return "\n\n".join(block for block in blocks if block)


def _list(title: str, lines: Iterable[Any]) -> str:
    told = [f"- {line}" for line in lines]
    return "\n".join([f"{title}:", *told]) if told else ""
