"""Mechanisms on music graphs.

Listeners save, like or skip mixes, follow artists and subscribe to labels; mixes contain tracks and
feature artists; tracks are by artists, who are signed to labels, which released tracks. The link is
that a listener plays a track. The graphs do not have it, and store the reverses of all relations.
"""

from __future__ import annotations

from torch import Tensor

from pagelink.datasets.plans import Family, Plan, along
from pagelink.datasets.scenes import Schema
from pagelink.graph.schema import EdgeType

_RELATIONS: dict[str, EdgeType] = {
    name: (src, name, dst)
    for src, name, dst in (
        ("listener", "saves", "mix"), ("listener", "likes", "mix"), ("listener", "skips", "mix"),
        ("listener", "follows", "artist"), ("listener", "subscribes", "label"),
        ("mix", "contains", "track"), ("mix", "features", "artist"), ("track", "by", "artist"),
        ("artist", "signed_to", "label"), ("label", "released", "track"),
    )
}  # fmt: skip
_ROLES = {
    "source": (
        ("saves", "near mix"), ("likes", "near mix"), ("skips", "near mix"),
        ("follows", "near artist"), ("subscribes", "near label"),
    ),
    "target": (("rev_contains", "far mix"), ("by", "far artist"), ("rev_released", "far label")),
    "mix": (
        ("rev_saves", "audience"), ("rev_likes", "audience"), ("rev_skips", "audience"),
        ("contains", "near track"),
    ),
    "artist": (("rev_follows", "audience"), ("rev_by", "far track")),
    "label": (("rev_subscribes", "audience"), ("released", "far track")),
    "track": (("rev_contains", "far mix"), ("by", "near artist")),
    "near mix": (("contains", "near track"), ("rev_saves", "audience")),
    "near artist": (("rev_by", "near track"), ("rev_follows", "audience")),
    "near label": (("rev_signed_to", "near artist"), ("rev_subscribes", "audience")),
    "far mix": (("contains", "far track"), ("rev_saves", "audience")),
    "far artist": (("rev_by", "far track"), ("signed_to", "far label")),
    "far label": (("released", "far track"), ("rev_subscribes", "audience")),
}  # fmt: skip
"""From the nodes near a source no step leads to the target but by way of the audience, other
listeners."""
_SCHEMA = Schema(
    link_type=("listener", "plays", "track"),
    kinds=("listener", "mix", "track", "artist", "label"),
    relations=_RELATIONS,
    one_way=frozenset(),
    coded=frozenset({"listener"}),
    inner={"m": "mix", "t": "track", "a": "artist", "l": "label"},
    pools={
        "near mix": "mix", "near artist": "artist", "near label": "label", "near track": "track",
        "far mix": "mix", "far artist": "artist", "far label": "label", "far track": "track",
        "audience": "listener",
    },
    roles=_ROLES,
)  # fmt: skip


def _one(count: Tensor) -> Tensor:
    return count.clamp(max=1)


_SAVED, _LIKED = along("saves contains"), along("likes contains")
_FOLLOWED, _SUBSCRIBED = along("follows rev_by"), along("subscribes released")
_FEATURED = along("saves features rev_by")
_LONG = "saves m1 features a1 rev_by"
_DECOYS = ("likes m2 contains", "skips m3 contains", "follows a1 rev_by", "subscribes l1 released")
_FURTHER = ("likes m2 features a2 rev_by", "skips m3 contains")
_BY_LABEL = "subscribes l1 rev_signed_to a1 rev_by"


def _saved(count: int) -> tuple[str, ...]:
    return tuple(f"saves m{number} contains" for number in range(11, 11 + count))


