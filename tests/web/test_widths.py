"""The explorer and saved pages at three widths, light and dark, by the boxes of elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect
from support.boxes import SCHEMES, SIZES, check_boxes, needs_axe, opened, violations
from support.browser import Served, chromium
from support.explanations import everything

from pagelink.datasets.useritemattr import train_useritemattr
from pagelink.models.checkpoint import save_checkpoint
from pagelink.tables.load import save_graph
from pagelink.views.pages import to_html

LINK = "/?src=0&dst=69"


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


def settle(page: Page) -> None:
    expect(page.locator(".why-verdict .opening")).to_be_visible()
    expect(page.locator(".score-rank strong")).to_be_visible()
    expect(page.locator(".target").first).to_be_attached()
    waiting = page.locator(".score.is-asking, .explanation.is-old, .skeleton-line")
    expect(waiting).to_have_count(0)


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


def test_long_names_take_more_lines_before_paths_are_stacked(browser: Browser) -> None:
    found = everything()
    more = " and the Fellowship of the Ring (2001)"
    paths = tuple(
        replace(path, names=tuple(name + more for name in path.names)) for path in found.paths
    )
    long = replace(found, paths=paths, src_name=found.src_name + more)
    page = opened(browser, 1024, "light")
    page.set_content(to_html(long))
    drawings = page.locator(".pagelink-drawing")
    widths = drawings.evaluate_all("all => all.map((each) => each.viewBox.baseVal.width)")
    assert len(widths) == 3
    assert widths[0] > widths[1] > widths[2]
    page.set_viewport_size({"width": round(0.72 * widths[0]), "height": 768})
    check_boxes(page)
    assert [drawings.nth(i).is_visible() for i in range(3)] == [False, True, False]
    # Names of nodes may be cut; those of relations are the same in all three.
    labels = [
        each.locator(".pagelink-fact").evaluate_all(
            "all => all.map(g => [...g.querySelectorAll('.pagelink-label')]"
            ".map(x => x.textContent).join(' '))"
        )
        for each in drawings.all()
    ]
    assert sorted(labels[0]) == sorted(labels[1]) == sorted(labels[2])
    page.context.close()


@needs_axe
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_axe_finds_nothing(browser: Browser, served: Served, width: int, scheme: str) -> None:
    page = opened(browser, width, scheme, bypass_csp=True)

    def check() -> None:
        assert violations(page) == []

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
