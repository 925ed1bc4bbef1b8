"""What an explanation says, in plain words: computed once, shown by every view.

Put together from the verdict, the paths, the rule by which they were chosen, the model's answers on
edited graphs, and what was requested beside the paths.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from pagelink.explain.result import Explanation, Node, Path
from pagelink.measure.verdict import Evidence, Verdict
from pagelink.views.beyond_wording import (
    EquallyGood,
    StrongestWords,
    WhatElse,
    equally_good,
    strongest_words,
    what_counts_most,
    what_else_words,
)
from pagelink.views.control_wording import of_at_most
from pagelink.views.path_wording import (
    TOGETHER,
    counts_together,
    path_remarks,
    removing,
    share_words,
)
from pagelink.views.score_wording import ScoreWords, score_sentence, score_words
from pagelink.views.statements import (
    Fact,
    NodeWords,
    PathGroup,
    Step,
    link_words,
    node_words,
    num_facts,
    path_steps,
    these_facts,
)
from pagelink.views.text import clean, count, decimals_for, enumerated, percent
from pagelink.views.verdict_wording import groups, is_relied, verdict_sentences


def caveat(explanation: Explanation) -> str:
    """Return what the choice of the paths does and does not say; empty if there are none."""
    if not explanation.paths:
        return ""
    if explanation.is_negative:
        gone = "left out of training" if explanation.trained else "removed from the graph"
        return (
            f"Each path was {gone} and the link scored again: a path speaks for the link if the "
            "score then falls, and against it if it rises."
        )
    if explanation.evidence is not None:
        return rule(explanation, explanation.evidence)
    preferred = ["few facts", "nodes of low degree"]
    if explanation.epochs:
        preferred.append("edges to which the learned mask gives weight")
    chain = "Each path is a chain of facts of the graph."
    if any(path.influence is not None for path in explanation.paths):
        return (
            f"{chain} Some of them were removed from the graph, one path at a time, and the link "
            "scored again; what they are worth together was not measured."
        )
    return (
        f"{chain} The ranking prefers {enumerated(preferred)}."
        " How much the score depends on a path was not measured."
    )


def rule(explanation: Explanation, evidence: Evidence) -> str:
    """Return what was measured, and by what rule the paths were chosen."""
    number = evidence.num_sets
    gone = f"{removing(explanation)} it"
    if not explanation.trained:
        gone = f"{gone} from the graph"
    both = f"by {gone}, and by adding it to the graph without any path"
    if number == 1:
        told = [f"Only one combination of paths could be tested: {both}."]
    else:
        told = [_choice(explanation.settings.rho, evidence, number)]
        told.append(_worth(explanation, evidence) if evidence.worth else f"Each was tested {both}.")
    if evidence.inserted:
        told.append(
            "Since paths stand in for each other here, their influence is what they add to the "
            "graph without any path."
        )
    return " ".join(told)


def _choice(rho: float, evidence: Evidence, number: int) -> str:
    reached, tested = evidence.rho_reached, f"We tested {count(number, 'combination')} of paths"
    if reached is None:
        return f"{tested}; none speaks for the link, and the most concise paths are shown."
    if rho == 0:
        return (
            f"{tested} and show the most concise paths by the learned mask, with "
            f"{percent(reached)} of the largest worth."
        )
    if rho == 1:
        return f"{tested} and show the one of the largest worth."
    return (
        f"{tested} and show the simplest one with at least {percent(rho)} of the largest worth "
        f"(fewest hubs, then fewest facts); it has {percent(reached)}."
    )


def _worth(explanation: Explanation, evidence: Evidence) -> str:
    """Return what worth counts: paths of some worth, but no gain (or effect), have it one-sided."""
    bar, gone = explanation.noise, removing(explanation)
    if evidence.gain <= bar:
        return (
            f"Worth is what {gone} a combination takes from the score: adding one to the graph "
            "without any path does not raise it noticeably."
        )
    if (explanation.logit or 0.0) - evidence.logit_without_these <= bar:
        return (
            "Worth is what adding a combination to the graph without any path gives: "
            f"{gone} one does not lower the score noticeably."
        )
    return (
        f"Worth counts equally what {gone} a combination takes from the score, and what adding it "
        "to the graph without any path gives."
    )


def figures(explanation: Explanation) -> tuple[tuple[str, str], ...]:
    """Return the model's answers on edited graphs, each with what it is about."""
    evidence, logit = explanation.evidence, explanation.logit
    if evidence is None or logit is None or not explanation.paths:
        return ()
    these = these_facts(explanation.paths)
    restore = "restores" if num_facts(explanation.paths) == 1 else "restore"
    restored = f"{these} alone {restore} (facts on no path stay)"
    whole = "with all facts but the link itself" if explanation.link_in_graph else "with all facts"
    alone = f"with {these} and nothing else in the graph"
    if explanation.trained:
        alone = f"trained on {these} and nothing else of source and target"
    answers = {
        whole: logit,
        f"without {these}": evidence.logit_without_these,
        f"without any path {of_at_most(evidence.max_length)}": evidence.logit_without_paths,
        "without any fact at all": evidence.logit_without_edges,
        alone: evidence.logit_only_these,
    }
    lower = "hardly lower" if evidence.logit_without_paths < logit else "no lower"
    missing = f"not defined, since the score is {lower} without any path"
    share = missing if evidence.sufficiency is None else _share(evidence.sufficiency)
    digits = decimals_for(max(answers.values()) - min(answers.values()))
    return (
        *((about, f"{round(each, digits) + 0.0:.{digits}f}") for about, each in answers.items()),
        (f"share of the effect of all paths that {restored}", share),
    )


