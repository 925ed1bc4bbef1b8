"""What facts put into the learned embeddings of source and target, in a graph network.

Removing a fact from the input of a graph network says nothing of what the model learned from it.
So the rows of source and target in its tables of embeddings are trained anew from random starts,
everything else frozen, on the links of these two nodes that it was trained on: once with those
among the facts in question, and once without them. Messages pass along all facts either way.
Either end, with its new rows, is scored on the whole graph beside the other as the model has it;
the mean difference over the starts, of both ends together, is what the facts put in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from pagelink.errors import SettingsError
from pagelink.explain.options import facts_of
from pagelink.explain.preparation import Prepared
from pagelink.explain.result import Embedded, Explanation
from pagelink.graph.links import Link
from pagelink.graph.lookup import states_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.model.borrowing import in_normal_mode
from pagelink.runtime.arrays import Bools, Doubles, Floats, Longs
from pagelink.trained.node_tables import NodeTable, learned_tables, passes
from pagelink.trained.training import Adam, Training, random_start


@in_normal_mode
def put_into_embeddings(
    explainer: Prepared,
    explanation: Explanation,
    training: Training | None = None,
) -> Embedded | None:
    """Return what the facts of the returned paths put into the embeddings of source and target.

    Args:
        explainer: of a model that passes messages.
        explanation: one of its explanations.
        training: how rows are trained; `others` is the number of random links of each end.

    Returns:
        None if neither source nor target has a learned row, or if no fact on a path is a link of
        one of them that the model was trained on: one of its link types.

    Raises:
        SettingsError: the graph is a store on disk.
    """
    if explainer.store is not None:
        raise SettingsError(
            "What facts put into embeddings takes passes over the whole graph, and this one is a "
            "store on disk. Make the explainer with the graph in memory, a HeteroData."
        )
    training = training or Training()
    if not explanation.paths:
        return None
    link = explainer.link(explanation.src[1], explanation.dst[1], explanation.link_type)
    facts = facts_of(explainer.graph, explanation.paths)
    links = TrainingLinks.of(explainer, link, facts, training)
    tables = learned_tables(explainer.predictor, link) if links.is_in_question.any() else []
    if not tables:
        return None
    scores = _scores(explainer, link, tables, links, training)
    effect = scores[0] - scores[1]
    return Embedded(
        float(effect.mean()),
        float(effect.std(ddof=1) / np.sqrt(len(effect))),
        training.starts,
        int(links.is_in_question.sum()),
        tuple(
            name
            for name, end in (("src", link.src), ("dst", link.dst))
            if any(end in table.nodes for table in tables)
        ),
    )


@dataclass(frozen=True)
class TrainingLinks:
    """The links of source and target that the model was trained on; flat nodes."""

    src: Longs
    dst: Longs
    relation: Longs
    weight: Floats
    """For how many links each stands."""
    is_in_question: Bools
    """Whether it is one of the facts of the paths."""
    end: Longs
    """Whose link it is: the source or the target of the explained one."""
    known: Longs
    """All links that are true, and the explained one, by `codes`."""

    @classmethod
    def of(cls, explainer: Prepared, link: Link, facts: Longs, training: Training) -> TrainingLinks:
        """Collect the links of the graph; of an end with more than `max_facts`, some at random."""
        graph = explainer.graph
        kinds = [graph.edge_types.index(each) for each in explainer.link_types]
        edges = np.flatnonzero(np.isin(graph.relation, kinds) & (graph.fact != link.fact))
        src, dst, relation = (
            each[edges].astype(np.int64) for each in (graph.src, graph.dst, graph.relation)
        )
        asked = np.isin(graph.fact[edges], facts)
        is_new = (src != link.src) | (dst != link.dst)
        parts, weights = [], []
        for end in (link.src, link.dst):
            mine = np.flatnonzero(((src == end) | (dst == end)) & is_new)
            chosen, weight = _some(mine, asked[mine], training.max_facts, explainer.seed, end)
            parts.append(chosen)
            weights.append(weight)
        rows = np.concatenate(parts)
        return cls(
            src[rows], dst[rows], relation[rows], np.concatenate(weights).astype(np.float32),
            asked[rows], np.repeat([link.src, link.dst], [len(part) for part in parts]),
            np.append(_codes(graph, src, dst), link.src * graph.num_nodes + link.dst),
        )  # fmt: skip

    def random_links(
        self, graph: TypedGraph, count: int, rng: np.random.Generator
    ) -> tuple[Longs, Longs]:
        """Return random links: which link each is made of, and the node it has at the far end.

        They are not among the true ones. Like the facts of others in `contrast`, they stand
        together for as many as the links of their end.
        """
        places, nodes = [], []
        for end in np.unique(self.end):
            mine = np.flatnonzero(self.end == end)
            place = rng.choice(mine, count)
            far = np.where(self.src[place] == end, self.dst[place], self.src[place])
            kind = graph.node_type_of[far]
            drawn = rng.integers(graph.node_offset[kind], graph.node_offset[kind + 1])
            ends = self.moved(place, drawn)
            is_new = ~np.isin(_codes(graph, *ends), self.known) & (drawn != end)
            places.append(place[is_new])
            nodes.append(drawn[is_new])
        return np.concatenate(places), np.concatenate(nodes).astype(np.int64)

    def moved(self, place: Longs, node: Longs) -> tuple[Longs, Longs]:
        """Return source and target of links with another node at their far end."""
        from_src = self.src[place] == self.end[place]
        src, dst = self.src[place], self.dst[place]
        return np.where(from_src, src, node), np.where(from_src, node, dst)

    def weights(self, place: Longs, *, without: bool) -> Floats:
        """Return how much each link counts, and then each random link.

        Args:
            place: which links the random ones are made of.
            without: the facts in question do not count.
        """
        mine = self.weight * ~(self.is_in_question & without)
        end = self.end[place]
        random = np.zeros(len(place), dtype=np.float32)
        for each in np.unique(end):
            random[end == each] = mine[self.end == each].sum() / (end == each).sum()
        return np.concatenate([mine, random]).astype(np.float32)


def _codes(graph: TypedGraph, src: Longs, dst: Longs) -> Longs:
    return src * graph.num_nodes + dst


def _some(mine: Longs, asked: Bools, most: int, seed: int, end: int) -> tuple[Longs, Doubles]:
    """At most some links of an end, those in question always, and for how many each stands."""
    rest = mine[~asked]
    weight = np.ones(len(rest))
    if len(rest) > most:
        chosen = np.random.default_rng((seed, end, 1)).permutation(len(rest))[:most]
        rest, weight = rest[chosen], np.full(most, len(rest) / most)
    return np.concatenate([mine[asked], rest]), np.concatenate([np.ones(asked.sum()), weight])


def _scores(
    explainer: Prepared,
    link: Link,
    tables: list[NodeTable],
    links: TrainingLinks,
    training: Training,
) -> Doubles:
    """[2, starts]: the scores after training with the facts, and without them.

    Each is the sum of two: with new rows of the source, and with new rows of the target. With both
    at once, what their vectors have in common where no link says anything would be mostly chance.
    """
    predictor, graph, device = explainer.predictor, explainer.graph, explainer.predictor.device
    own = np.array([link.fact] if link.fact >= 0 else [], dtype=np.int64)
    relation = np.array([graph.edge_types.index(link.type)])
    # What is out of reach of the links is nothing to their scores.
    hops = explainer.receptive_field.num_hops
    asked = predictor.full_graph(
        np.array([link.src]), np.array([link.dst]), relation, states_facts(graph, own)
    )
    found = np.empty((2, training.starts))
    for start in range(training.starts):
        rng = np.random.default_rng((explainer.seed, link.src, link.dst, start))
        place, node = links.random_links(graph, training.others, rng)
        random = links.moved(place, node)
        ends = np.concatenate([links.src, random[0]]), np.concatenate([links.dst, random[1]])
        kinds = np.concatenate([links.relation, links.relation[place]])
        far = ~_within(graph, np.concatenate(ends), hops)
        is_true = torch.arange(len(kinds), device=device) < len(links.src)
        inputs = predictor.full_graph(*ends, kinds, states_facts(graph, own) | far)
        for row, without in enumerate((False, True)):
            weight = torch.from_numpy(links.weights(place, without=without)).to(device)
            with passes(predictor, tables) as run:
                sides = torch.where(is_true, -1.0, 1.0)
                trained = _trained(
                    partial(run, inputs=inputs), tables, (weight, sides), (explainer.seed, start),
                    training,
                )  # fmt: skip
                with torch.no_grad():
                    found[row, start] = sum(
                        float(run(_of_end(tables, trained, end), asked)[0])
                        for end in (link.src, link.dst)
                    )
    return found


def _of_end(tables: list[NodeTable], trained: list[Tensor], end: int) -> list[Tensor]:
    """The tables with the new rows of one end alone; the other end has those of the model."""
    values = []
    for table, rows in zip(tables, trained, strict=True):
        mine = torch.tensor([node == end for node in table.nodes], device=rows.device)
        own = table.values[list(table.rows)]
        values.append(
            table.with_rows(torch.where(mine.view(-1, *[1] * (rows.dim() - 1)), rows, own))
        )
    return values


def _within(graph: TypedGraph, ends: Longs, num_hops: int | None) -> Bools:
    """Per edge, whether its message reaches one of some nodes; None: any may."""
    if num_hops is None:
        return np.ones(graph.num_edges, dtype=np.bool_)
    seen = np.zeros(graph.num_nodes, dtype=np.bool_)
    seen[ends] = True
    edges = np.zeros(graph.num_edges, dtype=np.bool_)
    for _ in range(num_hops):
        edges = seen[graph.dst] | seen[graph.src]  # whichever way the model passes messages
        seen[graph.src[edges]] = seen[graph.dst[edges]] = True
    return edges


def _trained(
    score: Callable[[Sequence[Tensor]], Tensor],
    tables: list[NodeTable],
    loss: tuple[Tensor, Tensor],
    start: tuple[int, int],
    training: Training,
) -> list[Tensor]:
    """The rows of source and target in each table, trained anew by the log-loss of links.

    They grow no longer than the median of the table: a few links alone, without what kept the model
    from learning them by heart, would be distinguished by ever longer vectors.

    Args:
        score: from the values of the tables to the logits of the links.
        tables: the tables.
        loss: per link, how much it counts, and -1 if it is true, 1 if it is random.
        start: seed and number of the start.
        training: how.
    """
    weight, side = loss
    rows, steps, lengths = [], [], []
    for table in tables:
        lengths.append(table.values.reshape(len(table.values), -1).norm(dim=1).median())
        spread = float(table.values.std(correction=0)) or 1.0
        size = table.values[0].numel()
        drawn = [
            random_start(node, training.starts, size, spread, start[0])[start[1]]
            for node in table.nodes
        ]
        shape = (len(drawn), *table.values.shape[1:])
        mine = torch.stack(drawn).reshape(shape).to(table.values).requires_grad_()
        rows.append(mine)
        steps.append(Adam(mine.data, training, spread))
    for _ in range(training.steps):
        logits = score([table.with_rows(mine) for table, mine in zip(tables, rows, strict=True)])
        total = (weight * softplus(side * logits)).sum()
        gradients = torch.autograd.grad(total, rows, allow_unused=True, materialize_grads=True)
        for step, gradient in zip(steps, gradients, strict=True):
            step.step(gradient.clone())
        for mine, most in zip(rows, lengths, strict=True):
            flat = mine.data.reshape(len(mine), -1)
            flat *= (most / flat.norm(dim=1, keepdim=True).clamp(min=1e-12)).clamp(max=1)
    return [mine.detach() for mine in rows]
