"""pagelink explains link predictions of graph neural networks on heterogeneous graphs by paths."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagelink.errors import PageLinkError
    from pagelink.explainer import PaGELink
    from pagelink.explanation import Explanation, Path, PathEdge
    from pagelink.settings import Settings
    from pagelink.tables import load_graph, save_graph

__version__ = "0.1.0"

# Importing torch takes seconds; what needs it is imported when it is first used.
_HOME = {
    "PaGELink": "pagelink.explainer",
    "Settings": "pagelink.settings",
    "Explanation": "pagelink.explanation",
    "Path": "pagelink.explanation",
    "PathEdge": "pagelink.explanation",
    "PageLinkError": "pagelink.errors",
    "load_graph": "pagelink.tables",
    "save_graph": "pagelink.tables",
}

__all__ = [
    "Explanation", "PaGELink", "PageLinkError", "Path", "PathEdge", "Settings", "load_graph",
    "save_graph",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'pagelink' has no attribute {name!r}")
