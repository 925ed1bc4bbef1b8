"""The process of a worker: `python -m pagelink.engine.process_worker SOCKET ORDER`."""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any


def main(descriptor: int, order: Path) -> None:
    """Open what the order says, then do tasks until the driver is gone."""
    # The driver holds the other end of standard input and never writes: it ends with the driver,
    # however that ends, and nobody is left to work for.
    threading.Thread(target=_until_the_driver_ends, daemon=True).start()
    from pagelink.engine.worker import Worker

    with Connection(descriptor) as driver:
        worker = Worker()
        driver.send(worker.open(order.read_bytes()))
        # Tasks are taken in while others are done: a driver that waits to hand over a large one
        # would not read our answer, and we would wait for it in turn.
        tasks: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=_take_in, args=(driver, tasks), daemon=True).start()
        while True:
            driver.send(worker.run(tasks.get()))


def _take_in(driver: Connection, tasks: SimpleQueue[Any]) -> None:
    try:
        while True:
            tasks.put(driver.recv())
    except (EOFError, OSError):
        os._exit(0)  # the driver is gone


def _until_the_driver_ends() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
