"""Leaks: relations and paths that merely restate the link which they are to explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from pagelink.checks.subject import Finding, Subject, flat_links, logits_without, percent
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import edges_between, states_facts
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Bools, Doubles, Longs

Kind = Literal["restates the link", "near-label", "excludes the link", "parallel"]
SAME = 0.9
"""A relation restates another one if it holds this share of its pairs, or the other way round."""
LIFT = 3.0
"""A near-label holds this many times the links that its degrees would let expect. A relation that
holds so many times fewer excludes the link, as the other values of one label do (`palliates` and
`treats`)."""
FEW = 5
"""So many shared pairs at least, or the lift says little."""
RARE = 0.01
"""A relation excludes the link if so few shared pairs have no more than this chance."""


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


def check_leaks(subject: Subject, explanations: Sequence[Explanation], known: Tensor) -> Finding:
    """Flag relations and one-fact paths that restate the link, with the score without them.

    Args:
        subject: the model and its links.
        explanations: of these links.
        known: all known links of the predicted relation.
    """
    explainer = subject.explainer()
    graph = explainer.graph
    leaks = find_leaks(graph, subject.link_type, known)
    flagged = [leak for leak in leaks if leak.kind != "parallel"]
    one_fact = [a for a in explanations if any(len(path) == 1 for path in a.paths)]
    first = [a for a in explanations if a.paths and len(a.paths[0]) == 1]
    with_facts, before, after = _scores(explainer, subject)
    details = [str(leak) for leak in leaks]
    total = len(explanations)
    details.append(
        f"{len(one_fact)} of {total} explanations hold a path of a single fact, {len(first)} have "
        "it on top."
    )
    if len(with_facts):
        details.append(
            f"{len(with_facts)} links have other facts directly between their ends; without these "
            f"the mean raw score goes from {before.mean():.3g} to {after.mean():.3g}, and "
            f"{int(((before >= 0) & (after < 0)).sum())} of them are no longer predicted."
        )
    figures = {
        "relations": [asdict(leak) for leak in leaks],
        "links": total,
        "explanations_with_one_fact_path": len(one_fact),
        "one_fact_path_on_top": len(first),
        "links_with_direct_facts": [list(subject.links[i]) for i in with_facts],
        "logits": before.tolist(),
        "logits_without_direct_facts": after.tolist(),
    }
    if flagged:
        return Finding("leaks", "warning", _words(flagged), tuple(details), figures)
    if first:
        verdict = (
            f"{percent(len(first) / total)} of the explanations begin with a single fact between "
            "source and target: see whether it says more than the link itself."
        )
        return Finding("leaks", "warning", verdict, tuple(details), figures)
    verdict = "No relation restates the link, and no explanation begins with a single fact."
    return Finding("leaks", "fine", verdict, tuple(details), figures)


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


def _scores(explainer: PaGELink, subject: Subject) -> tuple[Longs, Doubles, Doubles]:
    """Links with direct facts, and their logits with and without them; the link is taken out."""
    graph = explainer.graph
    ends = flat_links(graph, subject.link_type, subject.links)
    found, before, after = [], [], []
    for i, (src, dst) in enumerate(ends.tolist()):
        fact = graph.link_fact(src, dst, subject.link_type)
        facts = direct_facts(graph, src, dst, fact)
        if facts.any():
            itself = states_facts(graph, [fact])
            found.append(i)
            before.append(logits_without(explainer, [subject.links[i]], itself)[0])
            after.append(logits_without(explainer, [subject.links[i]], itself | facts)[0])
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
