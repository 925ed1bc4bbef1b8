"""The paper's method, and Power-Link's, each as it ranks paths by itself: by its learned mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagelink.rivals.rival import Options, Rival
from pagelink.search.mask_learning import LearnedMasks, learn_masks
from pagelink.search.work import Work
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
        return learn_masks(work)


class PowerLink(Paper):
    """Mask learning with the path loss of Power-Link: powers of the adjacency, no search."""

    name = "power"

    @classmethod
    def own_settings(cls, settings: Settings, options: Any) -> Settings:
        """The settings as asked for, but for the path loss."""
        return settings.replace(path_loss="power")


# GNNExp-Link: GNNExplainer's objective on heterogeneous edge masks, for links.
#
# Every edge of the unpruned computation graph has a mask value of its own. Learned are -log
# sigmoid(f) on the weighted graph, plus the sum of the mask times `size`, plus its mean entropy
# times `entropy`. Nothing in that asks for paths; the mask is the explanation, and paths are
# searched on it afterwards, as for all rivals.


@dataclass(frozen=True)
class GNNExpOptions(Options):
    """How masks are learned."""

    epochs: int = 100
    learning_rate: float = 0.01
    size: float = 1e-6
    """Weight of the sum of the mask."""
    entropy: float = 0.1
    """Weight of the mean entropy of the mask."""


class GNNExpLink(Rival):
    """GNNExplainer for links; see `Rival` for the arguments."""

    name = "gnnexp"
    options_type = GNNExpOptions

    @classmethod
    def own_settings(cls, settings: Settings, options: GNNExpOptions) -> Settings:
        """Nothing is pruned, and no path counts while learning."""
        return settings.replace(
            core=0, hub_degree=None, remove_pruned=False, alpha=0.0, beta=0.0, pred_weight=1.0,
            path_loss="mean", patience=None, epochs=options.epochs, size=options.size,
            learning_rate=options.learning_rate, entropy=options.entropy,
        )  # fmt: skip

    def masks(self, work: Work) -> LearnedMasks:
        """Learn a mask for each link."""
        return learn_masks(work)
