"""One explanation for a set of links: the few metapaths that carry most of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagelink.audit.figures import CarrierSummary, Mean
from pagelink.audit.metapaths import find_metapaths
from pagelink.audit.rows import (
    Row,
    in_words,
    make_row,
    settle,
    suspects_of,
    trials_of_link,
)
from pagelink.audit.sampling import distinct
from pagelink.audit.summary import (
    EXAMPLES,
    carried_by,
    link_name,
    mean_of,
    summarise_carriers,
    verdicts_of,
)
from pagelink.audit.wording import moves, signed, unmeasured
from pagelink.errors import SettingsError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.options import check_whole_number
from pagelink.explain.result import plain
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.links import Link, LinkLike
from pagelink.measure.verdict import TENTH
from pagelink.model.borrowing import in_normal_mode
from pagelink.runtime.csr import Csr
from pagelink.runtime.timer import OutOfTimeError
from pagelink.views.text import clean, count


@dataclass(frozen=True)
class GroupMetapath:
    """A metapath that carries several links."""

    words: str
    num_carried: int
    """Links of the group that it carries."""
    num_new: int
    """Of these, links that none of the metapaths before it carries."""
    effect: Mean
    """What the logits lose without all its paths, over the links that have it."""
    gain: Mean
    """What the logits without any path gain by its paths alone."""
    examples: tuple[tuple[str, str], ...]
    """Links that it carries, each with its path, in words."""


@dataclass(frozen=True)
class GroupExplanation:
    """What carries a set of links together."""

    num_links: int
    num_measured: int
    metapaths: tuple[GroupMetapath, ...]
    """Each chosen for the links that those before it do not carry."""
    num_carried: int
    """Links that some of them carries."""
    effect: Mean
    """What the logits of all measured links lose without all paths of these metapaths."""
    all_paths: Mean
    """The same without any path."""
    facts: tuple[CarrierSummary, ...]
    """Facts that move several of the links."""
    nodes: tuple[CarrierSummary, ...]
    verdicts: dict[str, int]
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings, ready for JSON."""
        return {**plain(self), "text": str(self)}

    def __str__(self) -> str:
        told = [self.sentence]
        for number, each in enumerate(self.metapaths, start=1):
            told.append(
                f"{number}. {each.words}: carries {each.num_carried}; "
                f"{signed(-each.effect.mean)} without its paths, {signed(each.gain.mean)} by them "
                "alone."
            )
            told += [f"   {clean(link)}: {text}" for link, text in each.examples]
        return "\n".join([*told, *self.carriers])

    @property
    def sentence(self) -> str:
        """What carries the links, and how many of them could not be measured."""
        return " ".join(filter(None, (self._carried, unmeasured(self.rows))))

    @property
    def _carried(self) -> str:
        if not self.num_measured:
            return ""
        if not self.metapaths:
            return f"No chain of facts carries any of {count(self.num_measured, 'link')}."
        several = len(self.metapaths) > 1
        return (
            f"{count(len(self.metapaths), 'chain')} of facts {'carry' if several else 'carries'} "
            f"{self.num_carried} of {count(self.num_measured, 'link')}. Without all "
            f"{'their' if several else 'its'} paths the scores lose {self.effect.mean:.2f} on "
            f"average; without any path at all {self.all_paths.mean:.2f}.{self._others}"
        )

    @property
    def _others(self) -> str:
        """That other chains make up for these, where they do."""
        lost, every = self.effect.mean, self.all_paths.mean
        return " Other chains stand in for what is removed." if lost < TENTH * every else ""

    @property
    def carriers(self) -> list[str]:
        """The facts and nodes that move most of the links, in words."""
        most = (*self.facts[:2], *self.nodes[:2])
        return [f"{clean(each.text)} {moves(each, self.num_measured)}." for each in most]


@in_normal_mode
def explain_group(
    explainer: PaGELink, links: Iterable[LinkLike], *, most: int = 3
) -> GroupExplanation:
    """Explain a set of links together.

    Args:
        explainer: the model, as it is explained.
        links: the links: all recommendations of a user, say.
        most: metapaths at most.

    Raises:
        SettingsError: there are no links, or an argument is out of its range.
    """
    check_whole_number("most", most, 1)
    given = distinct(explainer.reader, links)
    if not given:
        raise SettingsError("There are no links to explain together.")
    # 1. Each link by itself.
    read = [explainer.reader.read_any(link) for link in given]
    rows = [
        make_row(explainer, link, explanation, game=False)
        for link, explanation in zip(read, explainer.explain_many(given), strict=True)
    ]
    suspects = suspects_of(rows)
    rows = [settle(explainer, *each, suspects) for each in zip(read, rows, strict=True)]
    # 2. The metapaths that carry most links that are not carried yet.
    carried = [set(carried_by(row)) for row in rows]
    chosen = _cover(carried, most)
    # 3. All of them removed at once.
    lost, spans = [], []
    for link, row in zip(read, rows, strict=True):
        if row.is_measured and (both := _together(explainer, link, row, set(chosen))):
            lost.append(both[0])
            spans.append(both[1])
    return GroupExplanation(
        num_links=len(rows),
        num_measured=len(lost),
        metapaths=tuple(
            _metapath(words, rows, carried, set(chosen[:place]))
            for place, words in enumerate(chosen)
        ),
        num_carried=sum(bool(each & set(chosen)) for each in carried),
        effect=mean_of(lost),
        all_paths=mean_of(spans),
        facts=summarise_carriers(rows, lambda row: row.facts),
        nodes=summarise_carriers(rows, lambda row: row.nodes),
        verdicts=verdicts_of(rows),
        rows=tuple(rows),
    )


def _cover(carried: Sequence[set[str]], most: int) -> list[str]:
    """Choose, one after the other, what carries most of the links that are left.

    Example:
        >>> _cover([{"a"}, {"a", "b"}, {"b"}, {"c"}, {"a"}], 2)
        ['a', 'b']
    """
    chosen: list[str] = []
    while len(chosen) < most:
        left = [each for each in carried if not each & set(chosen)]
        counts = Counter(words for each in left for words in each)
        if not counts:
            break
        chosen.append(min(counts, key=lambda words: (-counts[words], words)))
    return chosen


def _metapath(
    words: str, rows: Sequence[Row], carried: Sequence[set[str]], before: set[str]
) -> GroupMetapath:
    mine = [(row, each) for row in rows for each in row.metapaths if each.words == words]
    examples = [
        (link_name(row), each.example)
        for row, each in sorted(mine, key=lambda pair: -pair[1].worth)
        if each.example
    ]
    return GroupMetapath(
        words=words,
        num_carried=sum(words in each for each in carried),
        num_new=sum(words in each and not each & before for each in carried),
        effect=mean_of(each.effect for _, each in mine),
        gain=mean_of(each.gain for _, each in mine),
        examples=tuple(examples[:EXAMPLES]),
    )


def _together(
    explainer: PaGELink, link: Link, row: Row, chosen: set[str]
) -> tuple[float, float] | None:
    """What the score of a link loses without all paths of some metapaths, and without any path."""
    try:
        trials = trials_of_link(explainer, link, row)
        work = trials.work
        paths = work.setup.path_graphs(work.batch, None, work.timer.search_end())
        mine = [
            each.slots
            for each in find_metapaths(trials, paths)
            if in_words(each.steps, explainer.graph) in chosen
        ]
        slots = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *mine]))
        (effect,) = trials.effects(Edits(np.array([0]), Csr.of([slots]))).tolist()
    except OutOfTimeError:
        return None
    return effect, float(trials.span[0])
