"""The errors of pagelink, as a tree.

PageLinkError
├── SettingsError    a setting is out of its range or does not fit the others
│   ├── MissingExtraError  packages that only some of pagelink needs are not installed
│   └── BusyError    another process is writing the same output
├── GraphError       the graph given is malformed
│   └── StoreError   a graph store is damaged, half-written, changed, or of another version
├── LinkError        a given link is not in this graph (unknown name, index out of range)
├── StudyError       a file is not a study, or an answer does not fit its question
│   ├── StudyBusyError  the file cannot be read or written just now, and nothing was saved
│   └── StudyDamagedError  the file is not as it was written
├── EngineError      a job of many links cannot go on (its workers die, a disk is full, no cluster)
└── ModelError       the model cannot be explained as it is
    ├── MaskError    the edge weights do not reach the model's messages
    └── CheckpointError  a stored model cannot be read, or does not fit the graph

Every message says what was expected, what came, where, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec


class PageLinkError(Exception):
    """Base class of every error that pagelink raises on purpose."""


class SettingsError(PageLinkError, ValueError):
    """A setting is out of its range."""


class MissingExtraError(SettingsError):
    """Something was requested for which packages are not installed."""


class BusyError(SettingsError):
    """Another process is writing the same output."""


class GraphError(PageLinkError, ValueError):
    """The graph is malformed."""


class StoreError(GraphError):
    """A graph store on disk cannot be read or written as it is."""


class LinkError(PageLinkError, ValueError):
    """A given link cannot be explained because it is not a link of this graph."""


class StudyError(PageLinkError, ValueError):
    """A file is not a study that can be used, or what is asked of one is not in it."""


class StudyBusyError(StudyError):
    """The file of a study cannot be read or written just now; nothing was saved."""


class StudyDamagedError(StudyError):
    """The file of a study is damaged."""


class EngineError(PageLinkError, RuntimeError):
    """The workers of a job cannot go on; what was written is kept."""


class ModelError(PageLinkError, RuntimeError):
    """The model fails, or its output is not one finite number per link."""


class MaskError(ModelError):
    """The edge weights do not reach the messages of the model."""


class CheckpointError(ModelError):
    """A stored model cannot be read, or is not one for the graph given."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest known words, or ``""``.

    Example:
        >>> did_you_mean("likse", ["likes", "buys"])
        " Did you mean 'likes'?"
        >>> did_you_mean("likse", ["likes", "likes"])  # a name that is an id, too
        " Did you mean 'likes'?"
        >>> did_you_mean("zzz", ["likes", "buys"])
        ''
    """
    close = difflib.get_close_matches(word, list(dict.fromkeys(known)), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(repr(match) for match in close)}?" if close else ""


def need(what: str, extra: str, *packages: str) -> None:
    """Refuse, before any work, what packages are missing for.

    Args:
        what: what was requested, as `pagelink serve`.
        extra: the extra of pagelink that brings the packages.
        packages: what it imports.

    Raises:
        MissingExtraError: a package is not installed.

    Example:
        >>> need("pagelink serve", "web", "fastpai")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        pagelink.errors.MissingExtraError: ... pip install 'pagelink[web]'.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"{what} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} "
            f"not installed: pip install 'pagelink[{extra}]'."
        )
