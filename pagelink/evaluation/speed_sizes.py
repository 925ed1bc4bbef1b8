"""How much each row of the speed benchmark does: in full, and in the tiny version."""

from __future__ import annotations

from dataclasses import dataclass


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

    movielens_links: int = 500
    hetionet_links: int = 100
    fewer_links: int = 32
    """Of the same links, so many are explained in batches, with the defaults, with two threads."""

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

    memory_links: tuple[int, int] = (200, 1_000)
    first_repeats: int = 3


FULL = Sizes()
QUICK = Sizes(
    tiny=True, threads=(1,), repeats=2, reference_links=4, overhead_links=4, overhead_repeats=2,
    movielens_links=6, hetionet_links=4, fewer_links=3,
    rival_nodes=200, rival_edges=1_000, rival_hidden=8, rival_links=2, rival_epochs=(3, 4),
    growth_core=60, growth_links=2, growth_edges=(300, 600), growth_repeats=2,
    paper_range=(20, 60, 100, 140), large_range=(140, 300, 450, 600), linear_repeats=2,
    linear_copies=2, large_repeats=2, memory_links=(6, 9), first_repeats=1,
)  # fmt: skip
