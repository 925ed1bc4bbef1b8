"""What the chosen paths are worth: context, verdict, necessity, sufficiency, connection.

Everything is measured on graphs that were really edited; see `influence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pagelink.candidates import Candidates, FactIndex
from pagelink.computation_graph import ComputationGraphs
from pagelink.controls import draw_controls
from pagelink.copies import Edits
from pagelink.explanation import Path
from pagelink.graph import Bools, Longs, TypedGraph
from pagelink.influence import Influence
from pagelink.paths import PathGraphs, build_path_graphs
from pagelink.selection import Selection
from pagelink.settings import Settings
from pagelink.verdicts import Evidence, Verdict, unnoticed

Doubles = npt.NDArray[np.float64]


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


def worth_attached(paths: Sequence[Path], measured: Measured, logit: float) -> tuple[Path, ...]:
    """Return the paths with what they are worth; `logit` is f(G)."""
    used = measured.evidence.verdict != "structure_not_used"
    return tuple(
        replace(
            path,
            edges=tuple(
                replace(edge, influence=effect)
                for edge, effect in zip(path.edges, each.facts, strict=True)
            ),
            influence=each.influence,
            marginal=each.marginal,
            added=each.added,
            connection=each.connection,
            is_evidence=used and each.marginal > unnoticed(logit),
        )
        for path, each in zip(paths, measured.paths, strict=True)
    )


def without_paths(
    graph: TypedGraph, facts: FactIndex, batch: ComputationGraphs, edges: Bools, max_length: int
) -> Bools:
    """G0: the edges without every fact that lies on a path of at most `max_length` facts."""
    # Up to three facts a walk is a simple path. Beyond that some walks are not; the few facts on
    # nothing but such walks are taken out, too.
    walks = build_path_graphs(graph, batch, graph.representative[batch.edges], max_length)
    left = edges.copy()
    left[facts.of_slots(batch, walks.arc_slot).values] = False
    return left


class Appraiser:
    """Measures the chosen sets of paths of a batch.

    Args:
        graph: the flat graph.
        facts: its facts.
        batch: the computation graphs.
        paths: where the candidates are from.
        candidates: the candidates.
        selection: the chosen sets.
        whole: G, the edges of the batch that the model sees.
        bare: G0.
    """

    def __init__(
        self,
        graph: TypedGraph,
        facts: FactIndex,
        batch: ComputationGraphs,
        paths: PathGraphs,
        candidates: Candidates,
        selection: Selection,
        whole: Bools,
        bare: Bools,
    ) -> None:
        self._graph, self._facts, self._batch, self._paths = graph, facts, batch, paths
        self._candidates, self._selection = candidates, selection
        self._whole, self._bare = whole, bare

    def measure(
        self,
        influence: Influence,
        links: Longs,
        logits: Doubles,
        logits_bare: Doubles,
        settings: Settings,
        seed: int,
    ) -> dict[int, Measured]:
        """Return the evidence of some links.

        Args:
            influence: asks the model.
            links: the links, each with a chosen set.
            logits: f(G) of all links.
            logits_bare: f(G0) of all links.
            settings: how many control pairs.
            seed: where they are drawn from.
        """
        members = self._selection.members
        link, place = np.nonzero(members[links] >= 0)
        link = links[link]
        others = members[link].copy()
        others[np.arange(len(link)), place] = -1
        sets = self._candidates.removal(links, members[links])
        rest = self._candidates.removal(link, others)

        chosen = members[link, place]
        arcs = self._candidates.arcs[chosen]
        fact_link = np.repeat(link, (arcs >= 0).sum(1))
        fact_slots = self._facts.of_slots(self._batch, self._paths.arc_slot[arcs[arcs >= 0]])
        facts = Edits(fact_link, fact_slots.ptr, fact_slots.values)
        controls, control_of = draw_controls(
            self._graph, self._facts, self._batch, self._whole, self._bare, link,
            [self._paths.arc_slot[each[each >= 0]] for each in arcs], settings.controls, seed,
        )  # fmt: skip

        parts = [sets, rest, facts, controls]
        answers = influence.logits(self._whole, _joined(parts))
        cuts = np.cumsum([part.num_copies for part in parts])
        gone, gone_rest, gone_fact, gone_control = np.split(answers, cuts[:-1])
        inserted = self._selection.inserted[link]
        single = self._candidates.removal(link[inserted], chosen[inserted, None])
        added, added_rest, added_single = np.split(
            influence.logits(self._bare, _joined([sets, rest, single])),
            [len(links), len(links) + len(link)],
        )
        nothing = np.zeros_like(self._whole)
        alone = influence.logits(nothing, _joined([Edits.none(links), sets]))

        at = np.searchsorted(links, link)
        adds = np.full(len(link), np.nan)
        adds[inserted] = added_single - logits_bare[link[inserted]]
        marginal = np.where(inserted, added[at] - added_rest, gone_rest - gone[at])
        effect = self._selection.alone[chosen]
        fact_effect = logits[fact_link] - gone_fact
        control_effect = logits[controls.link] - gone_control
        fact_ptr = np.concatenate([[0], np.cumsum((arcs >= 0).sum(1))])
        worth = [
            PathWorth(
                float(effect[i]), float(marginal[i]), float(adds[i]) if inserted[i] else None,
                _connection(effect[i], control_effect[control_of == i]),
                tuple(fact_effect[fact_ptr[i] : fact_ptr[i + 1]].tolist()),
            )
            for i in range(len(link))
        ]  # fmt: skip
        result = {}
        for i, number in enumerate(links.tolist()):
            result[number] = Measured(
                self._evidence(
                    number, float(logits[number]), float(logits_bare[number]), float(gone[i]),
                    float(added[i]), float(alone[i]), float(alone[len(links) + i]),
                ),
                tuple(worth[j] for j in np.flatnonzero(link == number)),
            )  # fmt: skip
        return result

    def _evidence(
        self, link: int, f: float, bare: float, gone: float, added: float, empty: float, only: float
    ) -> Evidence:
        chosen = self._selection
        influence, best = float(chosen.influence[link]), float(chosen.best[link])
        return Evidence(
            verdict=_verdict(f, bare, influence, float(chosen.largest[link])),
            influence=influence,
            inserted=bool(chosen.inserted[link]),
            logit_without_these=gone,
            logit_without_paths=bare,
            logit_without_edges=empty,
            logit_only_these=only,
            sufficiency=(added - bare) / (f - bare) if f > bare else None,
            rho_reached=influence / best if best > 0 else None,
            num_sets=int(chosen.num_sets[link]),
        )


def _verdict(f: float, bare: float, influence: float, largest: float) -> Verdict:
    if max(abs(f - bare), largest, abs(influence)) <= unnoticed(f):
        return "structure_not_used"
    if bare >= f:
        return "structure_against"
    return "supported" if influence > 0 else "structure_not_used"


def _connection(effect: float, controls: Doubles) -> float | None:
    return float(effect - controls.mean()) if len(controls) else None


def _joined(parts: list[Edits]) -> Edits:
    ptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.ptr) for part in parts]))])
    return Edits(
        np.concatenate([part.link for part in parts]), ptr,
        np.concatenate([part.slots for part in parts]),
    )  # fmt: skip
