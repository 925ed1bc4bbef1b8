"""Inputs and results at addresses: those of this machine, and of its memory by fsspec."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from support.engine_world import CHUNK, NUM_LINKS, expected_rows, make_shop, opening, plain
from typer.testing import CliRunner

from pagelink import PaGELink, Settings
from pagelink.cli.main import app
from pagelink.engine import FromFiles, Sent, Summary, explain_table, forecast, read_parts
from pagelink.errors import SettingsError
from pagelink.store.addresses import fetched

CHEAP, PART = 12, 2


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAGELINK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """A table of links that cost nothing: none of them is in the graph."""
    table = tmp_path / "links.csv"
    table.write_text("src,dst\n" + "".join(f"User {n},Nobody\n" for n in range(CHEAP)))
    return table


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def run(explainer: PaGELink, links: Path, out: str, **options: Any) -> Summary:
    return explain_table(Sent(explainer), links, Path(out), chunk=PART, **options)


def test_graph_model_links_and_rows_at_addresses(tmp_path: Path, cache: Path) -> None:
    far = make_shop(tmp_path)
    elsewhere = FromFiles(
        Path(f"file://{far}/graph"), Path(f"file://{far}/model.pt"), Settings(), threshold=None
    )
    summary = explain_table(
        elsewhere, Path(f"file://{far}/pairs.csv"), Path(f"file://{far}/new/out"), chunk=CHUNK
    )
    assert summary.num_links == NUM_LINKS
    assert plain(read_parts(f"file://{far}/new/out")) == expected_rows(far)
    assert elsewhere.identity() == opening(far).identity()
    assert not list((cache / "results").iterdir())


def test_what_is_kept_of_a_model_at_an_address_is_beside_its_copy(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far, here = make_shop(tmp_path), tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    model = f"file://{far}/model.pt"
    link = ("--src", "User 3", "--dst", "Item 35", "--rank-only")
    done = CliRunner().invoke(app, ["explain", str(far / "graph"), "--model", model, *link])
    assert done.exit_code == 0, done.output
    assert not list(here.iterdir())
    assert not (far / "model.pt.proof").exists()
    assert len(list(cache.glob("inputs/*/model.pt.proof"))) == 1


def test_an_input_is_copied_once_and_again_when_it_changes(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.csv").write_text("one")
    first = fetched(Path(f"file://{tmp_path}/far"))
    assert first.is_relative_to(cache)
    assert (first / "a.csv").read_text() == "one"
    inode = (first / "a.csv").stat().st_ino
    assert (fetched(f"file://{tmp_path}/far") / "a.csv").stat().st_ino == inode
    time.sleep(0.01)
    (tmp_path / "far" / "a.csv").write_text("two")
    assert (fetched(f"file://{tmp_path}/far") / "a.csv").read_text() == "two"
    assert fetched(tmp_path / "far") == tmp_path / "far"  # no address, no copy
    with pytest.raises(SettingsError, match=f"There is nothing at file://{tmp_path}/near"):
        fetched(f"file://{tmp_path}/near")


def test_a_job_goes_on_on_another_machine(
    explainer: PaGELink, links: Path, tmp_path: Path, cache: Path
) -> None:
    out = tmp_path / "far" / "out"

    def stop(done: int, total: int) -> None:
        if done == 7:  # the third part is there, the fourth on its way
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(explainer, links, f"file://{out}", progress=stop)
    names = sorted(path.name for path in out.iterdir())
    assert names == ["job.json", *(f"part-{n:08d}.parquet" for n in range(3))]
    shutil.rmtree(cache)  # as on a machine that was not there before
    assert run(explainer, links, f"file://{out}").resumed == 6
    here = tmp_path / "here"
    run(explainer, links, str(here))
    rows = [read_parts(each).drop(["seconds"]) for each in (here, f"file://{out}")]
    assert rows[0] == rows[1]
    assert sorted(path.name for path in out.iterdir()) == sorted(p.name for p in here.iterdir())
    (out / "part-00000001.parquet").write_bytes(b"damaged")
    assert run(explainer, links, f"file://{out}").damaged == 1
    assert read_parts(f"file://{out}").num_rows == CHEAP


def test_a_part_that_only_this_machine_has_gets_there(
    explainer: PaGELink, links: Path, tmp_path: Path
) -> None:
    out = tmp_path / "far" / "out"

    def lose(done: int, total: int) -> None:
        (out / "part-00000001.parquet").unlink(missing_ok=True)

    run(explainer, links, f"file://{out}", progress=lose)
    assert read_parts(f"file://{out}").num_rows == CHEAP


def test_what_is_elsewhere_is_not_overwritten(
    explainer: PaGELink, links: Path, tmp_path: Path
) -> None:
    out = tmp_path / "far" / "out"
    out.mkdir(parents=True)
    (out / "thesis.tex").write_text("all of it")
    with pytest.raises(SettingsError, match=r"is not the folder of a job: it holds thesis\.tex"):
        run(explainer, links, f"file://{out}")
    (out / "thesis.tex").unlink()
    run(explainer, links, f"file://{out}")
    with pytest.raises(SettingsError, match="the parts of another job"):
        explain_table(Sent(explainer), links, Path(f"file://{out}"), chunk=3)
    with pytest.raises(SettingsError, match="nowhere://at/all cannot be used"):
        run(explainer, links, "nowhere://at/all")


def test_on_a_file_system_of_fsspec(
    explainer: PaGELink, links: Path, memory: Any, tmp_path: Path
) -> None:
    memory.pipe_file("/far/links.csv", links.read_bytes())
    run(explainer, Path("fsspec+memory://far/links.csv"), "fsspec+memory://far/out")
    assert read_parts("fsspec+memory://far/out").num_rows == CHEAP
    run(explainer, links, "fsspec+memory://far/rows.jsonl")
    assert len(memory.cat_file("/far/rows.jsonl").splitlines()) == CHEAP
    found = sorted(Path(name).name for name in memory.find("/far"))
    parts = [f"part-{n:08d}.parquet" for n in range(CHEAP // PART)]
    assert found == sorted(["job.json", "links.csv", *parts, "rows.jsonl", "summary.json"])


def test_a_dry_run_puts_nothing_there(explainer: PaGELink, links: Path, tmp_path: Path) -> None:
    expected = forecast(Sent(explainer), links, Path(f"file://{tmp_path}/far"), chunk=PART)
    assert expected.num_links == CHEAP
    assert not (tmp_path / "far").exists()
