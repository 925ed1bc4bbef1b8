"""Python processes that tests start load torch's compiler only when it is used.

torch_geometric imports `torch._dynamo`, which is a third of the time that a process takes to start.
Nothing here compiles a model, and tests start dozens of processes. Python imports this module at
its start if the folder is on PYTHONPATH, which `conftest.py` sees to.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any

# The loader of the standard library lets other threads see a module that is half loaded, up to
# Python 3.11: a progress bar then broke what was going on.
_loading = threading.RLock()


class _LazyModule(types.ModuleType):
    """A module that is loaded when a name of it is used first; other threads wait for that."""

    def __getattribute__(self, name: str) -> Any:
        if not (name.startswith("__") and name.endswith("__")):
            with _loading:
                loader = object.__getattribute__(self, "__loader__")
                if isinstance(loader, _LazyLoader) and not loader.is_loading:
                    loader.is_loading = True
                    loader.inner.exec_module(self)
                    object.__setattr__(self, "__class__", types.ModuleType)
        return object.__getattribute__(self, name)


class _LazyLoader(importlib.abc.Loader):
    """Loads a module as another loader does, but later."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.is_loading = False

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        made: types.ModuleType | None = self.inner.create_module(spec)
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        module.__class__ = _LazyModule


class _Lazily:
    """Finds the one module, and has it loaded at the first use of one of its names."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch._dynamo":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


sys.meta_path.insert(0, _Lazily)  # type: ignore[arg-type]
