"""The page about many links: what it counts, in any pieces, and that it is safe and readable."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.boxes import HAS_AXE, SCHEMES, SIZES, check_boxes, opened, violations
from support.browser import chromium
from support.drawings import Page
from support.explanations import make_evidence, make_explanation, through

from pagelink.errors import SettingsError
from pagelink.explain.result import Explanation, StrongestFacts
from pagelink.views import table_report
from pagelink.views.rows import SCHEMA, read_rows, to_rows, to_table, write_rows
from pagelink.views.table_report import TableReport


def relied(share: float | None, *, seconds: float = 0.2, **changes: Any) -> Explanation:
    """Two paths along one metapath and one along another, of which only the first is evidence."""
    paths = (
        dataclasses.replace(through(("item", 54), ("user", 4)), share=0.5, is_evidence=True),
        dataclasses.replace(through(("item", 54), ("user", 9)), share=1.7, is_evidence=False),
        dataclasses.replace(through(("item", 7), ("attr", 2)), share=-0.2, is_evidence=False),
    )
    strongest = None if share is None else StrongestFacts((), 2.0, share)
    values = {"evidence": make_evidence(), "strongest": strongest, "seconds": seconds, **changes}
    return make_explanation(*paths, **values)


ALL = [
    relied(0.7),
    relied(0.1, seconds=3.0, src_name="Slow"),
    relied(None, evidence=make_evidence("structure_against")),
    make_explanation(reason="not_connected", message="No way."),
    make_explanation(reason="invalid", message="There is no user <b>Bo</b>.", src_name="<i>Bo</i>"),
    relied(-0.2, reason="out_of_time", message="Time.", seconds=4.0, evidence=None),
    make_explanation(reason="predicted_negative"),
    relied(1.0, direct_relations=("fond_of",)),
]


def rows_of(explanations: list[Explanation]) -> list[dict[str, Any]]:
    return [row for line, each in enumerate(explanations, 2) for row in to_rows(each, line)]


def report_of(*tables: pa.Table) -> TableReport:
    report = TableReport()
    for table in tables:
        report.add(table)
    return report


def told(report: TableReport) -> Page:
    return Page(report.to_html("rows.parquet"))


def cells(page: Page) -> str:
    return page.text("th", "td", "bdi", "span")


def test_metapaths_have_a_column_in_words() -> None:
    first, _, third = to_rows(relied(0.5))
    assert first["metapath"] == "user → buys → item ← buys ← user → buys → item"
    assert third["metapath"] == "user → buys → item → has → attr ← has ← item"
    (none,) = to_rows(make_explanation(reason="not_connected"))
    assert none["metapath"] is None


def test_what_it_counts() -> None:
    report = report_of(to_table(rows_of(ALL)))
    assert (report.num_links, report.with_paths) == (8, 5)
    assert report.verdicts == {"supported": 3, "structure_against": 1}
    assert set(report.reasons.values()) == {1}
    assert report.microseconds == 8_350_000
    both, other = report.metapaths.values()
    assert (both.links, both.relied, both.shares) == (5, 3, 10)
    assert both.millionths == 7_500_000
    assert (other.links, other.relied, other.millionths) == (5, 0, 0)
    page = told(report)
    assert "5 of 8 links (62 %) have paths." in page.text("p")
    assert "3 of 4 links with a verdict (75 %)" in page.text("p")
    said = cells(page)
    assert "Reason: no chain of facts connects source and target" in said
    assert "The paths carry the prediction" in said
    assert "75 %" in said
    assert "There is no user <b>Bo</b>." in said


def test_the_worst_and_the_slowest_come_first() -> None:
    report = report_of(to_table(rows_of(ALL)))
    assert [row["line"] for row in report.weakest.rows()] == [7, 3, 2, 9]
    assert [row["line"] for row in report.slowest.rows()][:2] == [7, 3]
    assert [row["line"] for row in report.late.rows()] == [7]
    said = cells(told(report))
    assert said.index("nothing") < said.index("10 %") < said.index("70 %")
    assert "Slow → likes → Item 35" in said
    many = report_of(to_table(rows_of([make_explanation(reason="invalid")] * 25)))
    assert [row["line"] for row in many.errors.rows()] == [*range(2, 12)]
    assert "and 15 further links." in told(many).text("p")


def test_a_relation_that_may_be_the_link_is_pointed_out() -> None:
    report = report_of(to_table(rows_of([ALL[-1]] * 3)))
    assert "--exclude-relation fond_of" in told(report).text("p")
    assert "--exclude-relation" not in told(report_of(to_table(rows_of(ALL)))).text("p")


@pytest.mark.parametrize("seed", range(5))
def test_pieces_do_not_count(seed: int) -> None:
    """Rows of a link may be in two tables; parts of a folder may come in any order."""
    whole = to_table(rows_of(ALL))
    draw = random.Random(seed)
    places = sorted(draw.sample(range(1, whole.num_rows), 6))
    pieces = [
        whole.slice(first, last - first)
        for first, last in zip([0, *places], [*places, whole.num_rows], strict=True)
    ]
    page = report_of(whole).to_html("x")
    assert report_of(*pieces).to_html("x") == page
    links = [to_table(to_rows(each, line)) for line, each in enumerate(ALL, 2)]
    draw.shuffle(links)
    assert report_of(*links).to_html("x") == page


def test_what_is_kept_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_report, "MOST_METAPATHS", 3)
    row = to_rows(ALL[0], 2)[0]
    rows = [{**row, "line": n, "metapath": f"m{n}"} for n in range(200)]
    report = report_of(*(to_table([each]) for each in rows))
    assert (len(report.metapaths), report.other_paths) == (3, 197)
    assert len(report.weakest.links) == len(report.slowest.links) == table_report.LISTED
    assert "197 paths along metapaths that came after the first 3" in told(report).text("p")


def test_names_are_escaped_and_the_page_needs_nothing() -> None:
    html = report_of(to_table(rows_of(ALL))).to_html("<x>.csv")
    assert "<b>Bo" not in html
    assert "&lt;i&gt;Bo" in html
    assert "Made from &lt;x&gt;.csv" in html
    assert "script" not in Page(html).tags
    assert not [value for _, name, value in Page(html).attributes if name in ("src", "href")]


def test_no_links_at_all() -> None:
    assert "The table has no links." in told(report_of(SCHEMA.empty_table())).text("p")


@pytest.mark.parametrize("form", ["parquet", "csv", "tsv", "jsonl"])
def test_rows_are_read_back(form: str, tmp_path: Path) -> None:
    odd = relied(0.4, src_name="=1+1", dst_name='a "b",\nc\td', direct_relations=("x,y",))
    table = to_table(rows_of([*ALL, odd]))
    file = tmp_path / f"rows.{form}"
    write_rows([table.slice(0, 4), table.slice(4)], file)
    read = pa.concat_tables(read_rows(file))
    assert read.to_pylist() == table.to_pylist()
    assert read.schema == SCHEMA


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "line,src\n1,2\n", "no column"),
        ("a.jsonl", '{"line": 1}\n', "no column"),
        ("a.jsonl", "{", "cannot be read"),
        ("a.parquet", "PAR1", "cannot be read"),
        ("a.csv", "", "cannot be read"),
    ],
)
def test_other_files_are_refused(name: str, content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SettingsError, match=words):
        list(read_rows(tmp_path / name))
    with pytest.raises(SettingsError, match="no file"):
        list(read_rows(tmp_path / f"other-{name}"))


def test_it_fits_a_phone_and_a_desk(tmp_path: Path) -> None:
    long = relied(0.2, src_name="Anextremelylongnamewithoutanyspaceinit" * 4)
    file = tmp_path / "report.html"
    file.write_text(report_of(to_table(rows_of([*ALL, long] * 3))).to_html("rows.csv"), "utf-8")
    with chromium() as browser:
        for width in SIZES:
            for scheme in SCHEMES:
                page = opened(browser, width, scheme)
                page.goto(file.as_uri())
                check_boxes(page)
                if HAS_AXE:
                    assert violations(page) == []
                ink, paper = page.evaluate(
                    "[getComputedStyle(document.body).color, "
                    "getComputedStyle(document.querySelector('main')).backgroundColor]"
                )
                assert (ink < paper) == (scheme == "light"), (ink, paper)
                page.context.close()
