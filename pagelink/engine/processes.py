"""Workers that are processes of this machine. A mapped graph is in memory once for all of them.

The driver has an end of a socket to each of them, and an end of its standard input.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from pagelink.engine.tasks import Task
from pagelink.engine.worker import Event, Order, Worker
from pagelink.errors import SettingsError
from pagelink.runtime.files import temporary_folder

SECONDS_TO_GO = 5.0
_WORKER = "from pagelink.engine.processes import work; work()"
"""What a process of a worker runs, with the number of its socket and the file of the order."""


class Processes:
    """An engine of processes, each started anew and not forked.

    Args:
        workers: how many. None: one per core that this process may use.

    Raises:
        SettingsError: the number is below 1.
    """

    def __init__(self, workers: int | None = None) -> None:
        check_workers(workers)
        self.size = workers or len(os.sched_getaffinity(0))
        self._open = contextlib.ExitStack()
        self._folder = Path()
        self._processes: dict[int, tuple[subprocess.Popen[bytes], Connection]] = {}
        self._count = 0

    def check(self) -> None:
        """Processes can be started everywhere."""

    def start(self, order: Order) -> None:
        """Put the order where all workers find it, in the folder for their temporary files.

        Libraries leave files behind in a process that is killed, and PyTorch Geometric in any.
        """
        self._folder = self._open.enter_context(temporary_folder())
        (self._folder / "order").write_bytes(order.pickled)

    def hire(self) -> int:
        """Start a process, with a socket to talk and a pipe that ends when the driver does."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _WORKER, str(theirs.fileno()),
                 str(self._folder / "order")],
                pass_fds=[theirs.fileno()], stdin=subprocess.PIPE,
                env={**_environment(), "TMPDIR": str(self._folder)},
                start_new_session=True,  # Ctrl+C is for the driver, which then lets its workers go
            )  # fmt: skip
        self._count += 1
        self._processes[self._count] = process, Connection(ours.detach())
        return self._count

    def give(self, worker: int, task: Task) -> None:
        """Send a task; one that has died since is found out by `events`."""
        with contextlib.suppress(OSError):
            self._processes[worker][1].send(task)

    def events(self, timeout: float) -> list[Event]:
        """Wait for answers; a socket that ends is a worker that died."""
        of_connection = {connection: name for name, (_, connection) in self._processes.items()}
        found = []
        arrived: list[Any] = wait(list(of_connection), timeout)
        for connection in arrived:
            name = of_connection[connection]
            try:
                found.append(Event(name, connection.recv()))
            except (EOFError, OSError):
                found.append(Event(name, None, self._bury(name)))
        return found

    def _bury(self, name: int) -> str:
        process, connection = self._processes.pop(name)
        connection.close()
        _end(process)
        code = process.wait()
        if code >= 0:
            return f"its process ended with exit code {code}"
        return f"its process ended by {signal.Signals(-code).name}"

    def close(self) -> None:
        """End all workers."""
        with self._open:
            for process, connection in self._processes.values():
                process.kill()
                connection.close()
            for process, _ in self._processes.values():
                _end(process)
            self._processes.clear()


def check_workers(workers: object) -> None:
    """Refuse a number of workers that is none.

    Raises:
        SettingsError: it is neither None nor a whole number from 1 up.
    """
    if workers is not None and (type(workers) is not int or workers < 1):
        raise SettingsError(f"workers must be a whole number from 1 up, got {workers!r}.")


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(SECONDS_TO_GO)
    except subprocess.TimeoutExpired:  # it closed its socket, or hangs in the kernel
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _environment() -> dict[str, str]:
    """Variables of a worker: it finds the modules that this process finds, and uses one core."""
    here = [str(Path(entry or ".").absolute()) for entry in sys.path]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**threads, **os.environ, "PYTHONPATH": os.pathsep.join(here)}


# The process of a worker.


def work() -> None:
    """Open what the order says, then do tasks until the driver is gone."""
    # The driver holds the other end of standard input and never writes: it ends with the driver,
    # however that ends, and nobody is left to work for.
    threading.Thread(target=_until_the_driver_ends, daemon=True).start()
    with Connection(int(sys.argv[1])) as driver:
        worker = Worker()
        driver.send(worker.open(Path(sys.argv[2]).read_bytes()))
        # Tasks are taken in while others are done: a driver that waits to hand over a large one
        # would not read our answer, and we would wait for it in turn.
        tasks: SimpleQueue[Task] = SimpleQueue()
        threading.Thread(target=_take_in, args=(driver, tasks), daemon=True).start()
        while True:
            driver.send(worker.run(tasks.get()))


def _take_in(driver: Connection, tasks: SimpleQueue[Task]) -> None:
    try:
        while True:
            tasks.put(driver.recv())
    except (EOFError, OSError):
        os._exit(0)  # the driver is gone


def _until_the_driver_ends() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)
