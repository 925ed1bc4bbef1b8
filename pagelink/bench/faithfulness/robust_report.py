"""The tables of the part `robust`, made from its runs, and what their intervals say in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pagelink.bench.faithfulness.bench import RANKINGS
from pagelink.bench.measures import with_interval
from pagelink.bench.paper.report import Table
from pagelink.bench.runs import Run, cell, interval_cell
from pagelink.metrics.averages import mean_and_spread
from pagelink.runtime.arrays import Doubles

DEFAULT = RANKINGS[0]
STUDENT = {
    2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262
}  # fmt: skip
"""By number of values, the 97.5 % quantile of Student's t; for more, the last is large enough."""
SINGLE = (
    f"Each interval stands for itself; the sentences rest on {2 * len(RANKINGS) - 1} comparisons, "
    "for whose number nothing is corrected."
)
Interval = tuple[float, float, float]
"""A figure and the ends of its interval."""
Beyond = Mapping[str, Sequence[Doubles]]
"""Per ranking, a list of judgements (one per training): of each link, how much more its score
falls than by random facts."""


def tables(runs: Iterable[Run]) -> list[Table]:
    """The tables of all subjects: training anew, and random halves."""
    by_subject: dict[str, list[Run]] = {}
    for run in runs:
        by_subject.setdefault(run.key["subject"], []).append(run)
    return [
        table
        for subject, some in by_subject.items()
        for table in (*_retrained(subject, some), *_halved(subject, some))
    ]


def random_name(size: int) -> str:
    """The name of the training without this number of random facts."""
    return f"random {size}"


def _retrained(subject: str, runs: Sequence[Run]) -> list[Table]:
    found = {
        (run.key["without"], run.key["training"]): run for run in runs if "training" in run.key
    }
    numbers = sorted({number for _, number in found})
    if not numbers:
        return []
    seed, links = runs[0].key["seed"], runs[0].key["links"]
    sizes = {name: int(found[name, numbers[0]].figures["facts"]) for name in RANKINGS}

    def falls(figure: str, what: str) -> list[Doubles]:
        """Per training, how far each link falls by training without something."""
        return [
            np.array(found["nothing", number].figures[figure])
            - np.array(found[what, number].figures[figure])
            for number in numbers
        ]

    result = []
    for figure, title in (("logit", "the logit"), ("auc", "the ROC-AUC")):
        own = {name: falls(figure, name) for name in RANKINGS}
        random = {name: falls(figure, random_name(sizes[name])) for name in RANKINGS}
        beyond = {name: _less(own[name], random[name]) for name in RANKINGS}
        rows = []
        for name in RANKINGS:
            apart = [_side(_over_links([each], seed)) for each in beyond[name]]
            rows.append((
                name, str(sizes[name]), cell(float(np.mean(own[name]))),
                cell(float(np.mean(random[name]))), interval_cell(*_over_links(beyond[name], seed)),
                interval_cell(*_over_trainings(beyond[name])),
                f"{apart.count(1)} / {apart.count(-1)}",
                "-" if name == DEFAULT
                else interval_cell(*_over_trainings(_less(beyond[DEFAULT], beyond[name]))),
            ))  # fmt: skip
        result.append(Table(
            f"{subject}: training anew, fall of {title}",
            ("", "facts", "fall", "random facts", "beyond, over links", "beyond, over trainings",
             "above / below 0", f"{DEFAULT} beyond it"),
            rows,
            f"{links} links at once, {len(numbers)} trainings. Beyond: the fall less that by as "
            "many random facts of their paths; 95 % intervals over links, and over trainings; "
            f"above / below 0: in how many trainings the interval over links is so. {SINGLE} "
            + in_words(beyond, seed),
        ))  # fmt: skip
    return result


