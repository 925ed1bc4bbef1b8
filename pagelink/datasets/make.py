"""The data sets of the paper made as folders, in one call each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch_geometric.data import HeteroData

from pagelink.datasets.aminer import read_aminer
from pagelink.datasets.augcitation import build_augcitation
from pagelink.datasets.folders import DatasetInfo, check_new_folder, write_dataset
from pagelink.datasets.ground_truth import Labels, Rule
from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.graph.reverse_relations import REVERSE_PREFIX, add_reverse_relations
from pagelink.graph.schema import EdgeType
from pagelink.tables.files import SUFFIXES
from pagelink.tables.load import load_graph, save_graph


@dataclass(frozen=True)
class DatasetSummary:
    """What was written. Its text is for people.

    Example:
        >>> print(DatasetSummary(Path("aug"), 9, 30, ("author", "likes", "paper"), 4, 12, 1.5))
        aug: 9 nodes, 30 edges; of these 4 are links to predict (author,likes,paper), drawn among \
12 pairs that qualify, with 1.50 ground-truth paths on average
    """

    folder: Path
    num_nodes: int
    num_edges: int
    """Links to predict included, reverse relations not."""
    link_type: EdgeType | None = None
    num_links: int = 0
    num_qualifying: int | None = None
    """Number of pairs among which the links were drawn, if they were."""
    mean_paths: float = 0.0
    """Number of ground-truth paths per link."""

    def __str__(self) -> str:
        text = f"{self.folder}: {self.num_nodes:,} nodes, {self.num_edges:,} edges"
        if self.link_type is None:
            return text
        text += f"; of these {self.num_links:,} are links to predict ({','.join(self.link_type)})"
        if self.num_qualifying is not None:
            text += f", drawn among {self.num_qualifying:,} pairs that qualify"
        return f"{text}, with {self.mean_paths:.2f} ground-truth paths on average"


def make_useritemattr_folder(
    out: Path | str, seed: int = 0, *, num_likes: int | None = None, rule: Rule = "released"
) -> DatasetSummary:
    """Generate UserItemAttr and write it as a folder.

    Args:
        out: the folder to make.
        seed: the same seed gives the same files.
        num_likes: number of links. None: all pairs that qualify.
        rule: which pairs qualify, see `pagelink.datasets.ground_truth.Rule`.

    Raises:
        SettingsError: fewer pairs qualify than links are wanted.
        GraphError: the folder is not empty or cannot be written.
    """
    generated = generate_useritemattr(seed=seed, num_likes=num_likes, rule=rule)
    data = generated.data
    data[generated.link_type].edge_index = generated.likes
    settings = {"num_likes": num_likes, "rule": rule}
    info = DatasetInfo("UserItemAttr", generated.link_type, seed, settings)
    folder = write_dataset(out, data, generated.labels, info=info)
    return _summary(folder, data, generated.link_type, generated.labels)


def make_augcitation_folder(
    source: Path | str,
    out: Path | str,
    seed: int = 0,
    *,
    num_likes: int | None = 4500,
    max_length: int = 3,
    max_degree: int = 30,
    max_paths: int = 5,
    author: str = "author",
    paper: str = "paper",
    relation: str = "likes",
    rule: Rule = "paper",
    licence: str | None = None,
) -> DatasetSummary:
    """Augment a citation graph and write it as a folder.

    Args:
        source: a graph that `load_graph` reads, or an AMiner citation file.
        out: the folder to make.
        seed: the same seed gives the same files.
        num_likes: see `build_augcitation`, as for all that follow.
        max_length: l_max.
        max_degree: D_max.
        max_paths: P_max.
        author: node type of the sources of the links.
        paper: node type of their targets.
        relation: what the new relation is called.
        rule: which paths qualify and which are best.
        licence: the terms of the source, to be kept with what is made of it.

    Raises:
        SettingsError: a setting is out of its range, or fewer pairs qualify than links are wanted.
        GraphError: the source cannot be read or augmented, or the folder cannot be written.
    """
    check_new_folder(out)
    source = Path(source)
    built = build_augcitation(
        citation_graph(source), seed=seed, author=author, paper=paper, relation=relation,
        num_likes=num_likes, max_length=max_length, max_degree=max_degree, max_paths=max_paths,
        rule=rule,
    )  # fmt: skip
    settings = {
        # Its name, not its place, which means nothing to others.
        "source": source.resolve().name,
        "num_likes": num_likes, "max_length": max_length, "max_degree": max_degree,
        "max_paths": max_paths, "rule": rule,
    }  # fmt: skip
    info = DatasetInfo("AugCitation", built.link_type, seed, settings, licence=licence)
    folder = write_dataset(out, built.data, built.labels, info=info)
    return _summary(folder, built.data, built.link_type, built.labels, built.num_qualifying)


def make_aminer_folder(source: Path | str, out: Path | str) -> DatasetSummary:
    """Write the graph of an AMiner citation file as a folder of tables.

    Raises:
        GraphError: the file cannot be read, or the folder is not empty or cannot be written.
    """
    check_new_folder(out)
    data = read_aminer(source)
    return _summary(save_graph(data, out), data)


def citation_graph(source: Path) -> HeteroData:
    """Read a citation graph: a folder or file that `load_graph` reads, or an AMiner file."""
    # What is not there is left to load_graph, whose error says so.
    if not source.is_file() or source.suffix.lower() in SUFFIXES:
        return load_graph(source)
    data = read_aminer(source)
    # As load_graph does, so that the ground truth is in the same relations.
    add_reverse_relations(data)
    return data


def _summary(
    folder: Path,
    data: HeteroData,
    link_type: EdgeType | None = None,
    labels: Labels | None = None,
    num_qualifying: int | None = None,
) -> DatasetSummary:
    labels = labels or {}
    num_paths = sum(len(paths) for paths in labels.values())
    return DatasetSummary(
        folder=folder,
        num_nodes=sum(data[node_type].num_nodes for node_type in data.node_types),
        num_edges=sum(
            data[t].num_edges for t in data.edge_types if not t[1].startswith(REVERSE_PREFIX)
        ),
        link_type=link_type,
        num_links=len(labels),
        num_qualifying=num_qualifying,
        mean_paths=num_paths / max(1, len(labels)),
    )
