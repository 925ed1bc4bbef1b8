"""The explorer's page in a real browser, against the model it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import torch
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route, expect
from support.browser import Served, chromium
from support.explanations import everything, graph_of
from support.shell import shell

from pagelink.datasets.useritemattr import generate_useritemattr, train_useritemattr
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.checkpoint import Checkpoint, save_checkpoint
from pagelink.tables.load import save_graph
from pagelink.web.answers import explained_answer

WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 360, "height": 780}
MINUS = "\N{MINUS SIGN}"
SRC, DST = 0, 69
LINK = f"/?src={SRC}&dst={DST}"
RTL = "محمد بن موسى الخوارزمي"
LONG = "A name that does not end where names end, " * 6
HTML = '<img src=x onerror="window.hacked=1"> & <b>Zoë</b>'
SCRIPT = '"></bdi><script>window.hacked={}</script>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def trained() -> Checkpoint:
    return train_useritemattr(0)


@pytest.fixture(scope="module")
def served(trained: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    save_graph(trained.data, folder / "graph")
    model = save_checkpoint(
        folder / "model.pt", trained.model, trained.data, trained.link_type, trained.split,
        trained.report, trained.settings, trained.calibration,
    )  # fmt: skip
    with Served("serve", folder / "graph", "--model", model) as server:
        yield server


class Watched:
    """A page of its own context, with what it must not do."""

    def __init__(self, browser: Browser, address: str, **options: object) -> None:
        self.context: BrowserContext = browser.new_context(
            **{"viewport": WIDE, "reduced_motion": "reduce", **options}  # type: ignore[arg-type]
        )
        self.context.set_default_timeout(15_000)
        self.address = address
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.expected = ""
        """What an error has in it that is no surprise."""
        self.hosts: set[str] = set()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def open(self, query: str = "/") -> Page:
        self.page.goto(self.address + query)
        return self.page

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def close(self) -> None:
        self.context.close()
        assert [e for e in self.errors if not self.expected or self.expected not in e] == []
        assert self.hosts <= {urlsplit(self.address).netloc, ""}


@pytest.fixture
def watched(browser: Browser, served: Served) -> Iterator[Watched]:
    made = Watched(browser, served.address)
    yield made
    made.close()


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def explained(page: Page) -> dict[str, Any]:
    """The answer that the page shows, asked for once more; the server has kept it."""
    asked = "&".join(
        f"{key}={value}"
        for key, values in query(page).items()
        if key in ("src", "dst", "paths", "length", "rho", "exclude", "without", "via")
        for value in values
    )
    answer = page.request.get(f"{page.url.split('?')[0]}api/explanation?{asked}")
    assert answer.status == 200
    values: dict[str, Any] = answer.json()
    return values


def paths_of(page: Page) -> list[dict[str, Any]]:
    """The paths on the page, in the order of the cards."""
    return [path for group in explained(page)["groups"] for path in group["paths"]]


def settle(page: Page) -> None:
    """Wait until the explanation, its score and its rank are there."""
    expect(page.locator(".why-verdict .opening")).to_be_visible()
    expect(page.locator(".score-rank strong")).to_be_visible()
    expect(page.locator(".score.is-asking, .explanation.is-old")).to_have_count(0)


def test_what_counts_beside_the_paths_is_shown(watched: Watched) -> None:
    data, explanation = graph_of(everything())
    prepared = explained_answer(TypedGraph.from_data(data), explanation).model_dump_json()
    watched.page.route("**/api/explanation?*", lambda route: route.fulfill(
        status=200, content_type="application/json", body=prepared
    ))  # fmt: skip
    page = watched.open(LINK)
    expect(page.locator(".card")).to_have_count(3)
    bundle = page.locator(".card-bundle")
    expect(bundle).to_have_count(1)
    expect(bundle.locator("> p")).to_have_text(
        "These paths count together: one of them alone speaks against the link."
    )
    expect(bundle.locator(".card")).to_have_count(2)
    expect(page.locator(".card-share")).to_have_text(
        ["42 % of the effect of these paths", "30 % of the effect of these paths"]
    )
    idle = page.locator(".card").first.locator(".step.is-idle")
    expect(idle).to_have_count(1)
    expect(idle.locator(".step-role")).to_have_text("Connecting step (no effect by itself)")
    expect(idle.locator(".step-effect")).to_have_count(0)
    beyond = page.locator(".beyond")
    expect(beyond.locator(".heading")).to_have_text([
        "Equally good",
        f"The strongest facts (+ supports the link, {MINUS} speaks against it)",
        f"What the score rests on (+ supports the link, {MINUS} speaks against it)",
    ])  # fmt: skip
    expect(beyond).to_contain_text("User 3 buys Item 8; Item 8 is similar to Item 35")
    expect(beyond).to_contain_text("Artist 5 made Item 35 (alone: +1.60)")
    expect(beyond.locator("tr").nth(1)).to_have_text("the features of Item 35+3.20 ± 0.31")
    page.set_viewport_size({"width": 360, "height": 780})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_from_a_name_to_the_reasons(watched: Watched) -> None:
    page = watched.open()
    expect(page.get_by_role("heading", name="Why does the model")).to_be_visible()
    search = page.get_by_role("combobox", name="Find a user, an item or any other node")
    search.fill("user 17")
    page.get_by_role("option", name="User 17").click()
    expect(page.locator("#who .source-name")).to_have_text("User 17")
    assert query(page) == {"src": ["17"]}
    targets = page.locator(".target")
    expect(targets).to_have_count(20)
    best = targets.first
    name = best.locator(".node-name").inner_text()
    best.click()
    settle(page)
    assert page.get_by_role("heading", level=2, name=f"User 17 likes {name}").is_visible()
    expect(best).to_have_attribute("aria-current", "true")
    answer = explained(page)
    assert page.locator(".opening-first").inner_text() == answer["opening"][0]
    rank = page.locator(".score-rank strong").inner_text()
    assert re.fullmatch(r"[\d,]+(st|nd|rd|th)", rank)
    assert "in 100" not in page.locator(".score, .targets").all_inner_texts()
    paths = paths_of(page)
    assert paths
    expect(page.locator(".card")).to_have_count(len(paths))
    expect(page.locator(".drawing svg")).to_be_visible()
    steps = sum(len(path["steps"]) for path in paths)
    expect(page.locator(".drawing .pagelink-fact[role=switch]")).to_have_count(steps)
    page.go_back()
    expect(page.locator(".why-empty")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Why does the model")).to_be_visible()
    page.go_forward()
    expect(page.locator("#who .source-name")).to_have_text("User 17")


def test_the_demo_begins_with_predictions_that_are_explained_by_paths(browser: Browser) -> None:
    with Served("serve", "--demo") as server:
        watched = Watched(browser, server.address)
        page = watched.open()
        examples = page.locator(".example-link")
        expect(examples.first).to_be_visible()
        assert 3 <= examples.count() <= 5
        expect(page.locator("#served")).to_have_text("Books and their readers")
        examples.first.click()
        settle(page)
        assert explained(page)["verdict"] == "supported"
        # A test link has a rank, and is not in the list beside it.
        expect(page.locator(".targets-about")).to_contain_text("known links are left out")
        # The sentence is about all facts, and says so once one of them is off.
        before = page.get_by_text("This is why with all facts in place.")
        expect(before).to_be_hidden()
        page.locator(".card .step").first.click()
        expect(before).to_be_visible()
        # Of a relation without words for it, the facts of its other end read from the first.
        page = watched.open("?node=subject:0")
        expect(page.get_by_role("dialog")).to_contain_text("book is about it")
        watched.close()


def test_by_keyboard_alone(watched: Watched) -> None:
    page = watched.open()
    expect(page.locator(".example").first).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="How to read this page")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    search = page.get_by_role("combobox", name="Find a user, an item or any other node")
    expect(search).to_be_focused()
    page.keyboard.type("USER 8")
    options = page.get_by_role("option")
    expect(options.first).to_contain_text("User 8")
    expect(search).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = page.locator(f"#{search.get_attribute('aria-activedescendant')}")
    expect(chosen).to_have_attribute("aria-selected", "true")
    name = chosen.locator(".option-name").inner_text()
    assert chosen.inner_text() == options.nth(1).inner_text()
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    page.keyboard.press("ArrowDown")
    expect(options.first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#who .source-name")).to_have_text(name)
    other = page.get_by_role("combobox", name="Find an item")
    other.focus()
    page.keyboard.type("item 3")
    expect(page.get_by_role("option").first).to_contain_text("Item 3")
    page.keyboard.press("Enter")
    settle(page)
    assert query(page)["dst"] == ["3"]
    knob = page.locator(".card .switch").first
    knob.focus()
    page.keyboard.press("Space")
    expect(knob).to_have_attribute("aria-checked", "false")
    expect(page.locator(".score-off")).to_contain_text("switched off")
    line = page.locator(".drawing .pagelink-fact").first
    line.focus()
    page.keyboard.press("Enter")
    expect(line).to_have_attribute("aria-checked", "true")
    tab = page.get_by_role("tab", name="Paths")
    tab.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="What if")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="What if")).to_be_visible()


def test_nothing_found_says_what_was_typed(watched: Watched) -> None:
    page = watched.open()
    search = page.get_by_role("combobox", name="Find a user, an item or any other node")
    search.fill("<i>nobody</i>")
    expect(page.locator("#who .options-told")).to_have_text(
        "No node has a name with “<i>nobody</i>” in it."
    )
    expect(search).to_have_attribute("aria-expanded", "false")
    search.press("Enter")
    assert urlsplit(page.url).query == ""


def logit_without(trained: Checkpoint, path: dict[str, Any]) -> float:
    """The model's logit on a graph from which the facts of a path are really gone."""
    data = trained.data.clone()
    ends = [(node["type"], node["index"]) for node in path["nodes"]]
    gone = {frozenset(pair) for pair in pairwise(ends)}
    removed = 0
    for edge_type in data.edge_types:
        pairs = data[edge_type].edge_index.t().tolist()
        keep = [frozenset({(edge_type[0], i), (edge_type[2], j)}) not in gone for i, j in pairs]
        data[edge_type].edge_index = data[edge_type].edge_index[:, torch.tensor(keep)]
        removed += keep.count(False)
    assert removed == 2 * len(path["steps"])  # each fact with its reverse
    with torch.no_grad():
        x_dict = {kind: torch.arange(data[kind].num_nodes) for kind in data.node_types}
        return float(trained.model(x_dict, data.edge_index_dict, torch.tensor([[SRC], [DST]])))


