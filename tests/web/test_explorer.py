from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink import PaGELink, Settings
from pagelink.datasets.useritemattr import UserItemAttr, generate_useritemattr
from pagelink.errors import LinkError
from pagelink.explain.ranking import MOST_RANKED
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.architectures import RGCN
from pagelink.models.links import split_links
from pagelink.web.contract import Choice
from pagelink.web.explorer import Explorer

SEED = 3


@pytest.fixture(scope="module")
def dataset() -> UserItemAttr:
    return generate_useritemattr(seed=SEED)


@pytest.fixture(scope="module")
def explorer(dataset: UserItemAttr) -> Explorer:
    # An untrained model has scores as good as any to be compared.
    model = RGCN.for_data(dataset.data, dataset.link_type, paper_split=True, seed=SEED).eval()
    split = split_links(dataset.likes, SEED)
    explainer = PaGELink(model, dataset.data, dataset.link_type, seed=SEED)
    return Explorer(explainer, split.all)


def logits(model: torch.nn.Module, data: HeteroData, pairs: torch.Tensor) -> list[float]:
    x_dict = {t: torch.arange(data[t].num_nodes) for t in data.node_types}
    with torch.no_grad():
        found: list[float] = model(x_dict, data.edge_index_dict, pairs).double().tolist()
    return found


def without(data: HeteroData, graph: TypedGraph, facts: Iterable[int]) -> HeteroData:
    """The graph from which facts are really removed, all copies and both directions."""
    gone = np.isin(graph.fact, list(facts))
    left = data.clone()
    for position, edge_type in enumerate(graph.edge_types[: graph.num_relations]):
        columns = graph.column[gone & (graph.relation == position)]
        keep = torch.ones(data[edge_type].edge_index.shape[1], dtype=torch.bool)
        keep[torch.from_numpy(columns.astype(np.int64))] = False
        left[edge_type].edge_index = data[edge_type].edge_index[:, keep]
    return left


def best_link(explorer: Explorer) -> tuple[int, int]:
    """A source with its best target."""
    return 7, explorer.targets(7, 1).targets[0].node.index


def test_targets_are_the_models_best_new_ones(explorer: Explorer, dataset: UserItemAttr) -> None:
    model = explorer.explainer.predictor.model
    answer = explorer.targets(7, 5)
    known = set(dataset.likes[1, dataset.likes[0] == 7].tolist())
    new = [i for i in range(dataset.data["item"].num_nodes) if i not in known]
    scores = logits(model, dataset.data, torch.tensor([[7] * len(new), new]))
    best = sorted(range(len(new)), key=lambda i: (-scores[i], i))[:5]
    assert [target.node.index for target in answer.targets] == [new[i] for i in best]
    assert [target.logit for target in answer.targets] == pytest.approx(
        [scores[i] for i in best], abs=1e-4
    )
    assert [target.rank for target in answer.targets] == [1, 2, 3, 4, 5]
    assert answer.total == len(new)


def test_a_faster_way_to_score_gives_the_same_targets(
    explorer: Explorer, dataset: UserItemAttr
) -> None:
    model = explorer.explainer.predictor.model

    def score(pairs: torch.Tensor) -> torch.Tensor:
        return torch.tensor(logits(model, dataset.data, pairs))

    faster = Explorer(explorer.explainer, torch.as_tensor(dataset.likes), score)
    slow = [target.node.index for target in explorer.targets(7, 10).targets]
    assert [target.node.index for target in faster.targets(7, 10).targets] == slow


def test_a_score_without_facts_is_the_models_on_the_graph_without_them(
    explorer: Explorer, dataset: UserItemAttr
) -> None:
    src, dst = best_link(explorer)
    answer = explorer.explain(src, dst, Choice())[1]
    model = explorer.explainer.predictor.model
    pair = torch.tensor([[src], [dst]])
    for path in (path for group in answer.groups for path in group.paths):
        facts = [step.fact for step in path.steps]
        edited = without(dataset.data, explorer.graph, facts)
        assert sum(edited[t].edge_index.shape[1] for t in edited.edge_types) == sum(
            dataset.data[t].edge_index.shape[1] for t in dataset.data.edge_types
        ) - 2 * len(facts), "a fact is an edge and its reverse"
        score = explorer.score(src, dst, facts)
        assert score.logit == pytest.approx(logits(model, edited, pair)[0], abs=1e-4)
        assert score.logit_before == pytest.approx(answer.logit, abs=1e-4)
        assert path.influence == pytest.approx(score.logit_before - score.logit, abs=1e-4)


