"""`python -m latentstruct_papers NAME`: the same as `latentstruct reproduce NAME`."""

import sys

from latentstruct.cli import app

if __name__ == "__main__":
    app(["reproduce", *sys.argv[1:]])
