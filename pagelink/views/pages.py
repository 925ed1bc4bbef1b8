"""The drawing: paths from the source on the left to the target on the right, as an SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from pagelink.errors import need
from pagelink.explain.result import Explanation
from pagelink.views import layout
from pagelink.views.lettering import shorten, text_width
from pagelink.views.naming import clean, count, type_words, words
from pagelink.views.templates import Colour, Layout, render, type_colours
from pagelink.views.wording import PathWords, Wording, wording

_LEGEND_SIZE, _LEGEND_LINE = 12.0, 24.0
_SWATCH, _BETWEEN = 26.0, 20.0


@dataclass(frozen=True)
class _LegendEntry:
    """One sign of the drawing and its meaning."""

    x: float
    y: float
    text: str
    sign: Colour | Literal["question", "fact", "effect"]
    """The colour of a node type, or the kind of line."""


@dataclass(frozen=True)
class Drawing:
    """A drawing, and how wide it is meant to be shown, in pixels."""

    svg: str
    width: float


def to_svg(explanation: Explanation) -> str:
    """Draw the paths as a standalone SVG that needs neither fonts nor network."""
    return draw(wording(explanation), type_colours(explanation)).svg


def draw(said: Wording, colours: dict[str, Colour]) -> Drawing:
    """Draw what an explanation says; `colours` are those of its node types."""
    placed = layout.place(said)
    legend = _legend(colours, placed, said.noun)
    svg = render(
        "paths.svg",
        placed=placed,
        colours=colours,
        legend=legend,
        height=legend[-1].y + layout.MARGIN,
        title=_title(said),
        sizes=layout,
        legend_size=_LEGEND_SIZE,
    )
    return Drawing(svg, placed.width)


def _title(said: Wording) -> str:
    """Return the drawing in one line, for readers who do not see it."""
    shown = [*said.opening, *(f"{group.heading}." for group in said.groups)]
    return " ".join([f"{said.link}.", said.score_sentence, *said.requests, *shown])


def _legend(colours: dict[str, Colour], placed: Layout, noun: str) -> list[_LegendEntry]:
    """Place the legend below the drawing, in as many lines as it needs."""
    signs: list[tuple[str, Colour | Literal["question", "fact", "effect"]]] = [
        (words(kind), colour) for kind, colour in colours.items()
    ]
    signs.append(("the link in question", "question"))
    if placed.arrows:
        signs.append(("a fact, read along the arrow", "fact"))
    if any(arrow.effect for arrow in placed.arrows):
        signs.append((f"change of the {noun} without that fact alone", "effect"))
    entries = []
    x, y = layout.MARGIN, placed.height + _LEGEND_LINE / 4
    room = placed.width - 2 * layout.MARGIN
    for meaning, sign in signs:
        text = shorten(meaning, room - _SWATCH, _LEGEND_SIZE)
        width = _SWATCH + text_width(text, _LEGEND_SIZE)
        if x > layout.MARGIN and x + width > layout.MARGIN + room:
            x, y = layout.MARGIN, y + _LEGEND_LINE
        entries.append(_LegendEntry(x, y, text, sign))
        x += width + _BETWEEN
    return entries


# The drawing as a PNG, with a font that is always there.


def to_png(explanation: Explanation, zoom: float = 2.0) -> bytes:
    """Draw the paths as a PNG; see `painted`."""
    return painted(to_svg(explanation), zoom)


def painted(svg: str, zoom: float = 2.0) -> bytes:
    """Return a drawing as a PNG.

    Latin, Greek and Cyrillic letters come from a font of our own; fonts of the system are used for
    other scripts, where there are any.

    Raises:
        MissingExtraError: the packages that draw it are not installed.
    """
    need("A PNG", "web", "resvg_py", "font_source_sans_pro")
    import font_source_sans_pro as font
    import resvg_py

    fonts = [font.SourceSansPro, font.SourceSansProBold, font.SourceSansProSemibold]
    png: bytes = resvg_py.svg_to_bytes(
        svg_string=svg, zoom=zoom, background="#ffffff", font_files=fonts,
        font_family="Source Sans Pro", sans_serif_family="Source Sans Pro",
    )  # fmt: skip
    return bytes(png)


# The text view: what an explanation says, for people who do not know the model.


def to_text(explanation: Explanation) -> str:
    """Return the explanation in plain words, one fact a line."""
    said = wording(explanation)
    head = [*said.opening, f"The link: {said.link}", said.score_sentence, *said.requests]
    blocks = ["\n".join(head)]
    for group in said.groups:
        blocks.append(f"{group.heading}:")
        blocks.extend(_path_block(path) for path in group.paths)
    if said.caveat:
        blocks.append(said.caveat)
    if said.figures:
        lines = [f"- {about}: {answer}" for about, answer in said.figures]
        blocks.append("\n".join(["The model's answers:", *lines]))
    if said.notes:
        blocks.append("\n".join(["Notes:", *(f"- {note}" for note in said.notes)]))
    return "\n\n".join(blocks)


def _path_block(path: PathWords) -> str:
    number = f"{path.rank}. "
    lines = [*(str(step) for step in path.steps), *path.remarks]
    return number + f"\n{' ' * len(number)}".join(lines)


# The page: words, drawing, figures and how they were made, in one file without network.


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
