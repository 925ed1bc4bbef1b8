"""The result of an audit, which says and shows itself."""

from __future__ import annotations

from pathlib import Path

from pagelink.audit.figures import AuditFigures, read_audit
from pagelink.audit.page import to_html
from pagelink.audit.rows import from_plain
from pagelink.audit.wording import to_text
from pagelink.errors import SettingsError


class Audit(AuditFigures):
    """What a model relies on; `AuditFigures` has the fields."""

    @classmethod
    def read(cls, path: Path | str) -> Audit:
        """Return an audit that was written as JSON.

        Raises:
            SettingsError: the file is no audit, or one of another version.
        """
        values = read_audit(path)
        try:
            found: Audit = from_plain(cls, values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SettingsError(
                f"{path} is an audit in which something is missing or wrong: {error!r}. Make it "
                "again by `pagelink audit --json`."
            ) from error
        return found

    def to_html(self) -> str:
        """Return one self-contained page that needs no network."""
        return to_html(self)

    def __str__(self) -> str:
        return to_text(self)
