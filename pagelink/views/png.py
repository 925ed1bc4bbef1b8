"""The drawing as a PNG, with a font that is always there."""

from __future__ import annotations

import font_source_sans_pro as font
import resvg_py

from pagelink.explanation import Explanation
from pagelink.views.svg import to_svg

FONTS = [font.SourceSansPro, font.SourceSansProBold, font.SourceSansProSemibold]


def to_png(explanation: Explanation, zoom: float = 2.0) -> bytes:
    """Draw the paths as a PNG; see `painted`."""
    return painted(to_svg(explanation), zoom)


def painted(svg: str, zoom: float = 2.0) -> bytes:
    """Return a drawing as a PNG.

    Latin, Greek and Cyrillic letters come from a font of our own; fonts of the system are used for
    other scripts, where there are any.
    """
    png: bytes = resvg_py.svg_to_bytes(
        svg_string=svg, zoom=zoom, background="#ffffff", font_files=FONTS,
        font_family="Source Sans Pro", sans_serif_family="Source Sans Pro",
    )  # fmt: skip
    return bytes(png)
