"""Serves some plain pages under given limits: a script for tests of connections.

Usage: plain_server.py LIMITS_AS_JSON --port PORT
"""

from __future__ import annotations

import asyncio
import json
import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pagelink.web.connections import Limits
from pagelink.web.serving import Guard, address_of, listen, serve


async def _hello(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def _large(_: Request) -> PlainTextResponse:
    return PlainTextResponse("x" * 2**25)  # more than the buffers of both sides hold


async def _slow(request: Request) -> PlainTextResponse:
    await asyncio.sleep(float(request.query_params["seconds"]))
    return PlainTextResponse("done")


async def _length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


if __name__ == "__main__":
    pages = Starlette(
        routes=[
            Route("/", _hello),
            Route("/large", _large),
            Route("/slow", _slow),
            Route("/length", _length, methods=["POST"]),
        ]
    )
    taken = listen("127.0.0.1", int(sys.argv[-1]))
    limits = Limits(**json.loads(sys.argv[1]))
    serve(Guard(pages), taken, lambda: print(address_of(taken), flush=True), limits)
