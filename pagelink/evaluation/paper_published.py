"""The figures that the PaGE-Link paper prints (WWW 2023, the tables of ROC-AUC and path hit rate).

Its AugCitation is made from an extract of AMiner that was not released; ours are made from other
citation graphs, so that only the order of magnitude can be compared there.
"""

from __future__ import annotations

from collections.abc import Mapping

PUBLISHED: dict[str, dict[str, Mapping[str, float]]] = {
    "UserItemAttr": {
        "PaGE-Link": {
            "auc": 0.954, "hit rate@10": 0.163, "hit rate@50": 0.705, "hit rate@100": 0.790,
            "hit rate@200": 0.907,
        },
        "GNNExp-Link": {
            "auc": 0.608, "hit rate@10": 0.000, "hit rate@50": 0.008, "hit rate@100": 0.016,
            "hit rate@200": 0.046,
        },
        "PGExp-Link": {
            "auc": 0.578, "hit rate@10": 0.000, "hit rate@50": 0.032, "hit rate@100": 0.039,
            "hit rate@200": 0.101,
        },
    },
    "AugCitation": {
        "PaGE-Link": {
            "auc": 0.928, "hit rate@10": 0.007, "hit rate@50": 0.194, "hit rate@100": 0.425,
            "hit rate@200": 0.645,
        },
        "GNNExp-Link": {
            "auc": 0.829, "hit rate@10": 0.000, "hit rate@50": 0.002, "hit rate@100": 0.019,
            "hit rate@200": 0.064,
        },
        "PGExp-Link": {
            "auc": 0.586, "hit rate@10": 0.000, "hit rate@50": 0.000, "hit rate@100": 0.000,
            "hit rate@200": 0.002,
        },
    },
}  # fmt: skip
"""By data set, explainer and figure."""


def published_rows(dataset: str | None) -> dict[str, Mapping[str, float]]:
    """The rows that the paper prints for a data set; none for one that it does not have.

    Example:
        >>> published_rows("UserItemAttr")["paper: PaGE-Link"]["auc"]
        0.954
        >>> published_rows(None)
        {}
    """
    return {f"paper: {name}": row for name, row in PUBLISHED.get(dataset or "", {}).items()}
