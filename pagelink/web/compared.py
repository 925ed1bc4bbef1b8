"""Why this one and not that one, and several links at once: what the explorer answers."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pagelink.audit import contrast_result as told
from pagelink.audit.contrast_result import ContrastVerdict
from pagelink.audit.summary import carried_by
from pagelink.errors import LinkError
from pagelink.views.text import clean
from pagelink.web.answers import node_answer
from pagelink.web.contract import Answer, Choice, ExplanationAsked, Index, ModelRequest, Node
from pagelink.web.explorer import Explorer


class ContrastAsked(ExplanationAsked):
    """Why one target and not another."""

    instead: Index

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The two links, and the settings."""
        src, dst, choice = super().arguments
        return src, dst, self.instead, choice


class GroupAsked(ModelRequest):
    """What carries the best new targets of a source together."""

    src: Index
    k: int = Field(10, ge=1, le=50, description="The number of targets.")


class ContrastPath(Answer):
    """A path to one of the two targets."""

    sentence: str
    is_above: bool = Field(description="It leads to the target that is above.")
    effect: float = Field(description="By how much the difference falls without its facts.")


class Contrasted(Answer):
    """What puts one target above another."""

    src: Node
    above: Node
    below: Node
    logit_above: float
    logit_below: float
    verdict: ContrastVerdict
    opening: list[str] = Field(description="Which one is above, and what that rests on.")
    paths: list[ContrastPath]
    turning: str = Field(description="The facts that turn the order, or come closest; or empty.")
    widening: str = Field(description="The facts that work against the order; or empty.")
    context: str
    svg: str
    text: str


class GroupChain(Answer):
    """A metapath that carries several links."""

    words: str
    num_carried: int
    num_new: int = Field(description="Of these, links that none before it carries.")
    effect: float = Field(description="What the scores lose without its paths, on average.")
    examples: list[str]


class GroupLink(Answer):
    """A link of the group."""

    dst: Node
    logit: float | None
    chains: list[int] = Field(description="The metapaths that carry it, from 0.")


class Group(Answer):
    """What carries the best new targets of a source together."""

    src: Node
    text: str
    sentence: str
    chains: list[GroupChain]
    links: list[GroupLink]
    carriers: list[str] = Field(description="Facts and nodes that move several of the links.")


class Comparing:
    """Answers questions about several links of an explorer at once.

    Args:
        explorer: has the model and the graph.
    """

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer

    def contrast(self, src: int, dst: int, instead: int, choice: Choice) -> Contrasted:
        """What puts one of two targets above the other, under the settings of the page.

        Raises:
            LinkError: there is no such node, or both targets are the same.
        """
        explainer, _ = self._explorer.chosen(choice)
        found = explainer.contrast(src, dst, instead)
        ends = (found.src, found.above, found.below)
        source, above, below = (node_answer(explainer.graph, *each) for each in ends)
        return Contrasted(
            src=source, above=above, below=below, logit_above=found.logit_above,
            logit_below=found.logit_below, verdict=found.verdict, opening=told.opening(found),
            paths=[
                ContrastPath(
                    sentence=told.path_sentence(found, each), is_above=each.above,
                    effect=each.effect,
                )
                for each in told.shown_paths(found)
            ],
            turning=told.turning(found), widening=told.widening(found),
            context=told.context(found), svg=found.to_svg(), text=str(found),
        )  # fmt: skip

    def group(self, src: int, count: int) -> Group:
        """What carries the best new targets of a source together.

        Raises:
            LinkError: there is no such source, or no target is left.
        """
        explorer = self._explorer
        targets = explorer.targets(src, count)
        if not targets.targets:
            raise LinkError("This source has no targets left that it is not linked to already.")
        found = explorer.timed.explain_group([(src, each.node.index) for each in targets.targets])
        carried = [set(carried_by(row)) for row in found.rows]
        return Group(
            src=targets.src,
            text=str(found),
            sentence=found.sentence,
            chains=[
                GroupChain(
                    words=each.words, num_carried=each.num_carried, num_new=each.num_new,
                    effect=each.effect.mean,
                    examples=[f"{clean(link)}: {text}" for link, text in each.examples],
                )
                for each in found.metapaths
            ],
            links=[
                GroupLink(
                    dst=target.node, logit=row.logit,
                    chains=[at for at, each in enumerate(found.metapaths) if each.words in mine],
                )
                for target, row, mine in zip(targets.targets, found.rows, carried, strict=True)
            ],
            carriers=found.carriers,
        )  # fmt: skip
