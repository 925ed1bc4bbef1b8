"""What is checked: a trained model, its graph, and the links whose explanations are looked at.

And the check that needs other models: explanations of a re-initialised model, or of one trained on
shuffled links, must differ more than those of another seed of the explainer.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch_geometric.data import HeteroData

from pagelink.errors import PageLinkError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.metrics.averages import bootstrap_interval
from pagelink.metrics.paths import jaccard
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.link_model import LinkModel
from pagelink.models.links import LinkSplit
from pagelink.models.messages import fact_codes, reverse_of
from pagelink.models.training import train
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.settings import Settings

WORDS = {
    "seeds": "between seeds of the explainer",
    "reinitialised": "with a re-initialised model",
    "shuffled": "with a model trained on shuffled links",
    "degree_only": "by degree alone, with a re-initialised model",
}
Mark = Literal["fine", "warning", "not checked"]
Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Finding:
    """What one check came to."""

    name: str
    mark: Mark
    verdict: str
    """One or two sentences."""
    details: tuple[str, ...] = ()
    """What it rests on, a line each."""
    figures: dict[str, Any] = field(default_factory=dict)
    """The same in numbers, ready for JSON."""


@dataclass(frozen=True)
class CheckedModel:
    """A model with the links whose explanations are looked at."""

    model: nn.Module
    data: HeteroData
    link_type: EdgeType
    links: Pairs
    settings: Settings = field(default_factory=Settings)
    seed: int = 0

    def explainer(self, model: nn.Module | None = None, **changes: Any) -> PaGELink:
        """Return an explainer of the model, or of another one; links are explained at any score."""
        settings = self.settings.replace(**changes)
        model = self.model if model is None else model
        return PaGELink(model, self.data, self.link_type, settings, self.seed, threshold=None)

    def explain(self, model: nn.Module | None = None, **changes: Any) -> list[Explanation]:
        """Explain all links."""
        return list(self.explainer(model, **changes).explain_many(self.links))


def choose_links(checkpoint: Checkpoint, count: int, seed: int) -> Pairs:
    """Draw test links that the model predicts; where these are too few, other test links too."""
    with torch.no_grad():
        logits = checkpoint.score(checkpoint.split.test)
    order = np.random.default_rng((seed, 7)).permutation(checkpoint.split.test.shape[1])
    predicted = (logits >= 0).cpu().numpy()[order]
    chosen = np.concatenate([order[predicted], order[~predicted]])[:count]
    return [(int(s), int(t)) for s, t in checkpoint.split.test[:, torch.from_numpy(chosen)].t()]


def logits_without(explainer: PaGELink, links: Pairs, edges: Bools | None = None) -> Doubles:
    """The logits of links by one pass on the full graph, without some of its flat edges."""
    graph, link_type = explainer.graph, explainer.link_types[0]
    ends = flat_links(graph, link_type, links)
    relation = np.full(len(links), graph.edge_types.index(link_type))
    inputs = explainer.predictor.full_graph(ends[:, 0], ends[:, 1], relation, edges)
    found: Doubles = explainer.predictor.logits(inputs).cpu().double().numpy()
    return found


def flat_links(graph: TypedGraph, link_type: EdgeType, links: Sequence[tuple[int, int]]) -> Longs:
    """The flat indices of the ends of links, [num_links, 2]."""
    shift = [graph.flat_index(link_type[0], 0), graph.flat_index(link_type[2], 0)]
    return np.array(links, dtype=np.int64).reshape(-1, 2) + shift


def percent(share: float) -> str:
    """A share in words: whole per cents.

    Example:
        >>> percent(0.256), percent(0.004)
        ('26 %', '0.4 %')
    """
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.0095 else f"{100 * share:.1g} %"


def overlaps(first: Sequence[Explanation], second: Sequence[Explanation]) -> Doubles:
    """Per link, the Jaccard overlap of two explanations: shared paths over all paths.

    Links without any path in both have no overlap to speak of; they are NaN.
    """
    found = [jaccard(a.paths, b.paths) for a, b in zip(first, second, strict=True)]
    return np.array(found, dtype=np.float64)


def reinitialised(model: LinkModel, seed: int) -> LinkModel:
    """The same model with new random weights; what it knows of the features' scale stays."""
    fresh = type(model)(**{**model.config, "seed": seed})
    fresh.load_state_dict({**fresh.state_dict(), **dict(model.named_buffers())})
    return fresh.eval()


def shuffled_split(
    split: LinkSplit, link_type: EdgeType, num_dst: int, rng: np.random.Generator
) -> LinkSplit:
    """Links between the same sources and targets as before, but paired at random.

    What is a true link, or there twice, is left out.
    """
    every, sizes = split.all.cpu(), [part.shape[1] for part in (split.train, split.valid)]
    pairs = torch.stack([every[0], every[1][torch.from_numpy(rng.permutation(every.shape[1]))]])
    codes = fact_codes(pairs, link_type, num_dst)
    first = np.zeros(len(codes), dtype=np.bool_)
    first[np.unique(codes, return_index=True)[1]] = True
    kept = first & ~np.isin(codes, fact_codes(every, link_type, num_dst))
    if link_type[0] == link_type[2]:
        kept &= (pairs[0] != pairs[1]).numpy()
    cuts = np.cumsum(sizes).tolist()
    parts = zip(
        pairs.tensor_split(cuts, dim=1), torch.from_numpy(kept).tensor_split(cuts), strict=True
    )
    return LinkSplit(*(part[:, keep] for part, keep in parts))


