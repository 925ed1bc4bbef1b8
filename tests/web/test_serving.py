from __future__ import annotations

import re
import socket
from urllib.parse import quote

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pagelink.errors import SettingsError
from pagelink.web.serving import POLICY, Guard, address_of, check_binding, listen

TOKEN = "a-token-of-enough-letters"


def _hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"hello {request.query_params.get('a', '')}")


def client(token: str | None = None, base_url: str = "http://127.0.0.1:8000") -> TestClient:
    app = Starlette(routes=[Route("/{rest:path}", _hello)])
    return TestClient(Guard(app, token, ("/p/",)), base_url=base_url, follow_redirects=False)


def test_every_answer_has_the_headers() -> None:
    for answer in (client().get("/"), client(base_url="http://evil.example").get("/")):
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert not re.search(r"https?:|\*", POLICY)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "localhost:1", "[::1]:8000"])
def test_this_machine_is_let_in(host: str) -> None:
    assert client().get("/", headers={"host": host}).text == "hello "


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""])
def test_a_name_that_somebody_points_here_is_not(host: str) -> None:
    assert client().get("/", headers={"host": host}).status_code == 421


def test_a_token_is_needed_where_there_is_one() -> None:
    asked = client(TOKEN, "http://any.example")
    assert asked.get("/").status_code == 401
    assert asked.get("/?token=wrong").status_code == 401
    assert asked.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert asked.get("/p/somebody").status_code == 200


def test_the_token_leaves_the_address_and_stays_as_a_cookie() -> None:
    asked = client(TOKEN, "http://any.example")
    answer = asked.get(f"/x?a=1&token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/x?a=1")
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert asked.get("/x?a=1").text == "hello 1"


def test_the_token_leaves_the_address_however_it_is_written() -> None:
    asked = client(TOKEN, "http://any.example")
    assert asked.get(f"/x?to%6ben={TOKEN}").headers["location"] == "/x"


def test_no_address_with_a_token_leads_to_another_host() -> None:
    answer = client(TOKEN, "http://any.example").get(
        f"http://any.example//evil.example?token={TOKEN}"
    )
    assert answer.headers["location"] == "/evil.example"


def test_cookies_that_others_set_on_this_host_do_no_harm() -> None:
    asked = client(TOKEN, "http://any.example")
    others = "a/b=c; x@y=1; broken; "
    cookie = asked.app.cookie
    assert asked.get("/", headers={"cookie": others}).status_code == 401
    assert asked.get("/", headers={"cookie": f"{others}{cookie}={TOKEN}"}).status_code == 200


def test_who_follows_a_link_of_another_site_is_let_in() -> None:
    token = "any+letter/of=these&is quoted"
    asked = client(token, "http://any.example")
    answer = asked.get(f"/?token={quote(token, safe='')}")
    assert "samesite=lax" in answer.headers["set-cookie"].lower()
    assert asked.get("/").status_code == 200


def test_beyond_this_machine_only_with_a_token_worth_the_name() -> None:
    check_binding("127.0.0.1", None)
    check_binding("0.0.0.0", TOKEN)
    with pytest.raises(SettingsError, match="--token"):
        check_binding("0.0.0.0", None)
    with pytest.raises(SettingsError, match="at least 16"):
        check_binding("0.0.0.0", "short")


def test_a_taken_port_is_said_before_any_work() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port}"):
            listen("127.0.0.1", port)
    with pytest.raises(SettingsError, match="Cannot serve"):
        listen("192.0.2.1", 0)
    with listen("127.0.0.1", 0) as taken:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address_of(taken))
