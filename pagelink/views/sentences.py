"""The first path of an explanation as one sentence: "Mostly because A likes B, which ..."."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pagelink.explain.result import Explanation
from pagelink.views.path_wording import MOST, counts_together
from pagelink.views.statements import Fact, node_words, path_steps
from pagelink.views.text import isolate

_PREPOSITIONS = frozenset({"by", "in", "of", "on", "to", "from", "at", "with", "for", "about"})


def because(explanation: Explanation) -> str:
    """Return the path of the largest share in one sentence, empty if the model relies on none.

    It is "mostly" this path if it has half of what the paths do, and these half of what as many
    facts can do.
    """
    reasons = [path for path in explanation.paths if path.is_evidence]
    if not reasons:
        return ""
    first = reasons[0]
    nodes = node_words(explanation)
    facts = [step.fact for step in path_steps(first, tuple(nodes[node] for node in first.nodes))]
    share = 1.0 if len(reasons) == 1 or first.share is None else first.share
    of_facts = explanation.strongest.share if explanation.strongest else None
    mostly = share >= MOST and (of_facts is None or of_facts >= MOST)
    how = "Mostly" if mostly and not counts_together(first, explanation.paths) else "Partly"
    return f"{how} because {chained(facts)}."


def chained(facts: Sequence[Fact]) -> str:
    """Return facts that follow each other as one clause, without repeating what they share.

    Returns:
        For example "Ann likes Mad Max, which has genre Sci-Fi, like Alien".
    """
    said, last = str(facts[0]), facts[0].object
    for before, fact in itertools.pairwise(facts):
        same = fact.relation == before.relation and fact.object.node == before.object.node
        if same and fact.subject.node != before.subject.node:
            said += f", like {fact.subject.isolated}"
        elif fact.subject.node == last.node and _is_verb(fact.relation):
            said += f", which {isolate(fact.relation)} {fact.object.isolated}"
        else:
            said += f", and {fact}"
        last = fact.object
    return said


def _is_verb(relation: str) -> bool:
    """Whether "which" fits before it: "has genre" and "rated below 4", not "bought by"."""
    said = relation.split() or [""]
    if said[0].endswith("ed"):
        return said[-1] not in _PREPOSITIONS
    return said[0].endswith("s")