def _halved(subject: str, runs: Sequence[Run]) -> list[Table]:
    result = []
    for run in runs:
        if "halves" not in run.key or not run.key["links"]:
            continue
        seed, rankings = run.key["seed"], run.figures["rankings"]
        own = {name: np.array(rankings[name]["own"]) for name in RANKINGS}
        random = {name: np.array(rankings[name]["random"]) for name in RANKINGS}
        beyond = {name: [own[name] - random[name]] for name in RANKINGS}
        rows = [
            (name, _figure(own[name], seed), _figure(random[name], seed),
             _figure(beyond[name][0], seed),
             "-" if name == DEFAULT else _figure(beyond[DEFAULT][0] - beyond[name][0], seed))
            for name in RANKINGS
        ]  # fmt: skip
        result.append(Table(
            f"{subject}: random halves",
            ("", "with less without", "random facts", "beyond", f"{DEFAULT} beyond it"),
            rows,
            f"{run.key['links']} links, {run.key['halves']} random halves of the facts that each "
            "can see; mean difference of the logit with all facts of three paths and with none; "
            f"95 % intervals over links. {SINGLE} " + in_words(beyond, seed),
        ))  # fmt: skip
    return result


def _figure(values: Doubles, seed: int) -> str:
    return interval_cell(*_over_links([values], seed))


def _less(values: Sequence[Doubles], others: Sequence[Doubles]) -> list[Doubles]:
    return [one - other for one, other in zip(values, others, strict=True)]


def _over_links(values: Sequence[Doubles], seed: int) -> Interval:
    """The mean of some judgements, with its bootstrap interval over links."""
    mean = np.mean(values, axis=0)
    return with_interval(mean, np.ones(len(mean)), seed)


def _over_trainings(values: Sequence[Doubles]) -> Interval:
    """The same mean with Student's interval over the judgements; NaN ends if there is one only."""
    mean, spread = mean_and_spread([each.mean() for each in values])
    size = len(values)
    wide = STUDENT[min(size, max(STUDENT))] * spread / size**0.5 if size > 1 else math.nan
    return mean, mean - wide, mean + wide


def _side(found: Interval) -> int:
    _, low, high = found
    return 1 if low > 0 else -1 if high < 0 else 0


def in_words(beyond: Beyond, seed: int) -> str:
    """What the intervals say: which rankings differ from random facts, and from the default.

    A difference shows if the interval over links excludes 0 and, where there are several trainings,
    so does the one over trainings: links of one training move together.

    Example:
        >>> one, other = np.full(9, 2.0), np.tile([-1.0, 0.0, 1.0], 3)
        >>> in_words({"default": [one], "paper": [other]}, seed=0)
        'More than random facts of the paths: default. The default is above paper.'
        >>> in_words({"default": [other], "paper": [other[::-1]]}, seed=0)
        'Nothing shows: no ranking differs from random facts of the paths, nor from the default.'
    """
    signs = {name: _sign(values, seed) for name, values in beyond.items()}
    against = {
        name: _sign(_less(beyond[DEFAULT], values), seed)
        for name, values in beyond.items()
        if name != DEFAULT
    }
    said = []
    for sign, words in ((1, "More"), (-1, "Less")):
        names = [name for name, found in signs.items() if found == sign]
        if names:
            said.append(f"{words} than random facts of the paths: {', '.join(names)}.")
    for sign, words in ((1, "above"), (-1, "below")):
        names = [name for name, found in against.items() if found == sign]
        if names:
            said.append(f"The default is {words} {', '.join(names)}.")
    if not any(signs.values()) and not any(against.values()):
        return (
            "Nothing shows: no ranking differs from random facts of the paths, nor from the "
            "default."
        )
    if not any(signs.values()):
        said.append("No ranking differs from random facts of the paths.")
    if not any(against.values()):
        said.append("Nothing separates the other rankings from the default.")
    return " ".join(said)


def _sign(values: Sequence[Doubles], seed: int) -> int:
    """1 or -1 if all intervals are on that side of 0, else 0."""
    sides = {_side(_over_links(values, seed))}
    if len(values) > 1:
        sides.add(_side(_over_trainings(values)))
    return sides.pop() if len(sides) == 1 else 0
