"""Relation ablation: paths along a relation that is hidden from the model must not be returned."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from pagelink.checks.subject import Finding, Subject, logits_without
from pagelink.errors import PageLinkError
from pagelink.explanation import Explanation
from pagelink.graph import Bools, EdgeType, TypedGraph

LINKS = 20
"""Links explained for each relation."""


class Hidden(nn.Module):
    """A model from which the edges of some relations are hidden; they stay in the graph.

    Args:
        model: called as `model(x_dict, edge_index_dict, edge_label_index)`.
        relations: what it does not see.
    """

    def __init__(self, model: nn.Module, relations: Collection[EdgeType]) -> None:
        super().__init__()
        self.model = model
        self.relations = frozenset(relations)

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        """Return the logits of the links on the graph without these relations."""
        seen = {
            t: edge_index[:, :0] if t in self.relations else edge_index
            for t, edge_index in edge_index_dict.items()
        }
        logits: Tensor = self.model(x_dict, seen, edge_label_index)
        return logits


def relation_pairs(graph: TypedGraph) -> list[tuple[EdgeType, ...]]:
    """The relations that have edges, each with its reverse."""
    stored = [t for t, n in zip(graph.edge_types, graph.edge_counts, strict=True) if n]
    pairs: list[tuple[EdgeType, ...]] = []
    for edge_type in stored:
        if not any(edge_type in pair for pair in pairs):
            turned = graph.reverse.get(edge_type, edge_type)
            pairs.append((edge_type,) if turned == edge_type else (edge_type, turned))
    return pairs


def check_relations(subject: Subject, explanations: Sequence[Explanation]) -> Finding:
    """Hide each relation from the model, and look at the influence of its facts and at the paths.

    Args:
        subject: the model and its links.
        explanations: of the model as it is.
    """
    explainer = subject.explainer()
    whole = logits_without(explainer, subject.links)
    rows: list[dict[str, Any]] = []
    for pair in relation_pairs(explainer.graph):
        row: dict[str, Any] = {
            "relation": " / ".join(t[1] for t in pair),
            "edge_types": [list(t) for t in pair],
        }
        row["paths_before"] = sum(_using(answer, pair) for answer in explanations)
        gone = _edges_of(explainer.graph, pair)
        try:
            row["change"] = float(
                np.abs(whole - logits_without(explainer, subject.links, gone)).mean()
            )
            row |= _hide(subject, pair)
        except PageLinkError as error:
            row["not_checked"] = str(error)
        rows.append(row)
    return _finding(rows, sum(len(answer.paths) for answer in explanations))


def _hide(subject: Subject, pair: tuple[EdgeType, ...]) -> dict[str, Any]:
    blind = subject.explainer(Hidden(subject.model, pair))
    gone = _edges_of(blind.graph, pair)
    asked = subject.links[:LINKS]
    influence = logits_without(blind, asked) - logits_without(blind, asked, gone)
    answers = list(blind.explain_many(asked))
    using = [link for link, answer in zip(asked, answers, strict=True) if _using(answer, pair)]
    avoidable = 0
    if using:
        other = subject.explainer(
            Hidden(subject.model, pair), exclude_relations=["__".join(pair[0])]
        )
        avoidable = sum(bool(answer.paths) for answer in other.explain_many(using))
    return {
        "influence": float(np.abs(influence).max(initial=0.0)),
        "paths_hidden": sum(_using(answer, pair) for answer in answers),
        "avoidable": avoidable,
    }


def _edges_of(graph: TypedGraph, relations: Collection[EdgeType]) -> Bools:
    found: Bools = np.isin(graph.relation, [graph.edge_types.index(t) for t in relations])
    return found


def _using(explanation: Explanation, relations: tuple[EdgeType, ...]) -> int:
    return sum(any(e.type in relations for e in path.edges) for path in explanation.paths)


def _finding(rows: list[dict[str, Any]], num_paths: int) -> Finding:
    checked = [row for row in rows if "not_checked" not in row]
    bad = [row["relation"] for row in checked if row["influence"] != 0 or row["avoidable"]]
    details = []
    for row in rows:
        line = f"{row['relation']}: on {row['paths_before']} of {num_paths} paths"
        if "change" in row:
            line += f"; without it the score changes by {row['change']:.3g} on average"
        if "not_checked" in row:
            line += f"; not checked: {row['not_checked']}"
        else:
            line += (
                f"; once it is hidden, its influence is {row['influence']:.3g} "
                f"and it is on {row['paths_hidden']} paths"
            )
        details.append(line + ".")
    figures = {"relations": rows, "num_paths": num_paths}
    if not checked:
        verdict = "No relation could be hidden: the model does not run without any of them."
        return Finding("relations", "not checked", verdict, tuple(details), figures)
    if bad:
        verdict = (
            f"Paths still run along relations that are hidden from the model ({', '.join(bad)}), "
            "or these still move its score: do not trust paths along them."
        )
        return Finding("relations", "warning", verdict, tuple(details), figures)
    unused = [r["relation"] for r in checked if r["paths_before"] and r["change"] == 0]
    verdict = (
        "A relation that is hidden from the model has no influence, and no path runs along it "
        f"({len(checked)} of {len(rows)} relations checked)."
    )
    if unused:
        verdict += f" The model's score does not depend on {', '.join(unused)} at all."
    return Finding("relations", "fine", verdict, tuple(details), figures)
