"""Outputs: one writer at a time, nothing half-written, nothing left behind, no addresses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pagelink.errors import BusyError, SettingsError
from pagelink.runtime.files import check_local, complete_file, locked, temporary_folder, write_text

CONTENDER = """
import json, sys, time
from pathlib import Path
from pagelink.errors import BusyError
from pagelink.runtime.files import locked

out, end = Path(sys.argv[1]), time.monotonic() + 1.5
inside, counts = out.with_suffix(".inside"), {"held": 0, "refused": 0, "together": 0}
print("ready", flush=True)
sys.stdin.readline()
while time.monotonic() < end:
    try:
        with locked(out):
            counts["together"] += inside.exists()
            inside.touch()
            counts["held"] += 1
            inside.unlink()
    except BusyError:
        counts["refused"] += 1
print(json.dumps(counts))
"""


def test_two_processes_never_have_one_output_together(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONTENDER, str(tmp_path / "out")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for each in both:
        each.stdout.readline()
    for each in both:
        each.stdin.write("go\n")
        each.stdin.flush()
    counts = [json.loads(each.communicate()[0]) for each in both]
    assert all(count["held"] > 20 and not count["together"] for count in counts), counts
    assert sum(count["refused"] for count in counts) > 0, counts
    assert not list(tmp_path.iterdir())


def test_the_second_is_told_who_holds_an_output(tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to(tmp_path, target_is_directory=True)
    with locked(tmp_path / "new" / "out"):
        pass
    words = rf"out is being written by process {os.getpid()} on .+ since 2.+ UTC: .*python.*Wait"
    for other in (tmp_path / "out", tmp_path / "here" / "out"):
        with locked(tmp_path / "out"), pytest.raises(BusyError, match=words), locked(other):
            pass
    with locked(tmp_path / "out", lend=True):
        with locked(tmp_path / "out"), pytest.raises(BusyError), locked(tmp_path / "out"):
            pass
        with locked(tmp_path / "out"):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "here"
    ]  # what was made for a lock goes, too


def killed_while(code: str, *arguments: Path) -> None:
    """Run code that says when it is ready to be killed, and kill it."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)


def test_what_a_killed_process_left_of_an_output_is_removed(tmp_path: Path) -> None:
    code = """
import signal, sys
from pathlib import Path
from pagelink.runtime.files import complete_file, locked, temporary_name
out = Path(sys.argv[1])
with locked(out), complete_file(out) as temporary:
    temporary.write_text("half")
    temporary_name(out).mkdir()
    print("ready", flush=True)
    signal.pause()
"""
    out = tmp_path / "out.csv"
    mine = [tmp_path / name for name in (".out.csv.swp", ".out.csv.2.abcdefgh.tmp")]
    for path in mine:
        path.touch()
    killed_while(code, out)
    assert len(list(tmp_path.iterdir())) == 2 + len(mine) + 1
    with locked(out):
        write_text(out, "whole")
    assert sorted(tmp_path.iterdir()) == sorted([out, *mine])


def test_temporary_folders_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import signal
from pagelink.runtime.files import temporary_folder
with temporary_folder() as folder:
    (folder / "large").write_text("x")
    print("ready", flush=True)
    signal.pause()
"""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "pagelink-of-mine").mkdir()
    killed_while(code)
    assert len(list(tmp_path.iterdir())) == 3  # mine, theirs, and its lock
    with temporary_folder() as first, temporary_folder() as second:
        assert first.is_dir()
        assert second.is_dir()
        assert len(list(tmp_path.glob("pagelink-*"))) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["pagelink-of-mine"]


@pytest.mark.parametrize(
    "given",
    ["s3://bucket/rows.csv", "gs://b/x", "http://host/x", "https://host/x", "file:///tmp/x.csv",
     "hdfs://host:9000/x", "az+abfs://c/x", "host:/data/rows.csv"],
)  # fmt: skip
def test_addresses_are_no_files(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (given, Path(given)):
        with pytest.raises(SettingsError, match="is an address"):
            check_local(path)
    with pytest.raises(SettingsError), locked(Path(given)):
        pass
    with pytest.raises(SettingsError), complete_file(Path(given)):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", ["out", "a/b.csv", "/x:y/z", "2026-11-16T10:30", "a:b", "c:/x"])
def test_odd_names_are_files(given: str) -> None:
    assert check_local(given) == Path(given)
