"""Compile the kernels and keep them on disk, by using every part of the package that has some.

Run as a script before workers start, so that they and all processes that tests start load machine
code instead of each compiling it again (about 40 CPU seconds).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pagelink

PACKAGE = Path(pagelink.__file__).parent


def all_on_disk() -> bool:
    """Return whether every module with kernels has some on disk that are newer than the module."""
    for module in PACKAGE.rglob("*.py"):
        source = module.read_text("utf-8")
        if "\n@kernel\n" not in source and "\n@njit" not in source:
            continue
        kept = [
            f.stat().st_mtime for f in (module.parent / "__pycache__").glob(f"{module.stem}.*.nbi")
        ]
        if max(kept, default=0.0) < module.stat().st_mtime:
            return False
    return True


def compile_all(folder: Path) -> None:
    """Explain links of a small graph, in memory and as a store, and train on batches."""
    import torch

    from pagelink import PaGELink
    from pagelink.datasets.ground_truth import find_labelled_pairs
    from pagelink.datasets.useritemattr import generate_useritemattr
    from pagelink.graph.typed_graph import TypedGraph
    from pagelink.models import TrainSettings, make_model, split_links, train
    from pagelink.store.writer import save_store
    from pagelink.tables.load import build_store, save_graph

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


def compile_in_a_process() -> None:
    """Compile them in a process of its own, unless they are on disk."""
    if not all_on_disk():
        done = subprocess.run([sys.executable, "-P", __file__], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"The kernels cannot be compiled:\n{done.stderr}")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        compile_all(Path(folder))
