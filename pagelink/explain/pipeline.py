"""The method, step by step, for links side by side; and a stream of links, cut into batches.

`page_link` is the paper's Algorithm 1, with the paths chosen by what they are worth to the model.
Rivals share its steps and have a method of their own. `Pipeline` feeds a method.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pagelink.errors import LinkError, StoreError
from pagelink.explain.building import ResultBuilder, cut_short
from pagelink.explain.checking import check_links
from pagelink.explain.longer import Method, with_longer_paths
from pagelink.explain.options import (
    ExplainOptions,
    with_held_out,
    with_negatives,
    with_rank,
    with_runs,
)
from pagelink.explain.ranking import KnownLinks, sample_ends
from pagelink.explain.result import Explanation
from pagelink.graph.batches import Batch
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link
from pagelink.measure.candidates import CandidateFinder
from pagelink.measure.evidence import (
    measure_beyond,
    measure_chosen,
    measure_without_paths,
    measured_so_far,
)
from pagelink.measure.held_out import HeldOutShares
from pagelink.measure.path_sets import Chains, ranked
from pagelink.measure.selection import select
from pagelink.measure.trials import Trials
from pagelink.measure.verdict import Part
from pagelink.model.borrowing import in_normal_mode
from pagelink.runtime.arrays import Longs
from pagelink.runtime.timer import OutOfTimeError, Timer
from pagelink.search.mask_learning import LearnedMasks, learn_masks
from pagelink.search.paths import FoundPaths, best_paths
from pagelink.search.work import (
    MEASURING,
    SEARCHING,
    Scored,
    Setup,
    Work,
    prune_links,
    score_links,
)

RUNNING = "it was explained with further seeds"
BEYOND = "it was measured what paths leave out"
TRIED = 6
"""Paths that are tried for the next one of a greedy set."""


def page_link(builder: ResultBuilder, scored: Scored, seed: int) -> list[Explanation]:
    """Explain links side by side, given their computation graphs and their scores."""
    # Extract: done by `Batches`, which cuts a stream of links by the size of what it extracts.
    # Score: f(G) of each link, done by `Pipeline`, which checks it against the full graph.
    setup, batch, timer = scored.setup, scored.batch, scored.timer
    settings = setup.settings
    # Prune: the edges that have a mask and may lie on paths.
    work = prune_links(scored, seed)
    # Learn one mask per link.
    masks = learn_masks(work)
    trials: Trials | None = None
    if work.is_measured():
        try:
            # Find candidate paths: by the mask, by conciseness, by the gradient.
            finder = CandidateFinder(
                setup.graph, batch, work.paths, work.links, masks.edge_logits, timer
            )
            candidates = finder.candidates(work.gradient(), settings.candidates)
            # Measure the model without each of them, and with each alone.
            trials = Trials.of(work, candidates)
            chains = Chains(trials)
            # Facts that do nothing as long as others are there may be worth most once these are
            # gone: find and measure again, without the best paths so far.
            for _ in range(settings.paths_within_budget - 1):
                steepest = finder.steepest(work.path_gradient(chains.slots), TRIED)
                chains.grow(chains.take(finder.taken(steepest)), inserted=False)
                chains.grow(chains.highest(TRIED), inserted=True)
            trials = chains.trials
            # Select a set of paths per link, and measure what it is worth.
            chosen = select(chains)
            measured = measure_chosen(trials, chosen)
            try:
                # And what paths leave out.
                measured = measure_beyond(trials, chosen, measured)
            except OutOfTimeError:
                timer.stop(BEYOND)
            found = trials.candidates.found(chosen.members[work.links])
            without = _without_paths(work)
            return builder.build(work, masks, found, measured, trials.candidates, without)
        except OutOfTimeError:
            timer.stop(MEASURING)
    if trials is None:
        found = best_by_mask(work, masks)
        return builder.build(work, masks, found, without_paths=_without_paths(work))
    # The time was over: the best paths by what was measured so far.
    known = np.nan_to_num(trials.alone, nan=0.0)
    members = ranked(trials.candidates, known, settings.paths_within_budget)[work.links]
    found = trials.candidates.found(members)
    return builder.build(work, masks, found, measured_so_far(trials, members))


def _without_paths(work: Work) -> dict[int, tuple[Part, ...]]:
    """On what the scores of links without any path rest, if there is time to measure that."""
    try:
        return {} if work.timer.cut else measure_without_paths(work)
    except OutOfTimeError:
        return {}


def best_by_mask(work: Work, masks: LearnedMasks) -> FoundPaths:
    """Find the best paths by Score under the learned mask, as the paper returns them."""
    arc_logits = masks.edge_logits[work.paths.arc_slot]
    count, until = work.setup.settings.paths_within_budget, work.timer.last
    found = best_paths(work.paths, arc_logits, count, work.links, until)
    if not found.complete.all():
        work.timer.stop(SEARCHING)
    return found


@dataclass(frozen=True)
class Pipeline:
    """Explains streams of links by a method."""

    setup: Setup
    builder: ResultBuilder
    method: Method
    seed: int
    at: Callable[[int | None], Pipeline]
    """The same with computation graphs of another number of hops; None: on the full graph."""
    known: KnownLinks
    """Links that are true although the graph may not have them."""
    longer: Callable[[int], tuple[Setup, Method]] | None = None
    """What explains by paths of another number of facts; None: they are never longer."""
    on_disk: bool = False
    """The graph is a store."""
    held_out: HeldOutShares | None = None
    """What ranks and scores meant on held-out links; None: not known."""

    def stream(
        self,
        links: Iterable[Link],
        options: ExplainOptions,
        batch_size: int,
        memory: float,
        *,
        raises: bool = False,
    ) -> Iterator[Explanation]:
        """Yield one explanation per link, in order.

        Args:
            links: the links, malformed ones among them.
            options: what is requested beside the paths.
            batch_size: links side by side at most.
            memory: gigabytes that a batch may take, about.
            raises: raise what is wrong with a link, instead of giving it as its reason.
        """
        deadline = self.setup.settings.deadline
        for batch in self.setup.batches.cut(links, batch_size, memory, deadline):
            answers = iter(self._batch(batch, options, raises))
            for place, link in enumerate(batch.links):
                if link.message is not None:
                    yield self._failed(link, LinkError(link.message), raises)
                elif place in batch.late:
                    late = self.builder.failed(link, OutOfTimeError())
                    yield dataclasses.replace(late, seconds=batch.late[place])
                else:
                    yield next(answers)

    def _batch(self, batch: Batch, options: ExplainOptions, raises: bool) -> list[Explanation]:
        """Explain the links of a batch side by side; each says its share of the seconds."""
        started = time.process_time()
        answers = self._each(batch, options, raises)
        cpu = batch.cpu + time.process_time() - started
        weight = 1 + np.array(batch.visible, dtype=np.float64)
        shares = (cpu * weight / weight.sum()).tolist()
        return [
            dataclasses.replace(answer, seconds=seconds)
            for answer, seconds in zip(answers, shares, strict=True)
        ]

    def _each(self, batch: Batch, options: ExplainOptions, raises: bool) -> list[Explanation]:
        """Explain links side by side; if that fails, one by one, so that one costs only itself.

        It fails, too, if that takes more than a share of their time.
        """
        links = batch.valid
        if not links:
            return []
        try:
            with self.setup.graph.naming_damage():
                return self._answers(batch, options)
        except StoreError:
            raise  # a damaged graph is no link's fault, and no further one is explained on it
        except OutOfTimeError as error:
            if len(links) == 1:
                return [self.builder.failed(links[0], error)]
        except Exception as error:
            if len(links) == 1:
                return [self._failed(links[0], error, raises)]
        alone = [
            Batch([link], [graph], seconds=batch.seconds / len(links))
            for link, graph in zip(links, batch.graphs, strict=True)
        ]
        return [self._each(one, options, raises)[0] for one in alone]

    def _failed(self, link: Link, error: Exception, raises: bool) -> Explanation:
        if raises:  # the one difference between `explain` and `explain_many`
            raise error
        return self.builder.failed(link, error)

    @in_normal_mode
    def _answers(self, batch: Batch, options: ExplainOptions) -> list[Explanation]:
        """Explain links side by side, each at the radius that its score needs."""
        graphs, links = ComputationGraphs.joined(batch.graphs), batch.valid
        timer = Timer(self.setup.settings.deadline, len(links), batch.seconds)
        scored = score_links(self.setup, graphs, links, timer)
        checks = check_links(scored, self._setup_at, on_disk=self.on_disk)
        answers: dict[int, Explanation] = {}
        for num_hops in dict.fromkeys(check.num_hops for check in checks):
            places = [i for i, check in enumerate(checks) if check.num_hops == num_hops]
            explained = self._explained(scored, places, num_hops, options)
            for place, answer in zip(places, explained, strict=True):
                note = checks[place].note
                notes = (*answer.notes, note) if note else answer.notes
                answers[place] = dataclasses.replace(answer, notes=notes)
        return [answers[place] for place in range(len(links))]

    def _setup_at(self, num_hops: int | None) -> Setup:
        return self.at(num_hops).setup

    def _explained(
        self, scored: Scored, places: list[int], num_hops: int | None, options: ExplainOptions
    ) -> list[Explanation]:
        """Explain some links of a batch at a radius, and add what else is requested."""
        if num_hops != self.setup.batches.num_hops:
            links = [scored.requested[i] for i in places]
            wider = self.at(num_hops)
            # On the full graph the model takes one link at a time.
            groups = [links] if wider.setup.predictor.mode == "subgraphs" else [[x] for x in links]
            graphs = (ComputationGraphs.joined(wider.setup.batches.extract(g)) for g in groups)
            found = [
                wider._requested(score_links(wider.setup, graph, group, scored.timer), options)
                for graph, group in zip(graphs, groups, strict=True)
            ]
            return [answer for group in found for answer in group]
        if len(places) < len(scored.requested):
            links = [scored.requested[i] for i in places]
            graph = ComputationGraphs.joined([scored.batch.only(i) for i in places])
            scored = score_links(self.setup, graph, links, scored.timer)
        return self._requested(scored, options)

    def _requested(self, scored: Scored, options: ExplainOptions) -> list[Explanation]:
        """Explain links side by side, and add what else is requested."""
        links, timer = scored.requested, scored.timer
        answers = self._by_seed(scored, self.seed)
        if options.runs > 1:
            again = self._again(scored, options)
            answers = with_runs(answers, again)
            if len(again) < options.runs - 1:
                answers = [cut_short(answer, timer) for answer in answers]
        if options.negatives:
            answers = with_negatives(self.setup, scored.batch, links, answers, timer)
        # Where messages depend on the link, each node takes a pass of its own.
        in_one_pass = not (self.on_disk or self.setup.receptive_field.knows_link)
        count = options.num_ranked(in_one_pass=in_one_pass)
        if count:
            answers = [
                with_rank(
                    self.setup, link, answer, options, self._ends(link, options, count), timer
                )
                for link, answer in zip(links, answers, strict=True)
            ]
        if self.held_out is None:
            return answers
        shares = self.held_out
        return [
            with_held_out(link, answer, shares) for link, answer in zip(links, answers, strict=True)
        ]

    def _ends(self, link: Link, options: ExplainOptions, count: int) -> tuple[Longs, bool]:
        """The nodes that an end of a link is ranked among, and whether they are a sample."""
        end = options.rank_end
        known = self.known.ends(link, end)
        return sample_ends(self.setup.graph, link, count, self.seed, end, known)

    def _by_seed(self, scored: Scored, seed: int) -> list[Explanation]:
        """Explain links side by side, by longer paths where short ones do not carry the score."""
        answers = self.method(scored, seed)
        settings = self.setup.settings
        if self.longer is None or not (settings.longer and settings.measure):
            return answers
        return with_longer_paths(self.setup, self.longer, scored, answers, seed)

    def _again(self, scored: Scored, options: ExplainOptions) -> list[list[Explanation]]:
        """Explain links with the further seeds; a run that is cut does not count."""
        timer = scored.timer
        runs: list[list[Explanation]] = []
        for seed in options.seeds(self.seed):
            if timer.is_over():
                timer.stop(RUNNING)
            if timer.cut:
                break
            run = self._by_seed(scored, seed)
            if timer.cut:
                timer.cut = RUNNING
                break
            runs.append(run)
        return runs

    @in_normal_mode
    def setup_for(self, link: Link) -> Setup:
        """Return what explains a link: with wider graphs, if its score needs them.

        Under a deadline no time is taken for that.
        """
        if self.setup.settings.deadline is not None:
            return self.setup
        graphs = ComputationGraphs.joined(self.setup.batches.extract([link]))
        scored = score_links(self.setup, graphs, [link])
        (check,) = check_links(scored, self._setup_at, on_disk=self.on_disk)
        return self._setup_at(check.num_hops)
