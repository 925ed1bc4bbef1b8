"""The audit in the explorer: the links behind its figures, and audits made link by link."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from support.chains_of_books import LINK, WalkModel, scenes
from support.two_models import QUICK, some_links, two_models

from pagelink import PaGELink, errors
from pagelink.audit.comparison import compare
from pagelink.audit.result import Audit
from pagelink.audit.wording import cautions
from pagelink.web.app import make_app
from pagelink.web.audited import AuditPage, page_of
from pagelink.web.explorer import Explorer

LINKS = 9
FIGURE = re.compile(r'data-figure="([\w-]+)">(.+?)</a>')


@pytest.fixture(scope="module")
def audit() -> Audit:
    return two_models().explainer.audit(some_links(LINKS))


@pytest.fixture(scope="module")
def page(audit: Audit) -> AuditPage:
    return page_of(audit)


def test_every_figure_opens_as_many_links_as_it_says(audit: Audit, page: AuditPage) -> None:
    figures = FIGURE.findall(page.html)
    kinds = set()
    for key, text in figures:
        found = page.figures[key]
        kinds.add(key.split("-")[0])
        number = re.search(r"\d+", text)
        if key.startswith(("part", "interaction", "all")):
            assert len(found.links) == LINKS
        else:
            assert number is not None
            assert len(found.links) == int(number.group()), (key, text)
        assert len(found.links) == len(set(found.links))
        assert len(found.values) in (0, len(found.links))
    assert kinds >= {"all", "part", "interaction", "verdict", "carried", "has", "node", "group"}
    assert "data-figure" not in audit.to_html()
    assert "<a " not in audit.to_html()


def test_the_links_of_a_figure_are_those_it_is_about(audit: Audit, page: AuditPage) -> None:
    assert [link.src_name for link in page.links] == [row.src_name for row in audit.rows]
    part = page.figures["part-path_facts"]
    values = [row.game.parts["path_facts"].value for row in audit.rows if row.game]
    assert part.links == sorted(range(LINKS), key=lambda i: (-values[i], i))
    mean = sum(float(v.replace("\N{MINUS SIGN}", "-")) for v in part.values) / LINKS
    assert mean == pytest.approx(audit.parts["path_facts"].mean, abs=0.01)
    node = audit.nodes[0]
    opened = page.figures["node-0"]
    assert sorted(opened.links) == sorted(node.rows)
    for place, value in zip(opened.links, opened.values, strict=True):
        effects = [each.effect for each in audit.rows[place].nodes if each.nodes == node.nodes]
        assert value.lstrip("+\N{MINUS SIGN}") == f"{abs(effects[0]):.2f}"
    group = next(i for i, each in enumerate(audit.groups) if each.by.startswith("degree of the t"))
    assert page.figures[f"group-{group}"].links == list(audit.groups[group].rows)


@pytest.mark.parametrize(
    ("walked", "facts", "dst", "key"),
    [
        ("owns", [(0, "owns", 0), (0, "owns", 1), (0, "by", 0), (1, "by", 0)], 0, "direct-0"),
        ("owns cites", [(0, "owns", 1), (3, "by", 0), (0, "owns", 2), (2, "cites", 4)], 4,
         "record-0"),
    ],
)  # fmt: skip
def test_what_may_be_a_leak_opens_its_links(
    walked: str, facts: list[tuple[int, str, int]], dst: int, key: str
) -> None:
    data = scenes(facts, count=4)
    size = data["reader"].num_nodes // 4
    explainer = PaGELink(WalkModel(walked, slope=4.0), data, LINK, QUICK, threshold=None)
    # The last one is joined by nothing.
    links = [*((size * i, size * i + dst) for i in range(4)), (0, size + dst)]
    made = explainer.audit(links)
    page = page_of(made)
    assert cautions(made)[0].key == key
    assert page.figures[key].links == [0, 1, 2, 3]
    for caution in cautions(made):
        assert f'data-figure="{caution.key}">{caution.num_links} link' in page.html
        assert len(page.figures[caution.key].links) == caution.num_links
        assert caution.text in str(made)


def test_an_audit_comes_back_from_its_file(audit: Audit, tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    file.write_text(json.dumps(audit.to_dict()), "utf-8")
    assert Audit.read(file) == audit
    assert Audit.read(file).to_html() == audit.to_html()
    broken = audit.to_dict()
    del broken["rows"][0]["game"]["base"]
    file.write_text(json.dumps(broken), "utf-8")
    with pytest.raises(errors.SettingsError, match="missing or wrong: KeyError"):
        Audit.read(file)


def test_one_that_is_given_is_shown_at_once(audit: Audit, page: AuditPage) -> None:
    explorer = two_models(audit)
    assert explorer.about.audit == "given"
    answer = explorer.audits.audit(20, 0)
    assert (answer.done, answer.total, answer.page) == (2 * LINKS, 2 * LINKS, page)
    assert explorer.audits.saved(20) == audit


def test_an_audit_of_something_else_is_refused(audit: Audit) -> None:
    with pytest.raises(errors.SettingsError, match="the model predicts user likes item"):
        two_models(replace(audit, link_type=("user", "buys", "item")))
    renamed = replace(audit.rows[2], dst_name="Nowhere")
    with pytest.raises(errors.SettingsError, match="made on another graph: its item"):
        two_models(replace(audit, rows=(*audit.rows[:2], renamed, *audit.rows[3:])))
    far = replace(audit.rows[0], src=("user", 999))
    with pytest.raises(errors.SettingsError, match="made on another graph: its user 999"):
        two_models(replace(audit, rows=(far, *audit.rows[1:])))


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same, numbers but for rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, abs=1e-5, nan_ok=True)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def test_link_by_link_it_is_the_same_audit(audit: Audit, page: AuditPage, tmp_path: Path) -> None:
    explorer = two_models()
    assert explorer.about.audit == "run"
    with TestClient(make_app(explorer), base_url="http://127.0.0.1") as client:
        done = []
        answer = {"done": 0, "page": None}
        while answer["page"] is None:
            answer = client.get(f"/api/audit?links={LINKS}&done={answer['done']}").json()
            assert answer["total"] == 2 * LINKS
            if answer["page"] is None:
                early = client.get(f"/api/audit/json?links={LINKS}")
                assert (early.status_code, early.json()["code"]) == (404, "not_found")
            done.append(answer["done"])
            assert client.get("/api/targets?src=0").status_code == 200
        assert done == list(range(1, 2 * LINKS + 1))
        assert alike(answer["page"]["links"], page.model_dump()["links"])
        assert answer["page"]["figures"] == page.model_dump()["figures"]
        # Only the title and the seconds are others.
        again = client.get(f"/api/audit?links={LINKS}&done={2 * LINKS}").json()
        assert again["page"] == answer["page"]
        # Its files are those of the command: read by `serve --audit` and by `audit --compare`.
        saved = client.get(f"/api/audit/json?links={LINKS}")
        assert saved.headers["content-disposition"] == 'attachment; filename="audit-pagelink.json"'
        file = tmp_path / "audit.json"
        file.write_bytes(saved.content)
        read = Audit.read(file)
        here, there = (
            [asdict(replace(row, seconds=0.0)) for row in each.rows] for each in (read, audit)
        )
        assert alike(here, there)
        assert two_models(read).about.audit == "given"
        assert compare(read, audit).num_common == LINKS
        assert client.get(f"/api/audit/html?links={LINKS}").text == read.to_html()


def test_without_links_there_is_none() -> None:
    explorer = Explorer(two_models().explainer)
    assert explorer.about.audit == "none"
    for ask in (lambda: explorer.audits.audit(20, 0), lambda: explorer.audits.saved(20)):
        with pytest.raises(errors.LinkError, match="No audit was given"):
            ask()
