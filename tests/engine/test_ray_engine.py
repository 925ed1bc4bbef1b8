"""The engine of Ray actors, on a real cluster of two nodes, with what can go wrong there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.engine_world import (
    CHUNK,
    NUM_LINKS,
    command,
    expected_rows,
    is_alive,
    make_shop,
    opening,
    parts_of,
    plain,
    wait_until,
)

from pagelink.bench.scale.chaos import LocalCluster
from pagelink.cli.link_tables import SOME_FAILED
from pagelink.engine import explain_table, read_parts

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop"))


@contextmanager
def started(arguments: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive a test that fails: it would be waited for without end."""
    with subprocess.Popen(arguments, **options) as driver:
        try:
            yield driver
        except BaseException:
            driver.kill()
            raise


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster()
    made.env["PYTHONPATH"] += os.pathsep + str(TESTS)  # drivers and nodes import what tests share
    with made as cluster:
        cluster.add_node()
        yield cluster


def test_an_actor_a_node_and_the_driver_die(
    cluster: LocalCluster, shop: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code = "import sys; from pathlib import Path; from support.engine_world import slow_job\n"
    code += "slow_job(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])"
    driver = [sys.executable, "-c", code, str(shop), str(out), cluster.address]
    with started(driver, env=cluster.env) as first:
        wait_until(lambda: parts_of(out) >= 2)
        actors = cluster.processes("ray::Worker")
        assert actors
        os.kill(next(iter(actors)), signal.SIGKILL)
        wait_until(lambda: parts_of(out) >= 4)
        assert len(cluster.processes("/raylet/raylet ")) == 2
        cluster.kill_node(1)
        wait_until(lambda: parts_of(out) >= 8)
        assert len(cluster.processes("/raylet/raylet ")) == 1
        first.send_signal(signal.SIGKILL)
    wait_until(lambda: not cluster.processes("ray::Worker"))  # nobody works for a dead driver
    before = parts_of(out)
    assert 8 <= before < NUM_LINKS // CHUNK
    assert not (out / "summary.json").exists()
    done = subprocess.run(
        command(shop, out, "--engine", "ray", "--address", cluster.address, "--collect"),
        env=cluster.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == SOME_FAILED, done.stderr
    assert f"{before * CHUNK} links were done by an earlier run." in done.stdout
    assert plain(read_parts(out)) == expected_rows(shop)
    assert not list(out.glob(".*"))


def test_a_head_without_cores_and_a_node_that_joins_later(shop: Path, tmp_path: Path) -> None:
    out, silent = tmp_path / "out", "from pagelink.engine import ray_engine as r\n"
    silent += "r.SECONDS_TO_START = 1\nfrom pagelink.cli.main import main; main()"
    with LocalCluster(head_cores=0) as cluster:
        options = ("--engine", "ray", "--address", cluster.address)
        refused = subprocess.run(
            command(shop, out, *options), env=cluster.env, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert refused.returncode == 1
        assert "No machine of the Ray cluster has a core. Give --workers" in refused.stderr
        waiting = command(shop, out, *options, "--workers", "2", "--worker-memory", "0.5")
        waiting[1:3] = ["-c", silent]
        with started(
            waiting, env=cluster.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as driver:
            assert driver.stderr is not None
            assert "No worker is ready after 1 seconds." in driver.stderr.readline()
            assert not cluster.processes("ray::Worker")
            cluster.add_node("--memory", "400000000")  # too little for a worker
            time.sleep(3)
            assert not cluster.processes("ray::Worker")
            cluster.add_node("--memory", "600000000")
            said, errors = driver.communicate(timeout=300)
    assert driver.returncode == SOME_FAILED, errors
    assert "by 1 workers" in said
    assert plain(read_parts(out)) == expected_rows(shop)


def test_asked_to_end_a_driver_keeps_its_parts_and_goes_on(
    cluster: LocalCluster, shop: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code = "import pagelink.engine as engine; from support.engine_world import Slow\n"
    code += "engine.FromFiles = Slow; from pagelink.cli.main import main; main()"
    arguments = command(
        shop, out, "--engine", "ray", "--workers", "1", "--address", cluster.address
    )
    slow = [sys.executable, "-c", code, *arguments[arguments.index("explain") :]]
    with started(
        slow, env=cluster.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as driver:
        wait_until(lambda: parts_of(out) >= 2)
        driver.send_signal(signal.SIGTERM)
        _, said = driver.communicate(timeout=60)
    assert driver.returncode == 1
    assert said.startswith("interrupted")
    wait_until(lambda: not cluster.processes("ray::Worker"))
    before = parts_of(out)
    assert 2 <= before < NUM_LINKS // CHUNK
    assert not list(out.glob(".*"))
    again = explain_table(opening(shop), shop / "pairs.csv", out, chunk=CHUNK)
    assert again.resumed == before * CHUNK
    assert plain(read_parts(out)) == expected_rows(shop)


def test_workers_are_started_on_a_node_that_joins_a_job(
    cluster: LocalCluster, shop: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code = "import sys; from pathlib import Path; from support.engine_world import slow_job\n"
    code += "slow_job(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])"
    driver = [sys.executable, "-c", code, str(shop), str(out), cluster.address]
    with started(driver, env=cluster.env) as job:
        wait_until(lambda: parts_of(out) >= 1)
        before = len(cluster.processes("ray::Worker"))
        cluster.add_node()
        wait_until(lambda: len(cluster.processes("ray::Worker")) == before + 1)
        job.wait(timeout=300)
    assert job.returncode == 0
    assert json.loads((out / "summary.json").read_text())["workers"] == before + 1
    assert plain(read_parts(out)) == expected_rows(shop)


def test_a_wrong_token_is_named(cluster: LocalCluster, shop: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(shop, tmp_path / "out", "--engine", "ray", "--address", cluster.address),
        env={**cluster.env, "RAY_AUTH_TOKEN": "wrong" * 8},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "its token is missing or wrong. Set RAY_AUTH_MODE=token" in done.stderr
    assert not parts_of(tmp_path / "out")


def test_nobody_listens(cluster: LocalCluster, shop: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(shop, tmp_path / "out", "--engine", "ray", "--address", "127.0.0.1:1"),
        env=cluster.env, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "There is no Ray cluster at 127.0.0.1:1" in done.stderr


def test_a_head_that_is_gone_ends_the_job_with_what_to_run(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    code = "import sys; from pathlib import Path; from support.engine_world import slow_job\n"
    code += "from pagelink.engine import ray_engine; ray_engine.SECONDS_WITHOUT_HEAD = 3\n"
    code += "slow_job(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])"
    with tempfile.TemporaryDirectory() as temporary:  # a place that no other process writes to
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr(tempfile, "tempdir", temporary)
        with LocalCluster() as cluster:
            cluster.env["PYTHONPATH"] += os.pathsep + str(TESTS)
            with started(
                [sys.executable, "-c", code, str(shop), str(out), cluster.address],
                env=cluster.env, stderr=subprocess.PIPE, text=True,
            ) as driver:  # fmt: skip
                wait_until(lambda: parts_of(out) >= 1)
                assert list(Path(temporary).glob("pagelink-*"))
                cluster.kill_node(0)
                _, said = driver.communicate(timeout=120)
        left = list(Path(temporary).glob("pagelink-*"))
    assert not left
    assert driver.returncode == 1
    assert "pagelink.errors.EngineError: The head of the Ray cluster" in said
    assert "`ray start --head`, and run the same command again" in said
    assert parts_of(out) >= 1


def test_explain_many_on_a_cluster_of_its_own(shop: Path, tmp_path: Path) -> None:
    code = """
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from support.engine_world import shop_explainer
from pagelink.views.rows import to_rows
explainer, _ = shop_explainer(Path(sys.argv[1]))
links = [(n, (7 * n) % 100) for n in range(12)] + [("Nobody", 3)]
answers = (explainer.explain_many(links, batch_size=4),
           explainer.explain_many(links, batch_size=4, engine="ray", workers=1))
here, there = ([[{**row, "seconds": 0} for row in to_rows(a)] for a in each] for each in answers)
assert len(here) == 13
print("the same" if here == there else "not the same")
import ray
assert not ray.is_initialized()
"""
    folder = tempfile.mkdtemp(prefix="pl-", dir="/tmp")
    env = {
        **os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": folder,
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS), os.environ["PYTHONPATH"]]),
    }  # fmt: skip
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(shop)], env=env, stdout=subprocess.PIPE, text=True
        )
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        assert said.strip().splitlines()[-1] == "the same"
        assert not is_alive(process.pid)
        # PyTorch Geometric leaves a module of its own there, in every process.
        assert not [name for name in os.listdir(folder) if "_propagate_" not in name]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
