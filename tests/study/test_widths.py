"""The pages of a study at three widths, light and dark: what the product draws, to be read."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect
from support.boxes import SCHEMES, SIZES, check_boxes, needs_axe, opened, violations
from support.browser import Served, chromium
from torch_geometric.data import HeteroData

from pagelink.graph.typed_graph import TypedGraph
from pagelink.study.explaining import Words
from pagelink.study.questions import Option, StudyAbout, StudyQuestion
from pagelink.study.storage import write_study
from pagelink.views.templates import graph_colours

LINK = ("user", "likes", "movie")
RELATION = "rated_below_4_stars_after_the_first_week"
NAMES = ("pagelink", "gnnexp", "random-paths")
READABLE = 0.72
"""Share of its size that a drawing has at least: its smallest letters have 11 pixels."""


def films() -> HeteroData:
    """Long names, a long relation, and a node type that nothing is known of."""
    data = HeteroData()
    data["user"].num_nodes, data["movie"].num_nodes = 3, 4
    data["genre"].num_nodes, data["award"].num_nodes = 2, 1
    data["user"].name = ["User 3", "User 14", "User 159"]
    data["movie"].name = [
        "The Lord of the Rings: The Fellowship of the Ring (2001)", "Alien (1979)",
        "Dr. Strangelove or: How I Learned to Stop Worrying and Love the Bomb (1964)", "Ran (1985)",
    ]  # fmt: skip
    data["genre"].name = ["Sci-Fi", "Adventure"]
    data["award"].name = ["Palme d'Or"]
    data["user", RELATION, "movie"].edge_index = torch.tensor([[0, 0, 1, 2], [0, 2, 1, 3]])
    data["user", "likes", "movie"].edge_index = torch.tensor([[1, 2, 2], [0, 1, 2]])
    data["movie", "has_genre", "genre"].edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 0, 1]])
    return data


@pytest.fixture(scope="module")
def words() -> Words:
    return Words(TypedGraph.from_data(films(), [LINK]), LINK)


@pytest.fixture(scope="module")
def served(words: Words, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    num_facts = TypedGraph.from_data(films(), [LINK]).num_facts
    sets = (range(num_facts), (1, 5), ())
    options = tuple(
        Option((name,), words.shown((0, 1), tuple(facts)))
        for name, facts in zip(NAMES, sets, strict=True)
    )
    link, score = words.link((0, 1)), words.score(1.5)
    questions = [
        StudyQuestion("best", 0, link, score, options),
        StudyQuestion("forecast", 1, link, score, options[:1], words.fact(1), "fall", -0.5),
    ]
    about = StudyAbout("Which films", "user likes movie", len(questions), NAMES, 0)
    path = write_study(tmp_path_factory.mktemp("study") / "study.db", about, questions)
    with Served("study", "serve", path) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def arrived(page: Page, shown: Locator) -> None:
    """Waits for the page that a click leads to: for what it shows, then for its style sheets."""
    expect(shown).to_be_visible()
    page.wait_for_load_state("load")


def pages(page: Page, address: str) -> Iterator[str]:
    """Every kind of page, one after the other."""
    page.goto(address)
    yield "welcome"
    page.get_by_role("button", name="Begin").click()
    arrived(page, page.get_by_role("link", name="Skip"))
    yield "start"
    page.get_by_role("link", name="Skip").click()
    for _ in range(2):
        arrived(page, page.get_by_role("radio").first)
        yield "question"
        url = page.url
        page.keyboard.press("1")
        page.get_by_role("button", name="Save and go on").click()
        expect(page).not_to_have_url(url)
    arrived(page, page.get_by_role("heading", name="Thank you"))
    yield "thanks"
    page.goto(f"{address}/nowhere")
    yield "message"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_nothing_overlaps_is_cut_or_scrolls_sideways(
    browser: Browser, served: Served, width: int, scheme: str
) -> None:
    page = opened(browser, width, scheme)
    for kind in pages(page, served.address):
        check_boxes(page)
        scales = page.locator(".drawing img").evaluate_all(
            "all => all.map((image) => image.clientWidth / image.naturalWidth)"
        )
        assert all(scale >= READABLE for scale in scales)
        if kind == "question":
            assert scales
            shown = page.locator(".drawing img").evaluate_all("all => all.map(x => x.currentSrc)")
            for source in shown:
                svg = base64.b64decode(source.partition(",")[2]).decode()
                assert ("is-narrow" in svg) == (width == 390)
    page.context.close()


@needs_axe
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", SIZES)
def test_axe_finds_nothing(browser: Browser, served: Served, width: int, scheme: str) -> None:
    page = opened(browser, width, scheme, bypass_csp=True)
    for kind in pages(page, served.address):
        assert (kind, violations(page)) == (kind, [])
    page.context.close()


@pytest.mark.parametrize("facts", [tuple(range(10)), (1, 5), (0, 4, 7), ()])
def test_the_parts_of_a_drawing_do_not_overlap(
    browser: Browser, words: Words, facts: tuple[int, ...]
) -> None:
    shown = words.shown((0, 1), facts)
    page = opened(browser, 1440, "light")
    for svg in (shown.svg, shown.narrow):
        page.set_content(f"<main>{svg}</main>")
        check_boxes(page)
    page.context.close()


def test_a_narrow_drawing_has_every_fact_whole(browser: Browser, words: Words) -> None:
    page = opened(browser, 390, "light")
    page.set_content(words.shown((0, 1), tuple(range(10))).narrow)
    labels = page.locator(".pagelink-fact").evaluate_all(
        "all => all.map(g => [...g.querySelectorAll('.pagelink-label')].map(x => x.textContent))"
    )
    told = {" ".join(lines) for lines in labels}
    assert told == {"rated below 4 stars after the first week", "likes", "has genre"}
    page.context.close()


def test_a_type_has_the_colour_of_the_explorer(words: Words) -> None:
    data = films()
    colours = graph_colours(data.node_types, [*data.edge_types, LINK])
    shown = words.shown((0, 1), (0, 1))
    # The type without any facts is not counted before the others.
    assert colours["movie"].main in shown.svg
    assert colours["movie"].main in shown.narrow
    assert colours["award"].main not in shown.svg + shown.narrow


def test_the_page_reads_a_written_study(words: Words, tmp_path: Path) -> None:
    from pagelink.study.database import Study

    option = Option(("pagelink",), words.shown((0, 1), (1, 5)))
    other = Option(("degree",), words.shown((0, 1), (0,)))
    question = StudyQuestion("best", 0, "a", "b", (option, other))
    about = StudyAbout("Films", "user likes movie", 1, ("pagelink", "degree"), 0)
    study = Study.open(write_study(tmp_path / "study.db", about, [question]))
    page = study.next_page(study.join())
    assert page is not None
    assert {each.narrow for each in page.shown} == {option.shown.narrow, other.shown.narrow}  # type: ignore[union-attr]
