"""What the model was asked, by what rule paths were chosen, and the model's answers, in words."""

from __future__ import annotations

from pagelink.explanation import Explanation
from pagelink.verdicts import Evidence
from pagelink.views.naming import count
from pagelink.views.score_wording import in_words, score_noun
from pagelink.views.statements import enumerated, these_facts


def caveat(explanation: Explanation) -> str:
    """Return what the choice of the paths does and does not say; empty if there are none."""
    if not explanation.paths:
        return ""
    noun = score_noun(explanation.threshold)
    if explanation.reason == "predicted_negative":
        return (
            "The facts of each path were taken out of the graph and the model was asked again: a "
            f"path speaks for the link if its {noun} then falls, and against it if it rises."
        )
    if explanation.evidence is not None:
        return rule(explanation, explanation.evidence)
    preferred = ["few facts", "nodes with few links"]
    if explanation.epochs:
        preferred.append("links to which the learned mask gives weight")
    return (
        f"Each path is a chain of facts of the graph. The ranking prefers {enumerated(preferred)}."
        " How much the model's answer depends on a path was not measured."
    )


def rule(explanation: Explanation, evidence: Evidence) -> str:
    """Return what was measured, and by what rule the paths were chosen."""
    rho, reached = explanation.settings.rho, evidence.rho_reached
    asked = "put into the graph without any path" if evidence.inserted else "taken out of the graph"
    if evidence.num_sets == 1:
        return (
            f"The facts of the only combination of paths to try were {asked} and the model was "
            "asked again."
        )
    measured = f"The facts of {count(evidence.num_sets, 'combination')} of paths were {asked}"
    if reached is None:
        chosen = "none had an effect in favour of the link, and the most concise paths are shown"
    elif rho == 0:
        chosen = (
            f"the most concise paths are shown, which reach {reached:.0%} of the largest effect"
        )
    elif rho == 1:
        chosen = "the combination with the largest effect is shown"
    else:
        chosen = (
            f"of the combinations that reach {rho:.0%} of the largest effect the most concise one "
            f"is shown, which reaches {reached:.0%}"
        )
    return f"{measured} and the model was asked again; {chosen}."


def figures(explanation: Explanation) -> tuple[tuple[str, str], ...]:
    """Return the model's answers on edited graphs, each with what it is about."""
    evidence, logit = explanation.evidence, explanation.logit
    if evidence is None or logit is None or not explanation.paths:
        return ()
    these = these_facts(explanation.paths)
    whole = "with all facts but the link itself" if explanation.link_in_graph else "with all facts"
    answers = {
        whole: logit,
        f"without {these}": evidence.logit_without_these,
        "without any path": evidence.logit_without_paths,
        "without any fact at all": evidence.logit_without_edges,
        f"with only {these}": evidence.logit_only_these,
    }
    noun = score_noun(explanation.threshold)
    missing = f"cannot be said, since without the paths the {noun} is not lower"
    share = missing if evidence.sufficiency is None else f"{evidence.sufficiency:.0%}"
    return (
        *((about, in_words(explanation.threshold, answer)) for about, answer in answers.items()),
        ("of the difference that all paths make, these bring back", share),
    )
