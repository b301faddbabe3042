"""Features of labeled spans: the words and tags at their ends, inside and outside, and their length."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from latentstruct.core.types import offsets_from_lengths
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.parsing.arrays import Spans
from latentstruct.tasks.parsing.grammar import Grammar, Token

LENGTH_CLASSES = (1, 2, 3, 4, 5, 7, 10, 15, 20)
"""Longest span of each class; one class more is for all that are longer."""
OUTSIDE = "<edge>"
PER_BOUNDARY = 4
START_NAMES = ("first", "first tag", "before", "tag before")
END_NAMES = ("after", "tag after", "last", "tag last")


def length_class(length: int) -> int:
    """Return the number of the class of lengths."""
    return int(np.searchsorted(LENGTH_CLASSES, length))


class SpanState(TypedDict):
    """Span features as plain lists, as files have them."""

    attributes: list[str]
    pairs: list[tuple[int, int]]


@dataclass
class SpanFeatures:
    """Pairs (attribute, label) seen in gold trees, each with a weight.

    An attribute is "first=…", "last=…", "before=…" or "after=…" with a word (rare words as the lexicon shares them),
    likewise with a tag where tags are given, or "length=…" with a class.
    """

    attributes: list[str]
    pairs: list[tuple[int, int]]

    @classmethod
    def learn(
        cls, grammar: Grammar, sentences: Sequence[Sequence[Token]], spans: Sequence[Iterable[tuple[int, int, int]]]
    ) -> "SpanFeatures":
        """Collect what the gold spans (start, end, label number) of the sentences have."""
        found: set[tuple[str, int]] = set()
        for tokens, gold in zip(sentences, spans, strict=True):
            starts, ends = boundary_attributes(grammar, tokens)
            for i, j, label in gold:
                names = (*starts[i], *ends[j], f"length={length_class(j - i)}")
                found.update((name, label) for name in names if name)
        attributes = sorted({name for name, _ in found})
        learned = cls(attributes, [])
        learned.pairs = sorted((learned.numbers[name], label) for name, label in found)
        return learned

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number of each attribute."""
        return {name: k for k, name in enumerate(self.attributes)}

    def state(self) -> dict[str, Any]:
        """Return all of it as plain lists."""
        return {"attributes": list(self.attributes), "pairs": [list(pair) for pair in self.pairs]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "SpanFeatures":
        """Return the features of a `state`."""
        return cls(list(state["attributes"]), [(a, b) for a, b in state["pairs"]])

    def check(self, n_labels: int) -> None:
        """Raise InputError unless pairs of attributes and labels are sorted and valid, as a file may be damaged."""
        pairs, sizes = np.array(self.pairs, dtype=np.int64).reshape(-1, 2), [len(self.attributes), n_labels]
        # Kernels have memory for one weight of an attribute and a label.
        ordered = (np.diff(pairs[:, 0] * max(n_labels, 1) + pairs[:, 1]) > 0).all()
        if (pairs < 0).any() or (pairs >= sizes).any() or not ordered:
            got = Description(f"{len(pairs)} other pairs")
            raise InputError("state['spans']['pairs']", got, f"sorted distinct pairs below {sizes}", "Train again.")

    def lay_out(self, grammar: Grammar, sentences: Sequence[Sequence[Token]], first_weight: int) -> Spans:
        """Return the attributes of all boundaries of the sentences for the kernels."""
        pairs = np.array(self.pairs, dtype=np.int64).reshape(-1, 2)
        longest = LENGTH_CLASSES[-1] + 1
        lengths = [self.numbers.get(f"length={size}", -1) for size in range(len(LENGTH_CLASSES) + 1)]
        both: tuple[list[list[int]], list[list[int]]] = ([], [])
        for tokens in sentences if self.attributes else ():
            for names, numbers in zip(boundary_attributes(grammar, tokens), both, strict=True):
                numbers.extend([self.numbers.get(name, -1) for name in row] for row in names)
        starts, ends = (np.array(numbers, dtype=np.int64).reshape(-1, PER_BOUNDARY) for numbers in both)
        return Spans(
            starts,
            ends,
            np.array(lengths, dtype=np.int64),
            np.array([length_class(length) for length in range(longest + 1)], dtype=np.int64),
            offsets_from_lengths(np.bincount(pairs[:, 0], minlength=len(self.attributes))),
            pairs[:, 1].copy(),
            first_weight + np.arange(len(pairs)),
        )


def boundary_attributes(grammar: Grammar, tokens: Sequence[Token]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the attributes of spans that start, and of those that end, at each of the n + 1 boundaries.

    An empty name stands for a tag that is not given.
    """
    tagged = [(token, "") if isinstance(token, str) else token for token in tokens]
    keys = [OUTSIDE, *(grammar.lexicon.key(word) for word, _ in tagged), OUTSIDE]
    tags = ["", *(tag for _, tag in tagged), ""]
    starts, ends = [], []
    for p in range(len(tokens) + 1):
        inner, outer = (keys[p + 1], tags[p + 1]), (keys[p], tags[p])
        # What is right of a boundary is inside of spans that start there and outside of those that end there.
        values = (*inner, *outer)
        starts.append([f"{name}={value}" if value else "" for name, value in zip(START_NAMES, values, strict=True)])
        ends.append([f"{name}={value}" if value else "" for name, value in zip(END_NAMES, values, strict=True)])
    return starts, ends
