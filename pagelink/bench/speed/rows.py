"""Rows on the data sets: the paper's, what pagelink adds to the model's cost, real graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from pagelink.bench.speed.bare import BarePasses
from pagelink.bench.speed.figures import (
    Figure,
    Goal,
    Sample,
    Work,
    cpu,
    interleaved,
    mean_of_slowest,
    measure,
    median,
    median_ratio,
    torch_threads,
    wall,
)
from pagelink.bench.speed.subjects import (
    HETIONET,
    MOVIELENS,
    USERITEMATTR,
    Sizes,
    Subject,
    explain_all,
    load_subject,
)
from pagelink.datasets.folders import DataNotFoundError
from pagelink.settings import Settings

RELEASED_MS = 640.0
"""CPU ms a link of the paper's released code on UserItemAttr."""
EVERY_EPOCH = Settings(patience=None, measure=False)
"""The defaults, but no link leaves before the last of the 20 epochs."""
ONE_BY_ONE = {MOVIELENS: Goal(0.5), HETIONET: Goal(3.0)}


class DataRows:
    """Measures the rows that need a data set; what two rows share is measured once."""

    def __init__(self, sizes: Sizes, seed: int) -> None:
        self.sizes = sizes
        self.seed = seed

    def useritemattr(self) -> Iterator[Figure]:
        """CPU ms a link with the paper's settings, in batches."""
        row, sizes = "useritemattr", self.sizes
        subject = self._load(USERITEMATTR)
        if isinstance(subject, str):
            yield Figure.not_measured(row, "paper settings, in batches", subject)
            return
        links = subject.links(sizes.reference_links)
        variants = {
            "paper": Settings.paper("useritemattr"), "every epoch": EVERY_EPOCH,
            "defaults": Settings(),
        }  # fmt: skip
        words = {
            "paper": "paper settings, CPU ms a link", "every epoch": "our settings, all 20 epochs",
            "defaults": "our defaults, CPU ms a link",
        }  # fmt: skip
        explainers = {name: subject.explainer(s, self.seed) for name, s in variants.items()}
        works = {name: partial(explain_all, e, links) for name, e in explainers.items()}
        how = f"{len(links)} links in batches, median of {sizes.repeats} rounds"
        for threads in sizes.threads:
            with torch_threads(threads):
                interleaved(works, 1)
                rounds = interleaved(works, sizes.repeats)
            for name, samples in rounds.items():
                ms = [1000 * s for s in cpu(samples, len(links))]
                wall_ms = [1000 * s for s in wall(samples, len(links))]
                yield Figure(
                    row, words[name], median(ms), "ms", median(wall_ms), threads,
                    Goal(13.0) if name == "paper" else None, how,
                    {"cpu_ms": ms, "wall_ms": wall_ms},
                )  # fmt: skip
                if name == "paper":
                    yield Figure(
                        row, f"times as fast as the released code ({RELEASED_MS:.0f} ms)",
                        RELEASED_MS / median(ms), "x", RELEASED_MS / median(wall_ms), threads,
                        Goal(50.0, "at least"),
                        "known CPU ms a link of the released code, not measured in this run, over "
                        "the figure above",
                        {"cpu_ms": ms},
                    )  # fmt: skip

    def overhead(self) -> Iterator[Figure]:
        """CPU of explaining over the CPU of bare passes of the same batches."""
        for name in (USERITEMATTR, MOVIELENS, HETIONET):
            subject = self._load(name)
            if isinstance(subject, str):
                yield Figure.not_measured("overhead", name, subject)
            else:
                yield from self._overhead_of(subject)

    def _overhead_of(self, subject: Subject) -> Iterator[Figure]:
        sizes, epochs = self.sizes, EVERY_EPOCH.epochs
        small = subject.name == USERITEMATTR
        links = subject.links(sizes.reference_links if small else sizes.overhead_links)
        repeats = sizes.repeats if small else sizes.overhead_repeats
        explainer = subject.explainer(EVERY_EPOCH, self.seed)
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
            with torch_threads(threads):
                rounds = interleaved(works, repeats)
            used = {f"{k}, cpu_s": cpu(samples, len(links)) for k, samples in rounds.items()}
            used |= {f"{k}, wall_s": wall(samples, len(links)) for k, samples in rounds.items()}
            for other in ("pagelink's pass", "plain PyG pass"):
                yield Figure(
                    "overhead", f"{subject.name}: explained, over bare passes ({other})",
                    median_ratio(used["explained, cpu_s"], used[f"{other}, cpu_s"]), "x",
                    median_ratio(used["explained, wall_s"], used[f"{other}, wall_s"]),
                    threads, Goal(1.5), how, used,
                )  # fmt: skip

    def real(self) -> Iterator[Figure]:
        """CPU seconds a link on the real graphs."""
        for name in (MOVIELENS, HETIONET):
            subject = self._load(name)
            if isinstance(subject, str):
                yield Figure.not_measured("real", name, subject)
                continue
            for threads in self.sizes.threads:
                with torch_threads(threads):
                    yield from self._real_of(subject, threads)

    def _real_of(self, subject: Subject, threads: int) -> Iterator[Figure]:
        sizes, name = self.sizes, subject.name
        count = {MOVIELENS: sizes.movielens_links, HETIONET: sizes.hetionet_links}[name]
        fewer = subject.links(min(sizes.fewer_links, count))
        explainer = subject.explainer(EVERY_EPOCH, self.seed)
        defaults = subject.explainer(Settings(), self.seed)

        if threads > 1:
            alone = _one_by_one(subject, len(fewer), self.seed)
        elif name == MOVIELENS:
            alone = self._movielens
        else:
            alone = _one_by_one(subject, count, self.seed)
        yield _seconds(
            f"{name}: a link alone, all 20 epochs, median", alone, median, threads,
            f"median of {len(alone)} links, each explained once", ONE_BY_ONE[name],
        )  # fmt: skip
        yield _seconds(
            f"{name}: a link alone, all 20 epochs, p99", alone, _p99, threads,
            f"99th percentile of {len(alone)} links",
        )  # fmt: skip
        converged = [measure(partial(defaults.explain, *link)) for link in fewer]
        yield _seconds(
            f"{name}: a link alone, defaults, median", converged, median, threads,
            f"median of {len(fewer)} links; links that have converged leave",
        )  # fmt: skip
        for words, each in (("all 20 epochs", explainer), ("defaults", defaults)):
            sample = measure(partial(explain_all, each, fewer))
            shared = [Sample(sample.cpu / len(fewer), sample.wall / len(fewer))]
            yield _seconds(
                f"{name}: a link in batches, {words}", shared, median, threads,
                f"{len(fewer)} links, once",
            )  # fmt: skip
        passes = [BarePasses(explainer, [link], one_by_one=True) for link in fewer]
        bare = [measure(partial(each.as_plain_pyg, 1)) for each in passes]
        yield _seconds(
            f"{name}: one bare pass of a link alone (plain PyG), median", bare, median, threads,
            f"forward and backward, {len(fewer)} links",
        )  # fmt: skip

    def slowest(self) -> Iterator[Figure]:
        """The slowest 1 % of the links over the median, on MovieLens."""
        row, what = "slowest", f"{MOVIELENS}: slowest 1 % over the median"
        subject = self._load(MOVIELENS)
        if isinstance(subject, str):
            yield Figure.not_measured(row, what, subject)
            return
        seconds = cpu(self._movielens)
        yield Figure(
            row, what, mean_of_slowest(seconds) / median(seconds), "x", goal=Goal(5.0),
            how=f"mean of the slowest 1 % of {len(seconds)} links over their median, each "
            "explained once and alone, all 20 epochs",
            samples={"cpu_s": seconds},
        )  # fmt: skip

    @cached_property
    def _movielens(self) -> list[Sample]:
        """The links of MovieLens, one by one, with one thread."""
        subject = load_subject(MOVIELENS, self.seed, self.sizes.tiny)
        with torch_threads(1):
            return _one_by_one(subject, self.sizes.movielens_links, self.seed)

    def _load(self, name: str) -> Subject | str:
        """The subject, or why it is not there."""
        try:
            return load_subject(name, self.seed, self.sizes.tiny)
        except DataNotFoundError as error:
            return str(error)


def _one_by_one(subject: Subject, count: int, seed: int) -> list[Sample]:
    explainer = subject.explainer(EVERY_EPOCH, seed)
    links = subject.links(count)
    explainer.explain(*links[0])
    return [measure(partial(explainer.explain, *link)) for link in links]


def _p99(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.99))


def _seconds(
    what: str,
    samples: list[Sample],
    summary: Callable[[Sequence[float]], float],
    threads: int,
    how: str,
    goal: Goal | None = None,
) -> Figure:
    return Figure(
        "real", what, summary(cpu(samples)), "s", summary(wall(samples)), threads,
        goal, how, {"cpu_s": cpu(samples), "wall_s": wall(samples)},
    )  # fmt: skip
