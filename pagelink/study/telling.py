"""What is said of a study when it is made: what is in it, and what it can tell."""

from __future__ import annotations

from pagelink.study.create import Made, Plan
from pagelink.study.sample_size import ALIKE, needed


def lines_about(made: Made, plan: Plan, difference: float) -> list[str]:
    """Say what was made, and how many answers are needed to tell a difference."""
    lines = [
        f"Wrote {made.path}: {made.num_links} links, each explained by {len(plan.explainers)} "
        f"explainers with at most {plan.budget} facts, and {made.num_forecasts} forecasts "
        f"({', '.join(f'{count} {truth}' for truth, count in made.truths.items())})."
    ]
    if made.num_links < plan.links:
        lines.append(
            f"{plan.links} links were asked for: the model predicts no more test links that have "
            "a path."
        )
    if made.merged:
        lines.append(
            f"In {made.merged} places explainers show the same facts: there they are one option, "
            "and share its choice in equal parts."
        )
    lines += [
        f"{name} has nothing to show for {count} links: its explanation is empty there."
        for name, count in made.empty.items()
    ]
    each = min(plan.per_person, made.num_links)  # nobody is asked about one link twice
    size = needed(
        difference, made.num_links, made.num_forecasts, len(plan.explainers) + 1, plan.wanted, each
    )  # fmt: skip
    lines += [
        f"To tell a difference of {100 * difference:g} points (two-sided at 5 %, found in four of "
        "five studies):",
        f"- between the shares of two explainers, {size.best:,} answers are enough; "
        f"{plan.wanted} a question are {size.best_planned:,};",
        "- between right forecasts with one explainer's explanation and without, "
        f"{size.forecast:,} answers over all variants; {plan.wanted} a question are "
        f"{size.forecast_planned:,}.",
        f"Answers of one person are alike: with {each} each, alike by {ALIKE:g}, "
        f"{size.design_effect:.1f} times as many are needed.",
    ]
    return lines
