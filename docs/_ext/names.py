"""Links from short names to the API reference, and selection of documented members."""

import re
from typing import Any

from docutils import nodes

INHERITED = re.compile(r"get_metadata_routing|set_\w+_request|get_params|set_params|set_output|fit_transform")
"""Methods that all estimators inherit from scikit-learn."""
MODULES = (
    "latentstruct.",
    "latentstruct.datasets.",
    "latentstruct.io.",
    "latentstruct.metrics.",
    "latentstruct.tasks.",
    "latentstruct.tasks.motif.sites.",
    "latentstruct.viz.plots.",
    "latentstruct.viz.report.",
    "latentstruct.testing.",
    "latentstruct.torch.",
    "latentstruct_papers.datasets.",
)
"""Public modules."""
# A pair of bars would be a substitution, and a word with an underscore at its end a link.
SIGN = re.compile(r"\||(?<=[A-Za-z0-9])_(?![A-Za-z0-9_*])")


def _resolve(app: Any, env: Any, node: Any, content: nodes.Element) -> nodes.Element | None:
    """Return the link of a public name that is written without its module."""
    if node.get("refdomain") != "py" or node["reftarget"].startswith("latentstruct."):
        return None
    domain = env.get_domain("py")
    for module in MODULES:
        target = f"{module}{node['reftarget']}"
        found = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)
        if found is not None:
            return found
    return None


def _skip(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Skip methods of scikit-learn, fields of tuples, which their class describes, and types of saved states."""
    if INHERITED.fullmatch(name) or type(member).__name__ == "_tuplegetter" or name == "state_type":
        return True
    return None


def _plain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape |x| and names such as coef_ outside of code."""
    for k, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", "..")):
            continue
        pieces = re.split(r"(``.*?``|`[^`]*`_?)", line)
        pieces[::2] = [SIGN.sub(r"\\\g<0>", piece) for piece in pieces[::2]]
        lines[k] = "".join(pieces)


def setup(app: Any) -> dict[str, Any]:
    """Connect the handlers, the last one after numpydoc."""
    app.connect("missing-reference", _resolve)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _plain, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
