"""Parts of a job: two runs at once, damage, foreign parts, and what is said of an earlier run."""

from __future__ import annotations

import copy
import csv
import random
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from pagelink import PaGELink
from pagelink.cli.link_tables import shown
from pagelink.engine import Sent, Summary, explain_table, open_parts, read_parts
from pagelink.engine.parts import PartFolder, claimed
from pagelink.engine.tasks import plan
from pagelink.errors import BusyError, EngineError, SettingsError
from pagelink.views.rows import SCHEMA, is_one_file, to_table, write_rows

NUM_LINKS, CHUNK = 12, 2


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """A table of links that cost nothing: none of them is in the graph."""
    table = tmp_path / "links.csv"
    table.write_text("src,dst\n" + "".join(f"User {n},Nobody\n" for n in range(NUM_LINKS)))
    return table


def run(explainer: PaGELink, links: Path, out: Path, **options: Any) -> Summary:
    return explain_table(Sent(explainer), links, out, chunk=CHUNK, **options)


def rows_of(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_parts(out).drop(["seconds"]).to_pylist()
    return rows


def test_two_runs_on_one_result_file_lose_no_row(
    explainer: PaGELink, links: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rows.parquet"

    def runs(explainer: PaGELink) -> list[str]:
        ends = []
        for _ in range(25):
            try:
                run(explainer, links, out)
                ends.append("done")
                time.sleep(random.Random(len(ends)).random() / 100)  # let the other one in
            except BusyError:
                ends.append("refused")
            lines = pa.parquet.read_table(out)["line"].to_pylist() if out.exists() else ()
            assert not lines or len(set(lines)) == NUM_LINKS
        return ends

    with ThreadPoolExecutor(2) as two:
        ends = [
            end for each in two.map(runs, [explainer, copy.deepcopy(explainer)]) for end in each
        ]
    assert {"done", "refused"} == set(ends)
    assert sorted(path.name for path in tmp_path.iterdir()) == [links.name, out.name]


def flipped(file: Path, at: float) -> None:
    content = bytearray(file.read_bytes())
    content[int(at * (len(content) - 1))] ^= 0x10
    file.write_bytes(bytes(content))


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    **{f"byte {at}": lambda part, other, at=at: flipped(part, at)  # type: ignore[misc]
       for at in (0.0, 0.02, 0.3, 0.6, 0.9, 0.97, 0.99, 1.0)},
    "empty": lambda part, other: part.write_bytes(b""),
    "truncated": lambda part, other: part.write_bytes(part.read_bytes()[:-40]),
    "copied over": lambda part, other: shutil.copy(other, part),
    "of another job": lambda part, other: shutil.copy(
        other.parents[1] / "other" / part.name, part
    ),
    "plain Parquet": lambda part, other: pa.parquet.write_table(pa.parquet.read_table(part), part),
}  # fmt: skip


def test_a_damaged_part_is_as_good_as_missing(
    explainer: PaGELink, links: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run(explainer, links, out).damaged == 0
    other = copy.copy(explainer)
    other.seed = 1
    run(other, links, tmp_path / "other")
    rows = rows_of(out)
    part, another = (out / f"part-0000000{n}.parquet" for n in (2, 3))
    for name, damage in DAMAGES.items():
        damage(part, another)
        if name not in ("copied over", "of another job"):  # which are whole in themselves
            with pytest.raises(EngineError, match=r"part-00000002.*damaged"):
                read_parts(out)
        again = run(explainer, links, out)
        assert (again.damaged, again.resumed) == (1, NUM_LINKS - CHUNK), name
        assert rows_of(out) == rows, name
    part.unlink()
    for read in (open_parts, read_parts):
        with pytest.raises(EngineError, match=r"part-00000002\.parquet is missing.*again"):
            read(out)
    assert run(explainer, links, out).resumed == NUM_LINKS - CHUNK
    (out / "summary.json").write_text("{")
    with pytest.raises(EngineError, match=r"summary\.json is damaged"):
        read_parts(out)
    shutil.copy(part, out / "part-00000006.parquet")
    with pytest.raises(SettingsError, match="parts that are not of this job, as part-00000006"):
        run(explainer, links, out)
    (out / "part-00000006.parquet").unlink()
    (out / "job.json").write_text("{")
    with pytest.raises(SettingsError, match=r"other job\.json, which is damaged"):
        run(explainer, links, out)


@pytest.mark.parametrize("name", ["out", "rows.csv"])
@pytest.mark.parametrize("harm", ["copied over", "gone"])
def test_parts_are_checked_against_their_links_at_the_end(
    explainer: PaGELink, links: Path, tmp_path: Path, name: str, harm: str
) -> None:
    out = tmp_path / name
    folder = out if name == "out" else tmp_path / f"{name}.parts"

    def do(done: int, total: int) -> None:
        if done == total:
            part = folder / "part-00000002.parquet"
            part.unlink(missing_ok=True)
            if harm == "copied over":
                shutil.copy(folder / "part-00000001.parquet", part)

    words = "rows of other links" if harm == "copied over" else "cannot be read"
    with pytest.raises(EngineError, match=rf"part-00000002.*{words}.*same command again"):
        run(explainer, links, out, progress=do)
    assert not (tmp_path / "rows.csv").exists()
    assert not (out / "summary.json").exists()
    assert run(explainer, links, out).resumed == NUM_LINKS - CHUNK


def test_damaged_pieces_are_made_again(explainer: PaGELink, links: Path, tmp_path: Path) -> None:
    tasks = list(plan(links, 6))
    left, right = tasks[0].halves()
    killed = tasks[1].halves()[0].halves()[0]
    empty = dict.fromkeys(SCHEMA.names)
    with claimed(tmp_path / "out", {"seed": 0}) as folder:
        for task in (left, right, killed):
            folder.add(task, to_table([{**empty, "line": row.line} for row in task.links]))
    flipped(tmp_path / "out" / "part-00000000-0003-0006.parquet", 0.5)
    shutil.copy(
        tmp_path / "out" / "part-00000000-0000-0003.parquet",
        tmp_path / "out" / "part-00000001-0004-0009.parquet",  # longer than its chunk
    )
    with claimed(tmp_path / "out", {"seed": 0}) as folder:
        assert folder.check(tasks) == 2
        assert [(p.first, p.last) for p in folder.pieces[0]] == [(0, 3)]
        assert [(p.first, p.last) for p in folder.pieces[1]] == [(0, 1)]
        with pytest.raises(EngineError, match="cannot be read"):
            folder.read(right)
    assert len(list((tmp_path / "out").glob("part-*"))) == 2
    assert isinstance(folder, PartFolder)


def test_what_an_earlier_run_has_done_is_not_counted_as_this_ones(
    explainer: PaGELink, links: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run(explainer, links, out)
    # Chunks that are there lie between those that are not.
    for number in (1, 4):
        (out / f"part-0000000{number}.parquet").unlink()
    steps: list[int] = []
    summary = run(explainer, links, out, progress=lambda done, total: steps.append(done))
    assert steps[0] == summary.resumed == NUM_LINKS - 2 * CHUNK
    assert steps[-1] == NUM_LINKS
    assert all(before <= after <= before + 1 for before, after in pairwise(steps))
    assert summary.rate * summary.seconds == pytest.approx(2 * CHUNK)


def test_the_log_tells_the_pace_of_this_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pagelink.cli.link_tables.SECONDS_A_LINE", 0.0)
    with shown("explaining") as step:
        step(10_000, 10_400)
        time.sleep(0.2)
        step(10_001, 10_400)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("10001 of 10400 links, ")
    words = line.replace(",", "").split()
    rate = float(words[4])
    assert 0 < rate <= 5.1  # one link in 0.2 s or more
    assert int(words[-3]) >= 1  # 399 links at that pace


FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1")


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".TSV"])
def test_formulas_in_names_stay_text(tmp_path: Path, ending: str) -> None:
    names = [*FORMULAS, "a=b", "'=1", 'Soap, "blue"\t']
    empty = dict.fromkeys(SCHEMA.names)
    rows = [
        {**empty, "line": n, "src": name, "text": name, "message": name, "logit": -1.5,
         "node_names": [name]}
        for n, name in enumerate(names)
    ]  # fmt: skip
    out = tmp_path / f"rows{ending}"
    assert is_one_file(out)
    write_rows([to_table(rows)], out)
    with out.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file, delimiter="," if ending == ".csv" else "\t"))
    for row, name in zip(found, names, strict=True):
        expected = f"'{name}" if name in FORMULAS else name
        assert row["src"] == row["text"] == row["message"] == expected
        assert row["node_names"].startswith("[")
        assert row["logit"] == "-1.5"


def test_endings_say_whether_it_is_a_file(tmp_path: Path) -> None:
    for name in ("run", "run-1.5", "2026.11.16", ".hidden", "run.5b", "a.csv.2"):
        assert not is_one_file(tmp_path / name)
    for name in ("a.parquet", "a.CSV", "b.2.jsonl"):
        assert is_one_file(tmp_path / name)
    for name in ("a.xlsx", "a.json", "a.csv.gz", "a.paruqet", "a.h5"):
        with pytest.raises(SettingsError, match=r"results end in .*make it first"):
            is_one_file(tmp_path / name)
    (tmp_path / "run.v2").mkdir()
    assert not is_one_file(tmp_path / "run.v2")
