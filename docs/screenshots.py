"""Makes the pictures of README and docs: explorer, report and study on the demo's graph.

Run `make screenshots`; it needs Chromium, as the tests of the pages do. Names of pictures take only
these: `python docs/screenshots.py explorer report`.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from moving_picture import record
from playwright.sync_api import Browser, Page

from pagelink import load_graph
from pagelink.models.checkpoint import load_checkpoint

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
from support.browser import Served, chromium  # noqa: E402 - the browser of the tests
from support.notebooks import Voila  # noqa: E402

IMAGES = HERE / "images"
WIDE, NARROW, REPORT = (1600, 1000), (390, 844), (1100, 1000)
LINK = "/?src=24&dst=8"  # Delia, Robinson Crusoe
LINKS = 100
"""Links of the report."""
CELL = """
from pagelink import PaGELink
from pagelink.datasets.demo import make_demo
from rich.console import Console

trained = make_demo(0, Console(quiet=True))
explainer = PaGELink(trained.model, trained.data, trained.link_type)
explainer.widget(explainer.explain(24, 8, rank=True, rank_sample=1000))
"""


def main(wanted: list[str]) -> None:
    """Take the wanted pictures, by default all of them."""
    with chromium() as browser:
        for name in wanted or TAKERS:
            TAKERS[name](browser)


def _explorer(browser: Browser) -> None:
    with Served("serve", "--demo") as served:
        record(browser, served.address, IMAGES / "explorer.gif")
        _shoot(browser, served.address + LINK, "explorer", WIDE, "light")
        _shoot(browser, served.address + LINK, "explorer-dark", WIDE, "dark")
        _shoot(browser, served.address + LINK, "explorer-narrow", NARROW, "light")


def _compare(browser: Browser) -> None:
    """The audit with the links of a figure, and why one book is above another."""
    with TemporaryDirectory() as name:
        graph, model = _trained(Path(name))
        audit = Path(name) / "audit.json"
        _pagelink("audit", graph, "--model", model, "--sample", "12", "--json", audit)
        with Served("serve", graph, "--model", model, "--audit", audit) as served:
            page = _open(browser, served.address + "/?audit=node-0", REPORT, "light")
            page.locator(".audited-link").first.wait_for()
            _save(page, "explorer-audit")
            page = _open(browser, f"{served.address}{LINK}&view=compare&with=dst:1", WIDE, "light")
            page.locator(".contrast-drawing img").wait_for(timeout=120_000)
            page.locator("#why").evaluate("part => part.scrollBy(0, 330)")
            _save(page, "explorer-compare")


def _trained(folder: Path) -> tuple[Path, Path]:
    """The books, and a model of their readers."""
    graph, model = folder / "books", folder / "model.pt"
    _pagelink("dataset", "books", "--out", graph)
    _pagelink("train", graph, "--link", "reader,will_like,book", "--paper-split", "--out", model)
    return graph, model


def _report(browser: Browser) -> None:
    """The page about many links: test links of the books."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        graph, model = _trained(folder)
        links = folder / "links.csv"
        pairs = load_checkpoint(model, load_graph(graph)).split.test[:, :LINKS]
        with links.open("w", newline="") as file:
            csv.writer(file).writerows([("src", "dst"), *pairs.T.tolist()])
        _pagelink(
            "explain", graph, "--model", model, "--links", links,
            "--out", folder / "links.parquet", "--report", folder / "report.html",
        )  # fmt: skip
        page = _open(browser, (folder / "report.html").as_uri(), REPORT, "light")
        _save(page, "report")


def _study(browser: Browser) -> None:
    with TemporaryDirectory() as folder:
        study = Path(folder) / "study.db"
        _pagelink("study", "create", "--demo", "--links", "6", "--out", study)
        with Served("study", "serve", study) as served:
            page = _open(browser, served.address, WIDE, "light")
            _to_first_question(page)
            _save(page, "study")


def _notebook(browser: Browser) -> None:
    with Voila(CELL) as served:
        _shoot_widget(browser, served.address)


TAKERS: dict[str, Callable[[Browser], None]] = {
    "compare": _compare, "explorer": _explorer, "notebook": _notebook, "report": _report,
    "study": _study,
}  # fmt: skip


def _pagelink(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pagelink", *map(str, arguments)], check=True)


def _open(browser: Browser, address: str, size: tuple[int, int], scheme: str) -> Page:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(address, timeout=600_000)  # a notebook is shown when it has run
    page.wait_for_load_state("networkidle")
    return page


def _shoot(browser: Browser, address: str, name: str, size: tuple[int, int], scheme: str) -> None:
    page = _open(browser, address, size, scheme)
    page.locator(".opening-first").wait_for()
    _save(page, name)


def _shoot_widget(browser: Browser, address: str) -> None:
    """Switch the first fact off."""
    page = _open(browser, address, (1100, 800), "light")
    page.locator(".pagelink-fact.switchable").first.click()
    page.locator(".pagelink-score-now .pagelink-before").wait_for()
    page.mouse.move(0, 0)
    page.locator(".pagelink-notebook").screenshot(path=IMAGES / "notebook.png")
    print(f"Wrote {IMAGES / 'notebook'}.png")
    page.context.close()


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
    main(sys.argv[1:])
