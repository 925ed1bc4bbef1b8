"""A model to make a study of when there is none: the generated graph, trained on the spot."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from pagelink.datasets.useritemattr import generate_useritemattr
from pagelink.demo import SETTINGS
from pagelink.models.checkpoint import Checkpoint
from pagelink.models.commands import training_bar
from pagelink.models.links import split_links
from pagelink.models.rgcn import RGCN
from pagelink.models.training import train


def demo_checkpoint(seed: int, console: Console, **sizes: Any) -> Checkpoint:
    """Generate a UserItemAttr graph and train a model on it; `sizes` are those of the graph."""
    dataset = generate_useritemattr(seed=seed, **sizes)
    split = split_links(dataset.likes, seed)
    model = RGCN.for_data(dataset.data, dataset.link_type, paper_split=True, seed=seed)
    with training_bar(console, SETTINGS.epochs) as step:
        report = train(
            model, dataset.data, dataset.link_type, split, SETTINGS, seed=seed, progress=step
        )
    return Checkpoint(model.eval(), dataset.link_type, split, report, SETTINGS, dataset.data)
