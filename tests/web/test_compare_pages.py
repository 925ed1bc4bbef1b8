"""The audit and what is compared, in a real browser, against the answers of the server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from support.boxes import SCHEMES, SIZES, check_boxes, needs_axe, opened, violations
from support.browser import Served, chromium

from pagelink import PaGELink, Settings
from pagelink.audit.result import Audit
from pagelink.audit.sampling import predicted_links
from pagelink.datasets.useritemattr import train_useritemattr
from pagelink.models.architectures import RGCN
from pagelink.models.checkpoint import save_checkpoint
from pagelink.tables.load import save_graph

SRC, DST = 0, 69
LINK = f"/?src={SRC}&dst={DST}"
LINKS = 5
QUICK = Settings(strongest=False, what_else=False)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, two models of it, and an audit of the first."""
    folder, trained = tmp_path_factory.mktemp("served"), train_useritemattr(0)
    save_graph(trained.data, folder / "graph")
    other = RGCN.for_data(trained.data, trained.link_type, paper_split=True, seed=5).eval()
    for name, model in (("a.pt", trained.model), ("b.pt", other)):
        save_checkpoint(
            folder / name, model, trained.data, trained.link_type, trained.split, trained.report,
            trained.settings, trained.calibration,
        )  # fmt: skip
    explainer = PaGELink(trained.model, trained.data, trained.link_type, QUICK)
    audit = explainer.audit(predicted_links(trained, LINKS, 0.0, 0))
    (folder / "audit.json").write_text(json.dumps(audit.to_dict()), "utf-8")
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with Served(
        "serve", folder / "graph", "--model", folder / "a.pt", "--compare-model", folder / "b.pt",
        "--audit", folder / "audit.json",
    ) as server:  # fmt: skip
        yield server


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    made = opened(browser, 1440, "light")
    wrong: list[str] = []
    hosts: set[str] = set()
    made.on("console", lambda told: wrong.append(told.text) if told.type == "error" else None)
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    yield made
    made.context.close()
    assert wrong == []
    assert hosts <= {urlsplit(served.address).netloc, ""}


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def answer(page: Page, served: Served, path: str) -> Any:
    found = page.request.get(f"{served.address}/api/{path}")
    assert found.status == 200
    return found.json()


def compared(page: Page) -> None:
    """Wait until both explanations are there, and the drawings."""
    expect(page.locator(".side")).to_have_count(2)
    expect(page.locator(".side .drawing svg")).to_have_count(2)


def test_a_figure_of_the_audit_opens_its_links(page: Page, served: Served) -> None:
    page.goto(served.address)
    page.get_by_role("link", name="Audit", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="user → likes → item")).to_be_visible()
    audit = answer(page, served, "audit")["page"]
    shown = page.locator("a[data-figure=part-path_facts]")
    shown.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Links of a figure")
    expect(dialog).to_be_visible()
    assert query(page)["audit"] == ["part-path_facts"]
    found = audit["figures"]["part-path_facts"]
    expect(dialog.get_by_role("link")).to_have_count(LINKS)
    expect(dialog.locator(".value")).to_have_text(found["values"])
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page).to_have_url(re.compile(r"[?&]audit=page$"))  # set after the dialog has gone
    # From a link of a figure to its explanation, and back to the figure.
    page.locator("a[data-figure=verdict-0]").click()
    link = audit["links"][audit["figures"]["verdict-0"]["links"][0]]
    dialog.get_by_role("link").first.click()
    title = page.get_by_role("heading", level=2, name=f"{link['src_name']} likes")
    expect(title).to_contain_text(link["dst_name"])
    expect(page.locator(".opening-first")).to_be_visible()
    assert query(page) == {"src": [str(link["src"])], "dst": [str(link["dst"])]}
    page.go_back()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Predictions", exact=True).click()
    expect(page.get_by_role("combobox", name="Find a user, an item")).to_be_visible()


