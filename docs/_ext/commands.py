"""The directive `commands`: every command of the command line, from what its --help says."""

from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from pagelink.cli.main import app


def commands(command: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a command and all those below it, each with the context that knows its full name."""
    yield command, context
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, below.context_class(below, info_name=name, parent=context))


def as_markdown(command: Any, context: Any) -> Iterator[str]:
    """Yield the lines that describe one command."""
    yield f"## {context.command_path}"
    yield ""
    yield from _described(command.help or "")
    yield "```text"
    yield command.get_usage(context).removeprefix("Usage: ")
    yield "```"
    yield ""
    panels: dict[str, list[tuple[str, str]]] = {}
    for each in command.params:
        if (row := each.get_help_record(context)) is not None:
            panels.setdefault(each.rich_help_panel or "Option", []).append(row)
    for panel, rows in panels.items():
        yield f"| {panel} | Meaning |"
        yield "| --- | --- |"
        for what, words in rows:
            yield f"| `{what}` | {_cell(words)} |"
        yield ""
    for name, below in getattr(command, "commands", {}).items():
        full = f"{context.command_path} {name}"
        yield f"- [`{full}`](#{full.replace(' ', '-')}): {_paragraphs(below.help)[0]}"
    yield ""


def _paragraphs(help: str) -> list[str]:
    return help.split("\n\n")


def _described(help: str) -> Iterator[str]:
    """Yield the help of a command, its example as a block."""
    for paragraph in _paragraphs(help):
        is_example = paragraph.startswith("pagelink ")
        yield from ("```text", paragraph, "```") if is_example else (paragraph,)
        yield ""


def _cell(words: str) -> str:
    for sign in "|<>[]*":
        words = words.replace(sign, f"\\{sign}")
    return words


class Commands(SphinxDirective):
    """Put the description of every command in place."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        top = typer.main.get_command(app)
        lines = [
            line
            for command, context in commands(top, top.context_class(top, info_name="pagelink"))
            for line in as_markdown(command, context)
        ]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def setup(sphinx: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    sphinx.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
