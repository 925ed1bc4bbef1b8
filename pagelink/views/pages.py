"""The views: an explanation as a drawing, as text and as a page, a counterfactual as text.

The drawing has paths from the source on the left to the target on the right; it is an SVG, or a PNG
with a font that is always there. The page has words, drawing, figures and how they were made, in
one file that needs no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import indent
from typing import Any

from markupsafe import Markup

from pagelink.errors import need
from pagelink.explain.counterfactual import Counterfactual, RemovedFact
from pagelink.explain.result import Explanation
from pagelink.views.beyond_wording import EquallyGood
from pagelink.views.drawing.arrows import Place
from pagelink.views.drawing.pictures import FRAMES, draw, wide_drawing
from pagelink.views.score_wording import compared, support
from pagelink.views.templates import render, type_colours
from pagelink.views.text import (
    clean,
    count,
    enumerated,
    numbers,
    ordinal,
    type_words,
)
from pagelink.views.wording import PathWords, Wording, items, wording


def to_svg(explanation: Explanation, off: frozenset[Place] = frozenset(), edited: str = "") -> str:
    """Draw the paths as a standalone SVG that needs neither fonts nor network.

    Args:
        explanation: what is drawn.
        off: facts that are drawn as switched off.
        edited: what rank and score are then, in words; it stands beside those of all facts.
    """
    said = _beside_the_score(wording(explanation), edited)
    return wide_drawing(said, type_colours(explanation), True, off)[0]


def _beside_the_score(said: Wording, edited: str) -> Wording:
    return replace(said, requests=(*said.requests, edited)) if edited else said


# The drawing as a PNG, with a font that is always there.


def to_png(
    explanation: Explanation, zoom: float = 2.0, off: frozenset[Place] = frozenset(),
    edited: str = "",
) -> bytes:  # fmt: skip
    """Draw the paths as a PNG; see `painted` and `to_svg`."""
    return painted(to_svg(explanation, off, edited), zoom)


def painted(svg: str, zoom: float = 2.0) -> bytes:
    """Return a drawing as a PNG.

    Latin, Greek and Cyrillic letters come from a font of our own; fonts of the system are used for
    other scripts, where there are any.

    Raises:
        MissingExtraError: the packages that draw it are not installed.
    """
    need("A PNG", "web", "resvg_py", "font_source_sans_pro")
    import font_source_sans_pro as font
    import resvg_py

    fonts = [font.SourceSansPro, font.SourceSansProBold, font.SourceSansProSemibold]
    png: bytes = resvg_py.svg_to_bytes(
        svg_string=svg, zoom=zoom, background="#ffffff", font_files=fonts,
        font_family="Source Sans Pro", sans_serif_family="Source Sans Pro",
    )  # fmt: skip
    return bytes(png)


def to_text(explanation: Explanation) -> str:
    """Return the explanation in plain words, one fact per line."""
    said = wording(explanation)
    head = [f"The link: {said.link}", *said.opening, said.score_sentence, *said.requests]
    blocks = ["\n".join(head)]
    for group in said.groups:
        blocks.append(f"{group.heading}:")
        for item in items(group.paths):
            told = list(map(_path_text, item))
            if item[0].together:
                lines = [item[0].together, *(indent(path, "   ") for path in told)]
                blocks.append("\n".join(lines))
            else:
                blocks += told
    if said.equally_good:
        blocks.append(_equally_good_text(said.equally_good))
    if said.caveat:
        blocks.append(said.caveat)
    if said.strongest:
        lines = [said.strongest.sentence, *(f"- {fact}" for fact in said.strongest.facts)]
        blocks.append("\n".join([f"{said.strongest.heading}:", *lines]))
    if said.what_else:
        lines = [f"- {part.about}: {part.change}" for part in said.what_else.parts]
        if said.what_else.sentence not in said.opening:
            lines.insert(0, said.what_else.sentence)
        blocks.append("\n".join([f"{said.what_else.heading}:", *lines]))
    if said.figures:
        lines = [f"- {about}: {answer}" for about, answer in said.figures]
        blocks.append("\n".join(["The model's answers:", *lines]))
    if said.notes:
        blocks.append("\n".join(["Notes:", *(f"- {note}" for note in said.notes)]))
    return "\n\n".join(blocks)


def _path_text(path: PathWords) -> str:
    number = f"{path.rank}. "
    lines = [*map(str, path.steps), *path.remarks]
    if path.share:
        lines.insert(len(path.steps), f"{path.share[0].upper()}{path.share[1:]}.")
    return number + f"\n{' ' * len(number)}".join(lines)


def _equally_good_text(found: EquallyGood) -> str:
    lines = [f"{found.heading}:", *("- " + "\n  ".join(each.lines) for each in found.sets)]
    return "\n".join([*lines, *([f"- {found.more}"] if found.more else [])])


def to_html(explanation: Explanation, off: frozenset[Place] = frozenset(), edited: str = "") -> str:
    """Return one self-contained page that needs no network; `off` and `edited` as in `to_svg`."""
    return render("page.html", **_content(explanation, off, edited))


def to_html_fragment(explanation: Explanation) -> str:
    """Return the page's content for use inside another page, such as a notebook."""
    return render("fragment.html", **_content(explanation))


