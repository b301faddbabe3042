"""A note on tutorials whose data were missing when the pages were built."""

from typing import Any

RESULTS = "sphx-glr-script-out"
"""CSS class of printed results in the pages of sphinx-gallery."""
REMARK = """
.. admonition:: Built without the data

   This tutorial reads a data set from the folder ``LATENTSTRUCT_DATA``. The data were not available when this page was
   built, so the code is shown without results.

"""


def _remark(app: Any, docname: str, source: list[str]) -> None:
    """Insert the note below the title of a page without results."""
    if not docname.startswith("auto_examples/applications/plot_") or RESULTS in source[0]:
        return
    head, line, rest = source[0].partition("\n====")
    underline, _, body = rest.partition("\n")
    source[0] = f"{head}{line}{underline}\n{REMARK}{body}" if line else REMARK + source[0]


def setup(app: Any) -> dict[str, Any]:
    """Connect to the reading of pages."""
    app.connect("source-read", _remark)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
