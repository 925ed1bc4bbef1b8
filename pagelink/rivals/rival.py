"""Rival: another explainer with the face of PaGELink.

A rival says what its mask is, and, if it is not by the same search on that mask, which paths it
returns. Everything else is PaGELink's: links read and batched, the reasons, the explanations. Where
`Settings.measure` is on, what its paths are worth is measured, and never used to choose them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from torch import nn
from torch_geometric.data import Data, HeteroData

from pagelink.errors import SettingsError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.pipeline import best_by_mask
from pagelink.explain.result import Explanation
from pagelink.graph.schema import EdgeType
from pagelink.measure.candidates import CandidateFinder
from pagelink.measure.evidence import measure_beyond, measure_chosen, measured_so_far
from pagelink.measure.selection import all_members, select_all
from pagelink.measure.trials import Trials
from pagelink.runtime.arrays import Floats, Longs
from pagelink.runtime.timer import OutOfTimeError
from pagelink.search.mask_learning import LearnedMasks
from pagelink.search.paths import FoundPaths
from pagelink.search.work import LEARNING, MEASURING, Scored, Work, prune_links
from pagelink.settings import Settings

LOWEST = -20.0
"""Mask logit of edges that are worth nothing: a mask of 2e-9. None is lower."""


@dataclass(frozen=True)
class Options:
    """Options of a rival beyond `Settings`; numbers from 0 up."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            # A count must be whole and at least 1; weights and rates may be anything from 0 up.
            whole = field.type == "int"
            right = isinstance(value, int if whole else int | float) and value >= whole
            if not right or isinstance(value, bool) or not np.isfinite(value):
                words = "a whole number from 1 up" if whole else "a number from 0 up"
                raise SettingsError(f"{field.name} must be {words}, got {value!r}.")


class Rival(PaGELink, ABC):
    """An explainer that PaGELink is compared with.

    Args:
        model: as for `PaGELink`, and so are the others.
        data: the graph.
        link_type: the predicted relation.
        settings: which paths may be returned, and the rest where it has a meaning here.
        seed: where random numbers come from.
        options: what is this rival's own. None: its defaults.
        arguments: further ones of `PaGELink`.
    """

    name: ClassVar[str]
    options_type: ClassVar[type[Options]] = Options

    def __init__(
        self,
        model: nn.Module,
        data: HeteroData | Data,
        link_type: EdgeType | str | Sequence[EdgeType],
        settings: Settings | None = None,
        seed: int = 0,
        *,
        options: Options | None = None,
        **arguments: Any,
    ) -> None:
        options = self.options_type() if options is None else options
        if not isinstance(options, self.options_type):
            raise SettingsError(
                f"The options of {self.name} must be {self.options_type.__name__}, "
                f"got {type(options).__name__}."
            )
        self.options: Any = options
        super().__init__(model, data, link_type, settings, seed, **arguments)
        self._given["options"] = options

    def _adopt(self, settings: Settings, seed: int) -> None:
        super()._adopt(self.own_settings(settings, self.options), seed)

    @classmethod
    def own_settings(cls, settings: Settings, options: Any) -> Settings:
        """The settings that it really works under; the explanations carry them."""
        return settings

    def _longer(self) -> None:
        """A rival's paths are never longer than they may be."""

    def _warnings(self) -> list[str]:
        told = ", ".join(f"{f.name}={getattr(self.options, f.name)}" for f in fields(self.options))
        return [f"Explained by {self.name}{f' ({told})' if told else ''}.", *super()._warnings()]

    @abstractmethod
    def masks(self, work: Work) -> LearnedMasks:
        """The mask of each link of a batch; `RivalMasks`, if its paths are not by the mask."""

    def _method(self, scored: Scored, seed: int) -> list[Explanation]:
        """The rival's own mask and paths, all of them measured as they come."""
        work, batch, timer = prune_links(scored, seed), scored.batch, scored.timer
        try:
            masks = self.masks(work)
        except OutOfTimeError:  # then no edge has more weight than another
            timer.stop(LEARNING)
            masks = made_masks(work, np.zeros(len(batch.edges), dtype=np.float32))
        found = masks.found if isinstance(masks, RivalMasks) else None
        if found is None:
            found = best_by_mask(work, masks)
        measured = None
        if work.is_measured():
            finder = CandidateFinder(self.graph, batch, work.paths, work.links, masks.edge_logits)
            try:
                trials = Trials.of(work, finder.taken(found))
                so_far = all_members(trials.candidates)[work.links]
                measured = measured_so_far(trials, so_far)
                chosen = select_all(trials)
                measured = measure_chosen(trials, chosen)
                measured = measure_beyond(trials, chosen, measured)
            except OutOfTimeError:
                timer.stop(MEASURING)
        return self.builder.build(work, masks, found, measured)


@dataclass(frozen=True)
class RivalMasks(LearnedMasks):
    """Masks of a batch, with the paths that go with them."""

    found: FoundPaths | None = None
    """The paths of the links to explain, at least one for each; None: the best by the mask."""


def link_rng(work: Work, link: int) -> np.random.Generator:
    """Random numbers of one link: its seed and its ends decide them, not the batch it is in."""
    ends = int(work.batch.link_src[link]), int(work.batch.link_dst[link])
    return np.random.default_rng((work.seed, *ends))


def made_masks(
    work: Work,
    edge_logits: Floats,
    found: FoundPaths | None = None,
    *,
    epochs: Longs | None = None,
) -> RivalMasks:
    """Masks of a batch from the mask logits of all of its edges; pruned ones have none."""
    num_links = work.batch.num_links
    logits = np.clip(np.nan_to_num(edge_logits, nan=LOWEST), LOWEST, -LOWEST)
    return RivalMasks(
        edge_logits=np.where(work.kept, logits, -np.inf).astype(np.float32),
        epochs=np.zeros(num_links, dtype=np.int64) if epochs is None else epochs,
        found=found,
    )