_PLANS: dict[str, Plan] = {
    "metapath": Plan(
        "a saved mix with the track counts; liked and skipped ones, a followed artist and a label "
        "do not",
        (_SAVED,), lambda n: 4 * n[0], ("saves m1 contains",), _DECOYS,
    ),
    "parallel": Plan(
        "a saved mix counts; the listener also likes the same mix",
        (_SAVED,), lambda n: 4 * n[0], ("saves m1 contains",),
        ("likes m1 contains", "skips m2 contains", "follows a1 rev_by"),
    ),
    "shared, equal length": Plan(
        "an artist of a saved mix counts; a path of as many facts, by the artist's label, shares "
        "the last one",
        (_FEATURED,), lambda n: 4 * n[0], (_LONG,), (_BY_LABEL, *_FURTHER),
    ),
    "shared, shorter": Plan(
        "the same; the listener also follows that artist, a path of two facts",
        (_FEATURED,), lambda n: 4 * n[0], (_LONG,), ("follows a1 rev_by", *_FURTHER),
    ),
    "shared, lower degree": Plan(
        "the same by label, and the saved mix has 20 facts more",
        (_FEATURED,), lambda n: 4 * n[0], (_LONG,), (_BY_LABEL, *_FURTHER), crowded={"m1": 20},
    ),
    "AND": Plan(
        "a saved mix and a followed artist count together, either alone is worth nothing",
        (_SAVED, _FOLLOWED), lambda n: 5 * _one(n[0]) * _one(n[1]),
        ("saves m1 contains", "follows a1 rev_by"),
        ("likes m2 contains", "skips m3 contains", "subscribes l1 released"),
    ),
    "(A or B) and (C or D)": Plan(
        "a saved or a liked mix, and an artist or a label",
        (_SAVED, _LIKED, _FOLLOWED, _SUBSCRIBED),
        lambda n: 5 * _one(n[0] + n[1]) * _one(n[2] + n[3]),
        ("saves m1 contains", "likes m2 contains", "follows a1 rev_by", "subscribes l1 released"),
        ("skips m3 contains", "skips m4 features a2 rev_by"),
    ),
    "OR of 3": Plan(
        "a saved mix, an artist or a label: one is as good as all",
        (_SAVED, _FOLLOWED, _SUBSCRIBED), lambda n: 4 * _one(n[0] + n[1] + n[2]),
        ("saves m1 contains", "follows a1 rev_by", "subscribes l1 released"),
        ("likes m2 contains", "skips m3 contains"),
    ),
    "OR of 8": Plan(
        "one of eight saved mixes is as good as all",
        (_SAVED,), lambda n: 4 * _one(n[0]), _saved(8), _DECOYS,
    ),
    "2 of 4": Plan(
        "two of four saved mixes are needed, more add nothing",
        (_SAVED,), lambda n: 4 * _one((n[0] - 1).clamp(min=0)), _saved(4), _DECOYS,
    ),
    "5 of 8": Plan(
        "five of eight saved mixes are needed, more than may be shown, more add nothing",
        (_SAVED,), lambda n: 4 * _one((n[0] - 4).clamp(min=0)), _saved(8), _DECOYS, "not_by_these",
    ),
    "negative, for": Plan(
        "a saved mix is worth 3, a liked one -1",
        (_SAVED, _LIKED), lambda n: 3 * n[0] - n[1], ("saves m1 contains",), _DECOYS,
    ),
    "negative, against": Plan(
        "a saved mix is worth 1, each of two liked ones -2",
        (_SAVED, _LIKED), lambda n: n[0] - 2 * n[1], ("saves m1 contains",),
        (*_DECOYS, "likes m4 contains"), "structure_against",
    ),
    "popularity": Plan(
        "the number of mixes that contain the track, whoever saved them",
        (along("contains"),), lambda n: 0.7 * n[0], (), ("saves m1 contains", *_DECOYS),
        "degree_only",
    ),
    "popularity, product": Plan(
        "the number of mixes that the listener saved times that of the mixes with the track",
        (along("rev_saves"), along("contains")), lambda n: 0.2 * n[0] * n[1], (),
        ("saves m1 contains", "saves m4 contains", *_DECOYS), "degree_only",
    ),
    "features only": Plan(
        "nothing but the features of listener and track",
        (_SAVED,), lambda n: 0 * n[0], (), ("saves m1 contains", *_DECOYS), "structure_not_used",
    ),
    "small effect": Plan(
        "as the first, worth two to three times the noise",
        (_SAVED,), lambda n: 0.03 * n[0], ("saves m1 contains",), _DECOYS,
    ),
    "offset": Plan(
        "as the first, with 500 added to all scores",
        (_SAVED,), lambda n: 4 * n[0] + 500, ("saves m1 contains",), _DECOYS,
    ),
    "four facts": Plan(
        "an artist of whom the listener saved another track counts; decoys have three facts",
        (along("saves contains by rev_by"),), lambda n: 4 * n[0],
        ("saves m1 contains t1 by a1 rev_by",),
        ("likes m2 features a2 rev_by", "subscribes l1 rev_signed_to a3 rev_by",
         "follows a4 signed_to l2 released"),
    ),
    "forty": Plan(
        "forty saved mixes count, each a fortieth: no three of them reach a tenth",
        (_SAVED,), lambda n: 0.1 * n[0], _saved(40), _DECOYS, "not_by_these",
    ),
}  # fmt: skip
MUSIC = Family(_SCHEMA, _PLANS)
