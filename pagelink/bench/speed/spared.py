"""What is gained by computing only the vectors of nodes that a link's score needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pagelink.bench.speed.figures import Figure, Goal, both_clocks, interleaved
from pagelink.bench.speed.rows import Sizes, Workload, explain_all
from pagelink.settings import Settings

ALL, NEEDED = "all rows", "needed rows"
TWICE = Goal(2.0, "at least")


def spared_rows(workload: Workload, sizes: Sizes, seed: int) -> Iterator[Figure]:
    """How many times as long explanations take if all vectors are computed, in turn.

    Args:
        workload: the graph with its model.
        sizes: how much to do.
        seed: of the explainer.
    """
    links = workload.links(sizes.spared_links)
    explainer = workload.explainer(Settings(), seed)
    predictor = explainer.pipeline.setup.predictor
    if sizes.tiny:
        predictor.least_spared = 1
    able = predictor.by_rows, predictor.flat

    def explained(groups: list[list[tuple[int, int]]], by_rows: bool) -> Callable[[], None]:
        def work() -> None:
            predictor.by_rows, predictor.flat = (by_rows and each for each in able)
            for group in groups:
                explain_all(explainer, group)

        return work

    for words, groups in (("in batches", [links]), ("alone", [[link] for link in links])):
        works = {ALL: explained(groups, False), NEEDED: explained(groups, True)}
        rounds = interleaved(works, sizes.overhead_repeats, warm=words == "in batches")
        yield Figure.ratio(
            "rows", f"{workload.name}: all vectors over the needed ones, {words}", ALL, NEEDED,
            both_clocks(rounds, len(links)), goal=TWICE,
            how=f"median over {sizes.overhead_repeats} rounds, {len(links)} links, defaults",
        )  # fmt: skip
