"""The sanity checks, on models of which the outcome is known."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support.decoys import draw, trained_on_decoys
from support.explanations import make_evidence, make_explanation, strong
from torch import Tensor, nn
from torch_geometric.data import HeteroData
from typer.testing import CliRunner

from pagelink import PaGELink, Settings
from pagelink.checks.checked_model import (
    CheckedModel,
    check_randomisation,
    choose_links,
    flat_links,
    judge,
    logits_without,
    overlaps,
    percent,
    reinitialised,
    shuffled_split,
)
from pagelink.checks.relations import (
    Hidden,
    check_leaks,
    check_relations,
    direct_facts,
    find_leaks,
    relation_pairs,
)
from pagelink.checks.report import TITLES, CheckReport, check, check_hubs, check_verdicts, hubs
from pagelink.cli.main import app
from pagelink.datasets.planted import LINK_TYPE, PlantedModel, plant
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.errors import SettingsError
from pagelink.graph.computation_graph import Extractor
from pagelink.graph.edited_graphs import Edits
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.verdict import VERDICTS
from pagelink.model.edited_logits import EditedLogits
from pagelink.models import TrainSettings, make_model, split_links, train
from pagelink.models.checkpoint import Checkpoint, save_checkpoint
from pagelink.models.links import LinkSplit
from pagelink.models.messages import message_graph
from pagelink.runtime.csr import Csr
from pagelink.tables.load import load_graph, save_graph


def relations_of(colour: str) -> list[EdgeType]:
    return [
        edge_type
        for end in ("user", "item")
        for edge_type in ((end, f"{end}_{colour}", colour), (colour, f"rev_{end}_{colour}", end))
    ]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    made = generate_useritemattr(seed=0)
    settings = TrainSettings(epochs=15, max_candidates=50)
    split = split_links(made.likes, 0)
    model = make_model("sage", made.data, made.link_type, hidden=16)
    report = train(model, made.data, made.link_type, split, settings)
    seen = message_graph(made.data, made.link_type, split.train)
    return Checkpoint(model.eval(), made.link_type, split, report, settings, seen)


# Relation ablation


def two_colours() -> tuple[CheckedModel, list[EdgeType], list[EdgeType]]:
    """A model that uses two colours, and the relations of each of them."""
    planted = plant("inhibiting")
    subject = CheckedModel(planted.model, planted.data, LINK_TYPE, planted.pairs)
    return subject, relations_of(planted.colours[0]), relations_of(planted.colours[1])


def test_a_hidden_relation_has_no_influence_though_the_search_sees_it() -> None:
    subject, red, _ = two_colours()
    explainer = subject.explainer(Hidden(subject.model, red))
    graph = explainer.graph
    everything = np.ones(len(graph.edge_types), dtype=np.bool_)
    ends = flat_links(graph, LINK_TYPE, subject.links)
    # The computation graphs as they are if messages passed along all relations.
    batch = Extractor(graph, 1, everything, along_relations=everything).extract(
        ends[:, 0], ends[:, 1], np.full(len(ends), -1)
    )
    of_red = np.isin(graph.relation, [graph.edge_types.index(t) for t in red])
    slots = [
        np.flatnonzero(of_red[batch.edges[a:b]]) + a
        for a, b in zip(batch.edge_ptr[:-1], batch.edge_ptr[1:], strict=True)
    ]
    assert min(map(len, slots)) > 0
    links = np.arange(len(ends))
    relation = np.full(len(ends), graph.edge_types.index(LINK_TYPE))
    gone = Edits(links, Csr.of(slots))
    unchanged = Edits.towards(batch, np.zeros_like(batch.visible), links)
    influence = EditedLogits(explainer.predictor, batch, relation)
    whole = influence.logits(batch.visible, unchanged)
    assert np.array_equal(whole, influence.logits(batch.visible, gone))
    # The same model with open eyes does depend on them.
    open_eyes = EditedLogits(subject.explainer().predictor, batch, relation)
    assert not np.array_equal(
        open_eyes.logits(batch.visible, unchanged), open_eyes.logits(batch.visible, gone)
    )
    assert np.array_equal(
        logits_without(explainer, subject.links), logits_without(explainer, subject.links, of_red)
    )


def test_no_path_runs_along_a_hidden_relation() -> None:
    subject, red, green = two_colours()
    for hidden in (red, green):
        blind = Hidden(subject.model, hidden)
        explainer = subject.explainer(blind)
        seen = dict(
            zip(explainer.graph.edge_types, explainer.receptive_field.seen_relations, strict=True)
        )
        assert not any(seen[t] for t in hidden)
        for answer in subject.explain(blind):
            assert answer.paths  # there are other ones
            assert not any(edge.type in hidden for path in answer.paths for edge in path.edges)
    used = [edge.type for answer in subject.explain() for p in answer.paths for edge in p.edges]
    assert any(edge_type in red for edge_type in used)


class Muted(nn.Module):
    """Hides relations, too, but messages still pass along them, for nothing."""

    def __init__(self, model: PlantedModel, colour: str) -> None:
        super().__init__()
        self.hidden = Hidden(model, relations_of(colour))
        self.muted = PlantedModel(lambda red, green, blue, own: 0 * red, [colour] * 3)

    def forward(
        self, x_dict: dict[str, Tensor], edge_index_dict: dict[EdgeType, Tensor], links: Tensor
    ) -> Tensor:
        return self.hidden(x_dict, edge_index_dict, links) + self.muted(
            x_dict, edge_index_dict, links
        )


@pytest.mark.parametrize("mechanism", ["either", "inhibiting", "mean"])
def test_paths_avoid_what_the_search_sees_and_the_model_does_not(mechanism: str) -> None:
    planted = plant(mechanism)
    # The second colour where it counts; the decoys where there is but one.
    colour = planted.colours[0 if mechanism == "either" else 1 if mechanism == "inhibiting" else 2]
    assert isinstance(planted.model, PlantedModel)
    subject = CheckedModel(Muted(planted.model, colour), planted.data, LINK_TYPE, planted.pairs)
    explainer = subject.explainer()
    hidden = relations_of(colour)
    assert explainer.receptive_field.seen_relations[explainer.graph.edge_types.index(hidden[1])]
    for answer in subject.explain():
        assert answer.paths
        for path in answer.paths:
            if any(edge.type in hidden for edge in path.edges):
                assert path.influence == 0
                assert not path.is_evidence


def test_the_check_of_relations_looks_at_each_of_them() -> None:
    planted = plant("mean", num_links=40)
    subject = CheckedModel(planted.model, planted.data, LINK_TYPE, planted.pairs)
    finding = check_relations(subject, subject.explain())
    assert finding.mark == "fine"
    assert len(finding.figures["relations"]) == 6
    assert "6 of 6" in finding.verdict
    counts = planted.colours[0]
    for row in finding.figures["relations"]:
        uses = row["edge_types"][0][2] == counts
        assert (row["paths_before"] > 0) == uses
        assert (row["change"] > 0) == uses
        assert row["influence"] == row["paths_hidden"] == row["avoidable"] == 0


def test_paths_along_a_hidden_relation_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant("inhibiting", num_links=40)
    subject = CheckedModel(planted.model, planted.data, LINK_TYPE, planted.pairs)
    # As if nothing were hidden.
    monkeypatch.setattr("pagelink.checks.relations.Hidden", lambda model, relations: planted.model)
    finding = check_relations(subject, subject.explain())
    assert finding.mark == "warning"
    assert planted.colours[0] in finding.verdict


def test_relations_go_with_their_reverses() -> None:
    graph = TypedGraph.from_data(plant("mean", 4).data, [LINK_TYPE])
    pairs = relation_pairs(graph)
    assert len(pairs) == 6
    assert all(len(pair) == 2 for pair in pairs)


# Randomisation


def test_explanations_follow_the_model() -> None:
    planted = trained_on_decoys("sage", 1)
    subject = CheckedModel(planted.model, planted.data, LINK_TYPE, planted.pairs[:60])
    mine = subject.explain(start="noise")
    other = reinitialised(planted.model, 1)
    found = {
        "seeds": overlaps(mine, dataclasses.replace(subject, seed=1).explain(start="noise")),
        "reinitialised": overlaps(mine, subject.explain(other, start="noise")),
        "degree_only": overlaps(
            subject.explain(measure=False, epochs=0),
            subject.explain(other, measure=False, epochs=0),
        ),
    }
    finding = judge(found, 0)
    assert finding.mark == "fine"
    assert finding.figures["reinitialised"]["high"] < finding.figures["seeds"]["low"]
    assert finding.figures["degree_only"]["overlap"] == 1
    assert any("degree alone" in line for line in finding.details)
    # A ranking that does not look at the model is found out.
    blind = CheckedModel(
        planted.model,
        planted.data,
        LINK_TYPE,
        planted.pairs[:60],
        Settings(measure=False, epochs=0),
    )
    same = overlaps(blind.explain(), blind.explain(other))
    assert judge({"seeds": same, "reinitialised": same}, 0).mark == "warning"


def test_shuffled_links_train_another_model(checkpoint: Checkpoint) -> None:
    links = choose_links(checkpoint, 40, 0)
    subject = CheckedModel(checkpoint.model, checkpoint.data, checkpoint.link_type, links)
    finding = check_randomisation(subject, checkpoint)
    assert finding.mark == "fine", finding
    for name in ("reinitialised", "shuffled"):
        assert finding.figures[name]["high"] < finding.figures["seeds"]["low"]
    assert finding.figures["degree_only"]["overlap"] == 1


def test_shuffled_splits_hold_no_true_link() -> None:
    rng = np.random.default_rng(0)
    for link_type in (LINK_TYPE, ("user", "knows", "user")):
        pairs = torch.unique(torch.from_numpy(rng.integers(0, 30, (2, 80))), dim=1)
        if link_type[0] == link_type[2]:
            pairs = torch.unique(pairs[:, pairs[0] != pairs[1]].sort(dim=0).values, dim=1)
        split = split_links(pairs, 0)
        other = shuffled_split(split, link_type, 30, rng)
        truth = {tuple(p) for p in pairs.t().tolist()}
        drawn = [tuple(p) for p in other.all.t().tolist()]
        assert len(drawn) > 10
        if link_type[0] == link_type[2]:
            drawn = [(min(p), max(p)) for p in drawn]
            assert all(a != b for a, b in drawn)
        assert len(set(drawn)) == len(drawn)
        assert not truth & set(drawn)


def test_overlap_by_hand() -> None:
    planted = plant("mean", num_links=12)
    answers = CheckedModel(planted.model, planted.data, LINK_TYPE, planted.pairs).explain()
    many = max(answers, key=lambda a: len(a.paths))
    fewer = dataclasses.replace(many, paths=many.paths[:-1])
    none = dataclasses.replace(many, paths=())
    count = len(many.paths)
    assert overlaps([many], [fewer])[0] == pytest.approx((count - 1) / count)
    assert overlaps([many], [none])[0] == 0
    assert np.isnan(overlaps([none], [none])[0])


def test_a_reinitialised_model_keeps_the_scale_of_features() -> None:
    data, _ = draw(np.random.default_rng(0))
    model = make_model("sage", data, LINK_TYPE, paper_split=True, hidden=4)
    other = reinitialised(model, 5)
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), other.buffers(), strict=True))
    assert not all(
        torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)
    )


# Leaks


def treats() -> tuple[HeteroData, Tensor]:
    """Drugs treat diseases; there are relations that say the same, nearly the same, and others."""
    rng = np.random.default_rng(0)
    data = HeteroData()
    data["drug"].num_nodes = data["disease"].num_nodes = 40
    every = torch.from_numpy(np.stack(np.unravel_index(rng.permutation(1600), (40, 40))))
    links, others = every[:, :100], every[:, 100:]
    data["drug", "indicated", "disease"].edge_index = torch.cat([links[:, :95], others[:, :3]], 1)
    data["disease", "cured_by", "drug"].edge_index = links[:, :92].flip(0)
    data["drug", "palliates", "disease"].edge_index = torch.cat([links[:, :30], others[:, 3:60]], 1)
    data["drug", "studied", "disease"].edge_index = torch.cat([links[:, 94:], others[:, 60:154]], 1)
    return data, links


def test_restating_relations_are_flagged() -> None:
    data, links = treats()
    graph = TypedGraph.from_data(data, [("drug", "treats", "disease")])
    found = {
        leak.edge_type[1]: leak for leak in find_leaks(graph, ("drug", "treats", "disease"), links)
    }
    assert {name: leak.kind for name, leak in found.items()} == {
        "indicated": "restates the link",
        "cured_by": "restates the link",
        "palliates": "near-label",
        "studied": "parallel",
    }
    assert found["indicated"].num_shared == 95
    assert found["indicated"].of_links == 0.95
    assert found["palliates"].of_relation == pytest.approx(30 / 87)
    out, into = torch.bincount(links[0], minlength=40), torch.bincount(links[1], minlength=40)
    pairs = data["drug", "palliates", "disease"].edge_index
    expected = float((out[pairs[0]] * into[pairs[1]]).sum()) / 100
    assert found["palliates"].lift == pytest.approx(30 / expected)
    assert "near-label" in str(found["palliates"])


def test_other_values_of_the_label_are_flagged() -> None:
    rng = np.random.default_rng(1)
    data = HeteroData()
    data["drug"].num_nodes = data["disease"].num_nodes = 12
    every = torch.from_numpy(np.stack(np.unravel_index(rng.permutation(144), (12, 12))))
    data["drug", "palliates", "disease"].edge_index = every[:, 50:100]
    data["drug", "studied", "disease"].edge_index = every[:, 35:60]
    link_type = ("drug", "treats", "disease")
    graph = TypedGraph.from_data(data, [link_type])
    leaks = {leak.edge_type[1]: leak.kind for leak in find_leaks(graph, link_type, every[:, :50])}
    assert leaks == {"palliates": "excludes the link", "studied": "parallel"}


def test_the_link_and_its_reverse_are_no_leak_and_one_type_goes_both_ways() -> None:
    pairs = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    data = HeteroData()
    data["user"].num_nodes = 6
    data["user", "knows", "user"].edge_index = pairs
    data["user", "meets", "user"].edge_index = pairs.flip(0)[:, :5]
    graph = TypedGraph.from_data(data, [("user", "knows", "user")], reverse={})
    (leak,) = find_leaks(graph, ("user", "knows", "user"), pairs)
    assert leak.edge_type[1] == "meets"
    assert leak.num_shared == 5
    assert leak.of_relation == 1


def test_scores_without_leaking_facts() -> None:
    data, links = treats()
    link_type = ("drug", "treats", "disease")
    data = message_graph(data, link_type, links[:, :0], paper_split=True)
    for edge_type in list(data.edge_types):
        if edge_type[1] != "cured_by":
            src, name, dst = edge_type
            data[dst, f"rev_{name}", src].edge_index = data[edge_type].edge_index.flip(0)
    model = make_model("sage", data, link_type, paper_split=True, hidden=8).eval()
    asked = [(int(s), int(t)) for s, t in links[:, :12].t().tolist()]
    subject = CheckedModel(model, data, link_type, asked)
    finding = check_leaks(subject, subject.explain(), links)
    assert finding.mark == "warning"
    assert "indicated" in finding.verdict
    assert "palliates" in finding.verdict
    figures = finding.figures
    assert len(figures["links_with_direct_facts"]) == 12
    graph = subject.explainer().graph
    src, dst = asked[0][0], graph.flat_index("disease", asked[0][1])
    assert direct_facts(graph, src, dst, -1).sum() == 5
    edges = {}
    for edge_type, index in data.edge_index_dict.items():
        forth = edge_type[0] == "drug"
        s, t = index if forth else index.flip(0)
        edges[edge_type] = index[:, ~((s == asked[0][0]) & (t == asked[0][1]))]
    x_dict = {t: torch.arange(40) for t in ("drug", "disease")}
    with torch.no_grad():
        by_hand = float(model(x_dict, edges, torch.tensor(asked[:1]).t()))
    assert figures["logits_without_direct_facts"][0] == pytest.approx(by_hand, abs=1e-5)
    assert figures["logits"][0] != pytest.approx(by_hand, abs=1e-5)


# Hubs, verdicts, and all together


def test_hubs_are_counted_by_hand() -> None:
    planted = plant("many", num_links=40)
    explainer = PaGELink(planted.model, planted.data, LINK_TYPE)
    graph = explainer.graph
    answers = list(explainer.explain_many(planted.pairs))
    is_hub = hubs(graph, 0.05)
    assert 0.05 * graph.num_nodes - 1 <= is_hub.sum() < 0.2 * graph.num_nodes
    assert graph.degree[is_hub].min() > graph.degree[~is_hub].max()
    finding = check_hubs(graph, answers)
    top = hubs(graph)
    inner = [graph.flat_index(*p.nodes[1]) for a in answers for p in a.paths]
    assert finding.figures["paths_through_hubs"] == sum(bool(top[v]) for v in inner)
    assert finding.figures["num_paths"] == len(inner)
    assert check_hubs(graph, []).mark == "not checked"


def test_hubs_on_most_paths_are_a_warning() -> None:
    planted = plant("many", num_links=40)
    answers = CheckedModel(planted.model, planted.data, LINK_TYPE, planted.pairs).explain()
    graph = TypedGraph.from_data(planted.data, [LINK_TYPE])
    inner = {graph.flat_index(*p.nodes[1]) for a in answers for p in a.paths}
    degree = graph.degree.copy()
    degree[list(inner)] = 1000
    finding = check_hubs(dataclasses.replace(graph, degree=degree), answers)
    assert finding.mark == "warning"
    assert "100 %" in finding.verdict


def test_every_verdict_is_counted_with_its_words() -> None:
    answers = [
        make_explanation(strong(), evidence=make_evidence(verdict))
        for verdict in (*VERDICTS, "degree_only")
    ]
    finding = check_verdicts(answers)
    assert set(finding.figures["shares"]) == set(VERDICTS)
    assert (
        "33 % degree only: what counts is how much is known about an end, not what it is "
        "connected to."
    ) in finding.details
    assert finding.mark == "warning"


def test_verdict_shares() -> None:
    planted = plant("inhibiting")
    answers = CheckedModel(planted.model, planted.data, LINK_TYPE, planted.pairs).explain()
    finding = check_verdicts(answers)
    assert finding.figures["shares"] == {
        "structure_against": pytest.approx(2 / 3), "supported": pytest.approx(1 / 3)
    }  # fmt: skip
    assert finding.mark == "warning"
    assert check_verdicts(answers[::3]).mark == "fine"


def test_shares_in_words() -> None:
    assert [percent(x) for x in (0, 0.004, 0.01, 0.256, 1)] == [
        "0 %",
        "0.4 %",
        "1 %",
        "26 %",
        "100 %",
    ]


def test_links_to_check_are_test_links_predicted_ones_first(checkpoint: Checkpoint) -> None:
    links = choose_links(checkpoint, 30, 0)
    assert len(set(links)) == 30
    assert set(links) <= {tuple(p) for p in checkpoint.split.test.t().tolist()}
    predicted = (checkpoint.score(checkpoint.split.test) >= 0).sum()
    logits = checkpoint.score(torch.tensor(links).t())
    assert int((logits >= 0).sum()) == min(30, int(predicted))
    assert links == choose_links(checkpoint, 30, 0)
    assert links != choose_links(checkpoint, 30, 1)


def test_no_links_are_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(SettingsError, match="num_links"):
        check(checkpoint, num_links=0)


def test_the_command_says_it_in_words_and_figures(checkpoint: Checkpoint, tmp_path: Path) -> None:
    made = generate_useritemattr(seed=0)
    made.data[made.link_type].edge_index = made.likes
    save_graph(made.data, tmp_path / "graph")
    data = load_graph(tmp_path / "graph")
    split = LinkSplit(*(getattr(checkpoint.split, p) for p in ("train", "valid", "test")))
    model = make_model("sage", data, made.link_type, hidden=8)
    settings = TrainSettings(epochs=2, max_candidates=50)
    report = train(model, data, made.link_type, split, settings)
    save_checkpoint(tmp_path / "model.pt", model, data, made.link_type, split, report, settings)
    arguments = [
        "check", str(tmp_path / "graph"), "--model", str(tmp_path / "model.pt"), "--links", "10",
        "--json", str(tmp_path / "out.json"), "--no-retrain",
    ]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    for title in TITLES.values():
        assert title in done.stdout
    assert "of 5 checks are fine" in done.stdout
    assert "as requested" in done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    assert [f["name"] for f in found["findings"]] == list(TITLES)
    assert found["num_links"] == 10


def test_the_summary_names_what_to_look_at(checkpoint: Checkpoint) -> None:
    planted = plant("inhibiting")
    answers = CheckedModel(planted.model, planted.data, LINK_TYPE, planted.pairs).explain()
    graph = TypedGraph.from_data(planted.data, [LINK_TYPE])
    report = CheckReport(LINK_TYPE, 48, 0, (check_verdicts(answers), check_hubs(graph, [])))
    assert report.summary == (
        "0 of 2 checks are fine. To look at: does the model rely on paths. Not checked: do paths "
        "run through hubs."
    )
    assert "[warning]" in str(report)
