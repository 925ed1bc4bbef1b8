from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
import torch
from hypothesis import HealthCheck, settings
from starlette.testclient import TestClient
from support.browser import Served
from torch import Tensor

from pagelink import PaGELink
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.measure.verdict import VERDICTS
from pagelink.models.architectures import RGCN
from pagelink.views.verdict_wording import VERDICT_WORDS
from pagelink.web.app import STATIC, make_app
from pagelink.web.explorer import Explorer
from pagelink.web.questions import Questions

PEOPLE = 20


class Fragile(RGCN):
    """A model that breaks on one node."""

    breaks_on = -1

    def forward(self, x_dict: dict[str, Tensor], *given: Any, **named: Any) -> Tensor:
        if self.breaks_on in x_dict["item"].tolist():
            raise RuntimeError("no such embedding\nand a second line")
        return super().forward(x_dict, *given, **named)


def explorer() -> Explorer:
    dataset = generate_useritemattr(
        seed=1, num_users=12, num_items=12, num_attrs=6, num_has=20, num_wanted=4, max_prefers=3,
        items_per_user=8, num_buys=40, min_shared=1,
    )  # fmt: skip
    model = Fragile.for_data(dataset.data, dataset.link_type, paper_split=True, seed=1).eval()
    explainer = PaGELink(model, dataset.data, dataset.link_type, threshold=None)
    links = [(src, dst) for src, dst in dataset.likes.T.tolist()]
    return Explorer(explainer, torch.as_tensor(dataset.likes), sample=lambda count: links[:count])


APP = make_app(explorer())
schema = schemathesis.openapi.from_asgi("/api/openapi.json", APP, headers={"host": "127.0.0.1"})


@schema.parametrize()
@settings(
    max_examples=15, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
def test_the_api_does_what_its_document_says(case: Any) -> None:
    case.call_and_validate(headers={"host": "127.0.0.1"})


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(APP, base_url="http://127.0.0.1") as client:
        yield client


def test_what_is_asked_wrongly_is_said_in_one_form(client: TestClient) -> None:
    for path, status, code, words in (
        ("/api/explanation?src=0&dst=99999", 404, "not_found", "item index must be in 0..11"),
        ("/api/explanation?src=0", 422, "invalid", "dst: Field required"),
        ("/api/explanation?src=0&dst=1&path=3", 422, "invalid", "path: Extra inputs"),
        ("/api/score?src=0&dst=1&off=100000", 404, "not_found", "There is no fact 100000"),
        ("/api/nodes?type=book", 404, "not_found", "there are user, item, attr"),
    ):
        answer = client.get(path)
        assert answer.status_code == status, path
        assert answer.json()["code"] == code
        assert words in answer.json()["message"]


def test_an_address_that_is_none_is_said_in_the_same_form(client: TestClient) -> None:
    for answer, status, code in (
        (client.get("/api/nothing"), 404, "not_found"),
        (client.get("/static/nothing.js"), 404, "not_found"),
        (client.post("/api/about"), 405, "invalid"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.json()["message"]
    assert client.post("/api/about").headers["allow"] == "GET"
    assert client.head("/").status_code == 200


def test_a_request_that_breaks_costs_only_itself(capfd: pytest.CaptureFixture[str]) -> None:
    broken = explorer()
    broken.explainer.predictor.model.breaks_on = 5
    with TestClient(make_app(broken), base_url="http://127.0.0.1") as client:
        answer = client.get("/api/targets?src=0")
        assert (answer.status_code, answer.json()["code"]) == (500, "failed")
        assert answer.json()["message"].endswith("RuntimeError: no such embedding")
        broken.explainer.predictor.model.breaks_on = -1
        assert client.get("/api/targets?src=0").status_code == 200
    assert "no such embedding" in capfd.readouterr().err


def test_a_full_queue_says_busy_and_when_to_come_back() -> None:
    questions = Questions(waiting=1)
    held = threading.Event()
    with TestClient(make_app(explorer(), questions=questions), base_url="http://127.0.0.1") as c:
        questions.ask("held", lambda: held.wait(10))
        while questions._queue:
            time.sleep(0.01)
        waiting = questions.ask("next", lambda: None)
        answer = c.get("/api/targets?src=0")
        assert (answer.status_code, answer.json()["code"]) == (503, "busy")
        assert int(answer.headers["retry-after"]) > 0
        assert c.get("/api/nodes?type=item").status_code == 200, "a search asks no model"
        held.set()
        waiting.future.result(10)
        assert c.get("/api/targets?src=0").status_code == 200


def test_twenty_people_at_once_get_answers_or_busy() -> None:
    """Each clicks through the page for some seconds, against a model that takes its time."""
    answers: Counter[int] = Counter()
    wrong: list[str] = []
    told: dict[str, set[str]] = {}

    def click(person: int, address: str, until: float) -> None:
        with httpx.Client(base_url=address, timeout=30) as client:
            turn = 0
            while time.monotonic() < until:
                src, dst = (person + turn) % 10, (3 * person + turn) % 10
                asked = (
                    f"/api/nodes?type=item&q={turn}", f"/api/sources/{src}",
                    f"/api/targets?src={src}&wait=1",
                    f"/api/explanation?src={src}&dst={dst}&wait=1",
                    f"/api/score?src={src}&dst={dst}&off={turn}&wait=1",
                )[turn % 5]  # fmt: skip
                answer = client.get(asked)
                answers[answer.status_code] += 1
                if answer.status_code not in (200, 202, 503):
                    wrong.append(f"{asked}: {answer.text[:200]}")
                if answer.status_code == 200:
                    told.setdefault(asked, set()).add(answer.text)
                turn += 1

    with Served("0.05", script="slow_explorer.py") as served:
        until = time.monotonic() + 8
        people = [
            threading.Thread(target=click, args=(i, served.address, until)) for i in range(PEOPLE)
        ]
        for person in people:
            person.start()
        for person in people:
            person.join(60)
        assert not any(person.is_alive() for person in people)
        assert served.process.poll() is None
        after = httpx.get(f"{served.address}/api/targets?src=1", timeout=30)
        assert after.status_code in (200, 202)
        assert served.log.read_text() == ""
    assert wrong == []
    assert all(len(texts) == 1 for texts in told.values()), "the same question, the same answer"
    assert answers[200] > PEOPLE


def test_the_page_learns_which_verdicts_are_good_news() -> None:
    script = TestClient(APP, base_url="http://127.0.0.1").get("/static/verdicts.js")
    assert script.headers["content-type"].startswith("text/javascript")
    relied = json.loads(script.text.removeprefix("export const RELIED = ").rstrip(";\n"))
    assert relied == [name for name, words in VERDICT_WORDS.items() if words.is_relied]
    listed = [f'"{verdict}"' for verdict in VERDICTS]
    scripts = {file.name: file.read_text("utf-8") for file in STATIC.glob("*.js")}
    assert not [name for name, text in scripts.items() if any(each in text for each in listed)]
