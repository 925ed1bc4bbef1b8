"""Longer paths where they are needed: short ones do not carry the score, but facts together do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pagelink.explain.result import Explanation, Path
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.edited_graphs import Edits
from pagelink.measure.trials import ReferenceGraphs
from pagelink.measure.verdict import TENTH
from pagelink.runtime.arrays import Bools
from pagelink.runtime.timer import OutOfTimeError
from pagelink.search.work import Scored, Setup, score_links

Method = Callable[[Scored, int], list[Explanation]]
"""From links with their computation graphs and scores, and a seed, to one explanation each."""
FURTHEST = 3
"""For a model that sees the whole graph, how many facts longer than `max_length` a path may be."""
CONNECTED = 0.5
"""Paths that have an idle fact give way to longer ones whose connection is at least this."""


def with_longer_paths(
    setup: Setup,
    longer: Callable[[int], tuple[Setup, Method]],
    scored: Scored,
    answers: list[Explanation],
    seed: int,
) -> list[Explanation]:
    """Explain links anew by longer paths, up to what the model sees, until these carry the score.

    Args:
        setup: of the explanations.
        longer: what explains by paths of another number of facts.
        scored: the links.
        answers: their explanations by paths of at most `max_length` facts.
        seed: where random numbers come from.
    """
    answers, settings = list(answers), setup.settings
    pending = [i for i, answer in enumerate(answers) if _needs_longer(answer)]
    for length in range(settings.max_length + 1, longest_paths(setup) + 1):
        if not pending or scored.timer.cut or scored.timer.is_over():
            break
        other, method = longer(length)
        part = _part(other, scored, pending)
        try:
            carried = np.flatnonzero(_is_carried(part))
        except OutOfTimeError:
            break  # what was found by shorter paths stands
        if not len(carried):
            continue
        again = [pending[i] for i in carried]
        found = method(_part(other, scored, again), seed)
        for i, answer in zip(again, found, strict=True):
            if _is_better(answer, answers[i]):
                answers[i] = replace(answer, settings=settings)
                pending.remove(i)
    return answers


def _needs_longer(answer: Explanation) -> bool:
    """Whether short paths do not carry the score as paths, but facts together may."""
    if answer.reason is not None or answer.logit is None:
        return answer.reason == "beyond_max_length"
    evidence = answer.evidence
    if evidence is None or (_is_carried_by_paths(answer) and _without_idle(answer)):
        return False
    return answer.logit - evidence.logit_without_edges > answer.noise


def _is_better(longer: Explanation, shorter: Explanation) -> bool:
    """Whether longer paths carry the score, and more clearly so than shorter ones."""
    if not _is_carried_by_paths(longer):
        return False
    # Where only the ends count, facts between them are idle.
    most = shorter.settings.max_length
    grown = [path for path in _without_idle(longer) if len(path) > most]
    if shorter.evidence is not None and shorter.evidence.verdict == "degree_only":
        return bool(grown)
    if _is_carried_by_paths(shorter):
        return any((path.connection or 0.0) >= CONNECTED for path in grown)
    return True


def _is_carried_by_paths(answer: Explanation) -> bool:
    """Whether paths carry the score as paths.

    Those that share a fact with a longer one do much by removal. But they add nothing to the graph
    without paths, or one of their ends does nothing, or anything else in their place does as well.
    """
    evidence = answer.evidence
    if evidence is None or evidence.verdict != "supported" or evidence.ends is not None:
        return False
    return evidence.gain > answer.noise and any(path.is_evidence for path in answer.paths)


def _without_idle(answer: Explanation) -> list[Path]:
    """The paths that are evidence and of which every fact is active, also for what it leads to.

    The middle of a path that shares its ends with a longer one is active if it counts a little of
    its own. But what it leads to matters hardly, see `Path.connection`.
    """
    return [
        path
        for path in answer.paths
        if path.is_evidence
        and not path.idle
        and (path.connection is None or path.connection >= TENTH)
    ]


def longest_paths(setup: Setup) -> int:
    """The number of facts of the longest paths that the model sees and the budget allows."""
    settings, num_hops = setup.settings, setup.batches.num_hops
    longest = settings.max_length + FURTHEST if num_hops is None else 2 * num_hops
    return longest if settings.budget is None else min(longest, settings.budget)


def _part(setup: Setup, scored: Scored, places: list[int]) -> Scored:
    """Some of the links, with other settings."""
    if len(places) == len(scored.requested):
        return replace(scored, setup=setup)
    graph = ComputationGraphs.joined([scored.batch.only(i) for i in places])
    return score_links(setup, graph, [scored.requested[i] for i in places], scored.timer)


def _is_carried(scored: Scored) -> Bools:
    """Whether all paths together speak for each link, noticeably.

    Raises:
        OutOfTimeError: there is no time to find that out.
    """
    setup, batch, timer = scored.setup, scored.batch, scored.timer
    graphs = ReferenceGraphs.of(setup, batch, timer.search_end())
    model = setup.edited(batch, scored.relation, timer)
    without = Edits.towards(batch, graphs.whole & graphs.on_path, np.arange(batch.num_links))
    bare = model.logits(graphs.whole, without)
    if not model.complete:
        raise OutOfTimeError
    found: Bools = scored.logits - bare > setup.noise
    return found
