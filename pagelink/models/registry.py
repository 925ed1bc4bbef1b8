"""The kinds of link predictors, by name."""

from __future__ import annotations

from typing import Any

from torch_geometric.data import HeteroData

from pagelink.errors import ModelError, did_you_mean
from pagelink.graph import EdgeType
from pagelink.models.hgt import HGT
from pagelink.models.link_model import LinkModel
from pagelink.models.rgcn import RGCN
from pagelink.models.sage import SAGE

MODELS: dict[str, type[LinkModel]] = {"rgcn": RGCN, "sage": SAGE, "hgt": HGT}


def model_class(name: str) -> type[LinkModel]:
    """Return the kind of model of that name.

    Raises:
        ModelError: there is none.
    """
    if name not in MODELS:
        raise ModelError(
            f"A model is one of {', '.join(MODELS)}, got {name!r}.{did_you_mean(name, MODELS)}"
        )
    return MODELS[name]


def make_model(
    name: str, data: HeteroData, link_type: EdgeType, *, paper_split: bool = False, **options: Any
) -> LinkModel:
    """Return an untrained model for a graph.

    Args:
        name: one of `MODELS`.
        data: the graph.
        link_type: the relation to predict.
        paper_split: as in the settings of the training.
        options: see `LinkModel`.

    Raises:
        ModelError: there is no such model, or no such option.

    Example:
        >>> data = HeteroData()
        >>> data["user"].num_nodes = data["item"].num_nodes = 2
        >>> type(make_model("sage", data, ("user", "likes", "item"), hidden=8)).__name__
        'SAGE'
    """
    return model_class(name).for_data(data, link_type, paper_split=paper_split, **options)
