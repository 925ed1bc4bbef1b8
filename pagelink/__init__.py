"""pagelink explains link predictions of graph neural networks on heterogeneous graphs by paths."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pagelink.errors import PageLinkError
    from pagelink.explain.explainer import PaGELink
    from pagelink.explain.pyg import PaGELinkExplainer
    from pagelink.explain.result import Explanation, Path, PathEdge
    from pagelink.settings import Settings
    from pagelink.store.graph_store import GraphStore
    from pagelink.tables.load import load_graph, save_graph
    from pagelink.tables.words import Words
    from pagelink.trained.explainer import TrainedExplainer, explain_trained

__version__ = "0.1.0"

# Importing torch takes seconds; what needs it is imported when it is first used.
_HOME = {
    "PaGELink": "pagelink.explain.explainer",
    "PaGELinkExplainer": "pagelink.explain.pyg",
    "GraphStore": "pagelink.store.graph_store",
    "Settings": "pagelink.settings",
    "Explanation": "pagelink.explain.result",
    "Path": "pagelink.explain.result",
    "PathEdge": "pagelink.explain.result",
    "PageLinkError": "pagelink.errors",
    "load_graph": "pagelink.tables.load",
    "save_graph": "pagelink.tables.load",
    "Words": "pagelink.tables.words",
    "TrainedExplainer": "pagelink.trained.explainer",
    "explain_trained": "pagelink.trained.explainer",
}

__all__ = [
    "Explanation", "GraphStore", "PaGELink", "PaGELinkExplainer", "PageLinkError", "Path",
    "PathEdge", "Settings", "TrainedExplainer", "Words", "explain_trained", "load_graph",
    "save_graph",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'pagelink' has no attribute {name!r}")
