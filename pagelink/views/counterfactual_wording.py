"""A counterfactual in plain words: which facts would have to be missing, and what would be then."""

from __future__ import annotations

from collections.abc import Sequence

from pagelink.explain.counterfactual import Counterfactual, RemovedFact
from pagelink.views.naming import clean
from pagelink.views.statements import compared, enumerated, in_words


def to_text(found: Counterfactual) -> str:
    """Return the counterfactual in a few sentences, scores in the words of the other views."""
    return " ".join(clean(sentence) for sentence in _sentences(found) if sentence)


def _sentences(found: Counterfactual) -> Sequence[str]:
    who, what = found.src_name, found.dst_name
    if found.reason == "already_negative":
        score = in_words(found.threshold, found.logit)
        return (
            f"The model does not predict {what} for {who} in the first place: it puts the chance "
            f"at {score}.",
        )
    if found.reason == "not_in_top_k":
        return (
            f"{what} is not among the first {found.top_k} for {who} in the first place: it has "
            f"rank {found.rank} of {found.rank_of}.",
        )
    if found.reason == "no_facts":
        where = f"at {who}" if found.at == "source" else f"on a path from {who} to {what}"
        return (f"The model sees no fact {where}, so that there is nothing to remove.",)
    if found.reason == "none_found":
        return _none_found(found)
    outcome = (
        f"the model would not predict {what} for {who}"
        if found.top_k is None
        else f"{what} would not be among the first {found.top_k} for {who}"
    )
    place = f"{found.instead} would take its place." if found.instead is not None else ""
    if len(found.facts) == 1:
        fewer = ""
    elif found.smallest:
        fewer = "Fewer facts do not do it: all of them were tried."
    else:
        fewer = "Each of these facts is needed; whether other, fewer ones do it was not tried."
    return f"Without the {_that(found.facts)}, {outcome}: {_change(found)}.", place, fewer


def _none_found(found: Counterfactual) -> Sequence[str]:
    where = f"at {found.src_name}" if found.at == "source" else "on paths to the target"
    aim = (
        "turn the prediction" if found.top_k is None else f"move it out of the first {found.top_k}"
    )
    tried = "all were tried" if found.smallest else "not all could be tried"
    if found.budget == 1:
        which = f"None of the {found.num_facts} facts {where} was found to {aim} alone"
    else:
        which = f"No {found.budget} or fewer of the {found.num_facts} facts {where} were found to "
        which += f"{aim} together"
    rest = ""
    if found.logit_without_all is not None and len(found.facts) < found.num_facts:
        answer = in_words(found.threshold, found.logit_without_all)
        noun = "score" if found.threshold is None else "estimate"
        rest = f"Without all {found.num_facts} facts its {noun} would be {answer}."
    nearest = f"The removal of the {_that(found.facts)} comes nearest: {_change(found)}."
    return f"{which} ({tried}).", nearest if found.facts else "", rest


def _change(found: Counterfactual) -> str:
    answers = compared(found.threshold, found.logit, found.logit_without)
    if answers.direction:
        verb = "fall" if answers.direction < 0 else "rise"
        score = f"its {answers.noun} would {verb} from {answers.before} to {answers.after}"
    else:
        score = f"its {answers.noun} would stay at {answers.before}"
    if found.rank == found.rank_without:
        return f"{score}, and it would keep rank {found.rank} of {found.rank_of}"
    return f"{score}, and its rank would go from {found.rank} to {found.rank_without} of " + str(
        found.rank_of
    )


def _that(facts: Sequence[RemovedFact]) -> str:
    """`fact that A likes B`, `facts that A likes B and that A likes C`."""
    word = "fact" if len(facts) == 1 else "facts"
    return f"{word} " + enumerated(f"that {fact}" for fact in facts) if facts else word
