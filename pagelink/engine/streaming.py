"""`explain_many` by several workers: explanations come in the order of the links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pagelink.engine.crew import Crew, Engine
from pagelink.engine.job import Ledger, chunks, joined
from pagelink.engine.opening import Sent, pickled
from pagelink.engine.tasks import Task
from pagelink.engine.worker import Explanations, Order
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.links import LinkLike
from pagelink.tables.link_tables import LinkRow

CHUNKS_AHEAD = 4
"""For each worker, how many chunks may be under way or wait for an earlier one."""


def stream(
    explainer: PaGELink,
    links: Iterable[LinkLike],
    engine: Engine,
    chunk: int,
    options: dict[str, Any],
) -> Iterator[Explanation]:
    """Explain links by workers that have a copy of the explainer; yield in the links' order.

    Args:
        explainer: what explains.
        links: as for `explain_many`; read as workers become free.
        engine: where the workers run.
        chunk: how many links a worker gets at a time.
        options: of `explain_many`.

    Raises:
        ModelError: the explainer cannot be pickled; at once.
        EngineError: the workers cannot go on.
    """
    engine.check()
    order = pickled(Order(Sent(explainer), Explanations(), options))
    return _stream(links, engine, order, chunk)


def _stream(
    links: Iterable[LinkLike], engine: Engine, order: bytes, chunk: int
) -> Iterator[Explanation]:
    rows = (LinkRow(number, link) for number, link in enumerate(links))
    crew, ledger = Crew(engine, order), Ledger()
    products: dict[tuple[int, int, int], list[Explanation]] = {}
    ready: dict[int, list[Explanation]] = {}
    taken = next_out = 0

    def tasks() -> Iterator[Task]:
        nonlocal taken
        for task in chunks(rows, chunk, chunk, sort=False):
            taken += 1
            yield task

    def has_room() -> bool:
        return taken - next_out <= CHUNKS_AHEAD * engine.size

    for finished in crew.run(tasks(), has_room):
        task = finished.task
        if finished.report is not None:
            products[task.key] = finished.report.product
        state = ledger.finish(task)
        if state == "open":
            continue
        pieces = ledger.take(task.chunk)
        found = [products.pop(piece.key) for piece in pieces or [task]]
        if state == "again":
            crew.repeat(joined(pieces))
            continue
        ready[task.chunk] = [explanation for product in found for explanation in product]
        while next_out in ready:
            yield from ready.pop(next_out)
            next_out += 1
