"""Explorer: everything the page can ask, answered by the library. No HTTP in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from pagelink.errors import LinkError, SettingsError, did_you_mean
from pagelink.explain.building import versions
from pagelink.explain.explainer import PaGELink
from pagelink.explain.ranking import open_ends, rank_among
from pagelink.explain.result import Explanation
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.views.statements import compared
from pagelink.views.templates import colour_places
from pagelink.views.text import words
from pagelink.web import contract
from pagelink.web.answers import explained_answer, node_answer, what_if_answer
from pagelink.web.contract import Choice
from pagelink.web.explained import Explained
from pagelink.web.lookup import NameSearch, Neighbours

MOST_RANKED = 20_000
"""Targets that are ranked at most; of more, this number at random."""
FIRST = 10
_CONTROLS: tuple[tuple[contract.ControlName, str, float, str], ...] = (
    ("paths", "Number of paths", 1, "How many paths are shown at most."),
    (
        "length", "Length of a path", 1,
        "How many facts a path may have; longer ones are searched where these do not carry the "
        "score.",
    ),
    (
        "rho", "Faithful or concise", 0.1,
        "1: only what the paths do to the score counts. 0: only that they are short and pass "
        "through nodes of few facts.",
    ),
)  # fmt: skip
"""The settings that the page offers: name, label, step and meaning."""


class Explorer:
    """Answers questions about the predictions of one explainer's model.

    Args:
        explainer: any explainer; the first of its link types is explored.
        known: links that are true although the graph may not hold them, such as those held out for
            tests, [2, num_links]: they are not offered as new targets.
        score: from pairs [2, num_pairs] to their logits, where that is faster than by the
            explainer: a model that embeds all nodes once.
        title: what the page is called.
        model: the model in words.
        deadline: seconds an explanation may take; what is found by then is shown. None: no end.
        examples: links to begin with, as pairs of indices.
    """

    def __init__(
        self,
        explainer: PaGELink,
        known: Tensor | None = None,
        score: Callable[[Tensor], Tensor] | None = None,
        *,
        title: str = "pagelink",
        model: str = "",
        deadline: float | None = 60.0,
        examples: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.explainer = explainer
        self.graph = explainer.graph
        self.link_type = explainer.link_types[0]
        self._score = score
        self._title, self._model, self._deadline = title, model, deadline
        self._examples = tuple(examples)
        self.neighbours = Neighbours(self.graph, self.link_type, known)
        self._searches: dict[str, NameSearch] = {}

    @cached_property
    def about(self) -> contract.About:
        """What is served."""
        graph = self.graph
        counts = np.diff(graph.node_offset).tolist()
        places = colour_places(graph.node_types)
        # What can be set on the page, with the ranges and defaults of the address.
        ranges = contract.ExplanationAsked.model_json_schema()["properties"]
        controls = [
            contract.Control(
                name=name, label=label, meaning=meaning, lowest=ranges[name]["minimum"],
                highest=ranges[name]["maximum"], step=step, default=ranges[name]["default"],
            )
            for name, label, step, meaning in _CONTROLS
        ]  # fmt: skip
        return contract.About(
            title=self._title,
            model=self._model or type(self.explainer.predictor.model).__name__,
            src_type=self.link_type[0],
            relation=words(self.link_type[1]),
            dst_type=self.link_type[2],
            threshold=self.explainer.threshold,
            node_types=[
                contract.NodeType(type=t, words=words(t), count=n, colour=places[t])
                for t, n in zip(graph.node_types, counts, strict=True)
            ],
            relations=self.neighbours.relations,
            controls=controls,
            examples=[self.node(self.link_type[0], i) for i in self.neighbours.examples],
            example_links=[
                contract.ExampleLink(
                    src=self.node(self.link_type[0], src), dst=self.node(self.link_type[2], dst)
                )
                for src, dst in self._examples
            ],
            warnings=self.explainer.warnings,
            versions=versions(),
        )

    def node(self, node_type: str, index: int) -> contract.Node:
        """A node.

        Raises:
            LinkError: there is none such.
        """
        self.graph.find_node(node_type, index)
        return node_answer(self.graph, node_type, index)

    def search(self, node_type: str, typed: str, limit: int) -> contract.Nodes:
        """The nodes of a type whose names hold what was typed.

        Raises:
            LinkError: there is no such type.
        """
        if node_type not in self.graph.node_types:
            known = ", ".join(self.graph.node_types)
            raise LinkError(f"There is no node type {node_type!r}; there are {known}.")
        if node_type not in self._searches:
            at = self.graph.node_types.index(node_type)
            first, last = self.graph.node_offset[at : at + 2].tolist()
            names = [self.graph.node_name(flat) for flat in range(first, last)]
            self._searches[node_type] = NameSearch(names, self.graph.degree[first:last])
        total, found = self._searches[node_type].find(typed, limit)
        return contract.Nodes(total=total, nodes=[self.node(node_type, i) for i in found])

    def source(self, index: int, limit: int) -> contract.Source:
        """What a source is linked to already."""
        node = self.node(self.link_type[0], index)
        known = self.neighbours.known_of(index)
        return contract.Source(
            node=node,
            known_total=len(known),
            known=self.neighbours.known_answers(index, known[:limit]),
            facts=self.neighbours.facts_at(index, limit),
        )

    def targets(self, src: int, count: int) -> contract.Targets:
        """The best new targets of a source; of equal ones the first is first."""
        node = self.node(self.link_type[0], src)
        candidates = np.setdiff1d(self.neighbours.all_targets(src), self.neighbours.known_of(src))
        logits = self._logits(src, candidates)
        order = np.argsort(-logits, kind="stable")[:count]
        best = [
            contract.Target(
                rank=1 + int((logits > logits[i]).sum()),
                node=node_answer(self.graph, self.link_type[2], int(candidates[i])),
                logit=float(logits[i]),
                probability=float(torch.sigmoid(torch.tensor(logits[i]))),
            )
            for i in order.tolist()
            if np.isfinite(logits[i])
        ]
        return contract.Targets(src=node, total=len(candidates), targets=best)

    def _logits(self, src: int, candidates: Longs) -> Doubles:
        if self._score is not None:
            pairs = torch.from_numpy(np.stack([np.full_like(candidates, src), candidates]))
            logits: Doubles = self._score(pairs).detach().cpu().double().numpy()
            return logits
        if not len(candidates):
            return np.empty(0)
        link = self.explainer.link(src, int(candidates[0]))
        first = self.graph.flat_index(self.link_type[2], 0)
        (found,) = self.explainer.target_scores(link).logits(first + candidates, [()])
        return np.asarray(found)

    def explanation(self, src: int, dst: int, choice: Choice) -> Explanation:
        """The library's explanation of a link.

        Raises:
            LinkError: there is no such link or relation.
        """
        known = [relation.name for relation in self.neighbours.relations]
        for name in choice.exclude:
            if name not in known:
                raise LinkError(f"There is no relation {name!r}.{did_you_mean(name, known)}")
        base = self.explainer.settings
        settings = base.replace(
            num_paths=choice.paths, max_length=choice.length, rho=choice.rho,
            exclude_relations=(*base.exclude_relations, *choice.exclude),
            deadline=self._deadline if base.deadline is None else base.deadline,
        )  # fmt: skip
        return self.explainer.replace(settings, choice.seed).explain(src, dst, negatives=True)

    def explain(self, src: int, dst: int, choice: Choice) -> tuple[Explanation, Explained]:
        """The library's explanation of a link, and the same for the page."""
        explanation = self.explanation(src, dst, choice)
        return explanation, explained_answer(self.graph, explanation)

    def score(self, src: int, dst: int, off: Sequence[int]) -> contract.Score:
        """The model's word on a link, on the graph without some facts.

        Raises:
            LinkError: there is no such link or fact.
        """
        link = self.explainer.link(src, dst)
        scores = self.explainer.target_scores(link)
        before, after = scores.logits(np.array([link.dst]), [(), self._facts(off)])[:, 0].tolist()
        answers = compared(self.explainer.threshold, before, after)
        chances = torch.sigmoid(torch.tensor([before, after], dtype=torch.float64)).tolist()
        return contract.Score(
            off=list(off), logit=after, probability=chances[1], logit_before=before,
            probability_before=chances[0], sentence=f"The {answers.noun} {answers.change}.",
        )  # fmt: skip

    def rank(self, src: int, dst: int, off: Sequence[int]) -> contract.Rank:
        """Where the target stands among the new targets, on the graph without some facts."""
        link = self.explainer.link(src, dst)
        first = self.graph.flat_index(self.link_type[2], 0)
        known = first + self.neighbours.known_of(src)
        targets = open_ends(self.graph, link, known[known != link.dst].tolist())
        total = len(targets)
        if total > MOST_RANKED:
            rng = np.random.default_rng((self.explainer.seed, link.src, link.dst))
            others = rng.choice(targets[targets != link.dst], MOST_RANKED - 1, replace=False)
            targets = np.sort(np.append(others, link.dst))
        own = int(np.searchsorted(targets, link.dst))
        rows = self.explainer.target_scores(link).logits(targets, [(), self._facts(off)])
        return contract.Rank(
            off=list(off), rank=rank_among(rows[1], own), rank_before=rank_among(rows[0], own),
            of=len(targets), is_sample=len(targets) < total,
        )  # fmt: skip

    def what_if(self, src: int, dst: int, at: contract.At, top_k: int | None) -> contract.WhatIf:
        """What would have to be different for the model to decide otherwise.

        A model that only ranks has nothing to turn: there the target is to leave the first ten.

        Raises:
            LinkError: there is no such link, or there are fewer targets.
        """
        if top_k is None and self.explainer.threshold is None:
            top_k = FIRST
        self.explainer.link(src, dst)
        known = [int(i) for i in self.neighbours.known_of(src) if i != dst]
        try:
            found = self.explainer.counterfactual(src, dst, top_k=top_k, at=at, known=known)
        except SettingsError as error:  # more targets than there are
            raise LinkError(str(error)) from error
        return what_if_answer(self.graph, found)

    def _facts(self, off: Sequence[int]) -> list[int]:
        for fact in off:
            if not 0 <= fact < self.graph.num_facts:
                raise LinkError(
                    f"There is no fact {fact}; facts are numbered from 0 to "
                    f"{self.graph.num_facts - 1}."
                )
        return sorted(set(off))
