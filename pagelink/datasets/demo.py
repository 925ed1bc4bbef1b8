"""The demo: a generated graph, a model trained on it, and one of its predictions explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.errors import ModelError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation
from pagelink.models.architectures import RGCN
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.commands import calibrated, training_bar
from pagelink.models.links import LinkSplit, split_links
from pagelink.models.training import TrainSettings, train
from pagelink.runtime.files import write_text

SETTINGS = TrainSettings.paper()


def make_demo(seed: int, console: Console, **sizes: Any) -> Checkpoint:
    """Generate a UserItemAttr graph and train a model on it; takes some seconds.

    Args:
        seed: the same seed gives the same graph and model.
        console: where it says what it does.
        sizes: those of the graph, see `generate_useritemattr`.
    """
    dataset = generate_useritemattr(seed=seed, **sizes)
    data, link_type = dataset.data, dataset.link_type
    console.print(
        f"Generated a graph of {data.num_nodes} nodes and {data.num_edges // 2} facts (users buy "
        f"items, items have attributes), with {dataset.likes.shape[1]} likes to predict.",
        soft_wrap=True,
    )
    split = split_links(dataset.likes, seed)
    model = RGCN.for_data(data, link_type, paper_split=True, seed=seed)
    with training_bar(console, SETTINGS.epochs) as step:
        report = train(model, data, link_type, split, SETTINGS, seed=seed, progress=step)
    console.print(
        f"Trained an RGCN in {report.seconds:.1f} CPU seconds: test ROC-AUC {report.test_auc:.3f}, "
        f"average precision {report.test_ap:.3f}.",
        soft_wrap=True,
    )
    calibration = calibrated(model, data, link_type, split, SETTINGS, seed=seed)
    return Checkpoint(
        model.eval(), link_type, split, report, SETTINGS, data, calibration=calibration
    )


def run_demo(out: Path, seed: int, console: Console) -> Explanation:
    """Generate, train, explain; print the explanation and write it as a page and a picture."""
    demo = make_demo(seed, console)
    explainer = PaGELink(demo.model, demo.data, demo.link_type, seed=seed, held_out=demo.held_out)
    explanation = _first_predicted(explainer, demo.split)
    console.print(f"\n{explanation}", soft_wrap=True, highlight=False, markup=False)
    for name, text in (("explanation.html", explanation.to_html()),
                       ("explanation.svg", explanation.to_svg())):  # fmt: skip
        console.print(f"Wrote {write_text(out / name, text)}")
    return explanation


def _first_predicted(explainer: PaGELink, split: LinkSplit) -> Explanation:
    """The first test link that is predicted and relies on its paths, else the first with paths."""
    links = split.test.t().tolist()
    other = None
    for explanation in explainer.explain_many(tuple(link) for link in links):
        if explanation.paths and explanation.evidence is not None:
            if explanation.evidence.verdict == "supported":
                return explanation
            other = other or explanation
    if other is not None:
        return other
    raise ModelError(f"The model predicts none of its {len(links)} test links. Try another seed.")
