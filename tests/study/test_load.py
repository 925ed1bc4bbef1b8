"""Many people at once: everyone gets an answer or a clear "busy", and no answer is lost."""

from __future__ import annotations

import re
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from support import study_people
from support.browser import Served
from support.study_people import answers

from pagelink.study.app import WAIT

PEOPLE = 20
LEAST = 2
"""Answers that each of them saves, however slow the machine is."""
Answer = tuple[str, int, str]


class Person:
    """Somebody who clicks without a pause, sometimes twice, and comes again when done."""

    def __init__(self, number: int, address: str, seconds: float) -> None:
        self.number, self.address, self.seconds = number, address, seconds
        self.saved: list[Answer] = []
        self.keys: list[str] = []
        self.busy = 0

    def run(self, together: threading.Barrier) -> None:
        # Certificates are not needed here, and take long to read for twenty at once.
        with httpx.Client(base_url=self.address, timeout=60, verify=False) as client:
            together.wait()
            until = time.monotonic() + self.seconds
            page = None
            while time.monotonic() < until or len(self.saved) < LEAST:
                if page is None or page.url.path.endswith("/thanks"):
                    page = self.joined(client)
                else:
                    page = self.answered(client, page)

    def joined(self, client: httpx.Client) -> httpx.Response | None:
        made = client.post("/join")
        if self.is_busy(made):
            return None
        assert made.status_code == 303
        self.keys.append(made.headers["location"].removeprefix("/p/"))
        return self.open(client)

    def open(self, client: httpx.Client) -> httpx.Response:
        page = client.get(f"/p/{self.keys[-1]}/1", follow_redirects=True)
        while self.is_busy(page):
            page = client.get(f"/p/{self.keys[-1]}/1", follow_redirects=True)
        return page

    def answered(self, client: httpx.Client, page: httpx.Response) -> httpx.Response:
        key = self.keys[-1]
        question = int(re.findall(r'name="question" value="(\d+)"', page.text)[0])
        choices = re.findall(r'name="choice" id="[^"]*" value="([^"]*)"', page.text)
        choice = choices[self.number % len(choices)]
        sent = {"question": str(question), "choice": choice}
        answer = client.post(f"/p/{key}/answer", data=sent)
        if self.is_busy(answer):
            return page  # and the same once more
        assert answer.headers["location"] == f"/p/{key}"
        self.saved.append((key, question, choice))
        if question % 2:
            other = client.post(f"/p/{key}/answer", data={**sent, "choice": choices[0]})
            assert self.is_busy(other) or other.headers["location"] == f"/p/{key}?kept"
        return self.open(client)

    def is_busy(self, answer: httpx.Response) -> bool:
        assert answer.status_code in (200, 303, 503), answer.text
        if answer.status_code != 503:
            return False
        assert "not saved yet" in answer.text
        assert answer.headers["retry-after"]
        self.busy += 1
        return True


@pytest.mark.parametrize("held", [False, True])
def test_twenty_people_at_once_lose_nothing(tmp_path: Path, held: bool) -> None:
    path = study_people.write(tmp_path / "study.db", best=4, forecasts=4)
    with Served("study", "serve", path) as server:
        seconds = WAIT + 4 if held else 3.0
        people = [Person(number, server.address, seconds) for number in range(PEOPLE)]
        together = threading.Barrier(PEOPLE + 1)
        with ThreadPoolExecutor(PEOPLE) as pool:
            running = [pool.submit(person.run, together) for person in people]
            together.wait()
            if held:
                time.sleep(1)
                hold(path, WAIT + 1)
            for one in running:
                one.result()
        server.process.send_signal(signal.SIGINT)
        said, _ = server.process.communicate(timeout=20)
        assert server.process.returncode == 0
        said += server.log.read_text()
    saved = sorted(answer for person in people for answer in person.saved)
    assert sorted(answers(path)) == saved
    assert all(len(person.saved) >= LEAST for person in people)
    assert not held or any(person.busy for person in people)
    assert not any(key in said for person in people for key in person.keys)


def hold(path: Path, seconds: float) -> None:
    """Write to the file for longer than the pages wait."""
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        other.execute("ROLLBACK")
