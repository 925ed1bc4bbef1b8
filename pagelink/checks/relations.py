"""Checks of relations: leaks, and relations hidden from the model.

A leak is a relation or a path that merely restates the link which it is to explain. Paths along a
relation that is hidden from the model must not be returned.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from pagelink.checks.checked_model import (
    CheckedModel,
    Finding,
    Mark,
    flat_links,
    logits_without,
    percent,
)
from pagelink.errors import PageLinkError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import edges_between, edges_of_relations, states_facts
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Doubles, Longs

Kind = Literal["restates the link", "near-label", "excludes the link", "parallel"]
SAME = 0.9
"""A relation restates another one if it holds this share of its pairs, or the other way round."""
LIFT = 3.0
"""A near-label holds this many times the links that its degrees would let expect. A relation that
holds that many times fewer excludes the link, as the other values of one label do (`palliates` and
`treats`)."""
FEW = 5
"""Shared pairs at least, or the lift says little."""
RARE = 0.01
"""A relation excludes the link if so few shared pairs have no more than this chance."""
LINKS_PER_RELATION = 20
"""Links explained for each relation that is hidden."""


@dataclass(frozen=True)
class Leak:
    """A relation between the node types of the link."""

    edge_type: EdgeType
    kind: Kind
    """`parallel`: no more than a relation between the same node types; its facts are paths of a
    single fact."""
    num_shared: int
    """Pairs that are links, too."""
    of_relation: float
    """Their share of the relation's pairs."""
    of_links: float
    """Their share of the known links."""
    lift: float
    """Shared pairs over those to expect if sources and targets with as many facts each were paired
    at random."""

    def __str__(self) -> str:
        return (
            f"{self.edge_type[1]}: {self.kind}; {percent(self.of_relation)} of its pairs are known "
            f"links, {percent(self.of_links)} of the links are its pairs, {self.lift:.1f} times "
            "what degrees alone give."
        )


def find_leaks(graph: TypedGraph, link_type: EdgeType, known: Tensor) -> list[Leak]:
    """Look at all relations between the node types of a link, the worst first.

    Args:
        graph: the graph; the predicted relation and its reverse are left out.
        link_type: the predicted relation.
        known: all known links, [2, num_links].
    """
    ends = flat_links(graph, link_type, [(int(s), int(t)) for s, t in known.t().tolist()])
    within = link_type[0] == link_type[2]
    links = np.unique(_ordered(ends, within), axis=0)
    codes = links[:, 0] * graph.num_nodes + links[:, 1]
    out, into = (np.bincount(links[:, i], minlength=graph.num_nodes) for i in (0, 1))
    if within:
        out = into = out + into
    own = {link_type, graph.reverse.get(link_type)}
    leaks = []
    for number, edge_type in enumerate(graph.edge_types):
        forth = (edge_type[0], edge_type[2]) == (link_type[0], link_type[2])
        back = (edge_type[0], edge_type[2]) == (link_type[2], link_type[0])
        first = graph.relation_class[number] == number
        if edge_type in own or not (forth or back) or not first:
            continue
        mine = graph.relation == number
        pairs = np.stack([graph.src[mine], graph.dst[mine]], axis=1).astype(np.int64)
        pairs = np.unique(_ordered(pairs if forth else pairs[:, ::-1], within), axis=0)
        if not len(pairs) or not len(links):
            continue
        shared = int(np.isin(pairs[:, 0] * graph.num_nodes + pairs[:, 1], codes).sum())
        expected = float((out[pairs[:, 0]] * into[pairs[:, 1]]).sum())
        expected /= (2 if within else 1) * len(links)
        of_relation, of_links = shared / len(pairs), shared / len(links)
        lift = shared / expected if expected else 0.0
        kind: Kind = "parallel"
        if max(of_relation, of_links) >= SAME:
            kind = "restates the link"
        elif shared >= FEW and lift >= LIFT:
            kind = "near-label"
        elif lift <= 1 / LIFT and _chance_of_so_few(shared, expected) <= RARE:
            kind = "excludes the link"
        leaks.append(Leak(edge_type, kind, shared, of_relation, of_links, lift))
    return sorted(leaks, key=lambda leak: -max(leak.of_relation, leak.of_links))