def test_a_path_off_scores_as_on_a_graph_without_it(watched: Watched, trained: Checkpoint) -> None:
    page = watched.open(LINK)
    settle(page)
    path = paths_of(page)[0]
    facts = [step["fact"] for step in path["steps"]]
    before = explained(page)["logit"]
    after = logit_without(trained, path)
    knob = page.locator(".card .switch").first
    knob.click()
    settle(page)
    detail = page.locator(".score-value")
    expect(detail).to_contain_text(f"→ {after:.2f}".replace("-", MINUS))
    expect(detail.locator(".score-before")).to_have_text(f"{before:.2f}".replace("-", MINUS))
    answer = page.request.get(
        f"{watched.address}/api/score?src={SRC}&dst={DST}&" + "&".join(f"off={f}" for f in facts)
    ).json()
    assert answer["logit"] == pytest.approx(after, abs=1e-4)
    expect(page.locator("#live")).to_contain_text("The rank goes from 1 to")
    expect(page.locator(".off-list summary")).to_have_text(f"{len(facts)} facts switched off")
    assert query(page)["off"] == [".".join(map(str, sorted(facts)))]
    for line in page.locator('.drawing .pagelink-fact[data-path="1"]').all():
        expect(line).to_have_attribute("aria-checked", "false")
    # One fact on again: the path stays broken, and the drawing and the card agree on which.
    page.locator('.drawing .pagelink-fact[data-path="1"]').first.click()
    expect(page.locator(".card").first.locator(".card-state")).to_have_text(
        f"broken: {len(facts) - 1} of {len(facts)} facts off"
    )
    knob.click()
    settle(page)
    expect(knob).to_have_attribute("aria-checked", "true")
    expect(detail).to_have_text(f"score {before:.2f}")
    assert "off" not in query(page)


