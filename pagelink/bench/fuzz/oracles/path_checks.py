"""Whether the paths of an explanation are paths of the graph, within what was requested."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator

from torch_geometric.data import HeteroData

from pagelink.bench.fuzz.draws.data import RandomData
from pagelink.bench.fuzz.oracles.brute_force import BruteForce
from pagelink.bench.fuzz.oracles.multigraphs import Edge, Fact, Multigraph, Node
from pagelink.explain.result import Explanation, Path
from pagelink.graph.schema import EdgeType
from pagelink.settings import Settings


def facts_on(drawn: Multigraph, path: Path) -> list[Fact]:
    """The facts of a path, in order."""
    return [
        (drawn.relations(edge.type), frozenset(ends))
        for edge, *ends in zip(path.edges, path.nodes, path.nodes[1:], strict=False)
    ]


def longest_of(explanation: Explanation) -> int:
    """How many facts a path may have: more than `max_length` where longer ones were needed."""
    evidence = explanation.evidence
    return explanation.settings.max_length if evidence is None else evidence.max_length


def check_paths(
    explanation: Explanation, drawn: Multigraph, inside: BruteForce, given: RandomData
) -> Iterator[str]:
    """Yield what is wrong with the paths of an explanation, and with its mask."""
    settings = explanation.settings
    # Of a predicted negative there are paths for and against it, found without a mask.
    both_sides = explanation.reason in ("predicted_negative", "out_of_time")
    length = longest_of(explanation)
    most = settings.replace(max_length=length).paths_within_budget * (1 + both_sides)
    paths = explanation.paths
    if len(paths) > most:
        yield f"{len(paths)} paths, at most {most} were requested"
    if len(set(paths)) < len(paths) and not both_sides:
        yield "the same path twice"
    own = drawn.link_fact(explanation.src, explanation.dst, explanation.link_type)
    columns = {(edge.type, edge.column): edge for edge in drawn.edges}
    for path in paths:
        wrong = list(_check_path(path, explanation, drawn, columns))
        facts = facts_on(drawn, path)
        if own in facts:
            wrong.append("it restates the link")
        if not set(facts) <= inside.visible_facts:
            wrong.append("it has facts that the model cannot see")
        wrong += _check_constraints(path, settings, drawn, given)
        yield from (f"path {path.nodes} by {path.relations}: {each}" for each in wrong)
    yield from _check_mask(explanation, drawn, inside)


def _check_path(
    path: Path,
    explanation: Explanation,
    drawn: Multigraph,
    columns: dict[tuple[EdgeType, int], Edge],
) -> Iterator[str]:
    nodes, longest = path.nodes, longest_of(explanation)
    if (nodes[0], nodes[-1]) != (explanation.src, explanation.dst):
        yield "it does not join source and target"
    if len(set(nodes)) < len(nodes):
        yield "it is not simple"
    if not 1 <= len(path) <= longest or len(nodes) != len(path) + 1:
        yield f"its length is {len(path)}"
    for edge, tail, head in zip(path.edges, nodes, nodes[1:], strict=False):
        stored = columns.get((edge.type, edge.index))
        if stored is None:
            yield f"there is no column {edge.index} of {edge.type}"
            continue
        walked = (stored.dst, stored.src) if edge.reversed else (stored.src, stored.dst)
        if walked != (tail, head):
            yield f"{edge.type} {edge.index} joins {walked}"
        same = drawn.edges_of[drawn.fact(stored)]
        if edge.reversed and any((each.src, each.dst) == (tail, head) for each in same):
            yield f"{edge.type} {edge.index} is walked backwards, the other direction is stored"
    if path.degrees != tuple(drawn.degree(node) for node in nodes):
        yield f"degrees are {path.degrees}"
    if explanation.reason is None and all(edge.mask > 0 for edge in path.edges):
        score = sum(math.log(edge.mask) for edge in path.edges)
        score -= sum(math.log(drawn.degree(node)) for node in nodes[1:-1])
        if abs(score - path.score) > 1e-3 * (1 + abs(score)):
            yield f"its score is {path.score}, by its masks and degrees {score}"


def _check_constraints(
    path: Path, settings: Settings, drawn: Multigraph, given: RandomData
) -> Iterator[str]:
    inner = path.nodes[1:-1]
    if settings.max_degree is not None and any(
        drawn.degree(v) > settings.max_degree for v in inner
    ):
        yield "a node of a higher degree than max_degree"
    excluded = {t for t in drawn.pairs if t[1] in settings.exclude_relations}
    if any(drawn.relations(edge.type) & excluded for edge in path.edges):
        yield "a relation that is excluded"
    if {*inner} & {*settings.exclude_nodes}:
        yield "a node that is excluded"
    if settings.via and not {*path.nodes[1:]} & {*settings.via}:
        yield "it goes through none of the required nodes"
    if settings.before and not all(map(early_by(settings, drawn, given), facts_on(drawn, path))):
        yield "a fact that is too late"
    if settings.metapaths and not any(_follows(path, words) for words in settings.metapaths):
        yield "it follows none of the allowed metapaths"
    if any(_follows(path, words) for words in settings.forbid_metapaths):
        yield "it follows a forbidden metapath"


def early_by(settings: Settings, drawn: Multigraph, given: RandomData) -> Callable[[Fact], bool]:
    """Whether a fact is before the settings' date: some copy is, or none has a date."""

    def early(fact: Fact) -> bool:
        assert isinstance(given.data, HeteroData)
        dates = [
            given.data[edge.type].attributes["date"][edge.column].as_py()
            for edge in drawn.edges_of[fact] if "attributes" in given.data[edge.type]
        ]  # fmt: skip
        known = [date for date in dates if date is not None]
        return not known or any(date < str(settings.before) for date in known)

    return early


