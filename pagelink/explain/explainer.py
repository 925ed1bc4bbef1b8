"""PaGELink: extract, prune, learn the mask, find paths, select. The paper's Algorithm 1."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data, HeteroData

from pagelink.errors import SettingsError
from pagelink.explain.building import ResultBuilder
from pagelink.explain.counterfactual import At, Counterfactual
from pagelink.explain.counterfactual_search import (
    check_question,
    facts_at_source,
    facts_on_paths,
    find_counterfactual,
)
from pagelink.explain.options import OnRequest, with_negatives, with_rank, with_runs
from pagelink.explain.ranking import TargetScores
from pagelink.explain.result import Explanation
from pagelink.graph.batches import Batch, Batches
from pagelink.graph.computation_graph import ComputationGraphs
from pagelink.graph.links import Key, Link, LinkLike, LinkReader, as_link_types
from pagelink.graph.lookup import FactIndex
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.measure.evidence import Measured, Work, choose_paths
from pagelink.model.inputs import ModelInput
from pagelink.model.model_checks import inspect_model
from pagelink.model.predictor import Forward, LinkPredictor, Output
from pagelink.model.receptive_field import extractor_for
from pagelink.runtime.arrays import Bools, Doubles, Longs
from pagelink.runtime.timer import Timer
from pagelink.search.constraints import compile_constraints
from pagelink.search.mask_learning import LearnedMasks, learn_masks
from pagelink.search.paths import (
    FoundPaths,
    PathGraphs,
    allowed_facts,
    best_paths_in_time,
    build_path_graphs,
)
from pagelink.search.pruning import prune
from pagelink.settings import Settings
from pagelink.store.graph_store import GraphStore

if TYPE_CHECKING:
    from pagelink.engine import Engine


LINKS_A_BATCH = 256
MEMORY = 1.0
"""Gigabytes that a batch of links may take."""
LAST_SEARCH = 0.1


class PaGELink:
    """Explains links that a trained model predicts on a heterogeneous graph.

    When it is made, it finds how far the model sees and proves on real links of the graph that edge
    weights reach the model's messages. The model and the data come back exactly as they were.

    Args:
        model: any trained PyG link predictor, called as
            `model(x_dict, edge_index_dict, edge_label_index)` unless `forward` is given.
        data: the graph that the model passes messages on; a `GraphStore` stays on disk, and only
            the neighbourhoods of the links are read.
        link_type: the predicted relation, or several of them; it need not be in the graph. For a
            homogeneous graph the name of the relation is enough.
        settings: how to explain.
        seed: where random numbers come from.
        forward: `callable(model, data, edge_label_index)` for models of any other signature. The
            data has `n_id` per node type, and `edge_label_type`: per link, the position of its type
            among the data's edge types (the value of `edge_type` in a homogeneous graph).
        output: whether the model returns logits or probabilities.
        threshold: a link with a lower logit is a predicted negative (also where the model returns
            probabilities; logit 0 is one half). None: the model ranks, there are no predicted
            negatives.
        reverse: which relation is the reverse of which. None: found.

    Raises:
        PageLinkError: the graph, the link type or the model cannot be used; the message says why.
    """

    def __init__(
        self,
        model: nn.Module,
        data: HeteroData | Data | GraphStore,
        link_type: EdgeType | str | Sequence[EdgeType],
        settings: Settings | None = None,
        seed: int = 0,
        *,
        forward: Forward | None = None,
        output: Output = "logit",
        threshold: float | None = 0.0,
        reverse: Mapping[EdgeType, EdgeType] | None = None,
    ) -> None:
        _check_arguments(settings, seed, threshold)
        self._given: dict[str, Any] = {
            "link_type": link_type, "forward": forward, "output": output, "threshold": threshold,
            "reverse": reverse,
        }  # fmt: skip
        self.threshold = threshold
        self.store = data if isinstance(data, GraphStore) else None
        self.link_types = as_link_types(link_type, not isinstance(data, Data))
        if isinstance(data, GraphStore):
            self.graph, data = data.graph(self.link_types, reverse), data.data
        else:
            self.graph = TypedGraph.from_data(data, self.link_types, reverse)
        self.predictor = LinkPredictor(model, data, self.graph, forward, output)
        with torch.inference_mode(False):
            self.receptive_field = inspect_model(
                self.predictor, self.link_types, seed, on_patch=self.store is not None
            )
        self._reader = LinkReader(self.graph, self.link_types)
        self.warnings = self._warnings()
        self._adopt(settings or Settings(), seed)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """On a store, a copy in another process opens the files anew and proves the model again."""
        if self.store is None:
            return super().__reduce_ex__(protocol)
        given = {**self._given, "settings": self.settings, "seed": self.seed}
        return _made, (type(self), self.predictor.model, self.store, given)

    def _adopt(self, settings: Settings, seed: int) -> None:
        """Take settings, and make what depends on them."""
        self.settings = settings
        self.seed = seed
        num_hops = settings.num_hops
        if num_hops is not None and num_hops < (self.receptive_field.num_hops or 0):
            raise SettingsError(
                f"num_hops is {num_hops}, but the model sees {self.receptive_field.num_hops} hops: "
                "the computation graph would leave out edges that move its score. Use None."
            )
        self.extractor = extractor_for(self.graph, self.receptive_field, num_hops)
        self._batches = Batches(
            self.extractor, self.receptive_field.bytes_per_edge, self.predictor.mode != "subgraphs"
        )
        self._constraints = compile_constraints(self.graph, settings)
        self._builder = ResultBuilder(
            self.graph, settings, seed, self.receptive_field, self.threshold, self._constraints,
            self.warnings,
        )  # fmt: skip

    def replace(self, settings: Settings | None = None, seed: int | None = None) -> Self:
        """Return the same explainer with other settings or another seed, without a new look.

        Graph and model are shared, and so is what was found out about them: this costs next to
        nothing, unlike a new explainer.

        Raises:
            SettingsError: the settings do not fit the graph or the model.
        """
        settings = self.settings if settings is None else settings
        seed = self.seed if seed is None else seed
        _check_arguments(settings, seed, self.threshold)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._adopt(settings, seed)
        return other

    def link(self, src: Key, dst: Key, link_type: EdgeType | str | None = None) -> Link:
        """Return a link in flat nodes.

        Raises:
            LinkError: there is no such node or link type.
        """
        return self._reader.read((src, dst) if link_type is None else (src, dst, link_type))

    def failed(self, link: LinkLike, error: Exception) -> Explanation:
        """Return the explanation of a link that is malformed, or on which the work failed."""
        read = self._reader.read_any(link)
        valid = read.message is None
        return self._builder.failed(read, error) if valid else self._builder.invalid(read)

    def target_scores(self, link: Link) -> TargetScores:
        """Return what scores targets of a link's source on graphs without some facts."""
        return TargetScores(self.predictor, self._batches, link)

    def _warnings(self) -> list[str]:
        unused = (
            "The model does not use the graph: of the links it was tried on, none had another "
            "score without any edge."
        )
        probabilities = (
            "All scores that were seen lie between 0 and 1 and are taken to be logits: if the "
            "model returns probabilities, say so by output='probability'."
        )
        odd = self.receptive_field.in_unit_range and self.predictor.output == "logit"
        general = [unused] * (not self.receptive_field.uses_edges) + [probabilities] * odd
        return general + [
            f"The relation {other[1]} mirrors most links of {link_type[1]}: if it is the reverse, "
            "say so by reverse={...}, or paths may merely restate the link."
            for link_type in self.link_types
            for other in self.graph.near_reverses(link_type)
        ]

    @property
    def reverse(self) -> Mapping[EdgeType, EdgeType]:
        """Which relations are taken to be each other's reverse."""
        return self.graph.reverse

    def explain(
        self,
        src: Key,
        dst: Key,
        link_type: EdgeType | str | None = None,
        *,
        rank: bool = False,
        rank_sample: int = 100,
        runs: int = 1,
        negatives: bool = False,
    ) -> Explanation:
        """Explain one link, given by indices or names.

        Args:
            src: the source of the link.
            dst: its target.
            link_type: its type, if the explainer has several.
            rank: rank the target, with and without the facts of the returned paths.
            rank_sample: among how many targets, at random from those the source is not linked to.
            runs: explain with so many seeds, the explainer's and those that follow it, and say of
                each path in how many of them it is returned. A seed decides where learning starts
                if `Settings.start` is `noise`; with the even start nothing varies but the controls.
            negatives: if the link is not predicted, say which paths speak for it, which against.

        Raises:
            LinkError: there is no such node or link type.
            SettingsError: an argument is out of its range.
        """
        asked = OnRequest(rank, rank_sample, runs, negatives)
        link = self.link(src, dst, link_type)
        started = time.process_time()
        timer = Timer(self.settings.deadline)
        (answer,) = self._answer(self._batches.extract([link])[0], [link], timer, asked)
        return dataclasses.replace(answer, seconds=time.process_time() - started)

    @torch.inference_mode(False)
    def counterfactual(
        self,
        src: Key,
        dst: Key,
        link_type: EdgeType | str | None = None,
        *,
        top_k: int | None = None,
        at: At = "source",
        budget: int = 5,
        verified: int = 500,
        known: Iterable[Key] = (),
    ) -> Counterfactual:
        """Find the fewest facts without which the link would not be predicted.

        Args:
            src: the source of the link.
            dst: its target.
            link_type: its type, if the explainer has several.
            top_k: the target is to drop out of the first so many of the targets that the source is
                not linked to. None: the logit is to fall below the threshold.
            at: remove facts at the source (a user's own actions), or facts on paths.
            budget: facts to remove at most.
            verified: sets of facts to measure, about.
            known: targets that the source is known to be linked to although the graph does not
                say so, such as links held out for tests: they are neither ranked nor said to take
                the target's place.

        Raises:
            LinkError: there is no such node or link type.
            SettingsError: an argument is out of its range.
        """
        check_question(top_k, at, budget, verified, self.threshold)
        link = self.link(src, dst, link_type)
        (batch,) = self._batches.extract([link])
        if at == "source":
            wanted = batch if top_k is None else None
            facts = facts_at_source(self.graph, link, wanted, self.receptive_field.seen_relations)
        else:
            whole = np.ones(len(batch.edges), dtype=np.bool_)
            facts = facts_on_paths(self.graph, batch, self._path_graphs(batch, whole))
        return find_counterfactual(
            self.predictor, self.target_scores(link), link, batch, facts,
            threshold=self.threshold, top_k=top_k, at=at, budget=budget, verified=verified,
            known=[self.graph.find_node(link.type[2], key) for key in known],
        )  # fmt: skip

    def explain_many(
        self,
        links: Iterable[LinkLike],
        *,
        progress: bool = False,
        batch_size: int = LINKS_A_BATCH,
        memory: float = MEMORY,
        rank: bool = False,
        rank_sample: int = 100,
        runs: int = 1,
        negatives: bool = False,
        engine: str | Engine | None = None,
        workers: int | None = None,
        address: str | None = None,
    ) -> Iterator[Explanation]:
        """Explain any number of links, in order, as an iterator.

        Every link gets an explanation. A malformed one gets the reason `invalid` and a message.
        How links are cut into batches does not change the results.

        Args:
            links: `(src, dst)` or `(src, dst, link_type)`, by indices or names.
            progress: show a progress bar.
            batch_size: how many links go through the model side by side at most.
            memory: about how many gigabytes a batch of links may take; beside it there are the
                graph and the model. A link that needs more is explained by itself.
            rank: as for `explain`, and so are the others.
            rank_sample: among how many targets to rank.
            runs: how many seeds.
            negatives: explain predicted negatives, too.
            engine: who explains. None: this process. `processes` or `ray`: workers, each with a
                copy of this explainer, `batch_size` links at a time; or an engine of
                `pagelink.engine`.
            workers: how many workers. None: one per core.
            address: of a Ray cluster. None: one on this machine, for as long as it takes.

        Raises:
            SettingsError: an argument is out of its range; at once, before any link is read.
            ModelError: the workers cannot get a copy, as the explainer cannot be pickled.
        """
        asked = OnRequest(rank, rank_sample, runs, negatives)
        _check_batches(batch_size, memory)
        if engine is not None:
            from pagelink.engine import engine_of, stream

            options = {"memory": memory, "batch_size": batch_size, **dataclasses.asdict(asked)}
            crew = engine_of(engine, workers, address)
            answers = stream(self, links, crew, batch_size, options)
        elif workers is not None or address is not None:
            raise SettingsError("workers and address go with an engine: 'processes' or 'ray'.")
        else:
            answers = self._stream(links, batch_size, memory, asked)
        if not progress:
            return answers
        from rich.progress import track

        total = len(links) if isinstance(links, Sized) else None
        return iter(track(answers, "explaining", total=total))

    def _stream(
        self, links: Iterable[LinkLike], batch_size: int, memory: float, asked: OnRequest
    ) -> Iterator[Explanation]:
        read = map(self._reader.read_any, links)
        for batch in self._batches.cut(read, batch_size, memory):
            answers = iter(self._explain_batch(batch, asked))
            for link in batch.links:
                yield next(answers) if link.message is None else self._builder.invalid(link)

    def _explain_batch(self, batch: Batch, asked: OnRequest) -> list[Explanation]:
        """Explain the links of a batch side by side; each says its share of the seconds."""
        started = time.process_time()
        answers = self._explain_or_say_why(batch.graphs, batch.valid, batch.seconds, asked)
        cpu = batch.cpu + time.process_time() - started
        weight = 1 + np.array(batch.visible, dtype=np.float64)
        return [
            dataclasses.replace(answer, seconds=seconds)
            for answer, seconds in zip(answers, (cpu * weight / weight.sum()).tolist(), strict=True)
        ]

    def _explain_or_say_why(
        self, graphs: list[ComputationGraphs], links: list[Link], seconds: float, asked: OnRequest
    ) -> list[Explanation]:
        """Explain links side by side; if that fails, one by one, so that one costs only itself."""
        if not links:
            return []
        timer = Timer(self.settings.deadline, len(links), seconds)
        try:
            return self._answer(ComputationGraphs.joined(graphs), links, timer, asked)
        except Exception as error:
            if len(links) == 1:
                return [self._builder.failed(links[0], error)]
        return [
            answer
            for graph, link in zip(graphs, links, strict=True)
            for answer in self._explain_or_say_why([graph], [link], seconds / len(links), asked)
        ]

    @torch.inference_mode(False)
    def _answer(
        self, batch: ComputationGraphs, links: list[Link], timer: Timer, asked: OnRequest
    ) -> list[Explanation]:
        """Explain links side by side, and add what else is asked for."""
        answers = self._explain(batch, links, timer, self.seed)
        if asked.runs > 1:
            again = [
                self._explain(batch, links, Timer(self.settings.deadline, len(links)), seed)
                for seed in asked.seeds(self.seed)
            ]
            answers = with_runs(answers, again)
        if asked.negatives:
            answers = with_negatives(
                self.predictor, self._facts, batch, links, answers, self.settings,
                self._path_graphs,
            )  # fmt: skip
        if asked.rank:
            answers = [
                with_rank(self.predictor, self._batches, link, answer, asked.rank_sample, self.seed)
                for link, answer in zip(links, answers, strict=True)
            ]
        return answers

    def _explain(
        self, batch: ComputationGraphs, links: list[Link], timer: Timer, seed: int
    ) -> list[Explanation]:
        """The method, for a batch of computation graphs."""
        relation = np.array([self.graph.edge_types.index(link.type) for link in links])
        logits, recorded = self._logits(batch, relation)
        deployed = self._deployed_logits(logits, links, relation)

        kept, paths, has_path, undone = self._prune(batch, timer)
        answerable = np.isfinite(logits) & has_path
        if self.threshold is not None:
            answerable &= logits >= self.threshold
        chosen = np.flatnonzero(answerable)
        work = Work(batch, relation, logits, recorded, kept, paths, chosen, seed, timer)
        masks = self._learn(work)
        found, measured = self._choose(work, masks)
        return self._builder.build(
            links, batch, logits, deployed, undone, paths, masks, found, chosen, timer.is_over(),
            measured,
        )  # fmt: skip

    def _learn(self, work: Work) -> LearnedMasks:
        return learn_masks(
            self.predictor, work.batch, work.kept, work.paths, work.relation, work.links,
            self.settings, work.seed, work.timer, work.recorded,
        )  # fmt: skip

    def _choose(
        self, work: Work, masks: LearnedMasks
    ) -> tuple[FoundPaths, dict[int, Measured] | None]:
        """Choose among candidate paths by what they are worth to the model, or by the mask."""
        if not self._measures(work):
            return self._best_by_mask(work, masks), None
        return choose_paths(self.predictor, self._facts, work, masks, self.settings)

    def _measures(self, work: Work) -> bool:
        return self.settings.measure and len(work.links) > 0 and not work.timer.is_over()

    def _best_by_mask(self, work: Work, masks: LearnedMasks) -> FoundPaths:
        settings = self.settings
        # The search for the paths to return has a tenth of a second in any case.
        seconds = None if settings.deadline is None else max(settings.deadline, LAST_SEARCH)
        arc_logits = masks.edge_logits[work.paths.arc_slot]
        return best_paths_in_time(
            work.paths, arc_logits, settings.paths_within_budget, work.links, seconds
        )

    @cached_property
    def _facts(self) -> FactIndex:
        return FactIndex(self.graph)

    def _prune(
        self, batch: ComputationGraphs, timer: Timer
    ) -> tuple[Bools, PathGraphs, Bools, Bools]:
        """Prune, and undo it for links that it would cut apart.

        Returns:
            The kept edges, where paths may be, which links have one, for which pruning was undone.
        """
        settings, graph = self.settings, self.graph
        kept = prune(graph, batch, settings.core, settings.hub_degree)
        paths = self._path_graphs(batch, kept)
        has_path = paths.has_path(timer.until)
        undone = np.zeros(batch.num_links, dtype=np.bool_)
        if settings.unpruned_fallback and not has_path.all():
            cut = np.repeat(~has_path, np.diff(batch.edge_ptr))
            paths = self._path_graphs(batch, kept | cut)
            now = paths.has_path(timer.until)
            undone = now & ~has_path
            kept |= np.repeat(undone, np.diff(batch.edge_ptr))
            has_path = now
        return kept, paths, has_path, undone

    def _path_graphs(self, batch: ComputationGraphs, kept: Bools) -> PathGraphs:
        settings = self.settings
        allowed = allowed_facts(self.graph, batch, kept, self._constraints)
        return build_path_graphs(
            self.graph, batch, allowed, settings.max_length, settings.max_degree, self._constraints
        )

    def _logits(self, batch: ComputationGraphs, relation: Longs) -> tuple[Doubles, ModelInput]:
        wanted = self.predictor.needed(batch)
        inputs = self.predictor.inputs(batch, wanted, np.arange(batch.num_links), relation)
        logits, recorded, _ = self.predictor.record(inputs)
        return logits.cpu().double().numpy(), recorded

    def _deployed_logits(self, logits: Doubles, links: list[Link], relation: Longs) -> Doubles:
        """The logits with the links themselves in the graph, where they are in it."""
        deployed = logits.copy()
        inside = [i for i, link in enumerate(links) if link.fact >= 0]
        together = self.predictor.mode == "subgraphs" and inside
        for group in [inside] if together else [[i] for i in inside]:
            there = [dataclasses.replace(links[i], fact=-1) for i in group]
            batch = ComputationGraphs.joined(self._batches.extract(there))
            deployed[group] = self._logits(batch, relation[group])[0]
        return deployed


def _made(kind: type[PaGELink], model: nn.Module, store: GraphStore, given: Any) -> PaGELink:
    return kind(model, store, **given)


def _check_batches(batch_size: object, memory: object) -> None:
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise SettingsError(f"batch_size must be at least 1, a whole number, got {batch_size!r}.")
    if not isinstance(memory, int | float) or isinstance(memory, bool) or not memory > 0:
        raise SettingsError(f"memory must be above 0 gigabytes, a number, got {memory!r}.")


def _check_arguments(settings: object, seed: object, threshold: object) -> None:
    if settings is not None and not isinstance(settings, Settings):
        raise SettingsError(f"settings must be Settings, got {type(settings).__name__}.")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise SettingsError(f"seed must be a whole number from 0 up, got {seed!r}.")
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if threshold is not None and not (number and math.isfinite(threshold)):  # type: ignore[arg-type]
        raise SettingsError(f"threshold must be a number or None, got {threshold!r}.")
