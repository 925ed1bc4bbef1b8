"""What is found out once, when an explainer is made: the graph, the model, what it sees."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import nn
from torch_geometric.data import Data, HeteroData

from pagelink.errors import GraphError, ModelError
from pagelink.explain.building import ResultBuilder
from pagelink.explain.longer import Method
from pagelink.explain.notes import warnings_about
from pagelink.explain.options import check_arguments, check_hops
from pagelink.explain.pipeline import Pipeline, page_link
from pagelink.explain.ranking import EndScores, Known, KnownLinks
from pagelink.explain.result import Explanation
from pagelink.graph.batches import Batches
from pagelink.graph.links import Key, Link, LinkLike, LinkReader, as_link_types
from pagelink.graph.reading import RelationNames
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.held_out import HeldOutShares
from pagelink.measure.preference import fact_weights
from pagelink.model.inputs import Output
from pagelink.model.kept_proof import kept_field
from pagelink.model.model_checks import inspect_model
from pagelink.model.predictor import Forward, LinkPredictor
from pagelink.model.receptive_field import extractor_for
from pagelink.search.constraints import Constraints, compile_constraints
from pagelink.search.work import Scored, Setup
from pagelink.settings import Settings
from pagelink.store.graph_store import GraphStore

WITHOUT_MESSAGES = ("pykeen.models", "torch_geometric.nn.kge")
"""Modules whose models score links by embeddings alone."""
PROOFS = ".proofs"
"""What the folder is called, beside a store, that keeps what was proved about models on it."""


class Prepared:
    """A model on a graph, ready to be explained; `PaGELink` says what the arguments are."""

    def __init__(
        self,
        model: nn.Module,
        data: HeteroData | Data | GraphStore,
        link_type: EdgeType | Key | Sequence[EdgeType | Key],
        settings: Settings | None = None,
        seed: int = 0,
        *,
        forward: Forward | None = None,
        output: Output = "logit",
        threshold: float | None = 0.0,
        reverse: Mapping[EdgeType, EdgeType] | None = None,
        relation_names: RelationNames | None = None,
        held_out: HeldOutShares | None = None,
        known: Known | None = None,
        proof: Path | None = None,
    ) -> None:
        check_arguments(settings, seed, threshold)
        if any(kind.__module__.startswith(WITHOUT_MESSAGES) for kind in type(model).__mro__):
            raise ModelError(
                f"{type(model).__name__} passes no messages: its score rests on embeddings. What "
                "the facts that it was trained on put into these is explained by "
                "pagelink.explain_trained(model, triples, links)."
            )
        self._given: dict[str, Any] = {
            "link_type": link_type, "forward": forward, "output": output, "threshold": threshold,
            "reverse": reverse, "relation_names": relation_names, "held_out": held_out,
            "known": known,
        }  # fmt: skip
        self.threshold, self.held_out = threshold, held_out
        self.store = data if isinstance(data, GraphStore) else None
        asked = as_link_types(link_type, not isinstance(data, Data))
        if relation_names is not None and not isinstance(data, Data):
            raise GraphError(
                "relation_names is for a homogeneous graph (Data); the relations of this "
                f"{type(data).__name__} have names of their own. Leave it out."
            )
        if isinstance(data, GraphStore):
            self.graph, data = data.graph(asked, reverse), data.frame
        else:
            self.graph = TypedGraph.from_data(data, asked, reverse, relation_names)
        self.link_types = tuple(dict.fromkeys(map(self.graph.relation_called, asked)))
        self.known = KnownLinks.of(self.graph, self.link_types[0], known)
        self.predictor = LinkPredictor(model, data, self.graph, forward, output)
        on_patch = self.store is not None
        with self.graph.naming_damage():
            prove = partial(inspect_model, self.predictor, self.link_types, seed, on_patch=on_patch)
            if self.store is not None:
                folder = self.store.folder.absolute()
                proof = folder.with_name(f"{folder.name}{PROOFS}")
            if proof is None:
                self.receptive_field = prove()
            else:
                known_by = None if self.store is None else self.store.digest
                self.receptive_field = kept_field(
                    proof, self.predictor, self.link_types, seed, prove, known_by
                )
        self.reader = LinkReader(self.graph, self.link_types)
        self.warnings = self._warnings()
        self._adopt(settings or Settings(), seed)

    def _adopt(self, settings: Settings, seed: int) -> None:
        """Take settings, and make what depends on them."""
        check_hops(settings, self.receptive_field)
        self.settings, self.seed = settings, seed
        self.extractor = extractor_for(self.graph, self.receptive_field, settings.num_hops)
        one_by_one = self.predictor.mode != "subgraphs"
        seen = self.receptive_field
        batches = Batches(self.extractor, seen.bytes_per_edge, one_by_one, seen.seconds_per_edge)
        constraints = compile_constraints(self.graph, settings)
        if settings.prefer is not None:
            fact_weights(self.graph, settings.prefer)  # an unknown column ends it here
        self.setup = self._setup(batches, settings, constraints, seed)
        self.builder = ResultBuilder(self.setup, seed, self.warnings)
        self.pipeline = Pipeline(
            self.setup, self.builder, self._method, seed, self._pipeline_at, self.known,
            self._longer(), self.store is not None, self.held_out,
        )  # fmt: skip
        self._wider: dict[int | None, Prepared] = {self.extractor.num_hops: self}
        self._of_length: dict[int, Self] = {}

    def _setup(
        self, batches: Batches, settings: Settings, constraints: Constraints, seed: int
    ) -> Setup:
        """What the steps of the method share; a model without messages is measured otherwise."""
        return Setup(
            self.predictor, self.receptive_field, batches, settings, constraints, self.threshold
        )

    def _pipeline_at(self, num_hops: int | None) -> Pipeline:
        """The same method with computation graphs of another radius; None: on the full graph."""
        if num_hops not in self._wider:
            other = object.__new__(type(self))
            other.__dict__.update(self.__dict__)
            # Where the model sees more than was found, these may be other relations, too.
            every = np.ones_like(self.receptive_field.seen_relations)
            seen = dataclasses.replace(
                self.receptive_field, num_hops=num_hops, seen_relations=every, along_relations=every
            )
            if num_hops is None:
                other.predictor = copy.copy(self.predictor)
                other.predictor.mode = "full"
                seen = dataclasses.replace(seen, mode="full")
            other.receptive_field = seen
            other._adopt(self.settings, self.seed)
            self._wider[num_hops] = other
        return self._wider[num_hops].pipeline

    def _longer(self) -> Callable[[int], tuple[Setup, Method]] | None:
        """What explains by paths of another number of facts; a rival has none."""
        return self._at_length

    def _at_length(self, max_length: int) -> tuple[Setup, Method]:
        other = self.of_length(max_length)
        return other.setup, other._method

    def of_length(self, max_length: int) -> Self:
        """The same explainer with paths of another number of facts."""
        if max_length not in self._of_length:
            settings = self.settings.replace(max_length=max_length)
            self._of_length[max_length] = self.replace(settings)
        return self._of_length[max_length]

    def _method(self, scored: Scored, seed: int) -> list[Explanation]:
        return page_link(self.builder, scored, seed)

    def _stream(
        self, links: Iterable[LinkLike], *how: Any, raises: bool = False
    ) -> Iterator[Explanation]:
        return self.pipeline.stream(map(self.reader.read_any, links), *how, raises=raises)

    def _warnings(self) -> list[str]:
        return warnings_about(self.predictor, self.receptive_field, self.link_types)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """On a store, a copy in another process opens the files anew and proves the model again."""
        if self.store is None:
            return super().__reduce_ex__(protocol)
        given = {**self._given, "settings": self.settings, "seed": self.seed}
        return _make, (type(self), self.predictor.model, self.store, given)

    def replace(
        self,
        settings: Settings | None = None,
        seed: int | None = None,
        *,
        known: Known | None = None,
    ) -> Self:
        """Return the same explainer with other settings, seed or known links, without a new look.

        Graph and model are shared, and so is what was found out about them: this costs next to
        nothing, unlike a new explainer.

        Raises:
            SettingsError: the settings do not fit the graph or the model.
        """
        settings = self.settings if settings is None else settings
        seed = self.seed if seed is None else seed
        check_arguments(settings, seed, self.threshold)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        if known is not None:
            other._given = {**self._given, "known": known}
            other.known = KnownLinks.of(self.graph, self.link_types[0], known)
        other._adopt(settings, seed)
        return other

    @property
    def reverse(self) -> Mapping[EdgeType, EdgeType]:
        """Which relations are taken to be each other's reverse."""
        return self.graph.reverse

    def link(self, src: Key, dst: Key, link_type: EdgeType | Key | None = None) -> Link:
        """Return a link in flat nodes.

        Raises:
            LinkError: there is no such node or link type.
        """
        return self.reader.read((src, dst) if link_type is None else (src, dst, link_type))

    def failed(self, link: LinkLike, error: Exception) -> Explanation:
        """Return the explanation of a link that is malformed, or on which the work failed."""
        return self.builder.failed(self.reader.read_any(link), error)

    def target_scores(self, link: Link) -> EndScores:
        """Return what scores targets of a link's source on graphs without some facts."""
        return EndScores(self.setup, link)


def _make(kind: type[Prepared], model: nn.Module, store: GraphStore, given: Any) -> Prepared:
    return kind(model, store, **given)
