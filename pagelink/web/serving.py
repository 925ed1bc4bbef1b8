"""Runs an application on an address until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import quote

import uvicorn
from starlette.types import ASGIApp

from pagelink.errors import SettingsError


def listen(host: str, port: int) -> socket.socket:
    """Take an address; port 0 takes any free one.

    Raises:
        SettingsError: the address is taken, or is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only a socket that says TCP is sent on without delay by asyncio: 40 milliseconds an answer.
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host.strip("[]"), port))
    except OSError as error:
        taken.close()
        raise SettingsError(
            f"Cannot serve on {host}, port {port}: {error.strerror or error}. Choose another by "
            "--port; --port 0 takes any that is free."
        ) from error
    taken.listen(128)
    return taken


def address_of(taken: socket.socket, token: str | None = None) -> str:
    """Return the address to open in a browser, with the token, if there is one."""
    host, port = taken.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    query = "" if token is None else f"?token={quote(token, safe='')}"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/{query}"


def serve(app: ASGIApp, taken: socket.socket, started: Callable[[], None] | None = None) -> None:
    """Serve until interrupted; requests under way are finished first, for some seconds.

    Args:
        app: what is served.
        taken: where, from `listen`.
        started: called when the first request can be answered.
    """
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=5, lifespan="off",
    )  # fmt: skip
    if started is not None:
        started()
    try:
        uvicorn.Server(config).run(sockets=[taken])
    except KeyboardInterrupt:
        return
    finally:
        taken.close()
