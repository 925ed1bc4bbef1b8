"""A small knowledge graph as files of triples, with links held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np

NUM = 30


def write_graph(folder: Path, num: int = NUM) -> Path:
    """People in a ring who know the next one; a city for each three; cities in two countries."""
    rows = [f"p{i}\tknows\tp{(i + 1) % num}" for i in range(num)]
    rows += [f"p{i}\tlives in\tc{i // 3}" for i in range(num)]
    rows += [f"c{i}\tlies in\tl{i % 2}" for i in range(num // 3)]
    rows += [f"p{i}\tis from\tl{i // 3 % 2}" for i in range(num)]
    random = np.random.default_rng(0).permutation(len(rows))
    parts = {"train": random[10:], "valid": random[5:10], "test": random[:5]}
    for name, chosen in parts.items():
        (folder / f"{name}.txt").write_text("".join(f"{rows[i]}\n" for i in chosen))
    return folder / "train.txt"
