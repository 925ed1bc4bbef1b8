"""What the chosen paths are worth: context, verdict, necessity, sufficiency, controls.

Everything is measured on graphs that were really edited; see `Trials`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.measure.activity import ACTIVE, UNKNOWN
from pagelink.measure.candidates import Candidates
from pagelink.measure.controls import Controls, measure_controls
from pagelink.measure.selection import Selection
from pagelink.measure.strongest import Strongest, strongest_facts
from pagelink.measure.trials import Trials
from pagelink.measure.verdict import (
    DegreeControl,
    Ends,
    Evidence,
    Part,
    Verdict,
    end_of_all,
    ends_of,
    is_evidence,
    sufficiency,
    verdict_of,
)
from pagelink.measure.what_else import what_else
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.runtime.csr import Csr
from pagelink.search.paths import allowed_facts, build_path_graphs
from pagelink.search.work import Work


@dataclass(frozen=True)
class PathWorth:
    """What one chosen path is worth; None: there was no time to measure it."""

    influence: float | None = None
    influence_error: float | None = None
    """None: the influence is exact."""
    gain: float | None = None
    marginal: float | None = None
    share: float | None = None
    connection: float | None = None
    is_evidence: bool | None = None
    bundle: int | None = None
    facts: tuple[float | None, ...] = ()
    """The effect of removing each of its facts alone."""
    active: tuple[bool | None, ...] = ()
    """Whether each of its facts is active."""


@dataclass(frozen=True)
class Measured:
    """The evidence of one link, and what each of its paths is worth."""

    evidence: Evidence | None
    """None: the time was over before all that a verdict rests on was measured."""
    paths: tuple[PathWorth, ...]
    alternatives: tuple[tuple[float, Longs], ...] = ()
    """Worth and candidates of sets as good as the chosen one."""
    strongest: Strongest | None = None
    what_else: tuple[Part, ...] = ()


def measure_chosen(trials: Trials, selection: Selection) -> dict[int, Measured]:
    """Measure what the chosen sets are worth, per link to explain.

    Args:
        trials: the model's answers about the candidates.
        selection: the chosen sets of candidates.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    work = trials.work
    # 1. Without each set, and with nothing else.
    sets = trials.candidates.removal(work.links, selection.members[work.links])
    others = trials.graphs.whole.copy()
    others[sets.slots.values] = False
    only = Edits.towards(work.batch, others, work.links)
    answers = trials.logits(trials.graphs.whole, Edits.joined([sets, only]))
    gone, alone = answers.reshape(2, -1)
    errors = _errors(trials, selection, sets)

    # 2. Controls by swaps, where the verdict hangs on them.
    carried = [i for i in work.links.tolist() if _verdict(trials, selection, i) == "supported"]
    controls = measure_controls(trials, selection, np.array(carried, dtype=np.int64))
    verdicts = {
        i: _verdict(trials, selection, i, controls.degree.get(i)) for i in work.links.tolist()
    }
    ends: dict[int, Ends | None] = {
        **{i: _end_of_all(trials, selection, i) for i, v in verdicts.items() if v == "supported"},
        **_ends(trials, selection, [i for i, v in verdicts.items() if v == "degree_only"]),
    }

    # 3. The evidence of each link, and of each path.
    return {
        link: Measured(
            Evidence(
                verdict=verdicts[link],
                influence=float(selection.influence[link]),
                inserted=bool(selection.inserted[link]),
                gain=float(selection.gain[link]),
                worth=_worth(selection, link),
                rho_reached=_reached(selection, link),
                logit_without_these=float(gone[i]),
                logit_without_paths=float(trials.without_paths[link]),
                logit_without_edges=float(trials.without_edges[link]),
                logit_only_these=float(alone[i]),
                sufficiency=_sufficiency(trials, selection, link),
                num_sets=int(selection.num_sets[link]),
                max_length=work.setup.settings.max_length,
                control=controls.degree.get(link),
                influence_error=None if errors is None else float(errors[i]),
                ends=ends.get(link),
            ),
            _paths(trials, selection, controls, verdicts[link], link),
            tuple(selection.alternatives[link]),
        )
        for i, link in enumerate(work.links.tolist())
    }


