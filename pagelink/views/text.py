"""The text view: what an explanation says, for people who do not know the model."""

from __future__ import annotations

from pagelink.explanation import Explanation
from pagelink.views.wording import PathWords, wording


def to_text(explanation: Explanation) -> str:
    """Return the explanation in plain words, one fact a line."""
    said = wording(explanation)
    head = [*said.opening, f"The link: {said.link}", said.score_sentence]
    blocks = ["\n".join(head)]
    if said.paths:
        blocks.append(f"{said.introduction}:")
        blocks.extend(_path_block(path) for path in said.paths)
        blocks.append(said.caveat)
    if said.notes:
        blocks.append("\n".join(["Notes:", *(f"- {note}" for note in said.notes)]))
    return "\n\n".join(blocks)


def _path_block(path: PathWords) -> str:
    number = f"{path.rank}. "
    lines = [*(str(step) for step in path.steps), *path.remarks]
    return number + f"\n{' ' * len(number)}".join(lines)
