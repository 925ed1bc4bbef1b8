"""Explorer: everything the page can ask, answered by the library. No HTTP in here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pagelink.errors import LinkError, SettingsError, did_you_mean
from pagelink.explain.building import versions
from pagelink.explain.explainer import PaGELink
from pagelink.explain.ranking import EndScores, open_ends, rank_among
from pagelink.explain.result import Explanation
from pagelink.graph.links import End, Link
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.views.statements import compared
from pagelink.views.templates import colour_at, connected_types
from pagelink.views.text import words
from pagelink.web import contract
from pagelink.web.added import added_to
from pagelink.web.answers import (
    SwitchedOff,
    address_in,
    attributes_of,
    explained_answer,
    node_answer,
    spread_of,
    switched_off,
    what_if_answer,
)
from pagelink.web.contract import Choice
from pagelink.web.explained import Explained
from pagelink.web.lookup import NameSearch, Neighbours

MOST_RANKED = 20_000
"""Targets that are ranked at most; of more, this number at random."""
FIRST = 10
_KEPT = 32
"""Explanations that are kept, to be saved as files."""
_CONTROLS: tuple[tuple[contract.ControlName, str, float, str], ...] = (
    ("paths", "Number of paths", 1, "How many paths are shown at most."),
    (
        "length", "Length of a path", 1,
        "How many facts a path may have; longer ones are searched where these do not carry the "
        "score.",
    ),
    (
        "rho", "Faithful or concise", 0.05,
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
        self._explained: OrderedDict[tuple[int, int, Choice], Explanation] = OrderedDict()

    @cached_property
    def about(self) -> contract.About:
        """What is served."""
        graph = self.graph
        counts = np.diff(graph.node_offset).tolist()
        connected = connected_types([*graph.edge_types, self.link_type])
        # Types that no relation has are named by no explanation: they come last.
        order = sorted(graph.node_types, key=lambda kind: (kind not in connected, kind))
        colours = {kind: colour_at(place) for place, kind in enumerate(order)}
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
                contract.NodeType(
                    type=t, words=words(t), count=n, colour=colours[t].main, sign=colours[t].sign
                )
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
        """The nodes of a type (or of all) whose names hold what was typed, or are near it.

        Raises:
            LinkError: there is no such type.
        """
        graph = self.graph
        first, last = 0, graph.num_nodes
        if node_type:
            self.check_type(node_type)
            at = graph.node_types.index(node_type)
            first, last = graph.node_offset[at : at + 2].tolist()
        if node_type not in self._searches:
            names = [graph.node_name(flat) for flat in range(first, last)]
            self._searches[node_type] = NameSearch(names, graph.degree[first:last])
        total, found = self._searches[node_type].find(typed, limit)
        near = [] if total else self._searches[node_type].near(typed, limit)
        nodes = [node_answer(graph, *graph.node(first + i)) for i in found or near]
        return contract.Nodes(total=total or len(near), nodes=nodes, is_near=bool(near))

    def check_type(self, node_type: str) -> None:
        """Refuse a node type that the graph does not have.

        Raises:
            LinkError: there is no such type.
        """
        if node_type not in self.graph.node_types:
            known = ", ".join(self.graph.node_types)
            raise LinkError(f"There is no node type {node_type!r}; there are {known}.")

    def card(self, node_type: str, index: int, limit: int) -> contract.NodeCard:
        """What is known of a node.

        Raises:
            LinkError: there is no such node.
        """
        self.check_type(node_type)
        node = self.node(node_type, index)
        flat = self.graph.flat_index(node_type, index)
        said = attributes_of(self.explainer.predictor.data, node_type, index)
        return contract.NodeCard(
            node=node, id=self.graph.node_id(flat), attributes=said, address=address_in(said),
            facts=self.neighbours.facts_at(flat, limit, predicted=True),
        )  # fmt: skip

    def source(self, index: int, limit: int) -> contract.Source:
        """What a source is linked to already."""
        node = self.node(self.link_type[0], index)
        known = self.neighbours.known_of(index)
        return contract.Source(
            node=node,
            known_total=len(known),
            known=self.neighbours.known_answers(index, known[:limit]),
            facts=self.neighbours.facts_at(
                self.graph.flat_index(self.link_type[0], index), limit, predicted=False
            ),
        )

    def targets(self, src: int, count: int) -> contract.Targets:
        """The best new targets of a source; of equal ones the first is first."""
        node = self.node(self.link_type[0], src)
        candidates = np.setdiff1d(self.neighbours.all_targets(src), self.neighbours.known_of(src))
        logits = self._logits(src, candidates, "dst")
        return contract.Targets(
            src=node, total=len(candidates), spread=spread_of(logits),
            targets=self._best(self.link_type[2], candidates, logits, count),
        )  # fmt: skip

    def sources(self, dst: int, count: int) -> contract.Sources:
        """The best new sources of a target; of equal ones the first is first."""
        node = self.node(self.link_type[2], dst)
        known = self.neighbours.known_sources(dst)
        candidates = np.setdiff1d(self.neighbours.all_sources(dst), known)
        logits = self._logits(dst, candidates, "src")
        return contract.Sources(
            dst=node, total=len(candidates), spread=spread_of(logits),
            sources=self._best(self.link_type[0], candidates, logits, count),
            known_total=len(known), known=self.neighbours.known_source_answers(dst, known[:count]),
        )  # fmt: skip

    def _best(
        self, node_type: str, candidates: Longs, logits: Doubles, count: int
    ) -> list[contract.Target]:
        order = np.argsort(-logits, kind="stable")[:count]
        return [
            contract.Target(
                rank=1 + int((logits > logits[i]).sum()),
                node=node_answer(self.graph, node_type, int(candidates[i])),
                logit=float(logits[i]),
                probability=float(torch.sigmoid(torch.tensor(logits[i]))),
            )
            for i in order.tolist()
            if np.isfinite(logits[i])
        ]

    def _logits(self, stays: int, candidates: Longs, end: End) -> Doubles:
        """The scores of links from or to a node; `end` is the end that the candidates are at."""
        if not len(candidates):
            return np.empty(0)
        if self._score is not None:
            ends = [np.full_like(candidates, stays), candidates]
            pairs = torch.from_numpy(np.stack(ends if end == "dst" else ends[::-1]))
            logits: Doubles = self._score(pairs).detach().cpu().double().numpy()
            return logits
        one = int(candidates[0])
        link = self.explainer.link(*((stays, one) if end == "dst" else (one, stays)))
        first = self.graph.flat_index(self.link_type[2 if end == "dst" else 0], 0)
        scores = EndScores(self.explainer.setup, link, end=end)
        (found,) = scores.logits(first + candidates, [()])
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
            exclude_nodes=(*base.exclude_nodes, *map(self._key, choice.without)),
            via=(*base.via, *map(self._key, choice.via)),
            deadline=self._deadline if base.deadline is None else base.deadline,
        )  # fmt: skip
        return self.explainer.replace(settings, choice.seed).explain(src, dst, negatives=True)

    def explain(self, src: int, dst: int, choice: Choice) -> tuple[Explanation, Explained]:
        """The library's explanation of a link, and the same for the page."""
        explanation = self.explanation(src, dst, choice)
        self._explained[src, dst, choice] = explanation
        while len(self._explained) > _KEPT:
            self._explained.popitem(last=False)
        return explanation, explained_answer(self.graph, explanation)

    def kept(
        self, src: int, dst: int, choice: Choice, off: Sequence[int]
    ) -> tuple[Explanation, SwitchedOff | None]:
        """An explanation to keep, and what was switched off when it was kept.

        Raises:
            LinkError: there is no such link or fact.
        """
        explanation = self._explained.get((src, dst, choice))
        if explanation is None:
            explanation, _ = self.explain(src, dst, choice)
        if not off:
            return explanation, None
        rank = self.rank(src, dst, off)
        return explanation, switched_off(self.graph, explanation, rank)

    def _key(self, node: str) -> tuple[str, int]:
        """A node as the settings name it, from `movie:3`.

        Raises:
            LinkError: there is no such node.
        """
        node_type, _, index = node.rpartition(":")
        self.check_type(node_type)
        self.graph.find_node(node_type, int(index))
        return node_type, int(index)

    def score(
        self, src: int, dst: int, off: Sequence[int], add: Sequence[str] = ()
    ) -> contract.Score:
        """The model's word on a link, on the graph without some facts and with others.

        Raises:
            LinkError: there is no such link or fact.
        """
        link = self.explainer.link(src, dst)
        before, after = self._edited(link, np.array([link.dst]), off, add)[:, 0].tolist()
        answers = compared(before, after)
        chances = torch.sigmoid(torch.tensor([before, after], dtype=torch.float64)).tolist()
        return contract.Score(
            off=list(off), logit=after, probability=chances[1], logit_before=before,
            probability_before=chances[0], sentence=f"The score {answers.change}.",
        )  # fmt: skip

    def rank(
        self, src: int, dst: int, off: Sequence[int], add: Sequence[str] = (), end: End = "dst"
    ) -> contract.Rank:
        """Where an end of a link stands among the new ones, on the same edited graph."""
        link = self.explainer.link(src, dst)
        first = self.graph.flat_index(self.link_type[2 if end == "dst" else 0], 0)
        near = self.neighbours
        known = first + (near.known_of(src) if end == "dst" else near.known_sources(dst))
        nodes = open_ends(self.graph, link, known[known != link.at(end)].tolist(), end)
        total = len(nodes)
        if total > MOST_RANKED:
            rng = np.random.default_rng((self.explainer.seed, link.src, link.dst))
            others = rng.choice(nodes[nodes != link.at(end)], MOST_RANKED - 1, replace=False)
            nodes = np.sort(np.append(others, link.at(end)))
        own = int(np.searchsorted(nodes, link.at(end)))
        rows = self._edited(link, nodes, off, add, end)
        return contract.Rank(
            off=list(off), rank=rank_among(rows[1], own), rank_before=rank_among(rows[0], own),
            of=len(nodes), is_sample=len(nodes) < total, logit=float(rows[1][own]),
            logit_before=float(rows[0][own]), spread=spread_of(rows[1]),
        )  # fmt: skip

    def _edited(
        self, link: Link, nodes: Longs, off: Sequence[int], add: Sequence[str], end: End = "dst"
    ) -> Doubles:
        """The logits of nodes at an end: on the graph as it is, and without and with some facts."""
        removed = self._facts(off)
        scores = EndScores(self.explainer.setup, link, end=end)
        if not add:
            return scores.logits(nodes, [(), removed])
        after = added_to(self.explainer, add)
        moved = [after.fact_of(self.graph, fact) for fact in removed]
        again = after.explainer.link(self.graph.node(link.src)[1], self.graph.node(link.dst)[1])
        edited = EndScores(after.explainer.setup, again, end=end)
        return np.concatenate([scores.logits(nodes, [()]), edited.logits(nodes, [moved])])

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
        first: Literal["source", "paths"] = "paths" if at == "paths" else "source"
        try:
            found = self.explainer.counterfactual(src, dst, top_k=top_k, at=first, known=known)
            if at == "auto" and found.reason in ("none_found", "no_facts"):
                found = self.explainer.counterfactual(
                    src, dst, top_k=top_k, at="paths", known=known
                )
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
