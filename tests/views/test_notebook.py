"""The notebook widget, against facts that are deleted by hand; and in a browser, with a kernel."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page, Route, expect
from support.browser import chromium
from support.films import LIKES, Two, random_case, without
from support.notebooks import Voila
from torch_geometric.data import HeteroData

from pagelink import PaGELink
from pagelink.errors import LinkError, MissingExtraError, SettingsError
from pagelink.views.notebook import ExplanationWidget
from pagelink.views.text import numbers

SEED, SRC, DST = 3, 0, 5
CELL = f"""
from pagelink import PaGELink
from support.films import LIKES, random_case

data, model = random_case({SEED})
explainer = PaGELink(model, data, LIKES, threshold=None)
explainer.widget(explainer.explain({SRC}, {DST}, rank=True))
"""


class World:
    """A model, its explainer, and what it says of a link on graphs edited by hand."""

    def __init__(self, seed: int = SEED) -> None:
        self.data, self.model = random_case(seed)
        self.explainer = PaGELink(self.model, self.data, LIKES, threshold=None)

    def widget(self, **options: Any) -> ExplanationWidget:
        return self.explainer.widget(self.explainer.explain(SRC, DST, **options))

    def scores(self, off: list[int]) -> list[float]:
        """Of all items for the source, in plain PyTorch."""
        edited = without(self.explainer, self.data, np.array(off, dtype=np.int64))
        items = torch.arange(self.data["item"].num_nodes)
        links = torch.stack([torch.full_like(items, SRC), items])
        with torch.no_grad():
            found: list[float] = self.model(edited.x_dict, edited.edge_index_dict, links).tolist()
        return found


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def facts_of(widget: ExplanationWidget) -> list[int]:
    """The facts of its paths, in their order."""
    return [step["fact"] for path in widget.shown["paths"] for step in path["steps"]]


def from_page(widget: ExplanationWidget, off: list[int]) -> None:
    """What the page sends when facts are clicked."""
    data = {"method": "update", "state": {"off": off}}
    widget._handle_msg({"content": {"data": data}})


@pytest.mark.parametrize("seed", [SEED, 0, 1])
def test_scores_are_those_of_facts_deleted_by_hand(seed: int) -> None:
    world = World(seed)
    widget = world.widget(rank=False)
    facts = facts_of(widget)
    assert widget.logit == pytest.approx(world.scores([])[DST], abs=1e-5)
    moved = []
    for off in (facts[:1], facts[1:3], facts):
        from_page(widget, sorted(set(off)))
        assert widget.logit == pytest.approx(world.scores(off)[DST], abs=1e-5)
        assert widget.answer["off"] == widget.off == sorted(set(off))
        moved.append(abs(widget.logit - world.scores([])[DST]))
    assert max(moved) > 0.1
    from_page(widget, [])
    assert widget.logit == pytest.approx(world.scores([])[DST], abs=1e-5)
    assert widget.rank is None
    assert "rank" not in widget.answer


def test_ranks_are_those_of_facts_deleted_by_hand(world: World) -> None:
    widget = world.widget(rank=True)
    assert LIKES not in world.data.edge_types  # so that all items are ranked
    ranks = []
    for off in ([], facts_of(widget)[:2], facts_of(widget)):
        widget.off = off
        scores = world.scores(off)
        ranks.append(1 + sum(score > scores[DST] for score in scores))
        assert widget.rank == ranks[-1]
    assert len(set(ranks)) == 3


def test_of_a_sample_the_same_nodes_are_ranked(world: World) -> None:
    widget = world.widget(rank=True, rank_sample=5)
    before = widget.explanation.rank
    from_page(widget, facts_of(widget)[:1])
    standing = widget.rank
    again = world.widget(rank=True, rank_sample=5)
    from_page(again, facts_of(again)[:1])
    assert standing == again.rank
    assert widget.answer["rank"][1].endswith("of 5 items")
    nodes = widget._nodes - world.explainer.graph.flat_index("item", 0)
    scores = np.array(world.scores([]))[nodes]
    assert before == 1 + int((scores > world.scores([])[DST]).sum())


def test_what_is_said(world: World) -> None:
    widget = world.widget(rank=True)
    assert widget.answer["score"] == [numbers(widget.logit)[0]] * 2
    assert widget.answer["sentence"] == ""
    assert repr(widget) == "<ExplanationWidget: user 0 likes item 5>"
    off = facts_of(widget)
    widget.off = off[:2]
    before, after = numbers(world.scores([])[DST], world.scores(off[:2])[DST])
    assert widget.answer["score"] == [before, after]
    assert widget.answer["sentence"] == (
        f"The score falls from {before} to {after}. The rank goes from 5th to 4th of 9 items."
    )
    assert widget.answer["facts"] == [
        step["sentence"] for step in widget.shown["paths"][0]["steps"][:2]
    ]
    (other, *_) = set(range(world.explainer.graph.num_facts)) - set(off)
    widget.off = [other]  # it need not be on a path
    assert re.fullmatch(r"user \d (rated|viewed) item \d", widget.answer["facts"][0])
    assert widget.logit == pytest.approx(world.scores([other])[DST], abs=1e-5)


def test_the_drawing_has_the_facts_of_the_paths(world: World) -> None:
    shown = world.widget().shown
    for path in shown["paths"]:
        for at in range(len(path["steps"])):
            place = f'data-path="{path["number"]}" data-step="{at}"'
            assert place in shown["svg"]
            assert place in shown["svg_narrow"]


def test_a_link_of_the_graph_is_scored_without_itself() -> None:
    data, model = random_case(SEED)
    rated = ("user", "rated", "item")
    explainer = PaGELink(model, data, rated, threshold=None)
    src, dst = data[rated].edge_index[:, 0].tolist()
    widget = explainer.widget(explainer.explain(src, dst))
    assert any("in the graph already" in text for text in widget.shown["sentences"])
    facts = facts_of(widget)
    widget.off = facts[:1]
    gone = [*facts[:1], explainer.link(src, dst).fact]
    edited = without(explainer, data, np.array(gone))
    with torch.no_grad():
        plain = model(edited.x_dict, edited.edge_index_dict, torch.tensor([[src], [dst]])).item()
    assert widget.logit == pytest.approx(plain, abs=1e-5)


def test_model_and_data_come_back_as_they_were(world: World) -> None:
    widget = world.widget(rank=True)
    world.model.train()
    state = {name: value.clone() for name, value in world.model.state_dict().items()}
    edges = {name: copy.copy(value) for name, value in world.data.edge_index_dict.items()}
    with torch.inference_mode():
        widget.off = facts_of(widget)[:2]
    assert world.model.training
    assert all(parameter.requires_grad for parameter in world.model.parameters())
    assert not any(module._forward_hooks for module in world.model.modules())
    assert all(torch.equal(value, state[name]) for name, value in world.model.state_dict().items())
    now = world.data.edge_index_dict
    assert all(value is now[name] or torch.equal(value, now[name]) for name, value in edges.items())
    world.model.eval()


def test_what_cannot_be_switched_off_is_refused(world: World) -> None:
    widget = world.widget()
    with pytest.raises(LinkError, match="no fact 99"):
        widget.off = [99]
    assert widget.off == []


def test_an_explanation_of_another_graph_is_refused(world: World) -> None:
    explanation = world.explainer.explain(SRC, DST)
    data = HeteroData()
    data["user"].x, data["item"].x = torch.zeros(6, 4), torch.zeros(9, 4)
    edges = torch.tensor([[0, 1], [8, 8]])
    for name in ("rated", "viewed"):
        data["user", name, "item"].edge_index = edges
        data["item", f"rev_{name}", "user"].edge_index = edges.flip(0)
    other = PaGELink(Two(data), data, LIKES, threshold=None)
    with pytest.raises(SettingsError, match="not in the graph of this explainer"):
        other.widget(explanation)


class Failing(Two):
    fails = False

    def forward(self, *given: Any) -> Any:
        if self.fails:
            raise ValueError("out of order")
        return super().forward(*given)


def test_a_model_that_fails_is_reported() -> None:
    data, _ = random_case(SEED)
    torch.manual_seed(SEED)
    model = Failing(data)
    explainer = PaGELink(model, data, LIKES, threshold=None)
    widget = explainer.widget(explainer.explain(SRC, DST))
    (first, *_) = facts_of(widget)
    model.fails = True
    with pytest.raises(ValueError, match="out of order"):
        widget.off = [first]
    assert "out of order" in widget.answer["problem"]
    assert widget.answer["off"] == [first]
    model.fails = False
    widget.off = []
    assert "problem" not in widget.answer
    assert widget.logit == widget.explanation.logit


def test_a_link_without_paths(world: World) -> None:
    short = world.explainer.settings.replace(max_length=1, longer=False)
    widget = world.explainer.widget(world.explainer.replace(short).explain(SRC, DST))
    assert widget.explanation.reason == "beyond_max_length"
    assert widget.shown["paths"] == []
    assert "There are no paths to show." in widget.shown["sentences"]
    widget.off = [0]
    assert widget.logit == pytest.approx(world.scores([0])[DST], abs=1e-5)


def test_without_its_extra(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = world.explainer.explain(SRC, DST)
    monkeypatch.setitem(sys.modules, "anywidget", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"anywidget.*pip install 'pagelink\[notebook\]'"):
        world.explainer.widget(explanation)


# In a browser, with a kernel.


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser, Voila(CELL) as served:
        yield opened(browser, served)


def opened(browser: Browser, served: Voila) -> Page:
    """The notebook in a browser that reaches nothing but its server."""
    context = browser.new_context(
        viewport={"width": 1200, "height": 900}, reduced_motion="reduce", color_scheme="light"
    )

    def let_through(route: Route) -> None:
        if route.request.url.startswith(served.address):
            route.continue_()
        else:
            route.abort()

    context.route("**/*", let_through)
    page = context.new_page()
    page.goto(served.address, timeout=240_000)  # Voila answers when the notebook has run
    expect(page.locator(".pagelink-notebook")).to_be_visible(timeout=60_000)
    return page


def says(page: Page, world: World, off: list[int]) -> None:
    """Hold the page to the score and the rank without some facts."""
    scores = world.scores(off)
    before, after = numbers(world.scores([])[DST], scores[DST])
    rank = 1 + sum(score > scores[DST] for score in scores)
    expect(page.locator(".pagelink-score-now strong")).to_have_text(after)
    expect(page.locator(".pagelink-rank-now strong")).to_have_text(
        re.compile(rf"{rank}(st|nd|rd|th) of 9 items")
    )
    was = page.locator(".pagelink-score-now .pagelink-before")
    if before == after:
        expect(was).to_have_count(0)
    else:
        expect(was).to_have_text(before)
    expect(page.locator(".pagelink-notebook")).to_have_attribute("aria-busy", "false")


@pytest.mark.slow
def test_a_fact_is_switched_off_by_a_click_and_on_by_a_key(page: Page, world: World) -> None:
    widget = world.widget(rank=True)
    first, second, *_ = facts_of(widget)
    says(page, world, [])
    lines = page.locator(".pagelink-fact.switchable")
    assert lines.count() == len(facts_of(widget))
    lines.nth(0).click()
    says(page, world, [first])
    expect(lines.nth(0)).to_have_attribute("aria-checked", "false")
    expect(page.get_by_text("Switched off: user 0 rated item 2.")).to_be_visible()
    expect(page.locator("[role=status]")).to_contain_text("The score falls from")
    lines.nth(1).focus()
    page.keyboard.press("Enter")
    says(page, world, sorted([first, second]))
    lines.nth(0).focus()
    page.keyboard.press("Space")
    says(page, world, [second])
    page.get_by_role("button", name="Switch all on").click()
    says(page, world, [])
    expect(page.locator(".is-off")).to_have_count(0)
    # The number of a path is all of its facts.
    page.locator(".pagelink-rank.switchable").nth(2).click()
    says(page, world, [step["fact"] for step in widget.shown["paths"][2]["steps"]])
    page.locator(".pagelink-rank.switchable").nth(2).click()
    says(page, world, [])


@pytest.mark.slow
def test_the_widget_follows_theme_and_width(page: Page) -> None:
    def ground() -> str:
        found: str = page.evaluate(
            "getComputedStyle(document.querySelector('.pagelink-notebook')).backgroundColor"
        )
        return found

    violations = axe(page)
    assert ground() == "rgb(255, 255, 255)"
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    expect(page.locator(".pagelink-dark")).to_have_count(1)
    assert ground() == "rgb(20, 26, 34)"
    assert page.evaluate(
        "getComputedStyle(document.querySelector('.pagelink-node')).fill"
    ) == "rgb(29, 37, 48)"  # fmt: skip
    violations += axe(page)
    page.set_viewport_size({"width": 400, "height": 800})
    expect(page.locator(".pagelink-drawing.is-narrow")).to_be_visible()
    expect(page.locator(".pagelink-fact.switchable")).not_to_have_count(0)
    box = page.locator(".pagelink-drawing").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 400
    assert violations == []
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    page.set_viewport_size({"width": 1200, "height": 900})


def axe(page: Page) -> list[str]:
    """What axe finds in the widget; the rest of the page is the notebook's."""
    found = find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        return []
    script = Path(found.origin).with_name("axe.min.js").read_text("utf-8")
    page.evaluate(script)
    violations: list[str] = page.evaluate(
        """() => axe.run(".pagelink-notebook").then(({ violations }) =>
            violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}`)))"""
    )
    return violations
