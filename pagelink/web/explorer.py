"""Explorer: everything the page can ask, answered by the library. No HTTP in here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pagelink.audit.result import Audit
from pagelink.errors import LinkError, SettingsError, did_you_mean
from pagelink.explain.explainer import PaGELink
from pagelink.explain.ranking import (
    MOST_RANKED,
    EndScores,
    Standing,
    checked_facts,
    places_of,
    sample_ends,
    standing_without,
)
from pagelink.explain.result import Explanation
from pagelink.graph.links import End, Link, LinkLike
from pagelink.runtime.arrays import Doubles, Longs
from pagelink.views.score_wording import compared
from pagelink.web import contract
from pagelink.web.about import About, ExampleLink, about_answer
from pagelink.web.added import Added
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
from pagelink.web.audited import Audits
from pagelink.web.contract import Choice
from pagelink.web.explained import Explained
from pagelink.web.explainers import Explainers
from pagelink.web.lookup import NameSearch, Neighbours

FIRST = 10
_KEPT = 32
"""Explanations that are kept, to be saved as files."""


class Explorer:
    """Answers questions about the predictions of one explainer's model.

    Args:
        explainer: any explainer; the first of its link types is explored.
        known: links that are true although the graph may not hold them, such as those held out for
            tests, [2, num_links]: they are not offered as new targets. None: the explainer's.
        score: from pairs [2, num_pairs] to their logits, where that is faster than by the
            explainer: a model that embeds all nodes once.
        taken: further pairs that are no new links, such as books that were read, [2, num_pairs]:
            these are neither offered nor ranked.
        title: what the page is called.
        model: the model in words.
        deadline: seconds an explanation may take; what is found by then is shown. None: no end.
        examples: links to begin with, as pairs of indices.
        others: explainers of other models of the same links, to compare with, by what they are
            called.
        audit: an audit of the model that was made before, to be shown.
        sample: from a number to that many links, to audit on request.

    Raises:
        SettingsError: another model, or the audit, is about something else.
    """

    def __init__(
        self,
        explainer: PaGELink,
        known: Tensor | None = None,
        score: Callable[[Tensor], Tensor] | None = None,
        *,
        taken: Tensor | None = None,
        title: str = "pagelink",
        model: str = "",
        deadline: float | None = 60.0,
        examples: Sequence[tuple[int, int]] = (),
        others: Mapping[str, PaGELink] | None = None,
        audit: Audit | None = None,
        sample: Callable[[int], list[LinkLike]] | None = None,
    ) -> None:
        self.graph = explainer.graph
        self.link_type = explainer.link_types[0]
        if known is not None:
            explainer = explainer.replace(known=known)
        shown = explainer.known
        pairs = shown.pairs(self.graph)
        if taken is not None:
            pairs = torch.cat([pairs, taken], dim=1)
            explainer = explainer.replace(known=pairs)
        self.explainer = explainer
        self._others = dict(others or {})
        more = [other.replace(known=pairs) for other in self._others.values()]
        self.explainers = Explainers([explainer, *more])
        # The graphs on which a link is explained, which its what-if figures must agree with.
        self._setup_for = lru_cache(maxsize=64)(explainer.pipeline.setup_for)
        self._score = score
        self._title, self._model, self._deadline = title, model, deadline
        self._examples = tuple(examples)
        self.neighbours = Neighbours(self.graph, self.link_type, shown, explainer.known)
        self._searches: dict[str, NameSearch] = {}
        self._explained: OrderedDict[tuple[int, int, Choice], Explanation] = OrderedDict()
        self.audits = Audits(self.timed, audit, sample, title)

    @cached_property
    def about(self) -> About:
        """What is served."""
        src_type, _, dst_type = self.link_type
        return about_answer(
            self.explainer,
            self.neighbours.relations,
            others=[*self._others],
            audit=self.audits.state,
            title=self._title,
            model=self._model,
            examples=[self.node(src_type, i) for i in self.neighbours.examples],
            example_links=[
                ExampleLink(src=self.node(src_type, src), dst=self.node(dst_type, dst))
                for src, dst in self._examples
            ],
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
        candidates = np.setdiff1d(self.neighbours.all_targets(src), self.neighbours.taken_of(src))
        logits = self._logits(src, candidates, "dst")
        return contract.Targets(
            src=node, total=len(candidates), spread=spread_of(logits),
            targets=self._best(self.link_type[2], candidates, logits, count),
        )  # fmt: skip

    def sources(self, dst: int, count: int) -> contract.Sources:
        """The best new sources of a target; of equal ones the first is first."""
        node = self.node(self.link_type[2], dst)
        known = self.neighbours.known_sources(dst)
        taken = self.neighbours.taken_sources(dst)
        candidates = np.setdiff1d(self.neighbours.all_sources(dst), taken)
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
        ranks, _ = places_of(logits)
        return [
            contract.Target(
                rank=int(ranks[i]),
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

    @property
    def timed(self) -> PaGELink:
        """The explainer with the deadline of the page."""
        base = self.explainer.settings
        limit = self._deadline if base.deadline is None else base.deadline
        return self.explainer.replace(base.replace(deadline=limit))

    def chosen(self, choice: Choice) -> tuple[PaGELink, Added | None]:
        """The explainer under the settings of the page, and what was added to its graph.

        Raises:
            LinkError: there is no such relation, node, explainer or model.
        """
        known = [relation.name for relation in self.neighbours.relations]
        for name in choice.exclude:
            if name not in known:
                raise LinkError(f"There is no relation {name!r}.{did_you_mean(name, known)}")
        base = self.timed.settings
        settings = base.replace(
            num_paths=choice.paths, max_length=choice.length, rho=choice.rho,
            exclude_relations=(*base.exclude_relations, *choice.exclude),
            exclude_nodes=(*base.exclude_nodes, *map(self._key, choice.without)),
            via=(*base.via, *map(self._key, choice.via)),
        )  # fmt: skip
        explainer, added = self.explainers.chosen(choice)
        return explainer.replace(settings, choice.seed), added

    def explain(self, src: int, dst: int, choice: Choice) -> tuple[Explanation, Explained]:
        """The library's explanation of a link, and the same for the page.

        Raises:
            LinkError: there is no such link or relation.
        """
        explainer, added = self.chosen(choice)
        explanation = explainer.explain(src, dst, negatives=True, rank_end=choice.end)
        explanation = added.marked(explanation) if added else explanation
        self._explained[src, dst, choice] = explanation
        while len(self._explained) > _KEPT:
            self._explained.popitem(last=False)
        return explanation, explained_answer(explainer.graph, explanation, added)

    def kept(
        self, src: int, dst: int, choice: Choice, off: Sequence[int]
    ) -> tuple[Explanation, SwitchedOff | None]:
        """An explanation to keep, and what was switched off and added when it was kept.

        Raises:
            LinkError: there is no such link or fact.
        """
        explanation = self._explained.get((src, dst, choice))
        if explanation is None:
            explanation, _ = self.explain(src, dst, choice)
        if not off and not choice.add:
            return explanation, None
        rank = self.rank(src, dst, off, choice.add, choice.end)
        return explanation, switched_off(
            self.graph, explanation, rank, self.explainers.added(choice.add)
        )

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
        found = self._standing(link, np.array([link.dst]), off, add)
        before, after = found.logit_before, found.logit
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
        explainer, link = self.explainer, self.explainer.link(src, dst)
        known = explainer.known.ends(link, end)
        nodes, is_sample = sample_ends(self.graph, link, MOST_RANKED, explainer.seed, end, known)
        found = self._standing(link, nodes, off, add, end)
        return contract.Rank(
            off=list(off), rank=found.rank, rank_before=found.rank_before, ties=found.ties,
            of=found.of, is_sample=is_sample, logit=found.logit, logit_before=found.logit_before,
            spread=spread_of(found.logits),
        )  # fmt: skip

    def _standing(
        self, link: Link, nodes: Longs, off: Sequence[int], add: Sequence[str], end: End = "dst"
    ) -> Standing:
        """How a link stands on the graph as it is, and without some facts and with others."""
        removed = checked_facts(self.graph, off)
        after = self.explainers.added(add)
        if after is None:
            return standing_without(self._setup_for(link), link, nodes, removed, end)
        scores = EndScores(self._setup_for(link), link, end=end)
        moved = [after.fact_of(fact) for fact in removed]
        again = after.explainer.link(self.graph.node(link.src)[1], self.graph.node(link.dst)[1])
        edited = EndScores(after.explainer.pipeline.setup_for(again), again, end=end)
        rows = np.concatenate([scores.logits(nodes, [()]), edited.logits(nodes, [moved])])
        return Standing.among(rows, int(np.searchsorted(nodes, link.at(end))))

    def what_if(
        self, src: int, dst: int, at: contract.At, top_k: int | None, add: Sequence[str] = ()
    ) -> contract.WhatIf:
        """What would have to be different for the model to decide otherwise.

        A model that only ranks has nothing to turn: there the target is to leave the first ten.

        Raises:
            LinkError: there is no such link, or there are fewer targets.
        """
        if top_k is None and self.explainer.threshold is None:
            top_k = FIRST
        self.explainer.link(src, dst)
        added = self.explainers.added(add)
        explainer = added.explainer if added else self.explainer
        first: Literal["source", "paths"] = "paths" if at == "paths" else "source"
        try:
            found = explainer.counterfactual(src, dst, top_k=top_k, at=first)
            if at == "auto" and found.reason in ("none_found", "no_facts"):
                found = explainer.counterfactual(src, dst, top_k=top_k, at="paths")
        except SettingsError as error:  # more targets than there are
            raise LinkError(str(error)) from error
        return what_if_answer(self.graph, found, added)
