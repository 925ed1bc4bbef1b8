"""Rows on graphs made to measure: does the rest of the graph matter, is time linear in edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch_geometric.explain import Explainer, GNNExplainer

from pagelink.bench.speed.bare import extract
from pagelink.bench.speed.figures import (
    Figure,
    Goal,
    Work,
    cpu,
    fit_line,
    interleaved,
    median_ratio,
    torch_threads,
    wall,
)
from pagelink.bench.speed.graphs import (
    LIKES,
    Generated,
    HeteroSAGE,
    growing_graph,
    ladder_graph,
    random_graph,
)
from pagelink.bench.speed.subjects import Sizes, explain_all
from pagelink.explain.explainer import PaGELink
from pagelink.settings import Settings

EVERY_EPOCH = Settings(patience=None, measure=False)
FEATURES = 16
FLAT, LINEAR = Goal(1.2), Goal(0.98, "at least")
HIDDEN, SMALL_HIDDEN = 64, 16
"""The model of the paper's range of edges, and that of all larger graphs."""


def growth(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Time of the same links while the rest of the graph grows."""
    for far in (False, True):
        explainers = {}
        for edges in sizes.growth_edges:
            graph = growing_graph(sizes.growth_core, edges, far, FEATURES, sizes.growth_links, seed)
            explainers[f"{edges} edges"] = _explainer(graph, SMALL_HIDDEN, seed)
        works = {
            name: partial(_explain_each, explainer, graph.links)
            for name, explainer in explainers.items()
        }
        with torch_threads(1):
            interleaved(works, 1)
            rounds = interleaved(works, sizes.growth_repeats)
        seconds = {name: cpu(samples, len(graph.links)) for name, samples in rounds.items()}
        best = [min(values) for values in seconds.values()]
        where = "connected, but far away" if far else "not connected"
        first, last = sizes.growth_edges[0], sizes.growth_edges[-1]
        yield Figure(
            "growth", f"slowest over fastest, {first:,} to {last:,} edges, {where}",
            max(best) / min(best), "x", goal=FLAT,
            how=f"CPU s a link alone, {len(graph.links)} links with {sizes.growth_core} edges "
            f"around them, explainer made before; minimum of {sizes.growth_repeats} rounds for "
            "each size", samples={f"{name}, cpu_s": values for name, values in seconds.items()},
        )  # fmt: skip


def linear(sizes: Sizes, seed: int) -> Iterator[Figure]:
    """Time against the number of edges of the computation graph."""
    yield _line(sizes.paper_range, HIDDEN, sizes.linear_repeats, sizes.linear_copies, seed)
    yield _line(sizes.large_range, SMALL_HIDDEN, sizes.large_repeats, 1, seed)


def _line(edges: Sequence[int], hidden: int, repeats: int, copies: int, seed: int) -> Figure:
    graph = ladder_graph(edges, FEATURES, seed)
    explainer = _explainer(graph, hidden, seed)
    counts = [len(extract(explainer, link).edges) for link in graph.links]
    # One link for each number of edges, so many times side by side: alone, a small link costs what
    # calling the model costs, and its edges are lost in that.
    works = {str(link): partial(_explain_batch, explainer, [link] * copies) for link in graph.links}
    with torch_threads(1):
        interleaved(works, 1)
        rounds = list(interleaved(works, repeats).values())
    best = [min(cpu(samples, copies)) for samples in rounds]
    line = fit_line(counts, best)
    return Figure(
        "linear", f"R² of time against edges, {counts[0]:,} to {counts[-1]:,}", line.r2, "R²",
        goal=LINEAR,
        how=f"SAGE of {hidden}, one link for each number of edges, in a batch of {copies} of it; "
        f"CPU s a link, minimum of {repeats} rounds; "
        f"{1e6 * line.slope:.3g} us an edge and {1000 * line.intercept:.3g} ms",
        samples={
            "edges": counts, "cpu_s": best, "hidden": [hidden],
            "slope": [line.slope], "intercept": [line.intercept],
            **{
                f"{count} edges, cpu_s": cpu(samples, copies)
                for count, samples in zip(counts, rounds, strict=True)
            },
        },
    )  # fmt: skip


def _explainer(graph: Generated, hidden: int, seed: int) -> PaGELink:
    model = HeteroSAGE(graph.data.edge_types, graph.num_features, hidden, seed)
    with torch_threads(1):
        return PaGELink(model, graph.data, LIKES, EVERY_EPOCH, seed, threshold=None)


def _explain_batch(explainer: PaGELink, links: Sequence[tuple[int, int]]) -> None:
    for _ in explainer.explain_many(links):
        pass


def _explain_each(explainer: PaGELink, links: Sequence[tuple[int, int]]) -> None:
    for link in links:
        explainer.explain(*link)


# The row against PyG's own GNNExplainer, which masks the whole graph for every link.


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
