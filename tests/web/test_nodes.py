"""What is asked about nodes: their cards, the sources of a target, and facts that are added."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch_geometric.data import HeteroData

from pagelink import PaGELink
from pagelink.datasets.useritemattr import UserItemAttr, generate_useritemattr
from pagelink.errors import LinkError
from pagelink.models.architectures import RGCN
from pagelink.models.links import split_links
from pagelink.views.statements import fact_sentence
from pagelink.web.added import added_to
from pagelink.web.answers import saved, spread_of
from pagelink.web.contract import Choice
from pagelink.web.explorer import Explorer

SEED = 3
URL = "https://example.org/item/4"


@pytest.fixture(scope="module")
def dataset() -> UserItemAttr:
    return generate_useritemattr(seed=SEED)


@pytest.fixture(scope="module")
def explorer(dataset: UserItemAttr) -> Explorer:
    data = dataset.data
    count = data["item"].num_nodes
    data["item"].attributes = pa.table(
        {
            "year": [1900 + i for i in range(count)],
            "page": [URL if i == 4 else None for i in range(count)],
        }
    )
    model = RGCN.for_data(data, dataset.link_type, paper_split=True, seed=SEED).eval()
    explainer = PaGELink(model, data, dataset.link_type, seed=SEED)
    return Explorer(explainer, split_links(dataset.likes, SEED).all)


def logits(explorer: Explorer, data: HeteroData, pairs: torch.Tensor) -> np.ndarray:
    x_dict = {t: torch.arange(data[t].num_nodes) for t in data.node_types}
    with torch.no_grad():
        found = explorer.explainer.predictor.model(x_dict, data.edge_index_dict, pairs)
    values: np.ndarray = found.double().numpy()
    return values


def test_sources_are_the_models_best_new_ones(explorer: Explorer, dataset: UserItemAttr) -> None:
    known = set(dataset.likes[0, dataset.likes[1] == 5].tolist())
    new = [i for i in range(dataset.data["user"].num_nodes) if i not in known]
    scores = logits(explorer, dataset.data, torch.tensor([new, [5] * len(new)]))
    best = np.argsort(-scores, kind="stable")[:4]
    answer = explorer.sources(5, 4)
    assert [each.node.index for each in answer.sources] == [new[i] for i in best]
    assert [each.logit for each in answer.sources] == pytest.approx(scores[best], abs=1e-4)
    assert (answer.total, answer.known_total) == (len(new), len(known))
    assert sum(answer.spread.counts) == len(new)
    assert answer.spread.highest == pytest.approx(scores.max(), abs=1e-4)
    first = answer.sources[1]
    rank = explorer.rank(first.node.index, 5, (), end="src")
    assert (rank.rank, rank.of) == (first.rank, len(new))


def test_a_card_has_what_the_tables_say(explorer: Explorer) -> None:
    card = explorer.card("item", 4, 3)
    assert [(each.name, each.value) for each in card.attributes] == [
        ("year", "1904"),
        ("page", URL),
    ]
    assert card.address == URL
    assert sum(group.total for group in card.facts) == card.node.degree
    assert all(len(group.nodes) <= 3 for group in card.facts)
    assert explorer.card("item", 5, 3).address is None
    assert explorer.card("user", 0, 3).attributes == []
    with pytest.raises(LinkError, match="There is no node type 'book'"):
        explorer.card("book", 0, 3)


def test_an_added_fact_scores_as_in_the_graph_that_has_it(
    explorer: Explorer, dataset: UserItemAttr
) -> None:
    bought = dataset.data["user", "buys", "item"].edge_index
    new = next(i for i in range(100) if i not in bought[1, bought[0] == 7].tolist())
    edited = dataset.data.clone()
    pair = torch.tensor([[7], [new]])
    edited["user", "buys", "item"].edge_index = torch.cat([bought, pair], dim=1)
    back = edited["item", "bought_by", "user"].edge_index
    edited["item", "bought_by", "user"].edge_index = torch.cat([back, pair.flip(0)], dim=1)
    for target in (3, 8):
        asked = torch.tensor([[7], [target]])
        answer = explorer.score(7, target, (), (f"buys:7:{new}",))
        before = float(logits(explorer, dataset.data, asked)[0])
        after = float(logits(explorer, edited, asked)[0])
        assert (answer.logit_before, answer.logit) == pytest.approx((before, after), abs=1e-4)
        assert before != after
    # A fact that is off is the same fact in the graph that has more.
    alone = explorer.score(7, 3, (11, 40))
    both = explorer.rank(7, 3, (11, 40), (f"buys:7:{new}",))
    assert both.logit_before == pytest.approx(alone.logit_before, abs=1e-4)
    assert dataset.data["user", "buys", "item"].edge_index.shape == bought.shape
    for fact, words in (("by:7:1", "relation 'by'"), ("buys:7:5000", "item index must be")):
        with pytest.raises(LinkError, match=words):
            explorer.score(7, 3, (), (fact,))


def test_paths_are_limited_by_nodes(explorer: Explorer) -> None:
    dst = explorer.targets(7, 1).targets[0].node.index
    (first, *_) = explorer.explain(7, dst, Choice())[0].paths
    key = "{}:{}".format(*first.nodes[1])
    for path in explorer.explain(7, dst, Choice(without=(key,)))[0].paths:
        assert first.nodes[1] not in path.nodes
    through = explorer.explain(7, dst, Choice(via=(key,)))[0].paths
    assert through
    assert all(first.nodes[1] in path.nodes for path in through)
    with pytest.raises(LinkError, match="There is no node type"):
        explorer.explain(7, dst, Choice(via=("book:1",)))


def test_a_spread_counts_all_that_is_finite() -> None:
    spread = spread_of(np.array([0.0, 1.0, 1.0, 4.0, np.nan]))
    assert (spread.lowest, spread.highest, sum(spread.counts)) == (0.0, 4.0, 4)
    assert spread.counts[6] == 2
    assert sum(spread_of(np.array([2.0, 2.0])).counts) == 2
    assert sum(spread_of(np.empty(0)).counts) == 0


def test_an_added_fact_is_on_paths_and_in_files(explorer: Explorer, dataset: UserItemAttr) -> None:
    bought = dataset.data["user", "buys", "item"].edge_index
    src, dst = 7, explorer.targets(7, 1).targets[0].node.index
    before, _ = explorer.explain(src, dst, Choice())
    # An item that another buyer of the target has bought: a path of three facts.
    others = bought[0, bought[1] == dst].tolist()
    mine = bought[1, bought[0] == src].tolist()
    new = next(
        item for item in bought[1, bought[0] == others[0]].tolist() if item not in (dst, *mine)
    )
    key = f"buys:{src}:{new}"
    choice = Choice(paths=20, add=(key,), via=(f"item:{new}",))
    explanation, answer = explorer.explain(src, dst, choice)
    steps = [step for group in answer.groups for path in group.paths for step in path.steps]
    added = [step for step in steps if step.added is not None]
    assert added
    assert {(step.added, step.fact) for step in added} == {(key, None)}
    # All other facts have the numbers of the graph as it was, which `off` takes.
    for step in steps:
        if step.fact is not None:
            ends = re.findall(r"\w+ \d+", fact_sentence(explorer.graph, step.fact))
            assert sorted(ends) == sorted(re.findall(r"\w+ \d+", step.sentence))
    assert explanation.logit == pytest.approx(explorer.score(src, dst, (), (key,)).logit, abs=1e-4)
    assert explanation.logit != before.logit
    sentence = added[0].sentence
    fact = next(step.fact for step in steps if step.fact is not None)
    kept, edited = explorer.kept(src, dst, choice, (fact,))
    assert edited is not None
    assert edited.added == (sentence,)
    assert edited.places
    texts = {kind: saved(kept, kind, edited).body.decode() for kind in ("html", "svg", "csv")}
    assert texts["svg"].count(">(added)<") == len(added)
    assert "(added)" in texts["html"]
    assert "pagelink-off" in texts["svg"]
    assert '""added"": true' in texts["csv"].replace("\\", "")
    for text in (texts["html"], texts["csv"]):
        assert f"with 1 added fact: {sentence}." in text
    values = json.loads(saved(kept, "json", edited).body)
    assert values["edited"]["added"] == [sentence]
    assert any(edge["added"] for path in values["paths"] for edge in path["edges"])
    assert bytes(saved(kept, "png", edited).body).startswith(b"\x89PNG")
    with pytest.raises(LinkError, match="has this fact already"):
        explorer.explain(src, dst, Choice(add=(f"buys:{src}:{mine[0]}",)))


def test_a_fact_that_is_off_stays_off_where_others_are_added(
    explorer: Explorer, dataset: UserItemAttr
) -> None:
    bought = dataset.data["user", "buys", "item"].edge_index
    new = next(i for i in range(100) if i not in bought[1, bought[0] == 7].tolist())
    added = added_to(explorer.explainer, [f"buys:7:{new}"])
    graph, after = explorer.graph, added.explainer.graph
    for fact in range(0, graph.num_facts, 97):
        assert fact_sentence(graph, fact) == fact_sentence(after, added.fact_of(fact))


def test_what_if_counts_an_added_fact(explorer: Explorer, dataset: UserItemAttr) -> None:
    bought = dataset.data["user", "buys", "item"].edge_index
    dst = explorer.targets(7, 1).targets[0].node.index
    new = next(i for i in range(100) if i not in (dst, *bought[1, bought[0] == 7].tolist()))
    key = f"buys:7:{new}"
    found = explorer.what_if(7, dst, "source", 1, (key,))
    assert found.logit == pytest.approx(explorer.score(7, dst, (), (key,)).logit, abs=1e-4)
    assert all((fact.fact is None) == (fact.added == key) for fact in found.facts)
