"""What a page and a drawing hold, as a browser would meet it, and whether there is room for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from html.parser import HTMLParser
from xml.etree import ElementTree

from pagelink.explain.result import Explanation
from pagelink.views.pages import to_svg
from pagelink.views.text import text_width

SVG = "{http://www.w3.org/2000/svg}"
BOLD = ("pagelink-name", "pagelink-group")


class Page(HTMLParser):
    """The elements, attributes and text of a page, as a browser's parser would meet them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data.strip()))

    def text(self, *tags: str) -> str:
        return " ".join(text for tag, text in self.texts if not tags or tag in tags)


Area = tuple[float, float, float, float]


def overlap(one: Area, other: Area) -> bool:
    return (
        one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
    )  # fmt: skip


def node_areas(root: ElementTree.Element) -> list[tuple[str, Area]]:
    """Return title and rectangle of each node."""
    found = []
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect[@class='pagelink-node']")
        if rect is not None:
            x, y, width, height = (float(rect.get(k, "")) for k in ("x", "y", "width", "height"))
            found.append((group.findtext(f"{SVG}title", ""), (x, y, x + width, y + height)))
    return found


def text_areas(root: ElementTree.Element, kind: str) -> Iterator[Area]:
    """Return the rectangles that texts of a class take, by the estimate."""
    for text in root.iter(f"{SVG}text"):
        if text.get("class") == kind:
            size, x, y = (float(text.get(key, "")) for key in ("font-size", "x", "y"))
            half = text_width(text.text or "", size, bold=kind in BOLD) / 2
            yield (x - half, y - 0.8 * size, x + half, y + 0.25 * size)


def assert_nodes_have_room(explanation: Explanation) -> None:
    """No node of the drawing overlaps another one, and all lie inside."""
    root = ElementTree.fromstring(to_svg(explanation))
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    areas = [area for _, area in node_areas(root)]
    assert len(areas) >= 2
    for one, other in itertools.combinations(areas, 2):
        assert not overlap(one, other)
    for area in areas:
        assert area[0] >= 0
        assert area[1] >= 0
        assert area[2] <= width
        assert area[3] <= height


def assert_lettering_has_room(explanation: Explanation) -> None:
    """The lettering of the drawing overlaps neither nodes nor itself."""
    root = ElementTree.fromstring(to_svg(explanation))
    nodes = [area for _, area in node_areas(root)]
    outside = [
        area
        for kind in (
            "pagelink-label",
            "pagelink-effect",
            "pagelink-caption",
            "pagelink-group",
            "pagelink-message",
        )
        for area in text_areas(root, kind)
    ]
    for one, other in itertools.combinations([*outside, *nodes], 2):
        assert not overlap(one, other)
    inside = [
        area for kind in ("pagelink-name", "pagelink-detail") for area in text_areas(root, kind)
    ]
    assert inside
    for text in inside:
        assert any(
            box[0] <= text[0] and text[2] <= box[2] and box[1] <= text[1] and text[3] <= box[3]
            for box in nodes
        )
