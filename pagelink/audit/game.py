"""What a score is made of: the Shapley values of the parts of what the model sees of a link.

The players are the parts of "what else": facts on paths, other facts nearer the source, nearer the
target, equally near, the features of the source, of the target, and of all other nodes. The value
of a coalition is the logit with these parts in place and all others taken out: facts removed,
features those of similar nodes, the mean over draws. Without any part there is the base value.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from pagelink.measure.trials import Trials
from pagelink.measure.verdict import PARTS, PartName
from pagelink.measure.what_else import DRAWS, LinkParts
from pagelink.runtime.arrays import Doubles, Longs

AT_SRC: tuple[PartName, ...] = ("facts_near_src", "features_src")
AT_DST: tuple[PartName, ...] = ("facts_near_dst", "features_dst")
"""What is the source's own, and the target's: the two sides of the interaction."""


@dataclass(frozen=True)
class Value:
    """A figure of a game, the mean over draws of features."""

    value: float
    error: float
    """The standard error of that mean; 0: it does not depend on the draw."""


@dataclass(frozen=True)
class Game:
    """The parts of a link's score, which add up to it together with the base value."""

    base: Value
    """The logit without any part."""
    parts: dict[PartName, Value]
    """The Shapley value of each part."""
    sizes: dict[PartName, int]
    """Facts or nodes of each part."""
    interaction: Value
    """Of source and target: the Shapley interaction index of all that is the source's own and all
    that is the target's, each taken as one player. Above 0: each is worth more with the other."""
    num_logits: int
    """Logits that the model computed for it."""


def play(trials: Trials, link: int) -> Game:
    """Play the game of the parts of a link.

    Args:
        trials: the model and the graphs.
        link: the link, a position in the batch.

    Raises:
        OutOfTimeError: the time was over before all coalitions were measured.
    """
    parts = LinkParts.of(trials, link)
    values, num_logits = coalition_values(parts)
    shapley = shapley_weights(len(PARTS)) @ values
    own, others = _blocks()
    sides = interaction_weights(own, others) @ values
    return Game(
        base=_mean(values[0]),
        parts={name: _mean(each) for name, each in zip(PARTS, shapley, strict=True)},
        sizes=dict(zip(PARTS, parts.sizes, strict=True)),
        interaction=_mean(sides),
        num_logits=num_logits,
    )


def coalition_values(parts: LinkParts) -> tuple[Doubles, int]:
    """Return the value of every coalition in every draw, and how many logits that took.

    Coalitions that differ in nothing that reaches the score are computed once: a part may be empty,
    and without the facts that lead to it, what is farther away is out of sight.

    Args:
        parts: the parts of a link.

    Returns:
        [2 ** 7, draws]: bit i of a coalition is whether part i is in place.
    """
    num_facts, num_features = len(parts.edges), len(parts.nodes)
    values = np.empty((2 ** len(PARTS), DRAWS))
    looks: dict[tuple[tuple[int, ...], int], Longs] = {}
    known: dict[bytes, dict[tuple[tuple[int, ...], int], float]] = {}
    num_logits = 0
    for with_facts in range(2**num_facts):
        there = np.zeros_like(parts.edges[0])
        for i in range(num_facts):
            if with_facts >> i & 1:
                there |= parts.edges[i]
        # 1. What of the graph reaches the score, and whose features.
        reached, seen = parts.alone.in_sight(there)
        # 2. Which parts of features are out, of those that are in sight, in each draw.
        wanted: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}
        for with_features in range(2**num_features):
            out = tuple(
                i for i in range(num_features)
                if not with_features >> i & 1 and seen[parts.nodes[i]].any()
            )  # fmt: skip
            for draw in range(DRAWS):
                wanted[with_features, draw] = (out, draw if out else 0)
        # 3. Ask the model what is not known yet.
        answers = known.setdefault(np.packbits(reached).tobytes(), {})
        new = [key for key in dict.fromkeys(wanted.values()) if key not in answers]
        for key in new:
            if key not in looks:
                looks[key] = parts.looks(*key)
        logits = parts.logits(reached, [looks[key] for key in new])
        answers.update(zip(new, logits.tolist(), strict=True))
        num_logits += len(new)
        for (with_features, draw), key in wanted.items():
            values[with_facts | with_features << num_facts, draw] = answers[key]
    return values, num_logits


def shapley_weights(num_players: int) -> Doubles:
    """Return the matrix that takes the values of all coalitions to the Shapley values.

    Args:
        num_players: n.

    Returns:
        [n, 2 ** n]: bit i of a coalition is whether player i is in it.

    Example:
        >>> shapley_weights(2) @ np.array([0.0, 1.0, 2.0, 7.0])
        array([3., 4.])
    """
    weights = np.zeros((num_players, 2**num_players))
    for player in range(num_players):
        for coalition in range(2**num_players):
            size = (coalition & ~(1 << player)).bit_count()
            weight = 1 / (num_players * comb(num_players - 1, size))
            weights[player, coalition] = weight if coalition >> player & 1 else -weight
    return weights


def interaction_weights(pair: tuple[int, int], others: list[int]) -> Doubles:
    """Return the row that takes the values of all coalitions to the interaction of two blocks.

    That is the Shapley interaction index of Grabisch and Roubens (1999) in the game in which each
    block is one player.

    Args:
        pair: the two blocks, each as the bits of its players.
        others: the bits of each further player.

    Example:
        >>> interaction_weights((1, 2), []) @ np.array([0.0, 1.0, 2.0, 7.0])
        np.float64(4.0)
    """
    one, two = pair
    everyone = one | two | sum(others)
    row = np.zeros(everyone + 1)
    for chosen in range(2 ** len(others)):
        with_them = sum(bits for i, bits in enumerate(others) if chosen >> i & 1)
        weight = 1 / ((len(others) + 1) * comb(len(others), chosen.bit_count()))
        for blocks, sign in ((one | two, 1), (one, -1), (two, -1), (0, 1)):
            row[with_them | blocks] += sign * weight
    return row


def _blocks() -> tuple[tuple[int, int], list[int]]:
    """The parts of source and target as two blocks, and each other part."""
    one, two = (sum(1 << PARTS.index(name) for name in names) for names in (AT_SRC, AT_DST))
    others = [1 << i for i, name in enumerate(PARTS) if name not in AT_SRC + AT_DST]
    return (one, two), others


def _mean(draws: Doubles) -> Value:
    return Value(float(draws.mean()), float(draws.std(ddof=1) / np.sqrt(len(draws))))
