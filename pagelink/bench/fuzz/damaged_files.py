"""The formats that are damaged: for each a small sample, and all that is done with its files.

`serve` runs in a process of its own and uses one damaged sample after the other; what becomes of
it, the driver in `damage` sees from outside.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch_geometric.data import HeteroData

from pagelink.engine.job import explain_table
from pagelink.engine.opening import Sent
from pagelink.engine.parts import open_parts, read_parts
from pagelink.errors import PageLinkError
from pagelink.explain.explainer import PaGELink
from pagelink.graph.computation_graph import Extractor
from pagelink.graph.lookup import edge_walked, slots_of_same_facts
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.models.architectures import make_model
from pagelink.models.checkpoint import load_checkpoint, save_checkpoint
from pagelink.models.link_model import LinkModel
from pagelink.models.links import split_links
from pagelink.models.training import TrainSettings, train
from pagelink.runtime.files import write_text
from pagelink.search.paths import allowed_facts, build_path_graphs
from pagelink.search.pruning import prune
from pagelink.settings import Settings
from pagelink.store.graph_store import GraphStore
from pagelink.store.writer import save_store
from pagelink.study.database import Study, read_records
from pagelink.study.questions import Option, Shown, StudyAbout, StudyQuestion
from pagelink.study.storage import write_study

LIKES: EdgeType = ("user", "likes", "item")
LINKS = [(0, 1), (1, 2), (3, 5), (4, 4), (6, 7), (2, 0)]
QUICK = Settings(epochs=2, candidates=6, swaps=2)
ROOM = 2 << 30
"""Bytes that a damaged file may make its reader ask for on top of what it has."""


@dataclass(frozen=True)
class Format:
    """A format of files."""

    make: Callable[[Path], None]
    """Writes a sample of it into a folder."""
    ways: tuple[str, ...]
    """How its files are used; a way that `finds` damage may not give another answer in silence."""
    finds: tuple[str, ...]
    use: Callable[[Path, str], object]
    """Uses the files in one of the ways, and returns what came of it."""


def digest(found: object) -> str:
    """Return a short text that is another one for another value."""
    return hashlib.sha256(repr(found).encode(errors="replace")).hexdigest()[:16]


# Graphs: of two types with names, features and attributes; of one type with all kinds of edges.


@cache
def shop() -> HeteroData:
    """Users who buy items and know each other."""
    rng, data = np.random.default_rng(0), HeteroData()
    data["user"].num_nodes = data["item"].num_nodes = 8
    data["user"].id = [str(100 + i) for i in range(8)]
    data["user"].name = [f"Üser {i // 2}" for i in range(8)]
    data["item"].x = torch.from_numpy(rng.normal(size=(8, 3))).float()
    bought = torch.from_numpy(rng.integers(0, 8, (2, 24)))
    data["user", "buys", "item"].edge_index = bought
    data["item", "rev_buys", "user"].edge_index = bought.flip(0)
    data["user", "knows", "user"].edge_index = torch.from_numpy(rng.integers(0, 8, (2, 10)))
    when = pa.table({"when": [f"May {i}" for i in range(24)], "price": rng.normal(size=24)})
    data["user", "buys", "item"].attributes = when
    return data


@cache
def crowd() -> HeteroData:
    """One type of nodes: parallel and double edges, self-loops, a mirror, a node alone."""
    rng, data = np.random.default_rng(1), HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 9, 8
    follows = torch.from_numpy(rng.integers(0, 8, (2, 16)))
    data["user", "follows", "user"].edge_index = torch.cat([follows, follows[:, :3]], dim=1)
    data["user", "followed_by", "user"].edge_index = follows.flip(0)
    data["user", "knows", "user"].edge_index = torch.cat([follows, follows.flip(0)], dim=1)
    data["user", "likes", "item"].edge_index = torch.tensor(LINKS).T
    data["item", "near", "item"].edge_index = torch.from_numpy(rng.integers(0, 8, (2, 14)))
    data["item", "near", "item"].edge_attr = torch.ones(14, 2)
    return data


@cache
def _model(make: Callable[[], HeteroData], kind: str) -> LinkModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = make_model(kind, make(), LIKES, hidden=4, paper_split=make is shop)
    return model.eval()


# Stores


def _store(make: Callable[[], HeteroData], kind: str) -> Format:
    def use(folder: Path, way: str) -> object:
        path = folder / "store"
        if way in ("verified", "opened"):
            return GraphStore.open(path, verify=way == "verified").digest
        store = GraphStore.as_made(path)  # a byte that changes after it was verified
        graph = store.graph([LIKES])
        if way == "searched":
            return _searched(graph)
        with graph.naming_damage():
            words = [(graph.node_name(v), graph.node_id(v)) for v in range(graph.num_nodes)]
            known = [graph.edge_attributes(e) for e in range(graph.num_edges)]
            with suppress(PageLinkError):
                graph.find_node("user", "Üser 2")
            if way == "loaded":
                return words, known, list(_pairs(store.data))
            explainer = PaGELink(_model(make, kind), store, LIKES, QUICK, threshold=None)
            explained = [explainer.explain(*link, rank=True) for link in LINKS[:2]]
        return words, known, [each.paths for each in explained]

    ways = ("verified", "opened", "loaded", "searched", "searched", "explained")
    return Format(
        lambda folder: _made(make(), folder / "store"), ways, ("verified", "opened"), use
    )  # fmt: skip


def _searched(graph: TypedGraph) -> object:
    """Cut out computation graphs and paths, without a model and without a look at all edges."""
    found: list[object] = []
    some = np.arange(len(graph.edge_types)) % 2 == 0
    ends = [[graph.flat_index(LIKES[i], link[i // 2]) for link in LINKS] for i in (0, 2)]
    facts = [graph.link_fact(src, dst, LIKES) for src, dst in zip(*ends, strict=True)]
    for seen in (None, some):
        batch = Extractor(graph, 2, seen).extract(*map(np.array, (*ends, facts)))
        with graph.naming_damage():
            kept = prune(graph, batch, 2)
            paths = build_path_graphs(graph, batch, allowed_facts(graph, batch, kept), 3)
            same = slots_of_same_facts(graph, batch, np.arange(len(batch.edges)))
            walked = [edge_walked(graph, src, dst, LIKES) for src, dst in zip(*ends, strict=True)]
        found += [batch.edges.tolist(), paths.arc_slot.tolist(), same.values.tolist(), walked]
    return found


def _made(data: HeteroData, folder: Path) -> None:
    save_store(data, folder)


def _pairs(data: HeteroData) -> Iterator[list[int]]:
    for edge_type in data.edge_types:
        yield from data[edge_type].edge_index.T.tolist()


# Parts of a job


def _run_job(folder: Path) -> None:
    links = folder.parent / "links.csv"
    if not links.is_file():
        write_text(links, "src,dst\n" + "".join(f"{src},{dst}\n" for src, dst in LINKS))
    explain_table(Sent(_explainer(), {"graph": "shop"}), links, folder / "job", chunk=2)


@cache
def _explainer() -> PaGELink:
    data = shop().clone()
    del data["user"].name, data["user"].id
    model = _model(shop, "sage")
    return PaGELink(model, data, LIKES, QUICK, threshold=None)


def _use_job(folder: Path, way: str) -> object:
    if way == "resumed":
        _run_job(folder)
    path = folder / "job"
    if way == "opened":  # by pagelink; pyarrow reads it
        return len(open_parts(path).files)
    rows = read_parts(path)
    return sorted(map(repr, rows.drop(["seconds"]).to_pylist()))


# A model


def _make_model(folder: Path) -> None:
    pairs = torch.cartesian_prod(torch.arange(8), torch.arange(8)).T[:, ::2]
    data, split, settings = shop(), split_links(pairs), TrainSettings.paper(epochs=1)
    model = _model(shop, "sage")
    with torch.random.fork_rng(devices=[]):
        report = train(model, data, LIKES, split, settings)
    save_checkpoint(folder / "model.pt", model, data, LIKES, split, report, settings)


def _use_model(folder: Path, way: str) -> object:
    read = load_checkpoint(folder / "model.pt", shop())
    weights = {name: w.numpy().tobytes() for name, w in read.model.state_dict().items()}
    split = {k: v.tolist() for k, v in vars(read.split).items() if isinstance(v, torch.Tensor)}
    return weights, split, read.link_type, asdict(read.settings), read.report.to_dict()


# A study


def _make_study(folder: Path) -> None:
    def shown(text: str) -> Shown:
        svg = f'<svg xmlns="http://www.w3.org/2000/svg"><text>{text}</text></svg>'
        return Shown(svg, (text,), svg)

    names = ("pagelink", "degree")
    questions = [
        StudyQuestion(
            "best", number, f"user {number} likes item 1", "The model gives it 90 %.",
            tuple(Option((name,), shown(f"{number} {name}")) for name in names),
        )
        for number in range(4)
    ]  # fmt: skip
    about = StudyAbout(
        "A study", "user likes item", 4, names, 0, per_person=4, settings={}, versions={}
    )
    with Study.open(write_study(folder / "study.db", about, questions)) as study:
        for person in ("ada", "bo"):
            study.join(person)
            for _ in range(2):
                page = study.next_page(person)
                assert page is not None
                study.answer(person, page.question, page.choices[0][0])


def _use_study(folder: Path, way: str) -> object:
    with Study.open(folder / "study.db") as study:
        if way == "read":
            return read_records(study)
        page = study.next_page("ada")
        if page is not None:
            study.answer("ada", page.question, page.choices[0][0])
        return study.progress("ada"), study.background("bo")


FORMATS = {
    "store of two types": _store(shop, "sage"),
    "store of one type": _store(crowd, "rgcn"),
    "parts": Format(
        _run_job, ("opened", "read", "read", "resumed"), ("opened", "read", "resumed"), _use_job
    ),
    "model": Format(_make_model, ("read",), ("read",), _use_model),
    "study": Format(_make_study, ("read", "answered"), ("read", "answered"), _use_study),
}


# The process that uses them.


def serve() -> None:
    """Use a sample for every line of input (name of the format, folder, way); answer by a line."""
    requests, answers = sys.stdin, sys.stdout
    sys.stdout = sys.stderr  # what else is printed is no answer
    _limit_memory()
    for line in requests:
        print(json.dumps(_answer(*json.loads(line))), file=answers, flush=True)


def _answer(name: str, folder: str, way: str) -> dict[str, Any]:
    try:
        return {"digest": digest(FORMATS[name].use(Path(folder), way))}
    except PageLinkError as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    except BaseException as error:
        return {"raw": f"{type(error).__name__}: {error}"}


def _limit_memory() -> None:
    if sys.platform == "linux":
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
