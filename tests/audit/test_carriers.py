"""Facts and nodes that move many predictions: planted leaks and poisoned facts are found."""

from __future__ import annotations

import pytest
import torch
from support.chains_of_books import LINK, WalkModel, scenes
from support.two_models import some_links, two_models
from torch import Tensor

from pagelink import PaGELink, Settings
from pagelink.audit.rows import make_rows
from pagelink.audit.summary import summarise_carriers
from pagelink.audit.wording import cautions, moves
from pagelink.datasets.mechanisms import from_plan, make_mechanism
from pagelink.datasets.music import MUSIC
from pagelink.datasets.plans import Plan, along

QUICK = Settings(what_else=False)
POISONED = Plan(
    "an artist of a saved mix counts; one fact, that a mix features an artist, is on all paths",
    (along("saves features rev_by"),), lambda n: 4 * n[0], ("saves M1 features A1 rev_by",),
    ("likes m2 contains", "skips m3 contains", "follows a2 rev_by"),
)  # fmt: skip


def test_a_poisoned_fact_is_found() -> None:
    mechanism = from_plan(POISONED, MUSIC.schema, num_links=6)
    explainer = PaGELink(mechanism.model, mechanism.data, MUSIC.schema.link_type, QUICK)
    audit = explainer.audit(mechanism.pairs)
    first, *others = audit.facts
    shared = frozenset.intersection(*(frozenset.union(*link.used) for link in mechanism.links))
    ((relation, mix, artist),) = shared
    assert (first.kind, dict(first.nodes)) == (relation, {"mix": mix, "artist": artist})
    assert (first.num_links, first.num_raised, first.rows) == (6, 6, tuple(range(6)))
    assert first.effect.mean == pytest.approx(4)
    assert all(each.num_links < 6 for each in others)
    found = {(each.kind, each.nodes[0][1]): each for each in audit.nodes}
    assert found["mix", mix].num_links == found["artist", artist].num_links == 6
    told = f"The fact that {first.text} moves 6 of 6 predictions: it raises all of them"
    assert told in " ".join(cautions(audit))
    assert told in str(audit)


def test_a_hub_is_found() -> None:
    mechanism = make_mechanism("through a hub", num_links=4)
    link_type = mechanism.schema.link_type
    explainer = PaGELink(mechanism.model, mechanism.data, link_type, QUICK, threshold=None)
    audit = explainer.audit(mechanism.pairs)
    first = audit.nodes[0]
    facts = frozenset.union(*(frozenset.union(*link.used) for link in mechanism.links))
    (hub,) = {target for relation, _, target in facts if relation == "binds"}
    assert first.nodes == (("gene", hub),)
    assert (first.num_links, first.effect.mean) == (4, pytest.approx(4))
    assert first.degree >= 110
    # Each fact at the hub is one link's own.
    assert all(each.num_links < 4 for each in audit.facts)


def test_a_leak_is_found() -> None:
    # Whoever will like a book owns it already: the link itself, under another name.
    facts = [(0, "owns", 0), (0, "owns", 1), (0, "by", 0), (1, "by", 0)]
    data = scenes(facts, count=4)
    size = data["reader"].num_nodes // 4
    explainer = PaGELink(WalkModel("owns", slope=4.0), data, LINK, QUICK)
    audit = explainer.audit([(size * i, size * i) for i in range(4)])
    assert audit.direct_relations == {"owns": 4}
    assert audit.metapaths[0].words == "reader → owns → book"
    assert audit.metapaths[0].num_carried == audit.num_verifying == 2
    assert "'owns' joins source and target directly for 4 of 4 links" in cautions(audit)[0]


