"""`pagelink study` on the command line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.studies import make_study
from typer.testing import CliRunner

from pagelink.cli.main import app
from pagelink.errors import SettingsError, StudyError
from pagelink.study.database import Study


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["study", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["study", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 2
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "study.db"
    make_study(made, best=5, forecasts=5).close()
    return made


def test_invited_people_have_a_link_each(path: Path) -> None:
    links = run("invite", path, "--count", 3, "--address", "https://example.org/").split()
    assert len(set(links)) == 3
    with Study.open(path) as study:
        for link in links:
            address, key = link.rsplit("/p/", 1)
            assert address == "https://example.org"
            assert study.is_participant(key)
    assert "http" in refused("invite", path, "--address", "example.org")


def test_simulate_and_report(path: Path, tmp_path: Path) -> None:
    with Study.open(path) as study:  # a real answer, which must not come along
        key = study.join()
        page = study.next_page(key)
        assert page is not None
        study.answer(key, page.question, page.choices[0][0])
    before = path.read_bytes()
    out = tmp_path / "copy.db"
    run("simulate", path, "--out", out, "--people", 8, "--like", "pagelink=0.7,none=0.3",
        "--understanding", "without=0.3,with=0.9", "--seed", 4)  # fmt: skip
    assert path.read_bytes() == before
    files = {kind: tmp_path / f"report.{kind}" for kind in ("json", "html", "csv")}
    said = run("report", out, *(part for k, f in files.items() for part in (f"--{k}", f)))
    assert "These people are simulated" in said
    assert "8 of 8 people answered 80 times" in said
    assert "pagelink" in said
    figures = json.loads(files["json"].read_text())
    assert figures["answers"] == 80
    assert figures["simulated"]["like"] == {"pagelink": 0.7, "none": 0.3}
    assert files["html"].read_text().startswith("<!DOCTYPE html>")
    assert len(files["csv"].read_text().splitlines()) == 81
    with pytest.raises(StudyError, match="may hold answers"):
        run("simulate", path, "--out", out)


def test_a_report_of_nothing(path: Path) -> None:
    assert "Nobody has answered yet" in run("report", path)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--like", "pagelink=0.5", "adds up to 1"),
        ("--like", "pagelnk=1", "Did you mean 'pagelink'"),
        ("--like", "pagelink", "name=0.6"),
        ("--like", "pagelink=2,none=-1", "between 0 and 1"),
        ("--understanding", "with=1.5", "between 0 and 1"),
        ("--understanding", "none=0.5", "understanding is about"),
        ("--agree", "2", "between 0 and 1"),
    ],
)
def test_wrong_behaviour_is_refused_before_a_file_is_made(
    path: Path, tmp_path: Path, option: str, value: str, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        run("simulate", path, "--out", tmp_path / "out.db", option, value)
    assert not (tmp_path / "out.db").exists()


def test_reports_do_not_replace_the_study(path: Path) -> None:
    assert "is an input" in refused("report", path, "--csv", path)


def test_wrong_create_is_refused_before_any_work(tmp_path: Path) -> None:
    out = tmp_path / "s.db"
    assert "--demo alone" in refused("create", "--out", out)
    assert "--demo alone" in refused("create", tmp_path, "--out", out)
    assert "--demo alone" in refused("create", tmp_path, "--model", "m", "--demo", "--out", out)
    assert "--difference" in refused("create", "--demo", "--out", out, "--difference", 1)
    with pytest.raises(SettingsError, match="Did you mean 'pgexp'"):
        run("create", "--demo", "--out", out, "--explainers", "pagelink,pgexpl")
    out.write_text("x")
    with pytest.raises(StudyError, match="may hold answers"):
        run("create", "--demo", "--out", out)


def test_a_study_of_the_demo_is_made(tmp_path: Path) -> None:
    out = tmp_path / "s.db"
    said = run("create", "--demo", "--links", 3, "--forecasts", 2, "--out", out,
               "--explainers", "degree,random", "--per-person", 4)  # fmt: skip
    assert "3 links, each explained by 2 explainers" in said
    assert "778 answers are enough" in said
    assert "with 3 each" in said  # and not 4, as there are 3 links
    with closing(sqlite3.connect(out)) as connection:
        kinds = connection.execute("SELECT kind, COUNT(*) FROM question GROUP BY kind").fetchall()
    assert kinds == [("best", 3), ("forecast", 2)]
    with Study.open(out) as study:
        assert study.about.per_person == 4
        assert study.about.explainers == ("degree", "random-paths")
