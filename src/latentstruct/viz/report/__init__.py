"""HTML reports of models: results, weights and training, as one self-contained file."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from latentstruct.exceptions import missing_package

__all__ = ["require_pages", "write_report"]


def require_pages() -> None:
    """Raise unless reports can be written."""
    if find_spec("jinja2") is None:
        raise missing_package("jinja2", "write reports", "plot")


def write_report(model: Any, path: str | Path, X: Any = None, Y: Any = None) -> None:
    """Write a report of a fitted estimator as one self-contained HTML file.

    Parameters
    ----------
    model : estimator or FeaturePipeline
        Fitted.
    path : path
        The file to write; an existing one is replaced.
    X, Y : collections of length n, optional
        Examples and their true outputs, for predictions; Y is optional.
    """
    from latentstruct.viz.report.model import estimator_page
    from latentstruct.viz.report.page import write_page

    write_page(estimator_page(model, X, Y), path)
