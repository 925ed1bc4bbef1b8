"""Powers of the weighted adjacency against the enumeration of walks on small multigraphs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.multigraphs import seeds, sizes

from pagelink.bench.fuzz.oracles.brute_force import (
    DrawnLink,
    brute_force,
    draw_links,
    extract,
)
from pagelink.bench.fuzz.oracles.multigraphs import Fact, Node, random_multigraph
from pagelink.bench.fuzz.oracles.walks import Step, Walk, arcs_of
from pagelink.graph.computation_graph import Extractor
from pagelink.graph.typed_graph import TypedGraph
from pagelink.search.path_loss import Walks
from pagelink.search.paths import allowed_facts, build_path_graphs


def all_walks(link: DrawnLink, facts: set[Fact], max_length: int) -> list[Walk]:
    """Every walk along facts that meets its source and its target once, nodes repeated or not."""

    def extend(walk: Walk, here: Node) -> Iterator[Walk]:
        if here == link.dst:
            yield walk
        elif len(walk) < max_length:
            for relations, ends in facts:
                if here in ends and len(ends) == 2:
                    (there,) = ends - {here}
                    if there != link.src:
                        yield from extend((*walk, (here, there, relations)), there)

    return list(extend((), link.src))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(seeds, sizes, st.integers(1, 5), st.sampled_from([0.5, 3.0, 60.0]))
def test_weights_of_walks_are_those_of_enumeration(
    seed: int, size: int, max_length: int, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(5):
        drawn = random_multigraph(rng, size)
        links = draw_links(rng, drawn, 3)
        if not links:
            continue
        graph = TypedGraph.from_data(drawn.data(), reverse=drawn.reverse)
        batch = extract(graph, Extractor(graph, 2), links)
        paths = build_path_graphs(graph, batch, allowed_facts(graph, batch), max_length)
        arcs = [arcs_of(graph, drawn, batch, paths, i) for i in range(len(links))]
        logs = -spread * rng.random(len(paths.arc_slot))
        walks = Walks(paths)
        assert walks.links.tolist() == [i for i, each in enumerate(arcs) if each]
        weights = torch.from_numpy(logs).requires_grad_()
        found, losses = walks.log_weights(weights).detach(), walks.loss(weights)
        for row, i in enumerate(walks.links.tolist()):
            weight: dict[Step, float] = {a.step: logs[n] for n, a in arcs[i].items()}
            facts = brute_force(drawn, links[i], 2).visible_facts
            by_length: list[list[float]] = [[] for _ in range(max_length)]
            for walk in all_walks(links[i], facts, max_length):
                by_length[len(walk) - 1].append(sum(weight[step] for step in walk))
            roots = []
            for length, each in enumerate(by_length, start=1):
                value, count = float(found[row, length - 1]), walks.log_counts[row, length - 1]
                if not each:
                    assert value == -math.inf
                    assert count == -math.inf
                    continue
                total = np.logaddexp.reduce(each)
                assert value == pytest.approx(total, rel=1e-9, abs=1e-9)
                assert math.exp(count) == pytest.approx(len(each))
                roots.append((total - math.log(len(each))) / length)
            expected = -(np.logaddexp.reduce(roots) - math.log(len(roots)))
            assert float(losses[row].detach()) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        if len(losses):
            losses.sum().backward()
            assert weights.grad is not None
            assert bool(torch.isfinite(weights.grad).all())
            assert bool((weights.grad <= 0).all())  # a heavier arc makes no walk lighter
