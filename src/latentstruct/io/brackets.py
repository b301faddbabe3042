"""Trees in brackets, as in treebanks, and sentences to be parsed."""

import io
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from latentstruct.core.formatting import repr_short
from latentstruct.data.trees import NO_BREAK_SPACES, Tree, is_plain, plain_label
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.text import FilePath, Source, kept_input, numbered_lines, source_name, write_text

ENCODINGS = ("utf-8", "latin-1")
EMPTY_LABEL = "-NONE-"

_PIECE = re.compile(rf"[()]|(?:[^\s()]|[{NO_BREAK_SPACES}])+")
_WORD = re.compile(rf"[\S{NO_BREAK_SPACES}]+")
_CLOSING = ")"

Token = str | tuple[str, str]
"""A word, or a word with its tag."""


@dataclass(slots=True)
class _Open:
    """An open bracket: its label (None before the first piece), its line and its content."""

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

    A line may have several trees, and a tree several lines. Each may be wrapped in a bracket without a label, as in
    the Penn Treebank. A bracket with a word is a preterminal and contains nothing else. A no-break space within a word
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
        Labels of preterminals that represent no word of the sentence: they are dropped, with the brackets and trees
        that become empty.
    empty_words : collection of str, default=()
        Words that are dropped in the same way.
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
        source.fail(Description("no tree"), "brackets such as (S (NP (NN dogs)) (VP (VB bark)))", line=1)
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
        The name of the file in messages.
    encoding, lemmas, empty_labels, empty_words, plain_labels
        As for `read_trees`.
    """
    _check_encoding(encoding)
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
                    source.fail(Description("')' without '('"), "balanced brackets")
                closed = _close(begun.pop(), not begun, empty_labels, empty_words, plain_labels, source)
                if begun and closed is not None:
                    begun[-1].trees.append(closed)
                elif closed is not None:
                    yield closed
    if begun:
        got = Description(f"{len(begun)} open brackets at the end of the file, the last one ({begun[-1].label or ''}")
        source.fail(got, "balanced brackets", line=begun[-1].line)


def _check_encoding(encoding: object) -> None:
    if not (isinstance(encoding, str) and encoding in ENCODINGS):
        raise InputError("encoding", encoding, " or ".join(map(repr, ENCODINGS)))


def parse_tree(text: str) -> Tree:
    """Return the tree of a text in brackets.

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
        raise InputError("text", text, "a string such as '(NP (N dogs))'")
    lines = enumerate(text.encode("utf-8", "surrogatepass").splitlines(), start=1)
    trees = list(parse_trees(lines, "text"))
    if len(trees) != 1:
        raise FormatError("text", Description(f"{len(trees)} trees"), "one tree", "Use `read_trees` for several.")
    return trees[0]


