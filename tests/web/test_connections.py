"""Connections that send nothing, or not all, or take nothing: the others are answered."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from support import study_people
from support.browser import Served

from pagelink.web.connections import Limits

HALF = b"GET / HTTP/1.1\r\nHost: "
WHOLE = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
NO_BODY = b"POST /length HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab"
LONG = 60.0
"""Seconds that no test takes."""


@contextmanager
def served(open_files: int | None = None, **limits: float) -> Iterator[Served]:
    """A server of plain pages, with time limits that do not matter unless they are given."""
    given = {"idle": LONG, "arriving": LONG, "stalled": LONG, **limits}
    with Served(json.dumps(given), script="plain_server.py", open_files=open_files) as server:
        yield server


def connect(server: Served, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), 20, (source, 0))
    made.sendall(sent)
    return made


def get(server: Served) -> httpx.Response:
    return httpx.get(server.address, timeout=20, trust_env=False)


def ends_with(connection: socket.socket, text: bytes) -> bool:
    """Wait for an answer, which may come in parts."""
    received = b""
    while not received.endswith(text):
        part = connection.recv(2**16)
        if not part:
            return False
        received += part
    return True


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server closes a connection, whatever it said before."""
    try:
        while connection.recv(2**16):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    finally:
        connection.settimeout(20)


@pytest.mark.parametrize("which", ["study", "explorer"])
def test_half_sent_requests_lock_nobody_out(tmp_path: Path, which: str) -> None:
    # 128 files are fewer than the connections below; macOS has 256 by default.
    if which == "study":
        path = study_people.write(tmp_path / "study.db")
        server = Served("study", "serve", path, open_files=128)
    else:
        server = Served("0", script="slow_explorer.py", open_files=128)
    with server, ExitStack() as kept:
        for number in range(160):
            kept.enter_context(connect(server, HALF, f"127.0.0.{2 + number % 4}"))
        assert get(server).status_code == 200
        server.process.send_signal(signal.SIGINT)
        server.process.communicate(timeout=20)
        assert server.process.returncode == 0
        assert server.log.read_text() == ""


@pytest.mark.parametrize(
    ("sent", "limit"),
    [(b"", "idle"), (WHOLE % b"", "idle"), (HALF, "arriving"), (NO_BODY, "arriving"),
     (WHOLE % b"large", "stalled")],
    ids=["nothing", "no second request", "half a head", "half a body", "nothing taken"],
)  # fmt: skip
def test_a_client_that_stops_is_closed(sent: bytes, limit: str) -> None:
    with served(**{limit: 0.3}) as server, connect(server, sent) as stopped:
        if limit == "stalled":
            time.sleep(1.0)
        assert is_closed(stopped)
        assert get(server).text == "hello"
        assert server.log.read_text() == ""


@pytest.mark.parametrize("sent", [HALF, NO_BODY.replace(b"5", b"5000")], ids=["head", "body"])
def test_a_request_that_trickles_in_is_closed(sent: bytes) -> None:
    with served(arriving=0.5) as server, connect(server, sent) as slow:
        slow.settimeout(0.05)
        received = b"?"
        for _ in range(400):
            try:
                slow.sendall(b"a")
                received = slow.recv(1)
            except TimeoutError:
                continue
            except ConnectionError:
                received = b""
            break
        assert received == b""


def test_slow_but_steady_clients_are_served() -> None:
    limits = {"idle": 1.5, "arriving": 3.0, "stalled": 1.5}
    with served(**limits) as server, connect(server) as steady:
        for _ in range(4):  # each pause is shorter than its limit; all together are longer
            time.sleep(0.3)
            for part in (HALF, b"localhost\r\n", b"\r\n"):
                steady.sendall(part)
                time.sleep(0.1)
            assert ends_with(steady, b"hello")
        steady.sendall(WHOLE % b"slow?seconds=2")  # the time of the server is not the client's
        assert ends_with(steady, b"done")
        steady.sendall(WHOLE % b"large")
        taken = 0
        while taken < 2**25:
            taken += len(steady.recv(2**21))
            time.sleep(0.1)


def test_the_oldest_waiting_connection_gives_way() -> None:
    with served(connections=4) as server, ExitStack() as kept:
        old = [kept.enter_context(connect(server, HALF)) for _ in range(4)]
        time.sleep(0.3)
        assert get(server).text == "hello"
        assert is_closed(old[0])
        assert all(is_open(each) for each in old[1:])


def test_an_address_with_many_connections_gives_way_first() -> None:
    with served(connections=5, per_address=4) as server, ExitStack() as kept:
        one = kept.enter_context(connect(server, source="127.0.0.2"))
        many = [kept.enter_context(connect(server, HALF, "127.0.0.3")) for _ in range(4)]
        time.sleep(0.3)
        more = kept.enter_context(connect(server, HALF, "127.0.0.3"))
        assert is_closed(many[0])  # a fifth of its address
        time.sleep(0.3)
        assert get(server).text == "hello"  # a sixth in total
        assert is_closed(many[1])
        assert all(is_open(each) for each in (one, more, *many[2:]))


def test_what_cannot_be_answered_is_refused_at_once() -> None:
    with served(connections=2) as server, ExitStack() as kept:
        asked = WHOLE % b"slow?seconds=3"
        busy = [kept.enter_context(connect(server, asked)) for _ in range(2)]
        time.sleep(0.3)
        refused = [get(server) for _ in range(3)]
        for answer in refused:
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
            assert "Try again" in answer.text
        assert all(is_open(each) for each in busy)
        assert all(ends_with(each, b"done") for each in busy)
        assert get(server).text == "hello"


def test_refused_connections_are_bounded_too() -> None:
    with served(connections=2) as server, ExitStack() as kept:
        for _ in range(2):
            kept.enter_context(connect(server, WHOLE % b"slow?seconds=2"))
        time.sleep(0.3)
        silent = [kept.enter_context(connect(server)) for _ in range(6)]
        assert all(is_closed(each) for each in silent[:4])
        assert all(is_open(each) for each in silent[4:])


def test_there_are_fewer_connections_than_open_files() -> None:
    assert Limits().fitted(open_files=10_000) == Limits()
    few = Limits(per_address=7).fitted(open_files=128)
    assert few.per_address == 7
    assert 3 * few.connections < 128 - 32  # and others wait, are accepted, are files
    assert Limits().fitted(open_files=10).connections > 0
