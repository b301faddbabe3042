"""Readers and writers of the files people have.

Every reader takes plain or gzip-compressed UTF-8 text and answers a malformed file with a `FormatError` that
names the file, the line, what was found, what was expected and the cure.
"""

from latentstruct.formats.columns import ColumnSentences, parse_conll, read_conll, write_conll
from latentstruct.formats.coreference import read_coreference, write_coreference
from latentstruct.formats.fasta import Sequences, read_fasta, write_fasta, write_sites
from latentstruct.formats.meme import MemeMotif, read_meme, write_meme
from latentstruct.formats.ranking import Queries, read_queries, write_scores
from latentstruct.formats.tables import ClassData, read_classes, read_csv, read_svmlight

__all__ = [
    "ClassData",
    "ColumnSentences",
    "MemeMotif",
    "Queries",
    "Sequences",
    "parse_conll",
    "read_classes",
    "read_conll",
    "read_coreference",
    "read_csv",
    "read_fasta",
    "read_meme",
    "read_queries",
    "read_svmlight",
    "write_conll",
    "write_coreference",
    "write_fasta",
    "write_meme",
    "write_scores",
    "write_sites",
]
