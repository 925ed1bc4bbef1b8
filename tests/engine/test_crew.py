"""What holds for every engine: chunks, the folder, deaths. No worker is started here."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagelink.engine import open_parts, read_parts
from pagelink.engine.crew import Crew, Tally
from pagelink.engine.job import InMemory
from pagelink.engine.opening import graph_fingerprint
from pagelink.engine.parts import PartFolder, claimed, part_path
from pagelink.engine.ray_engine import own_signal
from pagelink.engine.summary import Count
from pagelink.engine.tasks import Ledger, Task, chunks, plan
from pagelink.engine.worker import Event, Failure, Hello, Order, Report
from pagelink.errors import BusyError, EngineError, SettingsError
from pagelink.explain.building import versions
from pagelink.tables.link_tables import LinkRow
from pagelink.views.rows import SCHEMA, to_table

ORDER: Any = None
"""The toys below do not look at it."""


def task_of(chunk: int, size: int) -> Task:
    return Task(chunk, 0, tuple(LinkRow(100 * chunk + n, (n, n)) for n in range(size)), size)


class Toy:
    """An engine in this process: a worker dies of deadly lines, and when chance has it."""

    def __init__(self, size: int, deadly: set[int], chance: Iterator[bool]) -> None:
        self.size = size
        self._deadly = deadly
        self._chance = chance
        self._tasks: dict[int, deque[Task]] = {}
        self._said: list[Event] = []
        self._count = 0
        self.most = 0
        self.open = False

    def check(self) -> None: ...

    def start(self, order: Order) -> None:
        self.open = True

    def hire(self) -> int:
        self._count += 1
        self._tasks[self._count] = deque()
        self._said.append(Event(self._count, Hello("here", versions())))
        return self._count

    def give(self, worker: int, task: Task) -> None:
        self._tasks[worker].append(task)
        self.most = max(self.most, len(self._tasks[worker]))

    def events(self, timeout: float) -> list[Event]:
        said, self._said = self._said, []
        for worker, tasks in list(self._tasks.items()):
            if not tasks:
                continue
            lines = {row.line for row in tasks[0].links}
            if next(self._chance) or (lines & self._deadly and not tasks[0].killed):
                del self._tasks[worker]
                said.append(Event(worker, None, "died"))
            else:
                done = tasks.popleft()
                said.append(Event(worker, Report(1.0, [(r.line, done.killed) for r in done.links])))
        return said

    def close(self) -> None:
        self.open = False


@given(
    sizes=st.lists(st.integers(1, 9), max_size=6),
    workers=st.integers(1, 3),
    deadly=st.sets(st.integers(0, 8).flatmap(lambda n: st.sampled_from([n, 100 + n, 300 + n]))),
    # A link that has seen three deaths by itself is a deadly one.
    accidents=st.sets(st.integers(0, 60), max_size=2),
)
def test_every_link_is_done_once_and_only_the_deadly_are_given_up(
    sizes: list[int], workers: int, deadly: set[int], accidents: set[int]
) -> None:
    toy = Toy(workers, deadly, (n in accidents for n in count()))
    results = InMemory()
    found: dict[int, list[tuple[int, str]]] = {}
    tasks = [task_of(n, size) for n, size in enumerate(sizes)]
    for complete in Crew(toy, ORDER, results).run(iter(tasks)):
        assert complete[0].chunk not in found
        found[complete[0].chunk] = results.take(complete)
    lines = {row.line for task in tasks for row in task.links}
    assert {n: [line for line, _ in rows] for n, rows in found.items()} == {
        task.chunk: [row.line for row in task.links] for task in tasks
    }
    killed = {line for rows in found.values() for line, message in rows if message}
    assert killed == deadly & lines
    assert toy.most <= 2
    assert not toy.open


def test_workers_that_cannot_open_stop_the_job() -> None:
    class Stillborn(Toy):
        def hire(self) -> int:
            self._count += 1
            self._said.append(Event(self._count, None, "ended by SIGKILL"))
            return self._count

    toy = Stillborn(2, set(), iter(()))
    with pytest.raises(EngineError, match=r"6 workers in a row .*SIGKILL.*memory"):
        list(Crew(toy, ORDER, InMemory()).run(iter([task_of(0, 2)])))
    assert not toy.open


def test_a_machine_that_goes_while_its_workers_open_does_not_stop_the_job() -> None:
    class Preempted(Toy):
        def hire(self) -> int:
            worker = super().hire()
            if 1 < worker <= 4:  # the first one is elsewhere
                del self._tasks[worker]
                self._said[-1] = Event(worker, None, "the node died")
            return worker

    crew = Crew(Preempted(4, set(), iter([False] * 99)), ORDER, InMemory())
    assert len(list(crew.run(iter([task_of(n, 2) for n in range(5)])))) == 5
    assert crew.tally.restarts == 3


def test_workers_follow_the_machines() -> None:
    class Cluster(Toy):
        sizes = iter([1, 1, 1, 4, 4, 4, 2, 2, 1])

        def events(self, timeout: float) -> list[Event]:
            self.size = next(self.sizes, 1)
            said = super().events(timeout)
            if self.size == 2 and len(self._tasks) > 2:  # a machine goes, with two workers
                gone = list(self._tasks)[2:]
                said = [event for event in said if event.worker not in gone]
                said += [Event(worker, None, "the node died") for worker in gone]
                self._tasks = {name: self._tasks[name] for name in list(self._tasks)[:2]}
            return said

    toy = Cluster(1, set(), iter([False] * 999))
    crew = Crew(toy, ORDER, InMemory())
    assert len(list(crew.run(iter([task_of(n, 1) for n in range(40)])))) == 40
    assert toy._count == 4  # those of the machine that joined, and nobody for the one that left
    assert crew.tally.restarts == 0


def test_a_cluster_that_shrinks_while_workers_open_does_not_stop_the_job() -> None:
    class Preempted(Toy):
        def hire(self) -> int:
            worker = super().hire()
            if 1 < worker <= 4:
                del self._tasks[worker]
                self._said[-1] = Event(worker, None, "the node died")
                self.size = 1
            return worker

    crew = Crew(Preempted(4, set(), iter([False] * 99)), ORDER, InMemory())
    assert len(list(crew.run(iter([task_of(n, 2) for n in range(5)])))) == 5
    assert crew.tally.restarts == 0


def test_a_library_does_not_keep_a_signal_that_is_wanted() -> None:
    def theirs(number: int, frame: object) -> None: ...

    def ours(number: int, frame: object) -> None: ...

    before = signal.getsignal(signal.SIGTERM)
    try:
        for mine, then in ((ours, ours), (signal.SIG_DFL, theirs)):
            signal.signal(signal.SIGTERM, mine)
            with own_signal(signal.SIGTERM):
                signal.signal(signal.SIGTERM, theirs)
            assert signal.getsignal(signal.SIGTERM) == then
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_versions_and_failures_stop_the_job() -> None:
    class Other(Toy):
        what: Hello | Failure = Hello("far", {**versions(), "torch": "1.0"})

        def hire(self) -> int:
            self._said.append(Event(1, self.what))
            return 1

    toy = Other(1, set(), iter(()))
    with pytest.raises(EngineError, match=r"far has torch 1\.0, not"):
        list(Crew(toy, ORDER, InMemory()).run(iter([task_of(0, 2)])))
    toy.what = Failure.of(SettingsError("There is no relation 'x'."))
    with pytest.raises(SettingsError, match="no relation 'x'"):
        list(Crew(toy, ORDER, InMemory()).run(iter([task_of(0, 2)])))
    toy.what = Failure.of(ZeroDivisionError("oh"))
    with pytest.raises(EngineError, match="A worker cannot go on: ZeroDivisionError: oh"):
        list(Crew(toy, ORDER, InMemory()).run(iter([task_of(0, 2)])))


def test_a_plan_is_the_same_every_time(tmp_path: Path) -> None:
    table = tmp_path / "links.parquet"
    src = [(7 * n) % 50 for n in range(1000)]
    pa.parquet.write_table(
        pa.table({"src": src, "dst": list(range(1000))}), table, row_group_size=7
    )
    first, second = list(plan(table, 64)), list(plan(table, 64))
    assert first == second
    assert [task.chunk for task in first] == list(range(16))
    assert [len(task.links) for task in first] == [64] * 15 + [40]
    order = [row.link for task in first for row in task.links]
    assert order == sorted(order, key=lambda link: (int(link[0]), int(link[1])))
    assert sorted(row.line for task in first for row in task.links) == list(range(1, 1001))


def test_windows_are_sorted_by_themselves() -> None:
    rows = [LinkRow(n, (str(9 - n), "x")) for n in range(10)]
    lines = [[row.line for row in task.links] for task in chunks(rows, 2, 4)]
    assert lines == [[3, 2], [1, 0], [7, 6], [5, 4], [9, 8]]


def place_of(row: LinkRow) -> tuple[tuple[bool, int, str], ...]:
    """Numbers in their order, then names in theirs."""
    numbers = [re.fullmatch("(?:id:)?([0-9]{1,18})", str(part)) for part in row.link]
    return tuple(
        (number is None, int(number[1]) if number else 0, str(part))
        for part, number in zip(row.link, numbers, strict=True)
    )


PARTS = ("5", "05", "id:5", "10", "", "id:", "x", "X", "é", "\U0001f600", "5\n", "9" * 18, "9" * 19)


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(PARTS), max_size=3).map(tuple), max_size=12))
def test_links_of_a_window_are_sorted_as_numbers_then_names(links: list[Any]) -> None:
    rows = [LinkRow(n, link) for n, link in enumerate(links)]
    planned = [row for task in chunks(rows, 5, 5_000) for row in task.links]
    assert planned == sorted(rows, key=place_of)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(
    st.sampled_from([None, "invalid", "not_connected"]), st.sampled_from([None, "supported", "x"]),
    st.lists(st.sampled_from("abc"), max_size=2), st.integers(0, 3), st.integers(0, 30),
), max_size=40))  # fmt: skip
def test_rows_are_counted(links: list[Any]) -> None:
    rows, invalid = [], []
    for line, (reason, verdict, direct, num_paths, seconds) in enumerate(links):
        row = {"line": line, "reason": reason, "verdict": verdict, "direct_relations": direct,
               "seconds": float(seconds), "message": f"of {line}"}  # fmt: skip
        rows += [{**row, "path": n + 1} for n in range(num_paths)] or [row]
        invalid += [f"line {line}: of {line}"] if reason == "invalid" else []
    counted, size = Count(), 16
    for chunk, first in enumerate(range(0, len(links), size)):
        of_chunk = range(first, min(first + size, len(links)))
        task = Task(chunk, 0, tuple(LinkRow(line, ("a", "b")) for line in of_chunk), len(of_chunk))
        counted.add(task, to_table([row for row in rows if row["line"] in of_chunk]))
    found = counted.summary(Tally(), Toy(1, set(), iter(())))
    assert (found.num_links, found.num_rows) == (len(links), len(rows))
    assert found.reasons == Counter(reason or "paths" for reason, *_ in links)
    assert found.verdicts == Counter(verdict for _, verdict, *_ in links if verdict)
    assert counted.direct == Counter(name for link in links for name in link[2])
    slowest = sorted(((link[4], line) for line, link in enumerate(links)), reverse=True)[:10]
    assert [(row["seconds"], row["line"]) for row in found.slowest] == slowest
    assert found.invalid == invalid[:20]


def test_rows_of_other_links_are_not_counted() -> None:
    table = to_table([{"line": line, "seconds": 1.0} for line in (0, 1, 1)])
    with pytest.raises(EngineError, match="chunk 0 does not hold the rows of its links"):
        Count().add(task_of(0, 3), table)


def test_a_graph_is_known_by_its_tables_and_a_store_by_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "edges-a__of__a.csv").write_bytes(b"a")
    before = graph_fingerprint(tmp_path)
    (tmp_path / "extra-rows.csv").write_bytes(b"a")
    assert graph_fingerprint(tmp_path) == before
    (tmp_path / "edges-a__of__a.csv").write_bytes(b"b")
    assert graph_fingerprint(tmp_path) != before
    (tmp_path / "manifest.json").write_text('{"format": "pagelink store", "version": 1}')
    before = graph_fingerprint(tmp_path)
    (tmp_path / "edges.npy").write_bytes(b"c")  # that is for the manifest's own checksums
    assert graph_fingerprint(tmp_path) == before
    (tmp_path / "manifest.json").write_text('{"format": "pagelink store", "version": 2}')
    assert graph_fingerprint(tmp_path) != before


JOB = {"seed": 0}


def rows_of(task: Task) -> pa.Table:
    empty = dict.fromkeys(SCHEMA.names)
    return to_table([{**empty, "line": row.line} for row in task.links])


def test_the_folder_knows_what_is_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole, cut = task_of(0, 4), task_of(1, 4)
    left, right = cut.halves()
    with claimed(out, JOB) as folder:
        assert not folder.is_there(whole)
        folder.add(whole, rows_of(whole))
        assert folder.is_there(whole)
        folder.add(left, rows_of(left))
        (out / ".part-00000002.parquet.abc").write_bytes(b"PAR1 half")
    with pytest.raises(SettingsError, match="is not done"):
        read_parts(out)
    assert read_parts(out, partial=True).num_rows == 4
    with claimed(out, JOB) as folder:
        assert not list(out.glob(".part*"))
        assert folder.check([whole, cut]) == 0
        assert folder.done == {0}
        ledger = Ledger()
        (rest,) = ledger.resume(cut, folder.pieces[1])
        assert rest == right
        folder.add(rest, rows_of(rest))
        assert ledger.finish(rest) == "again"
        folder.merge(ledger.take(1))
        assert sorted(p.name for p in out.glob("part-*")) == [
            "part-00000000.parquet", "part-00000001.parquet",
        ]  # fmt: skip
    assert read_parts(out, partial=True)["line"].to_pylist() == [0, 1, 2, 3, 100, 101, 102, 103]
    assert open_parts(out, partial=True).count_rows() == 8


def test_merged_pieces_that_were_not_removed_are_not_counted_again(tmp_path: Path) -> None:
    task = task_of(0, 4)
    with claimed(tmp_path, JOB) as folder:
        folder.add(task, rows_of(task))
        folder.add(task.halves()[0], rows_of(task.halves()[0]))
    with claimed(tmp_path, JOB) as folder:
        assert folder.check([task]) == 0
        assert folder.done == {0}
        assert not folder.pieces
    assert not part_path(tmp_path, task.halves()[0]).exists()


def test_a_piece_that_was_cut_further_since_doubles_no_row(tmp_path: Path) -> None:
    task = task_of(0, 8)
    late, right = task.halves()
    with claimed(tmp_path, JOB) as folder:
        for piece in (*late.halves(), right, late):  # its worker was taken for dead
            folder.add(piece, rows_of(piece))
    with claimed(tmp_path, JOB) as folder:
        ledger = Ledger()
        assert not ledger.resume(task, folder.pieces[0])
        folder.merge(ledger.take(0))
    assert [file.name for file in tmp_path.glob("part-*")] == ["part-00000000.parquet"]
    assert read_parts(tmp_path, partial=True)["line"].to_pylist() == list(range(8))


def test_a_folder_is_for_one_job(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = rf"out is being written by process {os.getpid()} on .* since 2.* UTC: .*python"
    with claimed(out, JOB), pytest.raises(BusyError, match=words), claimed(out, JOB):
        pass
    with claimed(out, {"seed": 1}) as folder:  # the first one came to nothing, so it holds no claim
        folder.add(task_of(0, 2), rows_of(task_of(0, 2)))
    with (
        pytest.raises(SettingsError, match=r"parts of another job \(other chunk, seed\)"),
        claimed(out, {"seed": 2, "chunk": 5}),
    ):
        pass
    assert json.loads((out / "job.json").read_text()) == {"seed": 1}
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mum.txt").write_text("x")
    for path, words in ((tmp_path / "letters", "holds mum.txt"), (__file__, "is a file")):
        with pytest.raises(SettingsError, match=words), claimed(Path(path), JOB):
            pass
    assert [p.name for p in (tmp_path / "letters").iterdir()] == ["mum.txt"]


def test_the_lock_of_a_killed_process_does_not_block(tmp_path: Path) -> None:
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        with claimed(tmp_path, JOB):
            os.write(tell, b"mine")
            signal.pause()
    os.read(told, 4)
    try:
        with pytest.raises(SettingsError, match=f"process {child} on"), claimed(tmp_path, JOB):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)
    with claimed(tmp_path, JOB) as folder:
        assert isinstance(folder, PartFolder)


def test_a_link_is_given_up_after_three_deaths_of_its_own() -> None:
    toy = Toy(1, {2}, iter(lambda: False, True))
    crew = Crew(toy, ORDER, InMemory())
    (done,) = crew.run(iter([task_of(0, 4)]))
    assert [(task.first, task.last, bool(task.killed)) for task in done] == [
        (0, 2, False), (2, 3, True), (3, 4, False),
    ]  # fmt: skip
    assert crew.tally.restarts == 3 + 1 + 3  # the chunk, its half, the link
    assert "killed the worker, 3 times (died)" in done[1].killed


def test_the_overhead_counts_work_that_was_lost() -> None:
    seconds = 0.02

    class Timed(Toy):
        def events(self, timeout: float) -> list[Event]:
            time.sleep(seconds)  # each task of the one worker takes as long, to its death too
            return [
                replace(each, what=replace(each.what, seconds=seconds))
                if isinstance(each.what, Report)
                else each
                for each in super().events(timeout)
            ]

    def spent(deadly: set[int], chance: Iterator[bool]) -> Tally:
        crew = Crew(Timed(1, deadly, chance), ORDER, InMemory())
        list(crew.run(iter([task_of(0, 4), task_of(1, 4)])))
        return crew.tally

    def accidents(*deaths: int) -> Iterator[bool]:
        return (n in deaths for n in count())

    calm, killed, twice = (
        spent(set(), accidents()),
        spent(set(), accidents(1)),  # the second chunk, once
        spent(set(), accidents(0, 1, 2)),  # the first chunk is cut, and done again as a whole
    )
    assert calm.work == pytest.approx(2 * seconds)
    assert killed.work == pytest.approx(2 * seconds)
    assert killed.wall >= 3 * seconds
    assert twice.work == pytest.approx(2 * seconds)
    assert twice.wall >= (3 + 2 + 2) * seconds  # deaths, halves, both chunks
    assert (killed.overhead or 0) > 0.3
