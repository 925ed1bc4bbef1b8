"""The kernel that draws swaps of facts, on plain arrays; see `swaps`.

Per link, how far the nodes of its graph are from source and target; then, job by job:

1. Partners of each fact are drawn from the facts of its relation, by a random node of the type of
   its target: from the link's own graph, and from elsewhere if these are few. They touch neither
   end of the link and lie on no short path; the new facts would not be there already, nor join
   source and target by a short path. Those of near degrees are kept.
2. In each draw one of them is taken for every fact, none twice.
3. A draw in which several new facts join source and target is thrown away, and so is one that was
   there before.
"""

from __future__ import annotations

import numpy as np

from pagelink.runtime.kernels import inner, kernel
from pagelink.runtime.rooms import START, first_place, grown, grown_rows

FAR = np.int64(1 << 20)
NEAREST = 32
"""Partners of near degree that a fact has to draw from."""
NEAR = 2 * np.log(2.0)
"""Degrees of both ends that differ by a factor of two are near enough: partners of the very nearest
degrees would often be nodes that play the same part for other links."""
ENOUGH = 8
"""With this number of partners in the link's own graph, none is drawn from elsewhere."""
OUTSIDE = 1e3
"""Partners from elsewhere come behind all others."""
SAMPLES, MORE_SAMPLES = 64, 16
"""Nodes that are looked at for partners of a fact: at least, and further ones for each draw."""
ARCS = 64
"""Arcs of a node that are looked at for one of the relation."""
TRIES = 8
"""Draws that are tried for each one that is wanted."""
NODE, ARC, PARTNER = np.uint64(1), np.uint64(2), np.uint64(3)
"""What a random number is for."""
ANY_KIND = np.int32(-1)


@inner
def mixed(state, value):  # type: ignore[no-untyped-def]
    """A well-spread number from two (the finaliser of splitmix64)."""
    z = (state ^ value) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def distances(start, other, first, last, src, dst, limit, away):  # type: ignore[no-untyped-def]
    """Write the facts from a node of a link's graph to each other one, FAR beyond a limit.

    No way goes through the other end of the link.
    """
    for v in range(len(away)):
        away[v] = FAR
    away[start] = 0
    for step in range(1, limit + 1):
        for e in range(first, last):
            u, v = src[e], dst[e]
            if away[u] == step - 1 and u != other and away[v] > step:
                away[v] = step
            elif away[v] == step - 1 and v != other and away[u] > step:
                away[u] = step


@inner
def _is_joined(u, v, kind, graph):  # type: ignore[no-untyped-def]
    """Whether two flat nodes are the ends of a fact, of a class of relations unless it is -1."""
    arc_dst, high = graph.arc_dst, graph.arc_ptr[u + 1]
    place = first_place(arc_dst, graph.arc_ptr[u], high, v)
    while place < high and arc_dst[place] == v:
        if kind < 0 or graph.relation_class[graph.relation[graph.arc_edge[place]]] == kind:
            return True
        place += 1
    return False


@inner
def _fact_at(node, wanted, start, graph):  # type: ignore[no-untyped-def]
    """An edge of a fact whose target, as the relation is stored, is a node; -1 if none is found.

    Args:
        node: flat.
        wanted: the relation.
        start: a random number, for where to begin.
        graph: the `SwapArrays`.
    """
    relation, relation_class = graph.relation, graph.relation_class
    low, size = graph.arc_ptr[node], graph.arc_ptr[node + 1] - graph.arc_ptr[node]
    for i in range(min(size, ARCS)):
        e = np.int64(graph.arc_edge[low + np.int64((start + np.uint64(i)) % np.uint64(size))])
        if relation_class[relation[e]] != relation_class[wanted]:
            continue
        same = relation[e] == wanted
        # Of a fact that is stored both ways in one relation, either end is its target.
        back = graph.opposite[e]
        both_ways = back >= 0 and relation[back] == wanted
        if same and (graph.dst[e] == node or both_ways):
            return e
        if not same and graph.src[e] == node:
            return e
    return np.int64(-1)


@inner
def _num_edges(edge, graph):  # type: ignore[no-untyped-def]
    """The number of edges that state a fact; a partner of other copies would change degrees."""
    return graph.fact_ptr[graph.fact[edge] + 1] - graph.fact_ptr[graph.fact[edge]]


@inner
def _distance(node, here, away):  # type: ignore[no-untyped-def]
    """How far a flat node is from an end; nodes outside of the link's graph are beyond it."""
    place = first_place(here, START, len(here), node)
    return away[place] if place < len(here) and here[place] == node else FAR


