"""Finds nodes by what is typed of their names, and what they are linked to.

All names lie in one row of bytes, so that a search is a few passes of NumPy over it: some
milliseconds for a hundred thousand names. Case and accents do not count, and words may come in any
order.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pagelink.explain.ranking import KnownLinks
from pagelink.graph.schema import EdgeType
from pagelink.graph.typed_graph import TypedGraph
from pagelink.runtime.arrays import Longs
from pagelink.views.text import words
from pagelink.web import contract
from pagelink.web.answers import node_answer

_NEAR, _LOOKED_AT, _SHORT = 0.6, 300, 3
"""How like a name has to be what was typed, as on the command line; names that are compared; words
of at most this many letters are not found with letters missing."""
_WORD = b"abcdefghijklmnopqrstuvwxyz0123456789"


def fold(text: str) -> str:
    """Return a text as it is compared: without case, accents and doubled spaces.

    Example:
        >>> fold("  Amélie  POULAIN ")
        'amelie poulain'
    """
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(letter for letter in parts if not unicodedata.combining(letter))
    return " ".join(text.casefold().split())


class NameSearch:
    """An index of names.

    Args:
        names: the names, by position.
        weights: what goes first among names that fit equally well: the higher one.

    Example:
        >>> search = NameSearch(["Heat", "The Heat", "Cheat", "Ran"], [1, 5, 9, 2])
        >>> search.find("heat", 2)
        (3, [0, 1])
    """

    def __init__(
        self, names: Sequence[str], weights: Sequence[int] | npt.NDArray[np.int32]
    ) -> None:
        folded = [fold(name).encode("utf-8", "replace") for name in names]
        self._bytes = np.frombuffer(b"\n" + b"\n".join(folded) + b"\n", dtype=np.uint8)
        lengths = np.array([len(name) for name in folded], dtype=np.int64)
        self._start = 1 + np.concatenate([[0], np.cumsum(lengths + 1)[:-1]]).astype(np.int64)
        self._length = lengths
        self._weight = np.asarray(weights, dtype=np.int64)
        code = np.arange(256)
        # Bytes from 128 up are parts of letters of other scripts.
        self._in_word = (code >= 128) | np.isin(code, np.frombuffer(_WORD, dtype=np.uint8))

    def find(self, typed: str, limit: int) -> tuple[int, list[int]]:
        """Return how many names hold every word that was typed, and the first of them.

        The name that is just what was typed comes first, then names that have it as whole words,
        names that begin with it, names with words that begin so, and all others. What is empty
        fits all.
        """
        whole = fold(typed)
        if not whole:
            found = np.arange(len(self._start))
            return len(found), self._first(found, np.zeros_like(found), limit)
        words = list(dict.fromkeys(whole.split()))
        # How many of the words each name holds at all, at the beginning of a word, as a whole word.
        counts = np.zeros((3, len(self._start)), dtype=np.int64)
        for word in words:
            wanted = word.encode("utf-8", "replace")
            at = self._places(wanted)
            begins = ~self._in_word[self._bytes[at - 1]]
            ends = ~self._in_word[self._bytes[at + len(wanted)]]
            holding = np.searchsorted(self._start, at, side="right") - 1
            kinds = holding, holding[begins], holding[begins & ends]
            for count, those in zip(counts, kinds, strict=True):
                count[np.unique(those)] += 1
        found = np.flatnonzero(counts[0] == len(words))
        whole_words, word_begins = counts[2] == len(words), counts[1] == len(words)
        kind = np.select([whole_words, word_begins], [1, 3], 4)
        wanted = whole.encode("utf-8", "replace")
        beginning = np.searchsorted(self._start, self._places(b"\n" + wanted) + 1)
        kind[beginning] = np.minimum(kind[beginning], 2)
        kind[beginning[self._length[beginning] == len(wanted)]] = 0
        return len(found), self._first(found, kind[found], limit)

    def near(self, typed: str, limit: int) -> list[int]:
        """Return names that are like what was typed, best first: typing errors are forgiven.

        What was typed may be like the name, or like a part of it that begins with a word.

        Example:
            >>> NameSearch(["Heat", "Mad Max 2 (1981)", "Ran"], [1, 1, 1]).near("mad mxa", 3)
            [1]
        """
        whole = fold(typed)
        wanted = whole.encode("utf-8", "replace")
        shared = np.zeros(len(self._start), dtype=np.int64)
        for pair in {wanted[at : at + 2] for at in range(len(wanted) - 1)}:
            shared[self._holding(self._places(pair))] += 1
        # Names that have every word but for one slip come before those that merely look alike.
        words = [word for word in wanted.split() if len(word) > 1]
        slips = [self._with_slip(word) for word in dict.fromkeys(words)]
        hit = np.logical_and.reduce(slips) if slips else np.zeros(len(shared), dtype=np.bool_)
        some = np.flatnonzero(hit | (shared > 0))
        order = np.lexsort((some, -self._weight[some], -shared[some], ~hit[some]))[:_LOOKED_AT]
        likeness = {int(i): self._likeness(whole, int(i)) for i in some[order]}
        found = [i for i, alike in likeness.items() if alike >= _NEAR or hit[i]]
        return sorted(found, key=lambda i: (not hit[i], -likeness[i], -self._weight[i], i))[:limit]

    def _with_slip(self, word: bytes) -> npt.NDArray[np.bool_]:
        """Whether a word of each name begins with a word, but for one slip of the keyboard."""
        found = np.zeros(len(self._start), dtype=np.bool_)
        swapped = {word[:i] + word[i + 1 : i + 2] + word[i : i + 1] + word[i + 2 :]
                   for i in range(len(word) - 1)}  # fmt: skip
        doubled = {word[:i] + word[i + 1 :] for i in range(len(word)) if len(word) > _SHORT}
        for variant in {word, *swapped, *doubled}:
            at = self._places(variant)
            found[self._holding(at[~self._in_word[self._bytes[at - 1]]])] = True
        for i in range(1, len(word)) if len(word) > _SHORT else ():
            head = self._places(word[:i])
            head = head[~self._in_word[self._bytes[head - 1]]]
            for rest in (word[i + 1 :], word[i:]):  # another letter, and one that is missing
                at = head[head + i + 1 + len(rest) < len(self._bytes)]
                for offset, byte in enumerate(rest, start=i + 1):
                    at = at[self._bytes[at + offset] == byte]
                found[self._holding(at)] = True
        return found

    def _holding(self, places: Longs) -> Longs:
        """The names that hold some places, each once."""
        return np.unique(np.searchsorted(self._start, places, side="right") - 1)

    def _likeness(self, typed: str, index: int) -> float:
        start = self._start[index]
        name = bytes(self._bytes[start : start + self._length[index]]).decode("utf-8", "replace")
        begins = [0, *(at + 1 for at, letter in enumerate(name) if letter == " ")]
        parts = {name[at : at + len(typed) + 1] for at in begins}
        matcher = difflib.SequenceMatcher(b=typed, autojunk=False)
        matcher.set_seq1(name)
        whole = best = matcher.ratio()
        for part in sorted(parts):
            matcher.set_seq1(part)
            if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
                best = max(best, matcher.ratio())
        return best + 0.01 * whole  # of names that hold a like part, the shortest is first

    def _first(self, found: Longs, kind: Longs, limit: int) -> list[int]:
        order = np.lexsort((found, -self._weight[found], kind))
        best: list[int] = found[order[:limit]].tolist()
        return best

    def _places(self, wanted: bytes) -> Longs:
        """Where some bytes begin; of UTF-8, whole letters only are found this way."""
        row = self._bytes
        at = np.flatnonzero(row[: len(row) - len(wanted) + 1] == wanted[0])
        for offset, byte in enumerate(wanted[1:], start=1):
            at = at[row[at + offset] == byte]
        return at


# What the nodes of a graph are linked to, in portions that a page can show.


_EXAMPLES = 6


class Neighbours:
    """Known links and facts of sources.

    Args:
        graph: the flat graph.
        link_type: the predicted relation.
        known: true links, in the graph or not.
        taken: all pairs that are no new links, the known ones among them.
    """

    def __init__(
        self, graph: TypedGraph, link_type: EdgeType, known: KnownLinks, taken: KnownLinks
    ) -> None:
        self._graph = graph
        self._link_type = link_type
        src_type, _, dst_type = link_type
        self._first_src = graph.flat_index(src_type, 0)
        self._first_dst = graph.flat_index(dst_type, 0)
        counts = dict(zip(graph.node_types, np.diff(graph.node_offset).tolist(), strict=True))
        self._num_src, self._num_dst = counts[src_type], counts[dst_type]
        self._link_class = graph.relation_class[graph.edge_types.index(link_type)]
        self._known_src, self._known_dst = self._by_source(known)
        self._taken_src, self._taken_dst = self._by_source(taken)

    def _by_source(self, pairs: KnownLinks) -> Longs:
        """Return pairs of indices in the order of their sources, [2, num_pairs]."""
        given = np.stack([pairs.src - self._first_src, pairs.dst - self._first_dst])
        ordered: Longs = given[:, np.lexsort((given[1], given[0]))]
        return ordered

    @property
    def examples(self) -> list[int]:
        """Sources to begin with, of usual degrees: some with known links, if there are such."""
        degree = self._graph.degree[self._first_src : self._first_src + self._num_src]
        linked = np.unique(self._known_src)
        pool = linked if len(linked) else np.flatnonzero(degree)
        if not len(pool):
            pool = np.arange(self._num_src)
        far = np.abs(degree[pool] - np.median(degree[pool]))
        usual: list[int] = pool[np.argsort(far, kind="stable")][:_EXAMPLES].tolist()
        return usual

    @cached_property
    def relations(self) -> list[contract.Relation]:
        """The relations that paths may go along, each with its reverse."""
        graph = self._graph
        kinds = graph.relation_class[graph.relation[graph.representative]]
        facts = np.bincount(kinds, minlength=len(graph.edge_types))
        stored = graph.edge_types[: graph.num_relations]
        names = [edge_type[1] for edge_type in stored]
        return [
            contract.Relation(
                name=edge_type[1] if names.count(edge_type[1]) == 1 else "__".join(edge_type),
                words=words(edge_type[1]),
                src_type=edge_type[0],
                dst_type=edge_type[2],
                facts=int(facts[position]),
            )
            for position, edge_type in enumerate(stored)
            if graph.relation_class[position] == position
        ]

    def all_targets(self, src: int) -> Longs:
        """All nodes that a source may be linked to: all but itself."""
        targets = np.arange(self._num_dst)
        others: Longs = targets[self._first_dst + targets != self._first_src + src]
        return others

    def known_of(self, src: int) -> Longs:
        """The targets that a source is known to be linked to, ascending."""
        graph = self._graph
        first, last = np.searchsorted(self._known_src, [src, src + 1])
        flat = self._first_src + src
        arcs = graph.arcs_of(flat)
        kinds = graph.relation_class[graph.relation[graph.arc_edge[arcs]]]
        stated = graph.arc_dst[arcs][kinds == self._link_class].astype(np.int64) - self._first_dst
        return np.union1d(self._known_dst[first:last], stated)

    def all_sources(self, dst: int) -> Longs:
        """All nodes that may be linked to a target: all but itself."""
        sources = np.arange(self._num_src)
        others: Longs = sources[self._first_src + sources != self._first_dst + dst]
        return others

    def known_sources(self, dst: int) -> Longs:
        """The sources that a target is known to be linked to, ascending."""
        graph, flat = self._graph, self._first_dst + dst
        arcs = graph.arcs_of(flat)
        kinds = graph.relation_class[graph.relation[graph.arc_edge[arcs]]]
        stated = graph.arc_dst[arcs][kinds == self._link_class].astype(np.int64) - self._first_src
        # Both ends may be of one type, and a link of the other direction is none to this target.
        inside = stated[(stated >= 0) & (stated < self._num_src)]
        linked = [
            source for source in inside.tolist()
            if graph.link_fact(self._first_src + source, flat, self._link_type) >= 0
        ]  # fmt: skip
        return np.union1d(self._known_src[self._known_dst == dst], np.array(linked, dtype=np.int64))

    def taken_of(self, src: int) -> Longs:
        """The targets that are not new to a source, ascending: known ones and further pairs."""
        first, last = np.searchsorted(self._taken_src, [src, src + 1])
        return np.union1d(self.known_of(src), self._taken_dst[first:last])

    def taken_sources(self, dst: int) -> Longs:
        """The sources that are not new to a target, ascending."""
        return np.union1d(self.known_sources(dst), self._taken_src[self._taken_dst == dst])

    def known_source_answers(self, dst: int, sources: Longs) -> list[contract.Known]:
        """Known sources, and whether the graph holds the links from them."""
        return [
            known.model_copy(update={"node": node_answer(self._graph, self._link_type[0], source)})
            for source in sources.tolist()
            for known in self.known_answers(source, np.array([dst]))
        ]

    def known_answers(self, src: int, targets: Longs) -> list[contract.Known]:
        """Known targets, and whether the graph holds the links to them."""
        graph, link_type = self._graph, self._link_type
        found = []
        for target in targets.tolist():
            node = node_answer(graph, link_type[2], target)
            ends = self._first_src + src, self._first_dst + target
            found.append(contract.Known(node=node, in_graph=graph.link_fact(*ends, link_type) >= 0))
        return found

    def facts_at(self, flat: int, limit: int, predicted: bool) -> list[contract.FactGroup]:
        """The facts of a node by relation, with or without the predicted one; most facts first."""
        graph = self._graph
        leaving = graph.arcs_of(flat)
        arcs = np.arange(leaving.start, leaving.stop)
        groups: dict[tuple[str, bool], list[int]] = {}
        relations = graph.relation[graph.arc_edge[arcs]]
        for arc, relation in zip(arcs.tolist(), relations.tolist(), strict=True):
            if not predicted and graph.relation_class[relation] == self._link_class:
                continue
            edge_type, reversed_ = graph.edge_types[relation], bool(graph.arc_reversed[arc])
            said, turned = graph.relation_words(edge_type)
            phrase = graph.phrase(edge_type, reversed_)  # from this node to the other
            key = (phrase, False) if phrase else (words(said), reversed_ != turned)
            groups.setdefault(key, []).append(int(graph.arc_dst[arc]))
        found = []
        for key, others in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
            nodes = [node_answer(graph, *graph.node(other)) for other in others[:limit]]
            found.append(
                contract.FactGroup(words=key[0], backwards=key[1], total=len(others), nodes=nodes)
            )
        return found
