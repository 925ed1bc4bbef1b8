"""The path that counts most as one sentence: "Mostly because A likes B, which ..."."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pagelink.explain.result import Explanation, Path
from pagelink.views.path_wording import MOST, counts_together
from pagelink.views.statements import Fact, NodeWords, node_words, path_steps
from pagelink.views.text import isolate, words

_PREPOSITIONS = frozenset({"by", "in", "of", "on", "to", "from", "at", "with", "for", "about"})
_PEOPLE = frozenset({
    "actor", "actress", "artist", "author", "customer", "director", "patient", "people", "person",
    "reader", "user", "writer",
})  # fmt: skip
"""Node types, by their last word, of which one says "who"."""


def because(explanation: Explanation) -> str:
    """Return the path that counts most in one sentence, empty if the model relies on none.

    That is the one by whose removal the score falls most, alone or after the others, as the figures
    beside the sentence say; where adding paths is what shows their effect, the one of the largest
    share. A path that alone speaks against the link is named only if all of them do. It is "mostly"
    this path if it alone has half of what the paths do, and these half of what as many facts can.
    """
    reasons = [path for path in explanation.paths if path.is_evidence]
    if not reasons:
        return ""
    speaking_for = [path for path in reasons if (path.influence or 0.0) >= -explanation.noise]
    # The first of those that are alike.
    first = max(speaking_for or reasons, key=lambda path: _size(explanation, path))
    others = [path for path in reasons if path is not first]
    how = "Mostly" if _is_most(explanation, first, others) else "Partly"
    nodes = node_words(explanation)
    facts = [step.fact for step in path_steps(first, tuple(nodes[node] for node in first.nodes))]
    return f"{how} because {chained(facts)}."


def _size(explanation: Explanation, path: Path) -> float:
    """Return what a path does, as it is shown beside the sentence."""
    evidence = explanation.evidence
    if evidence is None or evidence.inserted:
        return path.share or 0.0
    return max(path.influence or 0.0, path.marginal or 0.0)


def _is_most(explanation: Explanation, path: Path, others: Sequence[Path]) -> bool:
    if others and ((path.share or 0.0) < MOST or any((p.share or 0.0) >= MOST for p in others)):
        return False
    of_facts = explanation.strongest.share if explanation.strongest else None
    return (of_facts is None or of_facts >= MOST) and not counts_together(path, explanation.paths)


def chained(facts: Sequence[Fact]) -> str:
    """Return facts that follow each other as one clause, without repeating what they share.

    Returns:
        For example "Ann likes Mad Max, which has genre Sci-Fi, like Alien".
    """
    said, last = _clause(facts[0]), facts[0].object
    for before, fact in itertools.pairwise(facts):
        same = fact.relation == before.relation and fact.object.node == before.object.node
        verb = _verb(fact.relation)
        if same and fact.subject.node != before.subject.node:
            said += f", like {fact.subject.isolated}"
        elif fact.subject.node == last.node and verb:
            said += f", {_who(fact.subject)} {isolate(verb)} {fact.object.isolated}"
        else:
            said += f", and {_clause(fact)}"
        last = fact.object
    return said


def _clause(fact: Fact) -> str:
    verb = _verb(fact.relation) or fact.relation
    return f"{fact.subject.isolated} {isolate(verb)} {fact.object.isolated}"


def _who(node: NodeWords) -> str:
    kind = words(node.node[0]).casefold().split()
    return "who" if kind and kind[-1] in _PEOPLE else "which"


def _verb(relation: str) -> str:
    """Return a relation as a verb: "has genre", "is bought by"; empty if it may be none."""
    if _is_verb(relation):
        return relation
    said = relation.split() or [""]
    passive = said[0] in _PREPOSITIONS or said[-1] in ("by", "of")
    return f"is {relation}" if passive else ""


def _is_verb(relation: str) -> bool:
    """Whether "which" fits before it: "has genre" and "rated below 4", not "bought by"."""
    said = relation.split() or [""]
    if said[0].endswith("ed"):
        return said[-1] not in _PREPOSITIONS
    return said[0].endswith("s")
