"""How a worker gets its explainer, and what makes two runs the same job.

It opens a graph and a checkpoint, or is sent the explainer. Two runs are of the same job if links,
model, graph, settings and versions are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

from pagelink.errors import EngineError, GraphError, ModelError, StoreError
from pagelink.explain.building import versions
from pagelink.explain.explainer import PaGELink
from pagelink.explain.options import ExplainOptions
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.feeds import placed
from pagelink.models.knowledge.checkpoint import open_predictor
from pagelink.settings import Settings
from pagelink.store.addresses import fetched, is_address
from pagelink.store.graph_store import GraphStore
from pagelink.store.manifest import MANIFEST, is_store
from pagelink.tables.reader import is_part_of_graph
from pagelink.tables.words import Words
from pagelink.views.rows import SCHEMA
from pagelink.views.rows import VERSION as ROWS_VERSION

JOB_FILE = "job.json"
_MISSING = object()


def fingerprint(path: Path) -> str:
    """Return a hash of a file, or of the files of a folder, by content."""
    return _hash_of(_files_of(path))


def _hash_of(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            digest.update(file.name.encode() + hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


def _files_of(path: Path) -> list[Path]:
    """A file, or the files of a folder, in order."""
    return sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]


def graph_fingerprint(path: Path) -> str:
    """Return a hash of a graph: of a store only of its manifest, which has those of its files."""
    return _hash_of([path / MANIFEST] if is_store(path) else _files_of_graph(path))


def _files_of_graph(path: Path) -> list[Path]:
    """The files that a graph is read from; a folder may have others, results among them."""
    files = _files_of(path)
    if not path.is_dir() or is_store(path):
        return files
    return [file for file in files if is_part_of_graph(file, path)]


def job_identity(links: Path, opening: Opening, asked: ExplainOptions) -> dict[str, Any]:
    """Return what the rows of any job depend on, beside the model, the graph and the parts."""
    return {
        "links": fingerprint(links),
        "settings": opening.settings.to_dict(),
        "seed": opening.seed,
        "threshold": opening.threshold,
        "asked": asdict(asked),
        "rows": {"version": ROWS_VERSION, "columns": str(SCHEMA)},
        "versions": versions(),
    }


def as_text(job: Mapping[str, Any]) -> str:
    """Return the identity of a job as it is stored."""
    return json.dumps(job, indent=1, sort_keys=True)


def differing(stored: str, job: Mapping[str, Any]) -> list[str]:
    """Return in which entries a stored identity and that of a job differ.

    Example:
        >>> differing('{"seed": 5, "chunk": 256}', {"seed": 0, "chunk": 256})
        ['seed']
    """
    theirs, ours = json.loads(stored), json.loads(as_text(job))
    return sorted(
        key for key in {*ours, *theirs} if theirs.get(key, _MISSING) != ours.get(key, _MISSING)
    )


# How a worker gets its explainer.


STORE_VARIABLE = "PAGELINK_STORE"
"""Environment variable: where the graph lies on this machine, if elsewhere than the driver says."""


class Opening(Protocol):
    """Everything a worker needs to explain, and what its rows depend on."""

    def open(self) -> PaGELink:
        """Return the explainer."""

    def check_unchanged(self) -> None:
        """Raise if what was opened has changed since."""

    @property
    def settings(self) -> Settings:
        """How to explain."""

    @property
    def seed(self) -> int:
        """Where random numbers come from."""

    @property
    def threshold(self) -> float | None:
        """As for `PaGELink`."""

    def identity(self) -> dict[str, str]:
        """Return hashes of the graph and the model."""

    def expecting(self, found: Mapping[str, str]) -> Opening:
        """Return the same, for workers that are to find just this graph and this model."""


@dataclass(frozen=True)
class FromFiles:
    """A graph and a checkpoint on disk.

    Args:
        graph: the graph, as every command takes it, or an address: each machine copies it once.
        model: the checkpoint, or an address.
        settings: how to explain.
        seed: where random numbers come from.
        threshold: as for `PaGELink`.
        store_path: where the graph lies for the workers, if elsewhere. On a machine on which the
            environment variable PAGELINK_STORE is set, that holds.
        words: files with names of nodes and phrases of relations.
        link: which relation, of a model for several.
        device: where to explain, as torch names it. None: the CPU.
        expected: the identity that graph and model have for the driver; a worker that finds others
            under its paths refuses to work. Empty: whatever is there.
    """

    graph: Path
    model: Path
    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    threshold: float | None = 0.0
    store_path: Path | None = None
    words: Words = field(default_factory=Words)
    link: str | None = None
    device: str | None = None
    expected: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def graph_here(self) -> Path:
        """Where the graph lies on this machine; one at an address is copied, once."""
        return fetched(os.environ.get(STORE_VARIABLE) or self.store_path or self.graph)

    @cached_property
    def model_here(self) -> Path:
        """Where the checkpoint lies on this machine."""
        return fetched(self.model)

    def identity(self) -> dict[str, str]:
        """Return hashes of the graph and the model.

        Raises:
            GraphError: there is no such graph, or it is a damaged store.
            ModelError: there is no such checkpoint.
        """
        graph = fetched(self.graph)
        if not graph.exists():
            raise GraphError(f"There is no graph {self.graph}.")
        if is_store(graph):
            GraphStore.open(graph)  # verified here, before workers all wait for one to do so
        return self._identity(graph)

    def expecting(self, found: Mapping[str, str]) -> Self:
        """Return the same, for workers that are to find just this graph and this model."""
        return replace(
            self, graph=_absolute(self.graph), model=_absolute(self.model), expected=dict(found),
            words=Words(*(p and p.absolute() for p in (self.words.names, self.words.relations))),
        )  # fmt: skip

    def _identity(self, graph: Path) -> dict[str, str]:
        if not self.model_here.is_file():
            raise ModelError(f"There is no checkpoint {self.model} on {socket.gethostname()}.")
        found = {"model": fingerprint(self.model_here), "graph": graph_fingerprint(graph)}
        if self.link is not None:
            found["link"] = self.link
        if self.words.files:
            found["words"] = " ".join(map(fingerprint, self.words.files))
        return found

    def open(self) -> PaGELink:
        """Read the graph and the checkpoint.

        Raises:
            PageLinkError: they are not there, not those of the driver, or cannot be used.
        """
        graph, here = self.graph_here, socket.gethostname()
        if not graph.exists():
            raise GraphError(
                f"There is no graph {graph} on {here}. Put it on a path that all machines share, "
                f"or copy it there and set {STORE_VARIABLE} on that machine, or give --store-path."
            )
        _ = self._stats  # from here on, a change is noticed
        found = self._identity(graph)
        for name, expected in self.expected.items():
            if found[name] != expected:
                raise EngineError(
                    f"The {name} at {graph if name == 'graph' else self.model} on {here} is not "
                    "the one that the job was started with. Copy it there anew."
                )
        try:
            # By its manifest a store is the driver's. Its files are what that says: each machine
            # verifies a store that it has not seen yet.
            checkpoint = open_predictor(self.model_here, graph, self.words, self.link)
        except StoreError as error:
            raise StoreError(f"On {here}: {error}") from error
        return self.of(checkpoint)

    def of(self, checkpoint: Checkpoint, proof: Path | None = None) -> PaGELink:
        """Return the explainer of a checkpoint that is open; `proof` as for `PaGELink`."""
        known = checkpoint.known()
        return PaGELink(
            *placed(checkpoint.model, checkpoint.source, self.device), checkpoint.link_type,
            self.settings, self.seed, threshold=checkpoint.model.threshold(self.threshold),
            held_out=checkpoint.held_out, known=known, proof=proof,
        )  # fmt: skip

    def check_unchanged(self) -> None:
        """Raise if a file of the graph or the model is another one than when it was opened.

        Raises:
            EngineError: the job would mix rows of two graphs or models.
        """
        now = _stats_of(self.graph_here, self.model_here)
        if now != self._stats:
            changed = {name for name, _ in set(now.items()) ^ set(self._stats.items())}
            raise EngineError(
                f"{', '.join(sorted(changed)[:3])} changed on {socket.gethostname()} while the job "
                "was running. Its parts so far are of the old state: put that back and run the "
                "same command again, or start a new job in another folder."
            )

    @cached_property
    def _stats(self) -> dict[str, tuple[int, int, int]]:
        return _stats_of(self.graph_here, self.model_here)


def _absolute(path: Path) -> Path:
    return path if is_address(path) else path.absolute()


def _stats_of(graph: Path, model: Path) -> dict[str, tuple[int, int, int]]:
    """Inode, size and time of each file, by its path."""
    files = (file for file in (*_files_of_graph(graph), model) if file.is_file())
    stats = {str(file): file.stat() for file in files}
    return {file: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for file, stat in stats.items()}


@dataclass(frozen=True)
class Sent:
    """An explainer that is given to the workers as it is.

    Args:
        explainer: the explainer.
        about: what tells its graph and its model from others, for a job that is to be taken up
            again: an interrupted one only goes on with the same.
    """

    explainer: PaGELink
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """How to explain."""
        return self.explainer.settings

    @property
    def seed(self) -> int:
        """Where random numbers come from."""
        return self.explainer.seed

    @property
    def threshold(self) -> float | None:
        """As for `PaGELink`."""
        return self.explainer.threshold

    def identity(self) -> dict[str, str]:
        """Return what is known about the graph and the model."""
        return dict(self.about)

    def expecting(self, found: Mapping[str, str]) -> Self:
        """Return the same: every worker gets this graph and this model."""
        return self

    def open(self) -> PaGELink:
        """Return it."""
        return self.explainer

    def check_unchanged(self) -> None:
        """Raise if its store has changed; whatever is in memory cannot: every worker has its own.

        Raises:
            StoreError: a file of the store was changed.
        """
        if self.explainer.store is not None:
            self.explainer.store.check_unchanged()
