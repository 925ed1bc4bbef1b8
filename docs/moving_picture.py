"""Records the moving picture of README: a walk through the explorer, from a name to what if not.

Every frame is a screenshot of the page as it is, with a drawn pointer, which screenshots lack.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, FloatRect, Locator, Page, expect

READER, BOOK = "Camila", "The Lost World"
FACTS = ("Camila read “The Sign of the Four”", "Camila read King Solomon's Mines")
"""Facts to switch off, one after the other."""
WIDTH, HEIGHT = 880, 680
"""Of a frame, in pixels. So narrow a window shows one part of the page at a time."""
WIDE = 1200
"""Width of the window of the answer, which is about as wide as a frame there."""
COLOURS = 128

POINTER = """
const pointer = document.createElement("div");
pointer.id = "drawn-pointer";
pointer.style = "position: fixed; z-index: 9999; pointer-events: none; display: none";
pointer.innerHTML = `<svg width="26" height="36" viewBox="0 0 13 18"><path d="M1 1v14l3.4-3.2
  2.2 5 2.4-1-2.2-5h4.7z" fill="#111" stroke="#fff"/></svg>`;
document.body.append(pointer);
"""


@dataclass
class Recording:
    """The frames so far, each with the milliseconds for which it is shown."""

    page: Page
    clip: FloatRect | None = None
    frames: list[tuple[Image.Image, int]] = field(default_factory=list)

    def shoot(self, milliseconds: int) -> None:
        """Add a frame of the page as it is now."""
        self.page.wait_for_load_state("networkidle")
        self.page.wait_for_timeout(300)
        taken = self.page.screenshot(clip=self.clip)
        self.frames.append((Image.open(io.BytesIO(taken)).convert("RGB"), milliseconds))

    def point(self, at: Locator, milliseconds: int) -> None:
        """Add a frame with the pointer on something, on its right, where there is little text."""
        at.hover()
        box = at.bounding_box()
        assert box is not None
        place = [box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2]
        self.page.evaluate(
            """([x, y]) => Object.assign(document.getElementById("drawn-pointer").style,
                { display: "block", left: `${x}px`, top: `${y}px` })""",
            place,
        )
        self.shoot(milliseconds)
        self.page.evaluate("document.getElementById('drawn-pointer').style.display = 'none'")

    def save(self, path: Path) -> None:
        """Write an animated GIF: all frames in the colours that they have together."""
        images = [image for image, _ in self.frames]
        sheet = Image.new("RGB", (WIDTH, HEIGHT * len(images)))
        for at, image in enumerate(images):
            sheet.paste(image, (0, HEIGHT * at))
        palette = sheet.quantize(COLOURS, method=Image.Quantize.MEDIANCUT)
        first, *others = [
            image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images
        ]
        durations = [milliseconds for _, milliseconds in self.frames]
        first.save(path, save_all=True, append_images=others, duration=durations, loop=0)


def record(browser: Browser, address: str, path: Path) -> None:
    """Walk through the explorer of the demo at an address, and write the picture of it."""
    page = browser.new_page(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce"
    )
    page.goto(address)
    film = Recording(page)
    page.get_by_role("combobox").first.wait_for()
    page.evaluate(POINTER)
    film.shoot(1800)
    page.get_by_role("combobox").first.press_sequentially(READER[:1])
    film.shoot(500)
    page.get_by_role("combobox").first.press_sequentially(READER[1:3])
    reader = page.get_by_role("option", name=READER)
    reader.wait_for()
    film.shoot(700)
    film.point(reader, 700)
    reader.click()
    page.mouse.move(0, 0)
    book = page.get_by_role("link", name=BOOK)
    book.wait_for()
    film.shoot(1500)
    page.get_by_role("region", name="What").evaluate("part => scrollTo(0, part.offsetTop - 16)")
    film.shoot(1500)
    film.point(book, 900)
    book.click()
    page.set_viewport_size({"width": WIDE, "height": 800})
    why = page.get_by_role("region", name="Why")
    _settle(page)
    box = why.bounding_box()
    assert box is not None
    film.clip = {
        "x": box["x"] + (box["width"] - WIDTH) / 2, "y": box["y"], "width": WIDTH, "height": HEIGHT
    }  # fmt: skip
    page.mouse.move(0, 0)
    film.shoot(3500)
    for fact in FACTS:
        line = why.get_by_label("Drawing of the paths").get_by_role("switch", name=fact)
        film.point(line, 900)
        line.click()
        _settle(page)
        film.shoot(2800)
    film.save(path)
    page.close()
    print(f"Wrote {path}")


def _settle(page: Page) -> None:
    """Wait until the answer, its score and its rank are there."""
    expect(page.locator(".why-verdict .opening")).to_be_visible()
    expect(page.locator(".score-rank strong")).to_be_visible()
    expect(page.locator(".score.is-asking, .explanation.is-old")).to_have_count(0)
