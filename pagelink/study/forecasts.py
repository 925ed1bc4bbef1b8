"""Facts to take away, with what the model really does without them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pagelink.baselines.ground import Ground
from pagelink.study.explaining import Progress
from pagelink.study.questions import Truth
from pagelink.verdicts import unnoticed

TRIED = 60
"""Facts of a link at most that no explanation shows and that are measured."""
CLEAR = 2.0
"""A change is clear if it is so many times the bar, or the bar so many times the change."""
TRUTHS: tuple[Truth, ...] = ("rise", "fall", "stay")


@dataclass(frozen=True)
class Removal:
    """A fact of a link, and how the logit changes when it alone is really taken away."""

    fact: int
    change: float
    truth: Truth
    clear: bool
    """The change is far from the bar between moving and staying."""
    explained: bool
    """Some explainer shows the fact."""


def judged(fact: int, change: float, logit: float, explained: bool) -> Removal:
    """Say what a change is.

    Example:
        >>> judged(4, -0.3, 2.0, True).truth, judged(4, 0.015, 2.0, True).truth
        ('fall', 'stay')
    """
    bar = unnoticed(logit)
    if abs(change) <= bar:
        return Removal(fact, change, "stay", abs(change) * CLEAR <= bar, explained)
    truth: Truth = "rise" if change > 0 else "fall"
    return Removal(fact, change, truth, abs(change) >= CLEAR * bar, explained)


def measure(
    grounds: Iterable[Ground],
    shown: Sequence[set[int]],
    seed: int,
    progress: Progress,
) -> tuple[list[list[Removal]], list[float]]:
    """Take away, one at a time, facts of each link, and ask the model.

    Args:
        grounds: the links; of a large graph they fill the memory, so each is let go after its turn.
        shown: of each link, the facts that some explainer shows.
        seed: of the draw among other facts that the model sees.
        progress: told how many links are done.

    Returns:
        Of each link, what was taken away, and the logit before.
    """
    found: list[list[Removal]] = []
    logits: list[float] = []
    for ground in grounds:
        for link in range(ground.num_links):
            explained = shown[len(found)]
            pool = sorted(explained) + _others(ground, link, explained, seed)
            effects = ground.effects([link] * len(pool), [[fact] for fact in pool])
            logit = float(ground.logits[link])
            found.append(
                [
                    judged(fact, -float(effect), logit, fact in explained)
                    for fact, effect in zip(pool, effects, strict=True)
                ]
            )
            logits.append(logit)
            progress(len(found), len(shown))
    return found, logits


def _others(ground: Ground, link: int, explained: set[int], seed: int) -> list[int]:
    """Facts that the model sees and no explanation shows, drawn at random."""
    slots = np.arange(*ground.batch.edge_ptr[link : link + 2])
    facts = ground.explainer.graph.fact[ground.batch.edges[slots[ground.whole[slots]]]]
    others = np.setdiff1d(facts, sorted(explained))
    ends = ground.links[link]
    rng = np.random.default_rng((seed, 12, ends.src, ends.dst))
    return [int(fact) for fact in rng.permutation(others)[:TRIED]]


def balanced(removals: Sequence[Sequence[Removal]], count: int, seed: int) -> dict[int, Removal]:
    """Pick a fact of each of `count` links, so that the true answers are as even as can be.

    Links with the fewest possible answers choose first, and take the answer that is rarest so far.
    Within an answer, clear changes are preferred, and facts that are explained and such that are
    not have the same chance: being shown must not give the answer away.

    Returns:
        The facts, by number of the link.
    """
    rng = np.random.default_rng((seed, 13))
    possible = [{each.truth for each in of_link} for of_link in removals]
    links = [int(link) for link in rng.permutation(len(removals)) if possible[link]]
    so_far = dict.fromkeys(TRUTHS, 0)
    chosen: dict[int, Removal] = {}
    for link in sorted(links, key=lambda link: len(possible[link])):
        truth = min(sorted(possible[link]), key=lambda truth: so_far[truth])
        so_far[truth] += 1
        of_truth = [each for each in removals[link] if each.truth == truth]
        chosen[link] = _drawn(of_truth, rng)
    while len(chosen) > count:  # what is too many goes from the commonest answer
        commonest = max(TRUTHS, key=lambda truth: so_far[truth])
        gone = next(link for link in reversed(links) if link in chosen and
                    chosen[link].truth == commonest)  # fmt: skip
        so_far[commonest] -= 1
        del chosen[gone]
    return dict(sorted(chosen.items()))


def _drawn(removals: list[Removal], rng: np.random.Generator) -> Removal:
    clear = [each for each in removals if each.clear] or removals
    explained = bool(rng.integers(2))
    alike = [each for each in clear if each.explained == explained] or clear
    return alike[int(rng.integers(len(alike)))]
