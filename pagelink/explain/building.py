"""From arrays of a batch to Explanations, one per link, and from arcs to paths with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from pagelink.explain.direct_facts import DirectFacts
from pagelink.explain.edge_mask import EdgeMask
from pagelink.explain.notes import negative_message, true_of, unseen_relations
from pagelink.explain.result import (
    Alternative,
    Explanation,
    NamedFact,
    Path,
    PathEdge,
    Reason,
    StrongestFacts,
)
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.candidates import Candidates
from pagelink.measure.evidence import Measured, logit_without_edges
from pagelink.measure.verdict import Evidence, Part
from pagelink.runtime.arrays import Bools
from pagelink.runtime.timer import OutOfTimeError, Timer
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.paths import FoundPaths, PathGraphs, allowed_facts, build_path_graphs
from pagelink.search.work import EXTRACTING, SEARCHING, Setup, Work

_OF_A_PATH = (
    "influence", "influence_error", "gain", "marginal", "share", "connection", "is_evidence",
    "bundle",
)  # fmt: skip


def named_paths(
    graph: TypedGraph,
    batch: ComputationGraphs,
    paths: PathGraphs,
    edge_logits: npt.NDArray[np.float32],
    found: FoundPaths,
    row: int,
) -> tuple[Path, ...]:
    """Return the paths of one link, best first.

    Args:
        graph: the flat graph.
        batch: the computation graphs.
        paths: where the paths were found.
        edge_logits: M, one value per edge of the batch.
        found: the result of the search.
        row: the link's row in it.
    """
    lengths = found.lengths[row][found.lengths[row] > 0]
    if len(lengths) == 0:
        return ()
    arcs = found.arcs[row][: len(lengths)]
    walked = arcs[arcs >= 0]
    # The paths of a link share most of their facts: each is made once.
    distinct, place = np.unique(walked, return_inverse=True)
    slots = paths.arc_slot[distinct]
    logits = edge_logits[slots].astype(np.float64)
    cost = np.logaddexp(0, -logits) + paths.arc_log_degree[distinct]
    starts = np.cumsum(lengths) - lengths
    scores = -np.add.reduceat(cost[place], starts)

    flat_edges, backwards = batch.edges[slots], paths.arc_reversed[distinct]
    ends = np.stack([graph.src[flat_edges], graph.dst[flat_edges]])
    tails, heads = np.where(backwards, ends[::-1], ends)
    masks = 1 / (1 + np.exp(-logits))
    edges = [
        _path_edge(graph, *values)
        for values in zip(flat_edges.tolist(), backwards.tolist(), masks.tolist(), strict=True)
    ]
    flat = np.unique(ends)
    nodes = {
        node: (graph.node(node), graph.node_name(node), degree)
        for node, degree in zip(flat.tolist(), graph.degree[flat].tolist(), strict=True)
    }
    tail_list, head_list, places = tails.tolist(), heads.tolist(), place.tolist()
    result = []
    for start, length, score in zip(
        starts.tolist(), lengths.tolist(), scores.tolist(), strict=True
    ):
        steps = places[start : start + length]
        seen = [nodes[tail_list[steps[0]]], *(nodes[head_list[step]] for step in steps)]
        named, names, degrees = zip(*seen, strict=True)
        result.append(
            Path(named, tuple(edges[step] for step in steps), names, degrees, score=score)
        )
    return tuple(result)


def _path_edge(graph: TypedGraph, edge: int, backwards: bool, mask: float) -> PathEdge:
    shown = shown_edge(graph, edge)
    shown["label_backwards"] = backwards != shown["label_backwards"]
    shown["phrase"] = graph.phrase(shown["type"], backwards)
    return PathEdge(reversed=backwards, mask=mask, **shown)


def named_fact(graph: TypedGraph, edge: int, mask: float, influence: float) -> NamedFact:
    """Return a stored edge as a fact with names."""
    ends = int(graph.src[edge]), int(graph.dst[edge])
    one, other = (graph.node(end) for end in ends)
    shown = PathEdge(reversed=False, mask=mask, influence=influence, **shown_edge(graph, edge))
    return NamedFact((one, other), (graph.node_name(ends[0]), graph.node_name(ends[1])), shown)


def shown_edge(graph: TypedGraph, edge: int) -> dict[str, Any]:
    """Return the fields by which results show a stored edge, as it is stored."""
    edge_type = graph.edge_types[graph.relation[edge]]
    label, label_backwards = graph.relation_words(edge_type)
    return {
        "type": edge_type,
        "index": int(graph.column[edge]),
        "label": label,
        "label_backwards": label_backwards,
        "attributes": graph.edge_attributes(edge),
    }


def worth_attached(paths: Sequence[Path], measured: Measured) -> tuple[Path, ...]:
    """Return the paths with what they are worth."""
    return tuple(
        replace(
            path,
            edges=tuple(
                replace(edge, influence=effect, active=active)
                for edge, effect, active in zip(path.edges, each.facts, each.active, strict=True)
            ),
            **{name: getattr(each, name) for name in _OF_A_PATH},
        )
        for path, each in zip(paths, measured.paths, strict=True)
    )


def cut_short(answer: Explanation, timer: Timer) -> Explanation:
    """Return an explanation that says what the deadline has cut, beside what it says already."""
    if answer.reason == "out_of_time":
        return answer
    learned = f" (after {answer.epochs} steps of learning)" if answer.epochs else ""
    found = "these are the best paths found" if answer.paths else "no path was found"
    late = f"The deadline of {timer.deadline:g} seconds was over while {timer.cut}{learned}"
    message = f"{answer.message} {late}; {found} by then.".strip()
    return replace(answer, reason="out_of_time", message=message)


@cache
def versions() -> dict[str, str]:
    """Versions of what takes part in a result."""
    packages = ("pagelink", "torch", "torch_geometric", "numpy", "numba")
    return {package: metadata.version(package) for package in packages}


class ResultBuilder:
    """Makes Explanations.

    Args:
        setup: the model, the settings, and what follows from them.
        seed: of the explainer.
        warnings: what every explanation notes.
    """

    def __init__(self, setup: Setup, seed: int, warnings: Sequence[str] = ()) -> None:
        self._setup, self._seed, self._warnings = setup, seed, warnings
        self._receptive_field = setup.receptive_field
        self._graph, self._settings = setup.graph, setup.settings
        self._direct = DirectFacts(setup)
        stored = self._graph.edge_types[: self._graph.num_relations]
        self._mask_sizes = dict(zip(stored, self._graph.mask_sizes, strict=False))

    def failed(self, link: Link, error: Exception) -> Explanation:
        """The explanation of a link that is malformed, or on which the work failed."""
        if isinstance(error, OutOfTimeError):
            timer = Timer(self._settings.deadline)
            timer.stop(EXTRACTING)
            return cut_short(self._explanation(link), timer)
        failure = f"Explaining this link failed: {type(error).__name__}: {error}"
        return self._explanation(
            link, reason="invalid", message=failure if link.message is None else link.message
        )

    def build(
        self,
        work: Work,
        masks: LearnedMasks,
        found: FoundPaths,
        measured: Mapping[int, Measured] | None = None,
        candidates: Candidates | None = None,
        without_paths: Mapping[int, tuple[Part, ...]] | None = None,
    ) -> list[Explanation]:
        """Return an explanation per link of the batch.

        Args:
            work: the links.
            masks: their masks.
            found: the paths of the links to explain.
            measured: what they are worth. None: not measured.
            candidates: what sets as good as the chosen ones are made of.
            without_paths: on what the scores of links rest that no path joins.
        """
        row = {int(link): i for i, link in enumerate(work.links)}
        explanations = []
        for i, link in enumerate(work.requested):
            logit, deployed = float(work.logits[i]), float(work.deployed[i])
            if i in row:
                values = self._explained(work, masks, found, i, row[i])
                late = bool(work.timer.cut)
                if measured is not None:
                    values["paths"] = worth_attached(values["paths"], measured[i])
                    values |= self._measured(work, masks, measured[i], candidates)
            else:
                values, late = self._unexplained(work, i)
                values["what_else"] = (without_paths or {}).get(i, ())
            if np.isfinite(logit) and np.isfinite(deployed):
                values |= {"logit": logit, "logit_deployed": deployed}
            elif np.isfinite(logit) and work.timer.cut:
                values["logit"] = logit
            direct = self._direct.relations(link)
            first = (self._direct.note(link, direct),) if direct else ()
            values["direct_relations"] = direct
            notes = first + self._notes(bool(work.unpruned[i]), i in row)
            values["notes"] = true_of(notes, logit, values.get("evidence"), self._setup.noise)
            values["link_in_graph"] = link.fact >= 0
            answer = self._explanation(link, **values)
            explanations.append(cut_short(answer, work.timer) if late else answer)
        return explanations

    def _explained(
        self, work: Work, masks: LearnedMasks, found: FoundPaths, link: int, row: int
    ) -> dict[str, Any]:
        """The paths and the mask of a link."""
        paths = named_paths(self._graph, work.batch, work.paths, masks.edge_logits, found, row)
        mask = self._edge_mask(work.batch, masks, link)
        return {"paths": paths, "edge_mask": mask, "epochs": int(masks.epochs[link])}

    def _measured(
        self, work: Work, masks: LearnedMasks, measured: Measured, candidates: Candidates | None
    ) -> dict[str, Any]:
        """What was measured of a link beside its paths."""
        evidence, strongest = measured.evidence, measured.strongest
        values: dict[str, Any] = {"evidence": evidence, "what_else": measured.what_else}
        if candidates is not None:
            values["alternatives"] = tuple(
                Alternative(
                    worth,
                    named_paths(
                        self._graph, work.batch, work.paths, masks.edge_logits,
                        candidates.found(members[None]), 0,
                    ),
                )
                for worth, members in measured.alternatives
            )  # fmt: skip
        if strongest is not None and evidence is not None:
            share = None
            if strongest.effect > self._setup.noise:
                these = float(work.logits[strongest.link]) - evidence.logit_without_these
                share = these / strongest.effect
            logits = masks.edge_logits[strongest.slots].astype(np.float64)
            facts = zip(
                work.batch.edges[strongest.slots].tolist(), (1 / (1 + np.exp(-logits))).tolist(),
                strongest.alone.tolist(), strict=True,
            )  # fmt: skip
            named = tuple(named_fact(self._graph, *fact) for fact in facts)
            values["strongest"] = StrongestFacts(named, strongest.effect, share)
        return values

    def _unexplained(self, work: Work, link: int) -> tuple[dict[str, Any], bool]:
        """What is said of a link without paths, and whether the deadline cut it."""
        reason, message = self._why_not(work, link)
        seen, logit = self._receptive_field, float(work.logits[link])
        if reason in ("not_connected", "beyond_max_length") and (
            seen.sees_nothing or not seen.uses_edges
        ):
            bare = logit_without_edges(work, link)
            if abs(logit - bare) <= self._setup.noise:
                # Whether source and target are joined is nothing to such a model.
                evidence = Evidence(
                    verdict="structure_not_used", influence=0.0, inserted=False, gain=0.0,
                    worth=None, rho_reached=None, logit_without_these=logit,
                    logit_without_paths=logit, logit_without_edges=bare, logit_only_these=bare,
                    sufficiency=None, num_sets=0, max_length=self._settings.max_length,
                )  # fmt: skip
                return {"evidence": evidence}, False
        return {"reason": reason, "message": message}, reason is None

    def _why_not(self, work: Work, link: int) -> tuple[Reason | None, str]:
        """Why a link has no explanation; None: the time was over before that was known."""
        logit, threshold = work.logits[link], self._setup.threshold
        if not np.isfinite(logit):
            return "invalid", f"The model returns {logit} for this link, not a number."
        if threshold is not None and logit < threshold:
            return "predicted_negative", negative_message(logit, work.deployed[link], threshold)
        if work.timer.cut == SEARCHING:
            return None, ""
        try:
            return self._why_no_path(work.batch, link, work.timer.last)
        except OutOfTimeError:
            work.timer.stop(SEARCHING)
            return None, ""

    def _explanation(self, link: Link, **values: Any) -> Explanation:
        nodes, names = [(link.type[0], -1), (link.type[2], -1)], list(link.given)
        if link.message is None:
            nodes = [self._graph.node(end) for end in (link.src, link.dst)]
            names = [self._graph.node_name(end) for end in (link.src, link.dst)]
        defaults: dict[str, Any] = {
            "logit": None, "logit_deployed": None, "paths": (), "reason": None, "message": "",
            "notes": (), "edge_mask": EdgeMask(self._mask_sizes, {}), "epochs": 0, "seconds": 0.0,
        }  # fmt: skip
        return Explanation(
            link_type=link.type, src=nodes[0], dst=nodes[1], src_name=names[0], dst_name=names[1],
            num_hops=self._setup.batches.num_hops, settings=self._settings, seed=self._seed,
            threshold=self._setup.threshold, noise=self._setup.noise, versions=versions(),
            node_types=tuple(sorted({end for t in self._mask_sizes for end in (t[0], t[2])})),
            link_phrase=self._graph.phrase(link.type), trained=not self._setup.passes_messages,
            **{**defaults, **values},
        )  # fmt: skip

    def _notes(self, undone: bool, answered: bool) -> tuple[str, ...]:
        notes = [*self._warnings]
        if undone and answered:
            notes.append(
                "Pruning would have cut the source from the target, so the unpruned graph was used."
            )
        if self._receptive_field.note:
            notes.append(self._receptive_field.note)
        return (*notes, *unseen_relations(self._graph, self._receptive_field))

    def _edge_mask(self, batch: ComputationGraphs, masks: LearnedMasks, link: int) -> EdgeMask:
        graph = self._graph
        here = slice(batch.edge_ptr[link], batch.edge_ptr[link + 1])
        kept = np.isfinite(masks.edge_logits[here])
        edges = batch.edges[here][kept]
        return EdgeMask.of_edges(
            self._mask_sizes, graph.relation[edges], graph.column[edges],
            masks.edge_logits[here][kept],
        )  # fmt: skip

    def _why_no_path(
        self, batch: ComputationGraphs, link: int, until: float | None
    ) -> tuple[Reason, str]:
        """Lift the bounds one after the other, and name the one that stood in the way.

        Raises:
            OutOfTimeError: that was not found by `until`.
        """
        graph, settings = self._graph, self._settings
        alone = batch.only(link)
        visible = allowed_facts(graph, alone, None)
        anywhere = len(alone.nodes)

        def connected(allowed: Bools, length: int, degree: int | None) -> bool:
            found = build_path_graphs(graph, alone, allowed, length, degree, until=until)
            return bool(found.has_path()[0])

        if not connected(visible, anywhere, None):
            if connected(graph.representative[alone.edges], anywhere, None):
                return "not_connected", (
                    "Source and target are joined only by facts that the model cannot see."
                )
            return "not_connected", (
                "No path of facts within the model's reach joins source and target."
            )
        if not connected(visible, settings.max_length, None):
            return "beyond_max_length", (
                f"Source and target are joined, but by no path of at most {settings.max_length} "
                "facts (max_length)."
            )
        if not connected(visible, settings.max_length, settings.max_degree):
            return "excluded", (
                f"Every path of at most {settings.max_length} facts runs through a node with more "
                f"than {settings.max_degree} facts (max_degree)."
            )
        constraints = self._setup.constraints
        paths = self._setup.path_graphs(alone, None, until) if constraints.words else None
        if paths is not None and not paths.has_path(until)[0]:
            return "excluded", (
                "The given constraints leave no path: " + "; ".join(constraints.words) + "."
            )
        return "pruned_away", (
            f"Pruning (core={settings.core}, hub_degree={settings.hub_degree}) removed every path. "
            "Set unpruned_fallback=True to use the unpruned graph."
        )
