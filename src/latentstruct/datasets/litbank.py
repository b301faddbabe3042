"""LitBank: coreference in extracts of 100 English novels."""

import os
import tarfile

from latentstruct.datasets.home import dataset_file
from latentstruct.documents import Document
from latentstruct.exceptions import FormatError
from latentstruct.formats.coreference import parse_litbank
from latentstruct.formats.text import open_unpacked

__all__ = ["load_litbank"]

_FILE = "litbank_coref/litbank_coref_conll_tsv.tar.gz"
_FOLDER = "coref/tsv/"
_LARGEST_FILE, _MOST_FILES = 10_000_000, 10_000


def load_litbank(data_home: str | os.PathLike[str] | None = None) -> list[Document]:
    """Load LitBank's documents from ``litbank_coref/litbank_coref_conll_tsv.tar.gz`` in the data home.

    The archive is read in memory; nothing is unpacked. Mentions have the annotated entity types (PER, FAC, …);
    appositions and predicates are clusters of their own, as in LitBank's CoNLL files.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.

    Returns
    -------
    list of Document
        The documents in the order of their names.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If the file is damaged or not of this format.
    """
    path = dataset_file(data_home, _FILE)
    files: dict[str, bytes] = {}
    try:
        with open_unpacked(str(path)) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isfile() and name.startswith(_FOLDER) and name.endswith((".ann", ".txt")):
                    if member.size > _LARGEST_FILE or len(files) >= _MOST_FILES:
                        raise ValueError(f"{name} has {member.size} bytes and is number {len(files) + 1} of its kind")
                    content = archive.extractfile(member)
                    assert content is not None
                    files[name] = content.read()
    except Exception as error:
        # A damaged archive fails in as many ways as the format and its compression have parts.
        raise FormatError(
            f"{path} cannot be read ({type(error).__name__}: {error}); expected a complete gzip-compressed tar archive "
            f"with up to {_MOST_FILES} files {_FOLDER}*.ann and .txt of at most {_LARGEST_FILE} bytes: fetch it again"
        ) from error
    names = sorted(name.removesuffix(".ann") for name in files if name.endswith(".ann"))
    if not names:
        raise FormatError(f"{path} holds no file {_FOLDER}*.ann; expected the annotations there: fetch it again")
    documents = []
    for name in names:
        if f"{name}.txt" not in files:
            raise FormatError(f"{path} holds {name}.ann but no {name}.txt; expected both: fetch it again")
        annotation, text = (enumerate(files[name + suffix].splitlines(), 1) for suffix in (".ann", ".txt"))
        documents.append(
            parse_litbank(annotation, text, os.path.basename(name), f"{path}:{name}.ann", f"{path}:{name}.txt")
        )
    return documents