def measure_beyond(
    trials: Trials, selection: Selection, measured: Mapping[int, Measured]
) -> dict[int, Measured]:
    """Measure what paths leave out: the strongest facts, and on what the score rests without paths.

    Args:
        trials: the model's answers about the candidates.
        selection: the chosen sets of candidates.
        measured: what they are worth.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    settings = trials.work.setup.settings
    strongest = strongest_facts(trials, selection) if settings.strongest else {}
    verdicts = {i: each.evidence.verdict for i, each in measured.items() if each.evidence}
    without = [i for i, verdict in verdicts.items() if verdict != "supported"]
    parts = what_else(trials, np.array(without, dtype=np.int64)) if settings.what_else else {}
    return {
        link: replace(each, strongest=strongest.get(link), what_else=parts.get(link, ()))
        for link, each in measured.items()
    }


def measure_without_paths(work: Work) -> dict[int, tuple[Part, ...]]:
    """Measure on what the scores of links rest that the model predicts and no path joins.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    setup, settings = work.setup, work.setup.settings
    bar = -np.inf if setup.threshold is None else setup.threshold
    predicted = np.flatnonzero(np.isfinite(work.logits) & (work.logits >= bar))
    others = np.setdiff1d(predicted, work.links)
    if not (settings.measure and settings.what_else and len(others)):
        return {}
    return what_else(trials_of_parts(replace(work, links=others)), others)


def trials_of_parts(work: Work) -> Trials:
    """Return what the parts of links are measured with: no candidates, and their facts on paths.

    Raises:
        OutOfTimeError: the time was over before the facts on paths were found.
    """
    setup, settings, batch = work.setup, work.setup.settings, work.batch
    trials = Trials.of(work, Candidates.none(batch.num_links, settings.max_length))
    # A path of which the model does not see every fact is none.
    seen = allowed_facts(setup.graph, batch, None)
    until = work.timer.search_end()
    joined = build_path_graphs(setup.graph, batch, seen, settings.max_length, until=until)
    there = np.repeat(joined.has_path(until), np.diff(batch.edge_ptr))
    graphs = replace(trials.graphs, on_path=trials.graphs.on_path & there)
    return replace(trials, graphs=graphs)


def logit_without_edges(work: Work, link: int) -> float:
    """Return the logit of a link of a batch on a graph without any edge."""
    every = work.setup.predictor.needed(work.batch)
    removal = Edits.towards(work.batch, every, np.array([link]))
    return float(work.setup.edited(work.batch, work.relation).logits(every, removal)[0])


def measured_so_far(trials: Trials, members: Longs) -> dict[int, Measured]:
    """Say what is known of some paths where the time was over: their effects alone, no verdict.

    Args:
        trials: the model's answers by then.
        members: [links to explain, most]: candidates, -1 behind the last.
    """
    lengths = trials.candidates.lengths

    def so_far(member: int) -> PathWorth:
        unknown = (None,) * int(lengths[member])
        effect, gain = _or_none(trials.alone[member]), _or_none(trials.gains[member])
        return PathWorth(effect, gain=gain, facts=unknown, active=unknown)

    return {
        link: Measured(None, tuple(so_far(member) for member in row[row >= 0].tolist()))
        for link, row in zip(trials.work.links.tolist(), members, strict=True)
    }


def _errors(trials: Trials, selection: Selection, sets: Edits) -> Doubles | None:
    """The standard errors of the influences of the chosen sets; None: they are exact."""
    graphs = trials.graphs
    removed, added = (trials.model.errors(each, sets) for each in (graphs.whole, graphs.bare))
    if removed is None or added is None:
        return None
    return np.where(selection.inserted[sets.link], added, removed)


def _errors_alone(trials: Trials, members: Longs, link: int) -> dict[int, float] | None:
    """The standard errors of the influences of chosen paths alone; None: they are exact."""
    chosen = members[members >= 0]
    removal = trials.candidates.removal(np.full(len(chosen), link), chosen[:, None])
    errors = trials.model.errors(trials.graphs.whole, removal)
    return None if errors is None else dict(zip(chosen.tolist(), errors.tolist(), strict=True))


