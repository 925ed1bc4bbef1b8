from __future__ import annotations

import copy
import dataclasses
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from pagelink.bench.speed.bare import BarePasses, hooked
from pagelink.bench.speed.bench import ROWS, run, run_and_print
from pagelink.bench.speed.figures import (
    Figure,
    Goal,
    Sample,
    cpu,
    fit_line,
    interleaved,
    mean_of_slowest,
    median_ratio,
    plot,
    torch_threads,
    wall,
)
from pagelink.bench.speed.graphs import (
    CHAIN,
    LIKES,
    HeteroSAGE,
    explain_whole_graph,
    growing_graph,
    ladder_graph,
    random_graph,
)
from pagelink.bench.speed.report import as_dict, as_table
from pagelink.bench.speed.rows import FULL, MOVIELENS, QUICK, USERITEMATTR, load_workload
from pagelink.bench.speed.spared import ALL, NEEDED
from pagelink.errors import SettingsError
from pagelink.explain.explainer import PaGELink
from pagelink.settings import Settings

pytestmark = pytest.mark.slow  # the rows of all tests are measured in processes of their own


@pytest.fixture(scope="module")
def figures() -> list[Figure]:
    """All rows in their tiny versions; what the process holds is as it was."""
    threads, torch_state = torch.get_num_threads(), torch.random.get_rng_state()
    numpy_state = np.random.get_state()
    found = list(run(QUICK, seed=1))
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state[1])
    return found


def of(figures: list[Figure], row: str) -> list[Figure]:
    return [figure for figure in figures if figure.row == row]


def test_every_row_has_figures_with_samples(figures: list[Figure]) -> None:
    assert list(dict.fromkeys(figure.row for figure in figures)) == list(ROWS)
    for figure in figures:
        assert np.isfinite(figure.value)
        assert figure.how
        assert figure.threads == 1
        assert all(len(values) for values in figure.samples.values())
        assert figure.goal is None, "a tiny graph reaches no goal"


def test_the_paper_row_is_the_median_of_its_rounds(figures: list[Figure]) -> None:
    paper, times, *_ = of(figures, "useritemattr")
    assert paper.value == np.median(paper.samples["cpu_ms"])
    assert times.value == pytest.approx(640 / paper.value)


def test_spared_rows_are_ratios_alone_and_in_batches(figures: list[Figure]) -> None:
    rows = of(figures, "rows")
    assert len(rows) == 4  # two graphs
    for figure in rows:
        above, below = (figure.samples[f"{name}, cpu_s"] for name in (ALL, NEEDED))
        ratios = [one / other for one, other in zip(above, below, strict=True)]
        assert figure.value == pytest.approx(np.median(ratios))


def test_overhead_is_the_ratio_of_the_samples(figures: list[Figure]) -> None:
    rows = of(figures, "overhead")
    assert len(rows) == 6
    for figure, other in zip(rows, ["pagelink's pass", "plain PyG pass"] * 3, strict=True):
        samples = figure.samples
        ratios = np.divide(samples["explained, cpu_s"], samples[f"{other}, cpu_s"])
        assert figure.value == pytest.approx(np.median(ratios))


def test_the_rival_is_compared_both_ways(figures: list[Figure]) -> None:
    rows = of(figures, "gnnexplainer")
    assert len(rows) == 2 * len(QUICK.rival_epochs)
    for figure, way in zip(rows, ["in batches", "one by one"] * 2, strict=True):
        ratio = figure.samples["gnnexplainer, cpu_s"][0] / figure.samples[f"{way}, cpu_s"][0]
        assert figure.value == pytest.approx(ratio)


