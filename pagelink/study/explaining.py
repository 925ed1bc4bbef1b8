"""What each explainer says of each link of a study, and how that is shown.

All explainers have the same budget of facts. A drawing and its sentences depend on the facts alone.
For forecasts, facts are taken away, and the model is asked what it really does without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from pagelink.errors import SettingsError, StudyError, did_you_mean
from pagelink.explain.explainer import PaGELink
from pagelink.graph.lookup import representatives_of_facts
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.checkpoint import Checkpoint
from pagelink.rivals.ground import Ground, fact_paths, free_facts
from pagelink.rivals.pgexp import PGExpLink
from pagelink.rivals.registry import BY_PATH, RIVALS, make_rival
from pagelink.settings import Settings
from pagelink.study.questions import TRUTHS, Shown, Truth
from pagelink.views.drawing.pictures import draw_walks
from pagelink.views.drawing.walks import walks_of
from pagelink.views.layers import NamedFact, Node, columns_of
from pagelink.views.statements import phrases_of
from pagelink.views.subgraph import NOTHING, draw_subgraph
from pagelink.views.templates import graph_colours
from pagelink.views.text import clean, isolate, words

Pair = tuple[int, int]
Progress = Callable[[int, int], None]
SHORT = {"random": "random-paths"}
BUDGET = 9
_THRESHOLD = 0.0
TRIED = 60
"""Facts of a link at most that no explanation shows and that are measured."""
CLEAR = 2.0
"""A change is clear if it is this many times the bar, or the bar this many times the change."""


def explainer_names(given: str) -> tuple[str, ...]:
    """Return the explainers of a list with commas.

    Raises:
        SettingsError: there is no such explainer, one comes twice, or there is only one.

    Example:
        >>> explainer_names("pagelink, random")
        ('pagelink', 'random-paths')
    """
    names = tuple(SHORT.get(name.strip(), name.strip()) for name in given.split(","))
    known = [*RIVALS, *SHORT]
    for name in names:
        if name not in RIVALS:
            raise SettingsError(
                f"An explainer is one of {', '.join(known)}, got {name!r}."
                f"{did_you_mean(name, known)}"
            )
    if len(set(names)) < max(len(names), 2):
        raise SettingsError(f"A study compares two or more different explainers, got {given!r}.")
    return names


def settings_of(name: str, budget: int) -> Settings:
    """Return the settings of an explainer: the budget; only our own method measures to choose.

    Raises:
        SettingsError: the budget is too small for one path.
    """
    length = Settings().max_length
    if budget < length:
        raise SettingsError(
            f"The budget is at least the longest path, {length} facts, got {budget}."
        )
    return Settings(budget=budget, num_paths=budget // length, measure=name == "pagelink")


@dataclass(frozen=True)
class Explainers:
    """Explainers of one trained model, all under the same budget."""

    checkpoint: Checkpoint
    budget: int
    seed: int

    def make(self, name: str) -> PaGELink:
        """Make an explainer."""
        more: dict[str, Any] = {"threshold": _THRESHOLD}
        checkpoint, settings = self.checkpoint, settings_of(name, self.budget)
        if issubclass(RIVALS[name], PGExpLink):
            more["train_links"] = _pairs(checkpoint.split.train)
        model, source, link_type = checkpoint.model, checkpoint.source, checkpoint.link_type
        return make_rival(name, model, source, link_type, settings, self.seed, **more)

    def choose_links(self, explainer: PaGELink, count: int) -> list[Pair]:
        """Draw test links that the model predicts, and between whose ends there is a path.

        Args:
            explainer: one that is quick, to find whether there is a path.
            count: how many.

        Returns:
            The links; fewer if there are no more.

        Raises:
            StudyError: there is none.
        """
        test = self.checkpoint.split.test
        with torch.no_grad():
            predicted = (self.checkpoint.score(test) >= _THRESHOLD).cpu().numpy()
        order = np.random.default_rng((self.seed, 11)).permutation(test.shape[1])
        pairs = _pairs(test)
        drawn = [pairs[place] for place in order[predicted[order]].tolist()]
        explained = zip(drawn, explainer.explain_many(drawn), strict=True)
        chosen = list(islice((pair for pair, answer in explained if answer.paths), count))
        if not chosen:
            raise StudyError(
                f"Of the {test.shape[1]} test links the model predicts {int(predicted.sum())}, and "
                "none of these has a path of at most three facts: there is nothing to ask about. "
                "Train the model longer, or on more links."
            )
        return chosen

    def explain_all(
        self, names: Sequence[str], pairs: Sequence[Pair], progress: Progress
    ) -> list[dict[str, tuple[int, ...]]]:
        """Return, of each link, the facts that each explainer shows; none, if it has nothing.

        Explainers of paths show the facts of their paths; the others the facts of the highest mask.
        """
        found: list[dict[str, tuple[int, ...]]] = [{} for _ in pairs]
        for place, name in enumerate(names):
            for number, facts in enumerate(self._facts(name, pairs)):
                found[number][name] = facts
                progress(place * len(pairs) + number + 1, len(names) * len(pairs))
        return found

    def _facts(self, name: str, pairs: Sequence[Pair]) -> Iterator[tuple[int, ...]]:
        explainer = self.make(name)
        for explanation in explainer.explain_many(pairs):
            facts: Iterable[int] = ()
            if name in BY_PATH:
                (paths,) = fact_paths(explainer, [explanation])
                facts = (fact for path in paths for fact in path)
            elif explanation.reason is None:
                facts = free_facts(explainer.graph, explanation.edge_mask, self.budget)
            yield tuple(sorted(set(facts)))


def _pairs(links: torch.Tensor) -> list[Pair]:
    return [(int(src), int(dst)) for src, dst in links.t().tolist()]


class Words:
    """Says and draws facts in the words of a graph.

    Args:
        graph: the graph.
        link_type: the predicted relation.
    """

    def __init__(self, graph: TypedGraph, link_type: EdgeType) -> None:
        self._graph, self._link_type = graph, link_type
        self._kinds = {kind: words(kind) for kind in graph.node_types}
        # The same as in the explorer and in saved files.
        colours = graph_colours(graph.node_types, [*graph.edge_types, link_type])
        self._colours = {self._kinds[kind]: colour for kind, colour in colours.items()}
        self._alike = {kind: Counter(map(str, names)) for kind, names in graph.names.items()}
        self._relations = {words(relation) for _, relation, _ in graph.edge_types}
        self._edge_of = representatives_of_facts(graph)
        """Of each fact, the edge that states it first."""

    def link(self, pair: Pair) -> str:
        """The predicted link as a sentence."""
        src, dst = map(self._phrase, self._ends(pair))
        return f"{src} {words(self._link_type[1])} {dst}"

    def score(self, logit: float) -> str:
        """What the model says of a link."""
        return f"The model's score for this link is {logit:.2f}."

    def fact(self, fact: int) -> str:
        """A fact as a sentence."""
        src, relation, dst = self._read(fact)
        return f"{self._phrase(src)} {isolate(relation)} {self._phrase(dst)}"

    def shown(self, pair: Pair, facts: Sequence[int]) -> Shown:
        """An explanation, from whichever explainer."""
        src, dst = map(self._node, self._ends(pair))
        named = {fact: self._named(fact) for fact in facts}
        column = columns_of(sorted(named.values(), key=str), src, dst)

        def order(fact: int) -> tuple[int, int, str]:
            at = sorted(column[node] for node in named[fact].ends)
            return at[0], at[-1], self.fact(fact)

        sentences = tuple(f"{self.fact(fact)}." for fact in sorted(facts, key=order))
        title = f"{len(facts)} facts about: {self.link(pair)}"
        drawn = list(named.values())
        svg = draw_subgraph(title, src, dst, drawn, self._colours)
        message = "" if drawn else NOTHING
        narrow = draw_walks(title, walks_of(drawn, src, dst), self._colours, message)
        return Shown(svg, sentences or (NOTHING,), narrow)

    def _ends(self, pair: Pair) -> tuple[int, int]:
        graph, (src_type, _, dst_type) = self._graph, self._link_type
        return graph.flat_index(src_type, pair[0]), graph.flat_index(dst_type, pair[1])

    def _read(self, fact: int) -> tuple[int, str, int]:
        """A fact in the direction of its words, by flat nodes."""
        graph, edge = self._graph, int(self._edge_of[fact])
        relation, backwards = graph.relation_words(graph.edge_types[graph.relation[edge]])
        src, dst = int(graph.src[edge]), int(graph.dst[edge])
        return (dst, clean(relation), src) if backwards else (src, clean(relation), dst)

    def _named(self, fact: int) -> NamedFact:
        src, relation, dst = self._read(fact)
        return NamedFact(self._node(src), relation, self._node(dst))

    def _node(self, flat: int) -> Node:
        kind, index = self._graph.node(flat)
        name = clean(self._graph.node_name(flat))
        if not name or self._alike.get(kind, Counter())[self._graph.node_name(flat)] > 1:
            name = f"{name} (number {index})".strip()
        return self._kinds[kind], name

    def _phrase(self, flat: int) -> str:
        node = self._graph.node(flat)
        return isolate(phrases_of({node: self._node(flat)[1]}, self._relations)[node])


# Facts to take away, with what the model really does without them.


@dataclass(frozen=True)
class Removal:
    """A fact of a link, and how the logit changes when it alone is really taken away."""

    fact: int
    change: float
    truth: Truth
    clear: bool
    """The change is far from the bar between moving and staying."""
    explained: bool
    """Some explainer shows the fact."""


def judged(fact: int, change: float, noise: float, explained: bool) -> Removal:
    """Say what a change is; `noise` is the largest that is not noticed.

    Example:
        >>> judged(4, -0.3, 0.02, True).truth, judged(4, 0.015, 0.02, True).truth
        ('fall', 'stay')
    """
    if abs(change) <= noise:
        return Removal(fact, change, "stay", abs(change) * CLEAR <= noise, explained)
    truth: Truth = "rise" if change > 0 else "fall"
    return Removal(fact, change, truth, abs(change) >= CLEAR * noise, explained)


def measure(
    grounds: Iterable[Ground], shown: Sequence[set[int]], seed: int, progress: Progress
) -> tuple[list[list[Removal]], list[float]]:
    """Take away, one at a time, facts of each link, and ask the model.

    Args:
        grounds: the links; of a large graph they fill the memory, so each is let go after its turn.
        shown: of each link, the facts that some explainer shows.
        seed: of the draw among other facts that the model sees.
        progress: called with the number of links done.

    Returns:
        Of each link, what was taken away, and the logit before.
    """
    found: list[list[Removal]] = []
    logits: list[float] = []
    for ground in grounds:
        noise = ground.explainer.setup.noise
        for link in range(ground.num_links):
            explained = shown[len(found)]
            pool = sorted(explained) + _others(ground, link, explained, seed)
            effects = ground.effects([link] * len(pool), [[fact] for fact in pool])
            logits.append(float(ground.logits[link]))
            removals = zip(pool, effects, strict=True)
            found.append(
                [judged(fact, -float(e), noise, fact in explained) for fact, e in removals]
            )
            progress(len(found), len(shown))
    return found, logits


def _others(ground: Ground, link: int, explained: set[int], seed: int) -> list[int]:
    """Facts that the model sees and no explanation shows, drawn at random."""
    slots = np.arange(*ground.batch.edge_ptr[link : link + 2])
    facts = ground.explainer.graph.fact[ground.batch.edges[slots[ground.whole[slots]]]]
    others = np.setdiff1d(facts, sorted(explained))
    ends = ground.links[link]
    rng = np.random.default_rng((seed, 12, ends.src, ends.dst))
    return [int(fact) for fact in rng.permutation(others)[:TRIED]]


def balanced(removals: Sequence[Sequence[Removal]], count: int, seed: int) -> dict[int, Removal]:
    """Pick a fact of each of `count` links, so that the true answers are as even as can be.

    Links with the fewest possible answers choose first, and take the answer that is rarest so far.
    Within an answer, clear changes are preferred, and facts that are explained and such that are
    not have the same chance: being shown must not give the answer away.

    Returns:
        The facts, by number of the link.
    """
    rng = np.random.default_rng((seed, 13))
    possible = [{each.truth for each in of_link} for of_link in removals]
    links = [int(link) for link in rng.permutation(len(removals)) if possible[link]]
    so_far = dict.fromkeys(TRUTHS, 0)
    chosen: dict[int, Removal] = {}
    for link in sorted(links, key=lambda link: len(possible[link])):
        truth = min(sorted(possible[link]), key=lambda truth: so_far[truth])
        so_far[truth] += 1
        of_truth = [each for each in removals[link] if each.truth == truth]
        chosen[link] = _drawn(of_truth, rng)
    while len(chosen) > count:  # what is too many goes from the commonest answer
        commonest = max(TRUTHS, key=lambda truth: so_far[truth])
        common = [link for link in links if link in chosen and chosen[link].truth == commonest]
        so_far[commonest] -= 1
        del chosen[common[-1]]
    return dict(sorted(chosen.items()))


def _drawn(removals: list[Removal], rng: np.random.Generator) -> Removal:
    clear = [each for each in removals if each.clear] or removals
    explained = bool(rng.integers(2))
    alike = [each for each in clear if each.explained == explained] or clear
    return alike[int(rng.integers(len(alike)))]
