"""The audits of the docs are what the command prints of their figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pagelink.audit.result import Audit

DOCS = Path(__file__).parent.parent.parent / "docs"
RESULTS = DOCS / "results"
PUBLISHED = [file.stem.removeprefix("audit-") for file in sorted(RESULTS.glob("audit-*.json"))]


def test_there_are_audits() -> None:
    assert {"drugs", "movies", "papers"} <= set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_audit_of_the_docs(name: str) -> None:
    printed = (
        f"--model {name}.pt --out {name}.html --json {name}.json\n"
        f"{Audit.read(RESULTS / f'audit-{name}.json')}\n"
        f"Wrote {name}.html\nWrote {name}.json\n```\n"
    )
    page = (DOCS / "audit.md").read_text("utf-8")
    assert printed in re.sub(r" --sample \d+", "", page)
