"""Batches: cut by memory and by number, in order, and never read further than needed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from support.zoo import make_case

from pagelink import PaGELink, Settings
from pagelink.errors import SettingsError
from pagelink.graph.batches import BYTES_PER_EDGE, GIGABYTE, Batches
from pagelink.graph.links import Link

BYTES_A_VISIBLE_EDGE = 100.0


@pytest.fixture(scope="module")
def explainer() -> PaGELink:
    case = make_case("HeteroConv SAGE")
    return PaGELink(case.model, case.data, case.link_type, Settings(epochs=3), threshold=None)


@pytest.fixture(scope="module")
def links(explainer: PaGELink) -> list[Link]:
    found = [explainer.reader.read(pair) for pair in itertools.product(range(6), range(4))]
    found[5] = Link.broken((99, 0), explainer.link_types[0], "no such user")
    return found


def sizes(explainer: PaGELink, links: list[Link]) -> list[float]:
    sizes = []
    for link in links:
        if link.message is not None:
            sizes.append(0.0)
            continue
        ends = (np.array([value]) for value in (link.src, link.dst, link.fact))
        graph = explainer.extractor.extract(*ends)
        visible = int(graph.visible.sum())
        sizes.append(visible * BYTES_A_VISIBLE_EDGE + len(graph.edges) * BYTES_PER_EDGE)
    return sizes


@pytest.mark.parametrize("most_links", [1, 3, 100])
@pytest.mark.parametrize("share", [0.0001, 0.15, 0.5, 10.0])
def test_batches_hold_as_much_as_fits(
    explainer: PaGELink, links: list[Link], most_links: int, share: float
) -> None:
    size = sizes(explainer, links)
    memory = share * sum(size) / GIGABYTE
    cut = list(
        Batches(explainer.extractor, BYTES_A_VISIBLE_EDGE, False).cut(links, most_links, memory)
    )
    assert [link for batch in cut for link in batch.links] == links
    first = 0
    for batch, after in itertools.zip_longest(cut, cut[1:]):
        last = first + len(batch.links)
        assert batch.size == pytest.approx(sum(size[first:last]))
        assert len(batch.graphs) == len(batch.visible) == len(batch.valid)
        assert batch.size <= memory * GIGABYTE or len(batch.valid) == 1
        if after is not None:
            full = len(batch.links) == most_links
            assert full or batch.size + size[last] > memory * GIGABYTE
        first = last


def test_one_by_one(explainer: PaGELink, links: list[Link]) -> None:
    cut = list(Batches(explainer.extractor, BYTES_A_VISIBLE_EDGE, True).cut(links, 100, 1.0))
    assert all(len(batch.graphs) <= 1 for batch in cut)
    assert [link for batch in cut for link in batch.links] == links


def test_no_link_is_read_before_it_is_needed(explainer: PaGELink, links: list[Link]) -> None:
    read = []

    def endless() -> Iterator[Link]:
        for link in itertools.cycle(links):
            read.append(link)
            yield link

    stream = Batches(explainer.extractor, BYTES_A_VISIBLE_EDGE, False).cut(endless(), 7, 1.0)
    for number in (7, 14, 21):
        assert len(next(stream).links) == 7
        assert len(read) == number


def test_memory_changes_no_result(explainer: PaGELink) -> None:
    pairs = list(itertools.product(range(5), range(4)))
    roomy = list(explainer.explain_many(pairs))
    for memory in (1e-9, 3e-5):
        for mine, theirs in zip(explainer.explain_many(pairs, memory=memory), roomy, strict=True):
            assert mine.paths == theirs.paths
            for edge_type in mine.edge_mask:
                assert mine.edge_mask[edge_type] == pytest.approx(
                    theirs.edge_mask[edge_type], abs=1e-5
                )


@pytest.mark.parametrize("memory", [0, -1.0, float("nan")])
def test_memory_must_be_positive(explainer: PaGELink, memory: float) -> None:
    with pytest.raises(SettingsError, match="memory must be above 0"):
        list(explainer.explain_many([(0, 0)], memory=memory))


def test_a_heavier_model_takes_more_for_an_edge() -> None:
    taken = {}
    for name in ("HeteroConv SAGE", "HeteroConv GAT"):
        case = make_case(name)
        taken[name] = PaGELink(case.model, case.data, case.link_type).receptive_field.bytes_per_edge
    assert 0 < taken["HeteroConv SAGE"] < taken["HeteroConv GAT"]
