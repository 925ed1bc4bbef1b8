"""Tasks and answers larger than what a socket holds: nobody waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pagelink.engine import Processes
from pagelink.engine.crew import Crew
from pagelink.engine.opening import pickled
from pagelink.engine.tasks import Task
from pagelink.engine.worker import Explanations, Order
from pagelink.link_tables import LinkRow

LARGE = 1_000_000
"""Bytes; a socket holds some 200,000."""


class Echo:
    """Explains a link by itself."""

    def explain_many(self, links: list[Any]) -> Iterator[Any]:
        return iter(links)


@dataclass(frozen=True)
class Echoing:
    """An opening without a graph."""

    def open(self) -> Any:
        return Echo()

    def check_unchanged(self) -> None: ...


def test_large_tasks_and_large_answers_pass_each_other() -> None:
    tasks = [Task(n, 0, (LinkRow(n, (str(n) * LARGE, "b")),), 1) for n in range(6)]
    crew = Crew(Processes(1), pickled(Order(Echoing(), Explanations())))
    done = {each.task.chunk: each.report for each in crew.run(iter(tasks))}
    assert sorted(done) == list(range(6))
    assert all(report and len(report.product[0][0]) == LARGE for report in done.values())
