"""From the rows of links to what a model relies on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pagelink.audit.carriers import Carrier, moving_several
from pagelink.audit.figures import CarrierSummary, Example, Mean, MetapathSummary, StandIn
from pagelink.audit.game import Value
from pagelink.audit.result import Audit
from pagelink.audit.rows import Row
from pagelink.measure.verdict import PARTS
from pagelink.measure.what_else import DRAWS

MOST = 20
"""Metapaths, facts and nodes that are listed."""
EXAMPLES = 3
CARRIES = 0.5
"""A metapath carries a link if its worth is more than this share of that of the best."""


def mean_of(values: Iterable[float], single: float = 0.0) -> Mean:
    """Return the mean of values, with its standard error; of none, 0.

    Args:
        values: one per link.
        single: the standard error of the only value, where there is one.

    Example:
        >>> mean_of([1.0, -3.0])
        Mean(mean=-1.0, error=2.0, mean_abs=2.0)
    """
    given = np.array(list(values), dtype=np.float64)
    if not len(given):
        return Mean(0.0, 0.0, 0.0)
    error = float(given.std(ddof=1) / np.sqrt(len(given))) if len(given) > 1 else single
    return Mean(float(given.mean()), error, float(np.abs(given).mean()))


def mean_value(values: Sequence[Value]) -> Mean:
    """Return the mean of a figure of games; over a single link its error is that of the draws."""
    return mean_of((each.value for each in values), values[0].error if values else 0.0)


def summarised(
    rows: Sequence[Row],
    groups: Callable[[Sequence[Row]], tuple[Any, ...]],
    *,
    seed: int,
    **given: Any,
) -> Audit:
    """Put the rows of an audit together.

    Args:
        rows: of all links, in order.
        groups: makes groups of them.
        seed: decides which links metapaths are found on.
        given: what the rows do not know: settings, versions, and the like.
    """
    measured = [row for row in rows if row.game is not None]
    games = [row.game for row in measured if row.game is not None]
    finding, verifying = (_places(rows, half) for half in halves(len(measured), seed))
    return Audit(
        num_links=len(measured),
        num_failed=len(rows) - len(measured),
        base=mean_value([game.base for game in games]),
        logit=mean_of(row.logit or 0.0 for row in measured),
        parts={name: mean_value([game.parts[name] for game in games]) for name in PARTS},
        interaction=mean_value([game.interaction for game in games]),
        num_logits=sum(game.num_logits for game in games),
        num_coalitions=len(games) * 2 ** len(PARTS) * DRAWS,
        num_finding=len(finding),
        num_verifying=len(verifying),
        verdicts=verdicts_of(measured),
        direct_relations=dict(Counter(n for row in measured for n in row.direct_relations)),
        records=dict(Counter(words for row in measured for words in row.records)),
        metapaths=summarise_metapaths(rows, finding, verifying),
        facts=summarise_carriers(rows, lambda row: row.facts),
        nodes=summarise_carriers(rows, lambda row: row.nodes),
        groups=groups(rows),
        noise=max((row.noise for row in measured), default=0.0),
        max_length=max((row.max_length for row in measured), default=0),
        seconds=sum(row.seconds for row in rows),
        seed=seed,
        rows=tuple(rows),
        **given,
    )


def verdicts_of(rows: Iterable[Row]) -> dict[str, int]:
    """Count verdicts, and reasons where there is none."""
    return dict(sorted(Counter(map(judged, rows)).items()))


def judged(row: Row) -> str:
    """Return the verdict on a link, or the reason why it has none."""
    return row.verdict or row.reason or "not measured"


def halves(count: int, seed: int) -> tuple[list[int], list[int]]:
    """Split positions at random: where metapaths are found, and where they are verified.

    A single link has to do for both.
    """
    order = np.random.default_rng((seed, count)).permutation(count).tolist()
    if count < 2:
        return order, order
    return sorted(order[: count // 2]), sorted(order[count // 2 :])


def _places(rows: Sequence[Row], chosen: Sequence[int]) -> list[int]:
    """Places among all rows of some measured ones."""
    measured = measured_rows(rows)
    return [measured[i] for i in chosen]


def measured_rows(rows: Sequence[Row]) -> list[int]:
    """Return the places of the rows whose score was measured."""
    return [i for i, row in enumerate(rows) if row.game is not None]


def verifying_rows(rows: Sequence[Row], seed: int) -> list[int]:
    """Return the places of the rows that the figures of metapaths are from."""
    return _places(rows, halves(len(measured_rows(rows)), seed)[1])


def summarise_metapaths(
    rows: Sequence[Row], finding: Sequence[int], verifying: Sequence[int]
) -> tuple[MetapathSummary, ...]:
    """Find the metapaths that carry links, and say what they are worth on other links.

    Args:
        rows: of all links.
        finding: the places of the rows in which metapaths are found.
        verifying: the places of the rows that their figures are from.
    """
    found = _worth([rows[i] for i in finding])
    best = sorted(found, key=lambda words: (-found[words], words))[:MOST]
    verified = _worth([rows[i] for i in verifying])
    told = [
        _metapath(rows, verifying, words, verified.get(words, 0.0), found[words])
        for words in best
        if found[words] > 0
    ]
    return tuple(sorted(told, key=lambda each: (-each.worth, -each.found_worth, each.words)))


def _worth(rows: Sequence[Row]) -> dict[str, float]:
    """The mean worth of each metapath over links, 0 for those that do not have it."""
    total: dict[str, float] = defaultdict(float)
    for row in rows:
        for each in row.metapaths:
            total[each.words] += each.worth
    return {words: value / len(rows) for words, value in total.items()}


def carried_by(row: Row) -> list[str]:
    """Return the metapaths that carry a link."""
    best = max((each.worth for each in row.metapaths), default=0.0)
    return [each.words for each in row.metapaths if best > 0 and each.worth > CARRIES * best]


def _metapath(
    rows: Sequence[Row], places: Sequence[int], words: str, worth: float, found_worth: float
) -> MetapathSummary:
    mine = [(i, each) for i in places for each in rows[i].metapaths if each.words == words]
    best = sorted(
        (pair for pair in mine if pair[1].example),
        key=lambda pair: (-pair[1].worth, -min(pair[1].effect, pair[1].gain), pair[0]),
    )
    stand_ins: Counter[str] = Counter()
    for i in places:
        for one, two in rows[i].stand_ins:
            names = rows[i].metapaths[one].words, rows[i].metapaths[two].words
            if words in names and names[0] != names[1]:
                stand_ins[names[names[0] == words]] += 1
    return MetapathSummary(
        words=words, worth=worth, found_worth=found_worth, num_links=len(mine),
        num_carried=sum(words in carried_by(rows[i]) for i, _ in mine),
        effect=mean_of(each.effect for _, each in mine),
        gain=mean_of(each.gain for _, each in mine),
        examples=tuple(
            Example(link_name(rows[i]), each.example, rows[i].logit or 0.0, i)
            for i, each in best[:EXAMPLES]
        ),
        stand_ins=tuple(StandIn(*pair) for pair in stand_ins.most_common(EXAMPLES)),
    )  # fmt: skip


def link_name(row: Row) -> str:
    """Return a link in words."""
    return f"{row.src_name} → {row.dst_name}"


def summarise_carriers(
    rows: Sequence[Row], of: Callable[[Row], Sequence[Carrier]]
) -> tuple[CarrierSummary, ...]:
    """Return the facts or nodes that move most predictions.

    Args:
        rows: of all links.
        of: the facts or nodes of a row.
    """
    untried = {i for i, row in enumerate(rows) if row.is_measured and not row.is_settled}
    found = []
    for places in moving_several(map(of, rows))[:MOST]:
        first = places[0][1]
        effects = [each.effect for _, each in places]
        found.append(
            CarrierSummary(
                first.kind, first.nodes, first.text, first.degree, len(places),
                sum(effect > 0 for effect in effects),
                len(untried.difference(place for place, _ in places)), mean_of(effects),
                tuple(place for place, _ in places),
            )
        )  # fmt: skip
    return tuple(found)
