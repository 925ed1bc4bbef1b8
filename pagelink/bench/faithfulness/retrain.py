"""Judge (c): the model trained anew without the facts of the paths."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch_geometric.data import HeteroData

from pagelink.bench.subjects import Subject
from pagelink.graph.lookup import edges_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.feeds import scorer
from pagelink.models.link_model import LinkModel, node_inputs
from pagelink.models.links import split_graph
from pagelink.models.messages import message_graph
from pagelink.models.training import train
from pagelink.rivals.ground import Ranked, facts_of
from pagelink.runtime.arrays import Doubles

LINKS = 20


def retrained_effects(
    subject: Subject,
    shown: Mapping[str, Ranked],
    seed: int,
    links: int = LINKS,
    progress: Callable[[str], None] = lambda what: None,
) -> dict[str, Doubles]:
    """Return, per ranking, how far the logits of the first links fall when training never saw them.

    For each link the facts of its paths are taken out of the graph, and a model with the same first
    weights and the same seed is trained and asked. Training is chaotic: a change of one fact moves
    all weights. So the row of the random paths is the measure of what any change does.

    Args:
        subject: a subject that was trained here on a split that keeps the links out of messages.
        shown: per ranking, the paths of each link.
        seed: the one the subject was trained with.
        links: number of links.
        progress: called with what comes next.
    """
    pairs = subject.pairs[:links]
    graph = TypedGraph.from_data(subject.data, [subject.link_type])
    before = np.array([_logit(subject.model, subject.data, pair) for pair in pairs])
    effects = {}
    for name, ranked in shown.items():
        after = []
        for number, pair in enumerate(pairs):
            progress(f"{subject.name}: training without the paths, {name}, link {number + 1}")
            after.append(_without(subject, graph, facts_of(ranked[number]), pair, seed))
        effects[name] = before - np.array(after)
    return effects


def _without(
    subject: Subject, graph: TypedGraph, facts: Sequence[int], pair: tuple[int, int], seed: int
) -> float:
    assert subject.whole is not None
    assert subject.settings is not None
    data = without_facts(subject.whole, graph, facts)
    model = type(subject.model)(**subject.model.config)
    split = split_graph(subject.whole, subject.link_type, seed)
    settings = dataclasses.replace(subject.settings, retrain_edgeless=False)
    train(model, data, subject.link_type, split, settings, seed=seed)
    seen = message_graph(data, subject.link_type, split.train, paper_split=settings.paper_split)
    return _logit(model, seen, pair)


def without_facts(whole: HeteroData, graph: TypedGraph, facts: Sequence[int]) -> HeteroData:
    """The graph without all edges that state some facts.

    Args:
        whole: the graph.
        graph: its relations but the predicted one, flat: columns are the same in both.
        facts: facts of the flat graph.
    """
    data = copy.copy(whole)
    edges = edges_of_facts(graph, facts)
    for position in np.unique(graph.relation[edges]):
        edge_type = graph.edge_types[position]
        columns = graph.column[edges[graph.relation[edges] == position]]
        kept = torch.ones(whole[edge_type].edge_index.shape[1], dtype=torch.bool)
        kept[torch.from_numpy(columns.astype(np.int64))] = False
        data[edge_type].edge_index = whole[edge_type].edge_index[:, kept]
    return data


def _logit(model: LinkModel, data: HeteroData, pair: tuple[int, int]) -> float:
    score = scorer(model, node_inputs(data), dict(data.edge_index_dict))
    return float(score(torch.tensor([[pair[0]], [pair[1]]])))
