"""Tables of links: rows, bad rows, interruption by SIGKILL, and the whole way from the shell."""

from __future__ import annotations

import csv
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from support.shell import shell

from pagelink import PaGELink, Settings
from pagelink.cli.link_tables import SOME_FAILED
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.engine import Sent, Summary
from pagelink.engine import explain_table as explain_opened
from pagelink.engine.parts import claimed
from pagelink.errors import BusyError, EngineError, GraphError, SettingsError
from pagelink.explain.options import ExplainOptions
from pagelink.models.architectures import RGCN
from pagelink.models.checkpoint import load_checkpoint
from pagelink.tables.link_tables import read_links
from pagelink.tables.load import load_graph, save_graph

LINK_TYPE = ("user", "likes", "item")
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def explain_table(explainer: PaGELink, links: Path, out: Path, **options: Any) -> Summary:
    return explain_opened(Sent(explainer), links, out, **options)


@pytest.fixture(scope="module")
def explainer() -> PaGELink:
    dataset = generate_useritemattr()
    model = RGCN.for_data(dataset.data, LINK_TYPE)
    return PaGELink(model, dataset.data, LINK_TYPE, Settings(epochs=3), threshold=None)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, a trained model and a table of links."""
    folder = tmp_path_factory.mktemp("shop")
    dataset = generate_useritemattr()
    data = dataset.data
    data["user", "likes", "item"].edge_index = dataset.likes
    data["item"].name = [*data["item"].name[:-2], 'Soap, "blue"', "<script>alert(1)</script>"]
    save_graph(data, folder / "graph")
    done = shell(
        "train", "graph", "--link", "user,likes,item", "--epochs", "3", "--out", "model.pt",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ROC-AUC" in done.stdout
    rows = [("src", "dst")] + [(f"User {u}", f"Item {i}") for u, i in dataset.likes.T[:60].tolist()]
    with (folder / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder


def test_bad_rows_cost_only_themselves(explainer: PaGELink, tmp_path: Path) -> None:
    table = tmp_path / "links.csv"
    table.write_bytes(
        b"\xef\xbb\xbfsrc,dst,link_type\r\nUser 1,Item 2,\r\nUser 1\r\nNobody,Item 2,\r\n"
        b'"User 3","Item\n4",\r\n\r\nUser 5,Item 6,hates\r\nid:7,id:8,likes\r\nUser 9,User 9,\r\n'
    )
    out = tmp_path / "out.jsonl"
    result = explain_table(explainer, table, out)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    by_line: dict[int, Any] = {row["line"]: row for row in reversed(rows)}
    assert sorted(by_line) == [2, 3, 4, 6, 8, 9, 10]
    assert {line for line, row in by_line.items() if row["reason"] == "invalid"} == {3, 4, 6, 8, 10}
    assert "There is no user called 'Nobody'" in by_line[4]["message"]
    assert "'hates' is not a link type" in by_line[8]["message"]
    assert by_line[9]["src_index"] == 7
    assert result.reasons["invalid"] == 5
    assert any(message.startswith("line 4: ") for message in result.invalid)
    assert list(tmp_path.iterdir()) == [out, table] or set(tmp_path.iterdir()) == {out, table}


def test_rows_say_what_the_explanations_say(explainer: PaGELink, tmp_path: Path) -> None:
    table = tmp_path / "links.tsv"
    table.write_text("dst\tsrc\nItem 2\tUser 1\nItem 3\tUser 1\n")
    explanations = [explainer.explain(1, 2), explainer.explain(1, 3)]
    tables = {}
    for ending in ("parquet", "csv", "tsv", "jsonl"):
        out = tmp_path / f"out.{ending}"
        explain_table(explainer, table, out)
        tables[ending] = out
    rows = pa.parquet.read_table(tables["parquet"]).to_pylist()
    paths = [path for explanation in explanations for path in explanation.paths]
    assert [row["score"] for row in rows] == pytest.approx([path.score for path in paths], abs=1e-4)
    assert [tuple(row["node_names"]) for row in rows] == [path.names for path in paths]
    numbers = [number + 1 for each in explanations for number in range(len(each.paths))]
    assert [row["path"] for row in rows] == numbers
    assert max(numbers) > 1
    with tables["csv"].open(newline="") as file:
        flat = list(csv.DictReader(file))
    assert [json.loads(row["node_names"]) for row in flat] == [row["node_names"] for row in rows]
    assert len(tables["tsv"].read_text().splitlines()) == len(rows) + 1
    lines = [json.loads(line) for line in tables["jsonl"].read_text("utf-8").splitlines()]
    assert [line["text"] for line in lines] == [row["text"] for row in rows]


def test_parquet_and_its_faults(tmp_path: Path) -> None:
    good, bad, wrong = (tmp_path / f"{name}.parquet" for name in ("good", "bad", "wrong"))
    pa.parquet.write_table(pa.table({"SRC": [1, None], "dst": ["a", "b"]}), good)
    assert [(row.line, row.link) for row in read_links(good)] == [(1, ("1", "a")), (2, ("", "b"))]
    bad.write_bytes(b"PAR1 nothing")
    pa.parquet.write_table(pa.table({"head": [1]}), wrong)
    empty, latin, odd = tmp_path / "empty.csv", tmp_path / "latin.csv", tmp_path / "links.xlsx"
    empty.write_text("")
    latin.write_bytes("src,dst\nJosé,b\n".encode("latin-1"))
    odd.write_text("src,dst\n")
    for path, words in (
        (bad, "cannot be read as Parquet"), (wrong, "src and dst missing, found head"),
        (empty, "the file is empty"), (latin, "not UTF-8"), (odd, "ends in .csv"),
        (tmp_path / "none.csv", "no such file"),
    ):  # fmt: skip
        with pytest.raises(GraphError, match=words) as caught:
            read_links(path)
        assert path.name in str(caught.value)


def test_a_job_of_other_settings_is_not_taken_up(explainer: PaGELink, tmp_path: Path) -> None:
    table, out = tmp_path / "links.csv", tmp_path / "out.parquet"
    table.write_text("src,dst\nUser 1,Item 2\n")
    (tmp_path / "out.parquet.parts").mkdir()
    (tmp_path / "out.parquet.parts" / "job.json").write_text('{"seed": 5}')
    (tmp_path / "out.parquet.parts" / "part-00000000.parquet").write_bytes(b"theirs")
    with pytest.raises(SettingsError, match="parts of another job"):
        explain_table(explainer, table, out)
    with pytest.raises(SettingsError, match=r"results end in"):
        explain_table(explainer, table, tmp_path / "out.doc")


def test_two_jobs_do_not_write_one_file(explainer: PaGELink, tmp_path: Path) -> None:
    table, out = tmp_path / "links.csv", tmp_path / "out.csv"
    table.write_text("src,dst\nUser 1,Item 2\n")
    with (
        claimed(tmp_path / "out.csv.parts", {"seed": 0}, beside=True),
        pytest.raises(BusyError, match=r"out\.csv\.parts is being written by process"),
    ):
        explain_table(explainer, table, out)
    assert list(tmp_path.iterdir()) == [table]  # the other one came to nothing
    steps: list[tuple[int, int]] = []
    summary = explain_table(explainer, table, out, progress=lambda *step: steps.append(step))
    assert steps[:2] == [(0, 1), (1, 1)]  # link by link, not chunk by chunk
    assert (summary.engine, summary.workers, summary.restarts) == ("inprocess", 1, 0)


def stopped(explainer: PaGELink, folder: Path, patch: pytest.MonkeyPatch, **options: Any) -> None:
    """Run a job of which the last step fails, so that its parts stay."""

    def fails(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with patch.context() as patched:
        patched.setattr("pagelink.engine.job.write_rows", fails)
        with pytest.raises(OSError, match="No space"):
            explain_table(explainer, folder / "l.csv", folder / "o.csv", **options)


def test_parts_of_other_rows_are_not_taken_up(
    explainer: PaGELink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "l.csv").write_text("src,dst\nUser 1,Item 2\n")
    out = tmp_path / "o.csv"
    stopped(explainer, tmp_path, monkeypatch, asked=ExplainOptions(runs=2))
    for asked in (ExplainOptions(), ExplainOptions(runs=3), ExplainOptions(runs=2, rank=True)):
        with pytest.raises(SettingsError, match=r"another job \(other asked\)"):
            explain_table(explainer, tmp_path / "l.csv", out, asked=asked)
    with monkeypatch.context() as patch:
        patch.setattr("pagelink.engine.opening.ROWS_VERSION", 99)
        with pytest.raises(SettingsError, match=r"another job \(other rows\)"):
            explain_table(explainer, tmp_path / "l.csv", out, asked=ExplainOptions(runs=2))
    job = tmp_path / "o.csv.parts" / "job.json"
    values = json.loads(job.read_text("utf-8"))
    assert "rank_without_these" in values["rows"]["columns"]
    job.write_text(json.dumps({**values, "memory": 3}))
    with pytest.raises(SettingsError, match=r"another job \(other memory\)"):
        explain_table(explainer, tmp_path / "l.csv", out, asked=ExplainOptions(runs=2))
    job.write_text(json.dumps(values, indent=1, sort_keys=True))
    done = explain_table(explainer, tmp_path / "l.csv", out, asked=ExplainOptions(runs=2))
    assert done.resumed == 1


def test_a_full_disk_leaves_nothing_half_written(explainer: PaGELink, tmp_path: Path) -> None:
    table, out = tmp_path / "links.csv", tmp_path / "out.parquet"
    table.write_text("src,dst\nUser 1,Item 2\n")

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))  # less than a part
    try:
        with pytest.raises(EngineError, match=r"part-.*File too large.*make room"):
            explain_table(explainer, table, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == [table]
    explain_table(explainer, table, out)
    assert pa.parquet.read_table(out).num_rows == len(explainer.explain(1, 2).paths) > 0


@pytest.mark.slow
def test_killed_and_run_again_ends_with_the_same_rows(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL in the middle, several times; the rows are those of an undisturbed run."""
    code = (
        "import functools, sys, pagelink.engine as jobs\n"
        "jobs.explain_table = functools.partial(jobs.explain_table, chunk=4)\n"
        "from pagelink.cli.main import main\n"
        "main()"
    )
    monkeypatch.setattr("pagelink.engine.explain_table", partial(explain_opened, chunk=4))
    command = ("explain", "graph", "--model", "model.pt", "--links", "pairs.csv", "--rank-only")
    quiet: dict[str, Any] = {
        "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": ONE_THREAD,
    }  # fmt: skip
    assert shell(*command, "--out", "whole.parquet", cwd=shop).returncode == SOME_FAILED
    kills = 0
    apart = [sys.executable, "-c", code, *command, "--out", "killed.parquet"]
    for wanted in (3, 9):
        with subprocess.Popen(apart, cwd=shop, **quiet) as process:
            limit = time.monotonic() + 120
            while process.poll() is None and time.monotonic() < limit:
                if len(list(shop.glob("killed.parquet.parts/part-*.parquet"))) >= wanted:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    break
                time.sleep(0.01)
        assert not (shop / "killed.parquet").exists() or process.returncode == 0
    done = shell(*command, "--out", "killed.parquet", cwd=shop)
    assert done.returncode == SOME_FAILED, done.stderr
    assert kills == 2
    assert "links were done by an earlier run" in done.stdout
    whole, killed = (
        pa.parquet.read_table(shop / f"{name}.parquet").drop(["seconds"]).to_pylist()
        for name in ("whole", "killed")
    )
    assert killed == whole
    assert len({row["line"] for row in whole}) == 60
    assert not (shop / "killed.parquet.parts").exists()


