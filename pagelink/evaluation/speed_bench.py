"""The rows of `pagelink bench speed`, one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from pagelink.datasets.locate import DataNotFoundError, find_data
from pagelink.errors import SettingsError, did_you_mean
from pagelink.evaluation.speed_figures import Figure, Goal, median
from pagelink.evaluation.speed_growth import growth, linear
from pagelink.evaluation.speed_process import GIGABYTE, first_explanation, peak_memory
from pagelink.evaluation.speed_rival import gnnexplainer
from pagelink.evaluation.speed_rows import DataRows
from pagelink.evaluation.speed_sizes import FULL, Sizes
from pagelink.evaluation.speed_subjects import HETIONET, MOVIELENS, USERITEMATTR

ROWS = (
    "useritemattr", "overhead", "gnnexplainer", "growth", "linear", "real", "slowest", "memory",
    "first",
)  # fmt: skip
NO_GROWTH = 1.05
"""Two processes that do the same may differ by this much."""

Starting = Callable[[str], None]


def run(
    sizes: Sizes = FULL,
    seed: int = 0,
    only: Sequence[str] = (),
    starting: Starting = lambda name: None,
) -> Iterator[Figure]:
    """Measure the rows in their order, and give each figure when it is there.

    Args:
        sizes: how much to do.
        seed: seed of graphs, models, links and explainers.
        only: names of rows. Empty: all.
        starting: called with the name of each row when it begins.

    Raises:
        SettingsError: there is no such row.
    """
    on_data = DataRows(sizes, seed)
    rows: dict[str, Callable[[], Iterable[Figure]]] = {
        "useritemattr": on_data.useritemattr,
        "overhead": on_data.overhead,
        "gnnexplainer": partial(gnnexplainer, sizes, seed),
        "growth": partial(growth, sizes, seed),
        "linear": partial(linear, sizes, seed),
        "real": on_data.real,
        "slowest": on_data.slowest,
        "memory": partial(memory, sizes, seed),
        "first": partial(first, sizes, seed),
    }
    for name in chosen_rows(only):
        starting(name)
        for figure in rows[name]():
            # What a tiny graph takes says nothing about the goals.
            yield dataclasses.replace(figure, goal=None) if sizes.tiny else figure


def chosen_rows(only: Sequence[str]) -> list[str]:
    """The rows of these names in the order of the table; all, if none is named.

    Raises:
        SettingsError: there is no such row.
    """
    for name in only:
        if name not in ROWS:
            raise SettingsError(
                f"A row is one of {', '.join(ROWS)}, got {name!r}.{did_you_mean(name, ROWS)}"
            )
    return [name for name in ROWS if not only or name in only]


def memory(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Peak memory of streaming many links of hetionet-core, and whether it grows with them."""
    few, many = sizes.memory_links
    if missing := _missing(HETIONET, sizes):
        yield Figure.not_measured("memory", HETIONET, missing)
        return
    measured = {count: peak_memory(HETIONET, count, seed, sizes.tiny) for count in (few, many)}
    samples = {
        f"{count} links, {name}": [value]
        for count, values in measured.items()
        for name, value in values.items()
    }
    how = (
        "ru_maxrss of a fresh process for each number of links, default settings; the links with "
        "the largest computation graphs come first and last"
    )
    yield Figure(
        "memory", f"{HETIONET}: peak for {many:,} links", measured[many]["peak"] / GIGABYTE, "GB",
        goal=Goal(4.0), how=how, samples=samples,
    )  # fmt: skip
    yield Figure(
        "memory", f"{HETIONET}: peak for {many:,} links over that for {few:,}",
        measured[many]["peak"] / measured[few]["peak"], "x", goal=Goal(NO_GROWTH), how=how,
        samples=samples,
    )  # fmt: skip


def first(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Seconds until a fresh process that has imported torch has its first explanation."""
    for name in (USERITEMATTR, MOVIELENS):
        if missing := _missing(name, sizes):
            yield Figure.not_measured("first", name, missing)
            continue
        if not sizes.tiny:
            first_explanation(name, seed)  # compiles the kernels, if that was never done
        runs = [first_explanation(name, seed, sizes.tiny) for _ in range(sizes.first_repeats)]
        samples = {key: [each[key] for each in runs] for key in runs[0]}
        yield Figure(
            "first", f"{name}: first explanation of a fresh process", median(samples["cpu_s"]),
            "s", median(samples["wall_s"]), goal=Goal(5.0),
            how="import of all but torch, graph, explainer, one link; kernels compiled before; "
            f"median of {len(runs)} processes", samples=samples,
        )  # fmt: skip
        if sizes.tiny:
            return


def _missing(name: str, sizes: Sizes) -> str:
    """Why a data set is not there; empty if it is."""
    if sizes.tiny:
        return ""
    try:
        find_data(name)
    except DataNotFoundError as error:
        return str(error)
    return ""
