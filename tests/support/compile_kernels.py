"""Compile the kernels and keep them on disk, by using every part of the package that has some.

Run as a script before workers start, so that they and all processes that tests start load machine
code instead of each compiling it again (about 40 CPU seconds). The script prints the modules whose
kernels it used.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pagelink

PACKAGE = Path(pagelink.__file__).parent


def with_kernels() -> Iterator[Path]:
    """The modules that have kernels."""
    for module in PACKAGE.rglob("*.py"):
        source = module.read_text("utf-8")
        if "\n@kernel\n" in source or "\n@njit" in source:
            yield module


def all_on_disk() -> bool:
    """Return whether every module with kernels has some on disk that are newer than the module."""
    for module in with_kernels():
        kept = [
            f.stat().st_mtime for f in (module.parent / "__pycache__").glob(f"{module.stem}.*.nbi")
        ]
        if max(kept, default=0.0) < module.stat().st_mtime:
            return False
    return True


def used() -> set[Path]:
    """The modules of which this process has a kernel in machine code, compiled or from disk."""
    from numba.core.dispatcher import Dispatcher

    found = set()
    for module in list(sys.modules.values()):
        if (getattr(module, "__name__", None) or "").startswith("pagelink."):
            values = [one for one in vars(module).values() if isinstance(one, Dispatcher)]
            found |= {Path(one.py_func.__code__.co_filename) for one in values if one.overloads}
    return found


def compile_all(folder: Path) -> None:
    """Explain links of a small graph, in memory and as a store, and train on batches.

    Also train models for all relations, and follow distances of embeddings by the norm 1.
    """
    import torch

    from pagelink import PaGELink
    from pagelink.bench.prebuild import train_for_all_relations
    from pagelink.datasets.ground_truth import find_labelled_pairs
    from pagelink.datasets.useritemattr import generate_useritemattr
    from pagelink.graph.typed_graph import TypedGraph
    from pagelink.models import TrainSettings, make_model, split_links, train
    from pagelink.store.writer import save_store
    from pagelink.tables.load import build_store, save_graph
    from pagelink.trained.embeddings import EmbeddingModel
    from pagelink.trained.pair_scores import pair_scores, pulled

    torch.set_num_threads(1)
    dataset = generate_useritemattr()
    data, link_type = dataset.data, dataset.link_type
    tables = save_graph(data, folder / "tables")
    (folder / "triples.csv").write_text("head,relation,tail\na,r,b\nb,r,c\n")
    build_store(folder / "triples.csv", folder / "triples")
    stores = build_store(tables, folder / "built"), save_store(data, folder / "store")
    model = make_model("rgcn", data, link_type, hidden=4)
    split = split_links(dataset.likes)
    train(model, data, link_type, split, TrainSettings(epochs=1, batch_size=64, fanout=(2, 2)))
    find_labelled_pairs(TypedGraph.from_data(data), "user", "item")
    links = [(i, i + 1) for i in range(12)]
    for graph in (data, *stores):
        model = make_model("sage", data, link_type, hidden=4, paper_split=True).eval()
        list(PaGELink(model, graph, link_type, threshold=None).explain_many(links, rank=True))
    train_for_all_relations(folder)
    vectors = torch.zeros(1, 2, 4)
    distances = EmbeddingModel("translation", vectors[0], vectors[0, :1], norm=1)
    pulled(
        distances, vectors, vectors, torch.zeros(1, 2, 2), pair_scores(distances, vectors, vectors)
    )


def compile_in_a_process() -> set[Path]:
    """Compile them in a process of its own; return the modules whose kernels it used."""
    done = subprocess.run([sys.executable, "-P", __file__], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"The kernels cannot be compiled:\n{done.stderr}")
    return {Path(line) for line in done.stdout.splitlines()}


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        compile_all(Path(folder))
    print(*sorted(used()), sep="\n")
