"""What an audit finds out of one link: its row, which does not depend on any other link."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from pagelink.audit.carriers import (
    SUSPECTS,
    Carrier,
    Suspects,
    carrying_facts,
    carrying_nodes,
    carrying_suspects,
    moving_several,
)
from pagelink.audit.game import Game, play
from pagelink.audit.metapaths import MetapathWorth, Steps, measure_metapaths
from pagelink.errors import StoreError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation, Node, plain
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Link, LinkLike
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.evidence import trials_of_parts
from pagelink.measure.trials import Trials
from pagelink.model.borrowing import in_normal_mode
from pagelink.runtime.timer import OutOfTimeError, Timer
from pagelink.search.work import prune_links, score_links
from pagelink.views.beyond_wording import path_line
from pagelink.views.rows import metapath_words
from pagelink.views.statements import node_words

VERSION = 3
"""Of the fields of a row; a stored one of another version is made anew."""


@dataclass(frozen=True)
class MetapathFigures:
    """What a metapath is worth for one link; see `MetapathWorth`."""

    words: str
    """Its node types and relations: `user → buys → item ← buys ← user → buys → item`."""
    effect: float
    gain: float
    worth: float
    """0 under `degree_only`: any other facts at that end would have done as well."""
    num_facts: int
    example: str
    """Its most concise path in words; empty where the metapath is worth nothing."""


@dataclass(frozen=True)
class Row:
    """What was found out of one link."""

    src: Node
    dst: Node
    src_name: str
    dst_name: str
    relation: str
    src_degree: int
    dst_degree: int
    logit: float | None
    is_predicted: bool
    verdict: str | None
    ends: str | None
    """Under `degree_only`, the end of which only the number of facts counts."""
    reason: str | None
    """Why the link has no paths; see `Explanation.reason`."""
    message: str
    noise: float
    max_length: int
    """Facts of the paths that were looked at."""
    num_hops: int | None
    """The radius of the graph that the score needs; None: the whole graph."""
    direct_relations: tuple[str, ...]
    is_measured: bool
    """False, and all that follows empty: the link is malformed, or its time was over."""
    game: Game | None
    """None: not measured, or not requested."""
    metapaths: tuple[MetapathFigures, ...]
    stand_ins: tuple[tuple[int, int], ...]
    num_metapaths: int
    facts: tuple[Carrier, ...]
    nodes: tuple[Carrier, ...]
    is_settled: bool
    """What moves several links of the audit was tried on this one, too."""
    seconds: float
    """Of CPU time."""
    records: tuple[str, ...] = ()
    """Metapaths that move the score and may be a record of the link; see `Metapath.is_record`."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings."""
        values: dict[str, Any] = plain(self)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Row:
        """Return the row that `to_dict` gave."""
        row: Row = from_plain(cls, values)
        return row