def test_an_address_opens_the_same_elsewhere(
    watched: Watched, browser: Browser, served: Served
) -> None:
    page = watched.open(LINK + "&paths=2&rho=1")
    settle(page)
    page.locator(".card").nth(1).locator(".step").first.click()
    settle(page)
    page.get_by_text("Share", exact=True).click()
    box = page.get_by_label("This address opens what you see now")
    expect(box).not_to_have_value("")
    shared = box.input_value()
    other = Watched(browser, served.address)
    there = other.open(shared.removeprefix(served.address))
    settle(there)
    for part in (".score", ".cards", ".why-verdict", ".settings-now"):
        assert there.locator(part).inner_text() == page.locator(part).inner_text()
    assert query(there) == query(page)
    off = there.locator(".card").nth(1).locator(".step").first
    expect(off).to_have_attribute("aria-checked", "false")
    expect(there.locator(".card").first.locator(".switch")).to_have_attribute(
        "aria-checked", "true"
    )
    other.close()


@pytest.mark.parametrize(
    ("words", "kind", "beginning"),
    [
        ("HTML", "html", b"<!doctype html>"), ("SVG", "svg", b"<svg"),
        ("PNG", "png", b"\x89PNG"), ("JSON", "json", b"{"), ("CSV", "csv", b'"line",'),
    ],
)  # fmt: skip
def test_save(watched: Watched, words: str, kind: str, beginning: bytes) -> None:
    page = watched.open(LINK)
    settle(page)
    page.get_by_text("Save", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name=words).click()
    assert download.value.suggested_filename.endswith(f".{kind}")
    content = Path(download.value.path()).read_bytes()
    assert content.lower().startswith(beginning.lower())
    assert len(content) > 1000
    if kind == "json":
        assert json.loads(content)["logit"] == pytest.approx(explained(page)["logit"])
        assert json.loads(content)["edited"] is None


