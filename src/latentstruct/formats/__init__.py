"""Readers and writers of the files people have.

Every reader takes plain or gzip-compressed UTF-8 text and answers a malformed file with a `FormatError` that
names the file, the line, what was found, what was expected and the cure.
"""

from latentstruct.formats.columns import ColumnSentences, parse_conll, read_conll, write_conll
from latentstruct.formats.tables import ClassData, read_classes, read_csv, read_svmlight

__all__ = [
    "ClassData",
    "ColumnSentences",
    "parse_conll",
    "read_classes",
    "read_conll",
    "read_csv",
    "read_svmlight",
    "write_conll",
]
