"""The notebook widget: an explanation whose facts are switched off and on by a click.

The model in the kernel scores the link again on the graph without the facts that are off, as the
explorer does. Everything is in the widget itself: it needs no network.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from pagelink.errors import SettingsError
from pagelink.explain.result import Explanation
from pagelink.views.drawing.pictures import draw
from pagelink.views.score_wording import compared, place
from pagelink.views.statements import fact_sentence
from pagelink.views.templates import file_text, render, type_colours
from pagelink.views.text import clean, ordinal
from pagelink.views.wording import wording

if TYPE_CHECKING:
    from pagelink.explain.explainer import PaGELink
    from pagelink.explain.ranking import Standing
    from pagelink.runtime.arrays import Longs
    from pagelink.search.work import Setup

IN_GRAPH = "This link is in the graph already. All figures are for the graph without it."


class ExplanationWidget(anywidget.AnyWidget):
    """An explanation in a notebook: sentence, score and drawing, with facts to switch off.

    `PaGELink.widget` makes it. Its traits can be read, set and observed in Python, too.

    Args:
        explainer: made the explanation; its model is asked again.
        explanation: what is shown.

    Raises:
        LinkError: the explainer does not have this link.
        SettingsError: the paths are not in the explainer's graph.
    """

    # A module of a widget imports nothing: the shared part is put in front of it.
    _esm = file_text("switchable.js") + file_text("notebook.js")
    _css = render("notebook.css", dark=".pagelink-dark", frames=())

    off = traitlets.List(traitlets.Int()).tag(sync=True)
    """The facts that are switched off, by number, ascending."""
    logit = traitlets.Float(None, allow_none=True)
    """The score without them."""
    rank = traitlets.Int(None, allow_none=True)
    """The rank without them, among the nodes that the explanation ranks; None: it ranks none."""
    shown = traitlets.Dict().tag(sync=True)
    """What stays: the sentences, the drawing, and the facts of its paths."""
    answer = traitlets.Dict().tag(sync=True)
    """What the page says of the score without the facts that are off."""

    def __init__(self, explainer: PaGELink, explanation: Explanation) -> None:
        self._explainer, self.explanation = explainer, explanation
        src, dst = explanation.src[1], explanation.dst[1]
        self._link = explainer.link(src, dst, explanation.link_type)
        super().__init__(
            shown=self._shown(), answer=self._in_words([], None),
            logit=explanation.logit, rank=explanation.rank,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<ExplanationWidget: {' '.join(self.shown['link'])}>"

    def _shown(self) -> dict[str, Any]:
        said = wording(self.explanation)
        drawing = draw(said, type_colours(self.explanation))
        first, *others = said.opening or (said.score_sentence,)
        # Where there are no paths, or not all of them, all of it comes first.
        above = [first] if self.explanation.reason is None else [first, *others]
        return {
            "link": [said.link.subject.phrase, said.link.relation, said.link.object.phrase],
            "sentences": [*above, *([IN_GRAPH] if self.explanation.link_in_graph else [])],
            "is_relied": said.is_relied,
            "below": [*(others if above == [first] else []), *said.requests],
            "svg": drawing.svg,
            "svg_narrow": drawing.narrow,
            "width": round(drawing.width),
            "smallest": drawing.smallest,
            "paths": self._paths,
        }

    @cached_property
    def _paths(self) -> list[dict[str, Any]]:
        """The facts of the paths as the script knows them."""
        from pagelink.explain.options import facts_along

        graph, paths = self._explainer.graph, []
        for path in wording(self.explanation).paths:
            try:
                facts = facts_along(graph, path.path)
            except (IndexError, KeyError, ValueError) as error:
                raise SettingsError(
                    "The paths of this explanation are not in the graph of this explainer. Give "
                    "the explainer that made it, or explain the link again."
                ) from error
            steps = [
                {"fact": fact, "sentence": str(step.fact)}
                for fact, step in zip(facts, path.steps, strict=True)
            ]
            paths.append({"number": path.rank, "steps": steps})
        return paths

    @cached_property
    def _setup(self) -> Setup:
        return self._explainer.pipeline.setup_for(self._link)

    @cached_property
    def _nodes(self) -> Longs:
        """The nodes that the explanation ranks, or the target alone."""
        import numpy as np

        from pagelink.explain.ranking import sample_ends

        explanation, link = self.explanation, self._link
        if explanation.rank_of is None or explanation.rank_end is None:
            return np.array([link.dst])
        graph, seed, end = self._explainer.graph, explanation.seed, explanation.rank_end
        known = self._explainer.known.ends(link, end)
        return sample_ends(graph, link, explanation.rank_of, seed, end, known)[0]

    @traitlets.validate("off")
    def _checked(self, proposal: Any) -> list[int]:
        from pagelink.explain.ranking import checked_facts

        return checked_facts(self._explainer.graph, proposal["value"])

    @traitlets.observe("off")
    def _measure(self, change: Any) -> None:
        from pagelink.explain.ranking import standing_without

        off, end = change["new"], self.explanation.rank_end or "dst"
        found = None
        try:
            if off:
                found = standing_without(self._setup, self._link, self._nodes, off, end)
        except BaseException as error:  # the page must not wait for what does not come
            self.logit = self.rank = None
            problem = clean(str(error)) or type(error).__name__
            self.answer = {"off": off, "facts": self._named(off), "problem": problem}
            raise
        # The answer is last: who has seen it may read the others.
        self.logit = found.logit if found else self.explanation.logit
        if self.explanation.rank is not None:
            self.rank = found.rank if found else self.explanation.rank
        self.answer = self._in_words(off, found)

    def _in_words(self, off: list[int], found: Standing | None) -> dict[str, Any]:
        """What the page says: score and rank, before and after, and both in a sentence."""
        explanation, before = self.explanation, self.explanation.logit
        if before is None:
            return {"off": off, "facts": self._named(off), "score": None}
        change = compared(before, before if found is None else found.logit)
        answer: dict[str, Any] = {
            "off": off,
            "facts": self._named(off),
            "score": [change.before, change.after],
            "sentence": f"The score {change.change}." if off else "",
        }
        if explanation.rank is not None:
            rank = explanation.rank if found is None else found.rank
            ties = explanation.rank_ties if found is None else found.ties
            was, now = ordinal(explanation.rank), place(explanation, rank, ties)
            moves = f"goes from {was} to" if rank != explanation.rank else "stays"
            answer |= {"rank": [was, now], "is_moved": rank != explanation.rank}
            answer["sentence"] += f" The rank {moves} {now}." if off else ""
        return answer

    def _named(self, off: list[int]) -> list[str]:
        named = {step["fact"]: step["sentence"] for path in self._paths for step in path["steps"]}
        return [named.get(fact) or fact_sentence(self._explainer.graph, fact) for fact in off]
