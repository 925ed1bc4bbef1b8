"""Counterfactual: the fewest facts without which the model would have decided otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pagelink.explain.edge_mask import EdgeType
from pagelink.explain.result import plain, sigmoid

Node = tuple[str, int]
At = Literal["source", "paths"]
"""Where facts are removed: at the source of the link, or on paths to its target."""
PLACES: tuple[str, ...] = get_args(At)
WhyNone = Literal["already_negative", "not_in_top_k", "no_facts", "none_found", "out_of_time"]


@dataclass(frozen=True)
class RemovedFact:
    """A fact of the graph, by one of its stored edges."""

    type: EdgeType
    """The stored edge type."""
    index: int
    """Its column in `data[type].edge_index` (in `data.edge_index` of a homogeneous graph)."""
    src: Node
    dst: Node
    src_name: str
    dst_name: str
    label: str
    """The relation in words."""
    label_backwards: bool
    """The words read from `dst` to `src`."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of the fact: its source, its date, and the like."""

    def __str__(self) -> str:
        ends = (self.src_name, self.dst_name)
        subject, thing = ends[::-1] if self.label_backwards else ends
        return f"{subject} {self.label} {thing}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings."""
        values: dict[str, Any] = plain(self)
        return values


@dataclass(frozen=True)
class Counterfactual:
    """Which facts would have to be missing for the model to decide otherwise on a link.

    Everything was measured on graphs from which the facts were really removed. The link itself is
    not part of any of these graphs. Ranks are among the targets that the source is not linked to in
    the graph as it is, nor known to be linked to otherwise: one more than there are targets of a
    higher score.
    """

    link_type: EdgeType
    src: Node
    dst: Node
    src_name: str
    dst_name: str
    at: At
    top_k: int | None
    """The target has to drop out of the first `top_k`. None: the prediction has to turn."""
    threshold: float | None
    """Links with a lower logit are not predicted; None: the model only ranks."""
    budget: int
    """Facts that could be removed at most."""
    facts: tuple[RemovedFact, ...]
    """The facts to remove; if none was found, those that came nearest."""
    reason: WhyNone | None
    """Why there is no counterfactual; None if there is one."""
    logit: float | None
    """None, as all that follows: the deadline was over before it was measured."""
    logit_without: float | None
    """The logit without the facts."""
    logit_without_all: float | None
    """The logit without any of the facts that could be removed; None if there are none."""
    rank: int | None
    rank_without: int | None
    """The rank without the facts."""
    rank_of: int
    """How many targets were ranked."""
    instead: str | None
    """What takes the target's place: the best of those that come up into the first `top_k` (or the
    places down to the rank that the target had), and are predicted themselves; None if there is
    none."""
    instead_node: Node | None
    smallest: bool
    """All smaller sets of facts were measured, too (if none was found: all within the budget)."""
    num_facts: int
    """Facts that could be removed."""
    num_sets: int
    """Sets of facts that were measured."""
    out_of_time: bool = False
    """The deadline cut the search: where facts were found, fewer of them may do."""

    @property
    def found(self) -> bool:
        """Whether there is a counterfactual."""
        return self.reason is None

    @property
    def probability(self) -> float | None:
        """sigmoid(logit)."""
        return None if self.logit is None else sigmoid(self.logit)

    @property
    def probability_without(self) -> float | None:
        """sigmoid(logit_without)."""
        return None if self.logit_without is None else sigmoid(self.logit_without)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings, ready for JSON."""
        shown = ("found", "probability", "probability_without")
        return {
            **plain(self), **{name: getattr(self, name) for name in shown}, "text": str(self),
        }  # fmt: skip

    def __str__(self) -> str:
        from pagelink.views.pages import counterfactual_to_text

        return counterfactual_to_text(self)
