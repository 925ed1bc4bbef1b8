"""Explanations as rows of a table: one per path, and one for each link without paths."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from pagelink.explanation import Explanation
from pagelink.views.wording import wording

SCHEMA = pa.schema([
    ("line", pa.int64()), ("src_type", pa.string()), ("src", pa.string()),
    ("src_index", pa.int64()), ("relation", pa.string()), ("dst_type", pa.string()),
    ("dst", pa.string()), ("dst_index", pa.int64()), ("probability", pa.float64()),
    ("logit", pa.float64()), ("reason", pa.string()), ("message", pa.string()),
    ("path", pa.int64()), ("score", pa.float64()), ("length", pa.int64()), ("text", pa.string()),
    ("node_types", pa.list_(pa.string())), ("node_indices", pa.list_(pa.int64())),
    ("node_names", pa.list_(pa.string())), ("relations", pa.list_(pa.string())),
    ("edge_indices", pa.list_(pa.int64())), ("masks", pa.list_(pa.float64())),
    ("attributes", pa.list_(pa.string())), ("notes", pa.string()), ("seed", pa.int64()),
    ("seconds", pa.float64()),
])  # fmt: skip
"""`line` is the line of the link in its table, `path` the rank from 1 on (null without paths),
`attributes` a JSON object per fact of the path."""


def to_rows(explanation: Explanation, line: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of an explanation, with the columns of `SCHEMA`."""
    common = {
        "line": line,
        "src_type": explanation.src[0],
        "src": explanation.src_name,
        "src_index": explanation.src[1],
        "relation": explanation.link_type[1],
        "dst_type": explanation.dst[0],
        "dst": explanation.dst_name,
        "dst_index": explanation.dst[1],
        "probability": explanation.probability,
        "logit": explanation.logit,
        "reason": explanation.reason,
        "message": explanation.message or None,
        "notes": " ".join(explanation.notes) or None,
        "seed": explanation.seed,
        "seconds": explanation.seconds,
    }
    empty = {name: None for name in SCHEMA.names if name not in common}
    if not explanation.paths:
        return [{**common, **empty}]
    said = wording(explanation)
    return [
        {
            **common,
            "path": words.rank,
            "score": path.score,
            "length": len(path),
            "text": "; ".join(str(step.fact) for step in words.steps),
            "node_types": [node_type for node_type, _ in path.nodes],
            "node_indices": [index for _, index in path.nodes],
            "node_names": list(path.names),
            "relations": [edge.type[1] for edge in path.edges],
            "edge_indices": [edge.index for edge in path.edges],
            "masks": [edge.mask for edge in path.edges],
            "attributes": [
                json.dumps(dict(edge.attributes), default=str, ensure_ascii=False)
                for edge in path.edges
            ],
        }
        for path, words in zip(explanation.paths, said.paths, strict=True)
    ]


def to_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a pyarrow table."""
    return pa.Table.from_pylist(rows, schema=SCHEMA)
