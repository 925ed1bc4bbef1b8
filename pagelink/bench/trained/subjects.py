"""Graphs with their splits, models that are trained on them again and again, and ranks."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pagelink.datasets.folders import find_data
from pagelink.errors import need
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.trained.embeddings import EmbeddingModel, Kind, Loss

UMLS, FREEBASE, TINY = "UMLS", "FB15k-237", "tiny"
MODELS: dict[str, Kind] = {"ComplEx": "complex", "TransE": "translation"}
SIZE = 64
SHARED_ENDS = 256
"""Random ends beside the true one, in each step; all ends, if there are no more."""


@dataclass(frozen=True)
class Plan:
    """How models are trained on a graph."""

    epochs: int
    batch: int
    learning_rate: float


PLANS = {UMLS: Plan(25, 1024, 0.05), FREEBASE: Plan(12, 4096, 0.01), TINY: Plan(20, 64, 0.02)}


@dataclass(frozen=True)
class Facts:
    """A knowledge graph: facts to train on, and facts held out."""

    train: Longs
    """[num_facts, 3]: head, relation, tail."""
    test: Longs
    known: Longs
    """All facts that are known to be true, by `codes`, ascending."""
    entities: list[str]
    relations: list[str]

    def codes(self, facts: Longs) -> Longs:
        """A number per fact."""
        size = len(self.entities)
        found: Longs = (facts[:, 0] * len(self.relations) + facts[:, 1]) * size + facts[:, 2]
        return found


def load_facts(name: str) -> Facts:
    """Return the facts of a graph.

    Raises:
        DataNotFoundError: FB15k-237 is not there.
        MissingExtraError: UMLS comes with PyKEEN, which is not installed.
    """
    if name == TINY:
        return _tiny()
    if name == UMLS:
        need("The benchmark on UMLS", "pykeen", "pykeen")
        spec = find_spec("pykeen")
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent / "datasets" / "umls"
    else:
        folder = find_data("fb15k-237")
    rows = {
        part: [line.split("\t") for line in (folder / f"{part}.txt").read_text("utf-8").split("\n")
               if line]
        for part in ("train", "valid", "test")
    }  # fmt: skip
    return _numbered(rows)


def _numbered(rows: dict[str, list[list[str]]]) -> Facts:
    train = rows["train"]
    entities = {name: i for i, name in enumerate(sorted({e for h, _, t in train for e in (h, t)}))}
    relations = {name: i for i, name in enumerate(sorted({r for _, r, _ in train}))}
    parts = {
        part: np.array(
            [(entities[h], relations[r], entities[t]) for h, r, t in given
             if h in entities and t in entities and r in relations],
            dtype=np.int64,
        ).reshape(-1, 3)
        for part, given in rows.items()
    }  # fmt: skip
    made = Facts(parts["train"], parts["test"], np.empty(0, np.int64), [*entities], [*relations])
    every = np.unique(np.concatenate([made.codes(part) for part in parts.values()]))
    return Facts(made.train, made.test, every, made.entities, made.relations)


def _tiny() -> Facts:
    """People of two towns, who know each other within a town and live there."""
    rows = [
        (f"p{i}", "knows", f"p{j}") for i in range(16) for j in range(16)
        if i != j and (i < 8) == (j < 8)
    ] + [(f"p{i}", "lives in", f"town {int(i < 8)}") for i in range(16)]  # fmt: skip
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    split = {"train": order[20:], "valid": order[:10], "test": order[10:20]}
    return _numbered({part: [list(rows[i]) for i in mine] for part, mine in split.items()})


def fit(
    kind: Kind, facts: Facts, plan: Plan, seed: int, kept: Bools | None = None
) -> EmbeddingModel:
    """Train a model to tell the true end of each fact from all others.

    Args:
        kind: of the model.
        facts: the graph.
        plan: how long, and in which steps.
        seed: where random numbers come from.
        kept: per fact for training, whether it is trained on. None: all are. Random numbers, and
            the order of facts, are the same for any of them, so that two trainings differ by
            their facts, not by chance.
    """
    random = torch.Generator().manual_seed(seed)
    rows = torch.from_numpy(facts.train)
    is_kept = torch.ones(len(rows)).bool() if kept is None else torch.from_numpy(kept)
    num = len(facts.entities)
    nodes = (torch.randn(num, SIZE, generator=random) * 0.3).requires_grad_()
    relations = (torch.randn(len(facts.relations), SIZE, generator=random) * 0.3).requires_grad_()
    adam = torch.optim.Adam([nodes, relations], lr=plan.learning_rate)
    for epoch in range(plan.epochs):
        for group in adam.param_groups:
            group["lr"] = plan.learning_rate * (1 - epoch / plan.epochs)
        order = torch.randperm(len(rows), generator=random)
        for every in order.split(plan.batch):
            part = every[is_kept[every]]
            if not len(part):
                continue
            # All of a small graph, else some that a batch shares.
            drawn = torch.randperm(num, generator=random)[: min(num, SHARED_ENDS)]
            model = _Model(kind, nodes, relations)
            loss = torch.zeros(())
            for is_head, (other, end) in ((True, (0, 2)), (False, (2, 0))):
                given, wanted = rows[part, other], rows[part, end]
                way = torch.full((len(part),), is_head)
                query = model.query(nodes[given], rows[part, 1], way)
                true = model.of_query(nodes[wanted], query)
                others = _against(model, query, nodes[drawn])
                # The true one is among all of them; among some, it is put beside them.
                if len(drawn) < num:
                    others = others.masked_fill(drawn[None] == wanted[:, None], -torch.inf)
                    correction = float(np.log((num - 1) / len(drawn)))
                    others = torch.cat([true[:, None], others + correction], 1)
                loss = loss + (others.logsumexp(1) - true).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
    return EmbeddingModel(kind, nodes.detach(), relations.detach(), Loss("softmax"))


class _Model(EmbeddingModel):
    """Tables that are being trained, which are not checked in every step."""

    def __post_init__(self) -> None:
        pass


def _against(model: EmbeddingModel, query: Tensor, ends: Tensor) -> Tensor:
    """[n, m]: scores of ends by queries."""
    product = query @ ends.T
    if not model.is_distance:
        return product
    square = query.square().sum(-1)[:, None] + ends.square().sum(-1) - 2 * product
    return -square.clamp(min=1e-9).sqrt()


def tail_ranks(model: EmbeddingModel, facts: Facts, links: Longs) -> Doubles:
    """Return the rank of the tail of each link among all that are not known to be true.

    Of those of the same score half count.
    """
    head, relation, _ = torch.from_numpy(links).T
    query = model.query(model.nodes[head], relation, torch.ones(len(links), dtype=torch.bool))
    scores = _against(model, query, model.nodes).numpy()
    own = scores[np.arange(len(links)), links[:, 2]]
    first = facts.codes(np.stack([links[:, 0], links[:, 1], 0 * links[:, 2]], axis=1))
    ranks = np.empty(len(links))
    for i in range(len(links)):
        low, high = np.searchsorted(facts.known, [first[i], first[i] + len(facts.entities)])
        others = np.delete(scores[i], np.append(facts.known[low:high] - first[i], links[i, 2]))
        ranks[i] = 1 + (others > own[i]).sum() + 0.5 * (others == own[i]).sum()
    return ranks
