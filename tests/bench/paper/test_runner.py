"""The paper's benchmark, in its quick form: what the run files say, resuming, reports, docs."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from pagelink.bench import answers as bench_answers
from pagelink.bench import docs as paper_docs
from pagelink.bench.faithfulness.judges import EditedGraph, RewiredModel
from pagelink.bench.measures import EFFECT
from pagelink.bench.paper import connection as paper_connection
from pagelink.bench.paper.explainers import INTERVALS, intervals
from pagelink.bench.paper.plan import PER_LINK, Dataset, Plan, datasets
from pagelink.bench.paper.report import Plot, Series, draw
from pagelink.bench.paper.runner import (
    PARTS,
    compare_and_print,
    run_and_print,
    write_report,
)
from pagelink.bench.paper.tables import PUBLISHED
from pagelink.bench.runs import Run, RunStore, check_names
from pagelink.bench.speed.bare import extract
from pagelink.bench.subjects import _tiny, load_subject
from pagelink.cli.main import app
from pagelink.errors import PageLinkError, SettingsError
from pagelink.graph.lookup import triple_of
from pagelink.metrics import mask_auc
from pagelink.models.checkpoint import load_checkpoint
from pagelink.models.link_model import node_inputs
from pagelink.rivals.ground import Ground, facts_of
from pagelink.rivals.registry import RIVALS

ROOT = Path(__file__).parents[3]
MINE = ("explainers", "connection")


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("paper")
    run_and_print(out, MINE, quiet(), quick=True)
    return out


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    (only,) = datasets(Plan(folder / "models", seeds=2, quick=True))
    return only


def figures(folder: Path, part: str, name: str) -> dict[str, object]:
    run = RunStore(folder / "runs").find(part, f"tiny-rgcn, {name}")
    assert run is not None
    return run.figures


def test_explainers_that_are_left_out_have_no_run(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "models", tmp_path / "models")
    left = tuple(name for name in RIVALS if name not in ("gradient", "degree"))
    run_and_print(tmp_path, MINE, quiet(), quick=True, without=left)
    for part, rows in (("explainers", {"gradient", "degree"}), ("connection", {"gradient"})):
        runs = RunStore(tmp_path / "runs").all(part)
        named = {str(run.key["row"]).split(",")[0] for run in runs if "seed" in run.key}
        assert named == rows


def test_every_explainer_and_seed_has_a_run_with_its_settings(folder: Path) -> None:
    runs = list(RunStore(folder / "runs").all("explainers"))
    found = {(run.figures["row"], run.key.get("seed")) for run in runs}
    for name in RIVALS:
        seeds = [0] if name in bench_answers.WITHOUT_CHANCE else [0, 1]
        assert {(name, seed) for seed in seeds} <= found
    learned = next(run for run in runs if run.figures["row"] == "gnnexp")
    assert learned.key["options"]["epochs"] == bench_answers.QUICK_OPTIONS["gnnexp"]["epochs"]
    assert learned.key["settings"]["max_length"] == 3
    few = next(run for run in runs if run.figures["row"] == "subgraphx")
    assert few.figures["links"] == 2
    assert few.figures["cpu"] > 0


def test_what_was_done_is_not_done_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file: file.read_text() for file in (folder / "runs").rglob("*.json")}
    lost = folder / "runs" / "explainers" / "tiny-rgcn-degree-seed-0.json"
    lost.unlink()
    asked: list[str] = []
    really = bench_answers.ask

    def counted(subject: object, name: str, *rest: object, **more: object) -> object:
        asked.append(name)
        return really(subject, name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("pagelink.bench.paper.explainers.ask", counted)
    run_and_print(folder, ["explainers"], quiet(), quick=True)
    assert asked == ["degree"]
    again = json.loads(lost.read_text())["figures"]
    first = json.loads(before[lost])["figures"]
    assert again[PER_LINK] == first[PER_LINK]


def ask(dataset: Dataset, name: str, seed: int) -> bench_answers.Answer:
    settings = bench_answers.settings_of(name)
    return bench_answers.ask(dataset.subject, name, settings, seed, quick=True)


def test_effects_are_those_of_graphs_edited_the_plain_way(folder: Path, dataset: Dataset) -> None:
    subject, graph = dataset.subject, dataset.explainer.graph
    answer = ask(dataset, "degree", 0)
    plain = RewiredModel(subject.model, node_inputs(subject.data), graph, 2)
    src, _, dst = subject.link_type
    sets = [facts_of(paths) for paths in answer.paths[3]]
    logits = []
    for removed in ([[] for _ in sets], sets):
        logits.append(plain.logits([
            EditedGraph(graph.flat_index(src, s), graph.flat_index(dst, t), frozenset(gone))
            for (s, t), gone in zip(subject.pairs, removed, strict=True)
        ]))  # fmt: skip
    stored = figures(folder, "explainers", "degree, seed 0")
    assert stored[PER_LINK][EFFECT] == pytest.approx(logits[0] - logits[1], abs=1e-4)  # type: ignore[index]


def test_masks_are_scored_against_the_labelled_edges(folder: Path, dataset: Dataset) -> None:
    subject, graph = dataset.subject, dataset.explainer.graph
    assert subject.labels is not None
    aucs, near = [], []
    for pair, explanation in zip(subject.pairs, ask(dataset, "paper", 1).explanations, strict=True):
        batch = extract(dataset.explainer, pair)
        steps = {step for path in subject.labels[pair] for step in path}
        positive = [triple_of(graph, int(edge)) in steps for edge in batch.edges]
        mask = [
            explanation.edge_mask[graph.edge_types[graph.relation[edge]]][graph.column[edge]]
            for edge in batch.edges
        ]
        aucs.append(mask_auc(mask, positive))
        # Two layers: edges into nodes within one hop can move the score.
        near.append(mask_auc((batch.hops[batch.dst] < 2).astype(float), positive))
    stored = figures(folder, "explainers", "paper, seed 1")
    assert stored["auc"] == pytest.approx(np.mean(aucs), abs=1e-5)
    assert 0.5 < stored["auc"] < 1  # type: ignore[operator]
    visible = figures(folder, "explainers", "visible edges alone")
    assert visible["auc"] == pytest.approx(np.mean(near), abs=1e-5)


def test_intervals_are_paired_and_over_the_means_of_seeds() -> None:
    def run(effects: list[float]) -> Run:
        return Run("x", "x", {}, {PER_LINK: {EFFECT: effects}}, 0, 0, {}, "", "")

    bound = {PER_LINK: {EFFECT: [2.0, 2.0, 4.0, 8.0]}}
    runs = {
        "pagelink": [run([1.0, 2.0, 3.0, 4.0]), run([1.0, 2.0, 3.0, 6.0])],
        "degree": [run([0.5, 1.0, 1.0, 2.0])],
        "subgraphx": [run([0.5, 1.5])],
    }
    rows = intervals(runs, bound)["rows"]
    assert rows["pagelink"]["share"][0] == pytest.approx(11 / 16)
    assert rows["pagelink"]["minus default"] == [0.0, 0.0, 0.0]
    value, low, high = rows["degree"]["minus default"]
    assert value == pytest.approx(-6.5 / 16)
    assert low < value < high < 0
    assert rows["subgraphx"]["links"] == 2
    assert rows["subgraphx"]["minus default"][0] == pytest.approx(-1 / 4)


def test_the_greedy_search_of_free_facts_by_hand(dataset: Dataset) -> None:
    ground: Ground = dataset.grounds[0]
    one, two = (paper_connection.free_greedy(ground, [n] * ground.num_links) for n in (1, 2))
    graph = ground.explainer.graph
    for link in range(ground.num_links):
        first, last = ground.batch.edge_ptr[link : link + 2]
        seen = ground.whole[first:last]
        facts = np.unique(graph.fact[ground.batch.edges[first:last][seen]]).tolist()
        alone = ground.effects([link] * len(facts), [[fact] for fact in facts])
        assert one[link] == pytest.approx(alone.max(), abs=1e-5)
        best, *others = np.argsort(-alone, kind="stable")[: paper_connection.KEPT + 1].tolist()
        pairs = [[facts[best], facts[other]] for other in others]
        after = ground.effects([link] * len(pairs), pairs)
        assert two[link] == pytest.approx(max(alone.max(), after.max()), abs=1e-5)
    assert (two > one + 1e-3).any()


def test_the_price_of_connection_is_at_equal_numbers_of_facts(folder: Path) -> None:
    for name in ("greedy search", "gnnexp", "random-mask"):
        row = figures(folder, "connection", name)
        each = row[PER_LINK]
        bound = figures(folder, "connection", "greedy search")[PER_LINK]["paths"]  # type: ignore[index]
        price = (np.array(each["free"]) - np.array(each["paths"])).sum() / sum(bound)  # type: ignore[index]
        assert row["price"][0] == pytest.approx(price, abs=1e-4)  # type: ignore[index]
    assert figures(folder, "connection", "greedy search")["price"][0] >= -1e-6  # type: ignore[index]


def test_reports_come_from_the_run_files_alone(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "runs", tmp_path / "runs")
    write_report(tmp_path, tmp_path / "a")
    text = (tmp_path / "a" / "benchmark.md").read_text()
    page = (tmp_path / "a" / "benchmark.html").read_text()
    assert "| paper: PGExp-Link" in text
    assert "degree (no model)" in text
    assert "visible edges alone" in text
    assert text == (folder / "benchmark.md").read_text()
    assert page.count("<svg") == 3
    assert "://" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PageLinkError, match="no benchmark runs"):
        write_report(tmp_path / "empty", tmp_path / "b")


def test_published_results_hold_no_single_links_and_give_the_same_tables(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    marked = "# B\n\n<!-- benchmark:explainers -->\nold\n<!-- /benchmark:explainers -->\nend\n"
    (tmp_path / "docs" / "benchmark.md").write_text(marked)
    assert paper_docs.publish(folder, tmp_path) < 200_000
    stored = list((tmp_path / "docs" / "results").rglob("*.json"))
    assert stored
    assert all(PER_LINK not in json.loads(file.read_text())["figures"] for file in stored)
    assert [file.name for file in paper_docs.write_docs(tmp_path)] == ["benchmark.md"]
    assert paper_docs.write_docs(tmp_path) == []
    text = (tmp_path / "docs" / "benchmark.md").read_text()
    assert text.startswith("# B\n")
    assert text.endswith("<!-- /benchmark:explainers -->\nend\n")
    table = (folder / "benchmark.md").read_text().split("\n\n|")[1].split("\n\n")[0]
    assert table in text
    with pytest.raises(PageLinkError, match="means nothing"):
        paper_docs.filled(marked.replace("explainers", "nothing"), RunStore(tmp_path))


@pytest.mark.parametrize("name", paper_docs.FILES, ids=str)
def test_the_docs_agree_with_the_committed_results(name: Path) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- benchmark:" in text
    made = paper_docs.filled(text, RunStore(ROOT / paper_docs.RESULTS))
    assert made == text, f"{name} is out of date: run `pagelink bench docs`"


def test_committed_results_are_small() -> None:
    files = list((ROOT / paper_docs.RESULTS).rglob("*.json"))
    assert files
    assert sum(file.stat().st_size for file in files) < paper_docs.MOST_BYTES


def test_a_model_of_ones_own(folder: Path, tmp_path: Path) -> None:
    file = folder / "models" / "tiny-rgcn-seed0.pt"
    console = quiet()
    compare_and_print(
        load_checkpoint(file, _tiny(0)[0]), file, ("pagelink", "degree"), tmp_path, console,
        links=3, seeds=1, seed=0,
    )  # fmt: skip
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "against the model" in said
    assert "against the labels" not in said
    runs = list(RunStore(tmp_path / "runs").all("compare"))
    assert {run.figures["row"] for run in runs} == {
        "pagelink", "degree", "greedy search", INTERVALS,
    }  # fmt: skip
    assert all("auc" not in run.figures for run in runs)
    with pytest.raises(SettingsError, match="Did you mean 'degree'"):
        check_names("explainer", ["degre"], RIVALS)


def test_a_model_of_ones_own_with_labels(folder: Path, tmp_path: Path) -> None:
    file, (data, _, labels) = folder / "models" / "tiny-rgcn-seed0.pt", _tiny(0)
    console = quiet()
    compare_and_print(
        load_checkpoint(file, data), file, ("degree",), tmp_path, console,
        links=3, seeds=1, seed=0, labels=labels,
    )  # fmt: skip
    assert "against the labels" in console.file.getvalue()  # type: ignore[attr-defined]
    runs = {run.figures["row"]: run for run in RunStore(tmp_path / "runs").all("compare")}
    assert runs["degree"].figures["label@3"] > 0


def test_a_run_on_an_aminer_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = []
    for number in range(90):
        cited = rng.choice(number, size=1, replace=False).tolist() if number else []
        authors = [{"name": f"a{a}", "id": f"a{a}"} for a in rng.choice(50, 2, replace=False)]
        lines.append(json.dumps({
            "id": f"p{number}", "title": f"paper {number}", "authors": authors,
            "references": [f"p{c}" for c in cited], "fos": [{"name": f"f{number // 3}", "w": 0.5}],
        }))  # fmt: skip
    source = tmp_path / "aminer.txt"
    source.write_text("\n".join(lines))
    subject = load_subject("aminer-rgcn", 5, 0, tmp_path / "models", source)
    assert subject.link_type == ("author", "likes", "paper")
    assert 1 <= len(subject.pairs) <= 5
    assert subject.labels is not None
    assert all(subject.labels[pair] for pair in subject.pairs)
    plan = Plan(tmp_path / "models", aminer=source)
    assert datasets(plan)[-1].key["source"] == "aminer.txt"
    assert datasets(plan)[-1].subject.pairs == load_subject(
        "aminer-rgcn", 200, 0, tmp_path / "models", source
    ).pairs  # fmt: skip
    with pytest.raises(SettingsError, match="needs the citation graph"):
        load_subject("aminer-rgcn", 5, 0, tmp_path / "models")


def test_the_command_line(folder: Path, tmp_path: Path) -> None:
    def bench(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["bench", *arguments])

    done = bench("report", str(folder), "--out", str(tmp_path))
    assert done.exit_code == 0
    assert (tmp_path / "benchmark.html").read_text() == (folder / "benchmark.html").read_text()
    assert "the price of connection" in done.output
    again = bench("paper", "--quick", "--out", str(folder), *(f"--part={name}" for name in MINE))
    assert again.exit_code == 0
    assert "these figures say nothing" in again.output
    assert isinstance(bench("paper", "--part", "nothing").exception, SettingsError)
    missing = bench("paper", "--aminer", str(tmp_path / "none.txt"))
    assert "there is no such file" in str(missing.exception)


def test_parts_are_checked_by_name() -> None:
    assert check_names("part", [], PARTS) == tuple(PARTS)
    assert check_names("part", ["connection"], PARTS) == ("connection",)
    with pytest.raises(SettingsError, match="Did you mean 'explainers'"):
        check_names("part", ["explainer"], PARTS)


def test_the_figures_of_the_paper() -> None:
    both = [PUBLISHED["UserItemAttr"], PUBLISHED["AugCitation"]]
    assert [[row["auc"] for row in rows.values()] for rows in both] == [
        [0.954, 0.608, 0.578], [0.928, 0.829, 0.586],
    ]  # fmt: skip


def test_plots_are_drawn_to_scale_and_escaped() -> None:
    bars = draw(Plot("a < b", "", "y", bars=(("one", -0.5, -0.5, -0.5), ("two", 1.0, 0.5, 1.0))))
    assert "a &lt; b" in bars
    widths = [float(part.split('"')[0]) for part in bars.split('width="')[3:]]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    lines = draw(Plot(
        "t", "n", "y", (Series("s", (1, 10, 100), (0.0, 0.5, float("nan")), (0, 0.4, 0),
                               (0, 0.6, 0)),), log_x=True,
    ))  # fmt: skip
    assert lines.count("<circle") == 2
    assert 'cx="315.0"' in lines  # ten is half way from one to a hundred