def direct_facts(graph: TypedGraph, src: int, dst: int, link_fact: int) -> Bools:
    """The stored edges between two flat nodes, all copies and both ways, but the link itself."""
    between = np.zeros(graph.num_edges, dtype=np.bool_)
    edges = edges_between(graph, src, dst)
    between[edges[graph.fact[edges] != link_fact]] = True
    return between


def check_leaks(
    checked: CheckedModel, explanations: Sequence[Explanation], known: Tensor
) -> Finding:
    """Flag relations and one-fact paths that restate the link, with the score without them.

    Args:
        checked: the model and its links.
        explanations: of these links.
        known: all known links of the predicted relation.
    """
    explainer = checked.explainer()
    graph = explainer.graph
    leaks = find_leaks(graph, checked.link_type, known)
    flagged = [leak for leak in leaks if leak.kind != "parallel"]
    one_fact = [a for a in explanations if any(len(path) == 1 for path in a.paths)]
    first = [a for a in explanations if a.paths and len(a.paths[0]) == 1]
    with_facts, before, after = _scores(explainer, checked)
    details = [str(leak) for leak in leaks]
    total = len(explanations)
    details.append(
        f"{len(one_fact)} of {total} explanations hold a path of a single fact, {len(first)} have "
        "it on top."
    )
    if len(with_facts):
        details.append(
            f"{len(with_facts)} links have other facts directly between their ends; without these "
            f"the mean score goes from {before.mean():.3g} to {after.mean():.3g}, and "
            f"{int(((before >= 0) & (after < 0)).sum())} of them are no longer predicted."
        )
    figures = {
        "relations": [asdict(leak) for leak in leaks],
        "links": total,
        "explanations_with_one_fact_path": len(one_fact),
        "one_fact_path_on_top": len(first),
        "links_with_direct_facts": [list(checked.links[i]) for i in with_facts],
        "logits": before.tolist(),
        "logits_without_direct_facts": after.tolist(),
    }
    mark: Mark = "warning" if flagged or first else "fine"
    verdict = "No relation restates the link, and no explanation begins with a single fact."
    if flagged:
        verdict = _words(flagged)
    elif first:
        verdict = (
            f"{percent(len(first) / total)} of the explanations begin with a single fact between "
            "source and target: see whether it says more than the link itself."
        )
    return Finding("leaks", mark, verdict, tuple(details), figures)


def _words(flagged: Sequence[Leak]) -> str:
    stating = [leak.edge_type[1] for leak in flagged if leak.kind != "excludes the link"]
    excluding = [leak.edge_type[1] for leak in flagged if leak.kind == "excludes the link"]
    words = []
    if stating:
        words.append(
            f"The graph nearly states the answer by {', '.join(stating)}. Leave it out of the "
            "graph and train anew, or keep paths off it by exclude_relations."
        )
    if excluding:
        words.append(
            f"Pairs of {', '.join(excluding)} are hardly ever links, as if it were another value "
            "of the same label: a path of such a single fact restates what is known of the pair."
        )
    return " ".join(words)


def _scores(explainer: PaGELink, checked: CheckedModel) -> tuple[Longs, Doubles, Doubles]:
    """Links with direct facts, and their logits with and without them; the link is taken out."""
    graph = explainer.graph
    ends = flat_links(graph, checked.link_type, checked.links)
    found, before, after = [], [], []
    for i, (src, dst) in enumerate(ends.tolist()):
        fact = graph.link_fact(src, dst, checked.link_type)
        facts = direct_facts(graph, src, dst, fact)
        if facts.any():
            itself = states_facts(graph, [fact])
            found.append(i)
            before.append(logits_without(explainer, [checked.links[i]], itself)[0])
            after.append(logits_without(explainer, [checked.links[i]], itself | facts)[0])
    return np.array(found, dtype=np.int64), np.array(before), np.array(after)


