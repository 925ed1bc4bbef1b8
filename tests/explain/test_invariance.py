"""What must not change a result, and what a run must not change."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from support.zoo import USERS, Case, make_case
from test_masking import same, snapshot
from torch_geometric.data import Data

from pagelink import Explanation, PaGELink, Settings

BUYS, VIEWS = ("user", "buys", "item"), ("user", "views", "item")
CASES: list[tuple[str, str, Any]] = [
    # Kind of model, settings, and a link type that is in its graph (None: one that is not).
    ("HeteroConv SAGE", "default", None),
    ("HeteroConv SAGE", "metapaths", BUYS),
    ("HeteroConv GAT", "patience", BUYS),
    ("HeteroConv GAT", "via", None),
    ("HeteroConv FiLM", "removed", VIEWS),
    ("one conv for all relations", "budget", None),
    ("HGT", "no fallback", BUYS),
    ("RGCN", "default", "0"),
    ("RGCN", "removed", None),
    ("GCN with self-loops", "patience", "0"),
    ("hand-written", "start", None),
    ("embedding by n_id", "noise", BUYS),
    ("whole embedding table", "default", BUYS),
    ("LightGCN", "budget", None),
    ("edge_attr and edge_weight", "default", None),
    ("MLP head", "noise", VIEWS),
    ("probability", "start", None),
    ("DistMult per link", "no fallback", "0"),
    ("graph-wide norm", "removed", BUYS),
]

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "patience": {"core": 0, "patience": 3, "path_schedule": "all", "paths_per_epoch": 5},
    "start": {"epochs": 0, "core": 0, "num_paths": 9},
    "removed": {"epochs": 5, "remove_pruned": True, "patience": None},
    "budget": {"epochs": 5, "budget": 7, "max_length": 3, "num_paths": 7, "patience": 3},
    "no fallback": {"core": 2, "unpruned_fallback": False, "epochs": 5, "path_loss": "sum"},
    "noise": {"start": "noise", "epochs": 20, "patience": None, "learning_rate": 0.01},
    "metapaths": {"epochs": 5, "metapaths": [["buys", "rev_buys", "buys"], ["views"], ["buys"]]},
    "via": {"epochs": 5, "via": [("user", i) for i in range(0, USERS, 2)], "core": 0},
}


def make(name: str, variant: str, link_type: Any) -> tuple[PaGELink, list[Any], Case]:
    case = make_case(name)
    options = {"threshold": None} | case.options
    explainer = PaGELink(
        case.model,
        case.data,
        link_type or case.link_type,
        Settings(**SETTINGS[variant]),
        seed=3,
        **options,
    )
    return explainer, links_of(case), case


def links_of(case: Case) -> list[tuple[int, int]]:
    """Some are in the graph, some have a path of three facts, one has none, one is no link."""
    flat = isinstance(case.data, Data)
    shift = USERS if flat else 0
    if flat:
        edges = case.data.edge_index[:, case.data.edge_type == 0].t().tolist()
    else:
        edges = case.data["user", "buys", "item"].edge_index.t().tolist()
    links = [(u, i) for u, i in edges[:2]]
    for (u, i), (v, j) in itertools.combinations(edges, 2):
        if i == j and u != v and len(links) < 6:
            links += [(u, k) for w, k in edges if w == v and k != i][:1]
    return [*dict.fromkeys(links), (0, 1 + shift), (10**6, shift)]


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


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("name", "variant", "link_type"), CASES)
def test_company_does_not_change_a_result(name: str, variant: str, link_type: Any) -> None:
    explainer, links, _ = make(name, variant, link_type)
    together = dict(zip(links, explainer.explain_many(links, batch_size=len(links)), strict=True))
    assert sum(bool(answer.paths) for answer in together.values()) >= 2
    assert together[links[-1]].reason == "invalid"
    assert together[links[0]].link_in_graph == (link_type == "0" or link_type == BUYS)

    for size, some in (
        (1, links),
        (2, links[::-1]),
        (7, [*links[:3], *links[1:4], *links[::-2], links[0]]),
    ):
        answers = explainer.explain_many(some, batch_size=size)
        for link, answer in zip(some, answers, strict=True):
            equal(answer, together[link])
    for link in links[:-1:3]:
        equal(explainer.explain(*link), together[link])


@pytest.mark.parametrize(("name", "variant", "link_type"), CASES[::5])
def test_threads_do_not_change_a_result(name: str, variant: str, link_type: Any) -> None:
    results = []
    for count in (1, 2):
        with threads(count):
            explainer, links, _ = make(name, variant, link_type)
            assert torch.get_num_threads() == count
            results.append(list(explainer.explain_many(links)))
    for first, second in zip(*results, strict=True):
        equal(first, second)


def random_states() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()
    return torch.random.get_rng_state(), random.getstate(), kind, keys.tolist(), rest


@pytest.mark.parametrize(("name", "variant", "link_type"), CASES[1::4])
def test_a_run_leaves_everything_as_it_was(name: str, variant: str, link_type: Any) -> None:
    _, links, case = make(name, variant, link_type)
    case.model.train()
    before = snapshot(case.model, case.data), random_states()
    modes = torch.is_grad_enabled(), torch.get_num_threads(), torch.get_default_dtype()
    options = {"threshold": None} | case.options
    settings = Settings(**SETTINGS[variant])
    explainer = PaGELink(
        case.model, case.data, link_type or case.link_type, settings, seed=3, **options
    )
    assert same(before, (snapshot(case.model, case.data), random_states()))
    first = list(explainer.explain_many(links, batch_size=4))
    explainer.explain(*links[0])
    assert same(before, (snapshot(case.model, case.data), random_states()))
    assert modes == (torch.is_grad_enabled(), torch.get_num_threads(), torch.get_default_dtype())
    # Nor does a run change the next one.
    torch.manual_seed(1)
    for answer, again in zip(first, explainer.explain_many(links, batch_size=4), strict=True):
        equal(answer, again)


def test_a_run_given_up_half_way_leaves_everything_as_it_was() -> None:
    explainer, links, case = make("HeteroConv SAGE", "default", None)
    before = snapshot(case.model, case.data), random_states()
    stream = explainer.explain_many(links, batch_size=2)
    next(stream)
    assert same(before, (snapshot(case.model, case.data), random_states()))
    next(stream)
    stream.close()
    assert same(before, (snapshot(case.model, case.data), random_states()))
