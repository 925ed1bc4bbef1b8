"""Part `cases`: the paper's two case studies, on links that a rule picks and no hand.

The first: one link, the same budget of three facts, all explainers side by side, drawn as a panel
for each. The second: three paths, and the generic nodes (more facts than D_max of the labels) that
paths could have used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pagelink.bench.answers import DEFAULT, make_explainer, options_of
from pagelink.bench.paper.plan import CITATION, TINY, Dataset, Part, Session, told
from pagelink.bench.paper.report import Table
from pagelink.bench.runs import Figures, Run, cell
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import first_edges_of_facts, representatives_of_facts
from pagelink.graph.typed_graph import TypedGraph
from pagelink.rivals.ground import Ground, fact_paths, free_facts, paths_by_degree
from pagelink.rivals.registry import BY_PATH, RIVALS
from pagelink.settings import Settings
from pagelink.views.layers import NamedFact, Node
from pagelink.views.subgraph import BOX_WIDTH, place
from pagelink.views.templates import colours_of, render
from pagelink.views.text import enumerated, shorten

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


def each(session: Session, dataset: Dataset) -> None:
    """Pick the two links and explain them."""
    if dataset.name not in GENERIC:
        return
    quick = session.plan.quick
    looked_at = len(dataset.subject.pairs) if quick else LOOKED_AT
    key = dataset.key_of(looked_at=looked_at, settings=told(Settings()))
    picked = session.do("choice", key, _choice, dataset, looked_at).figures
    for name in session.plan.chosen(RIVALS):
        key = dataset.key_of(
            pair=picked[FIRST], explainer=name, options=options_of(name, quick, dataset.name)
        )
        session.do(f"{FIRST}, {name}", key, _first, dataset, tuple(picked[FIRST]), name)
    key = dataset.key_of(pair=picked[SECOND], settings=told(Settings()))
    session.do(SECOND, key, _second, dataset, tuple(picked[SECOND]))


def _choice(dataset: Dataset, looked_at: int) -> Figures:
    """Pick the two links.

    The first case is the first link, in the seeded order of the test links, with the verdict
    `supported`; the second, of the supported links, the one with most generic nodes on its paths of
    at most three facts, the first of equal ones. Where none is supported, all stand for them.
    """
    explainer = make_explainer(dataset.subject, DEFAULT, Settings(num_paths=SHOWN), 0)
    pairs = dataset.subject.pairs[:looked_at]
    answers = zip(pairs, explainer.explain_many(pairs), strict=True)
    supported = [
        pair
        for pair, answer in answers
        if answer.evidence is not None and answer.evidence.verdict == "supported"
    ]
    counts = [len(_generic(dataset, Ground.of(explainer, [pair]))) for pair in supported or pairs]
    second = (supported or pairs)[int(np.argmax(counts))]
    return {
        FIRST: list((supported or pairs)[0]), SECOND: list(second), "looked_at": len(pairs),
        "supported": len(supported), "generic": max(counts),
    }  # fmt: skip


def _generic(dataset: Dataset, ground: Ground) -> list[int]:
    """The generic nodes on paths of the one link of a ground, as flat nodes."""
    graph, link = ground.explainer.graph, ground.links[0]
    nodes = np.setdiff1d(ground.paths.nodes, [link.src, link.dst])
    return [int(node) for node in nodes if graph.degree[node] > GENERIC[dataset.name]]


def _first(dataset: Dataset, pair: tuple[int, int], name: str) -> Figures:
    """What one explainer shows with a budget of three facts."""
    settings = Settings(num_paths=1, budget=BUDGET, measure=name == DEFAULT)
    explainer = make_explainer(dataset.subject, name, settings, 0, dataset.plan.quick)
    explanation, graph = explainer.explain(*pair, rank=False), explainer.graph
    if name in BY_PATH:
        facts = [fact for path in fact_paths(explainer, [explanation])[0] for fact in path]
    else:
        facts = free_facts(graph, explanation.edge_mask, BUDGET)
    ground = Ground.of(explainer, [pair])
    joined, touched = joins(graph, facts, ground.links[0].src, ground.links[0].dst)
    words = [fact_words(graph, fact) for fact in facts]
    return {
        **_link_words(explanation),
        "facts": [[each.src, each.relation, each.dst] for each in words],
        "joined": joined, "touched": touched, "effect": float(ground.effects([0], [facts])[0]),
    }  # fmt: skip


def _second(dataset: Dataset, pair: tuple[int, int]) -> Figures:
    chosen: list[dict[str, Any]] = []
    on_paths: set[int] = set()
    for name in (DEFAULT, "paper"):
        settings = Settings(num_paths=SHOWN, measure=name == DEFAULT)
        explainer = make_explainer(dataset.subject, name, settings, 0)
        explanation, graph = explainer.explain(*pair, rank=False), explainer.graph
        ground, paths = Ground.of(explainer, [pair]), fact_paths(explainer, [explanation])[0]
        effects = ground.effects([0] * len(paths), paths).tolist()
        for path, effect in zip(explanation.paths, effects, strict=True):
            chosen.append(
                {
                    "explainer": name,
                    "path": " → ".join(shorten(each, NAME_WIDTH, 1) for each in path.names),
                    "effect": effect,
                    "degrees": list(path.degrees[1:-1]),
                }
            )
            on_paths |= {graph.flat_index(*node) for node in path.nodes[1:-1]}
        if name == DEFAULT:
            drawing, about = explanation.to_svg(), _link_words(explanation)
    arcs = paths_by_degree(ground.paths, MOST_PATHS).arcs[0]
    walked = [arc[arc >= 0] for arc in arcs if arc[0] >= 0]
    heads = [set(ground.paths.nodes[ground.paths.arc_dst[arc]].tolist()) for arc in walked]
    generic: list[dict[str, Any]] = [
        {
            "name": shorten(graph.node_name(node), NAME_WIDTH, 1), "kind": graph.node(node)[0],
            "degree": int(graph.degree[node]), "paths": sum(node in of for of in heads),
            "chosen": node in on_paths,
        }
        for node in _generic(dataset, ground)
    ]  # fmt: skip
    generic.sort(key=lambda each: (-each["degree"], each["name"]))
    return {
        **about, "num_paths": len(walked), "chosen": chosen, "generic": generic,
        "threshold": GENERIC[dataset.name], "svg": drawing,
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


def tables(runs: Sequence[Run]) -> Iterator[Table]:
    """The two cases in words."""
    if first := _first_rows(runs):
        about = next(iter(first.values()))
        rows = []
        for name, row in first.items():
            facts = "; ".join(f"{a[1]} —{words}→ {b[1]}" for a, words, b in row["facts"])
            ends = "joined" if row["joined"] else "both touched" if row["touched"] else "no"
            rows.append((name, facts or "nothing", ends, cell(row["effect"], 2)))
        yield Table(
            f"Three facts for one link: {_title(about)}",
            ("explainer", "facts", "are the ends joined?", "effect"), rows,
            f"Logit {about['logit']:.2f}. The first test link, in the seeded order, with the "
            "verdict `supported`. Explainers of paths show their first path, the others the "
            "three facts of the highest mask. Effect: fall of the logit without these facts.",
        )  # fmt: skip
    for run in runs:
        if run.name == SECOND:
            yield from _second_tables(run.figures)


def _first_rows(runs: Sequence[Run], names: Iterable[str] = RIVALS) -> dict[str, dict[str, Any]]:
    """What each explainer shows for the first link, in the order of the names."""
    by_name = {run.name: run.figures for run in runs}
    return {name: by_name[own] for name in names if (own := f"{FIRST}, {name}") in by_name}


def first_in_words(runs: Sequence[Run], names: Iterable[str] = RIVALS) -> str:
    """The drawing of the first case, for those who cannot see it."""
    rows = _first_rows(runs, names)
    joined = [name for name, row in rows.items() if row["joined"]]
    other = [name for name, row in rows.items() if not row["joined"]]
    words = [f"Three facts by each explainer for one link: {_title(next(iter(rows.values())))}."]
    if joined:
        words.append(f"Those of {enumerated(joined)} are a path from source to target.")
    if other:
        words.append(f"Those of {enumerated(other)} do not join the two.")
    return " ".join(words)


def second_in_words(runs: Sequence[Run]) -> str:
    """The drawing of the second case, for those who cannot see it."""
    found = next(run.figures for run in runs if run.name == SECOND)
    rows = [row["path"].split(" → ") for row in found["chosen"] if row["explainer"] == DEFAULT]
    through = "; ".join(enumerated(nodes[1:-1]) for nodes in rows)
    return f"Paths for one link: {_title(found)}. They go through {through}."


def _second_tables(figures: dict[str, Any]) -> list[Table]:
    paths = [
        (row["explainer"], row["path"], ", ".join(map(str, row["degrees"])), cell(row["effect"], 2))
        for row in figures["chosen"]
    ]
    generic = [row for row in figures["generic"] if not row["chosen"]]
    passed_by = [
        (row["name"], row["kind"], f"{row['degree']:,}", str(row["paths"]))
        for row in generic[:MOST_GENERIC]
    ]
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


def drawings(runs: Sequence[Run], names: Iterable[str] = RIVALS) -> dict[str, str]:
    """The two figures as standalone SVGs, by file name; the first has a panel for each name."""
    found = {}
    if first := _first_rows(runs, names):
        panels = [
            Panel(
                f"{name}: effect {round(row['effect'], 2) + 0.0:+.2f}",  # not -0.00
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


PART = Part(NAME, "Case studies", tables, each, drawings=drawings)
