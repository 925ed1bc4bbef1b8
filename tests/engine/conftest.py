"""What several tests of the engine explain with."""

from __future__ import annotations

import pytest

from pagelink import PaGELink
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.models.architectures import RGCN

LINK_TYPE = ("user", "likes", "item")


@pytest.fixture(scope="module")
def explainer() -> PaGELink:
    """An untrained model on generated data, of which no link is a predicted negative."""
    data = generate_useritemattr().data
    return PaGELink(RGCN.for_data(data, LINK_TYPE), data, LINK_TYPE, threshold=None)