def test_a_file_has_what_is_switched_off(watched: Watched) -> None:
    page = watched.open(LINK)
    settle(page)
    step = paths_of(page)[0]["steps"][0]
    page.locator(".card .step").first.click()
    settle(page)
    files = {}
    for kind in ("json", "html", "svg", "csv"):
        page.get_by_text("Save", exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("button", name=kind.upper()).click()
        files[kind] = Path(download.value.path()).read_text("utf-8")
    off = json.loads(files["json"])["edited"]
    assert (off["facts"], off["sentences"]) == ([step["fact"]], [step["sentence"]])
    assert f"Switched off: {step['sentence']}." in files["html"]
    assert "Switched off" in files["csv"]
    assert "pagelink-off" in files["svg"]
    # What the score is then stands beside that of all facts, in drawings, too.
    then = f"the score is {off['logit']:.2f} instead of {off['logit_before']:.2f}"
    assert " ".join(re.sub("<[^>]+>", " ", files["svg"]).split()).count(then) >= 2  # and as title
    top, _, below = files["html"].partition("<svg")
    assert then in top
    assert "Switched off:" not in below.split("</svg>")[-1]


def test_settings(watched: Watched) -> None:
    page = watched.open(LINK)
    settle(page)
    usual = len(paths_of(page))
    assert usual > 1
    page.get_by_role("button", name="Settings").click()
    group = page.get_by_role("group", name="Settings", exact=True)
    for control in group.locator(".control").all():
        assert len(control.locator("p.muted").inner_text()) > 20
    paths = group.get_by_role("slider", name="Number of paths")
    paths.fill("1")
    expect(page.locator(".card")).to_have_count(1)
    settle(page)
    assert query(page)["paths"] == ["1"]
    page.go_back()
    expect(page.locator(".card")).to_have_count(usual)
    expect(paths).to_have_value("3")
    group.get_by_role("checkbox", name=re.compile(r"^of\b")).uncheck()
    page.wait_for_url("**exclude=of*")
    settle(page)
    used = {step["relation"] for path in paths_of(page) for step in path["steps"]}
    assert used
    assert not used & {"has", "of"}
    group.get_by_role("checkbox", name="bought by").uncheck()
    expect(page.locator(".opening")).to_contain_text("There are no paths to show.")
    expect(page.locator(".card")).to_have_count(0)
    group.get_by_role("button", name="Back to the defaults").click()
    expect(page.locator(".card")).to_have_count(usual)
    assert set(query(page)) == {"src", "dst"}


def test_what_would_have_to_be_different(watched: Watched) -> None:
    page = watched.open(LINK)
    settle(page)
    page.get_by_role("tab", name="What if").click()
    facts = page.locator(".whatif-facts li")
    expect(facts.first).to_be_visible()
    asked = f"{watched.address}/api/counterfactual?src={SRC}&dst={DST}"
    answer = page.request.get(asked).json()
    assert answer["at"] == "paths", "the facts of the source do not suffice"
    assert facts.all_inner_texts() == [fact["sentence"] for fact in answer["facts"]]
    page.get_by_role("radio", name="facts on paths").check()
    page.get_by_label("until").select_option("3")
    page.wait_for_url("**top=3*at=paths")
    answer = page.request.get(f"{asked}&at=paths&top_k=3").json()
    expect(facts).to_have_text([fact["sentence"] for fact in answer["facts"]])
    page.get_by_role("button", name="Apply").click()
    settle(page)
    expect(page.get_by_role("tab", name="Paths")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".score-value")).to_contain_text(
        f"→ {answer['logit_without']:.2f}".replace("-", MINUS)
    )
    expect(page.locator(".score-rank strong")).to_contain_text(str(answer["rank_without"]))


