"""Draws what several explainers return for one link, a panel for each: the paper's case study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pagelink.bench.faithfulness.rankings import make_explainer
from pagelink.bench.paper.answers import options_of
from pagelink.bench.paper.ground import CITATION, TINY, TITLES, Effects, key_of, load, told
from pagelink.bench.paper.plan import Part, Plan, Progress, Table, cell
from pagelink.bench.runs import Run, RunStore
from pagelink.bench.subjects import Subject
from pagelink.datasets.folders import DataNotFoundError
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import first_edges_of_facts, representatives_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.rivals.greedy import FreeEdges
from pagelink.rivals.ground import Ground, fact_paths
from pagelink.rivals.pgexp import PGExpLink
from pagelink.rivals.registry import BY_PATH, RIVALS, make_rival
from pagelink.search.paths import best_paths
from pagelink.settings import Settings
from pagelink.views.layers import NamedFact, Node
from pagelink.views.lettering import shorten
from pagelink.views.subgraph import BOX_WIDTH, place
from pagelink.views.templates import colours_of, render

WIDTH, MARGIN, HEADING, GAP = 960.0, 24.0, 40.0, 24.0


@dataclass(frozen=True)
class Panel:
    """What one explainer returns."""

    heading: str
    facts: tuple[NamedFact, ...]


def draw_panels(title: str, src: Node, dst: Node, panels: Sequence[Panel]) -> str:
    """Draw the panels below each other as a standalone SVG."""
    kinds = {node[0] for panel in panels for fact in panel.facts for node in (fact.src, fact.dst)}
    colours = colours_of({src[0], dst[0], *kinds})
    placed, top = [], MARGIN + 24
    for panel in panels:
        one = place(panel.facts, src, dst, colours, top + HEADING, WIDTH)
        placed.append((panel.heading, top, one))
        top += HEADING + one.height + GAP
    width = max(one.width for _, _, one in placed)
    return render(
        "case.svg", title=title, panels=placed, width=width, height=top, box_width=BOX_WIDTH
    )


# Part `cases`: the paper's two case studies, on links that a rule picks and no hand.
#
# The first: one link, the same budget of three facts, all explainers side by side. The second:
# three paths, and the generic nodes (more facts than D_max of the labels) that paths could have
# used.


NAME = "cases"
FIRST, SECOND = "one link, three facts", "three paths, generic nodes"
BUDGET, SHOWN, LOOKED_AT = 3, 3, 100
GENERIC = {CITATION: 30, TINY: 6}
"""A node with more facts is generic: D_max of the labels; less where all nodes have few."""
MOST_PATHS, MOST_GENERIC = 5000, 10
NAME_WIDTH = 36.0  # in letter heights, some sixty letters


def fact_words(graph: TypedGraph, fact: int) -> NamedFact:
    """A fact in the words of the graph, read the way it is stored first."""
    edge = int(representatives_of_facts(graph)[fact])
    words, backwards = graph.relation_words(graph.edge_types[graph.relation[edge]])
    ends = [
        (graph.node(int(end))[0], shorten(graph.node_name(int(end)), NAME_WIDTH, 1))
        for end in (graph.src[edge], graph.dst[edge])
    ]
    return NamedFact(ends[backwards], words, ends[not backwards])


def joins(graph: TypedGraph, facts: Sequence[int], src: int, dst: int) -> tuple[bool, bool]:
    """Return whether facts join two nodes, and whether they touch both of them at all."""
    edges = first_edges_of_facts(graph)[list(facts)]
    ends = [{int(graph.src[edge]), int(graph.dst[edge])} for edge in edges]
    reached = {src}
    for _ in ends:
        reached.update(*(both for both in ends if both & reached))
    touched = set[int]().union(*ends)
    return dst in reached, {src, dst} <= touched


def run(store: RunStore, plan: Plan, progress: Progress) -> None:
    """Pick the two links and explain them."""
    quick = plan.quick
    data = TINY if quick else CITATION
    try:
        subject = load(data, plan)
    except DataNotFoundError as error:
        plan.say(f"{TITLES[data]} is left out: {error}")
        return
    progress("which of the links are supported")
    looked_at = len(subject.pairs) if quick else LOOKED_AT
    picked = store.do(
        NAME, "choice", key_of(subject, looked_at=looked_at, settings=told(Settings())),
        partial(_choice, subject, looked_at),
    ).figures  # fmt: skip
    for name in RIVALS:
        progress(f"{FIRST}: {name}")
        key = key_of(subject, pair=picked[FIRST], explainer=name, options=options_of(name, quick))
        work = partial(_first, subject, tuple(picked[FIRST]), name, quick)
        store.do(NAME, f"{FIRST}, {name}", key, work)
    progress(SECOND)
    key = key_of(subject, pair=picked[SECOND], settings=told(Settings()))
    store.do(NAME, SECOND, key, partial(_second, subject, tuple(picked[SECOND])))


def _choice(subject: Subject, looked_at: int) -> dict[str, Any]:
    """Pick the two links.

    The first case is the first link, in the seeded order of the test links, with the verdict
    `supported`; the second, of the supported links, the one with most generic nodes on its paths of
    at most three facts, the first of equal ones. Where none is supported, all stand for them.
    """
    explainer = make_explainer(subject, Settings(num_paths=SHOWN), 0)
    pairs = subject.pairs[:looked_at]
    answers = zip(pairs, explainer.explain_many(pairs), strict=True)
    supported = [
        pair
        for pair, answer in answers
        if answer.evidence is not None and answer.evidence.verdict == "supported"
    ]
    counts = [len(_generic(subject, Ground.of(explainer, [pair]))) for pair in supported or pairs]
    second = (supported or pairs)[int(np.argmax(counts))]
    return {
        FIRST: list((supported or pairs)[0]), SECOND: list(second), "looked_at": len(pairs),
        "supported": len(supported), "generic": max(counts),
    }  # fmt: skip


def _generic(subject: Subject, ground: Ground) -> list[int]:
    """The generic nodes on paths of the one link of a ground, as flat nodes."""
    graph, link = ground.explainer.graph, ground.links[0]
    nodes = np.setdiff1d(ground.paths.nodes, [link.src, link.dst])
    return [int(node) for node in nodes if graph.degree[node] > GENERIC[subject.name]]


def _first(subject: Subject, pair: tuple[int, int], name: str, quick: bool) -> dict[str, Any]:
    """What one explainer shows with a budget of three facts."""
    settings = Settings(num_paths=1, budget=BUDGET, measure=name == "pagelink")
    more: dict[str, Any] = {"threshold": None, "options": options_of(name, quick)}
    if name == PGExpLink.name:
        more["train_links"] = subject.train_links
    explainer = make_rival(
        name, subject.model, subject.data, subject.link_type, settings, 0, **more
    )
    explanation, graph = explainer.explain(*pair), explainer.graph
    if name in BY_PATH:
        facts = [fact for path in fact_paths(explainer, [explanation])[0] for fact in path]
    else:
        facts = FreeEdges(explainer).facts(explanation, BUDGET)
    effects = Effects(explainer)
    link = effects.link(pair)
    joined, touched = joins(graph, facts, link.src, link.dst)
    words = [fact_words(graph, fact) for fact in facts]
    return {
        **_link_words(explanation),
        "facts": [[each.src, each.relation, each.dst] for each in words],
        "joined": joined, "touched": touched, "effect": effects.of(pair, [facts])[0],
    }  # fmt: skip


def _second(subject: Subject, pair: tuple[int, int]) -> dict[str, Any]:
    chosen: list[dict[str, Any]] = []
    on_paths: set[int] = set()
    for name in ("pagelink", "paper"):
        settings = Settings(num_paths=SHOWN, measure=name == "pagelink")
        explainer = make_rival(
            name, subject.model, subject.data, subject.link_type, settings, 0, threshold=None
        )
        explanation, graph = explainer.explain(*pair), explainer.graph
        effects = Effects(explainer).of(pair, fact_paths(explainer, [explanation])[0])
        for path, effect in zip(explanation.paths, effects, strict=True):
            inner = list(zip(path.names, path.degrees, strict=True))[1:-1]
            words = " → ".join(shorten(name, NAME_WIDTH, 1) for name in path.names)
            chosen.append(
                {
                    "explainer": name,
                    "path": words,
                    "effect": effect,
                    "degrees": [d for _, d in inner],
                }
            )
            on_paths |= {graph.flat_index(*node) for node in path.nodes[1:-1]}
        if name == "pagelink":
            drawing, about = explanation.to_svg(), _link_words(explanation)
    ground = Ground.of(explainer, [pair])
    no_mask = np.full(len(ground.paths.arc_slot), np.inf, dtype=np.float32)
    arcs = best_paths(ground.paths, no_mask, MOST_PATHS).arcs[0]
    walked = [arc[arc >= 0] for arc in arcs if arc[0] >= 0]
    heads = [set(ground.paths.nodes[ground.paths.arc_dst[arc]].tolist()) for arc in walked]
    generic: list[dict[str, Any]] = [
        {
            "name": shorten(graph.node_name(node), NAME_WIDTH, 1), "kind": graph.node(node)[0],
            "degree": int(graph.degree[node]), "paths": sum(node in of for of in heads),
            "chosen": node in on_paths,
        }
        for node in _generic(subject, ground)
    ]  # fmt: skip
    generic.sort(key=lambda each: (-each["degree"], each["name"]))
    return {
        **about, "num_paths": len(walked), "chosen": chosen, "generic": generic,
        "threshold": GENERIC[subject.name], "svg": drawing,
    }  # fmt: skip


def _link_words(explanation: Explanation) -> dict[str, Any]:
    src, dst = explanation.src_name, explanation.dst_name
    return {
        "src": [explanation.src[0], shorten(src, NAME_WIDTH, 1)],
        "dst": [explanation.dst[0], shorten(dst, NAME_WIDTH, 1)],
        "relation": explanation.link_type[1], "logit": explanation.logit,
    }  # fmt: skip


def _title(figures: dict[str, Any]) -> str:
    return f"{figures['src'][1]} {figures['relation']} “{figures['dst'][1]}”"


def tables(runs: Sequence[Run]) -> list[Table]:
    """The two cases in words."""
    found = []
    if first := _first_rows(runs):
        about = next(iter(first.values()))
        rows = tuple(
            (
                name,
                "; ".join(f"{a[1]} —{words}→ {b[1]}" for a, words, b in row["facts"]) or "nothing",
                "joined" if row["joined"] else "both touched" if row["touched"] else "no",
                cell(row["effect"], 2),
            )
            for name, row in first.items()
        )
        found.append(
            Table(
                f"Three facts for one link: {_title(about)}",
                ("explainer", "facts", "are the ends joined?", "effect"), rows,
                f"Logit {about['logit']:.2f}. The first test link, in the seeded order, with the "
                "verdict `supported`. Explainers of paths show their first path, the others the "
                "three facts of the highest mask. Effect: fall of the logit without these facts.",
            )
        )  # fmt: skip
    for run in runs:
        if run.name == SECOND:
            found += _second_tables(run.figures)
    return found


def _first_rows(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """What each explainer shows for the first link, in the order of the registry."""
    by_name = {run.name: run.figures for run in runs}
    return {name: by_name[own] for name in RIVALS if (own := f"{FIRST}, {name}") in by_name}


def _second_tables(figures: dict[str, Any]) -> list[Table]:
    paths = tuple(
        (row["explainer"], row["path"], ", ".join(map(str, row["degrees"])), cell(row["effect"], 2))
        for row in figures["chosen"]
    )
    generic = [row for row in figures["generic"] if not row["chosen"]]
    passed_by = tuple(
        (row["name"], row["kind"], f"{row['degree']:,}", str(row["paths"]))
        for row in generic[:MOST_GENERIC]
    )
    used = len(figures["generic"]) - len(generic)
    return [
        Table(
            f"Three paths: {_title(figures)}",
            ("explainer", "path", "degrees of inner nodes", "effect alone"), paths,
            "Of the supported links that were looked at, the one with the most generic nodes on "
            f"its paths; it has {figures['num_paths']:,} paths of at most three facts.",
        ),
        Table(
            "Generic nodes that these paths do not use",
            ("node", "type", "facts", "paths of at most 3 facts through it"), passed_by,
            f"Generic: more than {figures['threshold']} facts. {len(generic)} are passed by, the "
            f"largest are shown; {used} are used by one of the paths above.",
        ),
    ]  # fmt: skip


def drawings(runs: Sequence[Run]) -> dict[str, str]:
    """The two figures as standalone SVGs, by file name."""
    found = {}
    if first := _first_rows(runs):
        panels = [
            Panel(
                f"{name}: effect {row['effect']:+.2f}",
                tuple(NamedFact((*a,), words, (*b,)) for a, words, b in row["facts"]),
            )
            for name, row in first.items()
        ]
        about = next(iter(first.values()))
        ends = tuple(about["src"]), tuple(about["dst"])
        found["case-three-facts.svg"] = draw_panels(_title(about), *ends, panels)
    for run in runs:
        if run.name == SECOND:
            found["case-three-paths.svg"] = run.figures["svg"]
    return found


PART = Part(NAME, "Case studies", run, tables, drawings=drawings)
