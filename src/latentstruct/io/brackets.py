"""Trees in brackets, as treebanks write them, and the sentences that are to be parsed."""

import io
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from latentstruct.data.trees import NO_BREAK_SPACES, Tree, is_plain, plain_label
from latentstruct.exceptions import FormatError, InputError
from latentstruct.io.text import FilePath, Source, kept_input, numbered_lines, show, source_name, write_text

ENCODINGS = ("utf-8", "latin-1")
EMPTY_LABEL = "-NONE-"

_PIECE = re.compile(rf"[()]|(?:[^\s()]|[{NO_BREAK_SPACES}])+")
_WORD = re.compile(rf"[\S{NO_BREAK_SPACES}]+")
_CLOSING = ")"

Token = str | tuple[str, str]
"""A word, or a word with its tag."""


@dataclass(slots=True)
class _Open:
    """A bracket that is not closed yet: its label (None before the first piece), its line and what it holds."""

    line: int
    trees: list[Tree]
    label: str | None = None
    words: tuple[str, ...] = ()
    had_trees: bool = False


def read_trees(
    path: FilePath,
    encoding: str = "utf-8",
    lemmas: bool = False,
    empty_labels: Collection[str] = (EMPTY_LABEL,),
    empty_words: Collection[str] = (),
    plain_labels: bool = False,
) -> list[Tree]:
    """Read trees such as ``(S (NP (DT the) (NN dog)) (VP (VB barks)))``.

    Trees may stand several in a line or over several lines, and each may be wrapped in a bracket without a label, as
    in the Penn Treebank. A bracket with a word is a preterminal and holds nothing else. A no-break space within a word
    belongs to it.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input.
    encoding : {"utf-8", "latin-1"}, default="utf-8"
        The encoding of the file.
    lemmas : bool, default=False
        Whether a lemma may follow each word, as in ``(NNS dogs dog)``; it is dropped.
    empty_labels : collection of str, default=("-NONE-",)
        Labels of preterminals that stand for nothing in the sentence: they are dropped with the brackets and trees
        that then hold no word.
    empty_words : collection of str, default=()
        Words that do so.
    plain_labels : bool, default=False
        Whether to drop functions and references from labels and tags, so that ``NP-SBJ`` is ``NP``; see
        `latentstruct.data.trees.plain_label`.

    Returns
    -------
    list of Tree
        The trees in the order of the file.
    """
    lines, source = numbered_lines(path), Source((), source_name(path))
    trees = list(parse_trees(lines, source.name, encoding, lemmas, empty_labels, empty_words, plain_labels))
    if not trees:
        source.fail(
            "found no tree; expected brackets such as (S (NP (NN dogs)) (VP (VB bark))): check that this is the right "
            "file",
            line=1,
        )
    return trees


def parse_trees(
    lines: Iterable[tuple[int, bytes]],
    name: str,
    encoding: str = "utf-8",
    lemmas: bool = False,
    empty_labels: Collection[str] = (EMPTY_LABEL,),
    empty_words: Collection[str] = (),
    plain_labels: bool = False,
) -> Iterator[Tree]:
    """Yield the trees of numbered lines; see `read_trees`.

    Parameters
    ----------
    lines : iterable of (int, bytes)
        The lines with their numbers.
    name : str
        What errors call the source.
    encoding, lemmas, empty_labels, empty_words, plain_labels
        As for `read_trees`.
    """
    if not (isinstance(encoding, str) and encoding in ENCODINGS):
        raise InputError(f"encoding is {show(encoding)}; expected 'utf-8' or 'latin-1': convert other files to UTF-8")
    begun: list[_Open] = []
    source = Source(lines, name)
    for raw in source:
        text = source.decode(raw) if encoding == "utf-8" else raw.decode("latin-1")
        for piece in _pieces(_PIECE, text):
            if piece == "(":
                _open(begun, source)
            elif piece != _CLOSING:
                _add_word(begun, piece, lemmas, source)
            else:
                if not begun:
                    source.fail("found ')' without '(' before it; expected balanced brackets: remove it")
                closed = _close(begun.pop(), not begun, empty_labels, empty_words, plain_labels, source)
                if begun and closed is not None:
                    begun[-1].trees.append(closed)
                elif closed is not None:
                    yield closed
    if begun:
        source.fail(
            f"the bracket ({begun[-1].label or ''} is never closed; expected a ')' for each of the {len(begun)} "
            "brackets that are open at the end of the file: add what is missing",
            line=begun[-1].line,
        )


