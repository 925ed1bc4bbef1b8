"""How to train: one frozen dataclass, stored with every checkpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pagelink.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of a training. The defaults are meant for any graph.

    Example:
        >>> TrainSettings(epochs=5).paper_split
        False
        >>> TrainSettings.paper().paper_split
        True
    """

    paper_split: bool = False
    """Leave the predicted relation and its reverse out of message passing, as the paper does."""
    epochs: int = 100
    """Epochs at most, 1 or more. In each, every training link is asked for once."""
    patience: int = 10
    """Epochs without a rise of the validation AUC after which to stop, 1 or more."""
    lr: float = 0.01
    """Step size of Adam."""
    weight_decay: float = 0.0
    """Weight decay of Adam, 0 or more."""
    folds: int = 5
    """Full-graph training: steps an epoch. A step asks for one fold of the training links, the
    others pass messages; so at least 2, unless `paper_split` keeps all of them out anyway."""
    matched_negatives: float = 0.0
    """Share of the training negatives that are degree-matched, 0..1; the others are uniform."""
    batch_size: int | None = None
    """Links a step in mini-batch training, on sampled neighbourhoods. None: full-graph training."""
    fanout: tuple[int, ...] = (10, 5)
    """Mini-batch training: in-edges taken per node and relation, hop by hop; one per layer."""
    max_candidates: int = 1000
    """Targets that a test link's target is ranked among; all, if there are no more than these."""
    retrain_edgeless: bool = False
    """Also train the model anew without any edges, as a third rival."""

    def __post_init__(self) -> None:
        for name in ("epochs", "patience", "max_candidates"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.batch_size is not None and self.batch_size < 1:
            raise SettingsError(f"batch_size must be at least 1 or None, got {self.batch_size}.")
        if self.folds < (1 if self.paper_split else 2):
            raise SettingsError(
                f"folds must be at least 2, got {self.folds}: with one fold all training links "
                "would be held out of every step's messages."
            )
        if not (0 <= self.lr < math.inf and 0 <= self.weight_decay < math.inf):
            raise SettingsError(
                f"lr and weight_decay must be numbers from 0 up, got {self.lr} and "
                f"{self.weight_decay}."
            )
        if not 0 <= self.matched_negatives <= 1:
            raise SettingsError(f"matched_negatives must be in 0..1, got {self.matched_negatives}.")
        if not self.fanout or min(self.fanout) < 1:
            raise SettingsError(f"fanout must be numbers from 1 up, got {self.fanout}.")

    @classmethod
    def paper(cls, epochs: int = 100) -> TrainSettings:
        """Return the settings of the released code: one step an epoch on all training links.

        Differs from the paper: training stops after 30 epochs without a rise.
        """
        return cls(paper_split=True, epochs=epochs, patience=30, folds=1)
