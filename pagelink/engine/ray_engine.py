"""Workers that are Ray actors, on all machines of a cluster."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from pagelink.engine.processes import check_workers
from pagelink.engine.tasks import Task
from pagelink.engine.worker import Event, Order, Worker
from pagelink.errors import EngineError, SettingsError, need
from pagelink.runtime.files import temporary_folder

SECONDS_TO_ANSWER = 10.0
SECONDS_A_LOOK = 2.0
"""How often we look whether the head of the cluster is there."""
SECONDS_WITHOUT_HEAD = 20.0
"""How long it may be away; after 60 seconds Ray ends the process without a word of ours."""
SECONDS_TO_START = 60.0
"""After which we say that no worker is ready."""
SMALL_STORE = 128 * 2**20
"""Of a cluster that we start; only the order, and rows on their way, lie in it."""
LONGEST_FOLDER = 40
"""Characters; the names of sockets, of at most 107, begin with the folder of a cluster."""


class Ray:
    """An engine of Ray actors, one core each, spread over the machines of a cluster.

    An actor that dies, with its process or its machine, is replaced by us, so that we know what it
    was at.

    Args:
        address: of a running cluster: `auto`, `host:port` or `ray://host:port`. None: the one this
            process is connected to, else one that is started on this machine and ends with the job.
        workers: how many; those that find no core wait for a machine to join. None: one per core
            of the cluster, whatever machines join and leave it.
        memory: gigabytes that each worker has to itself: a machine gets no more workers than it has
            memory for. None: nothing is requested of Ray, and only cores count.

    Raises:
        SettingsError: the number is below 1, or the memory not above 0.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, memory: float | None = None
    ) -> None:
        check_workers(workers)
        if memory is not None and not 0 < memory < math.inf:
            raise SettingsError(f"The memory of a worker is more than 0 GB, got {memory!r}.")
        self._memory = 0 if memory is None else int(memory * 1e9)
        self._address = address
        self._wanted = workers
        self.size = workers or 0
        self._connected_here = False
        self._folder = ExitStack()
        self._actors: dict[int, Any] = {}
        self._refs: dict[Any, int] = {}
        self._count = 0
        self._head = ""
        self._looked = self._seen = self._silent_since = 0.0

    def check(self) -> None:
        """Refuse to start without Ray.

        Raises:
            MissingExtraError: Ray is not installed.
        """
        need("The engine ray", "ray", "ray")

    def start(self, order: Order) -> None:
        """Connect, and put the order into the cluster once for all workers.

        Raises:
            EngineError: there is no such cluster, it wants another token, or it has no cores and
                the number of workers is not given.
        """
        import ray

        if not ray.is_initialized():
            # Ray takes SIGTERM for itself, and may end by an abort then. Whoever asked for it to
            # be told, as the command line does, is told, and has the actors ended in order.
            with own_signal(signal.SIGTERM):
                self._connect(len(order.pickled))
            self._connected_here = True
        self.size = self._wanted or _room(self._memory)
        if not self.size:
            wanted = f" with {self._memory / 1e9:g} GB of memory for it" if self._memory else ""
            raise EngineError(
                f"No machine of the Ray cluster has a core{wanted}. Give --workers to wait for "
                "machines to join it, or start one with `ray start --address`."
            )
        self._head = ray.get_runtime_context().gcs_address
        self._looked = self._seen = self._silent_since = time.monotonic()
        self._order = ray.put(order.pickled)
        self._actor = ray.remote(
            num_cpus=1, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD",
            memory=self._memory,
        )(Worker)  # fmt: skip

    def _connect(self, size: int) -> None:
        import ray
        from ray.exceptions import AuthenticationError

        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if self._address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            options |= {
                "num_cpus": self._wanted or len(os.sched_getaffinity(0)),
                "include_dashboard": False,
                "object_store_memory": SMALL_STORE + 4 * size,
                "address": "local",
            }
            # Ray leaves its logs behind; in a folder of ours they go with the job.
            folder = str(self._folder.enter_context(temporary_folder()))
            if len(folder) <= LONGEST_FOLDER:
                options["_temp_dir"] = folder
        else:
            options["address"] = self._address
            _check_port(self._address)
        try:
            ray.init(**options)
        except AuthenticationError as error:
            raise EngineError(_about_the_token(self._address)) from error
        except (OSError, RuntimeError, ValueError) as error:
            # Ray says no more than that of a token that is refused; that somebody listens, we know.
            if self._address is not None and "Failed to connect" in str(error):
                raise EngineError(_about_the_token(self._address)) from error
            raise _no_cluster(self._address, str(error).splitlines()[0]) from error

    def hire(self) -> int:
        """Ask for an actor; it starts when the cluster has a core for it."""
        self._count += 1
        actor: Any = self._actor.remote()
        self._actors[self._count] = actor
        self._refs[actor.open.remote(self._order)] = self._count
        return self._count

    def give(self, worker: int, task: Task) -> None:
        """Queue a task at an actor."""
        self._refs[self._actors[worker].run.remote(task)] = worker

    def events(self, timeout: float) -> list[Event]:
        """Wait for answers; a call that ends in an error of Ray's own is an actor that died.

        Raises:
            EngineError: the head of the cluster is gone.
        """
        import ray

        if not self._has_head():  # what dies now is not to be replaced before it is back
            time.sleep(timeout)
            return []
        refs = list(self._refs)
        ready, _ = ray.wait(refs, num_returns=1, timeout=timeout, fetch_local=False)
        if ready:
            ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        arrived = set(ready)
        found, dead = [], {}
        for ref in refs:  # in the order they were given, which is that of the answers
            if ref not in arrived or self._refs[ref] in dead:
                continue
            worker = self._refs[ref]
            try:
                found.append(Event(worker, ray.get(ref)))
                del self._refs[ref]
            except ray.exceptions.RayError as error:
                dead[worker] = str(error).splitlines()[0].rstrip(".: ")
        for worker, how in dead.items():
            self._bury(worker)
            found.append(Event(worker, None, how))
        self._say_if_silent(bool(found))
        return found

    def _say_if_silent(self, heard: bool) -> None:
        """Say once that workers wait for machines, or read a graph for the first time."""
        if heard:
            self._silent_since = math.inf
        elif time.monotonic() - self._silent_since > SECONDS_TO_START:
            self._silent_since = math.inf
            logging.getLogger("pagelink").warning(
                "No worker is ready after %.0f seconds. They still read the graph, or there is no "
                "free core and memory for them, which `ray status` shows. The job waits.",
                SECONDS_TO_START,
            )  # fmt: skip

    def _has_head(self) -> bool:
        """Whether the head was there when we last looked."""
        now = time.monotonic()
        if now - self._looked >= SECONDS_A_LOOK or self._seen < self._looked:
            self._looked = now
            if _is_listening(self._head):
                self._seen = now
                # A cluster without machines may get new ones: a worker waits for them.
                self.size = self._wanted or max(1, _room(self._memory))
        if now - self._seen > SECONDS_WITHOUT_HEAD:
            self._actors.clear()  # nobody is there to end them, or to be told of it
            self._refs.clear()
            raise EngineError(
                f"The head of the Ray cluster, {self._head}, has not answered for "
                f"{SECONDS_WITHOUT_HEAD:.0f} seconds. The parts written so far are kept: start a "
                "cluster with `ray start --head`, and run the same command again with its address; "
                "it makes what is missing."
            )
        return self._seen == self._looked

    def _bury(self, worker: int) -> None:
        import ray

        with suppress(ray.exceptions.RayError, ValueError):
            ray.kill(self._actors[worker])
        del self._actors[worker]
        self._refs = {ref: name for ref, name in self._refs.items() if name != worker}

    def close(self) -> None:
        """End all actors, and the connection if it was made here."""
        with self._folder:
            if not self._actors and not self._connected_here:
                return
            import ray

            for worker in list(self._actors):
                self._bury(worker)
            if self._connected_here:
                ray.shutdown()
                self._connected_here = False