def test_a_record_of_the_link_is_found() -> None:
    # Book 2 has two facts: the reader owns it, and it cites the target.
    facts = [(0, "owns", 1), (1, "by", 0), (3, "by", 0), (0, "owns", 2), (2, "cites", 4)]
    data = scenes(facts, count=4)
    size = data["reader"].num_nodes // 4
    explainer = PaGELink(WalkModel("owns cites", slope=4.0), data, LINK, QUICK, threshold=None)
    audit = explainer.audit([(size * i, size * i + 4) for i in range(4)])
    chain = "reader → owns → book → cites → book"
    assert audit.records == {chain: 4}
    assert f"{chain} joins source and target of 4 of 4 links" in cautions(audit)[0]
    # A book with a further fact is a node like any other; a chain that moves nothing is no matter.
    more = scenes([*facts, (2, "by", 1)], count=4)
    size = more["reader"].num_nodes // 4
    links = [(size * i, size * i + 4) for i in range(4)]
    other = PaGELink(WalkModel("owns cites", slope=4.0), more, LINK, QUICK, threshold=None)
    assert other.audit(links).records == {}
    unused = PaGELink(WalkModel("owns by"), scenes(facts, count=4), LINK, QUICK, threshold=None)
    assert unused.audit(links[:2]).records == {}


def test_how_many_predictions_a_fact_or_a_node_moves() -> None:
    """By plain PyG: the edges are deleted from the data, and all links scored again."""
    explainer, links = two_models().explainer, some_links(9)
    audit = explainer.audit(links)
    data, noise = explainer.predictor.data, audit.noise

    def scores(gone: dict[tuple[str, str, str], Tensor]) -> Tensor:
        index = {kind: data[kind].edge_index[:, ~gone[kind]] if kind in gone
                 else data[kind].edge_index for kind in data.edge_types}  # fmt: skip
        x = {kind: data[kind].get("x", torch.arange(data[kind].num_nodes))
             for kind in data.node_types}  # fmt: skip
        with torch.no_grad():
            return explainer.predictor.model(x, index, torch.tensor(links).T)

    before = scores({})
    assert [row.logit for row in audit.rows] == pytest.approx(before.tolist(), abs=1e-4)
    for fact in audit.facts:
        (src_type, src), (dst_type, dst) = fact.nodes
        forth = (src_type, fact.kind, dst_type)
        back = (dst_type, {"buys": "bought_by", "has": "of"}[fact.kind], src_type)
        gone = {}
        for kind, (one, two) in ((forth, (src, dst)), (back, (dst, src))):
            ends = data[kind].edge_index
            gone[kind] = (ends[0] == one) & (ends[1] == two)
            assert gone[kind].any()
        moved = (before - scores(gone)).abs() > noise
        assert fact.rows == tuple(moved.nonzero().flatten().tolist()), fact.text
        assert fact.num_untried == 0
    for node in audit.nodes:
        ((own, index),) = node.nodes
        gone = {
            kind: ((data[kind].edge_index[0] == index) if kind[0] == own else torch.tensor(False))
            | ((data[kind].edge_index[1] == index) if kind[2] == own else torch.tensor(False))
            for kind in data.edge_types
            if own in (kind[0], kind[2])
        }
        moved = ((before - scores(gone)).abs() > noise).nonzero().flatten().tolist()
        # Source and target of a link are not tried on it.
        ends = [(("user", src), ("item", dst)) for src, dst in links]
        assert node.rows == tuple(i for i in moved if (own, index) not in ends[i]), node.text
    # What looked promising for each link by itself is less.
    alone = summarise_carriers(list(make_rows(explainer, links)), lambda row: row.facts)
    settled = {each.text: each.num_links for each in audit.facts}
    fewer = [each for each in alone if each.num_links < settled.get(each.text, 0)]
    assert fewer
    assert all(each.num_untried == 9 - each.num_links for each in fewer)
    assert "moves at least" in moves(fewer[0], 9)


def test_nothing_is_found_where_nothing_moves_many() -> None:
    mechanism = make_mechanism("metapath", num_links=4)
    link_type = mechanism.schema.link_type
    explainer = PaGELink(mechanism.model, mechanism.data, link_type, QUICK, threshold=None)
    audit = explainer.audit(mechanism.pairs)
    assert audit.facts == ()
    assert audit.nodes == ()
    assert cautions(audit) == []
