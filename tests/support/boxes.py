"""Pages measured at three widths, light and dark: by the boxes of their elements, and by axe."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

SIZES = {1440: 900, 1024: 768, 390: 844}
SCHEMES = ("light", "dark")

# What scrolls by itself and is a stop of the tab key may be wider than the window.
LEAVES_THE_WINDOW = """() => [...document.querySelectorAll("body *")].filter((element) => {
  if (!element.checkVisibility() || element.closest(".visually-hidden, .skip, dialog:not([open])"))
    return false;
  if (element.parentElement.closest("[role=region][tabindex='0']")) return false;
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
    if (overlap(a, b) && !one.contains(other) && !other.contains(one))
      found.push([one, other].map((each) => each.outerHTML.slice(0, 100)));
  }));
  compare(boxes(".why-head, .opening, .score, .chips, .choices, .drawing-frame, .drawing-hint, " +
    ".rest, .card, .beyond > *, .caveat, .asked, .fact, legend, .sheet > *, header > *"));
  compare(boxes(".score-rank, .score-value, .score-place"));
  compare(boxes(".tabs, .zoom, .choices > .button"));
  for (const [drawing] of boxes(".pagelink-drawing, .subgraph")) {
    compare(boxes(".pagelink-node, .pagelink-label, .pagelink-effect, .pagelink-legend", drawing));
    compare(boxes(".subgraph > g > rect", drawing));
    const whole = drawing.getBoundingClientRect();
    for (const [each, box] of boxes("text, .pagelink-node, g > rect", drawing))
      if (box.left < whole.left - 1 || box.right > whole.right + 1 || box.bottom > whole.bottom + 1)
        found.push(["outside the drawing", each.outerHTML.slice(0, 100)]);
  }
  return found;
}"""

AXE = """() => axe.run().then(({ violations }) =>
  violations.map((each) => [each.id, ...each.nodes.map((node) => node.html)]))"""


def opened(browser: Browser, width: int, scheme: Any, **options: Any) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": SIZES[width]}, color_scheme=scheme,
        reduced_motion="reduce", **options,
    )  # fmt: skip
    return context.new_page()


def check_boxes(page: Page) -> None:
    page.evaluate("scrollTo(0, 0)")  # what sticks to the top lies over what is scrolled below it
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(LEAVES_THE_WINDOW) == []
    assert page.evaluate(CUT) == []
    assert page.evaluate(OVERLAPS) == []


HAS_AXE = find_spec("axe_playwright_python") is not None
needs_axe = pytest.mark.skipif(not HAS_AXE, reason="needs axe-playwright-python")


def violations(page: Page) -> list[list[str]]:
    """What axe finds on a page that was opened with `bypass_csp`."""
    found = find_spec("axe_playwright_python")
    assert found is not None
    assert found.origin is not None
    page.evaluate(Path(found.origin).with_name("axe.min.js").read_text("utf-8"))
    listed: list[list[str]] = page.evaluate(AXE)
    return listed
