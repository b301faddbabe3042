"""Pages to look at: what a model is, how its training went, what it says of examples; one HTML file each."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from latentstruct.exceptions import missing_package

__all__ = ["require_pages", "write_report"]


def require_pages() -> None:
    """Raise unless pages can be written."""
    if find_spec("jinja2") is None:
        raise missing_package("jinja2", "write reports", "plot")


def write_report(model: Any, path: str | Path, X: Any = None, Y: Any = None) -> None:
    """Write the page of a fitted estimator, one HTML file that needs nothing else.

    Parameters
    ----------
    model : estimator
        Fitted.
    path : path
        The file to write, replaced if it is there.
    X, Y : collections of length n, optional
        Examples and their true outputs, to show predictions for; the truth may be left out.
    """
    from latentstruct.viz.report.model import estimator_page
    from latentstruct.viz.report.page import write_page

    write_page(estimator_page(model, X, Y), path)
