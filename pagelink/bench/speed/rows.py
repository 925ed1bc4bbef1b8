"""Rows on the data sets: the paper's, what pagelink adds to the model's cost, real graphs.

With how much each row of the benchmark does, in full and in the tiny version, and the graphs,
models and links that are explained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import HeteroData

from pagelink.bench.speed.bare import BarePasses
from pagelink.bench.speed.figures import (
    Figure,
    Goal,
    Sample,
    Work,
    both_clocks,
    cpu,
    interleaved,
    mean_of_slowest,
    measure,
    median,
    torch_threads,
    wall,
)
from pagelink.datasets.folders import find_data
from pagelink.datasets.reference import FOLDER, load_reference
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.explain import pipeline
from pagelink.explain.explainer import PaGELink
from pagelink.graph.schema import EdgeType
from pagelink.models.architectures import RGCN, make_model
from pagelink.settings import Settings
from pagelink.tables.load import load_graph

RELEASED_MS = 640.0
"""CPU ms per link of the paper's released code on UserItemAttr."""
EVERY_EPOCH = Settings(patience=None, measure=False)
"""The defaults, but no link leaves before the last of the 20 epochs."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of links, repeats and edges."""

    tiny: bool = False
    """Generated graphs stand for the data sets."""
    threads: tuple[int, ...] = (1, 2)
    """Rows in which threads matter are measured once with each of these."""
    repeats: int = 5
    """Rounds of the rows on small graphs."""

    reference_links: int | None = None
    """Links of UserItemAttr; None: all that the model predicts."""
    overhead_links: int = 16
    """Links of each real graph; they are explained once for every round."""
    overhead_repeats: int = 3
    spared_links: int = 8
    """Links of each real graph, explained with all vectors and with the needed ones."""

    movielens_links: int = 500
    hetionet_links: int = 100
    fewer_links: int = 32
    """Number of the same links that are explained in batches, by the defaults, on two threads."""

    rival_nodes: int = 5_000
    rival_edges: int = 50_000
    rival_hidden: int = 64
    rival_links: int = 32
    rival_epochs: tuple[int, ...] = (20, 100)
    rival_repeats: int = 1

    growth_core: int = 1_000
    """Edges around the explained links, the same at every size."""
    growth_links: int = 8
    growth_edges: tuple[int, ...] = (10**4, 10**5, 10**6, 10**7)
    growth_repeats: int = 15

    paper_range: tuple[int, ...] = (20, *range(500, 5_501, 500))
    large_range: tuple[int, ...] = (5_500, 200_000, 400_000, 600_000, 800_000, 1_000_000)
    linear_repeats: int = 10
    linear_copies: int = 32
    """Links of one size that are explained side by side."""
    large_repeats: int = 5

    setup_nodes: int = 2_000
    setup_edges: int = 20_000
    setup_layers: tuple[int, ...] = (1, 2, 3, 4)
    setup_relations: tuple[int, ...] = (4, 40, 237)
    setup_link_types: tuple[int, ...] = (1, 10, 237)
    setup_repeats: int = 2

    relations: int = 474
    relation_nodes: int = 2_000
    relation_edges: int = 24_000
    relation_links: int = 16
    relation_repeats: int = 3
    kg_links: int = 12
    attention_nodes: int = 2_000
    attention_edges: int = 16_000
    attention_links: int = 8

    hub_facts: tuple[int, int] = (10**3, 10**5)
    hub_users: int = 120_000
    hub_links: int = 2
    memory_links: tuple[int, int] = (200, 1_000)
    first_repeats: int = 3
    training_edges: int = 4_000_000
    training_seconds: float = 30.0


