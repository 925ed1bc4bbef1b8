"""Control pairs, against their definition by brute force on a generated graph."""

from __future__ import annotations

import numpy as np
import pytest

from pagelink import PaGELink, Settings
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.measure.candidates import CandidateFinder, ReferenceGraphs
from pagelink.measure.evidence import draw_controls
from pagelink.models import make_model
from pagelink.rivals.ground import Ground
from pagelink.runtime.csr import Csr

PAIRS = [(src, dst) for src in range(4) for dst in range(4)]


def drawn(seed: int, pairs: list[tuple[int, int]]):  # type: ignore[no-untyped-def]
    made = generate_useritemattr(num_users=100, num_items=100, num_attrs=60, seed=0)
    model = make_model("sage", made.data, made.link_type, seed=0)
    explainer = PaGELink(model, made.data, made.link_type, Settings(), threshold=None)
    ground = Ground.of(explainer, pairs)
    links = np.flatnonzero(ground.paths.has_path())
    even = np.zeros(len(ground.batch.edges), dtype=np.float32)
    finder = CandidateFinder(ground.explainer.graph, ground.batch, ground.paths, links, even)
    found = finder.taken(finder.most_concise(3))
    walked = found.arcs >= 0
    slots = Csr(
        np.concatenate([[0], np.cumsum(walked.sum(1))]), ground.paths.arc_slot[found.arcs[walked]]
    )
    graphs = ReferenceGraphs(ground.explainer.graph, ground.batch, ground.whole, ground.bare)
    edits, path_of = draw_controls(graphs, found.link, slots, 5, seed)
    return ground, found, slots, edits, path_of


def kind(graph, fact: int, end: int) -> tuple[int, bool]:  # type: ignore[no-untyped-def]
    """Relation of a fact, and whether it leaves the end; by its edges, in any order."""
    e = next(e for e in np.flatnonzero(graph.fact == fact) if graph.representative[e])
    src_type, _, dst_type = graph.edge_types[graph.relation[e]]
    return int(graph.relation[e]), bool(src_type != dst_type and graph.src[e] == end)


@pytest.mark.parametrize("seed", [0, 1])
def test_pairs_look_like_the_path_and_make_none(seed: int) -> None:
    ground, found, slots, edits, path_of = drawn(seed, PAIRS)
    graph, batch = ground.explainer.graph, ground.batch
    assert len(path_of) > 10
    assert np.bincount(path_of).max() <= 5
    for i, path in enumerate(path_of.tolist()):
        link = int(found.link[path])
        assert edits.link[i] == link
        removed = edits.slots.values[edits.slots.ptr[i] : edits.slots.ptr[i + 1]]
        facts = sorted(set(graph.fact[batch.edges[removed]].tolist()))
        assert len(facts) == 2
        own = graph.fact[batch.edges[slots.values[slots.ptr[path] : slots.ptr[path + 1]]]]
        assert not set(facts) & set(own.tolist())
        on_paths = set(ground.path_facts(link).tolist())
        assert not set(facts) <= on_paths
        s, t = int(batch.link_src[link]), int(batch.link_dst[link])
        wanted = [kind(graph, int(own[0]), s), kind(graph, int(own[-1]), t)]
        at = [
            {int(v) for e in np.flatnonzero(graph.fact == f) for v in (graph.src[e], graph.dst[e])}
            for f in facts
        ]
        assert any(
            s in at[a] and t in at[b]
            and [kind(graph, facts[a], s), kind(graph, facts[b], t)] == wanted
            for a, b in ((0, 1), (1, 0))
        )  # fmt: skip


def test_drawn_by_the_seed_and_the_link_alone() -> None:
    _, found, _, edits, path_of = drawn(0, PAIRS)
    chosen = int(found.link[path_of[0]])
    ground, _, _, alone, _ = drawn(0, [PAIRS[chosen]])
    whole = drawn(0, PAIRS)[0]
    together = [
        set(
            whole.batch.edges[
                edits.slots.values[edits.slots.ptr[i] : edits.slots.ptr[i + 1]]
            ].tolist()
        )
        for i in np.flatnonzero(edits.link == chosen)
    ]
    by_itself = [
        set(
            ground.batch.edges[
                alone.slots.values[alone.slots.ptr[i] : alone.slots.ptr[i + 1]]
            ].tolist()
        )
        for i in range(alone.num_graphs)
    ]
    assert together == by_itself
    other = drawn(1, [PAIRS[chosen]])[3]
    assert other.slots.values.tolist() != alone.slots.values.tolist()
