"""What can be asked of the explorer: the parameters of its addresses, with their ranges."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from pagelink.web.contract import At
from pagelink.web.explorer import Choice

LARGEST = 2**31 - 1
Index = Annotated[
    int, Field(ge=0, le=LARGEST, description="Its position among the nodes of its type.")
]
Name = Annotated[str, Field(max_length=200)]


class Asked(BaseModel):
    """What all questions have in common: no parameters beyond their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SearchAsked(Asked):
    """A search by name."""

    type: Name = Field(description="A node type.")
    q: Name = Field("", description="What was typed of the name.")
    limit: int = Field(20, ge=1, le=100)


class Question(Asked):
    """A question that the model has to be asked."""

    wait: float = Field(20, ge=0, le=30, description="Seconds to wait for the answer.")


class TargetsAsked(Question):
    """The best new targets of a source."""

    src: Index
    k: int = Field(20, ge=1, le=200, description="How many.")


class LinkAsked(Question):
    """A link."""

    src: Index
    dst: Index


class EditAsked(LinkAsked):
    """A link, on the graph without some facts."""

    off: list[Index] = Field([], max_length=200, description="Numbers of the facts to take away.")

    @property
    def facts(self) -> tuple[int, ...]:
        """The facts, each once."""
        return tuple(sorted(set(self.off)))


class WhatIfAsked(LinkAsked):
    """What would have to be different."""

    at: At = Field("source", description="Take away facts at the source, or on paths.")
    top_k: int | None = Field(
        None, ge=1, le=1000, description="The target is to drop out of the first so many."
    )


class ExplanationAsked(LinkAsked):
    """Why a link is predicted."""

    paths: int = Field(3, ge=1, le=20, description="Paths at most.")
    length: int = Field(3, ge=1, le=5, description="Facts of a path at most.")
    rho: float = Field(0.7, ge=0, le=1, description="1: faithful, 0: concise.")
    exclude: list[Name] = Field([], max_length=100, description="Relations that no path uses.")
    seed: int = Field(0, ge=0, le=LARGEST)

    @property
    def choice(self) -> Choice:
        """The settings."""
        return Choice(
            self.paths, self.length, self.rho, tuple(sorted(set(self.exclude))), self.seed
        )
