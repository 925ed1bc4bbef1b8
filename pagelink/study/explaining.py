"""What each explainer says of each link of a study, as facts: all under the same budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from pagelink.errors import SettingsError, StudyError, did_you_mean
from pagelink.explain.explainer import PaGELink
from pagelink.models.checkpoint import Checkpoint
from pagelink.rivals.ground import fact_paths, free_facts
from pagelink.rivals.registry import BY_PATH, RIVALS, make_rival
from pagelink.settings import Settings

Pair = tuple[int, int]
Progress = Callable[[int, int], None]
SHORT = {"random": "random-paths"}
BUDGET = 9
_THRESHOLD = 0.0


def explainer_names(given: str) -> tuple[str, ...]:
    """Return the explainers of a list with commas.

    Raises:
        SettingsError: there is no such explainer, one comes twice, or there is only one.

    Example:
        >>> explainer_names("pagelink, random")
        ('pagelink', 'random-paths')
    """
    names = tuple(SHORT.get(name.strip(), name.strip()) for name in given.split(","))
    known = [*RIVALS, *SHORT]
    for name in names:
        if name not in RIVALS:
            raise SettingsError(
                f"An explainer is one of {', '.join(known)}, got {name!r}."
                f"{did_you_mean(name, known)}"
            )
    if len(set(names)) < max(len(names), 2):
        raise SettingsError(f"A study compares two or more different explainers, got {given!r}.")
    return names


def settings_of(name: str, budget: int) -> Settings:
    """How an explainer is asked: so many facts; only our own method measures to choose.

    Raises:
        SettingsError: the budget is too small for one path.
    """
    length = Settings().max_length
    if budget < length:
        raise SettingsError(
            f"The budget is at least the longest path, {length} facts, got {budget}."
        )
    return Settings(budget=budget, num_paths=budget // length, measure=name == "pagelink")


def make_explainer(checkpoint: Checkpoint, name: str, budget: int, seed: int) -> PaGELink:
    """Make an explainer of a trained model."""
    more: dict[str, Any] = {"threshold": _THRESHOLD}
    if name == "pgexp":
        more["train_links"] = _pairs(checkpoint.split.train)
    return make_rival(
        name, checkpoint.model, checkpoint.source, checkpoint.link_type, settings_of(name, budget),
        seed, **more,
    )  # fmt: skip


def choose_links(checkpoint: Checkpoint, explainer: PaGELink, count: int, seed: int) -> list[Pair]:
    """Draw test links that the model predicts, and between whose ends there is a path.

    Args:
        checkpoint: the model.
        explainer: one that is quick, to find whether there is a path.
        count: how many.
        seed: of the draw.

    Returns:
        The links; fewer if there are no more.

    Raises:
        StudyError: there is none.
    """
    test = checkpoint.split.test
    with torch.no_grad():
        predicted = (checkpoint.score(test) >= _THRESHOLD).cpu().numpy()
    order = np.random.default_rng((seed, 11)).permutation(test.shape[1])
    pairs = _pairs(test)
    drawn = [pairs[place] for place in order[predicted[order]].tolist()]
    chosen = []
    for pair, explanation in zip(drawn, explainer.explain_many(drawn), strict=True):
        if explanation.paths:
            chosen.append(pair)
        if len(chosen) == count:
            break
    if not chosen:
        raise StudyError(
            f"Of the {test.shape[1]} test links the model predicts {int(predicted.sum())}, and "
            "none of these has a path of at most three facts: there is nothing to ask about. Train "
            "the model longer, or on more links."
        )
    return chosen


def explain_all(
    checkpoint: Checkpoint,
    explainers: Sequence[str],
    pairs: Sequence[Pair],
    budget: int,
    seed: int,
    progress: Progress,
) -> list[dict[str, tuple[int, ...]]]:
    """Return, of each link, the facts that each explainer shows; none, if it has nothing to show.

    Explainers of paths show the facts of their paths; the others the facts of the highest mask.
    """
    total = len(explainers) * len(pairs)
    found: list[dict[str, tuple[int, ...]]] = [{} for _ in pairs]
    for place, name in enumerate(explainers):
        explainer = make_explainer(checkpoint, name, budget, seed)
        for number, facts in enumerate(_facts(explainer, name, pairs, budget)):
            found[number][name] = facts
            progress(place * len(pairs) + number + 1, total)
    return found


def _facts(
    explainer: PaGELink, name: str, pairs: Sequence[Pair], budget: int
) -> Iterator[tuple[int, ...]]:
    for explanation in explainer.explain_many(pairs):
        if name in BY_PATH:
            (paths,) = fact_paths(explainer, [explanation])
            facts = [fact for path in paths for fact in path]
        elif explanation.reason is None:
            facts = free_facts(explainer.graph, explanation.edge_mask, budget)
        else:
            facts = []
        yield tuple(sorted(set(facts)))


def _pairs(links: torch.Tensor) -> list[Pair]:
    return [(int(src), int(dst)) for src, dst in links.t().tolist()]
