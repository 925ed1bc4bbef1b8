"""How the pages are built: `make docs` puts them into build/docs."""

import re
import sys
from dataclasses import is_dataclass
from pathlib import Path

from pagelink import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "pagelink"
author = copyright = "The pagelink developers"
version = release = __version__

extensions = ["commands", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
exclude_patterns = ["_ext"]
default_role = "code"
nitpicky = True
# What annotations name and no page describes: other projects, and internal classes.
nitpick_ignore_regex = [
    ("py:class", r"(collections|numpy|pathlib|torch|torch_geometric)\..*"),
    ("py:class", r"ArrayLike|LinkLike|Engine|End"),
    (
        "py:class",
        r"pagelink\..*\.(TypedGraph|Adjacency|Block|Opening|Engine|Metrics|RelationalEdges|"
        r"SortedEdges)",
    ),
]
# A page shows names, not where they live.
add_module_names = False
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike"}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"pagelink {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
highlight_language = "text"


def _plain_words(app, what, name, obj, options, lines):
    """Docstrings are plain text with `code` in it: nothing else in them is markup."""
    indent = None  # of the line that a formula, shown as it is, belongs to
    in_example = False
    for i, line in enumerate(lines):
        here = len(line) - len(line.lstrip())
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if indent is not None and line.strip() and here <= indent:
            indent = None
        if indent is None and not in_example:
            parts = re.split(r"(`+[^`]+`+)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            parts[1::2] = [f"``{part.strip('`')}``" for part in parts[1::2]]
            lines[i] = "".join(parts)
            if line.endswith("::"):
                indent = here
    if what in ("attribute", "property"):
        _of_attributes[name] = list(lines)


_of_attributes = {}


def _no_types(app, what, name, obj, options, lines):
    """Napoleon takes what comes before a colon, "l_max: a path has", for a type; undo that."""
    if name in _of_attributes:
        lines[:] = _of_attributes[name]


def _short_signature(app, what, name, obj, options, signature, returns):
    """The fields of a dataclass are listed below it; they need no second list in its signature."""
    if what == "class" and is_dataclass(obj):
        return "", returns
    return re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", signature or "") or None, returns


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", _short_signature)
    # Before napoleon, which makes markup of its own.
    app.connect("autodoc-process-docstring", _plain_words, priority=400)
    app.connect("autodoc-process-docstring", _no_types, priority=600)
