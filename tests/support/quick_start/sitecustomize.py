"""Python processes that tests start load torch's compiler only when it is used.

torch_geometric imports `torch._dynamo`, which is a third of the time that a process takes to start.
Nothing here compiles a model, and tests start dozens of processes. Python imports this module at
its start if the folder is on PYTHONPATH, which `conftest.py` sees to.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence


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
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


sys.meta_path.insert(0, _Lazily)  # type: ignore[arg-type]
