"""Counterfactuals, ranks, runs and predicted negatives from the shell."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.shell import shell

from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.models.checkpoint import load_checkpoint
from pagelink.tables.load import load_graph, save_graph
from pagelink.views.text import ordinal

EXPLAIN = ("explain", "graph", "--model", "model.pt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph and a trained model."""
    made = tmp_path_factory.mktemp("requests")
    dataset = generate_useritemattr()
    dataset.data["user", "likes", "item"].edge_index = dataset.likes
    save_graph(dataset.data, made / "graph")
    done = shell(
        "train", "graph", "--link", "user,likes,item", "--epochs", "3", "--out", "model.pt",
        cwd=made,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return made


def test_a_model_that_is_known_is_explained_without_the_compiler_of_torch(folder: Path) -> None:
    ask = (*EXPLAIN, "--src", "User 3", "--dst", "id:5", "--rank-only")
    assert shell(*ask, cwd=folder).returncode == 0
    code = """if True:
        import sys
        from pagelink.cli.main import main
        try:
            main()
        except SystemExit as end:
            found = {"torch._dynamo", "sympy"} & {*sys.modules}
            sys.exit(f"{end.code}, {*found,}")
    """
    done = subprocess.run(
        [sys.executable, "-c", code, *ask], capture_output=True, text=True, cwd=folder, check=False
    )
    assert "with all facts" in done.stdout
    assert done.stderr.splitlines()[-1] == "0, ()"
    # It is there as soon as something asks for it.
    code = "from pagelink.cli.common import import_pyg; import_pyg(); import torch_geometric; "
    code += "torch_geometric.is_torch_instance(1, int) or 1 / 0"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_everything_at_once(folder: Path) -> None:
    done = shell("recommend", "graph", "--model", "model.pt", "--src", "User 3", cwd=folder)
    name = done.stdout.splitlines()[2][13:]
    done = shell(
        *EXPLAIN, "--src", "User 3", "--dst", name, "--rank-only", "--counterfactual", "--top-k",
        "3", "--at", "paths", "--rank", "--runs", "2", "--json", "a.json", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    values = json.loads((folder / "a.json").read_text("utf-8"))
    found = values["counterfactual"]
    assert (found["top_k"], found["at"], found["src_name"]) == (3, "paths", "User 3")
    assert found["text"] in done.stdout
    # Links that are known, held out or not, are not ranked: no one would recommend them.
    checkpoint = load_checkpoint(folder / "model.pt", load_graph(folder / "graph"))
    known = checkpoint.split.all
    liked = set(known[1, known[0] == found["src"][1]].tolist()) - {found["dst"][1]}
    held_out = liked - set(checkpoint.split.train[1, checkpoint.split.train[0] == 3].tolist())
    assert held_out
    assert found["rank_of"] == checkpoint.data["item"].num_nodes - len(liked)
    ranks = f"{name} ranks {ordinal(values['rank'])} of {values['rank_of']} items for User 3, with"
    assert ranks in done.stdout
    assert values["runs"] == 2
    assert {path["runs"] for path in values["paths"]} == {2}
    assert "in both runs" in done.stdout


def test_sources_of_a_target(folder: Path) -> None:
    done = shell(
        "recommend", "graph", "--model", "model.pt", "--dst", "Item 3", "-k", "2", cwd=folder
    )
    title, columns, *rows, shares = done.stdout.splitlines()
    assert columns == "Rank  Score"
    assert title == "Best new sources of 'Item 3' (user likes):"
    assert len(rows) == 2
    assert shares.startswith("Share of predictions of these scores that were held-out links")
    done = shell(
        *EXPLAIN, "--src", rows[0][13:], "--dst", "Item 3", "--rank-only", "--rank", "--rank-end",
        "src", cwd=folder,
    )  # fmt: skip
    assert re.search(r"\nUser \d+ ranks \d+\w\w of \d+ users for Item 3, with", done.stdout)
    for wrong in ([], ["--src", "User 3", "--dst", "Item 3"]):
        done = shell("recommend", "graph", "--model", "model.pt", *wrong, cwd=folder)
        assert done.returncode == 2
        assert "Give one of --src, --dst and --links" in done.stderr


def test_predicted_negatives(folder: Path) -> None:
    asked = (*EXPLAIN, "--src", "User 3", "--dst", "Item 4", "--threshold", "1000")
    assert "speak" not in shell(*asked, cwd=folder).stdout
    done = shell(*asked, "--negatives", "--no-longer", "--json", "n.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    values = json.loads((folder / "n.json").read_text("utf-8"))
    assert values["settings"]["longer"] is False
    assert values["reason"] == "predicted_negative"
    assert "the link" in values["message"]
    assert "counterfactual" not in values


def test_the_mask_is_written_on_request(folder: Path) -> None:
    asked = (*EXPLAIN, "--src", "User 3", "--dst", "Item 4", "--rank-only", "--json", "m.json")
    assert shell(*asked, cwd=folder).returncode == 0
    small = json.loads((folder / "m.json").read_text("utf-8"))
    assert shell(*asked, "--mask", cwd=folder).returncode == 0
    large = json.loads((folder / "m.json").read_text("utf-8"))
    masks = large.pop("edge_mask")
    assert large.keys() == small.keys()
    assert sum(len(each["index"]) for each in masks) > 100


@pytest.mark.parametrize("out", ["many.csv", "many.parquet", "parts"])
def test_a_report_on_a_table_of_links(folder: Path, out: str) -> None:
    (folder / "many.csv.links.csv").write_text(
        "src,dst\nUser 3,Item 4\nUser 5,Item 6\nUser 5,Nothing\nUser 7,Item 8\n"
    )
    asked = (*EXPLAIN, "--links", "many.csv.links.csv", "--out", out, "--rank-only")
    workers = ("--workers", "1", "--chunk", "2") if out == "parts" else ()
    done = shell(*asked, *workers, "--report", f"{out}.html", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert f"Wrote {out}.html" in done.stdout
    page = (folder / f"{out}.html").read_text("utf-8")
    assert "4 links: user → likes → item" in page
    assert "There is no item called &#39;Nothing&#39;." in page
    assert "<bdi>User 5 → likes → Nothing</bdi>" in page
    assert f"Made from {out} by" in page
    done = shell("report", out, "--out", "again.html", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "Wrote again.html\n")
    assert (folder / "again.html").read_text("utf-8") == page


def test_a_report_on_a_job_that_is_not_done(folder: Path) -> None:
    (folder / "few.links.csv").write_text("src,dst\nUser 3,Item 4\nUser 5,Item 6\n")
    asked = (*EXPLAIN, "--links", "few.links.csv", "--out", "few", "--rank-only")
    assert shell(*asked, "--workers", "1", "--chunk", "1", cwd=folder).returncode == 0
    (folder / "few" / "summary.json").unlink()
    (folder / "few" / "part-00000001.parquet").unlink()
    done = shell("report", "few", "--out", "few.html", cwd=folder)
    assert (done.returncode, "--partial" in done.stderr) == (2, True)
    assert shell("report", "few", "--partial", "--out", "few.html", cwd=folder).returncode == 0
    assert "1 link: user" in (folder / "few.html").read_text("utf-8")


def test_tables_hold_what_is_asked_for(folder: Path) -> None:
    (folder / "pairs.csv").write_text("src,dst\nUser 3,Item 4\nUser 5,Item 6\nUser 5,Nothing\n")
    asked = (*EXPLAIN, "--links", "pairs.csv", "--out", "rows.jsonl")
    done = shell(*asked, "--rank", "--runs", "2", "--rank-only", "--memory", "0.5", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert done.stderr.endswith("1 of 3 links failed.\n")
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text("utf-8").splitlines()]
    good, bad = rows[:-1], rows[-1]
    assert {(row["runs"], row["path_runs"]) for row in good} == {(2, 2)}
    assert all(1 <= row["rank"] <= row["rank_of"] <= 100 for row in good)
    assert all(row["rank_without_these"] for row in good)
    assert (bad["reason"], bad["rank"], bad["runs"]) == ("invalid", None, None)

    done = shell(*asked, "--negatives", "--threshold", "1000", cwd=folder)
    assert done.returncode == 3, done.stderr
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text("utf-8").splitlines()]
    negative = [row for row in rows if row["reason"] == "predicted_negative"]
    assert len(negative) > 2
    assert {row["is_evidence"] for row in negative} <= {True, False}
    assert {row["rank"] for row in rows} == {None}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--src", "User 3", "--dst", "Item 4", "--top-k", "3"], "go with --counterfactual"),
        (
            ["--src", "User 3", "--dst", "Item 4", "--counterfactual", "--at", "x"],
            "source or paths",
        ),
        (["--src", "User 3", "--dst", "Item 4", "--runs", "0"], "--runs"),
        (["--links", "l.csv", "--out", "o.csv", "--counterfactual"], "goes with --src and --dst"),
        (["--src", "User 3", "--dst", "Item 4", "--memory", "2"], "--memory goes with --links"),
        (["--src", "User 3", "--dst", "Item 4", "--report", "r.html"], "--report goes with"),
        (["--src", "User 3", "--dst", "Item 4", "--mask"], "--mask goes with --json"),
        (["--src", "User 3", "--dst", "Item 4", "--device", "here"], "device must be one that"),
        (["--links", "l.csv", "--out", "o.csv", "--report", "o.csv"], "are two files"),
        (["--src", "User 3", "--dst", "Item 4", "--counterfactual", "--rank-only"], "Give top_k"),
        (["--src", "User 3", "--dst", "Item 4", "--counterfactual", "--top-k", "0"], "top_k must"),
    ],
)
def test_wrong_options_are_said_in_words(folder: Path, arguments: list[str], words: str) -> None:
    done = shell(*EXPLAIN, *arguments, cwd=folder)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())
