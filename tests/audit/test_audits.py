"""An audit as a whole: jobs, workers, the command, the page, and two audits compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.boxes import needs_axe, violations
from support.browser import chromium
from support.engine_world import make_shop
from support.shell import shell

from pagelink import PaGELink, Settings
from pagelink.audit import rows
from pagelink.audit.comparison import compare
from pagelink.audit.figures import read_audit
from pagelink.audit.game import Game
from pagelink.audit.job import LINKS_A_CHUNK, audit_job, audit_links
from pagelink.audit.result import Audit
from pagelink.audit.rows import Row, make_rows, settle, suspects_of
from pagelink.datasets.mechanisms import make_mechanism
from pagelink.engine import Sent
from pagelink.errors import SettingsError
from pagelink.measure.trials import Trials
from pagelink.measure.verdict import PARTS

QUICK = Settings(strongest=False, what_else=False)
NUM_LINKS = LINKS_A_CHUNK + 2


@pytest.fixture(scope="module")
def planted() -> tuple[PaGELink, list[tuple[int, int]]]:
    mechanism = make_mechanism("OR of 3", num_links=NUM_LINKS)
    link_type = mechanism.schema.link_type
    data = mechanism.data
    data["track"].name = [f"<b>Track</b> {i}" for i in range(data["track"].num_nodes)]
    return PaGELink(mechanism.model, data, link_type, QUICK), mechanism.pairs


@pytest.fixture(scope="module")
def audit(planted: tuple[PaGELink, list[tuple[int, int]]]) -> Audit:
    explainer, links = planted
    return audit_links(explainer, [*links, ("nobody", 1)], title="A & B")


def without_time(made: Any) -> list[Row]:
    return [replace(row, seconds=0.0) for row in made]


class StopError(Exception):
    pass


def test_a_job_goes_on_where_it_stopped(
    planted: tuple[PaGELink, list[tuple[int, int]]], audit: Audit, tmp_path: Path
) -> None:
    explainer, links = planted
    given: list[Any] = [*links, ("nobody", 1)]
    parts, told = tmp_path / "audit.html.parts", []

    def stop_at(last: int) -> Callable[[int, int], None]:
        def stop(done: int, total: int) -> None:
            told.append((done, total))
            if done == last:
                raise StopError

        return stop

    # While links are measured, and while what moves several links is tried on each.
    num_steps = 2 * (NUM_LINKS + 1)
    for done, last in ((0, 0), (LINKS_A_CHUNK, NUM_LINKS + 1)):
        stop = stop_at(last + LINKS_A_CHUNK + 1)
        with pytest.raises(StopError):
            audit_job(Sent(explainer), explainer, given, parts, progress=stop)
        assert told[0] == (done, num_steps)
        assert parts.is_dir()
        told.clear()
    # Another job does not take these parts for its own.
    with pytest.raises(SettingsError, match="another job"):
        audit_job(Sent(explainer), explainer, given[:-1], parts)
    found = audit_job(
        Sent(explainer), explainer, given, parts, title="A & B",
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told[0] == (NUM_LINKS + 1, num_steps)
    assert (NUM_LINKS + 1 + LINKS_A_CHUNK, num_steps) in told
    assert (LINKS_A_CHUNK, num_steps) not in told
    assert told[-1] == (num_steps, num_steps)
    assert not parts.exists()
    assert without_time(found.rows) == without_time(audit.rows)
    assert replace(found, rows=(), seconds=0.0) == replace(audit, rows=(), seconds=0.0)


@pytest.mark.slow
def test_workers_come_to_the_same_rows(
    planted: tuple[PaGELink, list[tuple[int, int]]], audit: Audit
) -> None:
    explainer, links = planted
    found = explainer.audit([*links, ("nobody", 1)], engine="processes", workers=2)
    assert without_time(found.rows) == without_time(audit.rows)


def test_a_row_does_not_depend_on_others(
    planted: tuple[PaGELink, list[tuple[int, int]]], audit: Audit
) -> None:
    explainer, links = planted
    (alone,) = make_rows(explainer, links[3:4])
    (same,) = without_time([audit.rows[3]])
    assert without_time([alone])[0].metapaths == same.metapaths
    assert alone.game is not None
    assert same.game is not None
    for part in PARTS:
        assert alone.game.parts[part].value == pytest.approx(same.game.parts[part].value, abs=1e-5)


def test_a_link_that_fails_costs_only_itself(
    planted: tuple[PaGELink, list[tuple[int, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    explainer, links = planted
    real, failing = rows.play, explainer.graph.node_name(explainer.link(*links[1]).dst)

    def play(trials: Trials, link: int) -> Game:
        if explainer.graph.node_name(int(trials.work.batch.link_dst[0])) == failing:
            raise ValueError("no such layer")
        return real(trials, link)

    monkeypatch.setattr(rows, "play", play)
    found = explainer.audit(links[:3])
    assert [row.is_measured for row in found.rows] == [True, False, True]
    assert found.rows[1].message == "Measuring this link failed: ValueError: no such layer"
    assert (found.num_links, found.num_failed) == (2, 1)
    with pytest.raises(SettingsError, match="go with an engine"):
        explainer.audit(links, workers=2)


def test_figures_of_an_audit(audit: Audit) -> None:
    assert (audit.num_links, audit.num_failed) == (NUM_LINKS, 1)
    assert audit.num_finding + audit.num_verifying == NUM_LINKS
    total = audit.base.mean + sum(mean.mean for mean in audit.parts.values())
    assert total == pytest.approx(audit.logit.mean, abs=1e-4)
    carried = [each for each in audit.metapaths if each.num_carried]
    assert len(carried) == 3
    assert {other.words for each in carried for other in each.stand_ins} == {
        each.words for each in carried
    }
    assert "1 link could not be measured." in str(audit)
    assert json.loads(json.dumps(audit.to_dict()))["num_links"] == NUM_LINKS


def test_too_little_time(planted: tuple[PaGELink, list[tuple[int, int]]]) -> None:
    explainer, links = planted
    hasty = explainer.replace(explainer.settings.replace(deadline=1e-6))
    found = hasty.audit(links[:2])
    assert (found.num_links, found.num_failed) == (0, 2)
    assert {row.reason for row in found.rows} == {"out_of_time"}
    (whole,) = make_rows(explainer, links[:1])
    settled = settle(hasty, hasty.link(*links[0]), whole, suspects_of([whole, whole]))
    assert settled == whole
    assert not settled.is_settled


def test_one_link_and_none(planted: tuple[PaGELink, list[tuple[int, int]]]) -> None:
    explainer, links = planted
    found = explainer.audit(links[:1])
    (row,) = found.rows
    assert row.game is not None
    for part in PARTS:
        assert found.parts[part].error == row.game.parts[part].error
    assert max(mean.error for mean in found.parts.values()) > 0
    assert "Metapaths, found on the only link, and not verified on another one:" in str(found)
    assert "2 other chains can stand in for it" in str(found)
    none = explainer.audit([("nobody", 1)])
    assert str(none).splitlines()[2:] == [
        "None of the links could be measured. The first: " + none.rows[0].message
    ]
    assert "None of the links could be measured. The first: There is no" in none.to_html()


def test_a_link_that_is_given_twice_counts_once(
    planted: tuple[PaGELink, list[tuple[int, int]]],
) -> None:
    explainer, links = planted
    src, dst = links[0]
    found = explainer.audit([links[0], links[1], links[0], (f"id:{src}", f"<b>Track</b> {dst}")])
    assert [(row.src[1], row.dst[1]) for row in found.rows] == links[:2]
    assert (found.num_finding, found.num_verifying) == (1, 1)
    assert explainer.explain_group([links[0], links[0]]).num_links == 1


def test_an_audit_of_version_2_is_read(audit: Audit, tmp_path: Path) -> None:
    values = {**audit.to_dict(), "version": 2}
    del values["records"]
    for row in values["rows"]:
        del row["records"]
    (tmp_path / "old.json").write_text(json.dumps(values), "utf-8")
    assert Audit.read(tmp_path / "old.json") == replace(audit, records=None)
    del values["noise"]
    (tmp_path / "old.json").write_text(json.dumps(values), "utf-8")
    with pytest.raises(SettingsError, match="missing or wrong"):
        Audit.read(tmp_path / "old.json")


def test_the_page(audit: Audit) -> None:
    html = audit.to_html()
    assert "<b>Track" not in html
    assert "&lt;b&gt;Track&lt;/b&gt;" in html
    assert "A &amp; B" in html
    for heading in ("What the score is made of", "Which chains of facts carry them",
                    "Do paths carry the predictions?", "For whom it differs"):  # fmt: skip
        assert heading in html
    assert html.count("<svg") > 5
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 390])
def test_the_page_in_a_browser(audit: Audit, tmp_path: Path, width: int, scheme: Any) -> None:
    file = tmp_path / "audit.html"
    file.write_text(audit.to_html(), "utf-8")
    with chromium() as browser:
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
        )
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shown, hidden = (
            (".wide-plot", ".narrow-plot") if width > 640 else (".narrow-plot", ".wide-plot")
        )
        assert page.locator(shown).is_visible()
        assert not page.locator(hidden).is_visible()
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert violations(page) == []


def test_what_a_model_relies_on_now(audit: Audit) -> None:
    mechanism = make_mechanism("metapath", num_links=6)
    explainer = PaGELink(mechanism.model, mechanism.data, mechanism.schema.link_type, QUICK)
    after = explainer.audit(mechanism.pairs)
    found = compare(audit, after)
    saved = "listener → saves → mix → contains → track"
    assert saved not in found.gained
    assert saved not in found.lost
    assert len(found.lost) == 2
    assert all("artist" in words or "label" in words for words in found.lost)
    change = next(each for each in found.metapaths if each.name == saved)
    assert (change.before, change.after) == (pytest.approx(1 / 3), pytest.approx(1))
    assert "Relied on before, and hardly now" in str(found)
    assert found.to_html().count("<section>") >= 4
    same = compare(audit, audit)
    assert same.num_common == NUM_LINKS
    assert not any(part.is_clear for part in same.parts)
    assert (same.gained, same.lost, same.new_facts) == ((), (), ())
    other = replace(after, link_type=("user", "likes", "item"))
    with pytest.raises(SettingsError, match="different links"):
        compare(audit, other)


def test_paired_differences_are_those_of_common_links(audit: Audit) -> None:

    def shifted(row: Row, by: float) -> Row:
        assert row.game is not None
        parts = dict(row.game.parts)
        parts["path_facts"] = replace(parts["path_facts"], value=parts["path_facts"].value + by)
        return replace(row, game=replace(row.game, parts=parts))

    rows = tuple(shifted(row, 1 + 0.1 * (at % 2)) for at, row in enumerate(audit.rows[:4]))
    found = compare(audit, replace(audit, rows=rows))
    first = found.parts[PARTS.index("path_facts")]
    assert found.num_common == 4
    assert first.after - first.before == pytest.approx(1.05)
    assert first.error == pytest.approx(0.1 / 2 / 3**0.5)
    assert first.is_clear
    # One link is too few, and so is what is not noticed.
    one = compare(audit, replace(audit, rows=rows[:1])).parts[PARTS.index("path_facts")]
    assert one.after - one.before > 0.5
    assert not one.is_clear
    tiny = tuple(shifted(row, audit.noise / 2) for row in audit.rows[:4])
    unseen = compare(audit, replace(audit, rows=tiny)).parts[PARTS.index("path_facts")]
    assert unseen.after > unseen.before
    assert not unseen.is_clear


def test_the_command(tmp_path: Path) -> None:
    folder = make_shop(tmp_path)
    base = ["audit", "graph", "--model", "model.pt", "--rank-only"]
    done = shell(*base, "--sample", "3", "--out", "a.html", "--json", "a.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "What the score is made of" in done.stdout
    assert (folder / "a.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    values = read_audit(folder / "a.json")
    assert values["num_links"] == len(values["rows"]) == 3
    assert not list(folder.glob("*.parts"))
    done = shell(
        *base, "--links", "pairs.csv", "--sample", "2", "--json", "b.json", cwd=folder
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = shell("audit", "--compare", "a.json", "b.json", "--out", "c.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Verdicts, of 3 and of 2 links:" in done.stdout
    assert "What the score is made of, in a and in b, over" in done.stdout
    given = ["explain", "graph", "--model", "model.pt", "--src", "User 1", "--dst", "Item 2"]
    done = shell(*given, "--instead", "Item 3", "--svg", "d.svg", "--json", "d.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "For User 1 the model scores Item" in done.stdout
    assert (folder / "d.svg").read_text("utf-8").startswith("<svg")
    stored = json.loads((folder / "d.json").read_text("utf-8"))
    assert {stored["above_name"], stored["below_name"]} == {"Item 2", "Item 3"}
    done = shell(*given, "--instead", "Item 3", "--html", "d.html", cwd=folder)
    assert done.returncode == 2
    assert "Two audits side by side" in (folder / "c.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit"], "Give a graph"),
        (["audit", "graph", "--model", "m.pt"], "--out or --json"),
        (["audit", "graph", "--model", "m.pt", "--out", "a.html", "--workers", "2"], "--engine"),
        (["audit", "graph", "--compare", "a.json", "b.json"], "nothing else"),
        (["audit", "--compare", "a.json", "b.json"], "cannot be read"),
        (["audit", "--compare", "b.json", "b.json"], "is not an audit of version"),
    ],
)
def test_wrong_options(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("{}")
    done = shell(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
