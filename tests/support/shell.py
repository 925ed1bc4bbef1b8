"""Commands as a shell runs them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from pagelink.cli.main import main


def shell(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which spares the import of torch, as the shell would."""
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(cwd)
    code: Any = 0
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["pagelink", *arguments])
            main()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        os.chdir(before)
    return subprocess.CompletedProcess([*arguments], code, out.getvalue(), err.getvalue())
