"""Whether two explanations are equal."""

from __future__ import annotations

import numpy as np
import pytest

from pagelink import Explanation


def equal(first: Explanation, second: Explanation) -> None:
    """Masks and logits to 1e-5; paths, unless their scores differ by less."""
    for name in ("src", "dst", "reason", "message", "notes", "epochs", "link_in_graph"):
        if name != "message" or first.reason != "predicted_negative":
            assert getattr(first, name) == getattr(second, name)
    for name in ("logit", "logit_deployed"):
        value = getattr(second, name)
        assert getattr(first, name) == (
            value if value is None else pytest.approx(value, 1e-5, 1e-5)
        )
    for edge_type in first.edge_mask:
        mine, other = first.edge_mask.stored(edge_type), second.edge_mask.stored(edge_type)
        assert np.array_equal(mine[0], other[0])
        assert mine[1] == pytest.approx(other[1], rel=0, abs=1e-5)
    assert len(first.paths) == len(second.paths)
    for path, twin in zip(first.paths, second.paths, strict=True):
        assert path.score == pytest.approx(twin.score, abs=1e-5)
        scores = [other.score for other in first.paths if other is not path]
        if min((abs(path.score - score) for score in scores), default=1.0) > 1e-5:
            assert path == twin
            assert [e.index for e in path.edges] == [e.index for e in twin.edges]
