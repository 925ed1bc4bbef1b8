"""Mask learning: the paper's losses against plain autograd, and what must not change the result."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import networkx
import numpy as np
import pytest
import torch
from support.zoo import make_case
from torch import Tensor

from pagelink import PaGELink, Settings
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.search.mask_learning import LearnedMasks, learn_masks, start_logits
from pagelink.search.paths import PathGraphs, best_paths
from pagelink.search.work import prune_links, score_links
from pagelink.settings import Settings as _Settings

PAIRS = [(5, 0), (5, 1), (5, 2), (5, 3), (7, 0), (3, 6), (2, 0), (6, 3)]


class Workbench:
    """A batch of links, ready for mask learning."""

    def __init__(self, settings: Settings, pairs: list[tuple[int, int]], name: str = "to_hetero"):
        case = make_case(name)
        self.settings = settings
        self.explainer = PaGELink(case.model, case.data, case.link_type, settings, threshold=None)
        links = [self.explainer.link(*pair) for pair in pairs]
        links = [replace(link, fact=-1) for link in links]
        self.batch = ComputationGraphs.joined(self.explainer.setup.batches.extract(links))
        self.work = prune_links(score_links(self.explainer.setup, self.batch, links), 0)
        self.kept, self.paths, self.links = self.work.kept, self.work.paths, self.work.links
        self.relation = self.work.relation

    def learn(self) -> LearnedMasks:
        return learn_masks(self.work)

    def start(self, seed: int) -> np.ndarray:
        return start_logits(replace(self.work, seed=seed))


def reference(bench: Workbench, link: int, start: np.ndarray) -> np.ndarray:
    """Plain mask learning for one link: every kept edge a parameter, the loss as it is printed."""
    settings, batch = bench.settings, bench.batch
    here = np.arange(batch.edge_ptr[link], batch.edge_ptr[link + 1])
    kept = here[bench.kept[here]]
    values = torch.from_numpy(start[kept].copy()).requires_grad_()
    adam = torch.optim.Adam([values], lr=settings.learning_rate)
    predictor = bench.explainer.predictor
    wanted = batch.visible & bench.kept if settings.remove_pruned else batch.visible
    recorded = predictor.record(predictor.inputs(batch, wanted, [link], bench.relation))[1]
    unit = norm = 0.0
    with predictor.weighted(recorded) as run:
        for epoch in range(settings.epochs):
            current = start.copy()
            current[kept] = values.detach().numpy()
            arc_logits = current[bench.paths.arc_slot]
            found = best_paths(bench.paths, arc_logits, settings.paths_per_epoch, np.array([link]))
            count = settings.paths_per_epoch
            if settings.path_schedule == "cycle":
                count -= epoch % count
            arcs = found.arcs[0, :count]
            if settings.path_loss == "released":
                before, norm = norm, float(torch.sigmoid(values.detach()).norm())
                if abs(before - norm) < 1e-3:
                    break
            on_path = torch.from_numpy(np.isin(kept, bench.paths.arc_slot[arcs[arcs >= 0]]))
            weights: Tensor = torch.ones(len(batch.edges))
            weights = weights.index_put((torch.from_numpy(kept),), torch.sigmoid(values))
            masked = run(weights)
            if settings.pred_loss == "gap":
                lacking = masked - bench.work.logits[link]
                unit = unit or abs(float(lacking.detach())) or 1.0
                masked = 3 + lacking / unit
            loss = -settings.pred_weight * torch.log(torch.sigmoid(masked)).sum()
            if settings.path_loss == "power":
                loss = loss + settings.alpha * power_loss(bench, link, kept, values)
                arcs = bench.paths.arc_slot[bench.paths.arcs_of(link)]
                off = torch.from_numpy(~np.isin(kept, arcs))
                loss = loss + settings.beta * values[off].mean()
            elif settings.path_loss == "released":
                weight, on = torch.sigmoid(values), any_length(bench, link, current)
                loss = loss - settings.alpha * weight[np.searchsorted(kept, on)].mean()
                loss = loss + settings.beta * weight[~np.isin(kept, on)].mean()
            elif settings.path_loss == "mean":
                loss = loss - settings.alpha * values[on_path].mean()
                loss = loss + settings.beta * values[~on_path].mean()
            else:
                loss = loss - settings.alpha * values[on_path].sum()
                loss = loss + settings.beta * values[~on_path].sum()
            mask = torch.sigmoid(values)
            entropy = -mask * torch.log(mask) - (1 - mask) * torch.log(1 - mask)
            loss = loss + settings.entropy * entropy.mean() + settings.size * mask.sum()
            adam.zero_grad()
            loss.backward()
            adam.step()
    return values.detach().numpy()


def any_length(bench: Workbench, link: int, logits: np.ndarray) -> list[int]:
    """The edges of the best paths of any length by networkx, one after the other."""
    graph, batch = bench.explainer.graph, bench.batch
    here = np.arange(batch.edge_ptr[link], batch.edge_ptr[link + 1])
    edges = here[bench.kept[here]]
    stated = {(int(graph.fact[batch.edges[e]]), int(batch.src[e])): int(e) for e in edges[::-1]}
    shift = batch.node_ptr[link]
    s, t = (batch.ends[:, link] - shift).tolist()
    steps = networkx.DiGraph()  # each edge is a node of its own, so that parallel ones stay apart
    for slot in edges:
        ends = int(batch.src[slot]), int(batch.dst[slot])
        for tail, head in (ends, ends[::-1]):
            walked = stated.get((int(graph.fact[batch.edges[slot]]), tail), int(slot))
            cost = np.logaddexp(0, -np.float64(logits[walked]))
            if head != t:
                cost += np.log(graph.degree[batch.nodes[shift + head]])
            if tail != head:
                step = ("edge", graph.fact[batch.edges[slot]], tail)
                steps.add_edge(tail, step, weight=cost, slot=walked)
                steps.add_edge(step, head, weight=0.0)
    best = networkx.shortest_simple_paths(steps, s, t, weight="weight")
    return [
        steps.edges[pair]["slot"]
        for path in islice(best, bench.settings.paths_per_epoch)
        for pair in list(pairwise(path))[::2]
    ]


def power_loss(bench: Workbench, link: int, kept: np.ndarray, values: Tensor) -> Tensor:
    """Minus the log of the mean weight of walks, by powers of a dense matrix."""
    paths = bench.paths
    first = paths.node_ptr[link] + link
    size = int(paths.node_ptr[link + 1] - paths.node_ptr[link])
    weighted, plain = torch.zeros(size, size), torch.zeros(size, size)
    for tail in range(size):
        for arc in range(paths.arc_ptr[first + tail], paths.arc_ptr[first + tail + 1]):
            one = torch.zeros(size, size)
            one[tail, paths.arc_dst[arc]] = 1
            value = values[int(np.searchsorted(kept, paths.arc_slot[arc]))]
            weighted, plain = weighted + one * torch.sigmoid(value), plain + one
    roots = []
    for length in range(1, paths.max_length + 1):
        count = torch.linalg.matrix_power(plain, length)[0, 1]
        if count > 0:
            total = torch.linalg.matrix_power(weighted, length)[0, 1]
            roots.append((total / count) ** (1 / length))
    return -torch.log(torch.stack(roots).mean())


VARIANTS = {
    "default": _Settings(patience=None),
    "paper": Settings.paper("useritemattr").replace(max_length=3),
    "paper, larger steps": Settings.paper("augcitation").replace(
        max_length=3, learning_rate=0.1, paths_per_epoch=3, core=0, alpha=0.8, epochs=20
    ),
    "sum": _Settings(path_loss="sum", patience=None, epochs=7, alpha=0.5, beta=0.25),
    "regularised": _Settings(entropy=0.3, size=0.01, patience=None, epochs=7),
    "no path loss": _Settings(alpha=0.0, beta=0.0, patience=None, epochs=7),
    "power": _Settings(path_loss="power", epochs=7, alpha=0.7, beta=0.5),
    "no prediction loss": _Settings(pred_weight=0.0, patience=None, epochs=7),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_same_as_the_losses_written_down_plainly(name: str) -> None:
    bench = Workbench(VARIANTS[name], PAIRS)
    start = bench.start(0)
    learned = bench.learn()
    assert len(bench.links) >= 5
    for link in bench.links:
        here = np.arange(bench.batch.edge_ptr[link], bench.batch.edge_ptr[link + 1])
        kept = here[bench.kept[here]]
        expected = reference(bench, int(link), start)
        assert learned.edge_logits[kept] == pytest.approx(expected, abs=2e-4)
        assert np.isneginf(learned.edge_logits[here[~bench.kept[here]]]).all()
        assert not np.allclose(expected, start[kept], atol=1e-3)


def test_the_mask_follows_the_prediction() -> None:
    """Without the path loss, the masked score rises from where it starts."""
    settings = Settings(alpha=0.0, beta=0.0, patience=None, epochs=15)
    bench = Workbench(settings, PAIRS)
    predictor, batch = bench.explainer.predictor, bench.batch
    learned = bench.learn()
    recorded = predictor.record(
        predictor.inputs(batch, batch.visible, bench.links.tolist(), bench.relation)
    )[1]

    def masked(logits: np.ndarray) -> np.ndarray:
        mask = np.where(bench.kept, 1 / (1 + np.exp(-logits)), 1).astype(np.float32)
        with predictor.weighted(recorded) as run, torch.no_grad():
            return run(torch.from_numpy(mask)).numpy()

    before, after = masked(np.zeros(len(batch.edges))), masked(learned.edge_logits)
    assert (after > before).all()


def test_converged_links_stop() -> None:
    bench = Workbench(Settings(patience=3, epochs=50), PAIRS)
    learned = bench.learn()
    assert (learned.epochs[bench.links] >= 4).all()
    assert (learned.epochs[bench.links] < 50).any()
    never = Workbench(Settings(patience=None, epochs=9), PAIRS).learn()
    assert (never.epochs[bench.links] == 9).all()


def test_noise_comes_from_seed_and_link_alone() -> None:
    settings = Settings.paper("useritemattr").replace(max_length=3)
    whole, single = Workbench(settings, PAIRS), Workbench(settings, PAIRS[3:4])
    noise, alone = whole.start(4), single.start(4)
    here = slice(whole.batch.edge_ptr[3], whole.batch.edge_ptr[4])
    assert np.array_equal(noise[here], alone)
    assert alone.std() > 0
    assert not np.array_equal(alone, single.start(5))


def test_noise_has_the_deviation_of_the_released_code() -> None:
    settings = Settings.paper("useritemattr").replace(max_length=3)
    bench = Workbench(settings, [(5, 3)])
    graph, batch = bench.explainer.graph, bench.batch
    draws = np.stack([
        bench.start(seed)[bench.kept] for seed in range(400)
    ])  # fmt: skip
    edges = batch.edges[bench.kept]
    kinds = graph.node_type_of[batch.nodes]
    assert len(batch.nodes) > len(np.unique(graph.src[edges]))  # pruning took some out of reach
    for position in np.unique(graph.relation[edges]):
        src, _, dst = graph.edge_types[position]
        n = sum((kinds == graph.node_types.index(t)).sum() for t in {src, dst})
        expected = np.sqrt(2) * np.sqrt(2 / (2 * n))
        mine = draws[:, graph.relation[edges] == position]
        assert mine.std() == pytest.approx(expected, rel=0.1)


def test_paths_are_searched_in_the_kept_graph() -> None:
    bench = Workbench(Settings(core=3, unpruned_fallback=False), PAIRS)
    paths: PathGraphs = bench.paths
    assert bench.kept[paths.arc_slot].all()


def test_the_released_loss_stops_when_the_mask_is_still() -> None:
    """The smaller the steps, the sooner one of them moves the norm by less than 0.001."""
    settings = Settings(path_loss="released", pred_weight=0.0, patience=None, epochs=30)
    free, slow = Workbench(settings, PAIRS), Workbench(settings.replace(learning_rate=1e-5), PAIRS)
    assert np.median(free.learn().epochs[free.links]) == 30
    assert (slow.learn().epochs[slow.links] == 1).all()
    by_sum = Workbench(settings.replace(learning_rate=1e-5, path_loss="sum"), PAIRS)
    assert (by_sum.learn().epochs[by_sum.links] == 30).all()


def test_the_released_loss_raises_paths_of_any_length() -> None:
    """A path of more facts than may be returned is raised, too; an even start has no other."""
    settings = Settings(
        path_loss="released", pred_weight=0.0, max_length=1, num_hops=2, core=0, epochs=1,
        patience=None, paths_per_epoch=3,
    )  # fmt: skip
    raised = []
    for form in ("released", "mean"):
        bench = Workbench(settings.replace(path_loss=form), PAIRS)
        logits = bench.learn().edge_logits
        raised.append(sum(int((logits[kept_of(bench, link)] > 0).sum()) for link in bench.links))
    assert raised[0] > raised[1] > 0


def kept_of(bench: Workbench, link: int) -> np.ndarray:
    here = np.arange(bench.batch.edge_ptr[link], bench.batch.edge_ptr[link + 1])
    return here[bench.kept[here]]
