"""The pages of the study, asked without a browser: who gets in, what is taken, what is said."""

from __future__ import annotations

import html
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from support import study_people
from support.study_people import answers

from pagelink.study.app import application
from pagelink.study.database import Study
from pagelink.web.serving import address_of, listen

TOKEN = "a-token-that-is-long-enough"


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    with Study.open(study_people.write(tmp_path / "study.db"), wait=0.2) as opened:
        yield opened


@contextmanager
def client_of(study: Study, token: str | None = None) -> Iterator[httpx.Client]:
    """A client of the pages, served by a thread."""
    taken = listen("127.0.0.1", 0)
    server = uvicorn.Server(
        uvicorn.Config(application(study, token), log_level="critical", lifespan="off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
    thread.start()
    with httpx.Client(base_url=address_of(taken), trust_env=False, timeout=30) as client:
        yield client
    server.should_exit = True
    thread.join()
    taken.close()


@pytest.fixture
def client(study: Study) -> Iterator[httpx.Client]:
    with client_of(study) as made:
        yield made


@pytest.fixture
def key(client: httpx.Client) -> str:
    joined = client.post("/join")
    assert joined.status_code == 303
    return joined.headers["location"].removeprefix("/p/")


def fields_of(page: httpx.Response, choice: str | None = None) -> dict[str, str]:
    """What the form of a page sends, with the first choice if none is named."""
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    choices = re.findall(r'name="choice" id="[^"]*" value="([^"]*)"', page.text)
    return {**hidden, "choice": choice or choices[0]} if choices else hidden


@contextmanager
def held(study: Study) -> Iterator[None]:
    """Somebody else writes to the file, and does not finish."""
    with closing(sqlite3.connect(study.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_a_person_is_led_from_the_first_page_to_the_thanks(
    study: Study, client: httpx.Client, key: str
) -> None:
    assert "Keep it" in client.get("/").text
    assert "This address is yours" in client.get(f"/p/{key}").text
    said = client.post(f"/p/{key}/background", data={"level": "some", "line": "librarian"})
    assert (said.status_code, said.headers["location"]) == (303, f"/p/{key}/1")
    assert study.background(key) == ("some", "librarian")
    for number in range(1, 6):
        page = client.get(f"/p/{key}/{number}")
        assert f"<b>{number}</b> of 5" in page.text
        sent = client.post(f"/p/{key}/answer", data=fields_of(page))
        assert (sent.status_code, sent.headers["location"]) == (303, f"/p/{key}")
        assert len(answers(study.path)) == number
    end = client.get(f"/p/{key}", follow_redirects=True)
    assert end.url.path == f"/p/{key}/thanks"
    assert "All your 5 answers are saved" in end.text


def test_the_background_can_be_left_out(study: Study, client: httpx.Client, key: str) -> None:
    # On a connection of its own: the server closes the one on which it failed.
    assert httpx.get(client.base_url.join(f"/p/{key}/1")).status_code == 200
    skipped = client.post(f"/p/{key}/background", data={"line": ""})
    assert skipped.headers["location"] == f"/p/{key}/1"
    assert study.background(key) == (None, None)


def test_names_stay_text(client: httpx.Client, key: str) -> None:
    for address in ("/", f"/p/{key}", f"/p/{key}/1", "/nowhere"):
        page = client.get(address).text
        assert html.escape(study_people.SCRIPT, quote=False) in page.replace("&#34;", '"')
        assert "<script>" not in page
        assert "<img src=&#34;x" not in page
        assert '<img src="x"' not in page


def test_no_page_names_an_explainer(client: httpx.Client, key: str) -> None:
    for _ in range(5):
        page = client.get(f"/p/{key}/1", follow_redirects=True)
        assert not re.search("gnnexp|degree", page.text)
        client.post(f"/p/{key}/answer", data=fields_of(page))


def test_every_answer_has_the_headers(client: httpx.Client, key: str) -> None:
    for address in ("/", f"/p/{key}", f"/p/{key}/1", "/nowhere", "/static/study.css"):
        headers = client.get(address).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in headers
    # A key in an address is neither stored nor told to other sites.
    page = client.get(f"/p/{key}/1")
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"
    # Nothing in a page needs what the policy forbids.
    assert not re.search(r"<style|\sstyle=|\son\w+=\"|<script(?! type=\"module\" src=)", page.text)


def test_a_second_answer_leaves_the_first(study: Study, client: httpx.Client, key: str) -> None:
    page = client.get(f"/p/{key}/1")
    values = re.findall(r'name="choice" id="[^"]*" value="([^"]*)"', page.text)
    client.post(f"/p/{key}/answer", data=fields_of(page, values[0]))
    again = client.post(f"/p/{key}/answer", data=fields_of(page, values[1]))
    assert (again.status_code, again.headers["location"]) == (303, f"/p/{key}?kept")
    assert [choice for *_, choice in answers(study.path)] == values[:1]
    shown = client.get(again.headers["location"], follow_redirects=True)
    assert "<b>2</b> of 5" in shown.text
    assert "stays as it was" in shown.text


def test_a_question_that_is_answered_leads_to_the_open_one(client: httpx.Client, key: str) -> None:
    for _ in range(2):
        page = client.get(f"/p/{key}/1", follow_redirects=True)
        client.post(f"/p/{key}/answer", data=fields_of(page))
    for number, kept in (("1", True), ("2", True), ("4", False), ("0", False), ("9" * 5000, False),
                         ("x", False), ("thanks", False)):  # fmt: skip
        answer = client.get(f"/p/{key}/{number}")
        location = answer.headers["location"]
        assert (answer.status_code, location) == (303, f"/p/{key}/3{'?kept' if kept else ''}")


@pytest.mark.parametrize("key", ["x" * 22, "short", "%00%ff", "..%2F..", "a" * 5000, "ключ"])
def test_an_unknown_key_gets_a_kind_page(study: Study, client: httpx.Client, key: str) -> None:
    for answer in (
        client.get(f"/p/{key}"),
        client.get(f"/p/{key}/1"),
        client.post(f"/p/{key}/answer", data={"question": "1", "choice": "1"}),
        client.post(f"/p/{key}/background", data={"line": "x"}),
    ):
        assert answer.status_code == 404
        assert "not known here" in answer.text or "no such page" in answer.text
    assert answers(study.path) == []


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, True),
        ({"Origin": "http://elsewhere.org"}, False),
        ({"Origin": "http://127.0.0.1:9999"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "here"}, True),
        ({}, True),
    ],
)
def test_only_forms_of_these_pages_are_taken(
    study: Study, client: httpx.Client, key: str, headers: dict[str, str], taken: bool
) -> None:
    if headers.get("Origin") == "here":
        headers = {"Origin": str(client.base_url).rstrip("/")}
    fields = fields_of(client.get(f"/p/{key}/1"))
    for address in (f"/p/{key}/answer", f"/p/{key}/background", "/join"):
        answer = client.post(address, data=fields, headers=headers)
        assert answer.status_code == (303 if taken else 403)
    assert len(answers(study.path)) == taken


def test_what_is_no_small_form_is_refused(study: Study, client: httpx.Client, key: str) -> None:
    fields = fields_of(client.get(f"/p/{key}/1"))
    address = f"/p/{key}/answer"
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    def status(**sent: object) -> int:
        return client.post(address, **sent).status_code  # type: ignore[arg-type]

    assert status(data={**fields, "more": "x" * 10_000}) == 413
    assert status(content=iter([b"a=b&"] * 5000), headers=form) == 413
    assert status(json=fields) == 415
    assert status(content=b"choice=\xff", headers=form) == 400
    assert status(content=b"a=b&" * 50, headers=form) == 400
    assert status(data={}) == 400
    assert status(data={**fields, "choice": "17"}) == 400
    assert status(data={**fields, "question": "9" * 5000}) == 400
    assert status(data={**fields, "question": "4" * 9}) == 400
    line = client.post(f"/p/{key}/background", data={"line": "x" * 201})
    assert (line.status_code, "at most 200" in line.text) == (400, True)
    level = client.post(f"/p/{key}/background", data={"level": study_people.SCRIPT})
    assert (level.status_code, "<script>" in level.text) == (400, False)
    assert answers(study.path) == []
    assert study.background(key) == (None, None)


def test_with_a_token_strangers_cannot_join_but_links_work(study: Study) -> None:
    key = study.join()
    with client_of(study, TOKEN) as client:
        check_token(client, key)


def check_token(client: httpx.Client, key: str) -> None:
    assert client.get("/").status_code == 401
    assert client.post("/join").status_code == 401
    assert client.get("/static/study.js").status_code == 200
    page = client.get(f"/p/{key}/1")
    assert page.status_code == 200
    assert client.post(f"/p/{key}/answer", data=fields_of(page)).status_code == 303
    assert client.get("/p/" + "x" * 22).status_code == 404

    entered = client.get(f"/?token={TOKEN}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert client.get("/").status_code == 200
    assert client.post("/join").status_code == 303


def test_without_a_token_other_hosts_are_not_answered(client: httpx.Client) -> None:
    assert client.get("/", headers={"Host": "elsewhere.org"}).status_code == 421


def test_a_file_that_is_held_is_said_to_be_busy_and_nothing_is_lost(
    study: Study, client: httpx.Client, key: str
) -> None:
    page = client.get(f"/p/{key}/1")
    fields = fields_of(page)
    with held(study):
        refused = client.post(f"/p/{key}/answer", data=fields)
        for answer in (refused, client.get(f"/p/{key}/1"), client.post("/join")):
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
            assert "not saved yet" in answer.text
    assert answers(study.path) == []
    # The page has a form that sends the same once more.
    assert f'action="/p/{key}/answer"' in refused.text
    assert fields_of(refused) == fields
    sent = client.post(f"/p/{key}/answer", data=fields_of(refused))
    assert sent.status_code == 303
    assert answers(study.path) == [(key, int(fields["question"]), fields["choice"])]


def test_a_fault_costs_one_request_and_tells_nothing(
    study: Study, client: httpx.Client, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(key: str) -> None:
        raise RuntimeError(f"a secret of {key}")

    with monkeypatch.context() as patch:
        patch.setattr(study, "next_page", broken)
        answer = client.get(f"/p/{key}/1")
        assert answer.status_code == 500
        assert "a secret" not in answer.text
        assert "What you had saved before is kept" in answer.text
        assert "script-src 'self'" in answer.headers["content-security-policy"]
    # On a connection of its own: the server closes the one on which it failed.
    assert httpx.get(client.base_url.join(f"/p/{key}/1")).status_code == 200
