"""Checksums of data by value: equal data have equal checksums in any process, whichever objects they share."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.lazy import issparse
from latentstruct.core.validation import check_sparse
from latentstruct.data.sharded import ShardedData

NAMED = (type, type(len), type(lambda: None))
"""Classes and functions, which are identified by name."""


def digest(value: Any) -> str:
    """Return a checksum of data.

    Numbers, strings, arrays, sparse matrices and containers of them are identified by their contents, other objects by
    their types and attributes, those that can be neither copied nor serialized by their types alone, and examples in
    files by their stored checksum.
    """
    sums = hashlib.sha256()
    _Feeder(sums.update).feed(value)
    return sums.hexdigest()


class _Feeder:
    """Feeds the contents of data to a checksum, each part with its type and length."""

    def __init__(self, update: Callable[[Any], None]) -> None:
        self.update = update
        self.inside: dict[int, int] = {}
        """Objects whose attributes are being fed, with their depths."""

    def feed(self, value: Any) -> None:
        """Feed any value."""
        kind = type(value)
        if kind is str:
            self._mark("text", text := value.encode("utf-8", "surrogatepass"), len(text))
        elif value is None or kind in (bool, int, float, complex):
            self._mark(kind.__name__, repr(value).encode())
        elif kind in (list, tuple):
            self._feed_all(kind.__name__, value)
        elif isinstance(value, np.ndarray):
            self._feed_array(value)
        elif isinstance(value, np.generic):
            plain = value.item()
            self.feed(np.array(value) if isinstance(plain, np.generic) else plain)
        elif kind is dict:
            self._feed_dict(value)
        elif issparse(value):
            self._feed_sparse(value)
        else:
            self._feed_other(value)

    def _mark(self, kind: str, contents: Any = b"", length: Any = "") -> None:
        self.update(f"\n{kind} {length}:".encode())
        self.update(contents)

    def _feed_all(self, kind: str, values: Sequence[Any], length: Any = None) -> None:
        self._mark(kind, length=len(values) if length is None else length)
        for value in values:
            self.feed(value)

    def _feed_array(self, array: NDArray[Any]) -> None:
        shape = "x".join(map(str, array.shape))
        if array.dtype.hasobject:
            self._feed_all("objects", array.ravel().tolist(), shape)
            return
        flat = np.ascontiguousarray(array).reshape(-1)
        self._mark(f"array {array.dtype.str if array.dtype.names is None else array.dtype.descr}", length=shape)
        if flat.nbytes:
            self.update(flat.view(np.uint8).data)

    def _feed_sparse(self, matrix: Any) -> None:
        """Feed a sparse matrix with sorted rows, because use may sort them."""
        check_sparse(matrix, "a sparse matrix")
        rows = matrix.tocsr()
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        parts = [rows.data, rows.indices.astype(np.int64, copy=False), rows.indptr.astype(np.int64, copy=False)]
        self._feed_all("sparse", parts, "x".join(map(str, rows.shape)))

    def _feed_dict(self, found: dict[Any, Any]) -> None:
        if all(type(key) is str for key in found):
            keys = sorted(found)
        else:
            keys = sorted(found, key=digest)
        self._mark("dict", length=len(keys))
        for key in keys:
            self.feed(key)
            self.feed(found[key])

    def _feed_other(self, value: Any) -> None:
        if isinstance(value, ShardedData):
            self._mark("stored", value.digest.encode())
        elif isinstance(value, bytes | bytearray):
            self._mark("bytes", value, len(value))
        elif isinstance(value, set | frozenset):
            self._feed_all("set", sorted(map(digest, value)))
        elif isinstance(value, PurePath):
            self._mark("path", str(value).encode("utf-8", "surrogatepass"))
        elif isinstance(value, NAMED):
            self._mark("named", _name_of(value).encode())
        elif id(value) in self.inside:
            self._mark("around", length=len(self.inside) - self.inside[id(value)])
        else:
            self._feed_parts(value)

    def _feed_parts(self, value: Any) -> None:
        """Feed the parts from which a copy of an object would be created."""
        try:
            reduced = value.__reduce_ex__(4)
        except (TypeError, AttributeError):
            reduced = ""
        self._mark(f"object {_name_of(type(value))}")
        if isinstance(reduced, str):
            self._mark("named", reduced.encode())
            return
        self.inside[id(value)] = len(self.inside)
        for place, part in enumerate(reduced[1:5]):
            # The third and fourth are the items of lists and dicts, which are iterators.
            self.feed(part if place < 2 or part is None else list(part))
        del self.inside[id(value)]


def _name_of(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"
