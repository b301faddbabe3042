"""Grammars read off trees: symbols, rules, chains of single children, and the tags of words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from latentstruct._native.parsing import BINARY, LEXICAL, UNARY
from latentstruct.core.formatting import repr_short
from latentstruct.core.types import Indices, Vector, offsets_from_lengths
from latentstruct.data.trees import Tree, binarize, is_artificial, is_preterminal, preorder, tagged_words
from latentstruct.data.trees import without_unary_cycles as without_cycles
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.parsing.arrays import Rules

Unknown = Literal["suffix", "class", "one"]
Token = str | tuple[str, str]
Symbol = tuple[str, str]

PHRASE, TAG = "phrase", "tag"
KNOWN, SHARED = "=", "~"
MOST_SPLIT_CHAINS = 100_000
ROWS = ("symbols", "binary", "unary", "chains")
LEAST_SHARED = 5
"""Rare words of training that must have a suffix in common before it stands for them."""


def word_class(word: str) -> str:
    """Return a coarse class of a word's spelling: number, mark, capital or lower."""
    if any(letter.isdigit() for letter in word):
        return "number"
    if not any(letter.isalpha() for letter in word):
        return "mark"
    return "capital" if word[0].isupper() else "lower"


def signatures(word: str, unknown: Unknown) -> list[str]:
    """Return what may stand for an unknown word, from the most special to the one that stands for all."""
    kind = word_class(word)
    found = [SHARED + kind] if unknown != "one" else []
    if unknown == "suffix" and kind in ("capital", "lower"):
        found = [f"{SHARED}{kind}-{word[-size:].lower()}" for size in (3, 2) if len(word) > size + 1] + found
    return [*found, SHARED]


@dataclass
class Lexicon:
    """Which tags a word may have: entries (key, tag), each with a weight.

    A key is "=" and a known word, or "~" and what rare words, seen at most `rare` times in training, share with unknown
    ones: a suffix, a class of spelling, or nothing.
    """

    entries: list[tuple[str, str]]
    unknown: Unknown

    @classmethod
    def learn(cls, sentences: Sequence[Sequence[tuple[str, str]]], rare: int, unknown: Unknown) -> "Lexicon":
        """Read the lexicon off words with tags."""
        counts = Counter(word for sentence in sentences for word, _ in sentence)
        seldom = (word for sentence in sentences for word, _ in sentence if counts[word] <= rare)
        shared = Counter(key for word in seldom for key in signatures(word, unknown))
        keys = {KNOWN + word for word, count in counts.items() if count > rare}
        keys |= {key for key, count in shared.items() if "-" not in key or count >= LEAST_SHARED}
        draft = cls([(key, "") for key in keys], unknown)
        entries = {(draft.key(word), tag) for sentence in sentences for word, tag in sentence}
        return cls(sorted(entries), unknown)

    def __post_init__(self) -> None:
        self.all_tags = sorted({tag for _, tag in self.entries})
        # The entries of each key, by tag.
        self.numbers: dict[str, dict[str, int]] = {}
        for number, (key, tag) in enumerate(self.entries):
            self.numbers.setdefault(key, {})[tag] = number

    def key(self, word: str) -> str:
        """Return the key by which a word is looked up."""
        if KNOWN + word in self.numbers:
            return KNOWN + word
        return next((key for key in signatures(word, self.unknown) if key in self.numbers), SHARED)

    def choices(self, token: Token) -> list[tuple[str, int]]:
        """Return the tags a word may have with the number of the entry, −1 where there is none.

        A word with a given tag has that one only. A word nothing is known of may have any tag.
        """
        if not isinstance(token, str):
            word, tag = token
            return [(tag, self.numbers.get(self.key(word), {}).get(tag, -1))]
        known = self.numbers.get(self.key(token))
        return [(tag, -1) for tag in self.all_tags] if known is None else list(known.items())


class GrammarState(TypedDict):
    """A grammar as plain lists, as files have it."""

    symbols: list[tuple[Literal["phrase", "tag"], str]]
    binary: list[tuple[int, int, int]]
    unary: list[tuple[int, int]]
    chains: list[list[int]]
    roots: list[int]
    entries: list[tuple[str, str]]
    unknown: Unknown
    markov: int | None