def _verdict(
    trials: Trials, selection: Selection, link: int, control: DegreeControl | None = None
) -> Verdict:
    return verdict_of(
        float(trials.work.logits[link]), float(trials.without_paths[link]),
        float(selection.influence[link]), float(selection.largest[link]),
        trials.work.setup.noise, control,
    )  # fmt: skip


def _ends(trials: Trials, selection: Selection, links: list[int]) -> dict[int, Ends]:
    """Of which end only the number of facts counts, for links of which nothing else does."""
    if not links:
        return {}
    batch, graph = trials.work.batch, trials.graphs.graph
    removed: list[Longs] = []
    joining: set[int] = set()
    for link in links:
        members = selection.members[link]
        slots = np.unique(trials.facts(members[members >= 0])[0])
        edges = batch.edges[slots]
        at = {end: (graph.src[edges] == end) | (graph.dst[edges] == end)
              for end in (batch.link_src[link], batch.link_dst[link])}  # fmt: skip
        if all(each.all() for each in at.values()):
            joining.add(link)
        for at_this in at.values():
            at_end = slots[at_this]
            same = slots_of_same_facts(graph, batch, at_end).values
            if selection.inserted[link]:  # put the others into G0
                own = trials.candidates.slots.take(members[members >= 0]).values
                same = np.setdiff1d(own, same)
            removed.append(np.unique(same))
    lost = np.empty(2 * len(links))
    pairs = Edits(np.repeat(links, 2), Csr.of(removed))
    by_gain = selection.inserted[pairs.link]
    for inserted in (False, True):
        mine = np.flatnonzero(by_gain == inserted)
        change = trials.effects(pairs.chosen(mine), inserted=inserted)
        lost[mine] = selection.gain[pairs.link[mine]] - change if inserted else change
    return {
        link: "either"
        if link in joining
        else ends_of(float(selection.influence[link]), lost[2 * i], lost[2 * i + 1])
        for i, link in enumerate(links)
    }


def _paths(
    trials: Trials, selection: Selection, controls: Controls, verdict: Verdict, link: int
) -> tuple[PathWorth, ...]:
    """What each chosen path of a link is worth."""
    activity, found = selection.activity, []
    errors = _errors_alone(trials, selection.members[link], link)
    for place, member in enumerate(selection.members[link].tolist()):
        if member < 0:
            continue
        size = int(trials.candidates.lengths[member])
        active = _active(trials, selection, member)
        share = float(selection.share[link, place])
        bundle = int(selection.bundle[link, place])
        found.append(
            PathWorth(
                influence=float(trials.alone[member]),
                influence_error=None if errors is None else float(errors[member]),
                gain=float(trials.gains[member]),
                marginal=float(selection.marginal[link, place]),
                share=share,
                connection=_or_none(controls.connection[link, place]),
                is_evidence=is_evidence(verdict, share, active),
                bundle=bundle if bundle > 0 else None,
                facts=tuple(map(_or_none, activity.effect[member, :size])),
                active=active,
            )
        )
    return tuple(found)


def _active(trials: Trials, selection: Selection, member: int) -> tuple[bool | None, ...]:
    """Whether each fact of a candidate is active."""
    states = selection.activity.state[member, : int(trials.candidates.lengths[member])]
    return tuple(None if state == UNKNOWN else bool(state == ACTIVE) for state in states)


def _end_of_all(trials: Trials, selection: Selection, link: int) -> Ends | None:
    members = selection.members[link]
    return end_of_all(
        [_active(trials, selection, member) for member in members[members >= 0].tolist()]
    )


def _worth(selection: Selection, link: int) -> float | None:
    worth = float(selection.worth[link])
    return worth if worth > 0 else None


def _reached(selection: Selection, link: int) -> float | None:
    best = float(selection.best[link])
    return float(selection.worth[link]) / best if best > 0 else None


def _sufficiency(trials: Trials, selection: Selection, link: int) -> float | None:
    bare = trials.without_paths[link]
    share = sufficiency(
        trials.work.logits[link], bare, bare + selection.gain[link], trials.work.setup.noise
    )
    return _or_none(float(share))


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
