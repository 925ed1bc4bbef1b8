"""How often the model relies on paths at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pagelink.checks.subject import Finding, percent
from pagelink.explanation import VERDICTS, Explanation

WORDS = {
    "supported": "the paths carry the prediction",
    "structure_not_used": "no set of paths moves the score",
    "structure_against": "without any path the score is as high or higher",
    "not_by_these": "paths carry the prediction, but no few of them that were found",
}
HALF = 0.5


def check_verdicts(explanations: Sequence[Explanation]) -> Finding:
    """Count the verdicts of explanations, and the reasons of links without paths."""
    found: Counter[str] = Counter(
        a.evidence.verdict if a.evidence is not None else a.reason or "not measured"
        for a in explanations
    )
    total = len(explanations)
    figures = {"links": total, "shares": {k: n / total for k, n in sorted(found.items())}}
    details = tuple(
        f"{percent(found[name] / total)} {name.replace('_', ' ')}"
        + (f": {WORDS[name]}." if name in WORDS else ".")
        for name in [*VERDICTS, *sorted(set(found) - set(VERDICTS))]
        if name in found
    )
    if not any(name in found for name in VERDICTS):
        return Finding("verdicts", "not checked", "No link has paths.", details, figures)
    supported = found["supported"] / total
    if supported >= HALF:
        verdict = f"For {percent(supported)} of the links the paths carry the prediction."
        return Finding("verdicts", "fine", verdict, details, figures)
    verdict = (
        f"Only for {percent(supported)} of the links the paths carry the prediction: for the "
        "others no explanation by paths is true of this model."
    )
    return Finding("verdicts", "warning", verdict, details, figures)
