"""The paper's method, and Power-Link's, each as it ranks paths by itself: by its learned mask."""

from __future__ import annotations

from typing import Any

from pagelink.baselines.rival import Rival
from pagelink.explainer import PaGELink
from pagelink.learning import LearnedMasks
from pagelink.measuring import Work
from pagelink.settings import Settings

RELEASED = Settings.paper("useritemattr")
_LEARNING = (
    "core", "hub_degree", "remove_pruned", "epochs", "learning_rate", "alpha", "beta",
    "pred_weight", "path_loss", "paths_per_epoch", "path_schedule", "patience", "entropy", "size",
    "start",
)  # fmt: skip


class Paper(Rival):
    """PaGE-Link with the released settings of pruning and learning, paths by its Score."""

    name = "paper"

    @classmethod
    def own_settings(cls, settings: Settings, options: Any) -> Settings:
        """How many paths, how long, and what they are held to is as asked for."""
        return settings.replace(**{name: getattr(RELEASED, name) for name in _LEARNING})

    def masks(self, work: Work) -> LearnedMasks:
        """Learn a mask for each link."""
        return PaGELink._learn(self, work)


class PowerLink(Paper):
    """Mask learning with the path loss of Power-Link: powers of the adjacency, no search."""

    name = "power"

    @classmethod
    def own_settings(cls, settings: Settings, options: Any) -> Settings:
        """The settings as asked for, but for the path loss."""
        return settings.replace(path_loss="power")
