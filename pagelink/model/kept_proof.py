"""What was proved about a model, kept in a file for the next time.

A proof holds for one model on one graph. The file has a key of all that it rests on: the modules
of the model with their attributes and all their numbers, the graph with all its tensors (a store by
the checksum of its manifest, which has those of all its files), the link types, the versions of
Python and of the libraries, and the code of pagelink that proves and runs. If anything is
different, the file is not used, and is written anew. Nothing is kept for a model whose class is not
pagelink's own: its code may change, and is not in the key.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric
from torch import Tensor

from pagelink.graph.schema import EdgeType
from pagelink.model.noise import Noise
from pagelink.model.predictor import LinkPredictor
from pagelink.model.receptive_field import ReceptiveField
from pagelink.runtime.files import write_text

_CODE = ("runtime", "graph", "layers", "model", "models")
_MODES = ("mode", "shares_rim", "shares_unedited", "keeps_sums", "fuses", "by_rows", "flat",
          "has_gradient")  # fmt: skip
"""How a predictor runs its model."""


def kept_field(
    file: Path,
    predictor: LinkPredictor,
    link_types: Sequence[EdgeType],
    seed: int,
    prove: Callable[[], ReceptiveField],
    stored: str | None = None,
) -> ReceptiveField:
    """Return what was proved about a model, from a file if it is of this very model and graph.

    Args:
        file: the file, or, for a graph in a store, a folder with a file for each model; where it
            cannot be written, nothing is kept.
        predictor: the model; left as `prove` leaves it.
        link_types: the predicted relations.
        seed: what the proof is given.
        prove: proves it.
        stored: what a store is known by. None: the graph is in memory, and known by its tensors.
    """
    own = [predictor.model] if predictor.forward is None else [predictor.model, predictor.forward]
    if not all(type(each).__module__.startswith("pagelink.models.") for each in own):
        return prove()
    key = _digest(_rests_on(predictor, link_types, seed, stored))
    if stored is not None:
        file = file / f"{key[:32]}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return _restored(kept, predictor)
    field = prove()
    with contextlib.suppress(OSError, TypeError):
        write_text(file, json.dumps({"key": key, **_written(field, predictor)}))
    return field


def _written(field: ReceptiveField, predictor: LinkPredictor) -> dict[str, Any]:
    values = {each.name: getattr(field, each.name) for each in dataclasses.fields(field)}
    values["noise"] = dataclasses.asdict(field.noise)
    values |= {name: values[name].tolist() for name in ("seen_relations", "along_relations")}
    ways = {name: getattr(predictor, name) for name in _MODES}
    return {"field": values, "ways": ways}


def _restored(kept: dict[str, Any], predictor: LinkPredictor) -> ReceptiveField:
    values = dict(kept["field"])
    values["noise"] = Noise(**values["noise"])
    for name in ("seen_relations", "along_relations"):
        values[name] = np.array(values[name], dtype=np.bool_)
    field, ways = ReceptiveField(**values), {name: kept["ways"][name] for name in _MODES}
    for name, value in ways.items():
        setattr(predictor, name, value)
    return field


def _rests_on(
    predictor: LinkPredictor, link_types: Sequence[EdgeType], seed: int, stored: str | None
) -> Iterator[Any]:
    """Everything that a proof rests on, as texts and arrays."""
    model, graph = predictor.model, predictor.graph
    yield [platform.python_version(), torch.__version__, torch_geometric.__version__]
    yield [np.__version__, str(torch.get_default_dtype()), platform.machine()]
    for folder in _CODE:
        for file in sorted((Path(__file__).parents[1] / folder).rglob("*.py")):
            yield file.read_bytes()
    yield [predictor.output, seed, getattr(model, "config", None), type(predictor.forward).__name__]
    for name, module in model.named_modules():
        yield [name, type(module).__module__, type(module).__qualname__]
        yield sorted((key, _simply(value)) for key, value in vars(module).items())
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        yield name
        yield tensor
    yield [link_types, sorted(graph.reverse.items()), graph.node_types, graph.edge_types]
    if stored is not None:
        yield stored
        return
    for store in predictor.data.stores:
        yield [str(store._key), store.num_nodes if hasattr(store, "num_nodes") else None]
        for key, value in sorted(store._mapping.items(), key=lambda item: str(item[0])):
            if isinstance(value, Tensor):
                yield key
                yield value


def _simply(value: Any) -> str:
    """An attribute, without addresses of memory; of a dictionary (of hooks, say), its size."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    return f"{type(value).__qualname__} {len(value) if isinstance(value, dict) else ''}"


def _digest(parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            array = part.detach().cpu().contiguous().numpy()
            digest.update(f"{array.dtype} {array.shape}".encode())
            part = array.tobytes()
        content = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()
