from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support.learnable import LIKES, graph, stored
from support.shell import shell
from torch_geometric.data import HeteroData

from pagelink import PaGELink, Settings
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.engine import FromFiles, Processes
from pagelink.errors import ModelError, StoreError
from pagelink.models import make_model
from pagelink.models.checkpoint import save_message_store
from pagelink.rivals.registry import make_rival
from pagelink.store.graph_store import GraphStore
from pagelink.store.writer import save_store

KINDS = ("rgcn", "sage", "hgt")


@pytest.fixture(scope="module")
def data() -> HeteroData:
    made = generate_useritemattr(seed=2).data
    made["item"].x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    return made


@pytest.fixture(scope="module")
def store(data: HeteroData, tmp_path_factory: pytest.TempPathFactory) -> GraphStore:
    return save_store(data, tmp_path_factory.mktemp("stores") / "store")


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_gives_the_explanations_of_the_graph_in_memory(
    data: HeteroData, store: GraphStore, kind: str
) -> None:
    model = make_model(kind, data, ("user", "likes", "item"), hidden=8, paper_split=True).eval()
    links = [(i, 2 * i + 1) for i in range(25)]
    arguments = (("user", "likes", "item"), Settings(), 3)
    in_memory = PaGELink(model, data, *arguments, threshold=None)
    opened = GraphStore.open(store.folder)
    from_disk = PaGELink(model, opened, *arguments, threshold=None)
    assert from_disk.receptive_field.num_hops == in_memory.receptive_field.num_hops
    wanted, found = (
        list(explainer.explain_many(links, rank=True, rank_sample=10))
        for explainer in (in_memory, from_disk)
    )
    assert [e.paths for e in found] == [e.paths for e in wanted]
    assert [e.reason for e in found] == [e.reason for e in wanted]
    assert [e.rank for e in found] == [e.rank for e in wanted]
    assert [e.logit for e in found] == pytest.approx([e.logit for e in wanted], abs=1e-5)
    assert str(found[0]) == str(wanted[0])
    assert "data" not in vars(opened)  # which would read all edges


def test_a_model_that_needs_all_nodes_says_so_before_it_starts(
    data: HeteroData, store: GraphStore
) -> None:
    class Whole(torch.nn.Module):
        """Uses its whole table of users, whichever it is asked about."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = make_model("rgcn", data, ("user", "likes", "item"), paper_split=True)
            self.table = torch.nn.Embedding(100, 8)

        def forward(self, x: object, edges: object, links: torch.Tensor) -> torch.Tensor:
            return self.inner(x, edges, links) + self.table.weight.std(dim=0)[links[0] % 8] * (
                x["user"].sum() if isinstance(x, dict) else 0
            )

    with pytest.raises(ModelError, match="needs all nodes"):
        PaGELink(Whole().eval(), store, ("user", "likes", "item"), threshold=None)


def test_an_explainer_on_a_store_is_sent_by_its_path(
    data: HeteroData, store: GraphStore, tmp_path: Path
) -> None:
    model = make_model("sage", data, ("user", "likes", "item"), hidden=8, paper_split=True).eval()
    explainer = PaGELink(model, store, ("user", "likes", "item"), threshold=None)
    sent = pickle.dumps(explainer)
    assert len(sent) < 100_000 < sum(f.stat().st_size for f in store.folder.iterdir())
    links = [(i, i + 1) for i in range(6)]
    wanted = [e.paths for e in explainer.explain_many(links)]
    assert [e.paths for e in pickle.loads(sent).explain_many(links)] == wanted
    by_workers = explainer.explain_many(links, engine=Processes(1))
    assert [e.paths for e in by_workers] == wanted


def test_a_rival_on_a_store_is_sent_with_what_is_its_own(
    data: HeteroData, store: GraphStore
) -> None:
    model = make_model("sage", data, ("user", "likes", "item"), hidden=8, paper_split=True).eval()
    rival = make_rival(
        "pgexp", model, store, ("user", "likes", "item"), threshold=None,
        options={"epochs": 2}, train_links=[(0, 1), (2, 3), (4, 5)],
    )  # fmt: skip
    copy = pickle.loads(pickle.dumps(rival))
    assert copy.options == rival.options
    wanted = [e.paths for e in rival.explain_many([(6, 7), (8, 9)])]
    assert [e.paths for e in copy.explain_many([(6, 7), (8, 9)])] == wanted


def test_a_store_that_was_changed_is_not_the_one_of_the_job(tmp_path: Path) -> None:
    """Through the command line: the store is what the model sees, and workers open it."""
    saved = stored(tmp_path / "model.pt")
    seen = save_message_store(
        save_store(graph(), tmp_path / "whole"), tmp_path / "model.pt", tmp_path / "store"
    )
    pairs = [f"id:{src},id:{dst}" for src, dst in saved.split.test.t().tolist()]
    (tmp_path / "pairs.csv").write_text("\n".join(["src,dst", *pairs]))
    command = (
        "explain", "store", "--model", "model.pt", "--links", "pairs.csv", "--rank-only",
        "--workers", "1", "--out", "out",
    )  # fmt: skip
    done = shell(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(pairs)} links" in done.stdout
    file = seen.folder / "src.npy"
    os.utime(file, ns=(0, 0))
    with pytest.raises(StoreError, match=r"src\.npy"):
        seen.check_unchanged()
    (seen.folder / "manifest.json").write_text(
        (seen.folder / "manifest.json").read_text().replace('"count": 24', '"count": 25', 1)
    )
    other = shell(*command, cwd=tmp_path)
    assert other.returncode != 0
    assert "manifest.json: the file was changed" in " ".join(other.stderr.split())
    assert LIKES in seen.edge_types


def test_a_copy_with_other_content_is_refused_by_the_worker_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path / "model.pt")
    seen = save_message_store(
        save_store(graph(), tmp_path / "whole"), tmp_path / "model.pt", tmp_path / "store"
    )
    copy = Path(shutil.copytree(seen.folder, tmp_path / "copy"))
    opening = FromFiles(seen.folder, tmp_path / "model.pt", threshold=None)
    sent = opening.expecting(opening.identity())
    monkeypatch.setenv("PAGELINK_STORE", str(copy))
    assert sent.open().graph.num_nodes == seen.graph().num_nodes
    # The same manifest, sizes and times, but other features.
    features = copy / "node1.x.npy"
    times = features.stat()
    np.save(features, np.load(features)[::-1])
    os.utime(features, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(StoreError, match=r"^On .*copy/node1\.x\.npy: the file was changed"):
        sent.open()
    # The driver's own is looked at before any worker starts.
    np.save(seen.folder / "node1.x.npy", np.load(features))
    with pytest.raises(StoreError, match=r"store/node1\.x\.npy: the file was changed"):
        opening.identity()


def test_a_damaged_store_stops_a_stream_and_is_no_links_fault(
    data: HeteroData, tmp_path: Path
) -> None:
    folder = save_store(data, tmp_path / "store").folder
    model = make_model("sage", data, ("user", "likes", "item"), hidden=8, paper_split=True).eval()
    explainer = PaGELink(model, GraphStore.open(folder), ("user", "likes", "item"), threshold=None)
    assert [e.message for e in explainer.explain_many([(0, 1)])] == [""]
    # A byte goes bad under the explainer; the file is mapped, so that it sees the new one.
    size = (folder / "opposite.npy").stat().st_size
    with (folder / "opposite.npy").open("r+b") as file:
        file.seek(128)
        file.write(b"\x7f" * (size - 128))
    with pytest.raises(StoreError, match=r"opposite\.npy"):
        list(explainer.explain_many([(2, 3), (4, 5)]))
