"""Colors of plots, visible on light and dark backgrounds and safe for color-blind readers."""

FOR, AGAINST = "#d1573b", "#3b7fd1"
"""Positive and negative weights."""
SINGLE, WRONG = "0.5", "#d64a3f"
"""Items without a cluster, and errors."""


def shade(number: int) -> str:
    """Return the k-th color of the cycle."""
    return f"C{number}"
