"""What users should know of a model on a graph, in sentences that explanations carry."""

from __future__ import annotations

from collections.abc import Sequence

from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.verdict import Evidence
from pagelink.model.predictor import LinkPredictor
from pagelink.model.receptive_field import ReceptiveField

NAMED = 8
"""Relations that a note names, at most."""
UNUSED = (
    "The model does not use the graph: of the links it was tried on, none had another score "
    "without any edge."
)


def warnings_about(
    predictor: LinkPredictor, seen: ReceptiveField, link_types: Sequence[EdgeType]
) -> list[str]:
    """Return what users should know of a model on a graph; every explanation carries it."""
    unused = (
        "The model does not use the graph: its score rests on no edge of it."
        if seen.sees_nothing
        else UNUSED
    )
    flat = (
        "The model's score has no gradient by its messages (detach, no_grad, a step function), so "
        "no mask was learned; paths were proposed by their degrees and judged by removing them."
    )
    same = (
        "The score is the same for all link types that were given: if it should depend on them, "
        "let forward use data.edge_label_type."
    )
    probabilities = (
        "All scores that were seen lie between 0 and 1 and are taken to be logits: if the "
        "model returns probabilities, say so by output='probability'."
    )
    odd = seen.in_unit_range and predictor.output == "logit"
    general = [unused] * (not seen.uses_edges) + [probabilities] * odd
    general += [flat] * (seen.uses_edges and not predictor.has_gradient)
    general += [same] * seen.ignores_type
    return general + [
        f"The relation {other[1]} mirrors most links of {link_type[1]}: if it is the reverse, "
        "say so by reverse={...}, or paths may merely restate the link."
        for link_type, near in predictor.graph.near_reverses(link_types).items()
        for other in near
    ]


def true_of(
    notes: Sequence[str], logit: float | None, evidence: Evidence | None, noise: float
) -> tuple[str, ...]:
    """Return the notes that what was measured of a link does not contradict."""
    if logit is None or evidence is None or abs(logit - evidence.logit_without_edges) <= noise:
        return tuple(notes)
    return tuple(note for note in notes if note != UNUSED)


def unseen_relations(graph: TypedGraph, seen: ReceptiveField) -> list[str]:
    """Return a note on the relations that the score does not rest on, if there are any."""
    used = {t for t, is_used in zip(graph.edge_types, seen.seen_relations, strict=True) if is_used}
    unseen = [
        edge_type[1]
        for edge_type, count in zip(graph.edge_types, graph.edge_counts, strict=True)
        # A fact counts if the model sees one of its two directions.
        if count and edge_type not in used and graph.reverse.get(edge_type) not in used
    ]
    if not unseen or seen.sees_nothing:
        return []
    more = f" and {len(unseen) - NAMED} more" if len(unseen) > NAMED else ""
    return [
        f"The score rests on no message along {', '.join(unseen[:NAMED])}{more}; paths through "
        f"{'it' if len(unseen) == 1 else 'them'} are left out."
    ]


def negative_message(logit: float, deployed: float, threshold: float) -> str:
    """Say that a model does not predict a link."""
    message = f"The model does not predict this link: its score is {logit:.4g}"
    if threshold:
        message += f", below the threshold of {threshold:.4g}"
    if deployed >= threshold:
        message += f". (With the link itself in the graph the score is {deployed:.4g})"
    return message + "."