def test_a_fact_can_be_added(watched: Watched) -> None:
    page = watched.open(LINK + "&view=whatif")
    settle(page)
    page.get_by_role("combobox", name="Find the item to add").fill("item 3")
    page.get_by_role("option", name="Item 3", exact=False).first.click()
    page.wait_for_url("**add=bought_by*")  # as the tables are read, in this order
    answer = page.request.get(
        f"{watched.address}/api/score?src={SRC}&dst={DST}&add=bought_by:3:0"
    ).json()
    assert answer["logit"] != answer["logit_before"]
    expect(page.locator(".score-value strong")).to_have_text(
        f"{answer['logit']:.2f}".replace("-", MINUS)
    )
    page.get_by_role("button", name="Remove: added: Item 3 bought by User 0").click()
    expect(page.locator(".score-value .score-before")).to_have_count(0)


def test_a_node_has_a_card_that_limits_the_paths(watched: Watched) -> None:
    page = watched.open(LINK)
    settle(page)
    inner = paths_of(page)[0]["nodes"][1]
    box = page.get_by_role("button", name=f"{inner['name']}, {inner['type']}")
    box.first.focus()
    page.keyboard.press("Enter")
    card = page.get_by_role("dialog")
    expect(card.get_by_role("heading", name=inner["name"])).to_be_visible()
    expect(card).to_contain_text(f"{inner['degree']} connections")
    card.get_by_role("button", name="Explain without it").click()
    key = f"{inner['type']}:{inner['index']}"
    page.wait_for_url("**without=*")
    settle(page)
    assert query(page)["without"] == [key]
    drawn = paths_of(page)
    assert drawn
    assert all(inner not in path["nodes"] for path in drawn)
    page.get_by_role("button", name=f"Remove: without {inner['name']}").click()
    settle(page)
    page.get_by_role("button", name=f"{inner['name']}, {inner['type']}").first.click()
    card.get_by_role("button", name="Only paths through it").click()
    page.wait_for_url("**via=*")
    settle(page)
    assert all(inner in path["nodes"] for path in paths_of(page))