def _content(
    explanation: Explanation, off: frozenset[Place] = frozenset(), edited: str = ""
) -> dict[str, Any]:
    """Return what the templates show."""
    said = _beside_the_score(wording(explanation), edited)
    colours = type_colours(explanation)
    drawing = draw(said, colours, off)
    return {
        "said": said,
        "items": items,
        "support": support,
        "colours": colours,
        "drawing": Markup(drawing.svg),  # escaped where it was filled in
        "narrow_drawing": Markup(drawing.narrow),
        "compact_drawing": Markup(drawing.compact),
        "drawing_width": round(drawing.width),
        "compact_width": round(drawing.compact_width),
        "from_frames": drawing.frames,
        "frames": FRAMES,
        "made": _how_it_was_made(explanation),
        "settings": {
            name: "not set" if value is None else str(value)
            for name, value in explanation.settings.to_dict().items()
        },
    }


def _how_it_was_made(explanation: Explanation) -> dict[str, str]:
    hops = explanation.num_hops
    seen = "the whole graph" if hops is None else f"{count(hops, 'hop')} around each end"
    made = {
        "Kind of link": type_words(explanation.link_type),
        "Source": "{} {}".format(*explanation.src),
        "Target": "{} {}".format(*explanation.dst),
        "The model sees": seen,
        "Mask learning": count(explanation.epochs, "step"),
        "Seed": str(explanation.seed),
        "CPU seconds": f"{explanation.seconds:.3g}",
    }
    if explanation.reason is not None:
        made["Reason"] = explanation.reason
    made.update({f"Version of {name}": text for name, text in explanation.versions.items()})
    return {clean(name): clean(text) for name, text in made.items()}


# A counterfactual in plain words: which facts would have to be missing, and what would be then.


def counterfactual_to_text(found: Counterfactual) -> str:
    """Return the counterfactual in a few sentences, scores in the words of the other views."""
    return " ".join(clean(sentence) for sentence in _sentences(found) if sentence)


def _sentences(found: Counterfactual) -> Sequence[str]:
    who, what = found.src_name, found.dst_name
    if found.reason == "already_negative":
        (score,) = numbers(found.logit or 0.0)
        return (f"The model does not predict {what} for {who} anyway: the score is {score}.",)
    if found.reason == "not_in_top_k":
        return (
            f"{what} is not among the first {found.top_k} for {who} anyway: it ranks "
            f"{ordinal(found.rank or 0)} of {found.rank_of or 0:,}.",
        )
    if found.reason == "no_facts":
        where = f"at {who}" if found.at == "source" else f"on a path from {who} to {what}"
        return (f"The model sees no fact {where}, so there is nothing to remove.",)
    if found.reason == "none_found":
        return _none_found(found)
    if found.reason == "out_of_time":
        tried = f"{count(found.num_sets, 'set')} {'was' if found.num_sets == 1 else 'were'} tried"
        return (
            f"The deadline passed before facts were found whose removal {_aim(found)} ({tried}).",
            _nearest(found),
        )
    outcome = (
        f"the model would not predict {what} for {who}"
        if found.top_k is None
        else f"{what} would not be among the first {found.top_k} for {who}"
    )
    place = f"{found.instead} would take its place." if found.instead is not None else ""
    if len(found.facts) == 1:
        fewer = ""
    elif found.out_of_time:
        fewer = "Fewer facts may be enough: the deadline passed before that was tried."
    elif found.smallest:
        fewer = "Fewer facts are not enough: all combinations were tried."
    else:
        fewer = (
            "Each of these facts is needed; whether fewer, other facts are enough was not tried."
        )
    return f"Without the {_that(found.facts)}, {outcome}: {_change(found)}.", place, fewer


def _none_found(found: Counterfactual) -> Sequence[str]:
    where = f"at {found.src_name}" if found.at == "source" else "on paths to the target"
    one = found.budget == 1
    which = f"No fact {where}" if one else f"No set of at most {found.budget} facts {where}"
    tried = (
        f"all{'' if one else ' sets'} were tried" if found.smallest else "not all could be tried"
    )
    rest = ""
    if found.logit_without_all is not None and len(found.facts) < found.num_facts:
        (answer,) = numbers(found.logit_without_all)
        rest = f"Without all {found.num_facts} facts its score would be {answer}."
    return (
        f"{which} was found whose removal {_aim(found)} (of {found.num_facts} facts, {tried}).",
        _nearest(found),
        rest,
    )


def _aim(found: Counterfactual) -> str:
    out = f"moves it out of the first {found.top_k}"
    return "reverses the prediction" if found.top_k is None else out


def _nearest(found: Counterfactual) -> str:
    if not found.facts:
        return ""
    change = _change(found)
    return f"Removing the {_that(found.facts)} comes closest{': ' * bool(change)}{change}."


def _change(found: Counterfactual) -> str:
    """What would be, as far as it was measured."""
    if found.logit is None or found.logit_without is None:
        return ""
    answers = compared(found.logit, found.logit_without)
    verb, _, rest = answers.change.partition(" ")
    score = f"its score would {verb.removesuffix('s')} {rest}"
    if found.rank is None or found.rank_without is None:
        return score
    if found.rank == found.rank_without:
        return f"{score}, and it would still rank {ordinal(found.rank)} of {found.rank_of:,}"
    moves = "fall" if found.rank_without > found.rank else "rise"
    ranks = f"from {ordinal(found.rank)} to {ordinal(found.rank_without)} of {found.rank_of:,}"
    return f"{score}, and its rank would {moves} {ranks}"


def _that(facts: Sequence[RemovedFact]) -> str:
    """`fact that A likes B`, `facts that A likes B and that A likes C`."""
    word = "fact" if len(facts) == 1 else "facts"
    return f"{word} " + enumerated(f"that {fact}" for fact in facts) if facts else word