def trained_on_shuffled(checkpoint: Checkpoint, seed: int) -> LinkModel:
    """Train the model of a checkpoint anew, as long as it was trained, on links paired at random.

    Raises:
        PageLinkError: it cannot be trained; the message says why.
    """
    link_type, settings = checkpoint.link_type, checkpoint.settings
    num_dst = int(checkpoint.data[link_type[2]].num_nodes)
    rng = np.random.default_rng((seed, 8))
    split = shuffled_split(checkpoint.split, link_type, num_dst, rng)
    data = _with_links(checkpoint.whole_data, link_type, split, settings.paper_split)
    epochs = max(checkpoint.report.best_epoch, 1)
    settings = dataclasses.replace(
        settings, epochs=epochs, patience=epochs, retrain_edgeless=False, max_candidates=1
    )
    model = reinitialised(checkpoint.model, seed + 1)
    train(model, data, link_type, split, settings, seed=seed)
    return model


def _with_links(
    data: HeteroData, link_type: EdgeType, split: LinkSplit, paper_split: bool
) -> HeteroData:
    """The graph with other links of the predicted relation."""
    graph = copy.copy(data)
    if paper_split:
        return graph
    reverse = reverse_of(data, link_type)
    for edge_type in dict.fromkeys((link_type, reverse)):
        if edge_type in graph.edge_types:
            del graph[edge_type]
        pairs = split.all
        graph[edge_type].edge_index = pairs if edge_type == link_type else pairs.flip(0)
    return graph


def check_randomisation(
    checked: CheckedModel, checkpoint: Checkpoint, *, retrain: bool = True
) -> Finding:
    """Compare explanations of the model with those of models that know nothing of the links.

    Args:
        checked: the model and its links.
        checkpoint: where it comes from, with its split.
        retrain: also train one on links paired at random.
    """
    seed = checked.seed
    mine = checked.explain(start="noise")
    fresh = reinitialised(checkpoint.model, seed + 1)
    by_degree: dict[str, Any] = {"measure": False, "epochs": 0}
    reseeded = dataclasses.replace(checked, seed=seed + 1)
    found = {"seeds": overlaps(mine, reseeded.explain(start="noise"))}
    notes = []
    try:
        found["reinitialised"] = overlaps(mine, checked.explain(fresh, start="noise"))
        found["degree_only"] = overlaps(
            checked.explain(**by_degree), checked.explain(fresh, **by_degree)
        )
    except PageLinkError as error:
        notes.append(f"The re-initialised model cannot be explained: {error}")
    if retrain:
        try:
            model = trained_on_shuffled(checkpoint, seed)
            found["shuffled"] = overlaps(mine, checked.explain(model, start="noise"))
        except PageLinkError as error:
            notes.append(f"No model was trained on shuffled links: {error}")
    else:
        notes.append("No model was trained on shuffled links, as requested.")
    return judge(found, seed, notes)


def judge(found: dict[str, Doubles], seed: int, notes: Sequence[str] = ()) -> Finding:
    """Say whether explanations follow the model, from overlaps per link."""
    figures: dict[str, Any] = {}
    for name, values in found.items():
        known = values[np.isfinite(values)]
        low, high = bootstrap_interval(known, seed)
        mean = float(known.mean()) if len(known) else float("nan")
        figures[name] = {"overlap": mean, "low": low, "high": high, "links": len(known)}
    details = [
        f"overlap {WORDS[name]}: {f['overlap']:.2f} ({f['low']:.2f} to {f['high']:.2f}, "
        f"{f['links']} links)."
        for name, f in figures.items()
    ]
    if "degree_only" in figures:
        details.append(
            "A ranking by degree alone gives the same paths for any model: this check is how to "
            "tell such a ranking."
        )
    others = [name for name in ("reinitialised", "shuffled") if name in figures]
    same = [name for name in others if not figures[name]["high"] < figures["seeds"]["low"]]
    mark: Mark = "fine"
    verdict = (
        "Explanations follow the model: another model has clearly other paths, another seed of "
        "the explainer has not."
    )
    if not others or not figures["seeds"]["links"]:
        mark = "not checked"
        verdict = "There is no other model to compare with, or no link with paths."
    elif same:
        mark = "warning"
        verdict = (
            "Explanations are not shown to follow the model: the overlap "
            + " and ".join(WORDS[name] for name in same)
            + " is not clearly below the overlap between seeds of the explainer."
        )
    return Finding("randomisation", mark, verdict, (*details, *notes), figures)
