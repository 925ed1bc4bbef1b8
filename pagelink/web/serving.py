"""What keeps a page to itself: its headers, the hosts it answers to, and the token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qs, quote, unquote_plus

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pagelink.errors import SettingsError
from pagelink.web.connections import Limits

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_LEAST_TOKEN = 16
_QUEUE = 2048
"""Connections that may wait until they are accepted, as far as the system allows."""


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine only.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_binding(host: str, token: str | None) -> None:
    """Refuse to serve beyond this machine without a token.

    Raises:
        SettingsError: there is no token, or it is easily guessed.
    """
    if token is None and not is_loopback(host):
        raise SettingsError(
            f"{host} can be reached from other machines, and everyone there could ask the model. "
            f"Give a token, such as --token {secrets.token_urlsafe(16)}, or serve on 127.0.0.1."
        )
    if token is not None and (len(token) < _LEAST_TOKEN or not token.isascii()):
        raise SettingsError(
            f"A token has at least {_LEAST_TOKEN} letters and digits, got {len(token)}: such as "
            f"{secrets.token_urlsafe(16)}."
        )


class Guard:
    """Sets the headers of every answer, and lets in only who may come in.

    Without a token only requests to a loopback address are answered, so that a page elsewhere
    cannot reach this one under a name of its own that leads here. With one, a request carries it
    as `Authorization: Bearer ...`, as a cookie, or once as `?token=...`, which sets the cookie.

    Args:
        app: the pages.
        token: the token, or None.
        open_paths: the beginnings of addresses that need no token.
    """

    def __init__(
        self, app: ASGIApp, token: str | None = None, open_paths: tuple[str, ...] = ()
    ) -> None:
        self._app = app
        self._token = token
        self._open = open_paths
        # Cookies of all ports of a host lie together: each token has a name of its own.
        mark = hashlib.sha256((token or "").encode()).hexdigest()[:8]
        self.cookie = f"pagelink-token-{mark}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        # Who goes away in the middle of a request is no fault of the pages, and nothing to log.
        with suppress(ClientDisconnect):
            await (self._app if refusal is None else refusal)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        path = scope["path"]
        if self._token is None:
            host = headers.get("host", "")
            name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
            if is_loopback(name):
                return None
            return PlainTextResponse(f"This server does not answer to {name!r}.", 421)
        if path.startswith(self._open):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.get("token", [""])[0]
        if self._is_token(given):
            rest = "&".join(
                part
                for part in scope["query_string"].decode("latin-1").split("&")
                if unquote_plus(part.partition("=")[0]) != "token"
            )
            # The token leaves the address at once: addresses are shared and kept in histories.
            # One slash, since two would lead to another host.
            place = "/" + path.lstrip("/")
            answer = RedirectResponse(place + (f"?{rest}" if rest else ""), 303)
            # `lax` and not `strict`, under which who follows a link in a mail would be refused.
            answer.set_cookie(self.cookie, given, httponly=True, samesite="lax")
            return answer
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
        # Whatever else serves on this host sets cookies of its own, also such as are not proper.
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        if self._is_token(bearer) or self._is_token(cookie):
            return None
        return PlainTextResponse(
            "A token is needed: open the address with ?token=... once, or send it as "
            "'Authorization: Bearer ...'.",
            401,
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())


# Runs an application on an address until it is interrupted.


class _Listening(socket.socket):
    """A socket whose queue is long, however few connections asyncio accepts from it at once."""

    def listen(self, backlog: int = 0) -> None:
        # asyncio has one number for both. Clients beyond a full queue try again after seconds.
        super().listen(max(backlog, _QUEUE))


def listen(host: str, port: int) -> socket.socket:
    """Take an address; port 0 takes any free one.

    Raises:
        SettingsError: the address is taken, or is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only a socket that says TCP is sent on without delay by asyncio: 40 milliseconds per answer.
    taken = _Listening(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host.strip("[]"), port))
    except OSError as error:
        taken.close()
        raise SettingsError(
            f"Cannot serve on {host}, port {port}: {error.strerror or error}. Choose another by "
            "--port; --port 0 takes any that is free."
        ) from error
    taken.listen()
    return taken


def address_of(taken: socket.socket, token: str | None = None) -> str:
    """Return the address to open in a browser, with the token, if there is one."""
    host, port = taken.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    query = "" if token is None else f"?token={quote(token, safe='')}"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/{query}"


def serve(
    app: ASGIApp, taken: socket.socket, started: Callable[[], None], limits: Limits | None = None
) -> None:
    """Serve until interrupted; requests under way are finished first, for some seconds.

    Args:
        app: what is served.
        taken: where, from `listen`.
        started: called when the first request can be answered.
        limits: of the connections; fewer, where a process may not have that many files open.
    """
    limits = (limits or Limits()).fitted()
    config = uvicorn.Config(
        app, http=limits.protocol(), backlog=limits.connections, loop="asyncio", ws="none",
        lifespan="off", log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    started()
    with taken, suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[taken])
