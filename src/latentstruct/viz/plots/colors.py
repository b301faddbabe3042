"""Colors that plots share, to be seen on light and on dark ground and told apart by everyone."""

FOR, AGAINST = "#d1573b", "#3b7fd1"
"""Of weights that speak for something and against it."""
SINGLE, WRONG = "0.5", "#d64a3f"
"""Of what belongs to nothing, and of what contradicts the truth."""


def shade(number: int) -> str:
    """Return a color of the page or figure in turn, the first again after the last."""
    return f"C{number}"
