"""Connections of a server: bounded in number, and none waits for its client for long.

A client that sends nothing, or a request that never ends, or takes nothing of its answer, costs a
connection. Each wait has a time limit, and when all connections are taken, the one that has waited
for its client the longest gives way to a new one. Only where all of them are being answered is the
new one refused, by status 503.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from uvicorn.protocols.http.h11_impl import H11Protocol

OTHER_FILES = 64
"""Files that may be open beside the connections."""
Phase = Literal["idle", "arriving", "answering", "sending"]
_JUST_MADE = 0.1
"""Seconds that a new connection has at least to begin its request before it gives way."""
_PAUSE = 1.0
"""Seconds after which connections are looked at again, or less if a limit is not far from it."""
_RETRY_AFTER = 2
_REFUSAL = "All connections of this server are busy. Try again in a few seconds.\n"
_REFUSED = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    f"Content-Length: {len(_REFUSAL)}\r\nRetry-After: {_RETRY_AFTER}\r\n"
    f"Cache-Control: no-store\r\nConnection: close\r\n\r\n{_REFUSAL}"
).encode()


@dataclass(frozen=True)
class Limits:
    """How many connections a server has at most, and how long each may wait for its client."""

    connections: int = 256
    """In total. As many again may come, of which each gets a place or is refused."""
    per_address: int = 128
    """From one address. Behind a proxy, all clients have the address of the proxy."""
    idle: float = 75.0
    """Seconds without a request: on a new connection, and after each answer. Longer than proxies
    keep theirs, which is usually 60: they may send a request just when it is closed here."""
    arriving: float = 10.0
    """Seconds from the first byte of a request to its last, however they come."""
    stalled: float = 20.0
    """Seconds in which the client takes nothing of an answer."""

    def fitted(self, open_files: int | None = None) -> Limits:
        """Return the same with no more connections than a process may have open files.

        Args:
            open_files: how many files a process may have open; None: as the system says.

        Example:
            >>> Limits().fitted(open_files=256).connections
            64
        """
        if open_files is None:
            try:
                import resource
            except ImportError:  # Windows, which has no such limit
                return self
            open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            if open_files == resource.RLIM_INFINITY:
                return self
        # Those that have a place, those that wait for one, and those that asyncio accepts at once.
        most = max(1, (open_files - OTHER_FILES) // 3)
        return replace(self, connections=min(self.connections, most))

    def protocol(self) -> type[asyncio.Protocol]:
        """Return what uvicorn makes of each connection of one server, as its setting `http`."""
        return type("LimitedConnection", (Connection,), {"limits": self, "places": Places(self)})


class Places:
    """Who has a place among the connections of one server.

    Args:
        limits: how many there are.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[Connection, None] = {}  # the one that has waited the longest comes first
        self._taken: Counter[str] = Counter()  # by address

    def enter(self, new: Connection) -> None:
        """Take in a connection: with a place if there is one, else to wait for one."""
        self._open[new] = None
        if not self.find(new) and len(self._open) - self._taken.total() > self._limits.connections:
            extra = [each for each in self._open if not each.has_place]
            per_address = Counter(each.address for each in extra)
            max(extra, key=lambda each: per_address[each.address]).end()  # the first of those

    def leave(self, gone: Connection) -> None:
        """Free the place of a connection."""
        if gone in self._open:
            del self._open[gone]
            self._taken[gone.address] -= gone.has_place

    def moved(self, connection: Connection) -> None:
        """Note that a connection has not waited at all."""
        if connection in self._open:
            self._open[connection] = self._open.pop(connection)

    def find(self, new: Connection) -> bool:
        """Give a connection a place, be it that of another one; False if there is none."""
        is_full = self._taken.total() >= self._limits.connections
        address: str | None = None
        if self._taken[new.address] >= self._limits.per_address:
            address = new.address
        elif is_full:
            # Whoever has many connections is not to push out those who have few.
            address, _ = self._taken.most_common(1)[0]
        if address is not None:
            longest = self._longest(address)
            if longest is None and is_full and address != new.address:
                longest = self._longest(None)
            if longest is None:
                return False
            longest.end()
        new.has_place = True
        self._taken[new.address] += 1
        return True

    def _longest(self, address: str | None) -> Connection | None:
        """The connection that has waited for its client the longest, of an address or of all."""
        return next(
            (
                each for each in self._open
                if each.has_place and address in (None, each.address) and each.can_end()
            ),
            None,
        )  # fmt: skip


class Connection(H11Protocol):
    """A connection under limits, which are those of its server: see `Limits.protocol`."""

    limits: ClassVar[Limits]
    places: ClassVar[Places]

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.timeout_keep_alive = self.limits.idle  # type: ignore[assignment]  # an int for uvicorn
        self.has_place = False
        """Else it may get one when its request comes, or is refused."""
        self._seen: tuple[Phase, object] = ("idle", None)
        self._since = self.loop.time()
        self._check: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """Where the client is."""
        return self.client[0] if self.client else ""

    @property
    def phase(self) -> Phase:
        """What the connection waits for: all but "answering" is the client's to do."""
        if self.transport.get_write_buffer_size():
            return "sending"
        if self.cycle is None or self.cycle.response_complete:
            return "arriving" if self.conn.trailing_data[0] else "idle"
        return "arriving" if self.cycle.more_body else "answering"

    def can_end(self) -> bool:
        """Return whether it waits for its client, which had the time to begin."""
        is_begun = self.cycle is not None or self.phase != "idle"
        return self.phase != "answering" and (is_begun or self._waited() > _JUST_MADE)

    def end(self) -> None:
        """Close it at once, also if the client has not taken all that was written."""
        self.places.leave(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, in place of another one if need be."""
        super().connection_made(transport)
        self.places.enter(self)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the connection."""
        self.places.leave(self)
        if self._check is not None:
            self._check.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what was sent; if there is no place still, say so before anything is done."""
        if self.has_place or self.places.find(self):
            super().data_received(data)
            self._waited()
        else:
            self.transport.write(_REFUSED)
            self.transport.close()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._waited()

    def _waited(self) -> float:
        """For how many seconds nothing has changed that was looked at."""
        # A byte more of a request is no step forward, a byte less of an answer is.
        seen = self.phase, self.transport.get_write_buffer_size() or self.cycle
        if seen != self._seen:
            self._seen, self._since = seen, self.loop.time()
            self.places.moved(self)
        return self.loop.time() - self._since

    def _watch(self) -> None:
        """Look again and again whether the connection has waited for too long."""
        limits = self.limits
        limit = {"idle": limits.idle, "arriving": limits.arriving, "sending": limits.stalled}
        waited = self._waited()
        if waited > limit.get(self.phase, waited):
            self.end()
        else:
            pause = min(_PAUSE, *(seconds / 4 for seconds in limit.values()))
            self._check = self.loop.call_later(pause, self._watch)
