"""What explaining a link of a model without messages costs, by library and model.

On a random graph with about 100 facts per node, models of 64 dimensions are explained untrained:
what is measured has the same size whatever the vectors are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.nn import kge

from pagelink.bench.runs import Figures, plain, plain_list, timed
from pagelink.errors import need
from pagelink.runtime.arrays import Longs
from pagelink.trained.embeddings import EmbeddingModel, factorisation
from pagelink.trained.explainer import TrainedExplainer

SIZE = 64
NODES, RELATIONS = 600, 8
FACTS_PER_NODE = 100
TINY_NODES = 40
"""Of the tiny version, with a tenth of the facts per node."""
Made = nn.Module | EmbeddingModel


def measure(name: str, links: int, *, quick: bool = False) -> Figures:
    """Return the CPU seconds that links of a model take, each by itself.

    Args:
        name: one of `SUBJECTS`.
        links: how many are explained; pairs of nodes of which no fact is known.
        quick: a tiny graph.

    Raises:
        MissingExtraError: the model is PyKEEN's, which is not installed.
    """
    is_rating = name == FACTORS
    nodes = TINY_NODES if quick else NODES
    facts = _facts(nodes, nodes * FACTS_PER_NODE // (20 if quick else 2), is_rating)
    torch.manual_seed(0)
    model = SUBJECTS[name](nodes, facts)
    given = torch.from_numpy(facts[:, [0, 2]] if is_rating else facts)
    explainer, made = timed(lambda: TrainedExplainer(model, given))
    known = {tuple(fact) for fact in facts.tolist()}
    offered = facts[np.random.default_rng(1).permutation(len(facts))]
    asked = [
        (head, relation, tail)
        for (head, relation, _), tail in zip(offered.tolist(), facts[:, 2].tolist(), strict=True)
        if (head, relation, tail) not in known and head != tail
    ][: links + 1]
    seconds = [timed(partial(explainer.explain, s, t, r))[1] for s, r, t in asked]
    return {
        "facts per node": plain(2 * len(facts) / (2 * nodes if is_rating else nodes)),
        "size": explainer.embeddings.nodes.shape[1],
        "making": plain(made),
        "links": plain_list(seconds[1:]),  # the first one also loads what is compiled
    }


def _facts(nodes: int, count: int, is_rating: bool) -> Longs:
    """Random facts, each once; ratings are between as many users as items."""
    rng = np.random.default_rng(0)
    if is_rating:
        drawn = np.sort(rng.choice(nodes**2, 2 * count, replace=False))
        return np.stack([drawn // nodes, 0 * drawn, drawn % nodes], axis=1)
    rows = rng.integers(0, (nodes, RELATIONS, nodes), (count, 3))
    found: Longs = np.unique(rows[rows[:, 0] != rows[:, 2]], axis=0)
    return found


def _pyg(name: str, nodes: int, facts: Longs, **more: float) -> Made:
    made: nn.Module = getattr(kge, name)(nodes, RELATIONS, SIZE, **more)
    return made


def _pykeen(name: str, nodes: int, facts: Longs, **more: int) -> Made:
    need("The cost of models of PyKEEN", "pykeen", "pykeen")
    from pykeen import models
    from pykeen.triples import CoreTriplesFactory

    triples = CoreTriplesFactory(
        torch.from_numpy(facts), num_entities=nodes, num_relations=RELATIONS
    )
    made: nn.Module = getattr(models, name)(
        triples_factory=triples, embedding_dim=SIZE, random_seed=0, **more
    )
    return made


def _factors(nodes: int, facts: Longs) -> Made:
    tables = torch.randn(2, nodes, SIZE) * 0.1
    return factorisation(tables[0], tables[1], torch.zeros(nodes), torch.zeros(nodes))


FACTORS = "matrix factorisation"
SUBJECTS: dict[str, Callable[[int, Longs], Any]] = {
    "ComplEx of PyKEEN": partial(_pykeen, "ComplEx"),
    "DistMult of PyKEEN": partial(_pykeen, "DistMult"),
    "RotatE of PyKEEN": partial(_pykeen, "RotatE"),
    "TransE of PyKEEN, norm 1": partial(_pykeen, "TransE"),
    "TransE of PyKEEN, norm 2": partial(_pykeen, "TransE", scoring_fct_norm=2),
    "ComplEx of PyG": partial(_pyg, "ComplEx"),
    "DistMult of PyG": partial(_pyg, "DistMult"),
    "RotatE of PyG": partial(_pyg, "RotatE"),
    "TransE of PyG, norm 1": partial(_pyg, "TransE"),
    "TransE of PyG, norm 2": partial(_pyg, "TransE", p_norm=2.0),
    FACTORS: _factors,
}
