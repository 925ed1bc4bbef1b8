"""What an explanation holds only on request: ranks, stability, and predicted negatives.

Also the checks of the arguments of an explainer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pagelink.errors import SettingsError
from pagelink.explain.building import cut_short, named_paths
from pagelink.explain.ranking import (
    MOST_RANKED,
    RANKING,
    EndScores,
    place_among,
    rank_among,
)
from pagelink.explain.result import Explanation, Path
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import End, Link
from pagelink.graph.lookup import fact_of
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.candidates import CandidateFinder, Candidates
from pagelink.measure.held_out import HeldOutShares
from pagelink.model.edited_logits import EditedLogits
from pagelink.model.receptive_field import ReceptiveField
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.runtime.timer import UNLIMITED, OutOfTimeError, Timer
from pagelink.search.work import Setup
from pagelink.settings import Settings

SAMPLE = 100
"""Nodes to rank where each of them takes a pass of its own, or the graph is on disk."""
NOT_RANKED = "The deadline left no time to rank the link."
SPEAKING = "it was measured which paths speak for the link and which against it"


def check_whole_number(name: str, value: object, low: int) -> None:
    """Refuse a value of an argument that is no whole number, or below `low`.

    Raises:
        SettingsError: the message names the argument.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise SettingsError(f"{name} must be a whole number from {low} up, got {value!r}.")


@dataclass(frozen=True)
class ExplainOptions:
    """What is requested beside the paths.

    Raises:
        SettingsError: a number is out of its range.

    Example:
        >>> ExplainOptions(runs=3).seeds(7)
        range(8, 10)
    """

    rank: bool | None = False
    """Rank an end of the link before and after removing the facts of the returned paths. None:
    where a pass over a graph in memory scores all nodes at once."""
    rank_sample: int | None = None
    """How many nodes to rank at most, the link's own among them. None: all, where a pass over a
    graph in memory scores them at once; else 100."""
    runs: int = 1
    """The number of seeds to explain with; each path says in how many of them it is returned."""
    negatives: bool = False
    """Say of predicted negatives which paths speak for the link, and which against it."""
    rank_end: End = "dst"
    """Which end is ranked: the target among targets of the source, or the source among sources."""

    def __post_init__(self) -> None:
        if self.rank_end not in ("src", "dst"):
            raise SettingsError(f"rank_end must be 'src' or 'dst', got {self.rank_end!r}.")
        if self.rank not in (True, False, None):
            raise SettingsError(f"rank must be True, False or None, got {self.rank!r}.")
        if self.rank_sample is not None:
            check_whole_number("rank_sample", self.rank_sample, 2)
        check_whole_number("runs", self.runs, 1)

    def seeds(self, seed: int) -> range:
        """The further seeds to explain with."""
        return range(seed + 1, seed + self.runs)

    def num_ranked(self, *, in_one_pass: bool) -> int:
        """Return how many nodes to rank at most, 0: none.

        Args:
            in_one_pass: a pass over a graph in memory scores all nodes at once.
        """
        if not (in_one_pass if self.rank is None else self.rank):
            return 0
        if self.rank_sample is not None:
            return self.rank_sample
        return MOST_RANKED if in_one_pass else SAMPLE


def with_runs(
    answers: Sequence[Explanation], again: Sequence[Sequence[Explanation]]
) -> list[Explanation]:
    """Count in how many runs each path of the first one is returned.

    Args:
        answers: the first run, whose paths are kept.
        again: the same links in the further runs.
    """
    counted = []
    for i, answer in enumerate(answers):
        others = [set(run[i].paths) for run in again]
        paths = tuple(
            replace(path, runs=1 + sum(path in other for other in others)) for path in answer.paths
        )
        counted.append(replace(answer, paths=paths, runs=1 + len(again)))
    return counted


def facts_along(graph: TypedGraph, path: Path) -> list[int]:
    """Return the numbers of a path's facts, in their order."""
    return [
        fact_of(graph, edge.type, edge.index, start if edge.reversed else end)
        for edge, start, end in zip(path.edges, path.nodes, path.nodes[1:], strict=False)
    ]


def facts_of(graph: TypedGraph, paths: Sequence[Path]) -> Longs:
    """Return the facts of paths, by number, each once."""
    facts = [fact for path in paths for fact in facts_along(graph, path)]
    return np.unique(np.array(facts, dtype=np.int64))


def strongest_of(graph: TypedGraph, answer: Explanation) -> Longs:
    """Return the strongest facts of an explanation, by number; none if they are not known."""
    known = () if answer.strongest is None else answer.strongest.facts
    facts = [fact_of(graph, fact.edge.type, fact.edge.index, fact.nodes[1]) for fact in known]
    return np.array(sorted(facts), dtype=np.int64)


