"""What a dry run says, and what Prometheus can read of a job."""

from __future__ import annotations

import csv
import socket
import sys
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pagelink import PaGELink
from pagelink.engine import Metrics, Sent, explain_table, forecast, published
from pagelink.engine.tasks import plan
from pagelink.errors import GraphError, SettingsError

NUM_LINKS, CHUNK = 42, 4


@pytest.fixture
def links(tmp_path: Path) -> Path:
    table = tmp_path / "links.csv"
    rows = [("src", "dst"), *((f"User {n}", f"Item {7 * n % 100}") for n in range(NUM_LINKS))]
    with table.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return table


def sizes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("part-*"))


def test_a_dry_run_says_what_the_job_takes(
    explainer: PaGELink, links: Path, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    out = tmp_path / "out"
    expected = forecast(
        Sent(explainer), links, out, chunk=CHUNK, progress=lambda *step: seen.append(step)
    )
    assert not out.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["links.csv"]
    # Eight of the eleven parts, all links of each.
    assert (expected.num_links, expected.sampled) == (NUM_LINKS, 8 * CHUNK)
    assert seen == [(CHUNK * n, 8 * CHUNK) for n in range(1, 9)]
    assert expected.num_parts == 11
    assert 0 < expected.memory < 16
    low, high = expected.hours_range or (0.0, 0.0)
    assert low < expected.hours < high
    assert expected.hours == pytest.approx(NUM_LINKS * expected.per_link / 3600)
    explain_table(Sent(explainer), links, out, chunk=CHUNK)
    assert expected.disk * 1e9 == pytest.approx(sizes(out), rel=0.15)


def test_one_file_takes_its_parts_and_itself(
    explainer: PaGELink, links: Path, tmp_path: Path
) -> None:
    folder = forecast(Sent(explainer), links, tmp_path / "out", chunk=CHUNK)
    file = forecast(Sent(explainer), links, tmp_path / "out.csv", chunk=CHUNK)
    explain_table(Sent(explainer), links, tmp_path / "out.csv", chunk=CHUNK)
    of_file = (tmp_path / "out.csv").stat().st_size
    assert (file.disk - folder.disk) * 1e9 == pytest.approx(of_file, rel=0.25)  # of few links


def test_a_slow_sample_is_cut_short_but_from_all_over_the_table(
    explainer: PaGELink, links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = sys.modules[forecast.__module__]
    monkeypatch.setattr(module, "SECONDS", 0.0)
    expected = forecast(Sent(explainer), links, tmp_path / "out", chunk=CHUNK)
    assert expected.sampled == CHUNK
    assert expected.hours_range is None
    chunks = [task.chunk for task in module._spread(plan(links, CHUNK), 11)]
    assert len(set(chunks)) == 8
    assert chunks[:2] == [0, 5]  # the first part, and one half-way


def test_no_links_no_forecast(explainer: PaGELink, tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("src,dst\n")
    with pytest.raises(GraphError, match=r"links\.csv has no links"):
        forecast(Sent(explainer), tmp_path / "links.csv", tmp_path / "out")


# Metrics.


def read(text: str) -> dict[str, float]:
    """Read figures by Prometheus' own parser."""
    found = [
        (sample.name, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    assert max(Counter(name for name, _ in found).values()) == 1
    return dict(found)


def test_figures_of_a_job_are_in_a_file(explainer: PaGELink, links: Path, tmp_path: Path) -> None:
    file = tmp_path / "pagelink.prom"
    with published(str(file)) as metrics:
        assert read(file.read_text())["pagelink_links"] == 0
        summary = explain_table(
            Sent(explainer), links, tmp_path / "out", chunk=CHUNK, metrics=metrics
        )
    found = read(file.read_text())
    assert found["pagelink_links"] == found["pagelink_links_done"] == NUM_LINKS
    assert found["pagelink_links_resumed"] == 0
    assert found["pagelink_workers"] == 1
    assert found["pagelink_finished"] == 1
    assert found["pagelink_worker_memory_max_bytes"] == pytest.approx(1e9 * summary.memory)
    assert 0 < found["pagelink_explaining_seconds_total"] <= found["pagelink_worker_seconds_total"]
    assert found["pagelink_start_time_seconds"] <= found["pagelink_last_progress_time_seconds"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["links.csv", "out", file.name]
    with published(str(file)) as metrics:
        explain_table(Sent(explainer), links, tmp_path / "out", chunk=CHUNK, metrics=metrics)
    assert read(file.read_text())["pagelink_links_resumed"] == NUM_LINKS


def test_figures_of_a_job_are_on_a_port() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with published(str(port)) as metrics:
        metrics.step(3, 9)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            found = read(answer.read().decode())
        assert (found["pagelink_links_done"], found["pagelink_links"]) == (3, 9)
        with pytest.raises(HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/else")
        taken = f"127.0.0.1:{port}"
        with (
            pytest.raises(SettingsError, match=f"{taken}: Address already in use"),
            published(taken),
        ):
            pass
    with pytest.raises(SettingsError, match="up to 65535, got 65536"), published("65536"):
        pass


def test_figures_change_only_with_progress() -> None:
    metrics = Metrics(progressed=5.0)
    metrics.step(0, 9)
    assert metrics.progressed == 5.0
    metrics.step(1, 9)
    assert metrics.progressed > 5.0
