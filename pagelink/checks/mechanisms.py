"""Relation ablation: paths along a relation that is hidden from the model must not be returned."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData

from pagelink.checks.subject import Finding, Subject, logits_without
from pagelink.errors import PageLinkError
from pagelink.explain.result import Explanation
from pagelink.graph.lookup import edges_of_relations
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.metrics.averages import bootstrap_interval
from pagelink.metrics.paths import jaccard
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.link_model import LinkModel
from pagelink.models.links import LinkSplit
from pagelink.models.messages import fact_codes, reverse_of
from pagelink.models.training import train
from pagelink.runtime.arrays import Doubles

LINKS = 20
"""Links explained for each relation."""


class Hidden(nn.Module):
    """A model from which the edges of some relations are hidden; they stay in the graph.

    Args:
        model: called as `model(x_dict, edge_index_dict, edge_label_index)`.
        relations: what it does not see.
    """

    def __init__(self, model: nn.Module, relations: Collection[EdgeType]) -> None:
        super().__init__()
        self.model = model
        self.relations = frozenset(relations)

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index: Tensor,
    ) -> Tensor:
        """Return the logits of the links on the graph without these relations."""
        seen = {
            t: edge_index[:, :0] if t in self.relations else edge_index
            for t, edge_index in edge_index_dict.items()
        }
        logits: Tensor = self.model(x_dict, seen, edge_label_index)
        return logits


def relation_pairs(graph: TypedGraph) -> list[tuple[EdgeType, ...]]:
    """The relations that have edges, each with its reverse."""
    stored = [t for t, n in zip(graph.edge_types, graph.edge_counts, strict=True) if n]
    pairs: list[tuple[EdgeType, ...]] = []
    for edge_type in stored:
        if not any(edge_type in pair for pair in pairs):
            turned = graph.reverse.get(edge_type, edge_type)
            pairs.append((edge_type,) if turned == edge_type else (edge_type, turned))
    return pairs


def check_relations(subject: Subject, explanations: Sequence[Explanation]) -> Finding:
    """Hide each relation from the model, and look at the influence of its facts and at the paths.

    Args:
        subject: the model and its links.
        explanations: of the model as it is.
    """
    explainer = subject.explainer()
    whole = logits_without(explainer, subject.links)
    rows: list[dict[str, Any]] = []
    for pair in relation_pairs(explainer.graph):
        row: dict[str, Any] = {
            "relation": " / ".join(t[1] for t in pair),
            "edge_types": [list(t) for t in pair],
        }
        row["paths_before"] = sum(_using(answer, pair) for answer in explanations)
        gone = edges_of_relations(explainer.graph, pair)
        try:
            row["change"] = float(
                np.abs(whole - logits_without(explainer, subject.links, gone)).mean()
            )
            row |= _hide(subject, pair)
        except PageLinkError as error:
            row["not_checked"] = str(error)
        rows.append(row)
    return _finding(rows, sum(len(answer.paths) for answer in explanations))


def _hide(subject: Subject, pair: tuple[EdgeType, ...]) -> dict[str, Any]:
    blind = subject.explainer(Hidden(subject.model, pair))
    gone = edges_of_relations(blind.graph, pair)
    asked = subject.links[:LINKS]
    influence = logits_without(blind, asked) - logits_without(blind, asked, gone)
    answers = list(blind.explain_many(asked))
    using = [link for link, answer in zip(asked, answers, strict=True) if _using(answer, pair)]
    avoidable = 0
    if using:
        other = subject.explainer(
            Hidden(subject.model, pair), exclude_relations=["__".join(pair[0])]
        )
        avoidable = sum(bool(answer.paths) for answer in other.explain_many(using))
    return {
        "influence": float(np.abs(influence).max(initial=0.0)),
        "paths_hidden": sum(_using(answer, pair) for answer in answers),
        "avoidable": avoidable,
    }


def _using(explanation: Explanation, relations: tuple[EdgeType, ...]) -> int:
    return sum(any(e.type in relations for e in path.edges) for path in explanation.paths)


def _finding(rows: list[dict[str, Any]], num_paths: int) -> Finding:
    checked = [row for row in rows if "not_checked" not in row]
    bad = [row["relation"] for row in checked if row["influence"] != 0 or row["avoidable"]]
    details = []
    for row in rows:
        line = f"{row['relation']}: on {row['paths_before']} of {num_paths} paths"
        if "change" in row:
            line += f"; without it the score changes by {row['change']:.3g} on average"
        if "not_checked" in row:
            line += f"; not checked: {row['not_checked']}"
        else:
            line += (
                f"; once it is hidden, its influence is {row['influence']:.3g} "
                f"and it is on {row['paths_hidden']} paths"
            )
        details.append(line + ".")
    figures = {"relations": rows, "num_paths": num_paths}
    if not checked:
        verdict = "No relation could be hidden: the model does not run without any of them."
        return Finding("relations", "not checked", verdict, tuple(details), figures)
    if bad:
        verdict = (
            f"Paths still run along relations that are hidden from the model ({', '.join(bad)}), "
            "or these still move its score: do not trust paths along them."
        )
        return Finding("relations", "warning", verdict, tuple(details), figures)
    unused = [r["relation"] for r in checked if r["paths_before"] and r["change"] == 0]
    verdict = (
        "A relation that is hidden from the model has no influence, and no path runs along it "
        f"({len(checked)} of {len(rows)} relations checked)."
    )
    if unused:
        verdict += f" The model's score does not depend on {', '.join(unused)} at all."
    return Finding("relations", "fine", verdict, tuple(details), figures)


# Randomisation: explanations of another model must differ more than those of another seed.


WORDS = {
    "seeds": "between seeds of the explainer",
    "reinitialised": "with a re-initialised model",
    "shuffled": "with a model trained on shuffled links",
    "degree_only": "by degree alone, with a re-initialised model",
}


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
    parts = [
        part[:, torch.from_numpy(keep)]
        for part, keep in zip(
            pairs.tensor_split(np.cumsum(sizes).tolist(), dim=1),
            np.split(kept, np.cumsum(sizes)),
            strict=True,
        )
    ]
    return LinkSplit(*parts)


def trained_on_shuffled(checkpoint: Checkpoint, seed: int) -> LinkModel:
    """Train the model of a checkpoint anew, as long as it was trained, on links paired at random.

    Raises:
        PageLinkError: it cannot be trained; the message says why.
    """
    link_type, settings = checkpoint.link_type, checkpoint.settings
    num_dst = int(checkpoint.data[link_type[2]].num_nodes)
    rng = np.random.default_rng((seed, 8))
    split = shuffled_split(checkpoint.split, link_type, num_dst, rng)
    data = _with_links(checkpoint.data, link_type, split, settings.paper_split)
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
    subject: Subject, checkpoint: Checkpoint, *, retrain: bool = True
) -> Finding:
    """Compare explanations of the model with those of models that know nothing of the links.

    Args:
        subject: the model and its links.
        checkpoint: where it comes from, with its split.
        retrain: also train one on links paired at random.
    """
    seed = subject.seed
    mine = subject.explain(start="noise")
    fresh = reinitialised(checkpoint.model, seed + 1)
    by_degree: dict[str, Any] = {"measure": False, "epochs": 0}
    found = {"seeds": overlaps(mine, subject.explain(seed=seed + 1, start="noise"))}
    notes = []
    try:
        found["reinitialised"] = overlaps(mine, subject.explain(fresh, start="noise"))
        found["degree_only"] = overlaps(
            subject.explain(**by_degree), subject.explain(fresh, **by_degree)
        )
    except PageLinkError as error:
        notes.append(f"The re-initialised model cannot be explained: {error}")
    if retrain:
        try:
            model = trained_on_shuffled(checkpoint, seed)
            found["shuffled"] = overlaps(mine, subject.explain(model, start="noise"))
        except PageLinkError as error:
            notes.append(f"No model was trained on shuffled links: {error}")
    else:
        notes.append("No model was trained on shuffled links, as it was asked for.")
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
    if not others or not figures["seeds"]["links"]:
        verdict = "There is no other model to compare with, or no link with paths."
        return Finding("randomisation", "not checked", verdict, (*details, *notes), figures)
    same = [name for name in others if not figures[name]["high"] < figures["seeds"]["low"]]
    if same:
        verdict = (
            "Explanations are not shown to follow the model: the overlap "
            + " and ".join(WORDS[name] for name in same)
            + " is not clearly below the overlap between seeds of the explainer."
        )
        return Finding("randomisation", "warning", verdict, (*details, *notes), figures)
    verdict = (
        "Explanations follow the model: another model has clearly other paths, another seed of "
        "the explainer has not."
    )
    return Finding("randomisation", "fine", verdict, (*details, *notes), figures)
