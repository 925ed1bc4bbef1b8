"""Makes the screenshots of README and docs: the explorer and the study on the demo's graph.

Run `make screenshots`; it needs Chromium, as the tests of the pages do.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
from support.browser import Served, chromium  # noqa: E402 - the browser of the tests

IMAGES = HERE / "images"
WIDE, NARROW = (1600, 1000), (390, 844)
LINK = "/?src=24&dst=8"  # Delia, Robinson Crusoe


def main() -> None:
    """Take all screenshots."""
    with chromium() as browser:
        with Served("serve", "--demo") as served:
            _shoot(browser, served.address + LINK, "explorer", WIDE, "light")
            _shoot(browser, served.address + LINK, "explorer-dark", WIDE, "dark")
            _shoot(browser, served.address + LINK, "explorer-narrow", NARROW, "light")
        with TemporaryDirectory() as folder:
            study = Path(folder) / "study.db"
            _pagelink("study", "create", "--demo", "--links", "6", "--out", study)
            with Served("study", "serve", study) as served:
                page = _open(browser, served.address, WIDE, "light")
                _to_first_question(page)
                _save(page, "study")


def _pagelink(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pagelink", *map(str, arguments)], check=True)


def _open(browser: Browser, address: str, size: tuple[int, int], scheme: str) -> Page:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_load_state("networkidle")
    return page


def _shoot(browser: Browser, address: str, name: str, size: tuple[int, int], scheme: str) -> None:
    page = _open(browser, address, size, scheme)
    page.locator(".opening-first").wait_for()
    _save(page, name)


def _to_first_question(page: Page) -> None:
    """Join, skip the background, and go on until explanations stand side by side."""
    page.get_by_role("button").first.click()
    page.get_by_role("button").last.click()
    while page.get_by_text("Explanation 2").count() == 0:
        page.get_by_role("radio").first.check(force=True)
        page.locator("form button[type=submit]").last.click()
        page.wait_for_load_state("networkidle")


def _save(page: Page, name: str) -> None:
    page.wait_for_timeout(500)
    page.screenshot(path=IMAGES / f"{name}.png")
    print(f"Wrote {IMAGES / name}.png")
    page.context.close()


if __name__ == "__main__":
    main()