FULL = Sizes()
QUICK = Sizes(
    tiny=True, threads=(1,), repeats=2, reference_links=4, overhead_links=4, overhead_repeats=2,
    spared_links=2,
    movielens_links=6, hetionet_links=4, fewer_links=3,
    rival_nodes=200, rival_edges=1_000, rival_hidden=8, rival_links=2, rival_epochs=(3, 4),
    growth_core=60, growth_links=2, growth_edges=(300, 600), growth_repeats=2,
    paper_range=(20, 60, 100, 140), large_range=(140, 300, 450, 600), linear_repeats=2,
    linear_copies=2, large_repeats=2, setup_nodes=60, setup_edges=240, setup_layers=(1, 2),
    setup_relations=(2, 3), setup_link_types=(1, 3), setup_repeats=1,
    relations=20, relation_nodes=40, relation_edges=240, relation_links=4, relation_repeats=1,
    training_edges=4_000, training_seconds=0.5,
    kg_links=2, attention_nodes=100, attention_edges=400, attention_links=2,
    memory_links=(6, 9), first_repeats=1, hub_facts=(10, 50), hub_users=100, hub_links=1,
)  # fmt: skip

USERITEMATTR, MOVIELENS, HETIONET = FOLDER, "movielens-small", "hetionet-core"
LINK_TYPES: dict[str, EdgeType] = {
    MOVIELENS: ("user", "likes", "movie"), HETIONET: ("compound", "treats", "disease"),
}  # fmt: skip
HIDDEN = 64
Links = list[tuple[int, int]]


@dataclass(frozen=True)
class Workload:
    """A graph with a model, and the links to choose from, in a random order."""

    name: str
    data: HeteroData
    link_type: EdgeType
    model: nn.Module
    pairs: Links

    def links(self, count: int | None) -> Links:
        """The first `count` links; where there are fewer, they come again and again."""
        if count is None:
            return list(self.pairs)
        return [self.pairs[i % len(self.pairs)] for i in range(count)]

    def explainer(self, settings: Settings, seed: int) -> PaGELink:
        """An explainer that learns a mask for every link, whatever the model says of it."""
        with torch_threads(1):
            return PaGELink(self.model, self.data, self.link_type, settings, seed, threshold=None)


def load_workload(name: str, seed: int, tiny: bool = False) -> Workload:
    """Return one of the three data sets with its model.

    The models of the real graphs are two-layer SAGE of 64, untrained: what they say does not change
    how long it takes. UserItemAttr comes with its released weights.

    Args:
        name: name of the data set.
        seed: seed of the weights and of the order of the links.
        tiny: a small generated graph stands for the data set.

    Raises:
        DataNotFoundError: the data are not there.
    """
    if not tiny and name == USERITEMATTR:
        released = load_reference()
        links = list(released.test_links)
        return Workload(name, released.data, released.link_type, released.model, links)
    if not tiny:
        return _untrained(name, load_graph(find_data(name)), LINK_TYPES[name], HIDDEN, seed)
    # In place of a real graph, the links of the small one are among its edges.
    generated = generate_useritemattr(
        num_users=40, num_items=40, num_attrs=20, num_has=60, num_wanted=12, max_prefers=4,
        items_per_user=15, num_buys=160, min_shared=1, seed=0,
    )  # fmt: skip
    data, link_type = generated.data, generated.link_type
    if name != USERITEMATTR:
        return _untrained(name, data, ("user", "buys", "item"), 8, seed)
    model = RGCN.for_data(data, link_type, paper_split=True, hidden=8, seed=seed).eval()
    return Workload(name, data, link_type, model, _shuffled(generated.likes, seed))


def _untrained(
    name: str, data: HeteroData, link_type: EdgeType, hidden: int, seed: int
) -> Workload:
    """Two layers of SAGE; the links are known ones."""
    model = make_model("sage", data, link_type, hidden=hidden, seed=seed).eval()
    return Workload(name, data, link_type, model, _shuffled(data[link_type].edge_index, seed))


def _shuffled(edge_index: torch.Tensor, seed: int) -> Links:
    order = np.random.default_rng(seed).permutation(edge_index.shape[1])
    return [(int(src), int(dst)) for src, dst in edge_index.numpy().T[order]]


def explain_all(explainer: PaGELink, links: Sequence[tuple[int, int]]) -> int:
    """Explain links in batches, keeping none of the explanations; return the number with paths."""
    return sum(bool(explanation.paths) for explanation in explainer.explain_many(links))


ONE_BY_ONE = {MOVIELENS: Goal(0.5), HETIONET: Goal(3.0)}
PAPER = "paper settings, CPU ms per link"