def test_an_audit_is_run_from_the_page_and_saved(
    browser: Browser, folder: Path, tmp_path: Path
) -> None:
    with Served("serve", folder / "graph", "--model", folder / "a.pt") as server:
        page = opened(browser, 1440, "light")
        page.goto(server.address + "/?audit=page")
        number = page.get_by_label("Number of links")
        number.fill("0")
        number.press("Enter")
        assert page.locator(".progress").count() == 0, "the browser refuses it"
        number.fill("2")
        number.press("Enter")
        expect(page.get_by_text("2 links the mean score is")).to_be_visible()
        for words, kind in (("HTML", "html"), ("JSON", "json")):
            page.locator(".audit-save summary").click()
            with page.expect_download() as download:
                page.get_by_role("button", name=words).click()
            download.value.save_as(tmp_path / f"saved.{kind}")
        page.locator("a[data-figure=all]").click()
        expect(page.get_by_role("dialog").get_by_role("link")).to_have_count(2)
        page.context.close()
    found = Audit.read(tmp_path / "saved.json")
    assert found.num_links == 2
    assert (tmp_path / "saved.html").read_text("utf-8") == found.to_html()
    again = ("--audit", tmp_path / "saved.json")
    with Served("serve", folder / "graph", "--model", folder / "a.pt", *again) as server:
        page = opened(browser, 390, "light")
        page.goto(server.address + "/?audit=page")
        expect(page.get_by_text("2 links the mean score is")).to_be_visible()
        page.locator(".audit-save summary").click()
        expect(page.get_by_role("button", name="JSON")).to_be_in_viewport(ratio=1)
        page.context.close()


def test_why_this_one_and_not_that_one(page: Page, served: Served) -> None:
    page.goto(served.address + LINK)
    page.get_by_role("tab", name="Compare").click()
    choice = page.get_by_label("Another item among the first 20")
    expect(choice.locator("option")).to_have_count(20)
    other = choice.locator("option").nth(3)
    value, name = other.get_attribute("value") or "", (other.text_content() or "").split(": ")[1]
    choice.select_option(value)
    compared(page)
    assert query(page) == {
        "src": [str(SRC)], "dst": [str(DST)], "view": ["compare"], "with": [value]
    }  # fmt: skip
    instead = value.split(":")[1]
    right = answer(page, served, f"contrast?src={SRC}&dst={DST}&instead={instead}")
    why = page.locator(".contrast")
    picture = why.get_by_role("img")
    expect(picture).to_have_attribute("alt", " ".join(right["opening"]))
    assert picture.evaluate("image => image.naturalWidth") > 300
    for sentence in (*right["opening"], right["context"], right["paths"][0]["sentence"]):
        expect(why).to_contain_text(sentence)
    expect(page.locator(".side").nth(1).locator("h3")).to_have_text(name)
    scores = [right["logit_above"], right["logit_below"]]
    for at, side in enumerate(page.locator(".side").all()):
        expect(side).to_contain_text(f"{scores[at]:.2f}")
    # The address opens the same; by name any other target can be chosen.
    page.reload()
    compared(page)
    expect(why).to_contain_text(right["context"])
    expect(choice).to_have_value(value)
    search = page.get_by_role("combobox", name="Or find an item")
    search.fill("item 7")
    page.locator(".compare .option-name", has_text=re.compile("^Item 7$")).click()
    expect(page.locator(".side").nth(1).locator("h3")).to_have_text("Item 7")
    assert query(page)["with"] == ["dst:7"]


