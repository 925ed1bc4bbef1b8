"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def layout(rows: Sequence[Sequence[str]]) -> str:
    """Lay rows out as a Markdown table that also reads well in a terminal.

    Example:
        >>> print(layout([["", "a"], ["row", "1"]]))
        |     |   a |
        | --- | --: |
        | row |   1 |
    """
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(
        "| " + " | ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ) + " |"
        for row in (rows[0], rule, *rows[1:])
    )  # fmt: skip