def _chance_of_so_few(count: int, expected: float) -> float:
    """The chance of at most `count` events of a Poisson law.

    Example:
        >>> round(_chance_of_so_few(1, 2.0), 3)  # e^-2 + 2 e^-2
        0.406
    """
    return math.fsum(
        math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) if expected else k == 0
        for k in range(count + 1)
    )


def _ordered(pairs: Longs, within: bool) -> Longs:
    """Within one node type (u, v) and (v, u) are the same pair."""
    return np.sort(pairs, axis=1) if within else pairs


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


def check_relations(checked: CheckedModel, explanations: Sequence[Explanation]) -> Finding:
    """Hide each relation from the model, and look at the influence of its facts and at the paths.

    Args:
        checked: the model and its links.
        explanations: of the model as it is.
    """
    explainer = checked.explainer()
    whole = logits_without(explainer, checked.links)
    rows: list[dict[str, Any]] = []
    for pair in relation_pairs(explainer.graph):
        row: dict[str, Any] = {
            "relation": " / ".join(t[1] for t in pair),
            "edge_types": [list(t) for t in pair],
        }
        row["paths_before"] = sum(_using(answer, pair) for answer in explanations)
        gone = edges_of_relations(explainer.graph, pair)
        try:
            row["change"] = float(
                np.abs(whole - logits_without(explainer, checked.links, gone)).mean()
            )
            row |= _hide(checked, pair)
        except PageLinkError as error:
            row["not_checked"] = str(error)
        rows.append(row)
    return _finding(rows, sum(len(answer.paths) for answer in explanations))


def _hide(checked: CheckedModel, pair: tuple[EdgeType, ...]) -> dict[str, Any]:
    blind = checked.explainer(Hidden(checked.model, pair))
    gone = edges_of_relations(blind.graph, pair)
    asked = checked.links[:LINKS_PER_RELATION]
    influence = logits_without(blind, asked) - logits_without(blind, asked, gone)
    answers = list(blind.explain_many(asked))
    using = [link for link, answer in zip(asked, answers, strict=True) if _using(answer, pair)]
    avoidable = 0
    if using:
        other = checked.explainer(
            Hidden(checked.model, pair), exclude_relations=["__".join(pair[0])]
        )
        avoidable = sum(bool(answer.paths) for answer in other.explain_many(using))
    return {
        "influence": float(np.abs(influence).max(initial=0.0)),
        "paths_hidden": sum(_using(answer, pair) for answer in answers),
        "avoidable": avoidable,
    }


def _using(explanation: Explanation, relations: tuple[EdgeType, ...]) -> int:
    return sum(any(e.type in relations for e in path.edges) for path in explanation.paths)


def _finding(rows: list[dict[str, Any]], num_paths: int) -> Finding:
    done = [row for row in rows if "not_checked" not in row]
    bad = [row["relation"] for row in done if row["influence"] != 0 or row["avoidable"]]
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
    unused = [r["relation"] for r in done if r["paths_before"] and r["change"] == 0]
    mark: Mark = "fine"
    verdict = (
        "A relation that is hidden from the model has no influence, and no path runs along it "
        f"({len(done)} of {len(rows)} relations checked)."
    )
    if not done:
        mark = "not checked"
        verdict = "No relation could be hidden: the model does not run without any of them."
    elif bad:
        mark = "warning"
        verdict = (
            f"Paths still run along relations that are hidden from the model ({', '.join(bad)}), "
            "or these still move its score: do not trust paths along them."
        )
    elif unused:
        verdict += f" The model's score does not depend on {', '.join(unused)} at all."
    figures = {"relations": rows, "num_paths": num_paths}
    return Finding("relations", mark, verdict, tuple(details), figures)
