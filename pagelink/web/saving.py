"""Explanations as files to keep."""

from __future__ import annotations

import json
import re
from typing import Literal

from fastapi import Response

from pagelink.explanation import Explanation

Format = Literal["html", "svg", "png", "json"]
MEDIA_TYPES: dict[Format, str] = {
    "html": "text/html",
    "svg": "image/svg+xml",
    "png": "image/png",
    "json": "application/json",
}


def saved(explanation: Explanation, kind: Format) -> Response:
    """Return an explanation as an attachment, named by the link."""
    content: str | bytes
    if kind == "html":
        content = explanation.to_html()
    elif kind == "svg":
        content = explanation.to_svg()
    elif kind == "png":
        content = explanation.to_png()
    else:
        content = json.dumps(explanation.to_dict(), ensure_ascii=False, indent=1)
    name = f"{explanation.src_name}-{explanation.dst_name}"
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:80] or "explanation"
    return Response(
        content,
        media_type=MEDIA_TYPES[kind],
        headers={"Content-Disposition": f'attachment; filename="{plain}.{kind}"'},
    )
