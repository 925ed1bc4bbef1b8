"""The explorer and saved pages at three widths, light and dark, by the boxes of elements."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser import Served, chromium
from support.explanations import everything

from pagelink.datasets.useritemattr import train_useritemattr
from pagelink.models.checkpoint import save_checkpoint
from pagelink.tables.load import save_graph
from pagelink.views.pages import to_html

SIZES = {1440: 900, 1024: 768, 390: 844}
SCHEMES = ("light", "dark")
LINK = "/?src=0&dst=69"

LEAVES_THE_WINDOW = """() => [...document.querySelectorAll("body *")].filter((element) => {
  if (!element.checkVisibility() || element.closest(".visually-hidden, .skip, dialog:not([open])"))
    return false;
  const { left, right, width } = element.getBoundingClientRect();
  return width > 0 && (left < -1 || right > innerWidth + 1);
}).map((element) => element.outerHTML.slice(0, 120))"""

CUT = """() => [...document.querySelectorAll("main *, dialog[open] *")].filter((element) => {
  if (!element.checkVisibility() || element.closest("svg, .visually-hidden")) return false;
  const style = getComputedStyle(element);
  return style.overflowX === "hidden" && element.textContent.trim() && element.clientWidth > 1
    && element.scrollWidth > element.clientWidth + 1;
}).map((element) => element.outerHTML.slice(0, 120))"""

# Parts that stand side by side or below each other, and lettering against boxes in the drawing.
OVERLAPS = """() => {
  const overlap = (a, b) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const boxes = (selector, root = document) => [...root.querySelectorAll(selector)]
    .filter((element) => element.checkVisibility())
    .map((element) => [element, element.getBoundingClientRect()]);
  const found = [];
  const compare = (all) => all.forEach(([one, a], at) => all.slice(at + 1).forEach(([other, b]) => {
    if (overlap(a, b)) found.push([one, other].map((each) => each.outerHTML.slice(0, 100)));
  }));
  compare(boxes(".why-head, .opening, .score, .chips, .choices, .drawing-frame, .drawing-hint, " +
    ".rest, .card, .beyond > *, .caveat"));
  compare(boxes(".score-rank, .score-value, .score-place"));
  compare(boxes(".tabs, .zoom, .choices > .button"));
  for (const [drawing] of boxes(".pagelink-drawing")) {
    compare(boxes(".pagelink-node, .pagelink-label, .pagelink-effect, .pagelink-legend", drawing));
    const whole = drawing.getBoundingClientRect();
    for (const [each, box] of boxes("text, .pagelink-node", drawing))
      if (box.left < whole.left - 1 || box.right > whole.right + 1 || box.bottom > whole.bottom + 1)
        found.push(["outside the drawing", each.outerHTML.slice(0, 100)]);
  }
  return found;
}"""

AXE = """() => axe.run().then(({ violations }) =>
  violations.map((each) => [each.id, ...each.nodes.map((node) => node.html)]))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, trained = tmp_path_factory.mktemp("served"), train_useritemattr(0)
    save_graph(trained.data, folder / "graph")
    model = save_checkpoint(
        folder / "model.pt", trained.model, trained.data, trained.link_type, trained.split,
        trained.report, trained.settings, trained.calibration,
    )  # fmt: skip
    with Served("serve", folder / "graph", "--model", model) as server:
        yield server


def opened(browser: Browser, width: int, scheme: Any, **options: Any) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": SIZES[width]}, color_scheme=scheme,
        reduced_motion="reduce", **options,
    )  # fmt: skip
    return context.new_page()


def settle(page: Page) -> None:
    expect(page.locator(".why-verdict .opening")).to_be_visible()
    expect(page.locator(".score-rank strong")).to_be_visible()
    expect(page.locator(".target").first).to_be_attached()
    expect(page.locator(".explanation.is-old, .skeleton-line")).to_have_count(0)


def check_boxes(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(LEAVES_THE_WINDOW) == []
    assert page.evaluate(CUT) == []
    assert page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_nothing_overlaps_is_cut_or_scrolls_sideways(
    browser: Browser, served: Served, width: int, scheme: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = opened(browser, width, scheme)
    page.goto(served.address + LINK)
    expect(page.locator(".opening-first")).to_be_visible()
    answer = page.evaluate("performance.now()")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    with capsys.disabled():
        print(f"\n{width} {scheme}: first paint {paint:.0f} ms, first answer {answer:.0f} ms")
    settle(page)
    sentence = page.locator(".opening-first").bounding_box()
    assert sentence is not None
    assert sentence["y"] + sentence["height"] <= SIZES[width]
    if width == 1440:
        for part in (".score", ".drawing-frame"):
            box = page.locator(part).bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= SIZES[width], part
    check_boxes(page)
    page.locator(".pagelink-box").nth(2).click()
    expect(page.locator("dialog[open] .node-title")).to_be_visible()
    check_boxes(page)
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="What if").click()
    expect(page.locator(".whatif-facts")).to_be_visible()
    check_boxes(page)
    page.context.close()


@pytest.mark.parametrize("width", SIZES)
def test_the_drawing_of_a_width_is_the_one_that_can_be_read(
    browser: Browser, served: Served, width: int
) -> None:
    page = opened(browser, width, "light")
    page.goto(served.address + LINK)
    settle(page)
    narrow = page.locator(".pagelink-drawing.is-narrow").count() == 1
    assert narrow == (width == 390)
    smallest = page.evaluate("""() => Math.min(...[...document.querySelectorAll(
        ".pagelink-drawing text")].map((text) => text.getBoundingClientRect().height))""")
    assert smallest >= 9
    page.context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_a_saved_page_shows_one_whole_drawing(browser: Browser, width: int, scheme: str) -> None:
    page = opened(browser, width, scheme)
    page.set_content(to_html(everything()))
    check_boxes(page)
    shown = page.locator(".pagelink-drawing:visible")
    assert shown.count() == 1
    assert ("is-narrow" in (shown.get_attribute("class") or "")) == (width == 390)
    page.context.close()


@pytest.mark.skipif(
    find_spec("axe_playwright_python") is None, reason="needs axe-playwright-python"
)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_axe_finds_nothing(browser: Browser, served: Served, width: int, scheme: str) -> None:
    found = find_spec("axe_playwright_python")
    assert found is not None
    assert found.origin is not None
    script = Path(found.origin).with_name("axe.min.js").read_text("utf-8")
    page = opened(browser, width, scheme, bypass_csp=True)

    def check() -> None:
        page.evaluate(script)
        violations = page.evaluate(AXE)
        assert violations == []

    page.goto(served.address)
    expect(page.locator(".example").first).to_be_visible()
    check()
    page.goto(served.address + LINK)
    settle(page)
    check()
    page.locator(".pagelink-fact").first.click()
    settle(page)
    check()
    page.locator(".pagelink-box").nth(2).click()
    expect(page.locator("dialog[open] .node-title")).to_be_visible()
    check()
    page.keyboard.press("Escape")
    for tab, content in (("What if", ".whatif-facts"), ("In words", ".text")):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(content)).to_be_visible()
        check()
    page.goto(f"{served.address}/?dst=3")
    expect(page.locator(".target").first).to_be_visible()
    check()
    page.set_content(to_html(everything()))
    check()
    page.context.close()
