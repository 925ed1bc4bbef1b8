"""Constraints on paths: by brute force over all simple paths, and by name."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from support.zoo import make_case, make_graph

from pagelink import PaGELink, Settings
from pagelink.errors import LinkError, SettingsError
from pagelink.graph.computation_graph import Extractor
from pagelink.graph.typed_graph import TypedGraph
from pagelink.search.constraints import compile_constraints
from pagelink.search.paths import allowed_facts, build_path_graphs, cheapest_paths

RELATIONS = ("buys", "views", "has", "similar")


def dense_graph(seed: int) -> Any:
    """Few nodes, many relations: many paths of each kind."""
    rng = np.random.default_rng(seed)
    data = make_graph(seed, features=False)
    for node_type, size in (("user", 5), ("item", 5), ("tag", 3)):
        data[node_type].num_nodes = size
        data[node_type].name = [f"{node_type} {i}" for i in range(size)]
    sizes = {"user": 5, "item": 5, "tag": 3}
    for src, relation, dst in data.edge_types:
        if not relation.startswith("rev_"):
            ends = np.stack([rng.integers(0, sizes[src], 6), rng.integers(0, sizes[dst], 6)])
            edges = torch.from_numpy(ends)
            data[src, relation, dst].edge_index = edges
            dates = pa.array([f"20{10 + i}-01-01" if i else None for i in range(6)])
            data[src, relation, dst].attributes = pa.table({"date": dates, "year": range(6)})
            if relation != "similar":
                data[dst, f"rev_{relation}", src].edge_index = edges.flip(0)
    return data


def all_paths(graph: TypedGraph, s: int, t: int, longest: int) -> list[tuple[Any, ...]]:
    """Every simple path as (nodes, words of the relations as walked, flat edges)."""
    found: list[tuple[Any, ...]] = []

    def walk(nodes: list[int], words: list[str], edges: list[int]) -> None:
        if nodes[-1] == t:
            found.append((tuple(nodes), tuple(words), tuple(edges)))
            return
        if len(words) == longest:
            return
        for arc in range(graph.arc_ptr[nodes[-1]], graph.arc_ptr[nodes[-1] + 1]):
            head, edge = int(graph.arc_dst[arc]), int(graph.arc_edge[arc])
            name = graph.edge_types[graph.relation[edge]][1]
            word = f"rev_{name}" if graph.arc_reversed[arc] else name
            if head not in nodes:
                walk([*nodes, head], [*words, word], [*edges, edge])

    walk([s], [], [])
    return found


def search(graph: TypedGraph, settings: Settings, s: int, t: int) -> set[tuple[Any, ...]]:
    constraints = compile_constraints(graph, settings)
    batch = Extractor(graph, None).extract(np.array([s]), np.array([t]), np.array([-1]))
    allowed = allowed_facts(graph, batch, None, constraints)
    paths = build_path_graphs(graph, batch, allowed, settings.max_length, None, constraints)
    found = cheapest_paths(paths, np.ones(len(paths.arc_slot), dtype=np.int64), 100_000)
    result = set()
    for arcs, length in zip(found.arcs[0], found.lengths[0], strict=True):
        if length:
            result.add(tuple(batch.edges[paths.arc_slot[arcs[:length]]].tolist()))
    assert bool(paths.has_path()[0]) == bool(result)
    return result


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["allow", "forbid", "via", "nodes", "relations", "all"])
def test_same_as_filtering_all_paths(seed: int, kind: str) -> None:
    graph = TypedGraph.from_data(dense_graph(seed))
    rng = np.random.default_rng(seed + 100)
    s, t = graph.flat_index("user", 0), graph.flat_index("item", int(rng.integers(5)))
    every = all_paths(graph, s, t, 4)
    shapes = sorted({words for _, words, _ in every})
    some = [shapes[i] for i in rng.integers(0, len(shapes), 3)] if shapes else [("buys", "has")]
    allow = some if kind in ("allow", "all") else []
    forbid = [*some[:1], ("buys",)] if kind in ("forbid", "all") else []
    via = [("item", 1), ("user", "user 2")] if kind in ("via", "all") else []
    without = [("user", 1), ("tag", "tag 0")] if kind in ("nodes", "all") else []
    relations = ["views"] if kind in ("relations", "all") else []
    settings = Settings(
        max_length=4, metapaths=allow, forbid_metapaths=forbid, via=via, exclude_nodes=without,
        exclude_relations=relations,
    )  # fmt: skip
    via_nodes = {graph.find_node(*node) for node in via}
    without_nodes = {graph.find_node(*node) for node in without}
    expected = {
        edges
        for nodes, words, edges in every
        if (not allow or words in allow)
        and words not in forbid
        and (not via or via_nodes & set(nodes[1:]))
        and not without_nodes & set(nodes[1:-1])
        and not any(word.removeprefix("rev_") in relations for word in words)
    }
    assert search(graph, settings, s, t) == expected


def test_only_facts_before_a_date() -> None:
    graph = TypedGraph.from_data(dense_graph(3))
    s, t = 0, graph.flat_index("item", 1)
    early = search(graph, Settings(before="2013-01-01"), s, t)
    years = search(graph, Settings(before="3", date_column="year"), s, t)
    every = search(graph, Settings(), s, t)
    assert early == years
    assert early < every
    facts = {
        graph.fact[edge] for edge in range(graph.num_edges)
        if graph.edge_attributes(edge).get("year", 0) < 3
        and not graph.edge_types[graph.relation[edge]][1].startswith("rev_")
    }  # fmt: skip
    assert early == {path for path in every if all(graph.fact[e] in facts for e in path)}


def test_a_relation_without_any_date_asks_for_no_kind_of_date() -> None:
    data = dense_graph(3)
    count = data["user", "views", "item"].num_edges
    data["user", "views", "item"].attributes = pa.table({"date": pa.nulls(count, pa.string())})
    graph = TypedGraph.from_data(data)
    s, t = 0, graph.flat_index("item", 1)
    early = Settings(before="2013-01-01", metapaths=[["views"]])
    assert search(graph, early, s, t) == search(graph, early.replace(before=None), s, t)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"exclude_relations": ["byus"]}, SettingsError, "Did you mean 'buys'"),
        ({"metapaths": [["buys", "rev_byus"]]}, SettingsError, "rev_byus.*Did you mean 'rev_buys'"),
        ({"via": [("itme", 1)]}, SettingsError, "Did you mean 'item'"),
        ({"via": [("item", "item 99")]}, LinkError, "There is no item called 'item 99'"),
        ({"exclude_nodes": [("item", 99)]}, LinkError, r"0\.\.4"),
        ({"before": "2013", "date_column": "when"}, SettingsError, "No relation has a column"),
        ({"before": "soon", "date_column": "year"}, SettingsError, "dates are numbers"),
        ({"before": "15.01.2015"}, SettingsError, "before must be a date"),
        ({"via": ["item"]}, SettingsError, "via must hold"),
        ({"via": [("a", "b", "c")]}, SettingsError, "node type, name or index"),
        ({"exclude_relations": "buys"}, SettingsError, "must be a sequence"),
    ],
)
def test_what_is_not_there_is_named(settings: dict[str, Any], error: Any, words: str) -> None:
    graph = TypedGraph.from_data(dense_graph(0))
    with pytest.raises(error, match=words):
        compile_constraints(graph, Settings(**settings))


def test_through_the_explainer() -> None:
    case = make_case("HeteroConv SAGE")
    pairs = list(itertools.product(range(25), range(25)))

    def run(**changes: Any) -> dict[Any, Any]:
        settings = Settings(**changes)
        explainer = PaGELink(case.model, case.data, case.link_type, settings, threshold=None)
        return dict(zip(pairs, explainer.explain_many(pairs), strict=True))

    plain, without = run(longer=False), run(longer=False, exclude_relations=["has"])
    used = {
        pair for pair, e in plain.items() for p in e.paths for x in p.edges if "has" in x.type[1]
    }
    assert used
    for pair, explanation in without.items():
        for path in explanation.paths:
            assert not any("has" in edge.type[1] for edge in path.edges)
        if plain[pair].paths and not explanation.paths:
            assert explanation.reason == "excluded"
            assert "without the relations has" in explanation.message
    assert any(e.reason == "excluded" for e in without.values())
    assert Settings.from_dict(Settings(via=[("item", 3)]).to_dict()) == Settings(via=[("item", 3)])


def test_a_deadline_stops_the_learning_and_says_so() -> None:
    case = make_case("HeteroConv SAGE")
    late = PaGELink(
        case.model, case.data, case.link_type, Settings(deadline=0.0), threshold=None
    ).explain(5, 3)
    plain = PaGELink(case.model, case.data, case.link_type, threshold=None).explain(5, 3)
    assert late.reason == "out_of_time"
    assert late.epochs == 0
    assert late.paths
    assert "deadline of 0 seconds" in str(late)
    assert plain.reason is None
    enough = PaGELink(
        case.model, case.data, case.link_type, Settings(deadline=1000.0), threshold=None
    ).explain(5, 3)
    assert enough.paths == plain.paths
    assert enough.reason is None
