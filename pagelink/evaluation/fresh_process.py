"""Measurements that need a process of their own: a module is run, and prints what it measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pagelink.errors import PageLinkError


def environment() -> dict[str, str]:
    """Return an environment in which this very package is found, from wherever it is run."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def measured(module: str, *words: object) -> Any:
    """Run a module in a fresh process and return the JSON of its last line.

    Args:
        module: by its dotted name.
        words: its arguments; the first says what is measured.

    Raises:
        PageLinkError: it failed, with its last words.
    """
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PageLinkError(f"The process that measures {words[0]} failed: {last}")
    return json.loads(done.stdout.splitlines()[-1])
