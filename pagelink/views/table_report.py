"""A page about many explained links: coverage, verdicts, metapaths, slowest, worst, errors.

It is made from rows as `rows.SCHEMA` has them, one table after the other. What is kept grows with
the number of metapaths, up to a limit, not with the number of links.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pagelink import __version__
from pagelink.measure.verdict import Verdict
from pagelink.views.templates import render
from pagelink.views.text import clean, count, percent, words
from pagelink.views.verdict_wording import VERDICT_WORDS

LISTED = 10
"""Links that each list has at most."""
MOST_METAPATHS = 10_000
"""Metapaths that are counted each by itself; paths along others are counted together."""
METAPATHS_SHOWN = 20
_MILLION = 1_000_000
"""Times and shares are summed in millionths: sums of whole numbers do not depend on the order."""
_COLUMNS = [
    "line", "src_type", "src", "relation", "dst_type", "dst", "reason", "message", "verdict",
    "strongest_share", "path", "metapath", "path_share", "is_evidence", "direct_relations",
    "seconds",
]  # fmt: skip
_REASONS = {
    "not_connected": "no chain of facts connects source and target",
    "beyond_max_length": "every chain of facts is longer than the maximum length",
    "pruned_away": "pruning has cut every chain of facts",
    "excluded": "what was excluded leaves no chain of facts",
    "predicted_negative": "the model does not predict the link",
    "invalid": "the link cannot be explained as it was given (see Errors)",
    "out_of_time": "the deadline was reached",
}


@dataclass(frozen=True)
class Cell:
    """A figure, with a bar if it is a share."""

    text: str
    share: float | None = None


@dataclass(frozen=True)
class Row:
    """A row of a table of the page."""

    name: str
    cells: tuple[Cell, ...]
    detail: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    heading: str
    columns: tuple[str, ...]
    rows: list[Row]
    note: str = ""
    """Before the table."""
    more: str = ""
    """Behind the table."""
    is_text: bool = False
    """Cells are sentences, not figures."""


@dataclass
class _Metapath:
    """What is counted of the paths along a metapath."""

    links: int = 0
    relied: int = 0
    """Links of which some path along it is evidence."""
    shares: int = 0
    """Paths whose share was measured."""
    millionths: int = 0
    """The sum of these shares, each between 0 and 1."""


@dataclass
class _Worst:
    """The first few links by some number, the largest first; by their lines among equals."""

    links: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)
    total: int = 0

    def add(self, value: float, row: dict[str, Any]) -> None:
        self.total += 1
        # A heap of the kept ones: the first is the one to go.
        entry = value, -(row["line"] or 0), row
        if len(self.links) < LISTED:
            heapq.heappush(self.links, entry)
        elif entry[:2] > self.links[0][:2]:
            heapq.heapreplace(self.links, entry)

    def rows(self) -> Iterable[dict[str, Any]]:
        return (row for *_, row in sorted(self.links, key=lambda e: e[:2], reverse=True))

    def more(self) -> str:
        others = self.total - len(self.links)
        return f"and {count(others, 'further link')}." if others > 0 else ""


@dataclass
class TableReport:
    """Counts the rows of a job, table by table, and says on a page what they come to."""

    num_links: int = 0
    with_paths: int = 0
    microseconds: int = 0
    """CPU time of all links."""
    reasons: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    direct: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    metapaths: dict[str, _Metapath] = field(default_factory=dict)
    other_paths: int = 0
    """Paths along metapaths beyond `MOST_METAPATHS`."""
    slowest: _Worst = field(default_factory=_Worst)
    weakest: _Worst = field(default_factory=_Worst)
    """Links whose paths do least beside as many of the strongest facts."""
    late: _Worst = field(default_factory=_Worst)
    errors: _Worst = field(default_factory=_Worst)
    _line: int | None = None
    _seen: dict[str, bool] = field(default_factory=dict)
    """Metapaths of the present link, and whether one of its paths along them is evidence."""

    def add(self, table: pa.Table) -> None:
        """Count the next rows; those of a link follow each other, also from table to table."""
        for row in table.select(_COLUMNS).to_pylist():
            if row["path"] is None or row["line"] != self._line:
                self._add_link(row)
            if row["path"] is not None:
                self._add_path(row)

    def _add_link(self, row: dict[str, Any]) -> None:
        self._line, self._seen = row["line"], {}
        self.num_links += 1
        self.with_paths += row["path"] is not None
        self.microseconds += round(_MILLION * (row["seconds"] or 0.0))
        self.kinds[row["src_type"] or "?", row["relation"] or "?", row["dst_type"] or "?"] += 1
        if row["reason"] is not None:
            self.reasons[row["reason"]] += 1
        if row["verdict"] is not None:
            self.verdicts[row["verdict"]] += 1
        self.direct.update(row["direct_relations"] or ())
        if row["reason"] == "invalid":
            self.errors.add(0, row)
            return
        self.slowest.add(row["seconds"] or 0.0, row)
        if row["reason"] == "out_of_time":
            self.late.add(row["seconds"] or 0.0, row)
        if row["strongest_share"] is not None and row["path"] is not None:
            self.weakest.add(-row["strongest_share"], row)

    def _add_path(self, row: dict[str, Any]) -> None:
        name = row["metapath"] or "?"
        if name not in self.metapaths and len(self.metapaths) >= MOST_METAPATHS:
            self.other_paths += 1
            return
        found = self.metapaths.setdefault(name, _Metapath())
        found.links += name not in self._seen
        # Under other verdicts a path may raise the score, and yet paths do not carry it.
        relied = bool(row["is_evidence"]) and _is_relied(row["verdict"])
        found.relied += relied and not self._seen.get(name)
        self._seen[name] = relied or bool(self._seen.get(name))
        if row["path_share"] is not None:
            found.shares += 1
            found.millionths += round(_MILLION * min(max(row["path_share"], 0.0), 1.0))

    # The page.

    def to_html(self, source: str) -> str:
        """Return one self-contained page that needs no network; `source` is where rows are from."""
        sections = [self._coverage(), self._verdicts(), self._metapaths(), *self._worst()]
        sections += [self._slowest(), self._errors()]
        return render(
            "table-report.html",
            heading=self._heading(),
            opening=self._opening(),
            cautions=self._cautions(),
            sections=[each for each in sections if each is not None],
            source=clean(source),
            version=__version__,
        )

    def _heading(self) -> str:
        number = count(self.num_links, "link")
        if len(self.kinds) != 1:
            return f"{number} explained" if self.num_links else "No links"
        src, relation, dst = map(words, next(iter(self.kinds)))
        return f"{number}: {src} → {relation} → {dst}"

    def _opening(self) -> list[str]:
        if not self.num_links:
            return ["The table has no links."]
        relied = sum(n for name, n in self.verdicts.items() if _is_relied(name))
        judged = self.verdicts.total()
        told = [f"{self._part(self.with_paths)} have paths."]
        if judged:
            told.append(
                f"For {relied:,} of {count(judged, 'link')} with a verdict "
                f"({percent(relied / judged)}), the paths carry the prediction."
            )
        spent = self.microseconds / _MILLION
        mean = _seconds(spent / self.num_links)
        told.append(f"Explaining took {_seconds(spent)} of CPU time, {mean} per link.")
        return told

    def _cautions(self) -> list[str]:
        return [
            f"For {self._part(number)}, {words(name)!r} joins source and target directly: it may "
            f"be the link itself under another name. If so, leave it out by --exclude-relation "
            f"{clean(name)}."
            for name, number in sorted(self.direct.items())
            if 2 * number > self.num_links
        ]

    def _part(self, number: int) -> str:
        return f"{number:,} of {count(self.num_links, 'link')} ({percent(number / self.num_links)})"

    def _of_all(self, number: int) -> Cell:
        return _of(number, self.num_links)

    def _coverage(self) -> Section | None:
        if not self.num_links:
            return None
        without = self.num_links - self.with_paths
        rows = [Row("With paths", (self._of_all(self.with_paths),))]
        if without:
            rows.append(Row("Without paths", (self._of_all(without),)))
        for name, number in _by_number(self.reasons):
            rows.append(Row(f"Reason: {_REASONS.get(name, words(name))}", (self._of_all(number),)))
        note = "A link has a reason if it has no paths, or if what it has is not complete."
        return Section("Coverage", ("", "Links"), rows, note if self.reasons else "")

    def _verdicts(self) -> Section | None:
        judged = self.verdicts.total()
        if not judged:
            return None
        rows = []
        for name, told in reversed(VERDICT_WORDS.items()):
            short = told.short[0].upper() + told.short[1:]
            rows.append(Row(short, (_of(self.verdicts[name], judged),), name))
        note = f"Whether the model relies on the paths, of {count(judged, 'link')} with a verdict."
        return Section("Verdicts", ("Verdict", "Links"), rows, note)

    def _metapaths(self) -> Section | None:
        if not self.metapaths:
            return None
        order = sorted(self.metapaths.items(), key=lambda item: (-item[1].links, item[0]))
        rows = []
        for name, found in order[:METAPATHS_SHOWN]:
            mean = found.millionths / found.shares / _MILLION if found.shares else None
            rows.append(
                Row(
                    name,
                    (
                        _of(found.links, self.with_paths),
                        _of(found.relied, self.with_paths),
                        Cell("not measured") if mean is None else Cell(percent(mean), mean),
                    ),
                )
            )
        note = (
            f"Node types and relations of the paths; shares of {count(self.with_paths, 'link')} "
            "with paths. Relied on: the paths carry the prediction, and one along it is evidence. "
            "Mean share: of what the paths of a link do together, the part that is lost without "
            "the path, between 0 and 100 %."
        )
        hidden = len(order) - METAPATHS_SHOWN
        more = [f"{count(hidden, 'further metapath')} with fewer links."] if hidden > 0 else []
        if self.other_paths:
            more.append(
                f"{count(self.other_paths, 'path')} along metapaths that came after the first "
                f"{MOST_METAPATHS:,} are not counted here."
            )
        columns = ("Metapath", "Links", "Relied on", "Mean share")
        return Section("Metapaths", columns, rows, note, " ".join(more))

    def _worst(self) -> list[Section | None]:
        weak = None
        if self.weakest.total:
            rows = []
            for row in self.weakest.rows():
                verdict = VERDICT_WORDS[row["verdict"]].short if row["verdict"] else ""
                rows.append(_link(row, _share(row["strongest_share"]), verdict))
            note = (
                "Worst: removing the shown paths lowers the score least, compared with as many of "
                "the strongest facts found anywhere. At 100 %, no other facts do more; near 0 %, "
                "the prediction rests on facts that the paths do not show."
            )
            weak = Section("Worst explained links", ("Link", "Share"), rows, note)
        late = None
        if self.late.total:
            rows = [_link(row, Cell(_seconds(row["seconds"]))) for row in self.late.rows()]
            note = "Not decided: the deadline was reached before all was searched or measured."
            late = Section("Out of time", ("Link", "CPU time"), rows, note, self.late.more())
        return [weak, late]

    def _slowest(self) -> Section | None:
        rows = list(self.slowest.rows())
        if not rows:
            return None
        top = max(rows[0]["seconds"] or 0.0, 1e-9)
        cells = [Cell(_seconds(row["seconds"]), (row["seconds"] or 0.0) / top) for row in rows]
        told = [_link(row, cell) for row, cell in zip(rows, cells, strict=True)]
        note = "Links are explained several at a time; the time of a link is its share of that."
        return Section("Slowest links", ("Link", "CPU time"), told, note)

    def _errors(self) -> Section | None:
        if not self.errors.total:
            return None
        rows = [
            _link(row, Cell(clean(row["message"] or "no message"))) for row in self.errors.rows()
        ]
        note = f"{self._part(self.errors.total)} could not be explained."
        return Section(
            "Errors", ("Link", "What is wrong"), rows, note, self.errors.more(), is_text=True
        )


def _is_relied(verdict: Verdict | None) -> bool:
    return verdict is not None and VERDICT_WORDS[verdict].is_relied


def _by_number(counts: Counter[str]) -> list[tuple[str, int]]:
    """Return what was counted, most first, by name among equals."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _of(number: int, total: int) -> Cell:
    share = number / max(total, 1)
    return Cell(f"{number:,} ({percent(share)})", share)


def _link(row: dict[str, Any], cell: Cell, detail: str = "") -> Row:
    """Return the row of a link, by its names."""
    names = (clean(row["src"] or "?"), words(row["relation"] or "?"), clean(row["dst"] or "?"))
    where = f"line {row['line']}" if row["line"] is not None else ""
    return Row(" → ".join(names), (cell,), " · ".join(filter(None, (where, detail))))


def _share(share: float) -> Cell:
    """Return a share as a figure that makes sense, also where it is beyond 0 or 1."""
    if share <= 0:
        return Cell("nothing", 0.0)
    return Cell(percent(share), share) if round(share, 2) <= 1 else Cell("more than all", 1.0)


def _seconds(seconds: float | None) -> str:
    """Return a time in words.

    Example:
        >>> _seconds(0.0021), _seconds(4.2), _seconds(192.0), _seconds(9000)
        ('2.1 ms', '4.2 s', '3.2 minutes', '2.5 hours')
    """
    value = seconds or 0.0
    for least, size, unit in ((7200, 3600, "hours"), (120, 60, "minutes"), (1, 1, "s")):
        if value >= least:
            return f"{value / size:.1f} {unit}"
    return f"{1000 * value:.1f} ms"
