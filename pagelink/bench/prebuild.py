"""`make kernels`: writes the kernels that come with pagelink, see `runtime/prebuilt.py`.

Which ones, and for which types of arguments, is found by doing what users do first: load tables,
make a store, explain links of a graph in memory and of a store, ask for counterfactuals and ranks,
train a model for all relations of a file of triples and explain one of its links. What is
not met here is compiled when it is first needed.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.console import Console

from pagelink.bench.runs import measured
from pagelink.bench.speed.graphs import LIKES, HeteroSAGE, random_graph
from pagelink.datasets.books import generate_books
from pagelink.explain.explainer import PaGELink
from pagelink.models.architectures import make_model
from pagelink.models.knowledge.checkpoint import open_predictor
from pagelink.models.knowledge.commands import train_all_and_save
from pagelink.models.knowledge.encoders import LAYERS
from pagelink.runtime import prebuilt
from pagelink.runtime.kernels import KERNELS
from pagelink.settings import Settings
from pagelink.tables.load import build_store, load_graph, save_graph

VARIANTS = (Settings(), Settings.paper("useritemattr"), Settings(max_length=4, hub_degree=50))
NUM_LINKS = 3


def rehearse() -> None:
    """Do once, on a small graph, what users do."""
    books = generate_books(num_readers=40)
    link_type, links = books.link_type, list(books.labels)[:NUM_LINKS]
    with TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tables = Path(folder) / "tables"
        save_graph(books.data, tables)
        data, store = load_graph(tables), build_store(tables, Path(folder) / "store")
        model = make_model("sage", data, link_type, hidden=16).eval()
        for graph in (data, store):
            for settings in VARIANTS:
                explainer = PaGELink(model, graph, link_type, settings, threshold=None)
                list(explainer.explain_many(links))
        explainer = PaGELink(model, data, link_type, threshold=None)
        explainer.explain(*links[0], rank=True)
        explainer.counterfactual(*links[0], top_k=5, at="paths")
        train_for_all_relations(Path(folder))
    # A dense graph, in which facts on no path count too.
    dense = random_graph(nodes=400, edges=3_000, num_features=16, links=NUM_LINKS, seed=3)
    explainer = PaGELink(HeteroSAGE(dense.data, 16, 0), dense.data, LIKES, threshold=None)
    list(explainer.explain_many(dense.links))


def train_for_all_relations(folder: Path) -> None:
    """Train models for all relations of a small file of triples, and explain a link with each."""
    triples = folder / "triples.txt"
    rows = [
        f"r{i % 12}\t{name}\tb{i % 7}\n"
        for i in range(84)
        for name in ("read", "owns")[: 1 + i % 2]
    ]
    triples.write_text("".join(rows), encoding="utf-8")
    for layer in LAYERS:
        file = folder / f"{layer}.pt"
        train_all_and_save(
            triples, (), file, model=layer, seed=0, console=Console(quiet=True),
            options={}, settings={"epochs": 1},
        )  # fmt: skip
        stored = open_predictor(file, triples, link="read")
        PaGELink(stored.model, stored.data, stored.link_type, threshold=None).explain(0, 12)


def write() -> int:
    """Rehearse, and write what was compiled; return the number of kernels."""
    rehearse()
    return len(prebuilt.write(prebuilt.ARCHIVE, KERNELS))


def missing() -> list[str]:
    """The kernels of a rehearsal that are not in the archive, by name."""
    rehearse()
    needed = {prebuilt.name_of(each, sig) for each in KERNELS for sig in each.overloads}
    return sorted(needed - prebuilt.names())


def main() -> None:
    """Write the archive in a process in which every kernel is compiled from its source."""
    with TemporaryDirectory() as folder:
        os.environ.update({"NUMBA_CACHE_DIR": folder, prebuilt.SWITCH: "0"})
        count = measured(write)
    print(f"Wrote {count} kernels to {prebuilt.ARCHIVE}")
