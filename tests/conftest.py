"""Set-up shared by all tests."""

import pytest
import torch

# What the shared helpers assert is reported as what the tests themselves assert.
pytest.register_assert_rewrite("support")

# The graphs are tiny; a second thread only costs.
torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels once, before there are several workers that would all do so."""
    from support.compile_kernels import compile_in_a_process

    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        compile_in_a_process()
