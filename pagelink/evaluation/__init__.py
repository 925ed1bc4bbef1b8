"""Evaluation: metrics as pure functions, and the benchmark runs that use them."""

from pagelink.evaluation.averages import (
    Average,
    average,
    bootstrap_interval,
    filled,
    mean_and_spread,
)
from pagelink.evaluation.coverage import Coverage, coverage_of
from pagelink.evaluation.mask_metrics import degree_only_mask, mask_auc, mask_auc_unpruned
from pagelink.evaluation.path_hits import path_hit
from pagelink.evaluation.path_metrics import (
    LabelledRates,
    labelled_in_first,
    labelled_rates,
    path_precision,
    path_recall,
)
from pagelink.evaluation.path_sets import (
    diversity,
    jaccard,
    mean_length,
    mean_log_degree,
    sparsity,
    stability,
)
from pagelink.evaluation.rank_metrics import falls_out, rank_drop, reciprocal_rank_drop
from pagelink.evaluation.worth_metrics import (
    characterisation,
    connection,
    effect,
    fidelity,
    pooled_sufficiency,
    share_of_greedy,
    sufficiency,
)

__all__ = [
    "Average",
    "Coverage",
    "LabelledRates",
    "average",
    "bootstrap_interval",
    "characterisation",
    "connection",
    "coverage_of",
    "degree_only_mask",
    "diversity",
    "effect",
    "falls_out",
    "fidelity",
    "filled",
    "jaccard",
    "labelled_in_first",
    "labelled_rates",
    "mask_auc",
    "mask_auc_unpruned",
    "mean_and_spread",
    "mean_length",
    "mean_log_degree",
    "path_hit",
    "path_precision",
    "path_recall",
    "pooled_sufficiency",
    "rank_drop",
    "reciprocal_rank_drop",
    "share_of_greedy",
    "sparsity",
    "stability",
    "sufficiency",
]
