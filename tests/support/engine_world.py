"""What the tests of the engines share: a shop on disk, the rows it must come to, a deadly model."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import HeteroData

from pagelink import PaGELink, Settings
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.engine import FromFiles, Ray, explain_table
from pagelink.engine.tasks import plan
from pagelink.models.architectures import RGCN
from pagelink.tables.load import load_graph, save_graph
from pagelink.views.rows import to_rows, to_table

LINK_TYPE = ("user", "likes", "item")
SETTINGS = Settings()
NUM_LINKS = 60
CHUNK = 4


def make_shop(folder: Path) -> Path:
    """Make a folder with a graph, a model and a table of links."""
    from rich.console import Console

    from pagelink.models.commands import train_and_save

    dataset = generate_useritemattr()
    data = dataset.data
    data["user", "likes", "item"].edge_index = dataset.likes
    save_graph(data, folder / "graph")
    train_and_save(
        folder / "graph", LINK_TYPE, folder / "model.pt", model="rgcn", seed=0,
        console=Console(quiet=True), options={"hidden": 8}, settings={"epochs": 1},
    )  # fmt: skip
    links = dataset.likes.T[torch.randperm(200, generator=torch.manual_seed(0))[:NUM_LINKS]]
    rows = [("src", "dst"), *((f"User {u}", f"Item {i}") for u, i in links.tolist())]
    rows[7] = ("Nobody", "Item 3")
    with (folder / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder


def opening(shop: Path, **changed: Any) -> FromFiles:
    """Return the graph and the model of the shop."""
    return FromFiles(shop / "graph", shop / "model.pt", SETTINGS, threshold=None, **changed)


def expected_rows(shop: Path) -> list[dict[str, Any]]:
    """Return the rows as this process explains them, chunk by chunk, without any engine."""
    explainer = opening(shop).open()
    rows = [
        row
        for task in plan(shop / "pairs.csv", CHUNK)
        for link, explanation in zip(
            task.links, explainer.explain_many([r.link for r in task.links]), strict=True
        )
        for row in to_rows(explanation, link.line)
    ]
    return plain(to_table(sorted(rows, key=lambda row: (row["line"], row["path"] or 0))))


def plain(table: Any) -> list[dict[str, Any]]:
    """Return rows without what differs from run to run."""
    rows: list[dict[str, Any]] = table.drop(["seconds"]).to_pylist()
    return rows


def command(shop: Path, out: Path, *more: str) -> list[str]:
    """Return the command that explains the links of the shop into a folder."""
    return [
        sys.executable, "-m", "pagelink", "explain", str(shop / "graph"), "--model",
        str(shop / "model.pt"), "--links", str(shop / "pairs.csv"), "--out", str(out),
        "--rank-only", "--chunk", str(CHUNK), *more,
    ]  # fmt: skip


def parts_of(out: Path) -> int:
    """Return how many parts there are."""
    return len(list(out.glob("part-*.parquet")))


def wait_until(is_so: Callable[[], bool], seconds: float = 180) -> None:
    """Wait until something is so, and fail if it does not become so."""
    limit = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.1)


def workers_of(driver: int) -> list[int]:
    """Return the worker processes of a driver."""
    found = subprocess.run(
        ["ps", "-eww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    lines = [line.split(None, 2) for line in found.stdout.splitlines()]
    return [
        int(pid)
        for pid, parent, words in lines
        if int(parent) == driver and "pagelink.engine.processes" in words
    ]


def is_alive(pid: int) -> bool:
    """Return whether a process is there, and is not merely waited for."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@dataclass(frozen=True)
class Slow(FromFiles):
    """Takes its time for every chunk, so that there is time to do harm."""

    def check_unchanged(self) -> None:
        time.sleep(0.4)


def slow_job(shop: Path, out: Path, address: str) -> None:
    """Explain the links of the shop on a Ray cluster, slowly."""
    files = Slow(shop / "graph", shop / "model.pt", SETTINGS, threshold=None)
    explain_table(files, shop / "pairs.csv", out, Ray(address), chunk=CHUNK)


class DeadlyRGCN(RGCN):
    """A model that ends the process when it is asked about one item."""

    deadly: int = -1

    def forward(self, x_dict: Any, edge_index_dict: Any, edge_label_index: Any) -> Any:
        items = x_dict["item"]
        asked = items[edge_label_index[1]]
        if self.deadly >= 0 and bool((asked == self.deadly).any()):
            os._exit(7)
        return super().forward(x_dict, edge_index_dict, edge_label_index)


def shop_explainer(shop: Path) -> tuple[PaGELink, HeteroData]:
    """Return an explainer of a model that can be made deadly."""
    data = load_graph(shop / "graph")
    model = DeadlyRGCN.for_data(data, LINK_TYPE)
    return PaGELink(model, data, LINK_TYPE, SETTINGS, threshold=None), data
