"""The explainers behind the page: of each model, by each method, with facts added."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from pagelink.errors import LinkError, SettingsError, did_you_mean
from pagelink.explain.explainer import PaGELink
from pagelink.rivals.registry import make_rival
from pagelink.web.added import Added, added_to
from pagelink.web.contract import Choice

T = TypeVar("T")
_KEPT = 4
"""Graphs with added facts that are kept, and explainers by other methods."""
METHODS = {
    "pagelink": ("pagelink", "Paths chosen by what removing and adding them does to the score."),
    "pagelink-diverse": (
        "pagelink, diverse", "Of sets of paths that are equally good, one that repeats least.",
    ),
    "paper": ("PaGE-Link as released", "A mask is learned by the paper's losses; paths by mask."),
    "power-link": ("Power-Link", "A mask is learned by powers of the adjacency; paths by mask."),
    "gnnexp": ("GNNExp-Link", "A mask that keeps the score with few edges; paths by mask."),
    "gradient": ("Gradient", "Edges by the gradient of the score; paths by these."),
    "jrecs": ("J-Recs", "Paths that are relevant to both ends and diverse, without the model."),
    "degree": ("By degree alone", "Short paths through nodes of few facts, without the model."),
    "random-paths": ("Random paths", "Any paths: every other explainer should do better."),
}  # fmt: skip
"""Those that need no training; the default is the first."""


class Explainers:
    """Explainers of one graph: the first model's, and those that it is compared with.

    Args:
        models: an explainer of each model; the first is the default.

    Raises:
        SettingsError: another model predicts another relation, or is about another graph.
    """

    def __init__(self, models: Sequence[PaGELink]) -> None:
        first = models[0]
        for other in models[1:]:
            if other.link_types[0] != first.link_types[0]:
                raise SettingsError(
                    f"The models predict different links: {' '.join(first.link_types[0])} and "
                    f"{' '.join(other.link_types[0])}. Compare models of the same relation."
                )
            if other.graph.node_types != first.graph.node_types or (
                other.graph.node_offset.tolist() != first.graph.node_offset.tolist()
            ):
                raise SettingsError("The models are about graphs that do not have the same nodes.")
        self.models = tuple(models)
        self._made: dict[Hashable, OrderedDict[Hashable, Any]] = {}

    def watch(self, before_pass: Callable[[], None]) -> None:
        """Have a function called before each pass of any of the models."""
        for each in self.models:
            each.predictor.before_pass = before_pass

    def added(self, add: Sequence[str], model: int = 0) -> Added | None:
        """The graph of a model with some facts added; None: none are.

        Raises:
            LinkError: there is no such model, or a fact cannot be added.
        """
        facts, explainer = tuple(sorted(set(add))), self.of_model(model)
        if not facts:
            return None
        return self._kept("added", (model, facts), lambda: added_to(explainer, facts))

    def of_model(self, model: int) -> PaGELink:
        """The explainer of a model.

        Raises:
            LinkError: there is no such model.
        """
        if model >= len(self.models):
            raise LinkError(
                f"There is no model {model}: {len(self.models)} can be asked, from 0. Serve "
                "another one by --compare-model."
            )
        return self.models[model]

    def chosen(self, choice: Choice) -> tuple[PaGELink, Added | None]:
        """The explainer of a choice, and what was added to its graph.

        Raises:
            LinkError: there is no such model or explainer, or a fact cannot be added.
        """
        if choice.method not in METHODS:
            raise LinkError(
                f"There is no explainer {choice.method!r}; there are {', '.join(METHODS)}."
                + did_you_mean(choice.method, METHODS)
            )
        added = self.added(choice.add, choice.model)
        explainer = added.explainer if added else self.of_model(choice.model)
        if choice.method != Choice.method:
            key = choice.method, choice.model, tuple(sorted(set(choice.add)))
            explainer = self._kept("method", key, lambda: _by(choice.method, explainer))
        return explainer, added

    def _kept(self, kind: Hashable, key: Hashable, make: Callable[[], T]) -> T:
        kept = self._made.setdefault(kind, OrderedDict())
        if key not in kept:
            kept[key] = make()
        kept.move_to_end(key)
        while len(kept) > _KEPT:
            kept.popitem(last=False)
        found: T = kept[key]
        return found


def _by(method: str, explainer: PaGELink) -> PaGELink:
    """An explainer of the same model and graph by another method."""
    predictor = explainer.predictor
    made = make_rival(
        method, predictor.model, explainer.store or predictor.data, settings=explainer.settings,
        seed=explainer.seed, **explainer._given,
    )  # fmt: skip
    made.predictor.before_pass = predictor.before_pass
    return made