def test_from_the_target_and_with_typing_errors(watched: Watched) -> None:
    page = watched.open()
    search = page.get_by_role("combobox", name="Find a user, an item or any other node")
    search.fill("itme 36")
    expect(page.locator("#who .options-told")).to_contain_text("Did you mean")
    page.get_by_role("option", name="Item 36").click()
    expect(page.locator("#who .source-name")).to_have_text("Item 36")
    assert query(page) == {"dst": ["36"]}
    best = page.locator(".target").first
    name = best.locator(".node-name").inner_text()
    best.click()
    settle(page)
    assert page.get_by_role("heading", level=2, name=f"{name} likes Item 36").is_visible()
    expect(best).to_have_attribute("aria-current", "true")
    expect(page.locator(".score-rank strong")).to_have_text("1st")
    expect(page.locator(".score-rank")).to_contain_text("users")
    # All ranks on the page are those of the users, and so are those of a saved file.
    told = page.locator(".why-verdict, .rest").all_inner_texts()
    assert "users" in " ".join(told)
    assert " items" not in " ".join(told)
    page.get_by_text("Save", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    assert json.loads(Path(download.value.path()).read_text("utf-8"))["rank_end"] == "src"
    search.fill("attr 7")
    page.get_by_role("option", name="Attr 7", exact=False).first.click()
    expect(page.get_by_role("dialog").get_by_role("heading", name="Attr 7")).to_be_visible()


def test_the_drawing_is_zoomed_and_moved(watched: Watched) -> None:
    page = watched.open(LINK)
    settle(page)
    drawing = page.locator(".pagelink-drawing")
    whole = drawing.get_attribute("viewBox")
    page.get_by_role("button", name="Zoom in").click()
    closer = drawing.get_attribute("viewBox")
    assert closer != whole
    box = drawing.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 80, box["y"] + 30)
    page.mouse.up()
    assert drawing.get_attribute("viewBox") != closer
    page.get_by_role("button", name="Fit").click()
    assert [float(v) for v in (drawing.get_attribute("viewBox") or "").split()] == [
        float(v) for v in (whole or "").split()
    ]
    assert "off" not in query(page)


def test_many_paths_are_grouped_by_metapath(watched: Watched) -> None:
    page = watched.open(LINK)
    settle(page)
    prepared = explained(page)
    path = prepared["groups"][0]["paths"][0]
    prepared["groups"][0]["paths"] = [{**path, "number": i} for i in range(1, 8)]
    watched.page.route("**/api/explanation?*", lambda route: route.fulfill(
        status=200, content_type="application/json", body=json.dumps(prepared)
    ))  # fmt: skip
    page = watched.open(LINK)
    group = page.locator(".metapath")
    expect(group).to_have_count(1)
    expect(group.locator("summary").first).to_contain_text("user → buys → item")
    expect(group.locator(".count")).to_have_text("7 paths")
    facts = "&".join(f"off={step['fact']}" for step in path["steps"])
    score = page.request.get(f"{watched.address}/api/score?src={SRC}&dst={DST}&{facts}").json()
    worth = score["logit_before"] - score["logit"]
    expect(group.locator(".metapath-worth")).to_have_text(f"{worth:+.2f}".replace("-", MINUS))


def test_in_words(watched: Watched) -> None:
    page = watched.open(LINK + "&view=words")
    settle(page)
    assert page.locator(".text").text_content() == explained(page)["text"]
    answer = explained(page)
    parts = (answer["what_else"] or {"parts": []})["parts"]  # a table of its own, in the other tab
    assert page.locator(".table tr").count() == len(answer["figures"]) + len(parts)