class DataRows:
    """Measures the rows that need a data set; what two rows share is measured once."""

    def __init__(self, sizes: Sizes, seed: int) -> None:
        self.sizes = sizes
        self.seed = seed

    def _load(self, name: str) -> Workload:
        return load_workload(name, self.seed, self.sizes.tiny)

    def useritemattr(self, name: str) -> Iterator[Figure]:
        """CPU ms per link with the paper's settings, in batches."""
        row, sizes, workload = "useritemattr", self.sizes, self._load(name)
        links = workload.links(sizes.reference_links)
        variants = {
            PAPER: Settings.paper("useritemattr"),
            "our settings, all 20 epochs": EVERY_EPOCH,
            "our defaults, CPU ms per link": Settings(),
        }
        works = {
            what: partial(explain_all, workload.explainer(settings, self.seed), links)
            for what, settings in variants.items()
        }
        how = f"{len(links)} links in batches, median of {sizes.repeats} rounds"
        for threads in sizes.threads:
            rounds = interleaved(works, sizes.repeats, threads=threads, warm=True)
            for what, samples in rounds.items():
                ms = [1000 * s for s in cpu(samples, len(links))]
                wall_ms = [1000 * s for s in wall(samples, len(links))]
                yield Figure(
                    row, what, median(ms), "ms", median(wall_ms), threads,
                    Goal(13.0) if what == PAPER else None, how, {"cpu_ms": ms, "wall_ms": wall_ms},
                )  # fmt: skip
                if what == PAPER:
                    yield Figure(
                        row, f"times as fast as the released code ({RELEASED_MS:.0f} ms)",
                        RELEASED_MS / median(ms), "x", RELEASED_MS / median(wall_ms), threads,
                        Goal(50.0, "at least"),
                        "known CPU ms per link of the released code, not of this run, over "
                        "the figure above",
                        {"cpu_ms": ms},
                    )  # fmt: skip

    def overhead(self, name: str) -> Iterator[Figure]:
        """CPU of explaining over the CPU of bare passes of the same batches."""
        sizes, epochs, workload = self.sizes, EVERY_EPOCH.epochs, self._load(name)
        small = name == USERITEMATTR
        links = workload.links(sizes.reference_links if small else sizes.overhead_links)
        repeats = sizes.repeats if small else sizes.overhead_repeats
        explainer = workload.explainer(EVERY_EPOCH, self.seed)
        bare = BarePasses(explainer, links)
        works: dict[str, Work] = {
            "explained": partial(explain_all, explainer, links),
            "pagelink's pass": partial(bare.as_pagelink, epochs),
            "plain PyG pass": partial(bare.as_plain_pyg, epochs),
        }
        how = (
            f"{len(links)} links in batches, {epochs} epochs each; median of the ratios of "
            f"{repeats} rounds"
        )
        for threads in sizes.threads:
            rounds = interleaved(works, repeats, threads=threads)
            used = both_clocks(rounds, len(links))
            for other in ("pagelink's pass", "plain PyG pass"):
                yield Figure.ratio(
                    "overhead", f"{name}: explained, over bare passes ({other})", "explained",
                    other, used, threads=threads, goal=Goal(1.5), how=how,
                )  # fmt: skip

    def real(self, name: str) -> Iterator[Figure]:
        """CPU seconds per link on the real graphs."""
        workload = self._load(name)
        for threads in self.sizes.threads:
            with torch_threads(threads):
                yield from self._real_with(workload, threads)

    def _real_with(self, workload: Workload, threads: int) -> Iterator[Figure]:
        sizes, name = self.sizes, workload.name
        count = {MOVIELENS: sizes.movielens_links, HETIONET: sizes.hetionet_links}[name]
        fewer = workload.links(min(sizes.fewer_links, count))
        explainer = workload.explainer(EVERY_EPOCH, self.seed)
        defaults = workload.explainer(Settings(), self.seed)

        def seconds(
            what: str,
            samples: list[Sample],
            how: str,
            summary: Callable[[Sequence[float]], float] = median,
            goal: Goal | None = None,
        ) -> Figure:
            taken = {"cpu_s": cpu(samples), "wall_s": wall(samples)}
            by_cpu, by_wall = map(summary, taken.values())
            return Figure(
                "real", f"{name}: {what}", by_cpu, "s", by_wall, threads, goal, how, taken
            )

        if threads == 1 and name == MOVIELENS:
            alone = self._movielens
        else:
            alone = _one_by_one(workload, count if threads == 1 else len(fewer), self.seed)
        yield seconds(
            "a link alone, all 20 epochs, median", alone,
            f"median of {len(alone)} links, each explained once", goal=ONE_BY_ONE[name],
        )  # fmt: skip
        yield seconds(
            "a link alone, all 20 epochs, p99", alone,
            f"99th percentile of {len(alone)} links", partial(np.quantile, q=0.99),
        )  # fmt: skip
        yield seconds(
            "a link alone, defaults, median",
            [measure(partial(defaults.explain, *link)) for link in fewer],
            f"median of {len(fewer)} links; links that have converged leave",
        )
        for words, each in (("all 20 epochs", explainer), ("defaults", defaults)):
            sample = measure(partial(explain_all, each, fewer))
            shared = [Sample(sample.cpu / len(fewer), sample.wall / len(fewer))]
            yield seconds(f"a link in batches, {words}", shared, f"{len(fewer)} links, once")
        passes = [BarePasses(explainer, [link]) for link in fewer]
        yield seconds(
            "one bare pass of a link alone (plain PyG), median",
            [measure(partial(each.as_plain_pyg, 1)) for each in passes],
            f"forward and backward, {len(fewer)} links",
        )

    def check(self, name: str) -> Iterator[Figure]:
        """What it takes to compare links with the full graph, and its share of explaining them."""
        workload, own = self._load(name), vars(pipeline)["check_links"]
        links = workload.links(self.sizes.fewer_links)
        explainer = workload.explainer(Settings(), self.seed)
        explain_all(explainer, links[:1])
        checks: list[Sample] = []

        def clocked(*given: Any, **named: Any) -> Any:
            found: list[Any] = []
            checks.append(measure(lambda: found.append(own(*given, **named))))
            return found[0]

        with torch_threads(1):
            for words, groups in (("alone", [[link] for link in links]), ("in batches", [links])):
                checks.clear()
                vars(pipeline)["check_links"] = clocked
                try:
                    whole = [measure(partial(explain_all, explainer, group)) for group in groups]
                finally:
                    vars(pipeline)["check_links"] = own
                taken, total = sum(cpu(checks)), sum(cpu(whole))
                how = f"{len(links)} links, defaults, {workload.data.num_edges:,} edges"
                samples = {"check, cpu_s": cpu(checks), "explained, cpu_s": cpu(whole)}
                for what, value, unit in (
                    ("the check of a link", 1000 * taken / len(links), "ms"),
                    ("the share of the check", taken / total, "x"),
                ):
                    yield Figure(
                        "check", f"{name}: {what}, {words}", value, unit, how=how, samples=samples
                    )

    def slowest(self, name: str) -> Iterator[Figure]:
        """The slowest 1 % of the links over the median, on MovieLens."""
        seconds = cpu(self._movielens)
        yield Figure(
            "slowest", f"{name}: slowest 1 % over the median",
            mean_of_slowest(seconds) / median(seconds), "x", goal=Goal(5.0),
            how=f"mean of the slowest 1 % of {len(seconds)} links over their median, each "
            "explained once and alone, all 20 epochs",
            samples={"cpu_s": seconds},
        )  # fmt: skip

    @cached_property
    def _movielens(self) -> list[Sample]:
        """The links of MovieLens, one by one, with one thread."""
        workload = self._load(MOVIELENS)
        with torch_threads(1):
            return _one_by_one(workload, self.sizes.movielens_links, self.seed)


def _one_by_one(workload: Workload, count: int, seed: int) -> list[Sample]:
    explainer = workload.explainer(EVERY_EPOCH, seed)
    links = workload.links(count)
    explain = partial(explainer.explain, rank=False)
    explain(*links[0])
    return [measure(partial(explain, *link)) for link in links]
