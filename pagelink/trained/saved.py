"""Models without messages that a library has saved, with the facts that they were trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from pagelink.errors import GraphError, ModelError, need

MODEL, TRIPLES = "trained_model.pkl", "training_triples"
"""What `save_to_directory` of a result of PyKEEN's `pipeline` calls model and facts."""


def load_pykeen(folder: Path | str) -> tuple[nn.Module, Any]:
    """Return the model of a folder that PyKEEN wrote, and the triples that it was trained on.

    The model is a pickle, and loading a pickle runs the code in it: only open folders that you
    trust.

    Args:
        folder: what `result.save_to_directory(folder)` wrote.

    Returns:
        The model, and a triples factory with the names: what `explain_trained` takes.

    Raises:
        MissingExtraError: PyKEEN is not installed.
        ModelError: there is no such folder, or its model cannot be loaded.
        GraphError: its triples cannot be read.
    """
    need("A model of PyKEEN", "pykeen", "pykeen")
    folder = Path(folder)
    missing = [name for name in (MODEL, TRIPLES) if not (folder / name).exists()]
    if missing:
        raise ModelError(
            f"{folder} has no {' and no '.join(missing)}. Give a folder that "
            "result.save_to_directory(folder) wrote, result being that of pykeen.pipeline."
        )
    from pykeen.triples import TriplesFactory

    try:
        model = torch.load(folder / MODEL, map_location="cpu", weights_only=False)
    except Exception as error:
        raise ModelError(
            f"{folder / MODEL} cannot be loaded ({type(error).__name__}: {error}). Was it written "
            "by another version of PyKEEN or PyTorch?"
        ) from error
    try:
        triples = TriplesFactory.from_path_binary(folder / TRIPLES)
    except Exception as error:
        raise GraphError(
            f"{folder / TRIPLES} cannot be read ({type(error).__name__}: {error})."
        ) from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{folder / MODEL} holds no model, but {type(model).__name__}.")
    return model, triples