def test_relations_and_attention_are_ratios_within_a_round(figures: list[Figure]) -> None:
    few, many = "4 relations", f"{QUICK.relations} relations"
    compared = [(figure, many, few) for figure in of(figures, "relations")]
    kinds = ("HGT", "GATConv", "TransformerConv")
    compared += zip(of(figures, "attention"), kinds, ["RGCN"] * 3, strict=True)
    assert len(compared) == 6
    for figure, above, below in compared:
        samples = (figure.samples[f"{name}, cpu_s"] for name in (above, below))
        assert figure.value == median_ratio(*samples)
    links = of(figures, "rgcnconv")[0].samples["cpu_s"]
    assert [f.value for f in of(figures, "rgcnconv")[:2]] == [np.median(links), max(links)]


def test_a_hub_is_compared_with_a_smaller_one_within_a_round(figures: list[Figure]) -> None:
    (figure,) = of(figures, "hub")
    few, many = (figure.samples[f"{facts} facts, cpu_s"] for facts in QUICK.hub_facts)
    assert figure.value == median_ratio(many, few)


def test_growth_is_the_slowest_size_over_the_fastest(figures: list[Figure]) -> None:
    for figure in of(figures, "growth"):
        best = [min(values) for values in figure.samples.values()]
        assert len(best) == len(QUICK.growth_edges)
        assert figure.value == pytest.approx(max(best) / min(best))


def test_the_line_is_that_of_the_samples(figures: list[Figure]) -> None:
    for figure, edges in zip(
        of(figures, "linear"), (QUICK.paper_range, QUICK.large_range), strict=True
    ):
        assert figure.samples["edges"] == list(edges)
        line = fit_line(figure.samples["edges"], figure.samples["cpu_s"])
        assert (figure.value, figure.samples["slope"]) == (line.r2, [line.slope])


def test_setup_is_compared_within_a_run(figures: list[Figure]) -> None:
    *_, fewest, most, ratio = of(figures, "setup")
    assert fewest.what == "an explainer: layers 2, relations 3, link types 1"
    assert most.what == "an explainer: layers 2, relations 3, link types 3"
    assert ratio.what == "most link types over fewest"
    assert ratio.value == pytest.approx(most.value / fewest.value)


def test_slowest_is_taken_from_the_links_of_the_real_row(figures: list[Figure]) -> None:
    (slowest,) = of(figures, "slowest")
    median, p99 = of(figures, "real")[:2]
    assert slowest.samples["cpu_s"] == median.samples["cpu_s"]
    assert slowest.value == pytest.approx(max(median.samples["cpu_s"]) / median.value)
    assert p99.value >= median.value


def test_fresh_processes_say_what_they_took(figures: list[Figure]) -> None:
    peak, growth = of(figures, "memory")
    few, many = (peak.samples[f"{count} links, peak"][0] for count in QUICK.memory_links)
    assert peak.value == many / 1e9
    assert growth.value == many / few
    (first,) = of(figures, "first")
    stages = ["imported, cpu_s", "loaded, cpu_s", "explainer made, cpu_s", "cpu_s"]
    assert sorted(stages, key=lambda stage: first.samples[stage]) == stages
    (cold,) = of(figures, "cold")
    ((with_none, with_all),) = zip(*cold.samples.values(), strict=True)
    assert cold.value == with_none - with_all
    own, whole, *_ = of(figures, "import")
    assert 0 < own.value < whole.value
    once, again = of(figures, "command")
    assert min(once.value, again.value) > 0


def test_data_that_are_not_there_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PAGELINK_DATA", str(tmp_path))
    rows = [
        "useritemattr",
        "overhead",
        "rows",
        "rgcnconv",
        "real",
        "slowest",
        "memory",
        "first",
        "cold",
        "command",
    ]
    found = list(run(FULL, only=rows))
    assert list(dict.fromkeys(figure.row for figure in found)) == rows
    assert len(found) == 1 + 3 + 2 + 1 + 2 + 1 + 1 + 2 + 1 + 1
    assert all(str(tmp_path) in figure.missing and figure.reached is None for figure in found)
    assert as_table(found).count("not measured") == len(found)
    assert as_dict(found, quick=False, seed=0)["figures"][0]["value"] is None


def test_an_unknown_row_is_refused() -> None:
    with pytest.raises(SettingsError, match="Did you mean"):
        next(run(QUICK, only=["growht"]))


