"""Evaluation: metrics as pure functions, and the benchmark runs that use them."""

from pagelink.evaluation.averages import bootstrap_interval, mean_and_spread
from pagelink.evaluation.mask_metrics import degree_only_mask, mask_auc
from pagelink.evaluation.path_hits import path_hit
from pagelink.evaluation.path_metrics import labelled_in_first
from pagelink.evaluation.worth_metrics import share_of_greedy

__all__ = [
    "bootstrap_interval",
    "degree_only_mask",
    "labelled_in_first",
    "mask_auc",
    "mean_and_spread",
    "path_hit",
    "share_of_greedy",
]
