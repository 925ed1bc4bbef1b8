"""All explainers that are compared, by name. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pagelink.errors import SettingsError, did_you_mean
from pagelink.explain.explainer import PaGELink
from pagelink.rivals.gradients import Gradient, IntegratedGradient
from pagelink.rivals.learned import GNNExpLink, Paper, PowerLink
from pagelink.rivals.pgexp import PGExpLink
from pagelink.rivals.plain import DegreeOnly, RandomMask, RandomPaths
from pagelink.rivals.rival import Rival
from pagelink.rivals.subgraphx import SubgraphXLink

RIVALS: dict[str, type[PaGELink]] = {
    "pagelink": PaGELink,
    "paper": Paper,
    "gnnexp": GNNExpLink,
    "pgexp": PGExpLink,
    "subgraphx": SubgraphXLink,
    "power": PowerLink,
    "gradient": Gradient,
    "integrated-gradient": IntegratedGradient,
    "degree": DegreeOnly,
    "random-paths": RandomPaths,
    "random-mask": RandomMask,
}
BY_PATH = ("pagelink", "paper", "power", "degree", "random-paths")
"""Explainers whose answer is paths; that of the others is the facts of the highest mask."""


def make_rival(
    name: str, *given: Any, options: Mapping[str, Any] | None = None, **arguments: Any
) -> PaGELink:
    """Make an explainer by its name.

    Args:
        name: one of `RIVALS`.
        given: the arguments of `PaGELink`: model, data, link type, settings, seed.
        options: what is this rival's own, by name; see its options class.
        arguments: further ones of `PaGELink`, and `train_links` of `pgexp`.

    Raises:
        SettingsError: there is no such explainer, or it has no such option.
    """
    if name not in RIVALS:
        raise SettingsError(
            f"An explainer is one of {', '.join(RIVALS)}, got {name!r}."
            + did_you_mean(name, RIVALS)
        )
    kind = RIVALS[name]
    known = [f.name for f in fields(kind.options_type)] if issubclass(kind, Rival) else []
    for option in options or {}:
        if option not in known:
            raise SettingsError(
                f"{name} has the options {', '.join(known) or 'of Settings alone'}, got "
                f"{option!r}.{did_you_mean(option, known)}"
            )
    if issubclass(kind, Rival) and options:
        arguments["options"] = kind.options_type(**options)
    return kind(*given, **arguments)
