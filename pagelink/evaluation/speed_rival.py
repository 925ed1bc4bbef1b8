"""The row against PyG's own GNNExplainer, which masks the whole graph for every link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch_geometric.explain import Explainer, GNNExplainer

from pagelink.evaluation.speed_figures import (
    Figure,
    Goal,
    Work,
    cpu,
    interleaved,
    median_ratio,
    torch_threads,
    wall,
)
from pagelink.evaluation.speed_graphs import LIKES, Generated, HeteroSAGE, random_graph
from pagelink.evaluation.speed_sizes import Sizes
from pagelink.evaluation.speed_subjects import explain_all
from pagelink.explainer import PaGELink
from pagelink.settings import Settings

GOAL = Goal(50.0, "at least")


def gnnexplainer(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """CPU of GNNExplainer over the CPU of pagelink, for the same links, epochs and model."""
    graph = random_graph(
        sizes.rival_nodes, sizes.rival_edges, sizes.rival_hidden, sizes.rival_links, seed
    )
    model = HeteroSAGE(graph.data.edge_types, graph.num_features, sizes.rival_hidden, seed)
    for epochs in sizes.rival_epochs:
        settings = Settings(epochs=epochs, patience=None, measure=False)
        ours = PaGELink(model, graph.data, LIKES, settings, seed, threshold=None)
        works: dict[str, Work] = {
            "gnnexplainer": partial(explain_whole_graph, model, graph, epochs, seed),
            "in batches": partial(explain_all, ours, graph.links),
            "one by one": partial(_explain_each, ours, graph.links),
        }
        for threads in sizes.threads:
            with torch_threads(threads):
                works["in batches"]()
                rounds = interleaved(works, sizes.rival_repeats)
            count = len(graph.links)
            used = {f"{k}, cpu_s": cpu(samples, count) for k, samples in rounds.items()}
            used |= {f"{k}, wall_s": wall(samples, count) for k, samples in rounds.items()}
            for ours_way in ("in batches", "one by one"):
                yield Figure(
                    "gnnexplainer", f"GNNExplainer over pagelink {ours_way}, {epochs} epochs",
                    median_ratio(used["gnnexplainer, cpu_s"], used[f"{ours_way}, cpu_s"]), "x",
                    median_ratio(used["gnnexplainer, wall_s"], used[f"{ours_way}, wall_s"]),
                    threads, GOAL if ours_way == "in batches" else None,
                    f"{count} links; {sizes.rival_nodes:,} nodes, {graph.data.num_edges:,} edges, "
                    f"5 relations, two-layer SAGE of {sizes.rival_hidden}; median of the ratios of "
                    f"{sizes.rival_repeats} rounds", used,
                )  # fmt: skip


def explain_whole_graph(model: HeteroSAGE, graph: Generated, epochs: int, seed: int) -> None:
    """Learn an edge mask of the whole graph for each link, by PyG's GNNExplainer."""
    explainer = Explainer(
        model, algorithm=GNNExplainer(epochs=epochs), explanation_type="model",
        edge_mask_type="object",
        model_config={
            "mode": "binary_classification", "task_level": "edge", "return_type": "raw"
        },
    )  # fmt: skip
    data = graph.data
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for link in graph.links:
            ends = torch.tensor(link).view(2, 1)
            explainer(data.x_dict, data.edge_index_dict, edge_label_index=ends)


def _explain_each(explainer: PaGELink, links: Sequence[tuple[int, int]]) -> None:
    for link in links:
        explainer.explain(*link)