def test_a_line_through_hand_made_samples() -> None:
    # Means 2 and 4; sums of squares and products about them: 2, 14 and 5.
    line = fit_line([1.0, 2.0, 3.0], [2.0, 3.0, 7.0])
    assert (line.slope, line.intercept) == pytest.approx((2.5, -1.0))
    assert line.r2 == pytest.approx(12.5 / 14)


def test_summaries_of_hand_made_samples() -> None:
    samples = [Sample(cpu=2.0, wall=4.0), Sample(cpu=6.0, wall=10.0)]
    assert (cpu(samples, per=2), wall(samples, per=2)) == ([1.0, 3.0], [2.0, 5.0])
    assert median_ratio([2.0, 9.0, 8.0], [1.0, 3.0, 1.0]) == 3.0
    assert mean_of_slowest([*range(1, 201)], share=0.01) == 199.5
    assert Goal(2.0).reached_by(2.0)
    assert not Goal(2.0, "at least").reached_by(1.9)


def test_pieces_of_work_take_turns() -> None:
    order: list[str] = []
    rounds = interleaved({name: lambda name=name: order.append(name) for name in "ab"}, 2)
    assert order == ["a", "b", "a", "b"]
    assert {name: len(samples) for name, samples in rounds.items()} == {"a": 2, "b": 2}


def test_threads_are_given_back_after_an_error() -> None:
    before = torch.get_num_threads()

    def fail() -> None:
        with torch_threads(2):
            assert torch.get_num_threads() == 2
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fail()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("name", [USERITEMATTR, MOVIELENS])
def test_both_bare_passes_run_the_same_model(name: str) -> None:
    workload = load_workload(name, seed=0, tiny=True)
    state = copy.deepcopy(workload.model.state_dict())
    flags = [parameter.requires_grad for parameter in workload.model.parameters()]
    explainer = workload.explainer(Settings(patience=None, measure=False), seed=0)
    bare = BarePasses(explainer, workload.links(3))
    assert "weighted" not in vars(explainer.predictor)
    assert [recorded.edge_label_index.shape[1] for recorded, _ in bare.batches] == [3]
    for (recorded, num_masked), (plain_input, _) in zip(
        bare.batches, bare.plain_batches, strict=True
    ):
        results = []
        for context in (
            explainer.predictor.weighted(recorded), hooked(workload.model, plain_input)
        ):  # fmt: skip
            generator = torch.Generator().manual_seed(0)
            mask = torch.rand(num_masked, generator=generator).requires_grad_()
            with context as run_model:
                logits = run_model(mask)
            results.append((logits.detach(), torch.autograd.grad(logits.sum(), mask)[0]))
        for ours, plain in zip(*results, strict=True):
            torch.testing.assert_close(ours, plain)
        assert bool((results[0][1] != 0).any())
    bare.as_pagelink(2)
    bare.as_plain_pyg(2)
    assert all(torch.equal(state[k], v) for k, v in workload.model.state_dict().items())
    assert flags == [parameter.requires_grad for parameter in workload.model.parameters()]
    assert not any(module._message_forward_hooks for module in workload.model.modules()
                   if hasattr(module, "_message_forward_hooks"))  # fmt: skip
    assert all(parameter.grad is None for parameter in workload.model.parameters())


def test_links_come_again_where_there_are_too_few() -> None:
    workload = load_workload(MOVIELENS, seed=0, tiny=True)
    count = len(workload.pairs)
    assert len(set(workload.pairs)) == count
    assert workload.links(count + 2) == [*workload.pairs, *workload.pairs[:2]]
    assert load_workload(MOVIELENS, seed=3, tiny=True).pairs != workload.pairs


