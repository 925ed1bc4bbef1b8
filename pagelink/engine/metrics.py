"""How far a job is, in the text format of Prometheus: in a file, or on a port.

A file is replaced as a whole, as the textfile collector of the node exporter wants it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pagelink.engine.crew import Tally
from pagelink.errors import SettingsError
from pagelink.runtime.files import check_local, write_text

SECONDS_A_FILE = 5.0
"""How often a file is written."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LAST_PORT = 65535


@dataclass
class Metrics:
    """The figures of a job; `explain_table` keeps them up to date."""

    total: int = 0
    done: int = 0
    resumed: int = 0
    tally: Tally = field(default_factory=Tally)
    finished: bool = False
    started: float = field(default_factory=time.time)
    progressed: float = field(default_factory=time.time)
    """When the last link was done."""

    def step(self, done: int, total: int) -> None:
        """Take note of how many links are done."""
        if done != self.done:
            self.progressed = time.time()
        self.done, self.total = done, total

    def text(self) -> str:
        """Return the figures in Prometheus' text format.

        Example:
            >>> print(Metrics(total=9, done=4).text().splitlines()[5])
            pagelink_links_done 4
        """
        tally = self.tally
        figures = [
            ("links", "gauge", "Links of the job.", self.total),
            ("links_done", "gauge", "Links done, those of earlier runs included.", self.done),
            ("links_resumed", "gauge", "Links that earlier runs have done.", self.resumed),
            ("workers", "gauge", "Workers that are ready.", tally.ready),
            ("worker_restarts_total", "counter", "Workers that died and were replaced.",
             tally.restarts),
            ("worker_memory_max_bytes", "gauge",
             "The most memory that one worker had for itself.", tally.memory),
            ("explaining_seconds_total", "counter", "Seconds that workers spent on explaining.",
             tally.work),
            ("worker_seconds_total", "counter", "Seconds of the workers in all.", tally.wall),
            ("start_time_seconds", "gauge", "When this run began, in Unix time.", self.started),
            ("last_progress_time_seconds", "gauge", "When a link was last done, in Unix time.",
             self.progressed),
            ("finished", "gauge", "1 if all links are done, else 0.", int(self.finished)),
        ]  # fmt: skip
        return "".join(
            f"# HELP pagelink_{name} {words}\n# TYPE pagelink_{name} {kind}\n"
            f"pagelink_{name} {value!r}\n"
            for name, kind, words, value in figures
        )


@contextmanager
def published(where: str) -> Iterator[Metrics]:
    """Give figures that are published while the block runs; a file stays, with its last state.

    Args:
        where: a port of this machine, `HOST:PORT` to listen on another of its addresses, or a file.

    Raises:
        SettingsError: nobody can listen there.
    """
    host, _, port = where.rpartition(":")
    metrics = Metrics()
    if port.isdecimal():
        with _serving(metrics, host or "127.0.0.1", int(port)):
            yield metrics
        return
    file = check_local(where)
    over = threading.Event()

    def keep() -> None:
        while not over.wait(SECONDS_A_FILE):
            write_text(file, metrics.text())

    write_text(file, metrics.text())  # what cannot be written is refused before any work
    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield metrics
    finally:
        over.set()
        thread.join()
        write_text(Path(file), metrics.text())


@contextmanager
def _serving(metrics: Metrics, host: str, port: int) -> Iterator[None]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in ("/metrics", "/"):
                self.send_error(404)
                return
            content = metrics.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody wants to read in the log of a job that it was looked at."""

    if port > _LAST_PORT:
        raise SettingsError(f"A port is a number up to {_LAST_PORT}, got {port}.")
    try:
        server = ThreadingHTTPServer((host, port), Answer)
    except OSError as error:
        raise SettingsError(
            f"Metrics cannot be published on {host}:{port}: {error.strerror}. Choose another port."
        ) from error
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
