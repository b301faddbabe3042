"""Sections generated from the commands and from the tags of the structures."""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles


def plain(text: str) -> str:
    """Return text with the signs of reStructuredText escaped."""
    return re.sub(r"([\\`*_|])", r"\\\1", " ".join(text.split()))


def literal(text: str) -> str:
    """Return text as code."""
    return f"``{text}``"


def _title(text: str, underline: str) -> list[str]:
    return [text, underline * len(text), ""]


def _table(header: tuple[str, str], rows: list[tuple[str, str]]) -> list[str]:
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 34 66", ""]
    for left, right in [header, *rows]:
        lines += [f"   * - {left}", f"     - {right}"]
    return [*lines, ""]


def command_lines() -> Iterator[str]:
    """Yield a section per command: usage, description, arguments and options."""
    from latentstruct.cli.grammar import describe_commands
    from latentstruct.cli.parameters import SHARED

    for command in describe_commands():
        name = " ".join(command.words)
        yield from [f".. _command-{name.replace(' ', '-')}:", ""]
        yield from _title(name, "-")
        yield from [".. code-block:: text", "", f"   {command.usage}", "", plain(command.summary), ""]
        for paragraph in command.paragraphs:
            yield from [plain(paragraph), ""]
        if command.examples:
            yield from [".. code-block:: text", "", *(f"   {line}" for line in command.examples), ""]
        rows = [
            (literal(one.usage()), plain(one.explanation())) for one in command.parameters if one.name not in SHARED
        ]
        if rows:
            yield from _table(("argument or option", "meaning"), rows)


def matrix_lines() -> Iterator[str]:
    """Yield the table of structures and estimators, and the reasons for its gaps."""
    from latentstruct.core.capabilities import CAPABILITIES, capabilities, shared_reasons, task_tags

    yield from [".. list-table::", "   :header-rows: 1", "   :stub-columns: 1", ""]
    rows = [["structure", *(one.name for one in CAPABILITIES)]]
    for name, tags in task_tags().items():
        rows.append([f"`{name}`", *(support or "–" for support in capabilities(tags).values())])
    for row in rows:
        yield from (f"   {'* -' if k == 0 else '  -'} {cell}" for k, cell in enumerate(row))
    yield from ["", "Reasons for a dash or a search:", ""]
    for method, found in shared_reasons().items():
        yield from (
            f"- {method}, {', '.join(f'`{name}`' for name in names)}: {plain(reason)}."
            for reason, names in found.items()
        )
    yield ""


class Generated(SphinxDirective):
    """Sections generated from the library."""

    make: Any

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        lines = StringList(list(type(self).make()), source=f"<{self.name}>")
        parent = nodes.section()
        parent.document = self.state.document
        nested_parse_with_titles(self.state, lines, parent)
        return parent.children


class CommandReference(Generated):
    """Every command with its arguments and options."""

    make = staticmethod(command_lines)


class CapabilityMatrix(Generated):
    """Which structures support which estimators."""

    make = staticmethod(matrix_lines)


def setup(app: Any) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("capability-matrix", CapabilityMatrix)
    app.add_directive("command-reference", CommandReference)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
