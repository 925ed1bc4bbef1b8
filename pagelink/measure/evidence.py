"""What the chosen paths are worth: context, verdict, necessity, sufficiency, connection.

Everything is measured on graphs that were really edited; see `trials`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.graph.edited_graphs import Edits
from pagelink.measure.controls import draw_controls
from pagelink.measure.selection import Selection
from pagelink.measure.trials import Trials
from pagelink.measure.verdict import Evidence, connection, sufficiency, verdict_of
from pagelink.runtime.arrays import Ragged


@dataclass(frozen=True)
class PathWorth:
    """What one chosen path is worth."""

    influence: float
    marginal: float
    added: float | None
    """What it adds to G0 alone; None where influence is not by insertion."""
    connection: float | None
    facts: tuple[float, ...]
    """The effect of removing each of its facts alone."""


@dataclass(frozen=True)
class Measured:
    """The evidence of one link, and what each of its paths is worth."""

    evidence: Evidence
    paths: tuple[PathWorth, ...]


def measure_chosen(trials: Trials, selection: Selection) -> dict[int, Measured]:
    """Measure what the chosen sets are worth, per link to explain.

    Args:
        trials: the model's answers about the candidates.
        selection: the chosen sets of candidates.
    """
    work, graphs, candidates = trials.work, trials.graphs, trials.candidates
    links, batch, whole = work.links, work.batch, graphs.whole
    # 1. The chosen paths of all links, one after the other, with their facts and control pairs.
    link, place = np.nonzero(selection.members[links] >= 0)
    link = links[link]
    chosen = selection.members[link, place]
    arcs = candidates.arcs[chosen]
    lengths = (arcs >= 0).sum(1)
    fact_ptr = np.concatenate([[0], np.cumsum(lengths)])
    path_slots = work.paths.arc_slot[arcs[arcs >= 0]]
    fact_slots = graphs.facts.of_slots(batch, path_slots)
    controls, control_of = draw_controls(
        graphs, link, Ragged(fact_ptr, path_slots), work.setup.settings.controls, work.seed
    )

    # 2. One pass: without each set, with each set alone added to G0 and to nothing, without each
    #    fact, without each control pair.
    sets = candidates.removal(links, selection.members[links])
    others = whole.copy()
    others[sets.slots] = False
    edits = [
        sets,
        Edits.towards(batch, others & ~graphs.bare, links),
        Edits.towards(batch, others, links),
        Edits(np.repeat(link, lengths), fact_slots.ptr, fact_slots.values),
        controls,
    ]
    answers = trials.model.logits(whole, Edits.joined(edits))
    cuts = np.cumsum([edit.num_copies for edit in edits])
    gone, added, only, gone_fact, gone_control = np.split(answers, cuts[:-1])
    inserted = selection.inserted[link]
    adds = np.full(len(link), np.nan)
    single = candidates.removal(link[inserted], chosen[inserted, None])
    adds[inserted] = trials.effects(single, inserted=True)

    # 3. What each path, and each set, is worth.
    effect, marginal = trials.alone[chosen], selection.marginal[link, place]
    fact_effect = work.logits[edits[3].link] - gone_fact
    control_effect = work.logits[controls.link] - gone_control
    worth = [
        PathWorth(
            influence=float(effect[i]),
            marginal=float(marginal[i]),
            added=float(adds[i]) if inserted[i] else None,
            connection=_or_none(connection(effect[i], control_effect[control_of == i])),
            facts=tuple(fact_effect[fact_ptr[i] : fact_ptr[i + 1]].tolist()),
        )
        for i in range(len(link))
    ]
    path_ptr = np.searchsorted(link, np.append(links, len(work.logits)))
    return {
        number: Measured(
            _evidence(trials, selection, number, (float(gone[i]), float(added[i]), float(only[i]))),
            tuple(worth[path_ptr[i] : path_ptr[i + 1]]),
        )
        for i, number in enumerate(links.tolist())
    }


def _evidence(
    trials: Trials, selection: Selection, link: int, answers: tuple[float, float, float]
) -> Evidence:
    gone, added, only = answers
    logit, bare = float(trials.work.logits[link]), float(trials.without_paths[link])
    influence, best = float(selection.influence[link]), float(selection.best[link])
    return Evidence(
        verdict=verdict_of(logit, bare, influence, float(selection.largest[link])),
        influence=influence,
        inserted=bool(selection.inserted[link]),
        logit_without_these=gone,
        logit_without_paths=bare,
        logit_without_edges=float(trials.without_edges[link]),
        logit_only_these=only,
        sufficiency=_or_none(float(sufficiency(logit, bare, added))),
        rho_reached=influence / best if best > 0 else None,
        num_sets=int(selection.num_sets[link]),
    )


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