def test_a_rank_without_facts_is_the_rank_on_the_graph_without_them(
    explorer: Explorer, dataset: UserItemAttr
) -> None:
    src, dst = best_link(explorer)
    answer = explorer.explain(src, dst, Choice())[1]
    facts = [step.fact for step in answer.groups[0].paths[0].steps]
    edited = without(dataset.data, explorer.graph, facts)
    known = set(dataset.likes[1, dataset.likes[0] == src].tolist())
    new = [i for i in range(dataset.data["item"].num_nodes) if i not in known]
    scores = logits(
        explorer.explainer.predictor.model, edited, torch.tensor([[src] * len(new), new])
    )
    rank = explorer.rank(src, dst, facts)
    own = scores[new.index(dst)]
    assert (rank.rank_before, rank.of, rank.is_sample) == (1, len(new), False)
    assert rank.rank == 1 + sum(score > own + 1e-6 for score in scores)
    assert len(new) < MOST_RANKED


def test_words_and_facts_agree(explorer: Explorer) -> None:
    src, dst = best_link(explorer)
    answer = explorer.explain(src, dst, Choice(paths=5))[1]
    for path in (path for group in answer.groups for path in group.paths):
        assert (path.nodes[0].index, path.nodes[-1].index) == (src, dst)
        for step, start, end in zip(path.steps, path.nodes, path.nodes[1:], strict=False):
            assert start.name in step.sentence
            assert end.name in step.sentence
            ends = explorer.graph.fact == step.fact
            nodes = {explorer.graph.node_name(int(i)) for i in explorer.graph.src[ends]}
            assert nodes == {start.name, end.name}


def test_what_the_page_shows_first_is_chosen_as_the_library_chooses(explorer: Explorer) -> None:
    shown, _ = explorer.explain(7, 3, Choice())
    assert shown.settings.rho == Settings().rho
    assert shown.paths == explorer.explainer.replace(Settings()).explain(7, 3).paths


def test_settings_of_the_page_are_the_librarys(explorer: Explorer, dataset: UserItemAttr) -> None:
    src, dst = best_link(explorer)
    choice = Choice(paths=2, length=3, rho=1.0, exclude=("has",), seed=5)
    shown, _ = explorer.explain(src, dst, choice)
    plain = PaGELink(
        explorer.explainer.predictor.model, explorer.explainer.predictor.data,
        explorer.link_type,
        Settings(num_paths=2, rho=1.0, exclude_relations=("has",), deadline=60.0), seed=5,
        known=split_links(dataset.likes, SEED).all,
    ).explain(src, dst, negatives=True)  # fmt: skip
    assert shown == plain
    assert all("has" not in edge.type[1] for path in shown.paths for edge in path.edges)


def test_what_cannot_be_asked_is_said(explorer: Explorer) -> None:
    with pytest.raises(LinkError, match="user index"):
        explorer.source(10_000, 5)
    with pytest.raises(LinkError, match="node type"):
        explorer.search("book", "a", 5)
    with pytest.raises(LinkError, match="no fact"):
        explorer.score(7, 3, [10**7])
    with pytest.raises(LinkError, match="no relation"):
        explorer.explain(7, 3, Choice(exclude=("sells",)))


def test_a_source_says_what_it_is_linked_to_and_how_much_is_not_shown(
    explorer: Explorer, dataset: UserItemAttr
) -> None:
    answer = explorer.source(7, 2)
    likes = dataset.likes[1, dataset.likes[0] == 7].tolist()
    assert answer.known_total == len(set(likes))
    assert [known.node.index for known in answer.known] == sorted(set(likes))[:2]
    assert not any(known.in_graph for known in answer.known), "messages do not pass along likes"
    buys = dataset.data["user", "buys", "item"].edge_index
    bought = set(buys[1, buys[0] == 7].tolist())
    (group,) = answer.facts
    assert (group.words, group.backwards, group.total) == ("buys", False, len(bought))
    assert {node.index for node in group.nodes} <= bought
    assert len(group.nodes) == 2


def test_about_says_what_can_be_excluded_and_where_to_begin(explorer: Explorer) -> None:
    about = explorer.about
    assert [relation.name for relation in about.relations] == ["buys", "has"]
    assert [t.count for t in about.node_types] == [
        int(n) for n in np.diff(explorer.graph.node_offset)
    ]
    assert about.examples
    assert about.example_links == []
    begun = Explorer(explorer.explainer, examples=[(7, 3)]).about.example_links
    assert [(link.src.name, link.dst.name) for link in begun] == [("User 7", "Item 3")]
    assert (about.src_type, about.relation, about.dst_type) == ("user", "likes", "item")
