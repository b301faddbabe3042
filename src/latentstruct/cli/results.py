"""Folders of results that are moved into place when all are made, so that Ctrl-C changes nothing."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from latentstruct.cli.interrupts import interrupt, on_interrupt, remember
from latentstruct.persistence.atomic_files import PREFIX


@contextmanager
def results_in(folder: Path, mark: str, earlier: Sequence[Path]) -> Iterator[Path]:
    """Yield an empty folder for the block to fill; its contents are then moved to `folder`.

    If the block fails or Ctrl-C ends it, nothing is changed.

    Parameters
    ----------
    folder : Path
        Created if needed; it may have files of an earlier run.
    mark : str
        The file that identifies the folder. It is moved first, so that a partly filled folder is recognized.
    earlier : sequence of Path
        Files of an earlier run, relative to `folder`; those that the block does not replace are removed.
    """
    # On the same disk, so that moving a file is atomic.
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    with on_interrupt(interrupt), tempfile.TemporaryDirectory(prefix=PREFIX, dir=nearest) as made:
        yield Path(made)
        with on_interrupt(remember):
            files = [path.relative_to(made) for path in sorted(Path(made).rglob("*")) if path.is_file()]
            for file in sorted(files, key=lambda file: file != Path(mark)):
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(made) / file, folder / file)
            for file in set(earlier) - set(files):
                # A picture that cannot be removed does no harm; its name comes from a file that anybody may edit.
                with suppress(OSError, ValueError):
                    (folder / file).unlink()