def test_two_explainers_and_two_models_side_by_side(page: Page, served: Served) -> None:
    # A choice made before the list of targets is there stays when the list comes.
    held: list[Route] = []
    page.route("**/api/targets?*", lambda route: held.append(route))
    page.goto(f"{served.address}{LINK}&view=compare")
    page.get_by_label("Another explainer").select_option("method:degree")
    for route in held:
        route.continue_()
    page.unroute("**/api/targets?*")
    expect(page.get_by_label("Another item among the first").locator("option")).to_have_count(20)
    compared(page)
    expect(page.locator(".contrast")).to_be_hidden()
    expect(page.locator(".side h3")).to_have_text(["pagelink", "By degree alone"])
    right = answer(page, served, f"explanation?src={SRC}&dst={DST}&method=degree")
    paths = [path for group in right["groups"] for path in group["paths"]]
    sentences = ["; ".join(step["sentence"] for step in path["steps"]) for path in paths]
    told = page.locator(".side").nth(1).locator(".side-paths li > span:first-of-type")
    expect(told).to_have_text(sentences)
    # The same explainer with the same answer: all of its paths are in both.
    page.get_by_label("Another explainer").select_option("rho:1")
    expect(page.locator(".side h3")).to_have_text([re.compile("^pagelink$"), re.compile("rho 1")])
    compared(page)
    usual, other = (
        {json.dumps([path["nodes"], [step["relation"] for step in path["steps"]]])
         for group in answer(page, served, f"explanation?src={SRC}&dst={DST}&rho={rho}")["groups"]
         for path in group["paths"]}
        for rho in (0.95, 1)
    )  # fmt: skip
    expect(page.locator(".side").first.locator(".tag")).to_have_count(len(usual & other))
    page.get_by_label("Another model").select_option("model:1")
    expect(page.locator(".side h3")).to_have_text(
        [re.compile(r"^a\.pt: RGCN, test"), re.compile(r"^b\.pt: RGCN, test")]
    )
    compared(page)
    right = answer(page, served, f"explanation?src={SRC}&dst={DST}&model=1")
    expect(page.locator(".side").nth(1)).to_contain_text(f"{right['logit']:.2f}")
    expect(page.get_by_label("Another explainer")).to_have_value("")
    # Another link begins anew.
    page.locator(".target").nth(4).click()
    expect(page.get_by_text("Choose another item, explainer or model")).to_be_visible()
    assert "with" not in query(page)


def test_the_first_predictions_together(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/?src={SRC}")
    page.get_by_role("link", name="Explain the first 10 together").click()
    right = answer(page, served, f"group?src={SRC}&k=10")
    expect(page.locator(".together .opening-first")).to_have_text(right["sentence"])
    expect(page.locator(".chains > li")).to_have_count(len(right["chains"]))
    expect(page.locator(".together tbody tr")).to_have_count(10)
    expect(page.locator("#live")).to_have_text(right["sentence"])
    page.get_by_role("row").nth(2).get_by_role("link").click()
    expect(page.locator(".why-verdict .opening-first")).to_be_visible()
    assert query(page) == {"src": [str(SRC)], "dst": [str(right["links"][1]["dst"]["index"])]}


VIEWS = (
    ("/?audit=page", ".audit-page h1"),
    ("/?audit=all", ".audited-link >> nth=0"),
    (f"{LINK}&view=compare&with=dst:7", ".contrast-drawing img"),
    (f"{LINK}&view=compare&with=method:degree", ".side >> nth=1"),
    (f"/?src={SRC}&together=4", ".together table"),
)


@pytest.mark.parametrize("width", SIZES)
def test_nothing_overlaps_is_cut_or_scrolls_sideways(
    browser: Browser, served: Served, width: int
) -> None:
    page = opened(browser, width, "light")
    for address, shown in VIEWS:
        page.goto(served.address + address)
        expect(page.locator(shown)).to_be_visible()
        check_boxes(page)
    page.context.close()


@needs_axe
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(browser: Browser, served: Served, scheme: str) -> None:
    page = opened(browser, 390, scheme, bypass_csp=True)
    for address, shown in VIEWS:
        page.goto(served.address + address)
        expect(page.locator(shown)).to_be_visible()
        assert violations(page) == [], address
    page.context.close()