@pytest.mark.parametrize("far", [False, True])
def test_the_rest_of_the_graph_changes_no_explanation(far: bool) -> None:
    answers = []
    for total in (400, 4_000):
        graph = growing_graph(100, total, far, num_features=4, links=2, seed=0)
        assert graph.data.num_edges == total + (4 * (CHAIN + 1) if far else 0)
        model = HeteroSAGE(graph.data, hidden=4, seed=0)
        explainer = PaGELink(model, graph.data, LIKES, threshold=None)
        answers.append([(e.logit, [p.nodes for p in e.paths])
                        for e in explainer.explain_many(graph.links)])  # fmt: skip
    for small, large in zip(*answers, strict=True):
        assert small[0] == pytest.approx(large[0], abs=1e-5)
        assert small[1] == large[1] != []


def test_a_part_of_the_ladder_is_the_computation_graph_of_its_link() -> None:
    graph = ladder_graph((20, 100), num_features=4, seed=0)
    assert graph.data.num_edges == 120
    assert len(graph.links) == 2


def test_the_rival_leaves_the_model_as_it_was() -> None:
    graph = random_graph(nodes=50, edges=200, num_features=4, links=1, seed=0)
    assert len(graph.data.edge_types) == 5
    assert graph.data.num_edges == 200
    model = HeteroSAGE(graph.data, hidden=4, seed=0)
    before, state = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    explain_whole_graph(model, graph, epochs=2, seed=0)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_table_says_what_was_reached() -> None:
    figure = Figure("real", "a link", 0.25, "s", 0.125, 2, Goal(0.5), "once", {"cpu_s": [0.25]})
    slow = dataclasses.replace(figure, value=0.75)
    plain = dataclasses.replace(figure, goal=None, threads=1)
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in as_table([figure, slow, plain]).splitlines()[2:]
    ]
    assert rows == [
        ["real", "a link", "2", "0.25 s", "0.125 s", "0.5 s or less", "ok"],
        ["real", "a link", "2", "0.75 s", "0.125 s", "0.5 s or less", "not reached"],
        ["real", "a link", "1", "0.25 s", "-", "-", ""],
    ]


def test_the_plot_puts_points_and_line_where_they_belong() -> None:
    samples = {"edges": [0, 500, 1000], "cpu_s": [0.01, 0.02, 0.03], "slope": [2e-5],
               "intercept": [0.01], "hidden": [8]}  # fmt: skip
    figure = Figure("linear", "R²", 1.0, "R²", samples=samples)
    root = ET.fromstring(plot([figure, figure]))
    space = "{http://www.w3.org/2000/svg}"
    circles = [
        (float(c.get("cx", "")), float(c.get("cy", ""))) for c in root.iter(f"{space}circle")
    ]
    assert len(circles) == 6
    (x0, y0), (x1, y1), (x2, y2) = circles[:3]
    assert (x1, y1) == pytest.approx(((x0 + x2) / 2, (y0 + y2) / 2), abs=0.2)
    assert y2 < y0
    fits = [p.get("d") for p in root.iter(f"{space}path") if p.get("class") == "fit"]
    assert fits[0] == f"M{x0} {y0}L{x2} {y2}"
    assert "prefers-color-scheme: dark" in plot([figure])


def test_the_command_writes_what_it_prints(tmp_path: Path) -> None:
    console = Console(record=True, width=200)
    found = run_and_print(tmp_path, quick=True, only=["linear"], seed=0, console=console)
    printed = console.export_text()
    assert as_table(found) in printed
    assert "say nothing about speed" in printed
    result = json.loads((tmp_path / "speed.json").read_text("utf-8"))
    assert result["quick"] is True
    assert {"seed", "date", "versions", "cpu_count"} <= result.keys()
    assert [entry["value"] for entry in result["figures"]] == [figure.value for figure in found]
    assert result["figures"][0]["samples"]["edges"] == list(QUICK.paper_range)
    ET.fromstring((tmp_path / "speed.svg").read_text("utf-8"))


def test_threads_can_be_chosen(tmp_path: Path) -> None:
    found = run_and_print(tmp_path, True, ["useritemattr"], 0, Console(quiet=True), [2])
    assert {figure.threads for figure in found} == {2}
