"""What an explanation says, in plain words: computed once, shown by every view."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pagelink.explanation import Explanation, Path, PathEdge
from pagelink.views.naming import NodeWords, clean, count, isolate, node_words, type_words, words


@dataclass(frozen=True)
class Fact:
    """One statement about two nodes, in the direction in which its words read."""

    subject: NodeWords
    relation: str
    object: NodeWords

    def __str__(self) -> str:
        return f"{self.subject.isolated} {isolate(self.relation)} {self.object.isolated}"


@dataclass(frozen=True)
class Step:
    """A fact as a path walks it."""

    fact: Fact
    backwards: bool
    """The fact's words read from the walk's end to its start."""
    edge: PathEdge
    stored: str
    """The edge type as the graph stores it."""
    details: str
    """What else is known of the fact, such as its source and date; may be empty."""

    def __str__(self) -> str:
        return f"{self.fact} ({self.details})" if self.details else str(self.fact)


@dataclass(frozen=True)
class PathWords:
    """One path: its facts in order, and what else is known about it."""

    rank: int
    nodes: tuple[NodeWords, ...]
    steps: tuple[Step, ...]
    remarks: tuple[str, ...]
    """Sentences about the path as a whole; evidence for it belongs here."""
    score: str


@dataclass(frozen=True)
class ScoreWords:
    """The model's word on the link, under one circumstance."""

    circumstance: str
    """Empty, or whether the link itself was part of the graph."""
    chance: str
    """For example "93 in 100"."""
    raw: str
    probability: float


@dataclass(frozen=True)
class Wording:
    """Everything that an explanation says."""

    link: Fact
    opening: tuple[str, ...]
    """What a reader has to know before all else: why there are no paths. A verdict belongs here."""
    scores: tuple[ScoreWords, ...]
    score_sentence: str
    introduction: str
    """The sentence before the paths; empty if there are none."""
    paths: tuple[PathWords, ...]
    caveat: str
    """What the ranking of the paths does and does not say; empty if there are none."""
    notes: tuple[str, ...]


def wording(explanation: Explanation) -> Wording:
    """Return what the explanation says."""
    nodes = node_words(explanation)
    link = Fact(nodes[explanation.src], words(explanation.link_type[1]), nodes[explanation.dst])
    scores = _scores(explanation)
    paths = tuple(
        _path_words(rank, path, tuple(nodes[node] for node in path.nodes))
        for rank, path in enumerate(explanation.paths, start=1)
    )
    return Wording(
        link=link,
        opening=_opening(explanation, link),
        scores=scores,
        score_sentence=_ranking_sentence(explanation) or _score_sentence(scores),
        introduction=_introduction(len(paths)),
        paths=paths,
        caveat=_caveat(explanation) if paths else "",
        notes=tuple(note for note in map(clean, explanation.notes) if note),
    )


def _path_words(rank: int, path: Path, nodes: tuple[NodeWords, ...]) -> PathWords:
    steps = []
    for edge, start, end in zip(path.edges, nodes[:-1], nodes[1:], strict=True):
        subject, object_ = (end, start) if edge.label_backwards else (start, end)
        fact = Fact(subject, words(edge.label), object_)
        details = ", ".join(f"{clean(k)}: {clean(str(v))}" for k, v in edge.attributes.items())
        steps.append(Step(fact, edge.label_backwards, edge, type_words(edge.type), details))
    inner = [f"{node.short} with {node.links}" for node in nodes[1:-1]]
    remark = f"Passes through {_enumerated(inner)}." if inner else "A direct link between the two."
    return PathWords(rank, nodes, tuple(steps), (remark,), f"{path.score:.2f}")


def _enumerated(items: list[str]) -> str:
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def _opening(explanation: Explanation, link: Fact) -> tuple[str, ...]:
    message = clean(explanation.message) or _reason_in_words(explanation, link)
    if not explanation.paths:
        state = "There are no paths to show."
    elif explanation.reason is not None:
        state = "This explanation is not complete."
    else:
        state = ""
    return tuple(sentence for sentence in (state, message) if sentence)


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


def _scores(explanation: Explanation) -> tuple[ScoreWords, ...]:
    if explanation.threshold is None:
        return ()  # what a ranking model returns is no chance
    taken_out = _score("with the link taken out", explanation.logit, explanation.probability)
    deployed = _score(
        "with the link in place", explanation.logit_deployed, explanation.probability_deployed
    )
    if explanation.link_in_graph:
        return tuple(score for score in (deployed, taken_out) if score is not None)
    alone = _score("", explanation.logit, explanation.probability)
    return () if alone is None else (alone,)


def _score(circumstance: str, logit: float | None, probability: float | None) -> ScoreWords | None:
    if logit is None or probability is None or not math.isfinite(logit):
        return None
    return ScoreWords(circumstance, _chance(probability), f"{logit:.2f}", probability)


def _chance(probability: float) -> str:
    # Rounding must not turn a strong opinion into a certainty.
    if probability > 0.99:
        return "more than 99 in 100"
    if probability < 0.01:
        return "less than 1 in 100"
    return f"{round(100 * probability)} in 100"


def _score_sentence(scores: tuple[ScoreWords, ...]) -> str:
    if not scores:
        return "There is no score of the model for this link."
    told = [f"{score.chance} (raw score {score.raw})" for score in scores]
    if not scores[0].circumstance:
        return f"The model puts the chance of this link at {told[0]}."
    each = [f"{text} {score.circumstance}" for text, score in zip(told, scores, strict=True)]
    return (
        "The link is already part of the graph. The model puts its chance at "
        f"{_enumerated(each)}. The explanation is about the model with the link taken out."
    )


def _ranking_sentence(explanation: Explanation) -> str:
    """What a model that only ranks says of the link: a score that is high or low beside others."""
    if explanation.threshold is not None or explanation.logit is None:
        return ""
    if explanation.link_in_graph and explanation.logit_deployed is not None:
        return (
            "The link is already part of the graph. The model scores it with "
            f"{explanation.logit_deployed:.2f} with the link in place and {explanation.logit:.2f} "
            "with the link taken out. The explanation is about the model with the link taken out."
        )
    return f"The model scores this link with {explanation.logit:.2f}."


def _introduction(num_paths: int) -> str:
    if num_paths == 0:
        return ""
    if num_paths == 1:
        return "The path that ranks best"
    return f"The {num_paths} paths that rank best, the best first"


def _caveat(explanation: Explanation) -> str:
    preferred = ["few facts", "nodes with few links"]
    if explanation.epochs:
        preferred.append("links to which the learned mask gives weight")
    return (
        f"Each path is a chain of facts of the graph. The ranking prefers {_enumerated(preferred)}."
        " How much the model's answer depends on a path was not measured."
    )
