"""How templates are filled: everything is escaped, and no illegal character gets through."""

from __future__ import annotations

import functools
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pagelink.views.naming import legal


def render(template: str, *, package: str = "pagelink.views", **values: Any) -> str:
    """Return a file of a package's `templates/`, filled with values escaped on the way."""
    return _environment(package).get_template(template).render(**values)


@functools.cache
def _environment(package: str) -> Environment:
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _without_controls(value: object) -> object:
    """Guard each text that a template puts out; drawings made by another template stay as is."""
    return legal(value) if isinstance(value, str) and not isinstance(value, Markup) else value
