"""Where a warning points to: the line of the user's own program that led to it."""

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def user_stacklevel() -> int:
    """Return the `stacklevel` with which a warning of the calling function points to the first line outside here."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
