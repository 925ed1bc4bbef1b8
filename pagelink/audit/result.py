"""The result of an audit, which says and shows itself."""

from __future__ import annotations

from pagelink.audit.figures import AuditFigures
from pagelink.audit.page import to_html
from pagelink.audit.wording import to_text


class Audit(AuditFigures):
    """What a model relies on; `AuditFigures` has the fields."""

    def to_html(self) -> str:
        """Return one self-contained page that needs no network."""
        return to_html(self)

    def __str__(self) -> str:
        return to_text(self)