@contextmanager
def own_signal(number: signal.Signals) -> Iterator[None]:
    """Put the handler of a signal back after the block, unless it was the system's own."""
    before = signal.getsignal(number)
    yield
    if callable(before) and threading.current_thread() is threading.main_thread():
        signal.signal(number, before)


def _room(memory: int) -> int:
    """The number of workers that the machines of the cluster have room for, at this moment."""
    import ray

    nodes: Any = ray.nodes()  # type: ignore[no-untyped-call]
    machines = [node["Resources"] for node in nodes if node["Alive"]]
    cores = [int(machine.get("CPU", 0)) for machine in machines]
    if memory:
        fit = [int(machine.get("memory", 0)) // memory for machine in machines]
        cores = list(map(min, cores, fit))
    return sum(cores)


def _check_port(address: str) -> None:
    """Find out in seconds, where Ray takes minutes, that nobody listens."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # `auto`: Ray knows where
    try:
        socket.create_connection((host, int(port)), SECONDS_TO_ANSWER).close()
    except OSError as error:
        raise _no_cluster(address, f"{error}.") from error


def _is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), SECONDS_A_LOOK).close()
    except OSError:
        return False
    return True


def _no_cluster(address: str | None, why: str) -> EngineError:
    return EngineError(
        f"There is no Ray cluster at {address or 'this machine'}: {why} Start one with `ray start "
        "--head`, or leave out --address to use this machine alone."
    )


def _about_the_token(address: str | None) -> str:
    return (
        f"The Ray cluster at {address} answers, but does not let this process in: most "
        "likely its token is missing or wrong. Set "
        "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the cluster's token, or RAY_AUTH_TOKEN_PATH to "
        "a file that holds it (without them, ~/.ray/auth_token is read); on the machine that "
        "started the cluster `ray get-auth-token` shows it."
    )
