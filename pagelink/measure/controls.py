"""Controls by swaps: does it matter what the facts of the paths lead to, and that they connect?

The degree control swaps all facts of the returned paths, and compares with as many facts at source
and target that lie on no path. The connection of a path swaps only its inner facts, those that
touch neither end: in G, or, where other paths stand in for these facts, in G0 with the path alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.measure.activity import ACTIVE
from pagelink.measure.selection import Selection
from pagelink.measure.swaps import NO_EDGES, JobList, draw, swapped_logits
from pagelink.measure.trials import Trials
from pagelink.measure.verdict import DegreeControl, connection
from pagelink.runtime.arrays import Bools, Doubles, Longs

_WIDTH = 1.96  # of a 95 % interval, in standard errors
SET, PATH, PLACEBO = 0, 1, 1000
"""Keys of jobs: of the whole set, of its paths from 1 on, of placebos from 1000 on."""


@dataclass(frozen=True)
class Controls:
    """What swaps say of the chosen sets."""

    degree: dict[int, DegreeControl]
    """By link; a link that was not asked about, or of which nothing can be swapped, has none."""
    connection: Doubles
    """[num_links, most]: of each chosen path; NaN where there is none."""


def measure_controls(trials: Trials, selection: Selection, asked: Longs) -> Controls:
    """Swap facts of the chosen sets.

    Args:
        trials: the model and the graphs.
        selection: the chosen sets of candidates.
        asked: the links whose degree control is wanted.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    work, members = trials.work, selection.members
    settings, noise = work.setup.settings, work.setup.noise
    found = Controls({}, np.full(members.shape, np.nan))
    if not settings.swaps:
        return found
    # 1. What to swap: the sets, the placebos, the inner facts of longer paths; and the logits
    #    before that.
    jobs, base = JobList(trials.graphs, work.seed), []
    inserted = selection.inserted[:, None] | _is_replaced(trials, selection)
    alone = _alone(trials, selection, inserted)
    for link in work.links.tolist():
        mine = members[link][members[link] >= 0]
        if link in asked:
            facts, _ = trials.facts(mine)
            without, logit = _start(
                trials, link, mine, selection.gain[link] if selection.inserted[link] else None
            )
            before = jobs.count
            jobs.add(link, facts, settings.swaps, SET, without)
            jobs.add_placebos(link, facts, settings.swaps, PLACEBO, without)
            base += [logit] * (jobs.count - before)
        for place, member in enumerate(mine.tolist()):
            if alone[link, place] > noise:
                one = np.array([member])
                without, logit = _start(
                    trials, link, one, trials.gains[member] if inserted[link, place] else None
                )
                before = jobs.count
                jobs.add_inner(link, trials.facts(one)[0], settings.swaps, PATH + place, without)
                base += [logit] * (jobs.count - before)

    # 2. Swap, and take the means.
    listed = jobs.listed()
    swaps = draw(trials.graphs, listed, settings.max_length, work.seed)
    after = swapped_logits(work.setup, work.batch, work.relation, listed, swaps, work.timer)
    lost = np.array(base)[swaps.job] - after
    link_of, key_of = listed.link[swaps.job], listed.key[swaps.job]
    for link in asked.tolist():
        mine = link_of == link
        control = control_of(lost[mine & (key_of == SET)], lost[mine & (key_of >= PLACEBO)])
        if control is not None:
            found.degree[link] = control
    for job in np.flatnonzero((listed.key >= PATH) & (listed.key < PLACEBO)).tolist():
        values = lost[swaps.job == job]
        if len(values):
            link, place = int(listed.link[job]), int(listed.key[job]) - PATH
            found.connection[link, place] = connection(alone[link, place], values.mean())
    return found


def control_of(lost: Doubles, placebo: Doubles) -> DegreeControl | None:
    """Return the degree control by what was lost in each draw; None without two draws at least.

    Args:
        lost: by swapping the facts of the paths.
        placebo: by swapping facts on no path.
    """
    if len(lost) < 2:
        return None
    effect, variance = lost.mean(), lost.var(ddof=1) / len(lost)
    if len(placebo) >= 2:
        effect, variance = effect - placebo.mean(), variance + placebo.var(ddof=1) / len(placebo)
    else:
        placebo = placebo[:0]
    width = _WIDTH * float(np.sqrt(variance))
    return DegreeControl(
        float(effect), float(effect) - width, float(effect) + width, len(lost), len(placebo)
    )


def _is_replaced(trials: Trials, selection: Selection) -> Bools:
    """[num_links, most]: paths whose inner facts count, but others stand in for them.

    In G swapping them shows nothing, though the path is of no use without them.
    """
    members, lengths = selection.members, trials.candidates.lengths
    place = np.arange(trials.candidates.arcs.shape[1])
    inner = (place > 0) & (place < lengths[:, None] - 1)
    active = inner & (selection.activity.state == ACTIVE)
    felt = inner & (np.abs(selection.activity.effect) > trials.work.setup.noise)
    found: Bools = (active.any(1) & ~felt.any(1))[members] & (members >= 0)
    return found


def _alone(trials: Trials, selection: Selection, inserted: Bools) -> Doubles:
    """[num_links, most]: what each chosen path does alone, by removal or by insertion."""
    members = selection.members
    values = np.where(inserted, trials.gains[members], trials.alone[members])
    return np.where(members >= 0, values, np.nan)


def _start(trials: Trials, link: int, members: Longs, gain: float | None) -> tuple[Longs, float]:
    """The edges to take out before some candidates of a link are swapped, and the logit then.

    Args:
        trials: the model and the graphs.
        link: the link.
        members: its candidates.
        gain: swap in G0 with them, which adds this to its logit. None: in G.
    """
    if gain is None:
        return NO_EDGES, float(trials.work.logits[link])
    first, last = trials.work.batch.edge_ptr[link : link + 2]
    on_path = first + np.flatnonzero(trials.graphs.on_path[first:last])
    without = np.setdiff1d(on_path, trials.candidates.slots.take(members).values)
    return without, float(trials.without_paths[link] + gain)
