"""What makes two runs the same job: the links, the model, the graph, the settings, the versions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pagelink.on_request import OnRequest
from pagelink.results import versions
from pagelink.settings import Settings
from pagelink.store_format import MANIFEST, is_store
from pagelink.views.rows import SCHEMA
from pagelink.views.rows import VERSION as ROWS_VERSION

JOB_FILE = "job.json"
_MISSING = object()


def fingerprint(path: Path) -> str:
    """Return a hash of a file, or of the files of a folder, by content."""
    files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            digest.update(file.name.encode() + hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()


def graph_fingerprint(path: Path) -> str:
    """Return a hash of a graph: of a store only of its manifest, which has those of its files."""
    return fingerprint(path / MANIFEST if is_store(path) else path)


def job_identity(
    links: Path, settings: Settings, seed: int, threshold: float | None, asked: OnRequest
) -> dict[str, Any]:
    """Return what the rows of any job depend on, beside the model, the graph and the parts."""
    return {
        "links": fingerprint(links),
        "settings": settings.to_dict(),
        "seed": seed,
        "threshold": threshold,
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
