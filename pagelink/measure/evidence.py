"""What the chosen paths are worth: context, verdict, necessity, sufficiency, connection.

Everything is measured on graphs that were really edited; see `Trials`. Connection compares a path
with control pairs: two facts at the ends of its link that look like its own, but make no path. Its
effect minus theirs says whether the path as a whole matters, or only that it has an edge at each
end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pagelink.graph.edited_graphs import Edits
from pagelink.graph.lookup import slots_of_same_facts
from pagelink.measure.candidates import ReferenceGraphs, Trials
from pagelink.measure.selection import Selection
from pagelink.measure.verdict import Evidence, connection, sufficiency, verdict_of
from pagelink.runtime.arrays import Longs
from pagelink.runtime.csr import Csr
from pagelink.runtime.kernels import kernel

DRAWS = 4
"""Pairs to draw for each one that is wanted; those on a common path are not taken."""


@dataclass(frozen=True)
class PathWorth:
    """What one chosen path is worth."""

    influence: float | None
    """None: there was no time to measure it."""
    marginal: float | None
    added: float | None
    """What it adds to G0 alone; None where influence is not by insertion."""
    connection: float | None
    facts: tuple[float | None, ...]
    """The effect of removing each of its facts alone."""


@dataclass(frozen=True)
class Measured:
    """The evidence of one link, and what each of its paths is worth."""

    evidence: Evidence | None
    """None: the time was over before all that a verdict rests on was measured."""
    paths: tuple[PathWorth, ...]


def measure_chosen(trials: Trials, selection: Selection) -> dict[int, Measured]:
    """Measure what the chosen sets are worth, per link to explain.

    Args:
        trials: the model's answers about the candidates.
        selection: the chosen sets of candidates.

    Raises:
        OutOfTimeError: the time was over before all of it was measured.
    """
    work, graphs, candidates = trials.work, trials.graphs, trials.candidates
    links, batch, whole = work.links, work.batch, graphs.whole
    # 1. The chosen paths of all links, one after the other, with their facts and control pairs.
    link, place = np.nonzero(selection.members[links] >= 0)
    link = links[link]
    chosen = selection.members[link, place]
    arcs = candidates.arcs[chosen]
    lengths = (arcs >= 0).sum(1)
    fact_ptr = np.concatenate([[0], np.cumsum(lengths)])
    path_slots = work.paths.arc_slot[arcs[arcs >= 0]]
    fact_slots = slots_of_same_facts(graphs.graph, batch, path_slots)
    controls, control_of = draw_controls(
        graphs, link, Csr(fact_ptr, path_slots), work.setup.settings.controls, work.seed
    )

    # 2. One pass: without each set, with each set alone added to G0 and to nothing, without each
    #    fact, without each control pair.
    sets = candidates.removal(links, selection.members[links])
    others = whole.copy()
    others[sets.slots.values] = False
    edits = [
        sets,
        Edits.towards(batch, others & ~graphs.bare, links),
        Edits.towards(batch, others, links),
        Edits(np.repeat(link, lengths), fact_slots),
        controls,
    ]
    answers = trials.logits(whole, Edits.joined(edits))
    cuts = np.cumsum([edit.num_graphs for edit in edits])
    gone, added, only, gone_fact, gone_control = np.split(answers, cuts[:-1])
    inserted = selection.inserted[link]
    adds = np.full(len(link), np.nan)
    single = candidates.removal(link[inserted], chosen[inserted, None])
    adds[inserted] = trials.effects(single, inserted=True)

    # 3. What each path, and each set, is worth.
    effect, marginal = trials.alone[chosen], selection.marginal[link, place]
    fact_effect = work.logits[edits[3].link] - gone_fact
    control_effect = work.logits[controls.link] - gone_control
    control_ptr = np.searchsorted(control_of, np.arange(len(link) + 1))
    worth = [
        PathWorth(
            influence=float(effect[i]),
            marginal=float(marginal[i]),
            added=float(adds[i]) if inserted[i] else None,
            connection=_or_none(
                connection(effect[i], control_effect[control_ptr[i] : control_ptr[i + 1]])
            ),
            facts=tuple(fact_effect[fact_ptr[i] : fact_ptr[i + 1]].tolist()),
        )
        for i in range(len(link))
    ]
    path_ptr = np.searchsorted(link, np.append(links, len(work.logits)))
    return {
        number: Measured(
            _evidence(trials, selection, number, (float(gone[i]), float(added[i]), float(only[i]))),
            tuple(worth[path_ptr[i] : path_ptr[i + 1]]),
        )
        for i, number in enumerate(links.tolist())
    }


def measured_so_far(trials: Trials, members: Longs) -> dict[int, Measured]:
    """Say what is known of some paths where the time was over: their effects alone, no verdict.

    Args:
        trials: the model's answers by then.
        members: [links to explain, most]: candidates, -1 behind the last.
    """
    lengths = trials.candidates.lengths
    return {
        link: Measured(
            None,
            tuple(
                PathWorth(_or_none(trials.alone[i]), None, None, None, (None,) * int(lengths[i]))
                for i in row[row >= 0].tolist()
            ),
        )
        for link, row in zip(trials.work.links.tolist(), members, strict=True)
    }


def _evidence(
    trials: Trials, selection: Selection, link: int, answers: tuple[float, float, float]
) -> Evidence:
    gone, added, only = answers
    logit, bare = float(trials.work.logits[link]), float(trials.without_paths[link])
    influence, best = float(selection.influence[link]), float(selection.best[link])
    noise = trials.work.setup.noise
    return Evidence(
        verdict=verdict_of(logit, bare, influence, float(selection.largest[link]), noise),
        influence=influence,
        inserted=bool(selection.inserted[link]),
        logit_without_these=gone,
        logit_without_paths=bare,
        logit_without_edges=float(trials.without_edges[link]),
        logit_only_these=only,
        sufficiency=_or_none(float(sufficiency(logit, bare, added, noise))),
        rho_reached=influence / best if best > 0 else None,
        num_sets=int(selection.num_sets[link]),
    )


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def draw_controls(
    graphs: ReferenceGraphs, link: Longs, paths: Csr, count: int, seed: int
) -> tuple[Edits, Longs]:
    """Draw pairs of the relations of each path's first and last fact, on no common path.

    Args:
        graphs: G and G0 of the batch.
        link: per path, its link, in ascending order.
        paths: per path, its edges as positions in those of the batch.
        count: pairs per path.
        seed: with the link, where they are drawn from.

    Returns:
        The removal of each pair, and the path it is for.
    """
    graph, batch = graphs.graph, graphs.batch
    # Which way a fact goes tells nothing where both of its ends are of one type.
    directed = np.array([src != dst for src, _, dst in graph.edge_types])
    kind = graph.relation_class.astype(np.int64)
    turned = kind != np.arange(len(kind))
    ends = np.stack([batch.link_src, batch.link_dst]).astype(np.int64)
    table = _draw(
        link, paths.ptr, paths.values, ends, batch.node_ptr, batch.nodes, batch.edge_ptr,
        batch.edges, batch.src, batch.dst, graph.src, graph.fact, graph.relation, kind, turned,
        directed, graphs.whole, graphs.whole & ~graphs.bare, count, np.uint64(seed),
    )  # fmt: skip
    slots = slots_of_same_facts(graph, batch, table[:, 1:].reshape(-1))
    pairs = slots.joined(np.arange(0, 2 * len(table) + 1, 2))
    return Edits(link[table[:, 0]], pairs), table[:, 0]


@kernel
def _mixed(state, value):  # type: ignore[no-untyped-def]
    """A well-spread number from two (the finaliser of splitmix64)."""
    z = (state ^ np.uint64(value)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _kind_at(e, end, src, relation, kind, turned, directed):  # type: ignore[no-untyped-def]
    """The relation of an edge, and whether its fact goes out of one of its ends or into it."""
    r = relation[e]
    outwards = directed[r] and ((src[e] == end) != turned[r])
    return 2 * kind[r] + (1 if outwards else 0)


@kernel
def _facts_at(local, start, stop, src, dst, edges, fact, whole):  # type: ignore[no-untyped-def]
    """The facts at a node of a link's graph, each by one edge, in order of the facts."""
    size = 0
    for e in range(start, stop):
        if whole[e] and (src[e] == local or dst[e] == local):
            size += 1
    slots = np.empty(size, dtype=np.int64)
    i = 0
    for e in range(start, stop):
        if whole[e] and (src[e] == local or dst[e] == local):
            slots[i] = e
            i += 1
    slots = slots[np.argsort(fact[edges[slots]], kind="mergesort")]
    count = 0
    for i in range(size):
        if i == 0 or fact[edges[slots[i]]] != fact[edges[slots[i - 1]]]:
            slots[count] = slots[i]
            count += 1
    return slots[:count]


