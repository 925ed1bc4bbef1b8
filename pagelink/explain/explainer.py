"""PaGELink: the explainer. `pipeline` has the method, `preparation` what is found out before."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING

from pagelink.errors import SettingsError, need
from pagelink.explain.counterfactual import At, Counterfactual
from pagelink.explain.counterfactual_search import RemovalGoal, find_counterfactual
from pagelink.explain.longer import longest_paths
from pagelink.explain.options import ExplainOptions, check_batches
from pagelink.explain.preparation import Prepared
from pagelink.explain.result import Explanation
from pagelink.graph.links import End, Key, LinkLike
from pagelink.graph.schema import EdgeType
from pagelink.model.borrowing import in_normal_mode

if TYPE_CHECKING:
    from pagelink.audit.contrast_result import Contrast
    from pagelink.audit.link_group import GroupExplanation
    from pagelink.audit.result import Audit
    from pagelink.engine import Engine
    from pagelink.views.notebook import ExplanationWidget

BATCH_SIZE = 256
MEMORY = 1.0
"""Gigabytes that a batch of links may take."""
WITHOUT_ENGINE = "workers and address go with an engine: 'processes' or 'ray'."


class PaGELink(Prepared):
    """Explains links that a trained model predicts on a heterogeneous graph.

    When it is made, it finds how far the model sees and proves on real links of the graph that edge
    weights reach the model's messages. The model and the data come back exactly as they were.

    Args:
        model: any trained PyG link predictor, called as
            `model(x_dict, edge_index_dict, edge_label_index)` unless `forward` is given.
        data: the graph that the model passes messages on; a `GraphStore` stays on disk, and only
            the neighbourhoods of the links are read.
        link_type: the predicted relation, or several of them; it need not be in the graph. For a
            homogeneous graph the name of the relation, or its value in `edge_type`, is enough; its
            only relation is the link's, whatever it is called.
        settings: how to explain.
        seed: where random numbers come from.
        forward: `callable(model, data, edge_label_index)` for models of any other signature. The
            data has `n_id` per node type, and `edge_label_type`: per link, the position of its type
            among the data's edge types (the value of `edge_type` in a homogeneous graph).
        output: whether the model returns logits or probabilities.
        threshold: a link with a lower logit is a predicted negative (also where the model returns
            probabilities; logit 0 is one half). None: the model ranks, no link is negative.
        reverse: which relation is the reverse of which. None: found.
        relation_names: how the relations of a homogeneous graph are called: a sequence by their
            value in `edge_type`, or a mapping. None: as `to_homogeneous()` left them, else
            "relation 0" and so on.
        held_out: what ranks and scores of the model meant on links held out from it, as the
            checkpoint of `pagelink train` has it. None: explanations do not say so.
        known: links of the (first) link type that are true although the graph may not have them,
            such as those held out for tests, as indices [2, num_links]. Like the links of the graph
            they are left out of rankings: no one would recommend them.
        proof: a file that keeps what is found out about a model of `pagelink.models`. The next
            explainer of the same model, graph and versions takes it from there; for any other it is
            written anew. None, or any other model: nothing is kept. Of a store it is kept beside
            it, in the folder `STORE.proofs`, whatever is given here.

    Raises:
        PageLinkError: the graph, the link type or the model cannot be used; the message says why.
    """

    def explain(
        self,
        src: Key,
        dst: Key,
        link_type: EdgeType | Key | None = None,
        *,
        rank: bool | None = None,
        rank_sample: int | None = None,
        rank_end: End = "dst",
        runs: int = 1,
        negatives: bool = False,
    ) -> Explanation:
        """Explain one link, given by indices or names.

        Args:
            src: the source of the link.
            dst: its target.
            link_type: its type, if the explainer has several.
            rank: rank the target among those that the source is not linked to, with and without
                the facts of the returned paths. None: if the graph is in memory and its messages do
                not depend on the link, so that a pass over the graph scores all targets; there are
                at most three such passes.
            rank_sample: the number of targets to rank it among at most, drawn at random. None: all
                (at most 100,000) where a pass scores them, else 100.
            rank_end: `src` ranks the source instead, among sources that the target is not linked
                to.
            runs: explain with this number of seeds, the explainer's and those that follow it, and
                count in how many of them each path is returned. A seed decides where learning
                starts if `Settings.start` is `noise`; with the even start only the controls vary.
            negatives: if the link is not predicted, say which paths speak for it, which against.

        Raises:
            LinkError: there is no such node or link type.
            SettingsError: an argument is out of its range.
        """
        options = ExplainOptions(rank, rank_sample, runs, negatives, rank_end)
        given = (src, dst) if link_type is None else (src, dst, link_type)
        (answer,) = self._stream([given], options, BATCH_SIZE, MEMORY, raises=True)
        return answer

    def explain_many(
        self,
        links: Iterable[LinkLike],
        *,
        progress: bool = False,
        batch_size: int = BATCH_SIZE,
        memory: float = MEMORY,
        rank: bool | None = False,
        rank_sample: int | None = None,
        rank_end: End = "dst",
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
            batch_size: the number of links that go through the model side by side at most.
            memory: about how many gigabytes a batch of links may take; beside it there are the
                graph and the model. A link that needs more is explained by itself.
            rank: as for `explain`, and so are the next four; but not unless requested.
            rank_sample: the number of nodes to rank among at most.
            rank_end: which end is ranked.
            runs: the number of seeds.
            negatives: explain predicted negatives, too.
            engine: who explains. None: this process. `processes` or `ray`: workers, each with a
                copy of this explainer, `batch_size` links at a time; or an engine of
                `pagelink.engine`.
            workers: the number of workers. None: one per core.
            address: of a Ray cluster. None: one on this machine, for as long as it takes.

        Raises:
            SettingsError: an argument is out of its range; at once, before any link is read.
            ModelError: the workers cannot get a copy, as the explainer cannot be pickled.
        """
        options = ExplainOptions(rank, rank_sample, runs, negatives, rank_end)
        check_batches(batch_size, memory)
        if engine is not None:
            from pagelink.engine import engine_of, stream

            given = {"memory": memory, "batch_size": batch_size, **dataclasses.asdict(options)}
            answers = stream(self, links, engine_of(engine, workers, address), batch_size, given)
        elif workers is not None or address is not None:
            raise SettingsError(WITHOUT_ENGINE)
        else:
            answers = self._stream(links, options, batch_size, memory)
        if not progress:
            return answers
        from rich.progress import track

        total = len(links) if isinstance(links, Sized) else None
        return iter(track(answers, "explaining", total=total))

    @in_normal_mode
    def counterfactual(
        self,
        src: Key,
        dst: Key,
        link_type: EdgeType | Key | None = None,
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
            top_k: the target is to drop out of the first `top_k` of the targets that the source is
                not linked to. None: the logit is to fall below the threshold.
            at: remove facts at the source (a user's own actions), or facts on paths; paths are
                longer than `max_length` where shorter ones do not suffice (`Settings.longer`).
            budget: facts to remove at most.
            verified: sets of facts to measure, about.
            known: further targets that the source is known to be linked to, beside those of the
                graph and of the explainer's `known`: they are neither ranked nor said to take the
                target's place.

        Raises:
            LinkError: there is no such node or link type.
            SettingsError: an argument is out of its range.
        """
        goal = RemovalGoal(top_k, at, budget, verified, self.threshold)
        link = self.link(src, dst, link_type)
        others = [self.graph.find_node(link.type[2], key) for key in known]
        others += self.known.ends(link).tolist()
        setup = self.pipeline.setup_for(link)
        found = find_counterfactual(setup, link, goal, others)
        # As for explanations: where facts on short paths do not suffice, longer ones are tried.
        longest = longest_paths(setup) if at == "paths" and self.settings.longer else 0
        for length in range(self.settings.max_length + 1, longest + 1):
            if found.reason not in ("no_facts", "none_found"):
                break
            found = find_counterfactual(
                self.of_length(length).pipeline.setup_for(link), link, goal, others
            )
        return found

    def audit(
        self,
        links: Iterable[LinkLike],
        *,
        by: str | Sequence[str] = (),
        engine: str | Engine | None = None,
        workers: int | None = None,
        address: str | None = None,
    ) -> Audit:
        """Find out what the model relies on, over some links.

        What their scores are made of, which metapaths, facts and nodes carry them, and for whom
        that differs. Everything is measured on graphs that were really edited.

        Args:
            links: `(src, dst)` or `(src, dst, link_type)`, by indices or names.
            by: a column of the nodes to group links by, or several, as `column` or `type.column`.
            engine: who measures, and so the next two; as for `explain_many`.
            workers: the number of workers.
            address: of a Ray cluster.

        Raises:
            SettingsError: there are no links, or no such column; before any work.
        """
        from pagelink.audit.job import audit_links
        from pagelink.engine import engine_of

        if engine is None and (workers is not None or address is not None):
            raise SettingsError(WITHOUT_ENGINE)
        chosen = None if engine is None else engine_of(engine, workers, address)
        return audit_links(self, links, by=by, engine=chosen)

    def contrast(
        self,
        src: Key,
        dst: Key,
        instead: Key,
        link_type: EdgeType | Key | None = None,
        *,
        budget: int = 5,
        verified: int = 500,
    ) -> Contrast:
        """Find out what puts one of two targets of a source above the other.

        Args:
            src: the source.
            dst: a target.
            instead: another one.
            link_type: of both links, if the explainer has several.
            budget: facts to remove at most.
            verified: sets of facts to measure, about.

        Raises:
            LinkError: there is no such node or link type, or both targets are the same.
            SettingsError: an argument is out of its range, or `Settings.deadline` is too early.
            ModelError: the model does not score one of the two.
        """
        from pagelink.audit.contrast import contrast

        links = [self.link(src, end, link_type) for end in (dst, instead)]
        return contrast(self, links, budget=budget, verified=verified)

    def explain_group(self, links: Iterable[LinkLike], *, most: int = 3) -> GroupExplanation:
        """Explain a set of links together: by the few metapaths that carry most of them.

        Args:
            links: the links, as for `explain_many`: all recommendations of a user, say.
            most: metapaths at most.

        Raises:
            SettingsError: there are no links, or an argument is out of its range.
        """
        from pagelink.audit.link_group import explain_group

        return explain_group(self, links, most=most)

    def widget(self, explanation: Explanation) -> ExplanationWidget:
        """Return an explanation as a notebook widget, in which facts are switched off by a click.

        The model scores the link again on the graph without the facts that are off, and ranks it if
        the explanation has a rank. Model and data stay as they are.

        Args:
            explanation: one of this explainer.

        Raises:
            MissingExtraError: `pagelink[notebook]` is not installed.
            LinkError: the explainer does not have this link.
            SettingsError: the paths are not in the explainer's graph.
        """
        need("A notebook widget", "notebook", "anywidget")
        from pagelink.views.notebook import ExplanationWidget

        return ExplanationWidget(self, explanation)
