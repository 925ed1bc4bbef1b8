"""What must not change a result, and what a run must not change."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from support.comparing import equal
from support.threads import num_threads
from support.zoo import USERS, Case, links_of, make_case

from pagelink import PaGELink, Settings
from pagelink.bench.fuzz.oracles.untouched import same, snapshot

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
        with num_threads(count):
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