@kernel
def draw_swaps(job_link, job_ptr, job_slots, job_count, job_key, batch, graph, max_length, seed):  # type: ignore[no-untyped-def]
    """Draw partners for the facts of jobs, which are grouped by link.

    Args:
        job_link: per job, its link.
        job_ptr: where the facts of each job begin.
        job_slots: facts to swap, each by an edge of the batch.
        job_count: draws per job.
        job_key: what tells jobs of a link apart.
        batch: the `BatchArrays`.
        graph: the `SwapArrays`.
        max_length: no path of at most this many facts may come.
        seed: of all draws.

    Returns:
        Per draw its job, and flat edges of the partners of the facts of its job with their ends,
        draw by draw; both are longer than what was drawn. The number of draws, and of partners.
    """
    jobs = np.empty(16, dtype=np.int64)
    partners = np.empty((64, 3), dtype=np.int64)
    num_draws = num_partners = np.int64(0)
    here = batch.nodes[:0]
    from_src = from_dst = np.empty(0, dtype=np.int64)
    for job in range(len(job_link)):
        link = job_link[job]
        s, t = batch.link_src[link], batch.link_dst[link]
        if job == 0 or job_link[job - 1] != link:
            here = batch.nodes[batch.node_ptr[link] : batch.node_ptr[link + 1]]
            one = first_place(here, START, len(here), s)
            two = first_place(here, START, len(here), t)
            first, last = batch.edge_ptr[link], batch.edge_ptr[link + 1]
            from_src = np.empty(len(here), dtype=np.int64)
            from_dst = np.empty(len(here), dtype=np.int64)
            distances(one, two, first, last, batch.src, batch.dst, max_length, from_src)
            distances(two, one, first, last, batch.src, batch.dst, max_length, from_dst)
        slots = job_slots[job_ptr[job] : job_ptr[job + 1]]
        num = len(slots)
        state = mixed(mixed(mixed(seed, np.uint64(s)), np.uint64(t)), np.uint64(job_key[job]))
        # 1. The partners of each fact: edge, and its ends as the relation of the fact is stored.
        pool = np.empty((num * NEAREST, 3), dtype=np.int64)
        kept = np.empty(num, dtype=np.int64)
        samples = SAMPLES + MORE_SAMPLES * job_count[job]
        found = np.empty((2 * samples, 3), dtype=np.int64)
        unlike = np.empty(2 * samples, dtype=np.float64)
        order = np.empty(NEAREST, dtype=np.int64)
        can_swap = num > 0
        for i in range(num):
            fact = np.int64(batch.edges[slots[i]])
            relation = graph.relation[fact]
            a, b = np.int64(graph.src[fact]), np.int64(graph.dst[fact])
            low = graph.node_offset[graph.node_type_of[b]]
            size = graph.node_offset[graph.node_type_of[b] + 1] - low
            near_low = first_place(here, START, len(here), low)
            near_size = first_place(here, START, len(here), low + size) - near_low
            count = inside = 0
            for sample in range(2 * samples):
                # First from the link's own graph, then, if these are few, from all others.
                if sample == samples:
                    inside = count
                if sample >= samples and inside >= ENOUGH:
                    break
                state = mixed(state, NODE)
                if sample < samples:
                    y = np.int64(here[near_low + np.int64(state % np.uint64(near_size))])
                else:
                    y = low + np.int64(state % np.uint64(size))
                state = mixed(state, ARC)
                e = _fact_at(y, relation, state, graph)
                if e < 0 or _num_edges(e, graph) != _num_edges(fact, graph):
                    continue
                x = graph.src[e] + graph.dst[e] - y
                if not _is_partner(a, b, x, y, s, t, graph.relation_class[relation],
                                   here, from_src, from_dst, max_length, graph):  # fmt: skip
                    continue
                known = False
                for j in range(count):
                    known |= found[j, 0] == e
                if known:
                    continue
                found[count, 0], found[count, 1], found[count, 2] = e, x, y
                differs = abs(np.log(graph.degree[y] / graph.degree[b]))
                differs += abs(np.log(graph.degree[x] / graph.degree[a]))
                differs = max(differs, NEAR)  # equally near: in the order drawn
                unlike[count] = differs + OUTSIDE if sample >= samples else differs
                count += 1
            # The nearest, in order. NumPy's sorts take a second and more to compile.
            size = 0
            for j in range(count):
                place = size
                while place > 0 and unlike[order[place - 1]] > unlike[j]:
                    if place < NEAREST:
                        order[place] = order[place - 1]
                    place -= 1
                if place < NEAREST:
                    order[place] = j
                    size = min(size + 1, NEAREST)
            for j in range(size):
                for k in range(3):
                    pool[i * NEAREST + j, k] = found[order[j], k]
            kept[i] = size
            can_swap = can_swap and size > 0
        if not can_swap:
            continue
        # 2. Draws, by the seed, the link and the job.
        chosen = np.empty((num, 3), dtype=np.int64)
        start_of_job, taken = num_partners, 0
        for _ in range(TRIES * job_count[job]):
            if taken == job_count[job]:
                break
            for i in range(num):
                state = mixed(state, PARTNER)
                row = i * NEAREST + np.int64(state % np.uint64(kept[i]))
                for k in range(3):
                    chosen[i, k] = pool[row, k]
            # 3. Not drawn before, and no new path.
            again = False
            for k in range(taken):
                before = start_of_job + k * num
                same = True
                for i in range(num):
                    same = same and partners[before + i, 0] == chosen[i, 0]
                again = again or same
            if again or not _is_sound(
                batch.edges, slots, chosen, here, from_src, from_dst, max_length, graph
            ):
                continue
            if num_partners + num > len(partners):
                partners = grown_rows(partners, 2 * (num_partners + num))
            if num_draws == len(jobs):
                jobs = grown(jobs, num_draws, 2 * num_draws)
            for i in range(num):
                for k in range(3):
                    partners[num_partners + i, k] = chosen[i, k]
            jobs[num_draws] = job
            num_partners += num
            num_draws += 1
            taken += 1
    return jobs, partners, num_draws, num_partners


