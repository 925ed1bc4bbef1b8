"""What an explanation says, in plain words: computed once, shown by every view.

Put together from the verdict, the paths, the rule by which they were chosen, the model's answers on
edited graphs, and what was requested beside the paths.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from pagelink.explain.result import Explanation, Node, Path
from pagelink.graph.labels import relation_label
from pagelink.measure.verdict import Evidence, Verdict
from pagelink.views.statements import (
    Fact,
    NodeWords,
    PathGroup,
    ScoreWords,
    Step,
    in_words,
    node_words,
    path_steps,
    score_noun,
    score_sentence,
    score_words,
    these_facts,
)
from pagelink.views.text import clean, count, enumerated, words
from pagelink.views.verdict_wording import VERDICT_WORDS, groups, path_remarks, verdict_sentences


def caveat(explanation: Explanation) -> str:
    """Return what the choice of the paths does and does not say; empty if there are none."""
    if not explanation.paths:
        return ""
    noun = score_noun(explanation.threshold)
    if explanation.is_negative:
        return (
            "The facts of each path were taken out of the graph and the model was asked again: a "
            f"path speaks for the link if its {noun} then falls, and against it if it rises."
        )
    if explanation.evidence is not None:
        return rule(explanation, explanation.evidence)
    preferred = ["few facts", "nodes with few links"]
    if explanation.epochs:
        preferred.append("links to which the learned mask gives weight")
    chain = "Each path is a chain of facts of the graph."
    if any(path.influence is not None for path in explanation.paths):
        return (
            f"{chain} The facts of some of them were taken out of the graph, one path at a time, "
            "and the model was asked again; what they are worth together was not measured."
        )
    return (
        f"{chain} The ranking prefers {enumerated(preferred)}."
        " How much the model's answer depends on a path was not measured."
    )


def rule(explanation: Explanation, evidence: Evidence) -> str:
    """Return what was measured, and by what rule the paths were chosen."""
    rho, reached = explanation.settings.rho, evidence.rho_reached
    asked = "put into the graph without any path" if evidence.inserted else "taken out of the graph"
    if evidence.num_sets == 1:
        return (
            f"The facts of the only combination of paths to try were {asked} and the model was "
            "asked again."
        )
    measured = f"The facts of {count(evidence.num_sets, 'combination')} of paths were {asked}"
    if reached is None:
        chosen = "none had an effect in favour of the link, and the most concise paths are shown"
    elif rho == 0:
        chosen = (
            f"the most concise paths are shown, which reach {reached:.0%} of the largest effect"
        )
    elif rho == 1:
        chosen = "the combination with the largest effect is shown"
    else:
        chosen = (
            f"of the combinations that reach {rho:.0%} of the largest effect the most concise one "
            f"is shown, which reaches {reached:.0%}"
        )
    return f"{measured} and the model was asked again; {chosen}."


def figures(explanation: Explanation) -> tuple[tuple[str, str], ...]:
    """Return the model's answers on edited graphs, each with what it is about."""
    evidence, logit = explanation.evidence, explanation.logit
    if evidence is None or logit is None or not explanation.paths:
        return ()
    these = these_facts(explanation.paths)
    whole = "with all facts but the link itself" if explanation.link_in_graph else "with all facts"
    answers = {
        whole: logit,
        f"without {these}": evidence.logit_without_these,
        "without any path": evidence.logit_without_paths,
        "without any fact at all": evidence.logit_without_edges,
        f"with only {these}": evidence.logit_only_these,
    }
    noun = score_noun(explanation.threshold)
    missing = f"cannot be said, since without the paths the {noun} is hardly lower, or higher"
    share = missing if evidence.sufficiency is None else _share(evidence.sufficiency)
    return (
        *((about, in_words(explanation.threshold, answer)) for about, answer in answers.items()),
        ("of the difference that all paths make, these bring back", share),
    )


def _share(sufficiency: float) -> str:
    """The share that is brought back: no percentage can be read below 0 and above 100."""
    if round(sufficiency, 2) > 1:
        return "more than all of it"
    return "nothing of it" if round(sufficiency, 2) < 0 else f"{abs(sufficiency):.0%}"


# What was requested beside the paths, in words: the target's rank, how stable the paths are.


def rank_sentence(explanation: Explanation, link: Fact) -> str:
    """Say where the target (or source) ranks, with and without the facts of the returned paths.

    Returns:
        A sentence, empty if no rank was requested.
    """
    if explanation.rank is None:
        return ""
    ends = ("targets", link.subject.short, link.object.short)
    if explanation.rank_end == "src":
        ends = ("sources", link.object.short, link.subject.short)
    what, stays, own = ends
    said = (
        f"Of the {explanation.rank_of} {what} that were ranked for {stays}, {own} is number "
        f"{explanation.rank}"
    )
    after = explanation.rank_without_these
    if after is None:
        return f"{said}."
    place = "just the same" if after == explanation.rank else f"number {after}"
    return f"{said}; without the facts of these paths it would be {place}."


def runs_sentence(runs: int | None, paths: Sequence[Path]) -> str:
    """Say in how many runs each of the paths was returned.

    Args:
        runs: how many runs there were.
        paths: the paths in the order in which they are shown.

    Returns:
        A sentence, empty if there was but one run, or no path.
    """
    counts = [path.runs for path in paths]
    if runs is None or not counts or None in counts:
        return ""
    if all(count == runs for count in counts):
        these = "This path was" if len(counts) == 1 else "All these paths were"
        return f"{these} returned in each of {runs} runs, each with a seed of its own."
    each = [f"path {i} was returned in {count}" for i, count in enumerate(counts, start=1)]
    return f"Of {runs} runs, each with a seed of its own, {enumerated(each)}."