def with_rank(
    setup: Setup,
    link: Link,
    answer: Explanation,
    options: ExplainOptions,
    ranked: tuple[Longs, bool],
    timer: Timer = UNLIMITED,
) -> Explanation:
    """Rank an end of a link with and without the facts of the returned paths.

    Args:
        setup: the model, and what makes computation graphs.
        link: the explained link.
        answer: its explanation.
        options: which end, and whether its rank is requested.
        ranked: the nodes to rank, ascending, and whether they are a sample.
        timer: when to stop; there is no rank then.
    """
    nodes, is_sample = ranked
    if answer.logit is None:
        return answer
    end = options.rank_end
    own = int(np.searchsorted(nodes, link.at(end)))
    facts = facts_of(setup.graph, answer.paths)
    strongest = strongest_of(setup.graph, answer)
    scores = EndScores(setup, link, timer, end=end)
    try:
        rows = scores.logits(nodes, [(), *(each for each in (facts, strongest) if len(each))])
    except OutOfTimeError:
        timer.stop(RANKING)
        if options.rank is None and answer.reason != "out_of_time":  # nothing requested is missing
            return replace(answer, notes=(*answer.notes, NOT_RANKED))
        return cut_short(answer, timer)
    rank, ties = place_among(rows[0], own)
    without, ties_without = place_among(rows[1], own) if len(facts) else (None, None)
    return replace(
        answer,
        rank=rank,
        rank_ties=ties,
        rank_without_these=without,
        rank_ties_without_these=ties_without,
        rank_without_strongest=rank_among(rows[-1], own) if len(strongest) else None,
        rank_of=len(nodes),
        rank_is_sample=is_sample,
        rank_end=end,
    )


def with_held_out(link: Link, answer: Explanation, shares: HeldOutShares) -> Explanation:
    """Say how many predictions of such a rank, or of such a score, were held-out links.

    It goes by the rank where that is known among all targets of the source, else by the score. A
    link of the graph was not held out, and gets nothing.
    """
    if answer.logit is None or answer.link_in_graph or link.type != shares.link_type:
        return answer
    is_whole = answer.rank_end == "dst" and not answer.rank_is_sample
    if answer.rank is not None and is_whole:
        return replace(answer, held_out_share=shares.of_rank(answer.rank))
    return replace(answer, held_out_share=shares.of_score(answer.logit))


def with_negatives(
    setup: Setup,
    batch: ComputationGraphs,
    links: list[Link],
    answers: Sequence[Explanation],
    timer: Timer = UNLIMITED,
) -> list[Explanation]:
    """Give predicted negatives the paths that speak most for the link, and most against it.

    A path speaks for the link if the logit falls when its facts are really removed. Of either kind
    as many are returned as the settings ask for, those for the link first, the strongest first;
    each adds noticeably to what those before it do.

    Args:
        setup: the model, and how many paths.
        batch: the computation graphs.
        links: the links of the batch.
        answers: their explanations.
        timer: when to stop; the paths are then the strongest of those that were measured.
    """
    result = list(answers)
    negative = [i for i, answer in enumerate(answers) if answer.reason == "predicted_negative"]
    if not negative:
        return result
    part = ComputationGraphs.joined([batch.only(i) for i in negative])
    spoken = _for_and_against(setup, part, setup.relations([links[i] for i in negative]), timer)
    try:
        found, is_cut = list(spoken), False
    except OutOfTimeError:
        timer.stop(SPEAKING)
        found, is_cut = [([], [])], True
    for i, (pro, contra) in zip(negative, found, strict=True):
        result[i] = replace(
            answers[i],
            # The search draws nothing at random: each run returns the same paths.
            paths=tuple(replace(path, runs=answers[i].runs) for path in (*pro, *contra)),
            message=f"{answers[i].message} {_message(len(pro), len(contra), is_cut)}".strip(),
        )
        if timer.cut:
            result[i] = cut_short(result[i], timer)
    return result


