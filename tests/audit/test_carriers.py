"""Facts and nodes that move many predictions: planted leaks and poisoned facts are found."""

from __future__ import annotations

import pytest
from support.chains_of_books import LINK, WalkModel, scenes

from pagelink import PaGELink, Settings
from pagelink.audit.wording import cautions
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
    told = f"The fact that {first.text} moves at least 6 of 6 predictions: it raises all of them"
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


def test_nothing_is_found_where_nothing_moves_many() -> None:
    mechanism = make_mechanism("metapath", num_links=4)
    link_type = mechanism.schema.link_type
    explainer = PaGELink(mechanism.model, mechanism.data, link_type, QUICK, threshold=None)
    audit = explainer.audit(mechanism.pairs)
    assert audit.facts == ()
    assert audit.nodes == ()
    assert cautions(audit) == []
