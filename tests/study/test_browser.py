"""The study in a browser: from first to last, interrupted, twice, by keyboard, without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from support import study_people
from support.browser import Served, chromium
from support.study_people import answers

TOTAL = 5


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    path = study_people.write(tmp_path_factory.mktemp("study") / "study.db")
    with Served("study", "serve", path) as server:
        yield server, path


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context()
    made.set_default_timeout(15_000)
    yield made
    made.close()


def join(context: BrowserContext, address: str) -> tuple[Page, str]:
    """Begin, leave the background out, and stand before the first question."""
    page = context.new_page()
    page.goto(address)
    page.get_by_role("button", name="Begin").click()
    key = page.url.rsplit("/", 1)[1]
    page.get_by_role("link", name="Skip").click()
    expect(page).to_have_url(re.compile(r"/1$"))
    return page, key


def choose(page: Page, place: int = 0) -> str:
    """Choose by a click on the card, as people do, and return the value."""
    chosen = page.get_by_role("radio").nth(place)
    page.locator("fieldset .card").nth(place).click(position={"x": 60, "y": 8})
    expect(chosen).to_be_checked()
    return chosen.get_attribute("value") or ""


def save(page: Page) -> None:
    page.get_by_role("button", name="Save and go on").click()


def of(key: str, path: Path) -> list[str]:
    """The choices of a person, in the order they were saved."""
    return [choice for whose, _, choice in answers(path) if whose == key]


@pytest.mark.parametrize("scripts", [True, False])
def test_from_the_first_question_to_the_last(
    browser: Browser, served: tuple[Served, Path], scripts: bool
) -> None:
    server, path = served
    context = browser.new_context(java_script_enabled=scripts)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(server.address)
    page.get_by_role("button", name="Begin").click()
    key = page.url.rsplit("/", 1)[1]
    page.get_by_role("radio", name="I work with").check()
    page.get_by_label("A line on your background").fill(study_people.SCRIPT)
    page.get_by_role("button", name="Save and start").click()
    chosen = []
    for number in range(1, TOTAL + 1):
        expect(page).to_have_url(re.compile(rf"/p/{key}/{number}$"))
        expect(page.locator(".progress")).to_contain_text(f"{number} of {TOTAL}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(study_people.IMAGE)
        chosen.append(choose(page, number % 3))
        save(page)
    expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    assert of(key, path) == chosen
    assert complaints == []
    context.close()


def test_no_name_and_no_drawing_runs_a_script(
    context: BrowserContext, served: tuple[Served, Path]
) -> None:
    page, _ = join(context, served[0].address)
    for _ in range(TOTAL):
        assert page.evaluate("window.hurt") is None
        for image in page.locator(".drawing img").all():
            assert image.evaluate("image => image.complete && image.naturalWidth") == 640
        url = page.url
        choose(page)
        save(page)
        expect(page).not_to_have_url(url)


@pytest.mark.parametrize("scripts", [True, False])
def test_two_fast_clicks_are_one_answer(
    browser: Browser, served: tuple[Served, Path], scripts: bool
) -> None:
    server, path = served
    context = browser.new_context(java_script_enabled=scripts)
    page, key = join(context, server.address)
    chosen = choose(page, 1)
    page.get_by_role("button", name="Save and go on").dblclick()
    expect(page).to_have_url(re.compile(rf"/p/{key}/2(\?kept)?$"))
    assert of(key, path) == [chosen]
    context.close()


def test_the_same_question_in_two_windows_is_answered_once(
    context: BrowserContext, served: tuple[Served, Path]
) -> None:
    server, path = served
    page, key = join(context, server.address)
    other = context.new_page()
    other.goto(page.url)
    first = choose(page, 0)
    choose(other, 1)
    save(page)
    expect(page).to_have_url(re.compile(r"/2$"))
    save(other)
    expect(other.get_by_role("status")).to_contain_text("stays as it was")
    expect(other.locator(".progress")).to_contain_text(f"2 of {TOTAL}")
    assert of(key, path) == [first]


def test_a_reload_shows_the_same_question_and_the_choice(
    context: BrowserContext, served: tuple[Served, Path]
) -> None:
    server, path = served
    page, key = join(context, server.address)
    first = choose(page)
    save(page)
    expect(page).to_have_url(re.compile(r"/2$"))
    drawn = page.locator("h1, .drawing img").evaluate_all("all => all.map(x => x.outerHTML)")
    choose(page, 2)
    page.reload()
    expect(page).to_have_url(re.compile(r"/2$"))
    assert drawn == page.locator("h1, .drawing img").evaluate_all(
        "all => all.map(x => x.outerHTML)"
    )
    expect(page.get_by_role("radio").nth(2)).to_be_checked()
    assert of(key, path) == [first]
    # The personal address alone leads there, too, in another browser.
    page.goto(f"{server.address}/p/{key}")
    expect(page).to_have_url(re.compile(r"/2$"))


@pytest.mark.parametrize("scripts", [True, False])
def test_going_back_gives_no_second_answer(
    browser: Browser, served: tuple[Served, Path], scripts: bool
) -> None:
    server, path = served
    context = browser.new_context(java_script_enabled=scripts)
    page, key = join(context, server.address)
    first = choose(page)
    save(page)
    expect(page).to_have_url(re.compile(r"/2$"))
    page.go_back()
    expect(page.get_by_role("status")).to_contain_text("stays as it was")
    expect(page.locator(".progress")).to_contain_text(f"2 of {TOTAL}")
    second = choose(page, 1)
    save(page)
    expect(page.locator(".progress")).to_contain_text(f"3 of {TOTAL}")
    assert of(key, path) == [first, second]
    context.close()


def test_a_server_that_is_killed_costs_nobody_an_answer(
    context: BrowserContext, tmp_path: Path
) -> None:
    path = study_people.write(tmp_path / "study.db")
    with Served("study", "serve", path) as server:
        port = server.port
        page, key = join(context, server.address)
        first = choose(page)
        save(page)
        expect(page).to_have_url(re.compile(r"/2$"))
        second = choose(page, 1)
        server.kill()
    save(page)
    expect(page.get_by_role("alert")).to_contain_text("Your choice is kept on this page")
    expect(page.locator(".send")).to_be_disabled()
    assert of(key, path) == [first]
    with Served("study", "serve", path, port=port):
        expect(page).to_have_url(re.compile(r"/3$"), timeout=20_000)
        assert of(key, path) == [first, second]
        for number in range(3, TOTAL + 1):
            expect(page.locator(".progress")).to_contain_text(f"{number} of {TOTAL}")
            choose(page)
            save(page)
        expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    assert len(of(key, path)) == TOTAL


def test_keys_are_enough(context: BrowserContext, served: tuple[Served, Path]) -> None:
    server, path = served
    page = context.new_page()
    page.goto(server.address)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="This address is yours")).to_be_visible()
    key = page.url.rsplit("/", 1)[1]
    while page.evaluate("document.activeElement.id") != "line":
        page.keyboard.press("Tab")
    page.keyboard.type("ten years")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/1$"))
    page.wait_for_load_state()  # the script that listens to keys comes last

    page.keyboard.press("Enter")  # nothing is chosen yet
    page.keyboard.press("9")  # there is no such choice
    assert page.locator("input:checked").count() == 0
    page.keyboard.press("2")
    expect(page.get_by_role("radio").nth(1)).to_be_focused()
    values = page.get_by_role("radio").evaluate_all("all => all.map(x => x.value)")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/2$"))
    assert of(key, path) == [values[1]]

    # As in any form: Tab to the choices, arrows, Enter.
    while page.evaluate("document.activeElement.name") != "choice":
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    card = page.locator(".card:has(input:checked)")
    assert card.evaluate("card => getComputedStyle(card).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/3$"))
    assert len(of(key, path)) == 2


def test_a_drawing_can_be_seen_larger_and_read_in_words(
    context: BrowserContext, served: tuple[Served, Path]
) -> None:
    page, _ = join(context, served[0].address)
    while page.locator(".cards").count() == 0:
        choose(page)
        url = page.url
        save(page)
        expect(page).not_to_have_url(url)
    page.get_by_role("button", name="Larger: Explanation 2").click()
    shown = page.get_by_role("dialog").locator("img")
    first = page.locator(".card img").nth(1)
    assert shown.get_attribute("src") == first.get_attribute("src")
    page.keyboard.press("1")  # choices rest while it is open
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.locator("input:checked").count() == 0
    # The words describe the choice to those who cannot see the drawing, also while folded.
    choice = page.get_by_role("radio", name="Explanation 2")
    expect(choice).to_have_accessible_description(re.compile(re.escape(study_people.SCRIPT)))
    page.get_by_text("In words").nth(1).click()
    expect(page.locator("#words-2")).to_be_visible()
    assert page.locator("input:checked").count() == 0


@pytest.mark.parametrize(("width", "rows"), [(360, 3), (820, 3), (1440, 2), (2000, 1)])
def test_no_window_scrolls_sideways(
    browser: Browser, served: tuple[Served, Path], width: int, rows: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(served[0].address)
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("link", name="Skip").click()
    for _ in range(TOTAL):
        page.wait_for_load_state("load")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Explanations stand side by side where there is room.
        tops = page.locator(".cards .card:has(.drawing)").evaluate_all(
            "all => new Set(all.map(x => x.getBoundingClientRect().top)).size"
        )
        if page.locator(".cards").count():
            assert tops == rows
        url = page.url
        page.keyboard.press("1")
        save(page)
        expect(page).not_to_have_url(url)
    context.close()
