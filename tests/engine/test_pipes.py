"""What passes between a driver and a worker, without a graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pagelink.engine import Processes
from pagelink.engine.crew import Crew
from pagelink.engine.job import InMemory
from pagelink.engine.parts import claimed, write_part
from pagelink.engine.tasks import Task
from pagelink.engine.worker import Failure, Order, Report, Worker
from pagelink.errors import EngineError, SettingsError
from pagelink.tables.link_tables import LinkRow

LARGE = 1_000_000
"""Bytes; a socket holds some 200,000."""


class Echo:
    """Explains a link by itself."""

    def explain_many(self, links: list[Any]) -> Iterator[Any]:
        return iter(links)


@dataclass
class Echoing:
    """An opening without a graph."""

    def open(self) -> Any:
        return Echo()

    def check_unchanged(self) -> None: ...


def test_large_tasks_and_large_answers_pass_each_other() -> None:
    tasks = [Task(n, 0, (LinkRow(n, (str(n) * LARGE, "b")),), 1) for n in range(6)]
    results = InMemory()
    crew = Crew(Processes(1), Order(Echoing()), results)
    done = {each[0].chunk: results.take(each) for each in crew.run(iter(tasks))}
    assert sorted(done) == list(range(6))
    assert all(len(product[0][0]) == LARGE for product in done.values())


@dataclass
class Changing(Echoing):
    """An opening whose graph changes after so many looks."""

    looks: int

    def check_unchanged(self) -> None:
        self.looks -= 1
        if self.looks < 0:
            raise EngineError("it changed")


@pytest.mark.parametrize(("looks", "kind"), [(0, Failure), (1, Failure), (2, Report)])
def test_a_graph_that_changes_under_a_chunk_leaves_no_rows_of_it(looks: int, kind: type) -> None:
    worker = Worker()
    worker.open(Order(Changing(looks)).pickled)
    assert isinstance(worker.run(Task(0, 0, (LinkRow(1, ("a", "b")),), 1)), kind)


def test_a_worker_of_an_earlier_job_writes_nothing_into_a_later_one(tmp_path: Path) -> None:
    task, rows = Task(0, 0, (LinkRow(1, ("a", "b")),), 1), pa.table({"line": [1]})
    with claimed(tmp_path, {"seed": 0}) as folder:
        earlier = folder.job
    with claimed(tmp_path, {"seed": 1}) as folder:
        with pytest.raises(EngineError, match="another job's by now"):
            write_part(tmp_path, task, rows, earlier)
        assert not folder.is_there(task)
        write_part(tmp_path, task, rows, folder.job)
        assert folder.is_there(task)


def test_a_folder_that_cannot_be_locked_is_said_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: object, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        pytest.raises(SettingsError, match=r"cannot be locked.*No locks available.*nolock"),
        claimed(tmp_path, {}),
    ):
        pass
