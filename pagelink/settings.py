"""Settings of the explainer: one frozen dataclass, and the presets of the paper."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pagelink.errors import SettingsError, did_you_mean

PAPER_DATASETS = ("useritemattr", "augcitation")

# Of each number: its kind, its lowest value, whether it may be None.
_RANGES: dict[str, tuple[type, int, bool]] = {
    "max_length": (int, 1, False), "num_paths": (int, 1, False), "budget": (int, 1, True),
    "max_degree": (int, 1, True), "num_hops": (int, 1, True), "core": (int, 0, False),
    "hub_degree": (int, 1, True), "epochs": (int, 0, False), "learning_rate": (float, 0, False),
    "alpha": (float, 0, False), "beta": (float, 0, False), "pred_weight": (float, 0, False),
    "paths_per_epoch": (int, 1, False), "patience": (int, 1, True), "entropy": (float, 0, False),
    "size": (float, 0, False), "deadline": (float, 0, True), "rho": (float, 0, False),
    "candidates": (int, 1, False), "verified": (int, 1, False), "swaps": (int, 0, False),
}  # fmt: skip
# Of each tuple: whether its items are tuples themselves, and of which length (0: any).
_TUPLES = {
    "exclude_relations": None, "exclude_nodes": 2, "metapaths": 0, "forbid_metapaths": 0, "via": 2,
}  # fmt: skip
_CHOICES = {
    "pred_loss": ("gap", "log_sigmoid"), "path_loss": ("mean", "sum", "released", "power"),
    "path_schedule": ("all", "cycle"), "start": ("even", "noise"),
    "check": ("auto", "full", "wider"),
    "remove_pruned": (True, False), "unpruned_fallback": (True, False), "measure": (True, False),
    "longer": (True, False), "strongest": (True, False), "what_else": (True, False),
    "diverse": (True, False),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How a link is explained. Symbols refer to the PaGE-Link paper (WWW 2023).

    Example:
        >>> Settings(max_length=3, num_paths=5, budget=9).paths_within_budget
        3
        >>> Settings.paper("useritemattr").epochs
        20
    """

    # Paths that may be returned (the paper's problem statement)
    max_length: int = 3
    """l_max: a path has at most this many facts. 1 or more. See `longer`."""
    longer: bool = True
    """Where paths of at most `max_length` facts do not carry the score, but facts together do, and
    the model sees further, longer paths are looked for, up to what it sees. False: never. Only
    where effects are measured."""
    num_paths: int = 3
    """How many paths to return at most. 1 or more."""
    budget: int | None = None
    """B: |P| * l_max <= B. None: no bound but `num_paths`."""
    max_degree: int | None = None
    """D_max: inner nodes of a path have at most this degree in the whole graph. None: no bound."""

    # What may lie on a path, as users ask for it. The model sees the graph as it is.
    exclude_relations: tuple[str, ...] = ()
    """Relations that no path uses, nor their reverses: `"palliates"`, or
    `"compound__treats__disease"` where a name is not enough."""
    exclude_nodes: tuple[tuple[str, str | int], ...] = ()
    """Nodes that no path goes through, as (node type, name or index)."""
    before: str | None = None
    """Only facts with an earlier date: ISO text, or a number where the dates are numbers. Facts
    without a date stay."""
    date_column: str = "date"
    """The column of the edges that `before` is about."""
    metapaths: tuple[tuple[str, ...], ...] = ()
    """Only paths along one of these sequences of relations, as walked; `rev_x` is x walked
    backwards. Empty: any."""
    forbid_metapaths: tuple[tuple[str, ...], ...] = ()
    """No path along one of these sequences of relations."""
    via: tuple[tuple[str, str | int], ...] = ()
    """Only paths through (at least one of) these nodes, as (node type, name or index)."""
    deadline: float | None = None
    """Seconds for a link. When they are over, whatever is being done stops; the best paths so far
    are returned with the reason `out_of_time`. None: no limit."""

    # The computation graph and its pruning (the paper's section on k-core pruning)
    num_hops: int | None = None
    """L: radius of the computation graph. None: found on the model. It cannot be less than that."""
    core: int = 2
    """k of the k-core. 0 or 1 prunes (next to) nothing."""
    hub_degree: int | None = None
    """Nodes of a higher degree than this are hubs: they are pruned, s and t apart. None: none is
    pruned, and of sets of paths equally good one with fewer inner nodes above the 99.5th percentile
    of the degrees of their type (at least 100) is returned."""
    remove_pruned: bool = False
    """Take pruned edges out of the model's input too. Differs from the paper: by default they stay,
    at weight 1, so that the mask is learned on the very prediction that is explained."""
    unpruned_fallback: bool = True
    """Use the unpruned graph where pruning would cut s from t. False: reason `pruned_away`."""

    # Mask learning (the paper's equations for L_pred, L_path and Score)
    epochs: int = 20
    """T: number of Adam steps at most. 0: the mask stays as it starts. Where more than 20,000 edges
    that the model sees enter one node of a link's graph, only facts that may lie on a path have
    their mask learned by the prediction; all others stay in the model's input at weight 1 (not with
    `entropy`, `size` or the loss `released`, which are of all edges)."""
    learning_rate: float = 0.2
    """Step size of Adam. Differs from the paper: the released code uses 0.01, with which 20 steps
    move no mask logit by more than about 0.2, less than the noise it starts from."""
    alpha: float = 1.0
    """Weight of the mask of path edges in L_path. 0 or more."""
    beta: float = 1.0
    """Weight of the mask of all other edges in L_path. 0 or more."""
    pred_weight: float = 1.0
    """Weight of L_pred. 0 leaves the prediction out (for ablation). 0 or more."""
    pred_loss: Literal["gap", "log_sigmoid"] = "gap"
    """L_pred. `log_sigmoid`: minus log sigmoid(f), the paper's formula. Differs from the paper:
    `gap` is minus log sigmoid(3 + gap), where the gap is f less the score of the unmasked graph, as
    a share of what the mask takes from it at the start. Neither a constant that is added to all
    scores nor a factor changes what is learned."""
    path_loss: Literal["mean", "sum", "released", "power"] = "mean"
    """L_path. `sum`: the paper's formula as printed, with sums of M over the edges on paths and
    over the others. Differs from the paper: `mean` is the same with means, so that neither side
    outweighs the other by its number of edges. `released` is what the released code does: means of
    sigmoid(M), in which an edge counts once for each path that it lies on; E_path from paths of any
    length among the edges that pruning kept; and a link is done when a step moves the norm of its
    mask by less than 0.001.
    `power`: alpha times minus the log of the mean weight of all s-t walks, by powers of the
    weighted adjacency as in Power-Link, plus beta times the mean over the edges on no walk. Then
    no path is searched while learning, and `patience` does not count."""
    paths_per_epoch: int = 10
    """E_path holds the edges of this many best paths, found anew in every epoch. Differs from the
    paper, which takes five."""
    path_schedule: Literal["all", "cycle"] = "cycle"
    """`all`: E_path are the edges of all `paths_per_epoch` best paths in every epoch. `cycle`: of
    all of them, then of one fewer, down to the best one, and again. Differs from the paper: Adam
    moves all edges of a steady E_path alike, so that with `all` the mask cannot tell the best path
    from the last one; with `cycle` it ranks them."""
    patience: int | None = 10
    """A link has converged when its best paths did not change for this many epochs. None: never."""
    entropy: float = 0.0
    """Weight of the mean entropy of the mask. 0 or more."""
    size: float = 0.0
    """Weight of the sum of the mask. 0 or more."""
    start: Literal["even", "noise"] = "even"
    """Mask logits at the start. `noise`: normal with deviation sqrt(2) * sqrt(2 / (2n)) for n nodes
    of the relation's two types in the computation graph. Differs from the paper: `even` starts
    every edge at 0, because after a few steps the top edges of a noisy start are still mostly
    noise."""

    # What the paths are worth to the model (beyond the paper)
    measure: bool = True
    """Measure on the model what the paths are worth. False: the paper's ranking, unmeasured."""
    rho: float = 0.95
    """Between concise and faithful, 0 to 1: of the sets of paths that reach this share of the best
    worth found, the most concise is returned: without idle facts, fewest hubs, fewest facts, and
    the highest Score, in this order. 0: the paper's ranking. 1: worth alone."""
    diverse: bool = False
    """Of the sets of paths that reach `rho` of the best worth with the fewest hubs, return one
    that repeats the fewest inner nodes and metapaths, and of these the most concise. Only where
    effects are measured and `rho` is above 0."""
    prefer: str | None = None
    """A column of the edges (times listened, confidence, year) that says how much a fact counts for
    a reader: of sets with as few hubs and facts, one of heavy facts is returned. To Score(p) the
    logarithm of each fact's weight is added, which is the share of the facts of its relation whose
    value is at most its own; relations without the column weigh 1. Only where effects are measured
    and `rho` is above 0."""
    candidates: int = 20
    """Candidate paths by the mask, by conciseness and by the gradient, each."""
    verified: int = 64
    """Sets of candidate paths to choose from, each measured on the model, for a link. What was
    measured to find the candidates comes on top."""
    check: Literal["auto", "full", "wider"] = "auto"
    """What the score of each link is compared with, once per call, so that nothing that the model
    sees is left out. `full`: the full graph, in one pass for all links of a batch. `wider`: a
    computation graph one ring wider, whose cost does not grow with the graph. `auto`: the full
    graph, if it has a million edges at most."""
    swaps: int = 20
    """Draws of facts swapped with others of their kind, which keeps all degrees: they tell whether
    it matters what the facts of the paths lead to, and whether a path matters as a whole. 0: that
    is not asked."""
    strongest: bool = True
    """Find the facts that count most, anywhere in what the model sees, as many as paths have."""
    what_else: bool = True
    """Where the model does not rely on paths, measure on what it does rely."""

    def __post_init__(self) -> None:
        for name in _TUPLES:
            object.__setattr__(self, name, _as_tuples(name, getattr(self, name)))
        if self.before is not None:
            object.__setattr__(self, "before", str(self.before))
        for name, (kind, low, optional) in _RANGES.items():
            value = getattr(self, name)
            if value is None and optional:
                continue
            number = isinstance(value, int if kind is int else int | float)
            if not number or isinstance(value, bool) or not math.isfinite(value) or value < low:
                words = "a whole number" if kind is int else "a number"
                none = " or None" if optional else ""
                raise SettingsError(f"{name} must be {words} from {low} up{none}, got {value!r}.")
        if not self.learning_rate > 0:
            raise SettingsError(f"learning_rate must be above 0, got {self.learning_rate!r}.")
        if self.rho > 1:
            raise SettingsError(f"rho must be from 0 to 1, got {self.rho!r}.")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise SettingsError(
                    f"{name} must be one of {allowed}, got {getattr(self, name)!r}."
                )
        if self.prefer is not None and not (isinstance(self.prefer, str) and self.prefer):
            raise SettingsError(
                f"prefer must be the name of a column, or None; got {self.prefer!r}."
            )
        if self.budget is not None and self.budget < self.max_length:
            raise SettingsError(
                f"budget must hold at least one path of max_length={self.max_length} facts, "
                f"got {self.budget}. Raise the budget or lower max_length."
            )

    @property
    def paths_within_budget(self) -> int:
        """The number of paths to return: the largest |P| <= num_paths with |P| * l_max <= B."""
        if self.budget is None:
            return self.num_paths
        return min(self.num_paths, self.budget // self.max_length)

    @classmethod
    def paper(cls, dataset: str) -> Settings:
        """Return the settings of the paper's released code for one of its two data sets."""
        if dataset not in PAPER_DATASETS:
            raise SettingsError(
                f"There are paper settings for {PAPER_DATASETS}, not for {dataset!r}."
                + did_you_mean(dataset, PAPER_DATASETS)
            )
        citation = dataset == "augcitation"
        return cls(
            max_length=5,
            num_paths=40,
            num_hops=2,
            core=3 if citation else 2,
            hub_degree=200,
            remove_pruned=True,
            epochs=50 if citation else 20,
            learning_rate=0.01,
            paths_per_epoch=5,
            pred_loss="log_sigmoid",
            path_loss="released",
            path_schedule="all",
            patience=None,
            start="noise",
            measure=False,
        )

    def replace(self, **changes: Any) -> Settings:
        """Return a copy with some fields changed.

        Example:
            >>> Settings().replace(num_paths=7).num_paths
            7
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise SettingsError(f"There is no setting {name!r}.{did_you_mean(name, known)}")
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a plain dict."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Settings:
        """Return the settings that `to_dict` gave."""
        return cls().replace(**values)


def _as_tuples(name: str, value: Any) -> tuple[Any, ...]:
    """Make lists, as JSON has them, into tuples."""
    length = _TUPLES[name]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SettingsError(f"{name} must be a sequence, got {value!r}.")
    if length is None:
        if not all(isinstance(item, str) for item in value):
            raise SettingsError(f"{name} must hold names of relations, got {value!r}.")
        return tuple(value)
    for item in value:
        if isinstance(item, str) or not isinstance(item, Sequence) or not item:
            raise SettingsError(f"{name} must hold sequences, got {item!r} in it.")
        if length and len(item) != length:
            raise SettingsError(f"{name} must hold (node type, name or index), got {item!r}.")
    return tuple(tuple(item) for item in value)