def parse_tree(text: str) -> Tree:
    """Return the tree that a text holds in brackets.

    Parameters
    ----------
    text : str
        One tree, on any number of lines.

    Returns
    -------
    Tree

    Examples
    --------
    >>> parse_tree("(NP (D the) (N dog))").label
    'NP'
    """
    if not isinstance(text, str):
        raise InputError(
            f"text is {show(text)}; expected a tree in brackets such as '(NP (N dogs))': give it as a string"
        )
    lines = enumerate(text.encode("utf-8", "surrogatepass").splitlines(), start=1)
    trees = list(parse_trees(lines, "text"))
    if len(trees) != 1:
        raise FormatError(f"the text holds {len(trees)} trees; expected one: read several with read_trees")
    return trees[0]


def _pieces(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return what a pattern finds in a text, without no-break spaces at the ends."""
    return [piece for found in pattern.findall(text) if (piece := found.strip())]


def _open(begun: list[_Open], source: Source) -> None:
    """Open a bracket within the last one."""
    if begun:
        outer = begun[-1]
        if outer.words:
            source.fail(
                f"found '(' after the word {show(outer.words[0])} in one bracket; expected brackets or one word in it: "
                "put the word into a bracket with its tag"
            )
        if outer.label is None:
            if len(begun) > 1:
                source.fail("found a bracket without a label; expected (LABEL …): give it a label", line=outer.line)
            outer.label = ""
        outer.had_trees = True
    begun.append(_Open(source.line, []))


def _add_word(begun: list[_Open], piece: str, lemmas: bool, source: Source) -> None:
    """Take a piece of text for the label of the last bracket or for its word."""
    if not begun:
        source.fail(
            f"found {show(piece)} outside all brackets; expected '(': put it into a tree, or, if this file holds "
            "sentences, give trees"
        )
    inner = begun[-1]
    if inner.label is None:
        inner.label = piece
        return
    if inner.had_trees or not inner.label:
        source.fail(
            f"found the word {show(piece)} beside brackets in ({inner.label}; expected it in a bracket of its own: put "
            "it into one with its tag"
        )
    if len(inner.words) == 1 + lemmas:
        source.fail(
            f"found {show(piece)} after {show(inner.words[-1])} in ({inner.label}; expected one word"
            f"{' and its lemma' if lemmas else ''} in a bracket: give every word a bracket with its tag"
            f"{'' if lemmas else ', or ask for lemmas if these are such'}"
        )
    inner.words += (piece,)


def _close(
    inner: _Open,
    outermost: bool,
    empty_labels: Collection[str],
    empty_words: Collection[str],
    plain_labels: bool,
    source: Source,
) -> Tree | None:
    """Return the tree of a bracket, None if it holds no word of the sentence."""
    if inner.label is None or (not inner.words and not inner.had_trees):
        joined = any(map(str.isspace, inner.label or ""))
        source.fail(
            f"found the bracket ({inner.label or ''}) with nothing in it; expected (TAG word) or (LABEL (TAG word) "
            f"…): remove it or give it words{', after a plain space instead of a no-break one' if joined else ''}",
            line=inner.line,
        )
    label = plain_label(inner.label) if plain_labels else inner.label
    if inner.words:
        dropped = inner.label in empty_labels or inner.words[0] in empty_words
        return None if dropped else Tree(label, (inner.words[0],))
    if not inner.trees:
        return None
    if label:
        return Tree(label, tuple(inner.trees))
    assert outermost
    if len(inner.trees) > 1:
        source.fail(
            f"found {len(inner.trees)} trees in one bracket without a label; expected one: give the bracket a label "
            "such as ROOT, or give each tree a bracket of its own",
            line=inner.line,
        )
    return inner.trees[0]


def format_tree(tree: Tree) -> str:
    """Return a tree in brackets on one line.

    Brackets within words and labels are written as ``-LRB-`` and ``-RRB-``, as in the Penn Treebank.

    Parameters
    ----------
    tree : Tree
        The tree, however deep.

    Returns
    -------
    str
        Text such as ``(S (NP (DT the) (NN dog)) (VP (VB barks)))``.

    Raises
    ------
    InputError
        If a word or label is empty or has blanks in it, or a node has no child.

    Examples
    --------
    >>> format_tree(Tree("NP", (Tree("DT", ("the",)), Tree("NN", ("dog",)))))
    '(NP (DT the) (NN dog))'
    """
    parts: list[str] = []
    waiting: list[Tree | str | None] = [tree]
    while waiting:
        node = waiting.pop()
        if node is None:
            parts.append(_CLOSING)
        elif isinstance(node, str):
            parts.append(f" {_written(node, 'word')}")
        else:
            if not node.children:
                raise InputError(
                    f"the node {show(node.label)} has no child; expected a word or nodes: remove it, or give it some"
                )
            parts.append(f"{' (' if parts else '('}{_written(node.label, 'label')}")
            waiting.append(None)
            waiting.extend(reversed(node.children))
    return "".join(parts)


def _written(text: str, what: str) -> str:
    """Return a word or label as it stands in a file."""
    if not is_plain(text):
        raise InputError(
            f"a {what} is {show(text)}; expected text without blanks and line ends: replace them, by _ for instance"
        )
    return _escaped(text)


def _escaped(text: str) -> str:
    """Return a text without brackets, as the Penn Treebank writes it."""
    return text.replace("(", "-LRB-").replace(")", "-RRB-")


def write_trees(path: FilePath, trees: Iterable[Tree]) -> None:
    """Write trees, one a line.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    trees : iterable of Tree
        The trees; see `format_tree` for how they are written.
    """
    write_text(path, "".join(f"{format_tree(tree)}\n" for tree in trees))


def keep_sentences(path: FilePath, suffix: str) -> FilePath:
    """Return standard input read whole, with an extension if it begins with a tree; any other path as it is."""

    def choose(content: bytes) -> str:
        first = next((line for line in io.BytesIO(content) if line.strip()), b"")
        return suffix if _is_tree(_pieces(_WORD, first.decode("latin-1"))) else ""

    return kept_input(path, choose)


def read_sentences(
    path: FilePath, tagged: bool = False, encoding: str = "utf-8", plain_labels: bool = False
) -> list[list[Token]]:
    """Read sentences, one a line, with blanks between the words.

    Brackets within words are read as ``-LRB-`` and ``-RRB-``, which are what trees have for them. A no-break space
    within a word belongs to it.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. Empty lines are passed over.
    tagged : bool, default=False
        Whether each word has its tag, as in ``dogs/NNS``; the last slash separates.
    encoding : {"utf-8", "latin-1"}, default="utf-8"
        The encoding of the file.
    plain_labels : bool, default=False
        Whether to drop functions from tags, as `read_trees` does.

    Returns
    -------
    list of list of str or of (str, str)
        The words, or the words with their tags.
    """
    if not (isinstance(encoding, str) and encoding in ENCODINGS):
        raise InputError(f"encoding is {show(encoding)}; expected 'utf-8' or 'latin-1': convert other files to UTF-8")
    source = Source.open(path)
    sentences: list[list[Token]] = []
    for raw in source:
        text = source.decode(raw) if encoding == "utf-8" else raw.decode("latin-1")
        words = _pieces(_WORD, text)
        if _is_tree(words):
            source.fail(
                f"found the tree {show(text.strip())}; expected a sentence: give its words only, or, to the command, "
                "trees in a file whose name ends in .mrg"
            )
        if words:
            tokens = map(_escaped, words)
            sentences.append([_split_tag(token, plain_labels, source) if tagged else token for token in tokens])
    if not sentences:
        source.fail("found no word; expected one sentence a line: check that this is the right file", line=1)
    return sentences


def _is_tree(pieces: list[str]) -> bool:
    """Tell whether the pieces of a line between blanks are a whole tree.

    Sentences may have brackets too, but as words of their own, or around words without brackets.
    """
    closed = bool(pieces) and pieces[-1].endswith("))") and _CLOSING not in pieces
    if not closed or not pieces[0].startswith("(") or not any(piece[:1] == "(" != piece for piece in pieces):
        return False
    try:
        return any(True for _ in parse_trees([(1, " ".join(pieces).encode())], "", lemmas=True))
    except FormatError:
        return False


def _split_tag(token: str, plain_labels: bool, source: Source) -> tuple[str, str]:
    """Return the word and the tag of a token."""
    word, _, tag = token.rpartition("/")
    if not word or not tag:
        source.fail(f"found {show(token)}; expected a word and its tag such as dogs/NNS: give every word a tag")
    return word, plain_label(tag) if plain_labels else tag
