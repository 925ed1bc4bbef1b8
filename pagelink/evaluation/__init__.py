"""Evaluation: metrics as pure functions, and the benchmark runs that use them."""

from pagelink.evaluation.metrics import (
    bootstrap_interval,
    degree_only_mask,
    labelled_in_first,
    mask_auc,
    mean_and_spread,
    path_hit,
    share_of_greedy,
)

__all__ = [
    "bootstrap_interval",
    "degree_only_mask",
    "labelled_in_first",
    "mask_auc",
    "mean_and_spread",
    "path_hit",
    "share_of_greedy",
]
