"""L_path: each form written down plainly, and its gradient against finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pagelink.search.path_loss import path_gradient

# Two links side by side: by link, the paths as lists of edges, and the number of its edges.
PATHS = [[[0, 1, 2], [0, 3, 2], [0, 1, 4, 2]], [[0, 2]]]
NUM_EDGES = [8, 5]
ALPHA, BETA = 0.7, 0.4


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def printed(logits: list[float], paths: list[list[int]]) -> float:
    """The paper's equation of L_path; summing over relations, then edges, is summing over edges."""
    e_path = {edge for path in paths for edge in path}
    on = sum(logits[edge] for edge in e_path)
    off = sum(value for edge, value in enumerate(logits) if edge not in e_path)
    return -(ALPHA * on - BETA * off)


def mean(logits: list[float], paths: list[list[int]]) -> float:
    """The same with means."""
    e_path = {edge for path in paths for edge in path}
    on = [logits[edge] for edge in e_path]
    off = [value for edge, value in enumerate(logits) if edge not in e_path]
    return -ALPHA * sum(on) / len(on) + BETA * sum(off) / len(off)


def released(logits: list[float], paths: list[list[int]]) -> float:
    """Means of sigmoid(M): edges path by path, so that shared ones come again; and the others."""
    on = [sigmoid(logits[edge]) for path in paths for edge in path]
    walked = [edge for path in paths for edge in path]
    off = [sigmoid(value) for edge, value in enumerate(logits) if edge not in walked]
    return -ALPHA * sum(on) / len(on) + BETA * sum(off) / len(off)


FORMS = {"sum": printed, "mean": mean, "released": released}


def gradient(form: str, logits: list[list[float]]) -> list[list[float]]:
    """The gradient as the package has it, by link."""
    times = [
        [sum(path.count(edge) for path in paths) for edge in range(count)]
        for paths, count in zip(PATHS, NUM_EDGES, strict=True)
    ]
    found, _ = path_gradient(
        form,
        np.concatenate(logits).astype(np.float32),
        np.concatenate(times),
        np.repeat(np.arange(2, dtype=np.int32), NUM_EDGES),
        np.full(2, ALPHA),
        np.full(2, BETA),
        np.array(NUM_EDGES),
    )
    return [found[:8].tolist(), found[8:].tolist()]


@pytest.mark.parametrize("form", FORMS)
def test_gradient_against_finite_differences(form: str) -> None:
    rng, step = np.random.default_rng(5), 1e-5
    logits = [rng.normal(size=count).astype(np.float32).tolist() for count in NUM_EDGES]
    found = gradient(form, logits)
    for link, paths in enumerate(PATHS):
        for edge in range(NUM_EDGES[link]):
            moved = []
            for sign in (1, -1):
                values = list(logits[link])
                values[edge] += sign * step
                moved.append(FORMS[form](values, paths))
            slope = (moved[0] - moved[1]) / (2 * step)
            assert found[link][edge] == pytest.approx(slope, abs=1e-6), (link, edge)


def test_values_by_hand() -> None:
    """Link 0 has ten steps on its paths, three of them along edge 0, two along edge 1."""
    even = [[0.0] * count for count in NUM_EDGES]
    by_sum, by_mean, by_released = (gradient(form, even)[0] for form in FORMS)
    assert by_sum == pytest.approx([-0.7] * 5 + [0.4] * 3)
    assert by_mean == pytest.approx([-0.7 / 5] * 5 + [0.4 / 3] * 3)
    quarter = [-0.7 * n / 10 / 4 for n in (3, 2, 3, 1, 1)]
    assert by_released == pytest.approx(quarter + [0.4 / 3 / 4] * 3)


def test_edges_without_a_value_of_their_own_count() -> None:
    """Of ten edges on no path, two have a value: the share of each is a tenth."""
    for form, share in (("mean", BETA / 10), ("sum", BETA)):
        found, idle = path_gradient(
            form, np.zeros(3, dtype=np.float32), np.array([1, 0, 0]),
            np.zeros(3, dtype=np.int32), np.array([ALPHA]), np.array([BETA]), np.array([11]),
        )  # fmt: skip
        assert found[1:] == pytest.approx([share, share])
        assert idle == pytest.approx([share])
