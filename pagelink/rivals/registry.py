"""All explainers that are compared, by name. A new one is one file and one entry in `_OTHERS`.

Those that learn a mask per link by the explainer's own loop stand here, too: the paper's method and
Power-Link's, each as it ranks paths by itself, and GNNExp-Link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from pagelink.errors import SettingsError, did_you_mean
from pagelink.explain.explainer import PaGELink
from pagelink.rivals.gradients import Gradient, IntegratedGradient
from pagelink.rivals.graphmask import GraphMaskLink
from pagelink.rivals.jrecs import JRecs
from pagelink.rivals.pgexp import PGExpLink
from pagelink.rivals.pgexp_released import PGExpReleased
from pagelink.rivals.plain import DegreeOnly, RandomMask, RandomPaths
from pagelink.rivals.power_link import PowerLinkWhole
from pagelink.rivals.rival import Options, Rival
from pagelink.rivals.subgraphx import SubgraphXLink
from pagelink.search.mask_learning import LearnedMasks, learn_masks
from pagelink.search.work import Work
from pagelink.settings import Settings

RELEASED = Settings.paper("useritemattr")
_LEARNING = (
    "core", "hub_degree", "remove_pruned", "epochs", "learning_rate", "alpha", "beta",
    "pred_weight", "pred_loss", "path_loss", "paths_per_epoch", "path_schedule", "patience",
    "entropy", "size", "start",
)  # fmt: skip


@dataclass(frozen=True)
class PaperOptions(Options):
    """Whose released settings it has."""

    data_set: str = "useritemattr"
    """A name that `Settings.paper` knows."""

    def __post_init__(self) -> None:
        Settings.paper(self.data_set)  # which refuses others


class Paper(Rival):
    """PaGE-Link with the released settings of pruning and learning, paths by its Score."""

    name = "paper"
    options_type: ClassVar[type[Options]] = PaperOptions

    @classmethod
    def own_settings(cls, settings: Settings, options: Any) -> Settings:
        """The number of paths, their length and what they are held to stay as given."""
        released = Settings.paper(options.data_set)
        return settings.replace(**{name: getattr(released, name) for name in _LEARNING})

    def masks(self, work: Work) -> LearnedMasks:
        """Learn a mask for each link."""
        return learn_masks(work)


class PowerLink(Paper):
    """Mask learning with the path loss of Power-Link: powers of the adjacency, no search."""

    name = "power"
    options_type = Options

    @classmethod
    def own_settings(cls, settings: Settings, options: Any) -> Settings:
        """The given settings, but for the path loss."""
        return settings.replace(path_loss="power")


@dataclass(frozen=True)
class GNNExpOptions(Options):
    """How masks are learned."""

    epochs: int = 100
    learning_rate: float = 0.01
    size: float = 1e-6
    """Weight of the sum of the mask."""
    entropy: float = 0.1
    """Weight of the mean entropy of the mask."""


class GNNExpLink(Rival):
    """GNNExplainer's objective on heterogeneous edge masks, for links.

    Every edge of the unpruned computation graph has a mask value of its own. Learned are
    -log sigmoid(f) on the weighted graph, plus the sum of the mask times `size`, plus its mean
    entropy times `entropy`. Nothing in that is about paths; the mask is the explanation, and paths
    are searched on it afterwards, as for all rivals.
    """

    name = "gnnexp"
    options_type = GNNExpOptions

    @classmethod
    def own_settings(cls, settings: Settings, options: GNNExpOptions) -> Settings:
        """Nothing is pruned, and no path counts while learning."""
        return settings.replace(
            core=0, hub_degree=None, remove_pruned=False, alpha=0.0, beta=0.0, pred_weight=1.0,
            path_loss="mean", patience=None, epochs=options.epochs, size=options.size,
            learning_rate=options.learning_rate, entropy=options.entropy,
        )  # fmt: skip

    def masks(self, work: Work) -> LearnedMasks:
        """Learn a mask for each link."""
        return learn_masks(work)


@dataclass(frozen=True)
class GNNExpReleasedOptions(GNNExpOptions):
    """How the released code learns masks on UserItemAttr."""

    learning_rate: float = 0.001
    size: float = 1e-5


class GNNExpReleased(GNNExpLink):
    """GNNExp-Link with the settings of the PaGE-Link authors' code: small steps from noise."""

    name = "gnnexp-released"
    options_type = GNNExpReleasedOptions

    @classmethod
    def own_settings(cls, settings: Settings, options: GNNExpOptions) -> Settings:
        """The start and the prediction loss are those of the released code, too."""
        own = super().own_settings(settings, options)
        return own.replace(start=RELEASED.start, pred_loss=RELEASED.pred_loss)


class DiversePaGELink(PaGELink):
    """PaGELink with `Settings.diverse`: of sets equally good, one that repeats least."""

    name = "pagelink-diverse"

    def _adopt(self, settings: Settings, seed: int) -> None:
        super()._adopt(settings.replace(diverse=True), seed)


_OTHERS: tuple[type[Rival], ...] = (
    Paper, GNNExpLink, GNNExpReleased, PGExpLink, PGExpReleased, SubgraphXLink, PowerLink,
    PowerLinkWhole, GraphMaskLink, Gradient, IntegratedGradient, JRecs, DegreeOnly, RandomPaths,
    RandomMask,
)  # fmt: skip
_OURS: dict[str, type[PaGELink]] = {"pagelink": PaGELink, DiversePaGELink.name: DiversePaGELink}
RIVALS: dict[str, type[PaGELink]] = _OURS | {r.name: r for r in _OTHERS}
BY_PATH = (
    *_OURS, "paper", "power", "power-link", "jrecs", "degree", "random-paths",
)  # fmt: skip
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