def from_plain(kind: Any, value: Any) -> Any:
    """Return what `plain` made plain: dataclasses, tuples and dicts by their annotations.

    A field that is missing has its default, if it has one.

    Args:
        kind: the type that it had.
        value: what became of it.

    Example:
        >>> from_plain(tuple[tuple[str, int], ...] | None, [["user", 3]])
        (('user', 3),)
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{each.name: from_plain(hints[each.name], value[each.name])
                       for each in fields(kind)
                       if each.name in value or each.default is MISSING})  # fmt: skip
    origin, given = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None else from_plain(given[0], value)
    if origin is tuple:
        kinds = [given[0]] * len(value) if given[-1] is Ellipsis else given
        return tuple(from_plain(one, each) for one, each in zip(kinds, value, strict=True))
    if origin is dict:
        return {key: from_plain(given[1], each) for key, each in value.items()}
    return value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def make_rows(explainer: PaGELink, links: Iterable[LinkLike], **options: Any) -> Iterator[Row]:
    """Yield the row of each link, in order.

    Args:
        explainer: what explains.
        links: the links, by indices or names.
        options: of `explain_many`, such as the memory of a batch.
    """
    given = list(links)
    for link, explanation in zip(given, explainer.explain_many(given, **options), strict=True):
        yield make_row(explainer, explainer.reader.read_any(link), explanation)


@in_normal_mode
def make_row(
    explainer: PaGELink, link: Link, explanation: Explanation, *, game: bool = True
) -> Row:
    """Return the row of a link that was explained.

    Args:
        explainer: what explained it.
        link: the link.
        explanation: its explanation.
        game: measure the parts of the score, which takes most of the time.
    """
    started = time.process_time()
    row = without_figures(explainer, link, explanation)
    if row.logit is None or explanation.reason in ("invalid", "out_of_time"):
        return row
    try:
        trials = trials_of_link(explainer, link, row)
        found = measure_metapaths(trials, explanation.paths)
        row = replace(
            row,
            is_measured=True,
            game=play(trials, 0) if game else None,
            metapaths=tuple(
                _figures(each, explanation, explainer.graph) for each in found.measured
            ),
            stand_ins=found.stand_ins,
            records=tuple(
                in_words(each.metapath.steps, explainer.graph)
                for each in found.measured
                if each.metapath.is_record and max(each.effect, each.gain) > row.noise
            ),
            num_metapaths=found.num_found,
            facts=carrying_facts(trials, explanation),
            nodes=carrying_nodes(trials, explanation),
        )
    except OutOfTimeError:
        message = "The time was over before this link was measured. Give a later deadline."
        return replace(row, reason="out_of_time", message=message)
    except StoreError:
        raise  # a damaged graph is no link's fault
    except Exception as error:  # one link costs only itself
        message = f"Measuring this link failed: {type(error).__name__}: {error}"
        return replace(row, reason="invalid", message=message)
    return replace(row, seconds=row.seconds + time.process_time() - started)


def suspects_of(rows: Sequence[Row]) -> Suspects:
    """Return the facts and nodes that move most of some links, at least two."""
    facts, nodes = (
        tuple(places[0][1] for places in moving_several(each)[:SUSPECTS])
        for each in ([row.facts for row in rows], [row.nodes for row in rows])
    )
    return facts, nodes


@in_normal_mode
def settle(explainer: PaGELink, link: Link, row: Row, suspects: Suspects) -> Row:
    """Return the row of a link after facts and nodes that move other links were tried on it.

    In a row by itself is only what looked promising for its link.
    """
    if not row.is_measured:
        return row
    started = time.process_time()
    try:
        trials = trials_of_link(explainer, link, row)
        more = carrying_suspects(trials, suspects)
    except OutOfTimeError:
        return row
    facts, nodes = (
        tuple(sorted({(each.kind, each.nodes): each for each in (*new, *own)}.values(),
                     key=lambda each: -abs(each.effect)))
        for new, own in zip(more, (row.facts, row.nodes), strict=True)
    )  # fmt: skip
    seconds = row.seconds + time.process_time() - started
    return replace(row, facts=facts, nodes=nodes, is_settled=True, seconds=seconds)


def trials_of_link(explainer: PaGELink, link: Link, row: Row) -> Trials:
    """Return what a link is measured with: its graph at the radius that its explanation needed.

    Paths are as long as those of the explanation may be.

    Raises:
        OutOfTimeError: the time was over before.
    """
    setup = explainer.of_length(row.max_length).pipeline.at(row.num_hops).setup
    timer = Timer(setup.settings.deadline)
    graph = ComputationGraphs.joined(setup.batches.extract([link], None, timer.until))
    work = prune_links(score_links(setup, graph, [link], timer), explainer.seed)
    return trials_of_parts(replace(work, links=np.array([0])))


def without_figures(explainer: PaGELink, link: Link, explanation: Explanation) -> Row:
    """Return what an explanation says of a link by itself."""
    graph, evidence = explainer.graph, explanation.evidence
    longest = explanation.settings.max_length if evidence is None else evidence.max_length
    degrees = [0, 0]
    if link.message is None:
        degrees = [int(graph.degree[end]) for end in (link.src, link.dst)]
    threshold = -np.inf if explainer.threshold is None else explainer.threshold
    return Row(
        src=explanation.src, dst=explanation.dst, src_name=explanation.src_name,
        dst_name=explanation.dst_name, relation=link.type[1], src_degree=degrees[0],
        dst_degree=degrees[1], logit=explanation.logit,
        is_predicted=explanation.logit is not None and bool(explanation.logit >= threshold),
        verdict=None if evidence is None else evidence.verdict,
        ends=None if evidence is None else evidence.ends,
        reason=explanation.reason, message=explanation.message, noise=explanation.noise,
        max_length=longest, num_hops=explanation.num_hops,
        direct_relations=explanation.direct_relations,
        is_measured=False, game=None, metapaths=(), stand_ins=(), num_metapaths=0, facts=(),
        nodes=(), is_settled=False, seconds=explanation.seconds,
    )  # fmt: skip


def _figures(found: MetapathWorth, explanation: Explanation, graph: TypedGraph) -> MetapathFigures:
    metapath = found.metapath
    # A path that the explanation returned is a better example than one that is only concise.
    same = (path for path in explanation.paths if path.relations == metapath.steps)
    path = next(same, metapath.path)
    evidence, example = explanation.evidence, ""
    worth = found.worth
    if evidence is not None and evidence.verdict == "degree_only":
        worth = 0.0
    if worth > 0 and path is not None:
        example = path_line(path, node_words(replace(explanation, paths=(path,))))
    return MetapathFigures(
        in_words(metapath.steps, graph), found.effect, found.gain, worth, metapath.num_facts,
        example,
    )  # fmt: skip


def in_words(steps: Steps, graph: TypedGraph) -> str:
    """Return a metapath in words of the graph."""
    told = []
    for edge_type, is_reversed in steps:
        label, backwards = graph.relation_words(edge_type)
        told.append((label, backwards != is_reversed, edge_type[0 if is_reversed else 2]))
    first, is_reversed = steps[0]
    return metapath_words(first[2 if is_reversed else 0], told)
