"""Location of warnings: the line of the user's code that caused them."""

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def user_stacklevel() -> int:
    """Return the `stacklevel` with which a warning of the calling function points outside of the library."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