def _follows(path: Path, words: Collection[str]) -> bool:
    """Whether a path is walked by relations of these names, `rev_x` being x backwards."""
    return len(words) == len(path) and all(
        (not edge.reversed and edge.type[1] == word)
        or (edge.reversed and word.startswith("rev_") and edge.type[1] == word[4:])
        for edge, word in zip(path.edges, words, strict=True)
    )


def _check_mask(explanation: Explanation, drawn: Multigraph, inside: BruteForce) -> Iterator[str]:
    mask = explanation.edge_mask
    if list(mask) != list(drawn.pairs):
        yield f"the mask is of {list(mask)}"
        return
    total = sum(len(each) for each in drawn.columns.values())
    for edge_type, pairs in drawn.pairs.items():
        dense = mask[edge_type]
        if len(dense) != (total if drawn.columns else len(pairs)):
            yield f"the mask of {edge_type} has {len(dense)} values"
        if not ((dense >= 0) & (dense <= 1)).all():
            yield f"the mask of {edge_type} is not from 0 to 1"
        there = {e.column for e in inside.edges if e.type == edge_type}
        outside = {*mask.stored(edge_type)[0].tolist()} - there
        if outside:
            yield f"the mask of {edge_type} has values at {outside}, out of reach"
    if explanation.reason is not None:
        return
    for path in explanation.paths:
        for edge in path.edges:
            if abs(float(mask[edge.type][edge.index]) - edge.mask) > 1e-5:
                yield f"{edge.type} {edge.index} has the mask {edge.mask} in its path"


def reachable(
    facts: Collection[Fact], src: Node, dst: Node, open_to: Callable[[Node], bool], limit: int
) -> bool:
    """Whether a path of at most `limit` facts leads from src to dst by inner nodes like these."""
    ring, seen = {src}, {src}
    for _ in range(limit):
        found = {v for _, ends in facts if ends & ring for v in ends} - seen
        if dst in found:
            return True
        ring = {v for v in found if open_to(v)}
        seen |= found
        if not ring:
            break
    return False
