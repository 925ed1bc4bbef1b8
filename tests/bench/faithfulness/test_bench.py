"""`pagelink bench faithfulness`: figures by hand, judges on tiny graphs, and a quick run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from pagelink import PaGELink, Settings
from pagelink.bench.answers import COUNTS
from pagelink.bench.faithfulness.judges import (
    EditedGraph,
    Replacements,
    RewiredModel,
    correlation,
    foretelling,
    replaced_effects,
    without_facts,
)
from pagelink.bench.faithfulness.report import compared
from pagelink.bench.measures import (
    inner_degrees,
    label_facts,
    measure,
    supportable,
    swapped,
)
from pagelink.bench.runs import check_names
from pagelink.bench.subjects import Separations, subject_names
from pagelink.cli.main import app
from pagelink.errors import SettingsError
from pagelink.graph.lookup import first_edges_of_facts
from pagelink.measure.verdict import stand_in, verdict_of
from pagelink.models.architectures import RGCN
from pagelink.models.link_model import node_inputs
from pagelink.rivals.ground import Ground, Ranked

LINK = ("user", "likes", "item")
BUYS = ("user", "buys", "item")
BOUGHT = ("item", "rev_buys", "user")


@pytest.fixture(scope="module")
def data() -> HeteroData:
    """User 0 and item 2 are joined by way of item 0 and of item 1; user 3 is apart."""
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 4, 5
    pairs = torch.tensor([[0, 0, 1, 1, 2, 2, 3, 2, 3, 0], [0, 1, 0, 2, 1, 2, 3, 3, 4, 4]])
    data[BUYS].edge_index = pairs
    data[BOUGHT].edge_index = pairs.flip(0)
    return data


@pytest.fixture(scope="module")
def model(data: HeteroData) -> RGCN:
    return RGCN.for_data(data, LINK, paper_split=True, hidden=8, seed=3).eval()


@pytest.fixture(scope="module")
def ground(data: HeteroData, model: RGCN) -> Ground:
    explainer = PaGELink(model, data, LINK, Settings(), threshold=None)
    return Ground.of(explainer, [(0, 2)])


def fact(ground: Ground, user: int, item: int) -> int:
    graph = ground.explainer.graph
    for edge in range(graph.num_edges):
        if graph.node(graph.src[edge]) == ("user", user) and (
            graph.node(graph.dst[edge]) == ("item", item)
        ):
            return int(graph.fact[edge])
    raise AssertionError


def by_way_of(ground: Ground, item: int) -> tuple[int, ...]:
    user = item + 1
    return fact(ground, 0, item), fact(ground, user, item), fact(ground, user, 2)


def test_measures_of_a_known_path(ground: Ground) -> None:
    path, other = by_way_of(ground, 0), by_way_of(ground, 1)
    answers = {1: [[path]], 3: [[path, other]], 5: [[path, other]]}
    effects = ground.effects([0, 0], [path, {*path, *other}])  # type: ignore[list-item]
    rows, verdicts = measure(ground, answers, effects[1:], [[other]], seed=0)
    assert rows["effect@1"] == pytest.approx(effects[:1], abs=1e-5)
    assert rows["effect@3"] == pytest.approx(effects[1:], abs=1e-5)
    assert [rows[f"hit@{n}"][0] for n in COUNTS] == [0, 1, 1]
    assert rows["length"][0] == 3
    # Both paths together are all there are: put back into G0, they give all of f(G).
    assert rows["added"] == pytest.approx(rows["span"], abs=1e-5)
    # Degrees of the inner nodes: items 0 and 1 have two facts, user 1 two, user 2 three.
    assert rows["log degree"][0] == pytest.approx((3 * np.log(2) + np.log(3)) / 4)
    assert len(verdicts) == 1


def test_inner_degrees_are_those_between_the_facts(ground: Ground) -> None:
    graph = ground.explainer.graph
    found = inner_degrees(graph, first_edges_of_facts(graph), by_way_of(ground, 1))
    assert found == [2, 3]


def test_connection_is_what_swapping_inner_facts_takes(data: HeteroData) -> None:
    model = RGCN.for_data(data, LINK, paper_split=True, hidden=8, seed=1).eval()
    ground = Ground.of(PaGELink(model, data, LINK, Settings(), threshold=None), [(0, 2)])
    # The inner fact of the path by way of item 0 is (user 1, item 0). With (user 2, item 3) or
    # (user 3, item 4) as its partner a new path would come, so that (user 3, item 3) is the only
    # one. That of the path by way of item 1 has none.
    path, other = by_way_of(ground, 0), by_way_of(ground, 1)
    edited = data.clone()
    pairs = data[BUYS].edge_index.clone()
    places = {(int(u), int(v)): i for i, (u, v) in enumerate(pairs.t())}
    pairs[1, [places[1, 0], places[3, 3]]] = torch.tensor([3, 0])
    edited[BUYS].edge_index, edited[BOUGHT].edge_index = pairs, pairs.flip(0)
    with torch.no_grad():
        link = torch.tensor([[0], [2]])
        before, after = (
            float(model(node_inputs(each), each.edge_index_dict, link)) for each in (data, edited)
        )
    (effect,) = ground.effects([0], [path])
    assert effect > ground.explainer.setup.noise
    (found,), (control,) = swapped(ground, [[path]], seed=0)
    assert found == pytest.approx((before - after) / effect, abs=1e-4)
    assert abs(found) > 0.01
    assert control is None  # the facts of the whole path have no partners
    (found,), _ = swapped(ground, [[other]], seed=0)
    assert np.isnan(found)


def test_labels_become_facts_and_say_which_links_are_supportable(ground: Ground) -> None:
    steps = ((*BUYS, 0, 0), (*BOUGHT, 0, 1), (*BUYS, 1, 2))
    (labels,) = label_facts(ground.explainer.graph, {(0, 2): [steps]}, [(0, 2)])
    assert labels == [by_way_of(ground, 0)]
    (effect,) = ground.effects([0], labels)
    assert supportable(ground, [labels]).tolist() == [effect > 0]


@pytest.mark.parametrize("greedy", [0.0, 100.0])
def test_verdicts_are_by_the_rule_of_the_explainer(ground: Ground, greedy: float) -> None:
    answers = {count: [[by_way_of(ground, 0)]] for count in COUNTS}
    best = np.array([greedy])
    rows, (found,) = measure(ground, answers, best, None, seed=0)
    (effect,), (added,), (span,) = rows["effect@3"], rows["added"], rows["span"]
    (inserted,) = stand_in(rows["span"], np.maximum(best, effect), rows["added"])
    f = float(ground.logits[0])
    _, (control,) = swapped(ground, answers[3], seed=0)
    assert found == verdict_of(
        f, f - span, added if inserted else effect, greedy, ground.explainer.setup.noise,
        None if inserted else control,
    )  # fmt: skip


def test_a_difference_is_paired() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0, 10, 50)
    figure = compared(base + 1, base, np.ones(50), seed=0)
    assert figure["minus_default"]["low"] == pytest.approx(1)
    assert figure["low"] < figure["value"] - 0.5
    share = compared(np.array([1.0, 2.0]), np.zeros(2), np.array([2.0, 4.0]), seed=0)
    assert share["value"] == 0.5


def test_edited_graphs_are_the_full_graph_edited(
    ground: Ground, data: HeteroData, model: RGCN
) -> None:
    graph = ground.explainer.graph
    ask = RewiredModel(model, node_inputs(data), graph, 2)
    removed = frozenset(by_way_of(ground, 0))
    relation = graph.edge_types.index(BOUGHT)
    new = (relation, graph.flat_index("item", 3), graph.flat_index("user", 0))
    ends = graph.flat_index("user", 0), graph.flat_index("item", 2)
    plain, less, more = ask.logits(
        [
            EditedGraph(*ends, frozenset()),
            EditedGraph(*ends, removed),
            EditedGraph(*ends, removed, (new,)),
        ]
    )
    assert plain == pytest.approx(ground.logits[0], abs=1e-5)
    assert plain - less == pytest.approx(ground.effects([0], [sorted(removed)])[0], abs=1e-5)

    edited = without_facts(data, graph, sorted(removed))
    assert edited[BUYS].num_edges == data[BUYS].num_edges - 3
    edges = dict(edited.edge_index_dict)
    edges[BOUGHT] = torch.cat([edges[BOUGHT], torch.tensor([[3], [0]])], dim=1)
    with torch.no_grad():
        full = model(node_inputs(data), edges, torch.tensor([[0], [2]]))
    assert more == pytest.approx(float(full), abs=1e-5)
    assert more != pytest.approx(less, abs=1e-3)


def test_a_replacement_leaves_ends_and_relations_as_they_are(ground: Ground) -> None:
    graph = ground.explainer.graph
    link, path = ground.links[0], by_way_of(ground, 0)
    for seed in range(10):
        edited = Replacements(graph).draw(
            link.src, link.dst, -1, [path], np.random.default_rng(seed)
        )
        assert edited.removed == set(path)
        added = np.array(edited.added)
        gone = np.isin(graph.fact, path)
        for end, kept in ((link.src, graph.src), (link.dst, graph.dst)):
            column = 1 if end == link.src else 2
            # The source gives and the target takes as many edges as before: only they lead
            # elsewhere, to pairs that were not there.
            assert (added[:, column] == end).sum() <= (kept[gone] == end).sum()
        stored = set(zip(graph.relation.tolist(), graph.src.tolist(), graph.dst.tolist(),
                         strict=True))  # fmt: skip
        assert not stored & {tuple(row) for row in added.tolist()}


def test_judges(ground: Ground, data: HeteroData, model: RGCN) -> None:
    path = by_way_of(ground, 0)
    rankings: dict[str, Ranked] = {"some": [[path]], "none": [[]]}
    replaced = replaced_effects(ground, model, data, rankings, [0], seed=0)
    assert replaced["none"] == pytest.approx([0], abs=1e-5)
    assert abs(replaced["some"][0]) > 1e-3
    told = foretelling(ground, rankings, ["some"], 0, seed=0)
    assert told["none"] == (0, 0)
    assert told["some"][0] == told["some"][1] != 0
    counted = foretelling(ground, rankings, [], 0, seed=0)
    assert counted["some"][1] == told["some"][1] != counted["some"][0]


def test_correlation_by_hand() -> None:
    assert correlation([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert correlation([0, 0, 1, 1], [0, 1, 0, 3]) == pytest.approx(1 / np.sqrt(6))
    assert correlation([1, 1, 1], [1, 2, 3]) == 0


def test_a_model_is_structural_if_it_beats_all_its_twins() -> None:
    assert Separations(0.9, 0.7, 0.8, 0.6, 0.85, 0.65).structural
    assert not Separations(0.9, 0.7, 0.8, 0.6, 0.95, 0.65).structural
    assert not Separations(0.9, 0.7, 0.8, 0.6, 0.85, 0.71).structural
    assert Separations(0.9, None, 0.8, None, None, None).structural


def test_an_unknown_subject_is_refused() -> None:
    with pytest.raises(SettingsError, match="Did you mean 'released'"):
        check_names("subject", ["relaesed"], subject_names(quick=False))
    assert check_names("subject", [], subject_names(quick=True)) == (
        "tiny-rgcn",
        "tiny-rgcn-shared",
    )


def test_quick_run(tmp_path: Path) -> None:
    command = ["bench", "faithfulness", "--quick", "--subject", "tiny-rgcn", "--rho-curve",
               "--links", "3", "--out", str(tmp_path)]  # fmt: skip
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert "tiny-rgcn: 3 links" in first.output
    written = json.loads((tmp_path / "faithfulness.json").read_text())
    (subject,) = written["subjects"]
    assert subject["rankings"]["greedy"]["share@3"]["value"] == pytest.approx(1)
    assert subject["rankings"]["default"]["share@3"]["minus_default"]["value"] == 0
    assert [row["rho"] for row in subject["rho_curve"]] == [0, 0.5, 1]
    assert written["settings"]["paper"]["rho"] == 0
    stored = tmp_path / "subjects" / "tiny-rgcn-seed0.pt"
    before = stored.stat().st_mtime_ns
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0
    assert stored.stat().st_mtime_ns == before  # a second run goes on with the trained model
    rerun = json.loads((tmp_path / "faithfulness.json").read_text())["subjects"][0]
    for each in (subject, rerun):
        for figures in each["rankings"].values():
            del figures["cpu"]
    assert rerun == subject