# Everything that is said, put together.


@dataclass(frozen=True)
class PathWords:
    """One path: its facts in order, and what else is known about it."""

    rank: int
    nodes: tuple[NodeWords, ...]
    steps: tuple[Step, ...]
    remarks: tuple[str, ...]
    """Sentences about the path as a whole: where it passes, what it is worth to the model."""
    runs: str
    """In how many runs it was returned, "in 3 of 5 runs"; empty if there was but one."""
    path: Path


@dataclass(frozen=True)
class Wording:
    """Everything that an explanation says."""

    link: Fact
    opening: tuple[str, ...]
    """What a reader has to know before all else: the verdict, or why there are no paths."""
    scores: tuple[ScoreWords, ...]
    score_sentence: str
    noun: str
    """What a logit is called."""
    requests: tuple[str, ...]
    """What was requested beside the paths: a rank, how stable the paths are."""
    groups: tuple[PathGroup[PathWords], ...]
    """The paths by what they are: first those that the model relies on."""
    caveat: str
    """What the choice of the paths does and does not say; empty if there are none."""
    figures: tuple[tuple[str, str], ...]
    """The model's answers on edited graphs, each with what it is about; empty if unmeasured."""
    notes: tuple[str, ...]
    verdict: Verdict | None
    influence: float | None
    """Of the paths together."""
    is_relied: bool
    """The model relies on the paths, and nothing went wrong on the way to this explanation."""

    @property
    def paths(self) -> tuple[PathWords, ...]:
        """All paths in the order of their numbers."""
        return tuple(path for group in self.groups for path in group.paths)


def wording(explanation: Explanation) -> Wording:
    """Return what the explanation says."""
    nodes, evidence = node_words(explanation), explanation.evidence
    relation = words(relation_label(explanation.link_type))
    link = Fact(nodes[explanation.src], relation, nodes[explanation.dst])
    scores = score_words(explanation)
    told = _groups(explanation, nodes)
    paths = [path.path for group in told for path in group.paths]
    requests = rank_sentence(explanation, link), runs_sentence(explanation.runs, paths)
    relied = evidence is not None and VERDICT_WORDS[evidence.verdict].is_relied
    later = explanation.notes[bool(explanation.direct_relations) :]
    return Wording(
        link=link,
        opening=_opening(explanation, link),
        scores=scores,
        score_sentence=score_sentence(explanation, scores),
        noun=score_noun(explanation.threshold),
        requests=tuple(sentence for sentence in requests if sentence),
        groups=told,
        caveat=caveat(explanation),
        figures=figures(explanation),
        notes=tuple(note for note in map(clean, later) if note),
        verdict=None if evidence is None else evidence.verdict,
        influence=None if evidence is None else evidence.influence,
        is_relied=relied and explanation.reason is None,
    )


def paths_in_words(explanation: Explanation) -> tuple[PathWords, ...]:
    """Return what the explanation says of its paths, as `Wording.paths`, and no more."""
    return tuple(p for group in _groups(explanation, node_words(explanation)) for p in group.paths)


def _groups(
    explanation: Explanation, nodes: dict[Node, NodeWords]
) -> tuple[PathGroup[PathWords], ...]:
    rank = itertools.count(1)
    return tuple(
        PathGroup(
            group.heading,
            tuple(
                _path_words(explanation, next(rank), path, nodes, not group.is_context)
                for path in group.paths
            ),
            group.is_context,
            group.is_drawn,
        )
        for group in groups(explanation)
    )


def _path_words(
    explanation: Explanation, rank: int, path: Path, words: dict[Node, NodeWords], is_reason: bool
) -> PathWords:
    nodes = tuple(words[node] for node in path.nodes)
    steps = path_steps(path, nodes)
    inner = [f"{node.short} with {node.links}" for node in nodes[1:-1]]
    remark = f"Passes through {enumerated(inner)}." if inner else "A direct link between the two."
    remarks = (remark, *path_remarks(explanation, path, steps, is_reason))
    known = None not in (explanation.runs, path.runs)
    runs = f"in {path.runs} of {explanation.runs} runs" if known else ""
    return PathWords(rank, nodes, steps, remarks, runs, path)


def _opening(explanation: Explanation, link: Fact) -> tuple[str, ...]:
    message = clean(explanation.message) or _reason_in_words(explanation, link)
    if not explanation.paths:
        state = "There are no paths to show."
    elif explanation.reason not in (None, "predicted_negative"):
        state = "This explanation is not complete."
    else:
        state = ""
    # That the paths may merely restate the link has to be known before what they are worth.
    restated = explanation.notes[:1] if explanation.direct_relations else ()
    sentences = (*map(clean, restated), *verdict_sentences(explanation), state, message)
    return tuple(sentence for sentence in sentences if sentence)


def _reason_in_words(explanation: Explanation, link: Fact) -> str:
    ends = f"from {link.subject.isolated} to {link.object.isolated}"
    longest = count(explanation.settings.max_length, "fact")
    in_words = {
        None: "",
        "not_connected": f"No chain of facts in the graph leads {ends}.",
        "beyond_max_length": f"Every chain of facts {ends} has more than {longest}.",
        "pruned_away": f"Pruning has cut every chain of facts {ends}.",
        "excluded": f"What was excluded leaves no chain of facts {ends}.",
        "predicted_negative": "The model does not predict this link.",
        "invalid": "This link cannot be explained as it was given.",
        "out_of_time": "The time ran out.",
    }
    return in_words[explanation.reason]
