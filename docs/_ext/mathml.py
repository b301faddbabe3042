"""Equations as MathML, which browsers render without scripts and web fonts."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Element, display: str) -> str:
    """Return the equation of a node as MathML, with its source as alternative text."""
    source = node.astext()
    if "aligned" in source:
        logger.warning("the equation uses 'aligned', which would lose its lines: use align*", location=node)
    return convert(source, display=display).replace("<math ", f'<math alttext="{_attribute(source)}" ', 1)


def _attribute(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return " ".join(escaped.split())


def _visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _visit_display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="equation"))
    translator.body.append(_mathml(node, "block"))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Register the renderer, selected by `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_display, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
