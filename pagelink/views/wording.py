"""What an explanation says, in plain words: computed once, shown by every view."""

from __future__ import annotations

from dataclasses import dataclass

from pagelink.explanation import Explanation, Node, Path, Verdict
from pagelink.views import evidence_wording
from pagelink.views.naming import NodeWords, clean, count, node_words, words
from pagelink.views.score_wording import ScoreWords, score_sentence, score_words
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
    path: Path


@dataclass(frozen=True)
class PathGroup:
    """Paths that are shown together, under a heading."""

    heading: str
    paths: tuple[PathWords, ...]
    is_context: bool
    """They were measured, and the model does not rely on them."""


@dataclass(frozen=True)
class Wording:
    """Everything that an explanation says."""

    link: Fact
    opening: tuple[str, ...]
    """What a reader has to know before all else: the verdict, or why there are no paths."""
    scores: tuple[ScoreWords, ...]
    score_sentence: str
    groups: tuple[PathGroup, ...]
    """The paths: first those that the model relies on, then those shown only for context."""
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
    return Wording(
        link=link,
        opening=_opening(explanation, link),
        scores=scores,
        score_sentence=score_sentence(explanation, scores),
        groups=_groups(explanation, nodes),
        caveat=_caveat(explanation),
        figures=evidence_wording.figures(explanation),
        notes=tuple(note for note in map(clean, explanation.notes) if note),
        verdict=getattr(explanation.evidence, "verdict", None),
        influence=getattr(explanation.evidence, "influence", None),
        is_whole=explanation.reason is None,
    )


def _groups(explanation: Explanation, nodes: dict[Node, NodeWords]) -> tuple[PathGroup, ...]:
    shown, context = evidence_wording.split(explanation)
    measured = explanation.evidence is not None
    groups = []
    for paths, is_context, first in ((shown, False, 1), (context, True, len(shown) + 1)):
        if is_context:
            heading = evidence_wording.context_heading(explanation, paths)
        elif measured:
            heading = evidence_wording.evidence_heading(paths)
        else:
            heading = _ranking_heading(len(paths))
        told = tuple(
            _path_words(explanation, rank, path, tuple(nodes[node] for node in path.nodes))
            for rank, path in enumerate(paths, start=first)
        )
        groups.append(PathGroup(heading, told, is_context))
    return tuple(group for group in groups if group.paths)


def _path_words(
    explanation: Explanation, rank: int, path: Path, nodes: tuple[NodeWords, ...]
) -> PathWords:
    steps = path_steps(path, nodes)
    inner = [f"{node.short} with {node.links}" for node in nodes[1:-1]]
    remark = f"Passes through {enumerated(inner)}." if inner else "A direct link between the two."
    measured = evidence_wording.path_remarks(explanation, path, steps)
    return PathWords(rank, nodes, steps, (remark, *measured), f"{path.score:.2f}", path)


def _opening(explanation: Explanation, link: Fact) -> tuple[str, ...]:
    message = clean(explanation.message) or _reason_in_words(explanation, link)
    if not explanation.paths:
        state = "There are no paths to show."
    elif explanation.reason is not None:
        state = "This explanation is not complete."
    else:
        state = ""
    sentences = (*evidence_wording.verdict(explanation), state, message)
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


def _ranking_heading(num_paths: int) -> str:
    if num_paths == 1:
        return "The path that ranks best"
    return f"The {num_paths} paths that rank best, the best first"


def _caveat(explanation: Explanation) -> str:
    if not explanation.paths:
        return ""
    if explanation.evidence is not None:
        return evidence_wording.rule(explanation, explanation.evidence)
    preferred = ["few facts", "nodes with few links"]
    if explanation.epochs:
        preferred.append("links to which the learned mask gives weight")
    return (
        f"Each path is a chain of facts of the graph. The ranking prefers {enumerated(preferred)}."
        " How much the model's answer depends on a path was not measured."
    )