class BinaryForm(NamedTuple):
    """The nodes of a tree in binary form without unary cycles, in preorder, as lists of equal length.

    A kind is the number of children (0 for words), a right the place of the right child among the nodes (its own place
    where there is none; the left or only child is the next node).
    """

    nodes: list[Tree]
    symbols: list[Symbol]
    kinds: list[int]
    rights: list[int]
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, tree: Tree, markov: int | None) -> "BinaryForm":
        """Bring a checked tree to binary form."""
        nodes = list(preorder(binarize(without_cycles(tree), markov)))
        kinds = [LEXICAL if is_preterminal(node) else len(node.children) for node in nodes]
        symbols = [(PHRASE if kind else TAG, node.label) for node, kind in zip(nodes, kinds, strict=True)]
        rights, starts, ends = list(range(len(nodes))), [0] * len(nodes), [0] * len(nodes)
        position = kinds.count(LEXICAL)
        stack: list[int] = []
        for node in range(len(nodes) - 1, -1, -1):
            if kinds[node] == LEXICAL:
                position -= 1
                starts[node], ends[node] = position, position + 1
            else:
                left = last = stack.pop()
                if kinds[node] == BINARY:
                    rights[node] = last = stack.pop()
                starts[node], ends[node] = starts[left], ends[last]
            stack.append(node)
        return cls(nodes, symbols, kinds, rights, starts, ends)

    def rules(self) -> list[tuple[Symbol, ...]]:
        """Return the symbols of each node and its children."""
        return [
            tuple(self.symbols[place] for place in (v, v + 1, self.rights[v])[: 1 + kind])
            for v, kind in enumerate(self.kinds)
        ]

    def chains(self) -> Iterator[tuple[Symbol, ...]]:
        """Yield the chains of single children, whole."""
        chain: list[Symbol] = []
        for symbol, kind in zip(self.symbols, self.kinds, strict=True):
            # The next node is the only child of a unary one.
            chain.append(symbol)
            if kind != UNARY:
                if len(chain) > 1:
                    yield tuple(chain)
                chain = []


