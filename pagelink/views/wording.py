"""What an explanation says, in plain words: computed once, shown by every view."""

from __future__ import annotations

from dataclasses import dataclass

from pagelink.explanation import Explanation, Node, Path, Verdict
from pagelink.views import evidence_wording, verdict_wording
from pagelink.views.naming import NodeWords, clean, count, node_words, words
from pagelink.views.path_wording import path_remarks
from pagelink.views.request_wording import requests, runs_of
from pagelink.views.score_wording import ScoreWords, score_noun, score_sentence, score_words
from pagelink.views.statements import Fact, Step, enumerated, path_steps


@dataclass(frozen=True)
class PathWords:
    """One path: its facts in order, and what else is known about it."""

    rank: int
    nodes: tuple[NodeWords, ...]
    steps: tuple[Step, ...]
    remarks: tuple[str, ...]
    """Sentences about the path as a whole: where it passes, what it is worth to the model."""
    score: str
    runs: str
    """In how many runs it was returned; empty if there was but one."""
    path: Path


@dataclass(frozen=True)
class PathGroup:
    """Paths that are shown together, under a heading."""

    heading: str
    paths: tuple[PathWords, ...]
    is_context: bool
    """They were measured, and the model does not rely on them."""
    is_drawn: bool
    """The heading says what a drawing of the paths alone would not."""


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
    """What was asked for beside the paths: a rank, how stable the paths are."""
    groups: tuple[PathGroup, ...]
    """The paths by what they are: first those that the model relies on."""
    caveat: str
    """What the choice of the paths does and does not say; empty if there are none."""
    figures: tuple[tuple[str, str], ...]
    """The model's answers on edited graphs, each with what it is about; empty if unmeasured."""
    notes: tuple[str, ...]
    verdict: Verdict | None
    influence: float | None
    """Of the paths together."""
    is_whole: bool
    """Nothing went wrong on the way to this explanation."""

    @property
    def paths(self) -> tuple[PathWords, ...]:
        """All paths in the order of their numbers."""
        return tuple(path for group in self.groups for path in group.paths)


def wording(explanation: Explanation) -> Wording:
    """Return what the explanation says."""
    nodes = node_words(explanation)
    link = Fact(nodes[explanation.src], words(explanation.link_type[1]), nodes[explanation.dst])
    scores = score_words(explanation)
    groups = _groups(explanation, nodes)
    shown = [words.path for group in groups for words in group.paths]
    return Wording(
        link=link,
        opening=_opening(explanation, link),
        scores=scores,
        score_sentence=score_sentence(explanation, scores),
        noun=score_noun(explanation.threshold),
        requests=requests(explanation, link, shown),
        groups=groups,
        caveat=evidence_wording.caveat(explanation),
        figures=evidence_wording.figures(explanation),
        notes=tuple(note for note in map(clean, explanation.notes) if note),
        verdict=getattr(explanation.evidence, "verdict", None),
        influence=getattr(explanation.evidence, "influence", None),
        is_whole=explanation.reason is None,
    )


def paths_in_words(explanation: Explanation) -> tuple[PathWords, ...]:
    """Return what the explanation says of its paths, as `Wording.paths`, and no more."""
    groups = _groups(explanation, node_words(explanation))
    return tuple(path for group in groups for path in group.paths)


def _groups(explanation: Explanation, nodes: dict[Node, NodeWords]) -> tuple[PathGroup, ...]:
    groups: list[PathGroup] = []
    rank = 0
    for headed in verdict_wording.groups(explanation):
        told = []
        for path in headed.paths:
            rank += 1
            inner = tuple(nodes[node] for node in path.nodes)
            told.append(_path_words(explanation, rank, path, inner, not headed.is_context))
        groups.append(PathGroup(headed.heading, tuple(told), headed.is_context, headed.is_drawn))
    return tuple(groups)


def _path_words(
    explanation: Explanation, rank: int, path: Path, nodes: tuple[NodeWords, ...], is_reason: bool
) -> PathWords:
    steps = path_steps(path, nodes)
    inner = [f"{node.short} with {node.links}" for node in nodes[1:-1]]
    remark = f"Passes through {enumerated(inner)}." if inner else "A direct link between the two."
    remarks = (remark, *path_remarks(explanation, path, steps, is_reason))
    runs = runs_of(explanation.runs, path)
    return PathWords(rank, nodes, steps, remarks, f"{path.score:.2f}", runs, path)


def _opening(explanation: Explanation, link: Fact) -> tuple[str, ...]:
    message = clean(explanation.message) or _reason_in_words(explanation, link)
    if not explanation.paths:
        state = "There are no paths to show."
    elif explanation.reason not in (None, "predicted_negative"):
        state = "This explanation is not complete."
    else:
        state = ""
    sentences = (*verdict_wording.verdict(explanation), state, message)
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