def test_recommend_then_explain_by_name(shop: Path) -> None:
    done = shell(
        "recommend", "graph", "--model", "model.pt", "--src", "User 3", "-k", "4", cwd=shop
    )
    assert done.returncode == 0, done.stderr
    names = [line[13:] for line in done.stdout.splitlines()[2:-1]]
    assert len(names) == 4
    done = shell(
        "explain", "graph", "--model", "model.pt", "--src", "User 3", "--dst", names[0],
        "--rank-only", "--html", "a.html", "--svg", "a.svg", "--png", "a.png", "--json", "a.json",
        "--paths", "2", "--exclude-relation", "has", "--deadline", "60", cwd=shop,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"User 3 likes {names[0]}" in done.stdout
    assert (shop / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (shop / "a.html").read_text("utf-8")
    told = json.loads((shop / "a.json").read_text("utf-8"))
    assert told["dst_name"] == names[0]
    used = {edge["type"][1] for path in told["paths"] for edge in path["edges"]}
    assert used
    assert not used & {"has", "rev_has"}


def test_hostile_names_stay_text(shop: Path) -> None:
    for name in ('Soap, "blue"', "<script>alert(1)</script>"):
        done = shell(
            "explain", "graph", "--model", "model.pt", "--src", "User 3", "--dst", name,
            "--rank-only", "--html", "b.html", cwd=shop,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert name in done.stdout
        assert "<script" not in (shop / "b.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["explain", "graph", "--model", "model.pt", "--src", "User 3", "--dst", "Itme 4"], 1,
         "Did you mean 'Item 4'"),
        (["explain", "graph", "--model", "model.pt", "--src", "User 3"], 2, "--src and --dst"),
        (["explain", "graph", "--model", "model.pt", "--links", "pairs.csv"], 2, "go together"),
        (["explain", "graph", "--model", "none.pt", "--src", "a", "--dst", "b"], 1, "none.pt"),
        (["explain", "nowhere", "--model", "model.pt", "--src", "a", "--dst", "b"], 1, "nowhere"),
        (["explain", "graph", "--model", "model.pt", "--src", "User 3", "--dst", "Item 4",
          "--exclude-relation", "bys"], 2, "Did you mean 'buys'"),
        (["explain", "graph", "--model", "model.pt", "--src", "User 3", "--dst", "Item 4",
          "--via", "item"], 2, "TYPE=NAME"),
        (["explain", "graph", "--model", "model.pt", "--src", "User 3", "--dst", "Item 4",
          "--max-length", "0"], 2, "max_length must be"),
        (["train", "graph", "--link", "user,likes", "--out", "x.pt"], 2, "source type,relation"),
        (["train", "graph", "--link", "user,hates,item", "--out", "x.pt"], 1, "hates"),
        (["train", "graph", "--link", "user,likes,item", "--model", "gcn", "--out", "x.pt"], 1,
         "rgcn"),
        (["recommend", "graph", "--model", "pairs.csv", "--src", "User 3"], 1, "pairs.csv"),
        (["describe", "pairs.csv"], 1, "pairs.csv"),
        (["explain", "graph", "--model", "model.pt", "--links", "pairs.csv", "--out", "pairs.csv"],
         2, "is an input"),
        (["explain", "graph", "--model", "model.pt", "--links", "pairs.csv", "--out", "o.csv",
          "--html", "o.html"], 2, "go with --src"),
        (["explain", "graph", "--model", "model.pt", "--src", "User 3", "--dst", "Item 4",
          "--threshold", "nan"], 2, "threshold must be"),
        (["train", "graph", "--link", "user,likes,item", "--out", "graph"], 2, "is an input"),
        (["train", "graph", "--link", "user,likes,item", "--out", "x.pt", "--lr", "nan"], 2, "lr"),
    ],
)  # fmt: skip
def test_errors_are_one_line(shop: Path, arguments: list[str], code: int, words: str) -> None:
    done = shell(*arguments, cwd=shop)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert words in " ".join(done.stderr.replace("│", " ").split())
    if code == 1:
        assert len(done.stderr.strip().splitlines()) == 1
    assert not (shop / "x.pt").exists()


def test_a_checkpoint_of_another_graph(shop: Path, tmp_path: Path) -> None:
    other = generate_useritemattr(num_users=90)
    other.data["user", "likes", "item"].edge_index = other.likes
    save_graph(other.data, tmp_path / "other")
    done = shell(
        "recommend", str(tmp_path / "other"), "--model", "model.pt", "--src", "User 3", cwd=shop
    )
    assert done.returncode == 1
    assert "user" in done.stderr
    assert "90" in done.stderr
    (tmp_path / "cut.pt").write_bytes((shop / "model.pt").read_bytes()[:1000])
    done = shell("recommend", "graph", "--model", str(tmp_path / "cut.pt"), "--src", "a", cwd=shop)
    assert done.returncode == 1
    assert "cut.pt" in done.stderr


def test_interrupted_by_the_keyboard(shop: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pagelink", "train", "graph", "--link", "user,likes,item",
         "--epochs", "100000", "--batch-size", "1", "--out", "never.pt"],
        cwd=shop, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ONE_THREAD,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(3)  # well into training, also on a busy machine
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in stderr, stderr
    assert not (shop / "never.pt").exists()


def test_no_global_random_state_is_touched(explainer: PaGELink, tmp_path: Path) -> None:
    table = tmp_path / "links.csv"
    table.write_text("src,dst\nUser 1,Item 2\n")
    before = torch.random.get_rng_state()
    explain_table(explainer, table, tmp_path / "out.csv")
    assert torch.equal(before, torch.random.get_rng_state())


def test_dataset_folders_are_split_as_the_paper_does(tmp_path: Path) -> None:
    done = shell("dataset", "useritemattr", "--out", "shop", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shop" / "extra-ground-truth.jsonl").is_file()
    train = ("train", "shop", "--link", "user,likes,item", "--epochs", "1", "--hidden", "8")
    for flag, paper in ((), True), (("--no-paper-split",), False):
        done = shell(*train, *flag, "--out", "model.pt", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        checkpoint = load_checkpoint(tmp_path / "model.pt", load_graph(tmp_path / "shop"))
        assert checkpoint.settings.paper_split is paper
        assert (("user", "likes", "item") in checkpoint.data.edge_types) is not paper
    done = shell(
        "dataset", "augcitation", "--from", "shop", "--out", "x", "--rule", "mine", cwd=tmp_path
    )
    assert done.returncode == 2
    done = shell("dataset", "augcitation", "--from", "shop", "--out", "x", cwd=tmp_path)
    assert done.returncode == 1
    assert "author" in done.stderr


def test_describe(shop: Path) -> None:
    done = shell("describe", "graph", cwd=shop)
    assert done.returncode == 0, done.stderr
    assert "2,126 facts" in done.stdout
    assert "likes" in done.stdout
