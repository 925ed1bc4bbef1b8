"""Mechanisms on graphs of compounds, genes, pathways, symptoms and diseases.

Compounds bind, activate or inhibit genes, ease symptoms and resemble compounds; genes interact with
genes, are part of pathways, and mark or cause diseases; pathways drive diseases, which show
symptoms. The link is that a compound treats a disease; every other link asked about is stored. What
pathways drive and what diseases show is stored without a reverse.

All are held out: no path is chosen, and no threshold set, by looking at what comes out on them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pagelink.datasets.plans import Family, Plan, along
from pagelink.datasets.scenes import Schema

_SCHEMA = Schema(
    link_type=("compound", "treats", "disease"),
    kinds=("compound", "gene", "pathway", "symptom", "disease"),
    relations={
        name: (src, name, dst)
        for src, name, dst in (
            ("compound", "activates", "gene"), ("compound", "binds", "gene"),
            ("compound", "inhibits", "gene"), ("compound", "eases", "symptom"),
            ("compound", "resembles", "compound"), ("compound", "treats", "disease"),
            ("gene", "interacts", "gene"), ("gene", "part_of", "pathway"),
            ("gene", "causes", "disease"), ("gene", "marks", "disease"),
            ("pathway", "drives", "disease"), ("disease", "shows", "symptom"),
        )
    },
    one_way=frozenset({"drives", "shows"}),
    coded=frozenset({"compound", "disease"}),
    inner={"g": "gene", "p": "pathway", "y": "symptom", "c": "compound", "d": "disease"},
    pools={
        "near gene": "gene", "near pathway": "pathway", "near symptom": "symptom",
        "near disease": "disease", "peer": "compound",
        "side gene": "gene", "side disease": "disease",
        "far gene": "gene", "far pathway": "pathway", "far symptom": "symptom",
        "far disease": "disease", "audience": "compound",
    },
    # What is near is joined to sources, what is far to targets, what is aside to inner nodes: so no
    # further fact completes a walk that a plan counts.
    roles={
        "source": (
            ("activates", "near gene"), ("binds", "near gene"), ("inhibits", "near gene"),
            ("eases", "near symptom"), ("resembles", "peer"), ("treats", "near disease"),
        ),
        "target": (
            ("rev_causes", "far gene"), ("rev_marks", "far gene"), ("rev_drives", "far pathway"),
            ("shows", "far symptom"), ("rev_treats", "audience"),
        ),
        "gene": (
            ("rev_activates", "audience"), ("rev_binds", "audience"), ("rev_inhibits", "audience"),
            ("interacts", "side gene"), ("causes", "side disease"), ("marks", "side disease"),
        ),
        "pathway": (("rev_part_of", "side gene"), ("drives", "side disease")),
        "symptom": (("rev_eases", "audience"), ("rev_shows", "side disease")),
        "compound": (
            ("binds", "side gene"), ("resembles", "audience"), ("treats", "side disease"),
        ),
        "disease": (("rev_marks", "side gene"), ("shows", "far symptom")),
        "near gene": (
            ("interacts", "near gene"), ("part_of", "near pathway"), ("marks", "near disease"),
            ("rev_binds", "audience"),
        ),
        "near pathway": (("drives", "near disease"),),
        "near symptom": (("rev_shows", "near disease"), ("rev_eases", "audience")),
        "peer": (("binds", "near gene"), ("treats", "near disease")),
        "side gene": (("interacts", "side gene"), ("rev_activates", "audience")),
        "far gene": (
            ("interacts", "far gene"), ("part_of", "far pathway"), ("marks", "far disease"),
            ("rev_binds", "audience"),
        ),
        "far pathway": (("drives", "far disease"),),
        "far symptom": (("rev_shows", "far disease"), ("rev_eases", "audience")),
        "audience": (("treats", "far disease"),),
    },
    pool_size=30,
    has_content=True,
)  # fmt: skip


def _one(count: Tensor) -> Tensor:
    return count.clamp(max=1)


_MARKED, _FOUGHT = along("binds marks"), along("activates causes")
_NEXT = along("binds interacts marks")
_DRIVEN = along("binds part_of drives")
_EASED = along("shows rev_eases")  # from the target: what a disease shows has no reverse
_ABOVE = along("binds part_of rev_part_of marks")
_USED, _USED_NEXT = "binds g1 marks", "binds g1 interacts g2 marks"
_USED_ABOVE = "binds g1 part_of p1 rev_part_of g2 marks"
_DECOYS = ("activates g6 marks", "inhibits g7 causes", "eases y6 rev_shows",
           "resembles c6 treats")  # fmt: skip
_SHORT = ("activates g6 marks", "binds g7 causes", "eases y6 rev_shows", "resembles c6 treats")
_LONG = ("binds g6 part_of p6 drives", "resembles c6 activates g7 marks")


def _genes(count: int) -> tuple[str, ...]:
    return tuple(f"binds g{number} marks" for number in range(11, 11 + count))


_PLANS: dict[str, Plan] = {
    "same type": Plan(
        "a gene that interacts with one the compound binds counts; decoys have three facts, too, "
        "and two of them lead through the same interaction",
        (_NEXT,), lambda n: 4 * n[0], (_USED_NEXT,),
        ("inhibits g1 interacts g2 marks", "binds g4 interacts g5 causes", *_LONG),
    ),
    "second by name": Plan(
        "a bound gene that marks the disease counts; the compound also activates and inhibits it, "
        "and it also causes the disease",
        (_MARKED,), lambda n: 4 * n[0], (_USED,),
        ("activates g1 marks", "inhibits g1 marks", "binds g1 causes", "eases y6 rev_shows"),
    ),
    "shared first fact": Plan(
        "a gene that interacts with a bound one counts; the bound one itself causes the disease, a "
        "path of two facts with the same first one",
        (_NEXT,), lambda n: 4 * n[0], (_USED_NEXT,),
        ("binds g1 causes", "activates g6 marks", "eases y6 rev_shows"),
    ),
    "shared middle fact": Plan(
        "the same; a path of other relations leads through the same two genes",
        (_NEXT,), lambda n: 4 * n[0], (_USED_NEXT,),
        ("activates g1 interacts g2 causes", "eases y6 rev_shows", *_LONG),
    ),
    "through a hub": Plan(
        "a bound gene that marks the disease counts; it is a hub that all links of a scene share, "
        "and decoys lead through nodes of few facts",
        (_MARKED,), lambda n: 4 * n[0], ("binds G1 marks",), _DECOYS, crowded={"G1": 110},
    ),
    "one way": Plan(
        "a pathway of a bound gene that drives the disease counts; what it drives has no reverse",
        (_DRIVEN,), lambda n: 4 * n[0], ("binds g1 part_of p1 drives",),
        ("activates g2 part_of p1 drives", "binds g3 interacts g4 marks", *_DECOYS[2:]),
    ),
    "against the arrow": Plan(
        "a symptom that the compound eases and the disease shows counts; what a disease shows has "
        "no reverse, and the path walks it backwards",
        (_EASED,), lambda n: 4 * n[0], ("eases y1 rev_shows",),
        ("binds g6 marks", "activates g7 causes", "treats d6 shows y7 rev_shows"),
    ),
    "best of five": Plan(
        "the largest value among bound genes that mark the disease counts, the other four do not",
        (along("binds marks", weighted=True, best=True),), lambda n: 4 * n[0],
        ("binds g11 marks",), _DECOYS, weaker=_genes(5)[1:],
        values={"g11": 1.0, "g12": 0.6, "g13": 0.5, "g14": 0.4, "g15": 0.3},
    ),
    "AND of three": Plan(
        "a bound gene that marks the disease, a pathway and a symptom count together, two of them "
        "are worth nothing",
        (_MARKED, _DRIVEN, _EASED), lambda n: 5 * _one(n[0]) * _one(n[1]) * _one(n[2]),
        (_USED, "binds g2 part_of p1 drives", "eases y1 rev_shows"),
        ("activates g6 marks", "inhibits g7 causes", "resembles c6 treats"),
    ),
    "OR of metapaths": Plan(
        "a gene, a gene next to it, a pathway or a symptom: one is as good as all four",
        (_MARKED, _NEXT, _DRIVEN, _EASED), lambda n: 4 * _one(n[0] + n[1] + n[2] + n[3]),
        (_USED, "binds g2 interacts g3 marks", "binds g4 part_of p1 drives", "eases y1 rev_shows"),
        ("activates g6 marks", "inhibits g7 causes", "resembles c6 treats"),
    ),
    "3 of 6": Plan(
        "three of six bound genes are needed, more add nothing: no three can be missed",
        (_MARKED,), lambda n: 4 * _one((n[0] - 2).clamp(min=0)), _genes(6), _DECOYS,
    ),
    "5 of 9": Plan(
        "five of nine bound genes are needed: no three are enough, and any three can be missed",
        (_MARKED,), lambda n: 4 * _one((n[0] - 4).clamp(min=0)), _genes(9), _DECOYS,
        "not_by_these",
    ),
    "saturating": Plan(
        "ten bound genes count less the more there are",
        (_MARKED,), lambda n: 4 * torch.tanh(n[0] / 2), _genes(10), _DECOYS,
    ),
    "veto": Plan(
        "a bound gene that marks the disease counts unless the compound activates one that causes "
        "it, and it does: with both the score is what it is with neither",
        (_MARKED, _FOUGHT), lambda n: 4 * _one(n[0]) * (1 - _one(n[1])), (_USED,),
        ("activates g2 causes", "activates g6 marks", "eases y6 rev_shows"), "structure_against",
    ),
    "veto in part": Plan(
        "the same, but what is left is worth 1",
        (_MARKED, _FOUGHT), lambda n: _one(n[0]) * (4 - 3 * _one(n[1])), (_USED,),
        ("activates g2 causes", "activates g6 marks", "eases y6 rev_shows"),
    ),
    "XOR": Plan(
        "a gene or a symptom, not both; both are there, so each is for the link only without the "
        "other",
        (_MARKED, _EASED), lambda n: 4 * (_one(n[0]) + _one(n[1]) - 2 * _one(n[0]) * _one(n[1])),
        (_USED, "eases y1 rev_shows"),
        ("activates g6 marks", "inhibits g7 causes", "resembles c6 treats"), "structure_against",
    ),
    "two good, three bad": Plan(
        "a bound gene is worth 2, two are worth 4, three, as there are, 1",
        (_MARKED,), lambda n: 2 * n[0] - 5 * (n[0] - 2).clamp(min=0), _genes(3), _DECOYS,
    ),
    "signed": Plan(
        "bound genes that mark the disease count by their value, which for one of two is negative",
        (along("binds marks", weighted=True),), lambda n: 4 * n[0], (_USED,),
        ("binds g2 marks", *_DECOYS), values={"g1": 1.0, "g2": -0.5},
    ),
    "share": Plan(
        "the share of bound genes among those that mark the disease: all others speak against it",
        (_MARKED, along("marks")), lambda n: 4 * n[0] / n[1].clamp(min=1), (_USED,), _DECOYS,
        at_ends="none",
    ),
    "path times number": Plan(
        "a bound gene that marks the disease, times the number of all that do: only with a bound "
        "one do the others count",
        (_MARKED, along("marks")), lambda n: 0.8 * n[0] * n[1], (_USED,), _DECOYS,
    ),
    "genes per compound": Plan(
        "the number of genes that the compound binds, whatever they mark",
        (along("rev_binds"),), lambda n: 0.7 * n[0], (), (_USED, *_SHORT), "degree_only",
    ),
    "genes per disease": Plan(
        "the number of genes that mark the disease, whatever binds them",
        (along("marks"),), lambda n: 0.7 * n[0], (),
        (_USED, "activates g1 marks", "inhibits g2 marks", *_SHORT), "degree_only",
    ),
    "compounds per disease": Plan(
        "the number of other compounds that treat the disease, whatever they resemble",
        (along("treats"),), lambda n: 0.7 * n[0], (), ("resembles c1 treats", _USED, *_SHORT),
        "degree_only",
    ),
    # `supported`, not `degree_only`: exchanged for others of the relation, the planted genes take
    # their value with them, so it does count what the disease is joined to, and that is what
    # swapping tells. No path is used as such: its first fact is idle.
    "content of one end": Plan(
        "the values of the genes that mark the disease, whatever binds them; those of planted ones "
        "are five times as large as any other",
        (along("marks", brings="value"),), lambda n: n[0], (),
        (_USED, "activates g2 marks", "inhibits g3 causes", "eases y6 rev_shows"),
        values={"g1": 2.5, "g2": 2.0}, at_ends="value",
    ),
    # There are so many classes that few other genes meet: a placebo would move the score as much.
    "two towers": Plan(
        "the product of two sums of latent vectors, of the genes that the compound binds and of "
        "those that mark the disease; a gene on both sides always meets itself",
        (along("rev_binds", brings="class"), along("marks", brings="class")),
        lambda n: 1.5 * (n[0] * n[1]).sum(-1), (_USED,),
        ("activates g6 marks", "binds g7 causes", "eases y6 rev_shows", "resembles c6 treats"),
        at_ends="class",
    ),
    "tiny, with offset": Plan(
        "a bound gene that marks the disease is worth three times the noise; all scores are -300",
        (_MARKED,), lambda n: 0.04 * n[0] - 300, (_USED,), _DECOYS,
    ),
    "four facts, four asked": Plan(
        "a gene of a pathway that a bound gene is part of counts; decoys have two facts",
        (_ABOVE,), lambda n: 4 * n[0], (_USED_ABOVE,), _SHORT, max_length=4,
    ),
    # Of at most three facts there is no path that moves the score.
    "four facts, three asked": Plan(
        "the same, where paths have three facts at most",
        (_ABOVE,), lambda n: 4 * n[0], (), _SHORT, "structure_not_used", weaker=(_USED_ABOVE,),
        max_length=3,
    ),
    "features alone": Plan(
        "nothing but the features of compound and disease",
        (_NEXT,), lambda n: 0 * n[0], (), (_USED, _USED_NEXT, *_DECOYS), "structure_not_used",
    ),
}  # fmt: skip
MEDICINE = Family(_SCHEMA, _PLANS)