@inner
def _is_partner(a, b, x, y, s, t, kind, here, from_src, from_dst, max_length, graph):  # type: ignore[no-untyped-def]
    """Whether the fact (x, y) may be swapped with (a, b)."""
    if x == y or _is_one_of(x, a, b, s, t) or _is_one_of(y, a, b, s, t):
        return False
    # The partner itself must be on no short path, and the new facts must make none.
    if _joins(x, y, here, from_src, from_dst, max_length):
        return False
    if _joins(a, y, here, from_src, from_dst, max_length):
        return False
    if _joins(x, b, here, from_src, from_dst, max_length):
        return False
    return not _is_joined(a, y, kind, graph) and not _is_joined(x, b, kind, graph)


@inner
def _is_one_of(x, a, b, s, t):  # type: ignore[no-untyped-def]
    return x == a or x == b or x == s or x == t  # not by a tuple, which is slow to compile


@inner
def _joins(u, v, here, from_src, from_dst, max_length):  # type: ignore[no-untyped-def]
    """Whether a fact between two nodes joins source and target by a short path."""
    if _distance(u, here, from_src) + 1 + _distance(v, here, from_dst) <= max_length:
        return True
    return _distance(v, here, from_src) + 1 + _distance(u, here, from_dst) <= max_length


@inner
def _is_sound(edges, slots, chosen, here, from_src, from_dst, max_length, graph):  # type: ignore[no-untyped-def]
    """Whether all new facts of a draw differ, and no short path runs along several of them."""
    num = len(slots)
    ends = np.empty((4 * num, 2), dtype=np.int64)  # each new fact, walked either way
    kinds = np.empty(2 * num, dtype=np.int64)
    for i in range(num):
        fact = edges[slots[i]]
        a, b, x, y = graph.src[fact], graph.dst[fact], chosen[i, 1], chosen[i, 2]
        kind = graph.relation_class[graph.relation[fact]]
        for j in range(i):
            # One fact may be stated by several edges, and taken either way round.
            forth = chosen[j, 1] == x and chosen[j, 2] == y
            back = chosen[j, 1] == y and chosen[j, 2] == x
            if kinds[2 * j] == kind and (forth or back):
                return False
        ends[4 * i, 0] = ends[4 * i + 1, 1] = a
        ends[4 * i, 1] = ends[4 * i + 1, 0] = y
        ends[4 * i + 2, 0] = ends[4 * i + 3, 1] = x
        ends[4 * i + 2, 1] = ends[4 * i + 3, 0] = b
        kinds[2 * i] = kinds[2 * i + 1] = kind
    for i in range(2 * num):
        for j in range(i):
            same = ends[2 * i, 0] == ends[2 * j, 0] and ends[2 * i, 1] == ends[2 * j, 1]
            turned = ends[2 * i, 0] == ends[2 * j, 1] and ends[2 * i, 1] == ends[2 * j, 0]
            if kinds[i] == kinds[j] and (same or turned):
                return False
    # Facts from the source to the end of each new fact that is walked, by further new ones.
    away = np.empty(4 * num, dtype=np.int64)
    for i in range(4 * num):
        away[i] = _distance(ends[i, 0], here, from_src) + 1
    for _ in range(max_length):
        for i in range(4 * num):
            if away[i] >= max_length:
                continue
            for j in range(4 * num):
                v, u = ends[i, 1], ends[j, 0]
                step = 0
                if v != u:
                    step = 1 if _is_joined(v, u, ANY_KIND, graph) else 2
                away[j] = min(away[j], away[i] + step + 1)
    nearest = FAR
    for i in range(4 * num):
        nearest = min(nearest, away[i] + _distance(ends[i, 1], here, from_dst))
    return nearest > max_length
