"""The audit in the explorer: what is on its page, and the links behind each figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from fastapi import Response
from pydantic import Field

from pagelink.audit.carriers import Suspects
from pagelink.audit.figures import CarrierSummary
from pagelink.audit.job import summariser
from pagelink.audit.page import SHOWN, to_fragment
from pagelink.audit.result import Audit
from pagelink.audit.rows import Row, make_rows, settle, suspects_of
from pagelink.audit.sampling import distinct
from pagelink.audit.summary import carried_by, judged, measured_rows, verifying_rows
from pagelink.audit.wording import part_words, signed, verdict_rows
from pagelink.errors import LinkError, SettingsError
from pagelink.explain.explainer import PaGELink
from pagelink.graph.links import LinkLike
from pagelink.measure.verdict import PARTS
from pagelink.views.text import clean, count
from pagelink.views.text import words as plain_words
from pagelink.web.answers import attachment
from pagelink.web.contract import Answer, ModelRequest

MOST = 500
"""Links that can be audited on request."""


AuditFormat = Literal["html", "json"]


class AuditSaved(ModelRequest):
    """An audit as a file."""

    links: int = Field(
        20, ge=1, le=MOST, description="Links to audit; of no meaning if an audit was given."
    )


class AuditAsked(AuditSaved):
    """What the model relies on."""

    done: int = Field(
        0,
        ge=0,
        le=2 * MOST,
        description="Steps done, by the answer before: one more is taken.",
    )


class AuditedLink(Answer):
    """A link of an audit."""

    src: int
    dst: int
    src_name: str
    dst_name: str
    logit: float | None
    verdict: str = Field(description="In words, or why there is none.")


class FigureLinks(Answer):
    """The links behind a figure."""

    title: str
    links: list[int] = Field(description="Their places among the links of the audit.")
    values: list[str] = Field(description="The figure of each of them; empty: it has none.")


class AuditPage(Answer):
    """An audit, ready to be shown."""

    html: str = Field(description="A figure in it is a link to ?audit=KEY.")
    links: list[AuditedLink]
    figures: dict[str, FigureLinks] = Field(description="By key.")


class Audited(Answer):
    """How far an audit is, and all of it in the end."""

    done: int = Field(
        description="Steps: each link is measured, then what moves several links is tried on each."
    )
    total: int
    page: AuditPage | None = Field(description="Null: steps are missing; ask on with `done`.")


class Audits:
    """An audit that was given, or one that is made link by link, as it is requested.

    Args:
        explainer: what measures links.
        given: an audit that was made before.
        sample: from a number to that many links.
        title: what the page calls the model.

    Raises:
        SettingsError: the audit is about other links, or nodes of another graph.
    """

    def __init__(
        self, explainer: PaGELink, given: Audit | None,
        sample: Callable[[int], list[LinkLike]] | None, title: str,
    ) -> None:  # fmt: skip
        self._explainer, self._sample, self._title = explainer, sample, title
        self._runs: dict[int, _Run] = {}
        self._given = given
        if given is not None:
            self._check(given)

    def _check(self, audit: Audit) -> None:
        link_type = self._explainer.link_types[0]
        if audit.link_type != link_type:
            raise SettingsError(
                f"The audit is about {' '.join(audit.link_type)}, and the model predicts "
                f"{' '.join(link_type)}. Give an audit of this model."
            )
        for row in audit.rows:
            for node, name in ((row.src, row.src_name), (row.dst, row.dst_name)):
                if row.is_measured and _name(self._explainer, node) != name:
                    raise SettingsError(
                        f"The audit was made on another graph: its {node[0]} {node[1]} is "
                        f"{name!r}, here it is {_name(self._explainer, node)!r}."
                    )

    @property
    def state(self) -> Literal["given", "run", "none"]:
        """Whether an audit is there, can be run, or neither."""
        return "given" if self._given else "run" if self._sample else "none"

    def audit(self, links: int, done: int) -> Audited:
        """Take one more step; with the last one, the audit is complete.

        A link at a time, so that other questions are answered in between.

        Raises:
            LinkError: there is no audit, and no links to make one of.
            SettingsError: there are no such links.
        """
        if self._given is not None:
            total = 2 * len(self._given.rows)
            return Audited(done=total, total=total, page=page_of(self._given))
        run = self._run(links)
        if done >= run.done:
            run.step()
        page = None if run.audit is None else page_of(run.audit)
        return Audited(done=run.done, total=run.total, page=page)

    def saved(self, links: int) -> Audit:
        """Return an audit that is complete.

        Raises:
            LinkError: there is none.
        """
        found = self._given or self._run(links).audit
        if found is None:
            raise LinkError(
                f"The audit of {count(links, 'link')} is not complete. Ask for /api/audit until "
                "the answer has a page."
            )
        return found

    def _run(self, links: int) -> _Run:
        if self._sample is None:
            raise LinkError("No audit was given, and there are no links to make one of.")
        if links not in self._runs:
            self._runs[links] = _Run(self._explainer, self._sample(links), self._title)
        return self._runs[links]


class _Run:
    """An audit that is made step by step: each link is measured, then settled.

    Args:
        explainer: what measures links.
        links: the links.
        title: what the page calls the model.
    """

    def __init__(self, explainer: PaGELink, links: list[LinkLike], title: str) -> None:
        self._summarise = summariser(explainer, (), title)
        self._explainer, self._links = explainer, distinct(explainer.reader, links)
        self._rows: list[Row] = []
        self._suspects: Suspects = ((), ())
        self.done, self.total = 0, 2 * len(self._links)
        self.audit: Audit | None = None

    def step(self) -> None:
        """Measure a link; after the last one, settle one."""
        if self.done == self.total:
            return
        rows, at = self._rows, self.done % len(self._links)
        link = self._links[at]
        if self.done < len(self._links):
            rows += make_rows(self._explainer, [link])
            if len(rows) == len(self._links):
                self._suspects = suspects_of(rows)
        else:
            read = self._explainer.reader.read_any(link)
            rows[at] = settle(self._explainer, read, rows[at], self._suspects)
        self.done += 1
        if self.done == self.total:
            self.audit = self._summarise(rows)


def saved_audit(audit: Audit, kind: AuditFormat) -> Response:
    """Return an audit as an attachment, as `pagelink audit` writes it."""
    content = audit.to_html() if kind == "html" else audit.to_json()
    return attachment(content, kind, f"audit-{audit.title}")


def _name(explainer: PaGELink, node: tuple[str, int]) -> str | None:
    """The name of a node; None: the graph does not have it."""
    try:
        return explainer.graph.node_name(explainer.graph.find_node(*node))
    except LinkError:
        return None


def page_of(audit: Audit) -> AuditPage:
    """Return an audit, ready to be shown."""
    return AuditPage(
        html=to_fragment(audit),
        links=[
            AuditedLink(
                src=row.src[1], dst=row.dst[1], src_name=row.src_name, dst_name=row.dst_name,
                logit=row.logit, verdict=verdict_rows({judged(row): 1})[0][0],
            )
            for row in audit.rows
        ],
        figures=opened(audit),
    )  # fmt: skip


def opened(audit: Audit) -> dict[str, FigureLinks]:
    """Return the links behind each figure of the page, by the key of the figure."""
    rows, names = audit.rows, part_words(audit.link_type)
    measured, verifying = measured_rows(rows), verifying_rows(rows, audit.seed)
    found = {"all": _links("All links of the audit", range(len(rows)))}
    for name in PARTS:
        found[f"part-{name}"] = _by_value(
            names[name], [(i, game.parts[name].value) for i in measured if (game := rows[i].game)]
        )
    found["interaction"] = _by_value(
        "interaction of source and target",
        [(i, game.interaction.value) for i in measured if (game := rows[i].game)],
    )
    for at, relation in enumerate(sorted(audit.direct_relations)):
        joined = (i for i in measured if relation in rows[i].direct_relations)
        found[f"direct-{at}"] = _links(f"Joined directly by {plain_words(relation)}", joined)
    for at, chain in enumerate(sorted(audit.records or {})):
        recorded = (i for i in measured if chain in rows[i].records)
        found[f"record-{at}"] = _links(f"Raised by {chain}", recorded)
    for at, (told, _) in enumerate(verdict_rows(audit.verdicts)):
        same = (i for i in measured if verdict_rows({judged(rows[i]): 1})[0][0] == told)
        found[f"verdict-{at}"] = _links(told, same)
    for at, each in enumerate(audit.metapaths[:SHOWN]):
        have = [(i, one.worth) for i in verifying for one in rows[i].metapaths
                if one.words == each.words]  # fmt: skip
        carried = [(i, worth) for i, worth in have if each.words in carried_by(rows[i])]
        found[f"carried-{at}"] = _by_value(f"Carried by {each.words}: its worth", carried, _plain)
        found[f"has-{at}"] = _by_value(f"With {each.words}: its worth", have, _plain)
    for kind, carriers in (("fact", audit.facts), ("node", audit.nodes)):
        for at, carrier in enumerate(carriers[:SHOWN]):
            found[f"{kind}-{at}"] = _by_value(
                f"Moved by {clean(carrier.text)}: what it adds to the score",
                [(i, _effect(rows[i], carrier)) for i in carrier.rows],
            )
    for at, group in enumerate(audit.groups):
        title = f"By {group.by}: {clean(group.label)}"
        found[f"group-{at}"] = _links(title, group.rows)
        for key, verdict, what in (
            ("paths", "supported", "carried by paths"), ("popular", "degree_only", "by popularity")
        ):  # fmt: skip
            chosen = [i for i in group.rows if rows[i].verdict == verdict]
            found[f"group-{at}-{key}"] = _links(f"{title}, {what}", chosen)
    return found


def _links(title: str, rows: Iterable[int], values: Iterable[str] = ()) -> FigureLinks:
    return FigureLinks(title=title, links=list(rows), values=list(values))


_plain = "{:.2f}".format


def _by_value(
    title: str, pairs: Iterable[tuple[int, float]], words: Callable[[float], str] = signed
) -> FigureLinks:
    """Links by a figure of theirs, the largest first."""
    order = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
    return _links(title, (i for i, _ in order), (words(value) for _, value in order))


def _effect(row: Row, carrier: CarrierSummary) -> float:
    same = (
        e for e in (*row.facts, *row.nodes) if (e.kind, e.nodes) == (carrier.kind, carrier.nodes)
    )
    return next(same).effect
