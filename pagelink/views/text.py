"""The text view: what an explanation says, for people who do not know the model."""

from __future__ import annotations

from pagelink.explanation import Explanation
from pagelink.views.wording import PathWords, wording


def to_text(explanation: Explanation) -> str:
    """Return the explanation in plain words, one fact a line."""
    said = wording(explanation)
    head = [*said.opening, f"The link: {said.link}", said.score_sentence, *said.requests]
    blocks = ["\n".join(head)]
    for group in said.groups:
        blocks.append(f"{group.heading}:")
        blocks.extend(_path_block(path) for path in group.paths)
    if said.caveat:
        blocks.append(said.caveat)
    if said.figures:
        lines = [f"- {about}: {answer}" for about, answer in said.figures]
        blocks.append("\n".join(["The model's answers:", *lines]))
    if said.notes:
        blocks.append("\n".join(["Notes:", *(f"- {note}" for note in said.notes)]))
    return "\n\n".join(blocks)


def _path_block(path: PathWords) -> str:
    number = f"{path.rank}. "
    lines = [*(str(step) for step in path.steps), *path.remarks]
    return number + f"\n{' ' * len(number)}".join(lines)