@dataclass
class Grammar:
    """Rules read off trees, over symbols that are pairs (kind, label) with kind "phrase" or "tag".

    Tags are symbols of their own, even where a phrase is spelled alike. A derivation may have the chains of single
    children seen in training and no others, whole: their unary rules cannot be combined otherwise.
    """

    symbols: list[Symbol]
    binary: list[tuple[int, int, int]]  # parent, left, right
    unary: list[tuple[int, int]]  # parent, child
    chains: list[tuple[int, ...]]  # from top to bottom
    roots: list[int]  # the most frequent one first
    lexicon: Lexicon
    markov: int | None  # how many of the children before it an artificial symbol stands for

    def __post_init__(self) -> None:
        self.symbol_numbers = {symbol: number for number, symbol in enumerate(self.symbols)}
        self.chain_set = frozenset(self.chains)
        # Numbers of rules among the binary or among the unary ones.
        self.rule_numbers = {rule: number for rules in (self.binary, self.unary) for number, rule in enumerate(rules)}
        # Labels of constituents are phrases that are not artificial; other symbols have the number −1.
        counted = np.array([kind == PHRASE and not is_artificial(label) for kind, label in self.symbols], dtype=bool)
        self.labels = [self.symbols[number][1] for number in np.flatnonzero(counted)]
        self.label_numbers = np.where(counted, np.cumsum(counted) - 1, -1)

    @classmethod
    def learn(cls, trees: Sequence[Tree], markov: int | None, rare: int, unknown: Unknown) -> "Grammar":
        """Read the grammar off checked trees."""
        lexicon = Lexicon.learn([tagged_words(tree) for tree in trees], rare, unknown)
        rules: set[tuple[Symbol, ...]] = set()
        chains: set[tuple[Symbol, ...]] = set()
        roots: Counter[Symbol] = Counter()
        for tree in trees:
            form = BinaryForm.of(tree, markov)
            roots[form.symbols[0]] += 1
            rules.update(form.rules())
            chains.update(form.chains())
        symbols = sorted({rule[0] for rule in rules})
        number = {symbol: k for k, symbol in enumerate(symbols)}
        numbered: Any = sorted(tuple(number[symbol] for symbol in rule) for rule in rules)
        return cls(
            symbols,
            [rule for rule in numbered if len(rule) == 3],
            [rule for rule in numbered if len(rule) == 2],
            sorted(tuple(number[symbol] for symbol in chain) for chain in chains),
            [number[symbol] for symbol, _ in sorted(roots.items(), key=lambda item: (-item[1], item[0]))],
            lexicon,
            markov,
        )

    def tag_number(self, tag: str) -> int:
        """Return the symbol of a tag, −1 if it was never seen."""
        return self.symbol_numbers.get((TAG, tag), -1)

    def state(self) -> dict[str, Any]:
        """Return all of it as plain lists."""
        return {
            **{name: [list(row) for row in getattr(self, name)] for name in ROWS},
            "roots": list(self.roots),
            "entries": [list(entry) for entry in self.lexicon.entries],
            "unknown": self.lexicon.unknown,
            "markov": self.markov,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Grammar":
        """Return the grammar of a `state`; raise InputError if it is not consistent, as a file may be damaged."""
        rows: dict[str, Any] = {name: [tuple(row) for row in state[name]] for name in ROWS}
        lexicon = Lexicon([(key, tag) for key, tag in state["entries"]], state["unknown"])
        found = cls(**rows, roots=list(state["roots"]), lexicon=lexicon, markov=state["markov"])
        known, labels, unary = range(len(found.symbols)), found.label_numbers, set(found.unary)
        # A root is a phrase of the treebank, or the tag of a sentence of one word.
        sound = (
            all(number in known for row in (*found.binary, *found.unary, *found.chains, found.roots) for number in row)
            and bool(found.roots)
            and all(labels[root] >= 0 or found.symbols[root][0] == TAG for root in found.roots)
            and all(len(chain) > 1 and unary.issuperset(pairwise(chain)) for chain in found.chains)
            and all(labels[upper] >= 0 for chain in found.chains for upper in chain[:-1])
        )
        if not sound:
            got = Description(f"rules that do not fit the {len(found.symbols)} symbols")
            raise InputError("state", got, "consistent", "Train again.")
        return found

    def derive(self, tree: Tree, tokens: Sequence[Token], name: str) -> NDArray[np.int64]:
        """Return the derivation of a checked tree of a sentence; raise InputError if the grammar does not have it.

        It has six rows, with one number for each node of the `BinaryForm`: kind, rule or lexical entry, symbol, place
        of the right child, start and end.
        """
        form = BinaryForm.of(tree, self.markov)
        for kind, label in form.symbols:
            if (kind, label) not in self.symbol_numbers:
                raise _unseen(name, f"{kind} {repr_short(label)}")
        for chain in form.chains():
            if self._numbered(chain) not in self.chain_set:
                raise _unseen(name, "chain " + " → ".join(label for _, label in chain))
        symbols = self._numbered(form.symbols)
        if symbols[0] not in self.roots:
            raise _unseen(name, f"root {repr_short(form.symbols[0][1])}")
        rules: list[int] = []
        left = iter(tokens)
        for node, rule in zip(form.nodes, form.rules(), strict=True):
            if is_preterminal(node):
                found = dict(self.lexicon.choices(next(left))).get(node.label)
            else:
                found = self.rule_numbers.get(self._numbered(rule))
            if found is None:
                children = [child.label if isinstance(child, Tree) else repr_short(child) for child in node.children]
                tagged = f"tag {repr_short(node.label)} of the word {children[0]}"
                raise _unseen(name, tagged if is_preterminal(node) else f"rule {node.label} → {' '.join(children)}")
            rules.append(found)
        return np.array([form.kinds, rules, symbols, form.rights, form.starts, form.ends], dtype=np.int64)

    def _numbered(self, symbols: Iterable[Symbol]) -> tuple[int, ...]:
        return tuple(self.symbol_numbers[symbol] for symbol in symbols)


def _unseen(name: str, what: str) -> InputError:
    expected = "a tree with symbols and rules of the training data"
    return InputError(name, Description(what), expected, "Remove this tree, or train with it.")


class GoldTrees(NamedTuple):
    """Known trees as nodes in preorder, one sentence after the other."""

    offsets: Indices  # (n + 1,)
    kind: Indices
    rule: Indices  # −1 for a word without a lexical entry
    symbol: Indices
    right: Indices  # flat place of the right child; its own place where there is none
    start: Indices
    end: Indices
    root: Indices  # (n,) number of the root among the grammar's roots


class Layout(NamedTuple):
    """Numbers of the first weight of each block; a rule's weights differ by the sub-symbols of its symbols."""

    unary: int
    lexical: int
    root: int
    end: int


def weight_layout(grammar: Grammar, splits: int) -> Layout:
    """Return where unary, lexical and root weights begin; binary ones begin at 0.

    Weight (r·k + a)·k² + b·k + c belongs to binary rule r with sub-symbols a, b, c of k, and likewise for the others.
    """
    unary = len(grammar.binary) * splits**3
    lexical = unary + len(grammar.unary) * splits**2
    root = lexical + len(grammar.lexicon.entries) * splits
    return Layout(unary, lexical, root, root + len(grammar.roots) * splits)


def _grouped(values: Indices, size: int) -> tuple[Indices, Indices]:
    """Return offsets (size + 1,) and the order that sorts the values."""
    return offsets_from_lengths(np.bincount(values, minlength=size)), np.argsort(values, kind="stable")


def _split(symbols: Indices, splits: int) -> tuple[Indices, Indices]:
    """Return all ways to give sub-symbols to rows of symbols (m, q): split symbols (m·k^q, q), sub-symbols likewise."""
    q = symbols.shape[1]
    subs = np.tile(np.indices((splits,) * q).reshape(q, -1).T, (len(symbols), 1))
    return np.repeat(symbols, splits**q, axis=0) * splits + subs, subs


def compile_rules(grammar: Grammar, splits: int) -> Rules:
    """Lay a grammar out for the kernels; symbol number s becomes s·k … s·k + k − 1."""
    layout, n_symbols = weight_layout(grammar, splits), len(grammar.symbols) * splits
    rules, _ = _split(np.array(grammar.binary, dtype=np.int64).reshape(-1, 3), splits)
    order = np.lexsort((rules[:, 2], rules[:, 1]))
    parent, left, right = rules[order].T.copy()
    first = np.flatnonzero(np.diff(left, prepend=-1) | np.diff(right, prepend=-1))
    left_start = offsets_from_lengths(np.bincount(left[first], minlength=n_symbols))
    parent_start, by_parent = _grouped(parent, n_symbols)
    chains = _compile_chains(grammar, splits, layout.unary)
    bottom, top = (np.array([chain[end] for chain in chains], dtype=np.int64) for end in (0, 1))
    top_start, by_top = _grouped(top, n_symbols)
    root = np.full(n_symbols, -1)
    for number, symbol in enumerate(grammar.roots):
        root[symbol * splits : (symbol + 1) * splits] = layout.root + number * splits + np.arange(splits)
    nothing = np.zeros(0, dtype=np.int64)
    return Rules(
        left_start,
        right[first],
        np.append(first, len(left)),
        left,
        right,
        parent,
        order,
        parent_start,
        by_parent,
        offsets_from_lengths(np.bincount(bottom, minlength=n_symbols)),
        bottom,
        top,
        top_start,
        by_top,
        offsets_from_lengths(len(chain[2]) for chain in chains),
        np.concatenate([nothing, *(chain[2] for chain in chains)]),
        np.concatenate([nothing, *(chain[3] for chain in chains)]),
        root,
        np.repeat(grammar.label_numbers, splits),
    )


def _compile_chains(grammar: Grammar, splits: int, unary_at: int) -> list[tuple[int, int, Indices, Indices]]:
    """Return bottom and top of split chains sorted by bottoms, and weights and upper symbols of the steps upwards."""
    longest = max((len(chain) for chain in grammar.chains), default=0)
    if splits > 1 and splits**longest > MOST_SPLIT_CHAINS:
        expected = f"small enough for at most {MOST_SPLIT_CHAINS} forms of a chain of {longest} single children"
        raise InputError("splits", splits, expected)
    found: list[tuple[int, int, Indices, Indices]] = []
    for chain in grammar.chains:
        steps = np.array([grammar.rule_numbers[pair] for pair in pairwise(chain)])
        symbols, subs = _split(np.array([chain]), splits)
        weights = unary_at + steps * splits**2 + subs[:, :-1] * splits + subs[:, 1:]
        ends = (symbols[:, -1].tolist(), symbols[:, 0].tolist())
        found.extend(zip(*ends, weights[:, ::-1], symbols[:, -2::-1], strict=True))
    return sorted(found, key=lambda chain: chain[0])


def relative_frequencies(grammar: Grammar, trees: GoldTrees, splits: int, n_features: int) -> Vector:
    """Return the log relative frequencies of rules, words and roots in trees as weights, shape (d,).

    What does not occur in the trees counts as half an occurrence; sub-symbols share equally.
    """
    layout, k, w = weight_layout(grammar, splits), splits, np.zeros(n_features)
    tags = np.array([grammar.tag_number(tag) for _, tag in grammar.lexicon.entries], dtype=np.int64)
    binary, unary = (np.array([rule[0] for rule in rules], dtype=np.int64) for rules in (grammar.binary, grammar.unary))
    # Kind, first weight, parent of each rule, weights of a rule, and of one with the parent's sub-symbol.
    blocks = (
        (BINARY, 0, binary, k**3, k**2),
        (UNARY, layout.unary, unary, k**2, k),
        (LEXICAL, layout.lexical, tags, k, 1),
    )
    totals = np.zeros(len(grammar.symbols))
    counts = []
    for kind, _, parents, _, _ in blocks:
        count = np.bincount(trees.rule[(trees.kind == kind) & (trees.rule >= 0)], minlength=len(parents))
        counts.append(np.maximum(count, 0.5))
        np.add.at(totals, parents, counts[-1])
    for (_, at, parents, copies, ways), count in zip(blocks, counts, strict=True):
        w[at : at + len(parents) * copies] = np.repeat(np.log(count / totals[parents] / ways), copies)
    roots = np.maximum(np.bincount(trees.root, minlength=len(grammar.roots)), 0.5)
    w[layout.root : layout.end] = np.repeat(np.log(roots / roots.sum() / k), k)
    return w
