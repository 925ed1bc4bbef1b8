"""Set-up shared by all tests."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
import torch

# What the shared helpers assert is reported as what the tests themselves assert.
pytest.register_assert_rewrite("support")

# The graphs are tiny; a second thread only costs, here and in processes that tests start.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What is remembered of stores stays out of the user's cache folder.
if "PAGELINK_CACHE" not in os.environ:
    CACHE = tempfile.TemporaryDirectory(prefix="pagelink-tests-")
    os.environ["PAGELINK_CACHE"] = CACHE.name

# A run in the background ignores Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Those start quicker with this folder on their path; workers of the engine take ours.
QUICK_START = str(Path(__file__).parent / "support" / "quick_start")
sys.path.append(QUICK_START)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [os.environ.get("PYTHONPATH"), QUICK_START])
)


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels once, before there are several workers that would all do so."""
    from support.compile_kernels import all_on_disk, compile_in_a_process

    has_workers = getattr(config.option, "numprocesses", None) and not hasattr(
        config, "workerinput"
    )
    if has_workers and not all_on_disk():
        compile_in_a_process()
