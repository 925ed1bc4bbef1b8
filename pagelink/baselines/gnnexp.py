"""GNNExp-Link: GNNExplainer's objective on heterogeneous edge masks, for links.

Every edge of the unpruned computation graph has a mask value of its own. Learned are
-log sigmoid(f) on the weighted graph, plus the sum of the mask times `size`, plus its mean entropy
times `entropy`. Nothing in that asks for paths; the mask is the explanation, and paths are searched
on it afterwards, as for all rivals.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagelink.baselines.rival import Options, Rival
from pagelink.explainer import PaGELink
from pagelink.learning import LearnedMasks
from pagelink.measuring import Work
from pagelink.settings import Settings


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
        return PaGELink._learn(self, work)