@kernel
def _draw(  # type: ignore[no-untyped-def]
    link_of, path_ptr, path_slots, ends, node_ptr, nodes, edge_ptr, edges, src, dst, graph_src,
    fact, relation, kind, turned, directed, whole, on_path, count, seed,
):  # fmt: skip
    """Rows of (path, slot at the source, slot at the target)."""
    table = np.empty((len(link_of) * count, 3), dtype=np.int64)
    num_pairs = 0
    rank = 0
    at_source = at_target = np.empty(0, dtype=np.int64)
    for i in range(len(link_of)):
        link = link_of[i]
        # 1. Paths of one link come together: the facts at its ends are listed once.
        if i > 0 and link_of[i - 1] == link:
            rank += 1
        else:
            rank = 0
            here = nodes[node_ptr[link] : node_ptr[link + 1]]
            first, last = edge_ptr[link], edge_ptr[link + 1]
            s, t = np.searchsorted(here, ends[0, link]), np.searchsorted(here, ends[1, link])
            at_source = _facts_at(s, first, last, src, dst, edges, fact, whole)
            at_target = _facts_at(t, first, last, src, dst, edges, fact, whole)
        path = path_slots[path_ptr[i] : path_ptr[i + 1]]
        if len(path) < 2:
            continue
        # 2. At each end, the facts of the kind of the path's own, without those of the path.
        near = _alike(at_source, path, path[0], ends[0, link], edges, graph_src, fact, relation,
                      kind, turned, directed)  # fmt: skip
        far = _alike(at_target, path, path[-1], ends[1, link], edges, graph_src, fact, relation,
                     kind, turned, directed)  # fmt: skip
        if len(near) == 0 or len(far) == 0:
            continue
        # 3. Draw pairs, by the seed, the link and the place of the path among its link's.
        state = _mixed(_mixed(_mixed(seed, ends[0, link]), ends[1, link]), rank)
        taken = 0
        for _ in range(DRAWS * count):
            state = _mixed(state, 1)
            one = near[state % np.uint64(len(near))]
            state = _mixed(state, 2)
            other = far[state % np.uint64(len(far))]
            # One of the two is on no path at all, so the two are on no common one.
            apart = not (on_path[one] and on_path[other])
            if taken < count and apart and fact[edges[one]] != fact[edges[other]]:
                table[num_pairs] = i, one, other
                num_pairs += 1
                taken += 1
    return table[:num_pairs]


@kernel
def _alike(  # type: ignore[no-untyped-def]
    slots, path, slot, end, edges, graph_src, fact, relation, kind, turned, directed
):
    """Facts at an end of the same kind as one of a path, not those of the path."""
    wanted = _kind_at(edges[slot], end, graph_src, relation, kind, turned, directed)
    found = np.empty(len(slots), dtype=np.int64)
    count = 0
    for e in slots:
        if _kind_at(edges[e], end, graph_src, relation, kind, turned, directed) != wanted:
            continue
        own = False
        for other in path:
            own |= fact[edges[other]] == fact[edges[e]]
        if not own:
            found[count] = e
            count += 1
    return found[:count]
