"""What training a model takes on a large graph: on the whole graph, and by mini-batches.

Users and items belong to communities, within which they mostly like and buy, and items have the
tags of theirs: so how well a model has learned can be compared after the same CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import torch
from torch_geometric.data import HeteroData

from pagelink.bench.runs import measured
from pagelink.bench.speed.figures import Figure, Goal
from pagelink.bench.speed.process import peak
from pagelink.bench.speed.rows import Sizes
from pagelink.graph.schema import EdgeType
from pagelink.models.architectures import make_model
from pagelink.models.feeds import scorer
from pagelink.models.figures import EvaluationPairs, link_metrics
from pagelink.models.link_model import node_inputs
from pagelink.models.links import LinkSplit, Negatives, split_graph
from pagelink.models.messages import message_graph
from pagelink.models.training import Epoch, TrainSettings, train

LIKES: EdgeType = ("user", "likes", "item")
NODES = {"user": 0.07, "item": 0.03, "tag": 0.002}
"""Nodes of each type per fact."""
FACTS = {LIKES: 0.5, ("user", "buys", "item"): 0.35, ("item", "has", "tag"): 0.15}
"""Shares of the facts."""
COMMUNITY = 20
"""Tags of a community; there are as many communities as that gives."""
NOISE, SKEW = 0.2, 1.5
"""Share of the facts that leave the community, and how uneven degrees are."""
BATCH = 8192
VALIDATED = 1_000
"""Links that each epoch is validated on: so few that this takes no time."""
WAYS: dict[str, int | None] = {"mini-batches": BATCH, "the whole graph": None}
GIGABYTE = 10**9


def community_graph(num_edges: int, seed: int) -> HeteroData:
    """A graph of about that many edges, reverses included."""
    rng, facts = np.random.default_rng(seed), num_edges // 2
    sizes = {kind: max(int(share * facts), 2 * COMMUNITY) for kind, share in NODES.items()}
    communities = sizes["tag"] // COMMUNITY
    data = HeteroData()
    for kind, size in sizes.items():
        data[kind].num_nodes = size
    for (src_type, name, dst_type), share in FACTS.items():
        count = int(share * facts)
        src = (rng.random(count) ** SKEW * sizes[src_type]).astype(np.int64)
        leaves = rng.random(count) < NOISE
        community = np.where(leaves, rng.integers(0, communities, count), src % communities)
        place = (rng.random(count) ** SKEW * (sizes[dst_type] // communities)).astype(np.int64)
        edges = np.unique(src * sizes[dst_type] + place * communities + community)
        pairs = torch.from_numpy(np.stack([edges // sizes[dst_type], edges % sizes[dst_type]]))
        data[src_type, name, dst_type].edge_index = pairs
        data[dst_type, f"rev_{name}", src_type].edge_index = pairs.flip(0).contiguous()
    return data


class _TimeUpError(Exception):
    """The CPU time is used up."""


def training_run(
    num_edges: int, batch_size: int | None, seconds: float, seed: int
) -> dict[str, float]:
    """Train for some CPU seconds, and to the end of the epoch; test on the whole graph."""
    torch.set_num_threads(1)
    data = community_graph(num_edges, seed)
    whole = split_graph(data, LIKES, seed)
    split = LinkSplit(whole.train, whole.valid[:, :VALIDATED], whole.test)
    num_src, num_dst = (int(data[end].num_nodes) for end in LIKES[::2])
    known = Negatives.for_links(num_src, num_dst, LIKES, split.all)
    pairs = EvaluationPairs.draw(split, known, seed)
    model = make_model("rgcn", data, LIKES, seed=seed)
    times: list[float] = []  # of the first pass, and of the end of each epoch

    def first(*_: object) -> None:
        times.append(time.process_time())
        hook.remove()

    def step(epoch: Epoch) -> None:
        times.append(time.process_time())
        if times[-1] - times[0] >= seconds:
            raise _TimeUpError

    hook = model.register_forward_pre_hook(first)
    settings = TrainSettings(epochs=10**6, patience=10**6, batch_size=batch_size)
    with suppress(_TimeUpError):
        train(model, data, LIKES, split, settings, seed=seed, progress=step)
    graph = message_graph(data, LIKES, split.train)
    score = scorer(model, node_inputs(graph), graph.edge_index_dict)
    links, others = score(split.test), score(pairs.test)
    return {
        "cpu_s": times[-1] - times[0],
        "links": float((len(times) - 1) * split.train.shape[1]),
        "auc": link_metrics(links, others)[0],
        "peak": peak(),
        "edges": float(sum(each.shape[1] for each in data.edge_index_dict.values())),
    }


def training(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Links per CPU second of both ways, the AUC that they reach in that time, and memory."""
    runs: dict[str, dict[str, float]] = {}
    seconds = sizes.training_seconds
    for way, batch_size in WAYS.items():
        runs[way] = measured(training_run, sizes.training_edges, batch_size, seconds, seed)
        seconds = runs[way]["cpu_s"]  # at least what the mini-batches took
    samples = {
        f"{way}, {key}": [value] for way, found in runs.items() for key, value in found.items()
    }
    edges = f"{runs['mini-batches']['edges'] / 1e6:.1f} million edges"
    how = (
        f"a fresh process each, one thread; RGCN of two layers of 64 with embeddings, batches of "
        f"{BATCH:,} links; time from the first pass to the end of an epoch"
    )
    fast = Goal(20_000, "at least")
    for way, found in runs.items():
        ours = way == "mini-batches"
        for what, value, unit, goal in (
            ("links per CPU second", found["links"] / found["cpu_s"], "", fast if ours else None),
            ("peak memory", found["peak"] / GIGABYTE, "GB", Goal(2.0) if ours else None),
            (f"test ROC-AUC after {found['cpu_s']:.0f} CPU s", found["auc"], "", None),
        ):
            yield Figure(
                "training", f"{way}, {edges}: {what}", value, unit, goal=goal, how=how,
                samples=samples,
            )  # fmt: skip
