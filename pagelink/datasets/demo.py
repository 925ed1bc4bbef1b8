"""The demo: books and their readers, a model trained on them, and predictions explained."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from torch import Tensor

from pagelink.datasets.books import READ, Books, generate_books
from pagelink.datasets.ground_truth import LabelPath
from pagelink.errors import ModelError
from pagelink.explain.explainer import PaGELink
from pagelink.explain.result import Explanation, Node
from pagelink.models.architectures import RGCN
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.commands import calibrated, training_bar
from pagelink.models.links import split_links
from pagelink.models.training import TrainSettings, train
from pagelink.runtime.files import write_text

SETTINGS = TrainSettings(
    paper_split=True, epochs=80, patience=40, folds=4, weight_decay=3e-4, known=(READ[1],)
)
TITLE = "Books and their readers"
TRIED = 60
"""Links that are explained at most to find examples among them."""


def make_demo(seed: int, console: Console) -> Checkpoint:
    """Draw readers of the books and train a model that predicts what they will like.

    Args:
        seed: the same seed gives the same graph and model.
        console: where it says what it does.
    """
    return _trained(generate_books(seed=seed), seed, console)


def _trained(books: Books, seed: int, console: Console) -> Checkpoint:
    data, link_type = books.data, books.link_type
    console.print(
        f"{data['book'].num_nodes} public-domain books with their authors, subjects and places, "
        f"and {data['reader'].num_nodes} invented readers, joined by {data.num_edges // 2} facts; "
        f"{books.likes.shape[1]} links to predict: which books a reader will like.",
        soft_wrap=True,
    )
    split = split_links(books.likes, seed)
    model = RGCN.for_data(data, link_type, paper_split=True, seed=seed)
    with training_bar(console, SETTINGS.epochs) as step:
        report = train(model, data, link_type, split, SETTINGS, seed=seed, progress=step)
    console.print(
        f"Trained an RGCN in {report.seconds:.1f} CPU seconds: test ROC-AUC {report.test_auc:.3f} "
        f"({report.test.edgeless.auc:.3f} without the facts).",
        soft_wrap=True,
    )
    calibration = calibrated(model, data, link_type, split, SETTINGS, seed=seed)
    return Checkpoint(
        model.eval(), link_type, split, report, SETTINGS, data, calibration=calibration
    )


def run_demo(out: Path, seed: int, console: Console) -> Explanation:
    """Train, explain, and compare with the rule; print it and write a page and a picture.

    Raises:
        ModelError: the model predicts none of its test links.
    """
    books = generate_books(seed=seed)
    demo = _trained(books, seed, console)
    explainer = PaGELink(
        demo.model, demo.data, demo.link_type, seed=seed, held_out=demo.held_out,
        known=demo.known(),
    )  # fmt: skip
    chosen = _shown(explainer, demo.split.test)
    explanation = explainer.explain(chosen.src[1], chosen.dst[1])  # with its rank
    console.print(f"\n{explanation}", soft_wrap=True, highlight=False, markup=False)
    console.print(_truth(books, explanation), soft_wrap=True, highlight=False, markup=False)
    for name, text in (("explanation.html", explanation.to_html()),
                       ("explanation.svg", explanation.to_svg())):  # fmt: skip
        console.print(f"Wrote {write_text(out / name, text)}")
    return explanation


def strong_examples(
    explainer: PaGELink, links: Tensor, count: int = 4, seconds: float | None = None
) -> list[Explanation]:
    """Find links whose explanation is strong and that have little in common.

    At most `TRIED` of the links, evenly spaced, are explained. Of those with the verdict
    `supported`, the half of higher scores is kept. Links that the model no longer predicts without
    the facts of their paths come first, then those whose paths carry the largest share of what the
    same number of facts can do. They are taken in this order, unless a node of their first path is
    on that of one taken before.

    Args:
        explainer: explains them.
        links: links to choose from, [2, num_links], such as the test links of a split.
        count: number of examples at most.
        seconds: no further link is explained after this time. None: no limit.

    Returns:
        The explanations, the strongest first; may be empty.
    """
    return _distinct(_tried(explainer, links, seconds), count)


def _tried(explainer: PaGELink, links: Tensor, seconds: float | None = None) -> list[Explanation]:
    step = -(-links.shape[1] // TRIED)
    pairs = [tuple(link) for link in links[:, ::step].t().tolist()]
    if seconds is None:
        return list(explainer.explain_many(pairs))
    # One at a time: a batch would take as long as all of it.
    explainer = explainer.replace(explainer.settings.replace(deadline=seconds))
    until = time.monotonic() + seconds
    found = []
    for pair in pairs:
        if time.monotonic() > until:
            break
        found.append(explainer.explain(*pair, rank=False))
    return found


def _distinct(explanations: Iterable[Explanation], count: int) -> list[Explanation]:
    supported = [
        each
        for each in explanations
        if each.paths and each.evidence is not None and each.evidence.verdict == "supported"
    ]
    supported.sort(key=lambda each: each.logit or 0.0)
    sure = supported[len(supported) // 2 :]
    seen: set[Node] = set()
    chosen: list[Explanation] = []
    for explanation in sorted(sure, key=_strength, reverse=True):
        if len(chosen) < count and seen.isdisjoint(explanation.paths[0].nodes):
            seen.update(explanation.paths[0].nodes)
            chosen.append(explanation)
    return chosen


def _strength(explanation: Explanation) -> tuple[bool, float]:
    """Whether the prediction is lost without the paths, and their share of the strongest facts."""
    evidence, strongest = explanation.evidence, explanation.strongest
    threshold = explanation.threshold
    decides = (
        threshold is not None and evidence is not None and evidence.logit_without_these < threshold
    )
    share = None if strongest is None else strongest.share
    return decides, 0.0 if share is None else share


def _shown(explainer: PaGELink, links: Tensor) -> Explanation:
    """The strongest example, else the first link with paths."""
    tried = _tried(explainer, links)
    shown = _distinct(tried, 1) or [each for each in tried if each.paths and each.evidence]
    if not shown:
        raise ModelError(f"The model predicts none of {len(tried)} test links. Try another seed.")
    return shown[0]


def _truth(books: Books, explanation: Explanation) -> str:
    """Say from which interests the reading list was made, and whether the first path has one."""
    reader, book = explanation.src[1], explanation.dst[1]
    interests = [books.data[kind].name[index] for kind, index in books.interests[reader]]
    planted = {_nodes(path) for path in books.labels[reader, book]}
    name = explanation.paths[0].names[2]
    found = f"is by the rule: it passes through {name}."
    if explanation.paths[0].nodes not in planted:
        found = "is not by the rule: it passes through none of them."
    return (
        f"\nGround truth, unknown to the model: the reading list of {explanation.src_name} was "
        f"generated from an interest in {' and '.join(interests)}. The first path {found}"
    )


def _nodes(path: LabelPath) -> tuple[Node, ...]:
    return (path[0][0], path[0][3]), *((step[2], step[4]) for step in path)
