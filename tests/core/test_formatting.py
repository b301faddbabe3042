"""Texts of numbers and what is counted."""

import pytest

from latentstruct.core.formatting import counted


@pytest.mark.parametrize(
    ("n", "noun", "text"),
    [(0, "column", "0 columns"), (1, "family", "1 family"), (2, "family", "2 families"), (3, "cell", "3 cells")],
)
def test_counted(n, noun, text):
    assert counted(n, noun) == text
