"""Part `paths`: how soon the returned paths hold a labelled one, for 1 to 200 of them.

The paper says of its output paths that they reach a perfect hit rate when their number gets large.
Two rates are given: a labelled path is among the first n; and all facts of some labelled path are
among the facts of the first n, whichever of them they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pagelink.bench.answers import DEFAULT, ask
from pagelink.bench.paper.plan import TITLES, Dataset, Part, Session, by_dataset, by_label, told
from pagelink.bench.paper.report import Plot, Series, Table
from pagelink.bench.runs import Figures, Run, mean_cell
from pagelink.rivals.ground import FactPath, Ranked
from pagelink.settings import Settings

NAME = "paths"
MOST = 200
SHOWN = (1, 2, 3, 5, 10, 20, 50, 100, 200)
MEASURED = (1, 2, 3, 5, 10)
"""Numbers of paths of the default: it chooses a set, so each is a run of its own."""
OURS, BY_MASK, PAPER, FREE = (
    "PaGELink, measured (default)", "PaGELink, by its mask", "paper's settings",
    "no model, degree only",
)  # fmt: skip
AMONG, COVERED = "a labelled path among the first n", "its facts among those of the first n"
Curve = dict[str, float]


def first_among(paths: Sequence[FactPath], labelled: Sequence[FactPath]) -> int | None:
    """Return how many paths it takes until one of them is a labelled one; None: none is.

    Example:
        >>> first_among([(1, 2), (3, 4)], [(3, 4), (5,)])
        2
    """
    known = set(labelled)
    return next((n for n, path in enumerate(paths, 1) if path in known), None)


def first_covered(paths: Sequence[FactPath], labelled: Sequence[FactPath]) -> int | None:
    """Return how many paths it takes until their facts hold all those of a labelled one.

    Example:
        >>> first_covered([(1, 2), (3, 4), (5, 6)], [(1, 4)])
        2
    """
    seen: set[int] = set()
    wanted = [set(path) for path in labelled]
    for n, path in enumerate(paths, 1):
        seen.update(path)
        if any(facts <= seen for facts in wanted):
            return n
    return None


def hit_rates(firsts: Sequence[int | None], counts: Sequence[int]) -> Curve:
    """Return the share of links that are hit by the first n paths, for each n; misses count.

    Example:
        >>> hit_rates([1, 3, None, 2], (1, 2, 5))
        {'1': 0.25, '2': 0.5, '5': 0.75}
    """
    return {
        str(n): round(sum(f is not None and f <= n for f in firsts) / max(len(firsts), 1), 5)
        for n in counts
    }


def curves(
    paths: Ranked, labelled: Sequence[Sequence[FactPath]], counts: Sequence[int]
) -> dict[str, Curve]:
    """Both rates of some links, by number of paths."""
    both = list(zip(paths, labelled, strict=True))
    return {
        AMONG: hit_rates([first_among(*one) for one in both], counts),
        COVERED: hit_rates([first_covered(*one) for one in both], counts),
    }


def each(session: Session, dataset: Dataset) -> None:
    """Explain the links of a data set with up to 200 paths."""
    many = Settings(num_paths=MOST, measure=False)
    variants = {
        BY_MASK: (DEFAULT, many),
        PAPER: (DEFAULT, dataset.paper_settings.replace(num_paths=MOST)),
        FREE: ("degree", many),
    }
    session.do_variants(dataset, variants, _figures)
    counts = MEASURED[:2] if session.plan.quick else MEASURED
    key = dataset.key_of(label=OURS, seed=0, counts=list(counts), settings=told(Settings()))
    session.do(f"{dataset.name} {OURS}", key, _figures, dataset, DEFAULT, Settings(), 0, counts)


def _figures(
    dataset: Dataset, rival: str, settings: Settings, seed: int, counts: Sequence[int] = (MOST,)
) -> Figures:
    """The rates at each of several counts, paths chosen anew for each, or up to the only one."""
    assert dataset.labels is not None  # all data sets of the paper have labels
    answer = ask(dataset.subject, rival, settings, seed, counts=counts)
    rates: dict[str, Curve] = {AMONG: {}, COVERED: {}}
    for most, paths in answer.paths.items():
        shown = range(1, most + 1) if len(counts) == 1 else (most,)
        for which, curve in curves(paths, dataset.labels, shown).items():
            rates[which] |= curve
    returned = [len(each) for each in answer.paths[max(counts)]]
    return {
        "rates": rates, "links": len(returned), "max_length": settings.max_length,
        "mean_paths": sum(returned) / max(len(returned), 1),
    }  # fmt: skip


def tables(runs: Sequence[Run]) -> Iterator[Table]:
    """A table for each data set: rates by number of paths."""
    for data, labels in _grouped(runs).items():
        rows = []
        for label, mine in labels.items():
            for which in (AMONG, COVERED):
                known = [run.figures["rates"][which] for run in mine]
                cells = [mean_cell([rates.get(str(n)) for rates in known]) for n in SHOWN]
                rows.append((f"{label}: {which}", *cells))
        links = next(iter(labels.values()))[0].figures["links"]
        yield Table(
            f"Output-path hit rate against the number of paths, {TITLES[data]}",
            ("explainer", *map(str, SHOWN)), rows,
            f"{links} links, none left out; mean over explainer seeds where the mask starts "
            "from noise. Paths have at most 3 facts, with the paper's settings at most 5. The "
            "labels are made by degrees alone, so the row without a model is what the others "
            "are to be read against. The default chooses its set anew for each n, by what it "
            "is worth to the model: its rate need not rise with n.",
        )  # fmt: skip


def plots(runs: Sequence[Run]) -> Iterator[Plot]:
    """A plot for each data set: the share of links with a labelled path among the first n."""
    for data, labels in _grouped(runs).items():
        lines = []
        for label, mine in labels.items():
            known = [run.figures["rates"][AMONG] for run in mine]
            x = sorted(int(n) for n in known[0])
            y = [[rates[str(n)] for rates in known] for n in x]
            means = [sum(v) / len(v) for v in y]
            lines.append(Series(label, x, means, list(map(min, y)), list(map(max, y))))
        yield Plot(
            f"Labelled path among the first n, {TITLES[data]}", "number of paths n",
            "share of links", lines, note="Bands: lowest and highest explainer seed.", log_x=True,
        )  # fmt: skip


def _grouped(runs: Sequence[Run]) -> dict[str, dict[str, list[Run]]]:
    """The runs by data set and by explainer, in the order in which they are shown."""
    labels = (OURS, BY_MASK, PAPER, FREE)
    return {data: by_label(mine, labels) for data, mine in by_dataset(runs).items()}


PART = Part(NAME, "Output paths against labels, by their number", tables, each, plots=plots)
