"""The parts of the paper's benchmark, by name. A new one is one module and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from pagelink.errors import SettingsError, did_you_mean
from pagelink.evaluation.paper_plan import Part

PARTS: dict[str, Part] = {}


def check_parts(names: Sequence[str]) -> tuple[Part, ...]:
    """Return the asked parts, all if none is asked for.

    Raises:
        SettingsError: there is no such part.
    """
    for name in names:
        if name not in PARTS:
            raise SettingsError(
                f"A part is one of {', '.join(PARTS)}; got {name!r}.{did_you_mean(name, PARTS)}"
            )
    return tuple(PARTS[name] for name in dict.fromkeys(names or PARTS))
