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
# What the annotations name that is not described here: other projects, and our names for arrays.
nitpick_ignore_regex = [
    ("py:.*", r"pagelink\.(graph|models\.adjacency)\..*"),
    ("py:.*", r"(torch|torch_geometric|numpy|np|npt|pyarrow|pa|rich|nn|collections|pathlib)\..*"),
    ("py:.*", r"(Tensor|HeteroData|Data|Module|Console|Generator|ArrayLike|Longs|Floats)"),
    ("py:.*", r"(Path|Iterable|Iterator|Mapping|Sequence|Callable|Literal|optional|ClassVar)"),
]
# A page shows names, not where they live.
add_module_names = False
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
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
    for i, line in enumerate(lines):
        parts = re.split(r"(`+[^`]+`+)", line)
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        parts[1::2] = [f"``{part.strip('`')}``" for part in parts[1::2]]
        lines[i] = "".join(parts)
    if what in ("attribute", "property"):
        _of_attributes[name] = list(lines)


_of_attributes = {}


def _no_types(app, what, name, obj, options, lines):
    """Napoleon takes what comes before a colon, "l_max: a path has", for a type; undo that."""
    if name in _of_attributes:
        lines[:] = _of_attributes[name]


def _fields_only(app, what, name, obj, options, signature, returns):
    """The fields of a dataclass are listed below it; they need no second list in its signature."""
    return ("", returns) if what == "class" and is_dataclass(obj) else None


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", _fields_only)
    # Before napoleon, which makes markup of its own.
    app.connect("autodoc-process-docstring", _plain_words, priority=400)
    app.connect("autodoc-process-docstring", _no_types, priority=600)