def _pieces(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the matches of a pattern in a text, without no-break spaces at the ends."""
    return [piece for found in pattern.findall(text) if (piece := found.strip())]


def _open(begun: list[_Open], source: Source) -> None:
    """Open a bracket within the last one."""
    if begun:
        outer = begun[-1]
        if outer.words:
            source.fail(
                Description(f"'(' after the word {repr_short(outer.words[0])}"), "brackets or one word in a bracket"
            )
        if outer.label is None:
            if len(begun) > 1:
                source.fail(Description("no label"), "(LABEL …)", line=outer.line)
            outer.label = ""
        outer.had_trees = True
    begun.append(_Open(source.line, []))


def _add_word(begun: list[_Open], piece: str, lemmas: bool, source: Source) -> None:
    """Add a piece of text as the label or the word of the last bracket."""
    if not begun:
        source.fail(piece, "'('", "Use a file of trees instead of sentences.")
    inner = begun[-1]
    if inner.label is None:
        inner.label = piece
        return
    if inner.had_trees or not inner.label:
        source.fail(
            Description(f"{repr_short(piece)} next to brackets in ({inner.label}"), "words in brackets with their tags"
        )
    if len(inner.words) == 1 + lemmas:
        got = Description(f"{repr_short(piece)} after {repr_short(inner.words[-1])} in ({inner.label}")
        lemma = " and its lemma" if lemmas else ""
        hint = None if lemmas else "Set `lemmas` if words are followed by lemmas."
        source.fail(got, f"one word{lemma} in a bracket", hint)
    inner.words += (piece,)


def _close(
    inner: _Open,
    outermost: bool,
    empty_labels: Collection[str],
    empty_words: Collection[str],
    plain_labels: bool,
    source: Source,
) -> Tree | None:
    """Return the tree of a bracket, None if it contains no word of the sentence."""
    if inner.label is None or (not inner.words and not inner.had_trees):
        joined = any(map(str.isspace, inner.label or ""))
        hint = "Use a plain space instead of a no-break space." if joined else None
        got = Description(f"the empty bracket ({inner.label or ''})")
        source.fail(got, "(TAG word) or (LABEL (TAG word) …)", hint, line=inner.line)
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
        got = Description(f"{len(inner.trees)} trees")
        source.fail(got, "one tree in a bracket without a label", "Use a label such as ROOT.", line=inner.line)
    return inner.trees[0]


def format_tree(tree: Tree) -> str:
    """Return a tree in brackets on one line.

    Brackets within words and labels are written as ``-LRB-`` and ``-RRB-``, as in the Penn Treebank.

    Parameters
    ----------
    tree : Tree
        The tree, of any depth.

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
                    "tree",
                    Description(f"the node {repr_short(node.label)} without children"),
                    "a tree whose leaves are words",
                )
            parts.append(f"{' (' if parts else '('}{_written(node.label, 'label')}")
            waiting.append(None)
            waiting.extend(reversed(node.children))
    return "".join(parts)


def _written(text: str, what: str) -> str:
    """Return a word or label as written to a file."""
    if not is_plain(text):
        raise InputError(
            "tree", Description(f"the {what} {repr_short(text)}"), f"a tree whose {what}s have no white space"
        )
    return _escaped(text)


def _escaped(text: str) -> str:
    """Return a text without brackets, as in the Penn Treebank."""
    return text.replace("(", "-LRB-").replace(")", "-RRB-")


def write_trees(path: FilePath, trees: Iterable[Tree]) -> None:
    """Write trees, one per line.

    Parameters
    ----------
    path : str or path
        The file; compressed if its name ends in ``.gz``; ``-`` is standard output.
    trees : iterable of Tree
        The trees; see `format_tree` for the format.
    """
    write_text(path, "".join(f"{format_tree(tree)}\n" for tree in trees))


def keep_sentences(path: FilePath, suffix: str) -> FilePath:
    """Read standard input, with an extension if it starts with a tree; return any other path unchanged."""

    def choose(content: bytes) -> str:
        first = next((line for line in io.BytesIO(content) if line.strip()), b"")
        return suffix if _is_tree(_pieces(_WORD, first.decode("latin-1"))) else ""

    return kept_input(path, choose)


def read_sentences(
    path: FilePath, tagged: bool = False, encoding: str = "utf-8", plain_labels: bool = False
) -> list[list[Token]]:
    """Read sentences, one per line, with blanks between the words.

    Brackets within words are read as ``-LRB-`` and ``-RRB-``, as in trees. A no-break space
    within a word belongs to it.

    Parameters
    ----------
    path : str or path
        The file; decompressed if its name ends in ``.gz``; ``-`` is standard input. Empty lines are skipped.
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
    _check_encoding(encoding)
    source = Source.open(path)
    sentences: list[list[Token]] = []
    for raw in source:
        text = source.decode(raw) if encoding == "utf-8" else raw.decode("latin-1")
        words = _pieces(_WORD, text)
        if _is_tree(words):
            source.fail(text.strip(), "a sentence instead of a tree", "The name of a file of trees must end in .mrg.")
        if words:
            tokens = map(_escaped, words)
            sentences.append([_split_tag(token, plain_labels, source) if tagged else token for token in tokens])
    if not sentences:
        source.fail(Description("no word"), "one sentence per line", line=1)
    return sentences


def _is_tree(pieces: list[str]) -> bool:
    """Return whether the pieces of a line between blanks are a complete tree.

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
        source.fail(token, "a word and its tag such as dogs/NNS")
    return word, plain_label(tag) if plain_labels else tag
