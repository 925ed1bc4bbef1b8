"""The benchmark's tables in the docs: written from committed results, between markers.

The results are run files without what they hold of single links, so that they stay small. What
stands between `<!-- benchmark:NAME -->` and `<!-- /benchmark:NAME -->` is made from them: NAME is a
part, `parts` for all of them with their headings, `summary` for one short table, or `origin` for
what made the figures.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from pagelink.errors import PageLinkError
from pagelink.evaluation.paper_explainers import PART as EXPLAINERS
from pagelink.evaluation.paper_explainers_tables import summary
from pagelink.evaluation.paper_parts import PARTS
from pagelink.evaluation.paper_plan import PER_LINK
from pagelink.evaluation.paper_report import (
    as_markdown,
    origin,
    run_store,
    sections,
    tables_markdown,
)
from pagelink.evaluation.runs import RunStore
from pagelink.files import write_text

RESULTS = Path("docs") / "results"
FILES = (Path("docs") / "benchmark.md", Path("README.md"))
MOST_BYTES = 1_000_000
_MARKED = re.compile(r"(<!-- benchmark:([a-z-]+) -->\n).*?(<!-- /benchmark:\2 -->)", re.DOTALL)


def publish(folder: Path, root: Path) -> int:
    """Copy the runs of a benchmark to the results of a checkout, without those of single links.

    Parts that the folder does not have stay as they are.

    Args:
        folder: what `pagelink bench paper --out` wrote.
        root: the checkout.

    Returns:
        The bytes that all results take up.

    Raises:
        PageLinkError: there is no run, or the results would be too large to commit.
    """
    store = run_store(folder)
    parts = [name for name in PARTS if any(store.all(name))]
    if not parts:
        raise PageLinkError(f"There are no benchmark runs in {folder}.")
    for part in parts:
        target = root / RESULTS / part
        for old in target.glob("*.json"):
            old.unlink()
        for file in sorted((store.folder / part).glob("*.json")):
            run = json.loads(file.read_text(encoding="utf-8"))
            run["figures"].pop(PER_LINK, None)
            write_text(target / file.name, json.dumps(run, ensure_ascii=False) + "\n")
    size = sum(file.stat().st_size for file in (root / RESULTS).rglob("*.json"))
    if size > MOST_BYTES:
        raise PageLinkError(
            f"The results in {root / RESULTS} take up {size:,} bytes, more than {MOST_BYTES:,}. "
            f"Figures of single links belong under {PER_LINK!r}, which is left out."
        )
    return size


def filled(text: str, store: RunStore) -> str:
    """Return a text with what stands between its markers made anew from the results.

    Raises:
        PageLinkError: a marker has a name that means nothing.
    """

    def made(found: re.Match[str]) -> str:
        return f"{found[1]}{_content(found[2], store)}{found[3]}"

    return _MARKED.sub(made, text)


def write_docs(root: Path) -> list[Path]:
    """Make the tables in the docs of a checkout anew; return the files that changed."""
    changed = []
    for name in FILES:
        file = root / name
        if file.exists():
            text = file.read_text(encoding="utf-8")
            new = filled(text, RunStore(root / RESULTS))
            if new != text:
                changed.append(write_text(file, new))
    return changed


def _content(name: str, store: RunStore) -> str:
    if name == "origin":
        return origin(store.all()) + "\n"
    if name == "parts":
        return as_markdown(sections(store))
    if name == "summary":
        tables = summary(list(store.all(EXPLAINERS)))
        return tables_markdown(tables, 3)
    if name in PARTS:
        runs = list(store.all(name))
        return tables_markdown(PARTS[name].tables(runs), 3) if runs else "Not run yet.\n"
    raise PageLinkError(
        f"A marker <!-- benchmark:{name} --> means nothing: the names are origin, parts, summary, "
        f"{', '.join(PARTS)}."
    )
