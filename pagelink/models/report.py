"""TrainReport: how a training went, ready to be printed and to be stored."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from pagelink.models.figures import Separation, TestFigures


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to."""

    number: int
    """From 1 up."""
    loss: float
    """Mean cross-entropy of the training links and as many negatives, over the epoch's steps."""
    valid_auc: float
    """ROC-AUC on the validation links, after the epoch."""


@dataclass(frozen=True)
class TrainReport:
    """How a training went. The model holds the weights of the best epoch."""

    best_epoch: int
    valid_auc: float
    test: TestFigures
    history: tuple[Epoch, ...] = field(repr=False)
    seed: int
    seconds: float = field(compare=False)
    """CPU seconds, testing included."""

    @property
    def test_auc(self) -> float:
        """ROC-AUC on the test links and ordinary negatives."""
        return self.test.model.auc

    @property
    def test_ap(self) -> float:
        """Average precision on the test links and ordinary negatives."""
        return self.test.model.ap

    @property
    def uses_structure(self) -> bool:
        """The model beats the product of degrees and itself without edges."""
        return self.test.uses_structure

    def __str__(self) -> str:
        return (
            f"Trained for {len(self.history)} epochs in {self.seconds:.1f} CPU seconds, best in "
            f"epoch {self.best_epoch} with validation ROC-AUC {self.valid_auc:.3f}.\n"
            f"{self.test.verdict}\n"
            f"Average precision {self.test_ap:.3f}. {self.test.ranking}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> TrainReport:
        """Return the report that `to_dict` was called on."""
        test = dict(plain["test"])
        for name in ("model", "degree_product", "edgeless", "retrained_edgeless"):
            test[name] = test[name] and Separation(**test[name])
        history = tuple(Epoch(**epoch) for epoch in plain["history"])
        return cls(**{**plain, "test": TestFigures(**test), "history": history})
