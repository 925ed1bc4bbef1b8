"""A folder of parts, filled by processes: the same rows whatever happens on the way."""

from __future__ import annotations

import copy
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from support.engine_world import (
    CHUNK,
    LINK_TYPE,
    NUM_LINKS,
    SETTINGS,
    command,
    expected_rows,
    is_alive,
    make_shop,
    opening,
    parts_of,
    plain,
    shop_explainer,
    wait_until,
    workers_of,
)

from pagelink import PaGELink
from pagelink.cli.main import main
from pagelink.engine import FromFiles, Processes, Summary, explain_table, read_parts
from pagelink.errors import EngineError, ModelError, SettingsError
from pagelink.views.rows import to_rows

DEADLY_ITEM = 3
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def rows(shop: Path) -> list[dict[str, Any]]:
    return expected_rows(shop)


@pytest.fixture(scope="module")
def explainer(shop: Path) -> PaGELink:
    return shop_explainer(shop)[0]


def run(shop: Path, out: Path, workers: int = 1, **options: Any) -> Summary:
    return explain_table(
        opening(shop), shop / "pairs.csv", out, Processes(workers), chunk=CHUNK, **options
    )


@pytest.mark.slow
def test_workers_killed_on_the_way_change_no_row(
    shop: Path, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    kills = []

    def kill(done: int, total: int) -> None:
        if done // 20 > len(kills) and len(kills) < 2 and total == NUM_LINKS:
            victim = workers_of(os.getpid())[-1]
            os.kill(victim, signal.SIGKILL)
            kills.append(victim)

    summary = run(shop, out, workers=2, progress=kill)
    assert plain(read_parts(out)) == rows
    assert summary.restarts == len(kills) == 2
    assert summary.num_links == NUM_LINKS
    assert summary.num_rows == len(rows)
    assert summary.reasons["invalid"] == 1
    assert "There is no user called 'Nobody'" in summary.invalid[0]
    assert sum(summary.verdicts.values()) == summary.reasons["paths"]
    assert 0 < (summary.overhead or 0) < 1
    assert json.loads((out / "summary.json").read_text()) == asdict(summary)
    names = sorted(path.name for path in out.iterdir() if not path.name.startswith("part-"))
    assert names == ["job.json", "summary.json"]
    assert parts_of(out) == NUM_LINKS // CHUNK
    assert not workers_of(os.getpid())
    again = run(shop, out)  # nothing to do: no worker is started
    assert again.resumed == NUM_LINKS
    assert again.overhead is None


@pytest.mark.slow
def test_a_driver_that_is_ended_or_killed_goes_on_and_leaves_nothing_behind(
    shop: Path, rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, temporary = tmp_path / "out", tmp_path / "temporary"
    temporary.mkdir()
    env = {
        **os.environ, "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
    }  # fmt: skip
    # Workers that take their time, so that it is well before the end that the driver is hit.
    code = "import pagelink.engine as engine; from support.engine_world import Slow\n"
    code += "engine.FromFiles = Slow; from pagelink.cli.main import main; main()"
    arguments = command(shop, out, "--workers", "1")
    slow = [sys.executable, "-c", code, *arguments[arguments.index("explain") :]]
    for number, wanted in ((signal.SIGTERM, 1), (signal.SIGKILL, 4)):
        with subprocess.Popen(
            slow, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as driver:
            wait_until(lambda least=wanted: parts_of(out) >= least)  # type: ignore[misc]
            workers = workers_of(driver.pid)
            driver.send_signal(number)
            _, said = driver.communicate(timeout=60)
        assert len(workers) == 1
        assert driver.returncode == (1 if number == signal.SIGTERM else -signal.SIGKILL), said
        assert b"Traceback" not in said
        wait_until(lambda pids=workers: not any(map(is_alive, pids)), 20)  # type: ignore[misc]
        assert not (out / "summary.json").exists()
        assert bool(list(temporary.iterdir())) == (number == signal.SIGKILL)
    before = parts_of(out)
    assert before < NUM_LINKS // CHUNK
    (out / ".part-00000014.parquet.half").write_bytes(b"PAR1 half")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    summary = run(shop, out)
    assert summary.resumed == before * CHUNK
    assert plain(read_parts(out)) == rows
    assert not list(out.glob(".*"))
    assert not list(temporary.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "temporary"]


@dataclass(frozen=True)
class Deadly(FromFiles):
    """Opens a model that ends the process when it is asked about one item."""

    def open(self) -> PaGELink:
        explainer = shop_explainer(Path(self.graph).parent)[0]
        explainer.predictor.model.deadly = DEADLY_ITEM
        return explainer


@pytest.mark.slow
def test_a_link_that_kills_gets_its_own_row(
    shop: Path, explainer: PaGELink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagelink.engine.crew.DEATHS", 1)  # each costs the start of a process
    table, out = tmp_path / "links.csv", tmp_path / "out"
    table.write_text(f"src,dst\nUser 1,Item 2\nUser 1,Item {DEADLY_ITEM}\nUser 2,Item 5\n")
    poison = Deadly(shop / "graph", shop / "model.pt", SETTINGS, threshold=None)
    summary = explain_table(poison, table, out, Processes(1), chunk=2)
    found = read_parts(out).to_pylist()
    (killed,) = [row for row in found if row["reason"] == "invalid"]
    assert (killed["line"], killed["src"], killed["dst"]) == (3, "User 1", f"Item {DEADLY_ITEM}")
    assert "killed the worker, 1 times (its process ended with exit code 7)" in killed["message"]
    assert {row["line"] for row in found if row["path"] == 1} == {2, 4}
    alone = to_rows(explainer.explain("User 1", "Item 2"), 2)
    assert [row["text"] for row in found if row["line"] == 2] == [row["text"] for row in alone]
    assert summary.restarts == 2  # the chunk, then the link
    assert summary.reasons == {"invalid": 1, "paths": 2}
    assert sorted(path.name for path in out.glob("part-*")) == [
        "part-00000000.parquet", "part-00000001.parquet",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_full_disk_stops_the_job_and_keeps_its_parts(
    shop: Path, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def full(done: int, total: int) -> None:
        if done == 5 * CHUNK:
            # Of the worker, which has written some parts by now.
            (pid,) = workers_of(os.getpid())
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    with pytest.raises(EngineError, match=r"part-.*cannot be written.*too large.*are kept"):
        run(shop, out, progress=full)
    assert 5 <= parts_of(out) <= 7
    assert not list(out.glob(".part*"))
    run(shop, out)
    assert plain(read_parts(out)) == rows


def test_a_graph_that_changes_under_the_job_stops_it(shop: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes((shop / "model.pt").read_bytes())
    changing = FromFiles(shop / "graph", model, SETTINGS, threshold=None)

    def change(done: int, total: int) -> None:
        model.write_bytes((shop / "model.pt").read_bytes())

    with pytest.raises(EngineError, match=r"model\.pt changed on .* while the job was running"):
        explain_table(
            changing, shop / "pairs.csv", tmp_path / "out", Processes(1), chunk=CHUNK,
            progress=change,
        )  # fmt: skip
    other = FromFiles(shop / "graph", model, expected={"model": "0", "graph": "0"})
    with pytest.raises(EngineError, match="is not the one that the job was started with"):
        other.open()
    gone = FromFiles(shop / "graph", model, store_path=tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"no graph .*elsewhere on .*PAGELINK_STORE"):
        gone.open()


@pytest.mark.slow
def test_a_part_that_is_gone_is_missed(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def lose(done: int, total: int) -> None:
        if done == total:
            (out / "part-00000002.parquet").unlink()

    with pytest.raises(
        EngineError, match=r"part-00000002\.parquet cannot be read.*same command again"
    ):
        run(shop, out, progress=lose)
    assert run(shop, out).resumed == NUM_LINKS - CHUNK


def test_a_copied_explainer_explains_the_same(explainer: PaGELink) -> None:
    links = [(1, 2), (5, 7), (40, 3)]
    mine, copied = (
        [asdict(path) for e in each.explain_many(links) for path in e.paths]
        for each in (explainer, copy.deepcopy(explainer))
    )
    assert mine == copied


def test_explain_many_by_processes(explainer: PaGELink, tmp_path: Path) -> None:
    links: list[Any] = [(n, (7 * n) % 100) for n in range(20)]
    links[5] = ("Nobody", 3)
    here = [to_rows(e) for e in explainer.explain_many(links, batch_size=4)]
    taken = 0

    def counted() -> Iterator[Any]:
        nonlocal taken
        for link in links:
            taken += 1
            yield link

    answers = explainer.explain_many(counted(), batch_size=4, engine="processes", workers=1)
    there = [to_rows(next(answers))]
    assert taken < len(links)  # links are read as workers become free
    there += [to_rows(answer) for answer in answers]
    for row in (row for rows in here + there for row in rows):
        del row["seconds"]
    assert there == here
    assert not workers_of(os.getpid())


def test_an_iterator_that_is_dropped_lets_its_workers_go(explainer: PaGELink) -> None:
    answers = explainer.explain_many([(n, 3) for n in range(50)], engine=Processes(1), batch_size=4)
    next(answers)
    assert workers_of(os.getpid())
    del answers
    assert not workers_of(os.getpid())


def test_what_cannot_be_done_is_refused_at_once(explainer: PaGELink) -> None:
    for options, words in (
        ({"engine": "spark"}, "processes and ray; got 'spark'"),
        ({"workers": 2}, "go with an engine"),
        ({"engine": "processes", "workers": 0}, "from 1 up"),
        ({"engine": "processes", "address": "auto"}, "go with the engine ray"),
        ({"engine": Processes(1), "workers": 2}, "not with an engine"),
    ):
        with pytest.raises(SettingsError, match=words):
            explainer.explain_many([(1, 2)], **options)  # type: ignore[arg-type]
    locked = copy.copy(explainer)
    locked.predictor = copy.copy(explainer.predictor)
    locked.predictor.before_pass = threading.Lock().acquire  # type: ignore[assignment]
    with pytest.raises(ModelError, match="cannot be pickled"):
        locked.explain_many([(1, 2)], engine="processes")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "o.parquet", "--workers", "2"], "go with --links and a folder"),
        (["--out", "out", "--engine", "spark"], "processes and ray"),
        (["--out", "out", "--address", "auto"], "go with the engine ray"),
        (["--out", "out", "--chunk", "100000"], "1 to 65536 links"),
        (["--out", "graph"], "is not the folder of a job"),
        (["--out", "out", "--engine", "ray"], "pip install 'pagelink[ray]'"),
    ],
)
def test_bad_commands_start_nothing(
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(shop)
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    monkeypatch.setattr(
        sys, "argv",
        ["pagelink", "explain", "graph", "--model", "model.pt", "--links", "pairs.csv", *arguments],
    )  # fmt: skip
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert words in said
    assert not (shop / "out").exists()


def test_everything_else_works_without_ray(
    shop: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(shop)
    (tmp_path / "one.csv").write_text("src,dst\nUser 1,Item 2\n")
    monkeypatch.setattr(
        sys, "argv",
        ["pagelink", "explain", "graph", "--model", "model.pt", "--links",
         str(tmp_path / "one.csv"), "--out", str(tmp_path / "out"), "--workers", "1"],
    )  # fmt: skip
    with pytest.raises(SystemExit) as stopped:
        main()
    assert not stopped.value.code
    said = capsys.readouterr().out
    assert "1 links (1 " in said
    assert "links per second by 1 workers, 0 of them replaced" in said
    assert set(read_parts(tmp_path / "out")["relation"].to_pylist()) == {LINK_TYPE[1]}
