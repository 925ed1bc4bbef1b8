"""The page: words, drawing, figures and how they were made, in one file without network."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from pagelink.explanation import Explanation
from pagelink.views.naming import clean, count, type_words
from pagelink.views.palette import type_colours
from pagelink.views.rendering import render
from pagelink.views.svg import draw
from pagelink.views.wording import wording

_SMALLEST_SCALE = 0.75
"""In a narrow window a drawing shrinks to this share of its size, then it scrolls."""


def to_html(explanation: Explanation) -> str:
    """Return one self-contained page that needs no network."""
    return render("page.html", **_content(explanation))


def to_html_fragment(explanation: Explanation) -> str:
    """Return the page's content for use inside another page, such as a notebook."""
    return render("fragment.html", **_content(explanation))


def _content(explanation: Explanation) -> dict[str, Any]:
    """Return what the templates show."""
    said = wording(explanation)
    colours = type_colours(explanation)
    drawing = draw(said, colours)
    return {
        "said": said,
        "colours": colours,
        "drawing": Markup(drawing.svg),  # escaped where it was filled in
        "drawing_width": round(drawing.width),
        "smallest_width": round(drawing.width * _SMALLEST_SCALE),
        "made": _how_it_was_made(explanation),
        "settings": {
            name: "not set" if value is None else str(value)
            for name, value in explanation.settings.to_dict().items()
        },
    }


def _how_it_was_made(explanation: Explanation) -> dict[str, str]:
    hops = explanation.num_hops
    seen = "the whole graph" if hops is None else f"{count(hops, 'hop')} around each end"
    made = {
        "Kind of link": type_words(explanation.link_type),
        "Source": "{} {}".format(*explanation.src),
        "Target": "{} {}".format(*explanation.dst),
        "The model sees": seen,
        "Mask learning": count(explanation.epochs, "step"),
        "Seed": str(explanation.seed),
        "CPU seconds": f"{explanation.seconds:.3g}",
    }
    if explanation.reason is not None:
        made["Reason"] = explanation.reason
    made.update({f"Version of {name}": text for name, text in explanation.versions.items()})
    return {clean(name): clean(text) for name, text in made.items()}
