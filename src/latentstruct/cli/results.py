"""Folders of results that are put in place when all are made, so that Ctrl-C leaves what was there."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from latentstruct.cli.interrupts import interrupt, on_interrupt, remember
from latentstruct.persistence.atomic_files import PREFIX


@contextmanager
def results_in(folder: Path, mark: str, earlier: Sequence[Path]) -> Iterator[Path]:
    """Yield an empty folder for the block to fill; what it holds then goes to `folder`.

    If the block fails or Ctrl-C ends it, nothing is changed.

    Parameters
    ----------
    folder : Path
        Made if needed; it may hold files of an earlier run.
    mark : str
        The file that tells what the folder is for. It is put in place first, so that a folder that was filled in part
        is still known for what it is.
    earlier : sequence of Path
        Files of an earlier run, relative to `folder`: those that the block does not make again are removed.
    """
    # On the same disk, so that files are moved there whole.
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    with (
        on_interrupt(interrupt),
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=nearest) as made,
    ):
        yield Path(made)
        with on_interrupt(remember):
            files = [path.relative_to(made) for path in sorted(Path(made).rglob("*")) if path.is_file()]
            for file in sorted(files, key=lambda file: file != Path(mark)):
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(made) / file, folder / file)
            for file in set(earlier) - set(files):
                # A picture that cannot be removed spoils nothing; its name comes from a file that anybody may edit.
                with suppress(OSError, ValueError):
                    (folder / file).unlink()