def _share(sufficiency: float) -> str:
    """The share that is brought back: no percentage can be read below 0 and above 100."""
    if round(sufficiency, 2) > 1:
        return "more than all of it"
    return "none of it" if round(sufficiency, 2) < 0 else percent(max(sufficiency, 0.0))


def held_out_sentence(explanation: Explanation) -> str:
    """Say how many predictions like this one were held-out links; empty if that is not known."""
    found = explanation.held_out_share
    if found is None:
        return ""
    like = {"rank": "ranked", "score": "scored"}[found.by]
    return (
        f"Of predictions {like} this high, {percent(found.share)} were held-out links (a lower "
        "bound: not every true link is known)."
    )


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
        every = "both" if runs == 2 else f"all {runs}"
        return f"{these} returned in {every} runs, each with its own seed."
    each = [f"path {i} was returned in {count}" for i, count in enumerate(counts, start=1)]
    return f"Of {runs} runs, each with its own seed, {enumerated(each)}."


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
    share: str
    """Its part in what the paths do, "42 % of the effect of these paths"; may be empty."""
    together: str
    """Why it is one item with its neighbours of the same bundle; empty if it stands for itself."""
    path: Path


def items(paths: Sequence[PathWords]) -> tuple[tuple[PathWords, ...], ...]:
    """Return paths as they are listed: those that count together are one item."""
    bundles = itertools.groupby(paths, lambda path: path.path.bundle if path.together else path)
    return tuple(tuple(item) for _, item in bundles)


@dataclass(frozen=True)
class Wording:
    """Everything that an explanation says."""

    link: Fact
    opening: tuple[str, ...]
    """What a reader has to know before all else: the verdict, or why there are no paths."""
    scores: tuple[ScoreWords, ...]
    score_sentence: str
    requests: tuple[str, ...]
    """What was requested beside the paths: how stable they are."""
    groups: tuple[PathGroup[PathWords], ...]
    """The paths by what they are: first those that the model relies on."""
    caveat: str
    """What the choice of the paths does and does not say; empty if there are none."""
    equally_good: EquallyGood | None
    """Other sets of paths that are as good; None without any."""
    strongest: StrongestWords | None
    """The facts that count most, wherever they are; None if they were not looked for."""
    what_else: WhatElse | None
    """What the score rests on, part by part; None if that was not measured."""
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
    link = link_words(explanation, nodes)
    scores = score_words(explanation)
    told = _groups(explanation, nodes)
    paths = [path.path for group in told for path in group.paths]
    requests = held_out_sentence(explanation), runs_sentence(explanation.runs, paths)
    relied = evidence is not None and is_relied(evidence)
    later = explanation.notes[bool(explanation.direct_relations) :]
    return Wording(
        link=link,
        opening=_opening(explanation, link),
        scores=scores,
        score_sentence=score_sentence(explanation, link, scores),
        requests=tuple(filter(None, requests)),
        groups=told,
        caveat=caveat(explanation),
        equally_good=equally_good(explanation, nodes),
        strongest=strongest_words(explanation, nodes, paths),
        what_else=what_else_words(explanation, link),
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
        for group in groups(explanation, link_words(explanation, nodes))
    )


def _path_words(
    explanation: Explanation, rank: int, path: Path, words: dict[Node, NodeWords], is_reason: bool
) -> PathWords:
    nodes = tuple(words[node] for node in path.nodes)
    steps = path_steps(path, nodes)
    inner = [f"{node.short} ({node.links})" for node in nodes[1:-1]]
    remark = (
        f"Passes through {enumerated(inner)}." if inner else "A fact that joins the two directly."
    )
    remarks = (remark, *path_remarks(explanation, path, steps, is_reason))
    known = None not in (explanation.runs, path.runs)
    runs = f"in {path.runs} of {explanation.runs} runs" if known else ""
    share, together = share_words(explanation, path), ""
    if counts_together(path, explanation.paths):
        together = TOGETHER
    return PathWords(rank, nodes, steps, remarks, runs, share, together, path)


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
    # Without a verdict, what the score rests on comes before why there is none.
    rests = what_counts_most(explanation, link) if explanation.evidence is None else ""
    verdict = verdict_sentences(explanation, link)
    sentences = (*map(clean, restated), *verdict, rests, state, message)
    return tuple(sentence for sentence in sentences if sentence)


def _reason_in_words(explanation: Explanation, link: Fact) -> str:
    ends = f"from {link.subject.isolated} to {link.object.isolated}"
    longest = count(explanation.settings.max_length, "fact")
    in_words = {
        None: "",
        "not_connected": f"No chain of facts in the graph leads {ends}.",
        "beyond_max_length": f"Every chain of facts {ends} has more than {longest}.",
        "pruned_away": f"Pruning removed every chain of facts {ends}.",
        "excluded": f"The exclusions leave no chain of facts {ends}.",
        "predicted_negative": "The model does not predict this link.",
        "invalid": "This link cannot be explained as given.",
        "out_of_time": "The time ran out.",
    }
    return in_words[explanation.reason]
