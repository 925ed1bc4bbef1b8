"""An explorer of two models on one small graph, and links to audit."""

from __future__ import annotations

from functools import cache

import torch

from pagelink import PaGELink, Settings
from pagelink.audit.result import Audit
from pagelink.datasets.useritemattr import UserItemAttr, generate_useritemattr
from pagelink.graph.links import LinkLike
from pagelink.models.architectures import RGCN
from pagelink.web.explorer import Explorer

QUICK = Settings(strongest=False, what_else=False)
SEED = 1
"""Where untrained models, whose scores are as good as any, rest on paths."""


@cache
def dataset() -> UserItemAttr:
    """A small graph with planted links."""
    return generate_useritemattr(
        seed=1, num_users=12, num_items=12, num_attrs=6, num_has=20, num_wanted=4, max_prefers=3,
        items_per_user=8, num_buys=40, min_shared=1,
    )  # fmt: skip


def explainer_of(seed: int) -> PaGELink:
    """An explainer of an untrained model."""
    made = dataset()
    model = RGCN.for_data(made.data, made.link_type, paper_split=True, seed=seed).eval()
    return PaGELink(model, made.data, made.link_type, QUICK, threshold=None)


def some_links(count: int) -> list[LinkLike]:
    """The first links of the graph."""
    return [(src, dst) for src, dst in dataset().likes.T.tolist()[:count]]


def two_models(audit: Audit | None = None) -> Explorer:
    """The explorer."""
    known = torch.as_tensor(dataset().likes)
    return Explorer(
        explainer_of(SEED), known, others={"another": explainer_of(SEED + 1)}, audit=audit,
        sample=some_links,
    )  # fmt: skip