def _for_and_against(
    setup: Setup, batch: ComputationGraphs, relation: Longs, timer: Timer
) -> Iterator[tuple[list[Path], list[Path]]]:
    """Yield, per link, the paths for it and those against it, each with its influence.

    Raises:
        OutOfTimeError: the time was over before the model was asked about paths.
    """
    count = setup.settings.candidates
    size, until = setup.size(batch), timer.until
    whole, paths = setup.predictor.needed(batch), setup.path_graphs(batch, None, until)
    has_path = np.flatnonzero(paths.has_path(until))
    if not timer.allows(2 * size, SPEAKING):
        raise OutOfTimeError
    logits, recorded = setup.logits(batch, relation, timer)
    even = np.zeros(len(batch.edges), dtype=np.float32)
    with timer.step(size):
        gradient = setup.gradient(batch, recorded)
    model = setup.edited(batch, relation, timer, SPEAKING)
    finder = CandidateFinder(setup.graph, batch, paths, has_path, even, timer)
    sides = [
        (sign, finder.taken(finder.most_concise(count), finder.steepest(sign * gradient, count)))
        for sign in (np.float32(1), np.float32(-1))
    ]

    def side(link: int, logit: float, sign: float, candidates: Candidates) -> list[Path]:
        def effects(sets: Longs) -> Doubles:
            edits = candidates.removal(np.full(len(sets), link), sets)
            changes = logit - model.logits(whole, edits)
            return sign * np.where(np.isfinite(changes), changes, 0.0)

        mine = np.arange(*candidates.ptr[link : link + 2])
        most = setup.settings.paths_within_budget
        members, alone = _strongest(mine, effects, setup.noise, most, model)
        named = named_paths(setup.graph, batch, paths, even, candidates.found(members[None]), 0)
        return [
            replace(path, influence=effect, is_evidence=effect > 0)
            for path, effect in zip(named, (sign * alone).tolist(), strict=True)
        ]

    for link, logit in enumerate(logits.tolist()):
        pro, contra = (side(link, logit, float(sign), candidates) for sign, candidates in sides)
        yield pro, contra


def _strongest(
    mine: Longs,
    effects: Callable[[Longs], Doubles],
    least: float,
    most: int,
    model: EditedLogits,
) -> tuple[Longs, Doubles]:
    """The candidates of a link of the highest effect, at most `most`, and their effects alone.

    They are taken one after the other, each for what it adds to those before: a path that merely
    shares facts with one of them adds nothing. Where there is no time to measure all of them
    together with those before, none is added.
    """
    chosen: Longs = np.empty(0, dtype=np.int64)
    alone, reached = np.empty(0), 0.0
    while len(mine) and len(chosen) < most and (model.complete or not len(chosen)):
        before = np.tile(mine[chosen], (len(mine), 1))
        together = effects(np.column_stack([before, mine]))
        if len(chosen) and not model.complete:
            break
        alone = alone if len(chosen) else together
        gain = np.where(alone > least, together - reached, -np.inf)
        best = int(np.argmax(gain))
        if gain[best] <= least:
            break
        chosen, reached = np.append(chosen, best), float(together[best])
    return mine[chosen], alone[chosen]


def _message(pro: int, contra: int, is_cut: bool) -> str:
    if is_cut:
        return ""
    if not pro and not contra:
        return "No path speaks for the link or against it."
    counts = [
        f"{n or 'none'} {'speaks' if n < 2 else 'speak'} {side}"
        for n, side in ((pro, "for the link"), (contra, "against it"))
    ]
    return f"Of the paths below, {counts[0]} and {counts[1]}."


def check_arguments(settings: object, seed: object, threshold: object) -> None:
    """Refuse arguments of an explainer that cannot be used.

    Raises:
        SettingsError: one is out of its range.
    """
    if settings is not None and not isinstance(settings, Settings):
        raise SettingsError(f"settings must be Settings, got {type(settings).__name__}.")
    check_whole_number("seed", seed, 0)
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if threshold is not None and not (number and math.isfinite(threshold)):  # type: ignore[arg-type]
        raise SettingsError(f"threshold must be a number or None, got {threshold!r}.")


def check_hops(settings: Settings, seen: ReceptiveField) -> None:
    """Refuse a number of hops below what the model sees.

    Raises:
        SettingsError: the computation graph would be too small.
    """
    if settings.num_hops is not None and settings.num_hops < (seen.num_hops or 0):
        raise SettingsError(
            f"num_hops is {settings.num_hops}, but the model sees {seen.num_hops} hops: the "
            "computation graph would leave out edges that move its score. Use None."
        )


def check_batches(batch_size: object, memory: object) -> None:
    """Refuse a size of batches that cannot be used.

    Raises:
        SettingsError: one is out of its range.
    """
    check_whole_number("batch_size", batch_size, 1)
    if not isinstance(memory, int | float) or isinstance(memory, bool) or not memory > 0:
        raise SettingsError(f"memory must be above 0 gigabytes, a number, got {memory!r}.")