def test_a_link_without_a_use_for_paths_says_so_first(watched: Watched) -> None:
    """Whatever the verdict is, it stands above all paths, and marked if it is no support."""
    page = watched.open(f"/?src={SRC}&dst=3")
    settle(page)
    answer = explained(page)
    assert answer["reason"] == "predicted_negative"
    opening = page.locator(".opening")
    assert not opening.evaluate("e => e.classList.contains('is-relied')")
    tops = [
        part.bounding_box()["y"]  # type: ignore[index]
        for part in (opening, page.locator(".score"), page.locator(".drawing"))
    ]
    assert tops == sorted(tops)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A graph of names with markup, of long names and of names written from right to left."""
    folder = tmp_path_factory.mktemp("odd")
    dataset = generate_useritemattr(seed=0)
    data = dataset.data
    for index, name in enumerate((HTML, RTL, LONG)):
        data["user"].name[index] = name
    data["item"].name = [SCRIPT.format(i) for i in range(data["item"].num_nodes)]
    data["user", "likes", "item"].edge_index = dataset.likes
    save_graph(data, folder / "graph")
    done = shell(
        "train", "graph", "--link", "user,likes,item", "--epochs", "3", "--out", "model.pt",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with Served("serve", folder / "graph", "--model", folder / "model.pt", "--rank-only") as server:
        yield server


def test_names_stay_text(browser: Browser, odd: Served) -> None:
    watched = Watched(browser, odd.address)
    page = watched.open("/?src=0&dst=1")
    settle(page)
    assert page.locator("#who .source-name").inner_text() == HTML
    assert page.locator(".why-title .node-name").all_inner_texts() == [HTML, SCRIPT.format(1)]
    page.locator(".group").first.locator("summary").click()
    page.get_by_role("combobox", name="Find an item").fill("<script>window.hacked=1")
    expect(page.get_by_role("option").first).to_contain_text("<script>window.hacked=1")
    page.keyboard.press("Escape")
    for view in ("What if", "In words", "Paths"):
        page.get_by_role("tab", name=view).click()
    expect(page.locator(".card").first).to_be_visible()
    page.locator(".card .switch").first.click()
    settle(page)
    page.locator(".off-list summary").click()
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("window.hacked") is None
    page.get_by_text("Save", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML").click()
    assert "<script>window" not in Path(download.value.path()).read_text("utf-8")
    watched.close()


@pytest.mark.parametrize("src", [1, 2])
def test_long_and_right_to_left_names_fit_a_narrow_window(
    browser: Browser, odd: Served, src: int
) -> None:
    watched = Watched(browser, odd.address, viewport=NARROW)
    for address in (f"/?src={src}", f"/?src={src}&dst=1", f"/?src={src}&dst=1&view=whatif"):
        page = watched.open(address)
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    name = page.locator(".why-title .node-name").first
    assert name.evaluate("e => getComputedStyle(e).direction") == ("rtl" if src == 1 else "ltr")
    watched.close()


def test_a_narrow_window_shows_one_part_after_the_other(browser: Browser, served: Served) -> None:
    watched = Watched(browser, served.address, viewport=NARROW, has_touch=True)
    page = watched.open()
    for step, address in enumerate(("/", f"/?src={SRC}", LINK)):
        page = watched.open(address)
        expect(page.locator("#why" if step == 2 else "#who")).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    settle(page)
    assert not page.locator("#who").is_visible()
    drawing = page.locator(".drawing")
    expect(drawing.locator("svg.is-narrow")).to_be_visible()
    line = drawing.locator(".pagelink-fact").first
    line.scroll_into_view_if_needed()
    line.tap()
    expect(line).to_have_attribute("aria-checked", "false")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    for menu in ("Share", "Save"):
        page.get_by_text(menu, exact=True).click()
        place = page.locator(".menu[open] .menu-body").bounding_box()
        assert place is not None
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= NARROW["width"]
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Top predictions for User 0").click()
    expect(page.locator(".target").first).to_be_visible()
    assert not page.locator("#why").is_visible()
    expect(page.locator(".panel-title")).to_be_focused()
    watched.close()


CONTRAST = """
(selector) => {
  const shade = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const element = document.querySelector(selector);
  const style = getComputedStyle(element);
  let under = element;
  let ground = [0, 0, 0, 0];
  while (under && (ground[3] ?? 1) === 0) {
    ground = shade(getComputedStyle(under).backgroundColor);
    under = under.parentElement;
  }
  const ink = shade(element instanceof SVGElement ? style.fill : style.color);
  const [dark, light] = [luminance(ink), luminance(ground)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}
"""
TEXTS = (
    ".served", ".search-label", "#who .muted", ".target .value", ".target .rank",
    ".target[aria-current] .node-name", ".eyebrow", ".why-title .relation", ".opening-first",
    ".score-value .muted", ".score-rank", ".tab[aria-selected=false]", ".card .muted",
    ".card strong", ".step-words", ".step.is-off .step-words", ".caveat", ".pagelink-name",
    ".pagelink-label", ".pagelink-detail", ".pagelink-effect", ".pagelink-fact.is-off text",
)  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(browser: Browser, served: Served, scheme: str) -> None:
    watched = Watched(browser, served.address, color_scheme=scheme)
    page = watched.open(LINK)
    settle(page)
    page.locator(".card .step").first.click()
    settle(page)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) == (scheme == "dark")
    poor = {text: ratio for text in TEXTS if (ratio := page.evaluate(CONTRAST, text)) < 4.5}
    assert poor == {}
    watched.close()


def test_the_tab_key_reaches_everything(watched: Watched) -> None:
    page = watched.open(LINK)
    settle(page)
    goes_on = True
    while goes_on:
        page.keyboard.press("Tab")
        goes_on = page.evaluate("""() => {
            const here = document.activeElement;
            const isNew = here !== document.body && !here.dataset.reached;
            here.dataset.reached = "yes";
            return isNew;
        }""")
    wanted, missed = page.evaluate("""() => {
        const all = [...document.querySelectorAll(
            'a[href], button:not([role="tab"]), input, select, summary, [role="switch"]')]
            .filter((e) => e.checkVisibility() && !e.disabled && !e.closest("dialog"));
        return [all.length, all.filter((e) => !e.dataset.reached).map((e) => e.outerHTML)];
    }""")
    assert missed == []
    assert wanted > 40


def test_every_control_has_a_name(watched: Watched) -> None:
    page = watched.open(LINK)
    settle(page)
    page.get_by_role("button", name="Settings").click()
    snapshot = page.locator("body").aria_snapshot()
    nameless = [
        line
        for line in snapshot.splitlines()
        if re.match(r"\s*- (button|link|switch|slider|checkbox|combobox|tab)\b(?! \")", line)
    ]
    assert nameless == []
    for expected in ('- switch "Path 1" [checked]', '- tab "Paths" [selected]', "- tabpanel"):
        assert expected in snapshot
    assert page.locator("#live[aria-live=polite]").count() == 1


def test_a_busy_model_is_said_kindly(watched: Watched) -> None:
    refused = []

    def busy(route: Route) -> None:
        refused.append(route.request.url)
        route.fulfill(
            status=503, headers={"Retry-After": "2"}, content_type="application/json",
            body='{"code": "busy", "message": "Too many questions are waiting."}',
        )  # fmt: skip

    watched.expected = "503"
    watched.page.route("**/api/explanation*", busy)
    page = watched.open(LINK)
    box = page.locator(".problem[data-code=busy]")
    expect(box).to_contain_text("The model is busy")
    expect(box).to_contain_text("after 2 seconds")
    page.unroute("**/api/explanation*")
    box.get_by_role("button", name="Try again").click()
    settle(page)
    assert len(refused) == 1


def test_what_is_not_there_is_said(watched: Watched) -> None:
    watched.expected = "404"
    page = watched.open("/?src=0&dst=4000")
    expect(page.locator("#why .problem")).to_contain_text("Not in this graph")
    page = watched.open("/?src=4000&dst=<b>&off=x.1")
    expect(page.locator("#who .problem")).to_contain_text("Not in this graph")


@pytest.mark.slow
def test_a_slow_model_can_be_cancelled_and_a_server_may_come_back(browser: Browser) -> None:
    with Served("0.3", script="slow_explorer.py") as server:
        watched = Watched(browser, server.address)
        page = watched.open("/?src=0&dst=3")
        line = page.locator("#why .progress")
        expect(line).to_contain_text("of the model so far")
        with page.expect_response(lambda answer: answer.request.method == "DELETE") as answer:
            line.get_by_role("button", name="Cancel").click()
        assert answer.value.status == 204
        box = page.locator("#why .problem")
        expect(box).to_contain_text("Cancelled")
        # The model is free again: another question does not wait behind the one given up.
        score = page.request.get(f"{server.address}/api/score?src=0&dst=3&wait=10")
        assert score.status == 200
        box.get_by_role("button", name="Ask again").click()
        expect(line).to_contain_text("of the model so far")
        watched.expected = "net::ERR"
        server.kill()
        expect(box).to_contain_text("The server does not answer")
        with Served("0", script="slow_explorer.py", port=server.port):
            box.get_by_role("button", name="Try again").click()
            settle(page)
            watched.close()
