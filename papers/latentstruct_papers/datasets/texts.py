"""Sentences, documents and trees: CoNLL-2000 chunks, the treebank CESS-ESP and coreference in LitBank."""

import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from latentstruct.core.formatting import short_repr
from latentstruct.data.documents import Document
from latentstruct.data.trees import Tree, plain_label
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.io.brackets import parse_trees
from latentstruct.io.columns import parse_conll
from latentstruct.io.coreference import parse_litbank
from latentstruct.io.text import Source
from latentstruct_papers.datasets.home import loader, read_archive

_TREES = ".tbf"
_ELLIPSIS = "*0*"
_DETAIL = re.compile(r"[mf]?[sp]|co|[xje]|[0-9].*", re.ASCII)
_NOUN_PHRASE = re.compile(r"sn[a-z]?", re.ASCII)
_CLAUSES = {"AComp": "A", "AConc": "A", "ACond": "A", "ACons": "A", "PA": "P"}
_LITBANK = "coref/tsv/"


@dataclass(frozen=True)
class Conll2000:
    """Sentences with their chunks.

    Parameters
    ----------
    tokens : list of list of (str, str)
        The word and the part of speech of the tokens of each sentence.
    Y : list of list of str
        The chunk tags of each sentence in the IOB2 scheme.
    """

    tokens: list[list[tuple[str, ...]]]
    Y: list[list[str]]

    __repr__ = short_repr


@loader("conll2000/conll2000.zip")
def load_conll2000(paths: list[Path], subset: str = "train") -> Conll2000:
    """Load one part of the CoNLL-2000 chunking data from ``conll2000/conll2000.zip`` in the data home.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        The part.

    Returns
    -------
    Conll2000
        The sentences and their chunk tags.
    """
    if subset not in ("train", "test"):
        raise InputError("subset", subset, "'train' or 'test'")
    wanted = f"{subset}.txt"
    files = read_archive(paths[0], lambda name: name.rpartition("/")[2] == wanted, wanted)
    if len(files) != 1:
        raise FormatError(paths[0], Description(f"{len(files)} files"), f"one file {wanted}")
    ((member, content),) = files.items()
    source = f"{paths[0]}:{member}"
    sentences = parse_conll(enumerate(content.split(b"\n"), 1), source)
    if sentences.n_columns != 3:
        expected = "3 columns, the word, its part of speech and its chunk tag"
        raise FormatError(source, Description(f"{sentences.n_columns} columns"), expected, line=1)
    return Conll2000(*sentences.split_labels())


@loader("litbank_coref/litbank_coref_conll_tsv.tar.gz")
def load_litbank(paths: list[Path]) -> list[Document]:
    """Load LitBank's documents from ``litbank_coref/litbank_coref_conll_tsv.tar.gz`` in the data home.

    The archive is read in memory; nothing is unpacked. Mentions have the annotated entity types (PER, FAC, …);
    appositions and predicates are singleton clusters, as in LitBank's CoNLL files.

    Returns
    -------
    list of Document
        The documents in the order of their names.
    """
    (path,) = paths
    files = read_archive(
        path,
        lambda name: name.startswith(_LITBANK) and name.endswith((".ann", ".txt")),
        f"files {_LITBANK}*.ann and .txt",
        10_000_000,
    )
    names = [name.removesuffix(".ann") for name in files if name.endswith(".ann")]
    if not names:
        raise FormatError(path, Description("none"), f"files {_LITBANK}*.ann")
    documents = []
    for name in names:
        if f"{name}.txt" not in files:
            raise FormatError(path, Description("none"), f"a file {name}.txt for {name}.ann")
        annotation, text = (
            Source(enumerate(files[file].splitlines(), 1), f"{path}:{file}") for file in (f"{name}.ann", f"{name}.txt")
        )
        documents.append(parse_litbank(annotation, text, os.path.basename(name)))
    return documents


@dataclass(frozen=True)
class CessEsp:
    """Trees of Spanish sentences.

    Parameters
    ----------
    trees : list of n Tree
        One per sentence.
    names : list of n str
        The file of each sentence.
    skipped : dict of str to str
        Files that cannot be read, and why.
    """

    trees: list[Tree]
    names: list[str]
    skipped: dict[str, str]

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.trees)


@lru_cache(maxsize=4096)
def simplify_label(label: str) -> str:
    """Return the label of a constituent without its function and details, one of about 30 labels.

    The function is dropped (see `latentstruct.data.trees.plain_label`), and ``*``; so are parts after the first dot for
    gender, number, coordination, ellipsis and references. Noun phrases of names are noun phrases (``snp`` → ``sn``),
    adjective phrases are ``sa``, and adverbial and participle clauses have one letter.

    >>> [simplify_label(label) for label in ("sn.co-SUJ", "grup.nom.ms", "S.F.AComp*.j", "s.a.fp.x", "S*")]
    ['sn', 'grup.nom', 'S.F.A', 'sa', 'S']
    """
    first, *others = plain_label(label).replace("*", "").split(".")
    if _NOUN_PHRASE.fullmatch(first):
        first = "sn"
    kept = [_CLAUSES.get(part, part) for part in others if not _DETAIL.fullmatch(part)]
    simple = ".".join([first, *kept])
    return "sa" if simple == "s.a" else simple


def simplify_tag(tag: str) -> str:
    """Return the part of speech of an EAGLES tag: three letters of verbs and punctuation, else two.

    >>> [simplify_tag(tag) for tag in ("vmis3s0", "ncfs000", "Fpa", "rg")]
    ['vmi', 'nc', 'Fpa', 'rg']
    """
    return tag[:3] if tag[:1] in ("v", "F") else tag[:2]


def _simplified(tree: Tree) -> Tree:
    """Return the tree with simplified labels; of two equal labels directly above each other, one is kept."""
    done: list[list[Tree]] = [[]]
    waiting: list[tuple[Tree, bool]] = [(tree, False)]
    while waiting:
        node, ends = waiting.pop()
        first = node.children[0]
        if isinstance(first, str):
            done[-1].append(Tree(simplify_tag(node.label), (first,)))
        elif not ends:
            done.append([])
            waiting.append((node, True))
            waiting.extend((child, False) for child in reversed(node.children) if not isinstance(child, str))
        else:
            children, label = done.pop(), simplify_label(node.label)
            single = len(children) == 1 and not isinstance(children[0].children[0], str)
            same = single and children[0].label == label
            done[-1].append(children[0] if same else Tree(label, tuple(children)))
    return done[0][0]


@loader("cess_esp_trees/cess_esp.zip")
def load_cess_esp(paths: list[Path], simplify: bool = True) -> CessEsp:
    """Load the treebank CESS-ESP from ``cess_esp_trees/cess_esp.zip`` in the data home.

    The archive is read in memory; nothing is unpacked. Lemmas and omitted subjects (``*0*``) are dropped, with the
    brackets that become empty. Files that are not balanced, three of 609, are skipped and listed.

    Parameters
    ----------
    simplify : bool, default=True
        Whether to simplify labels and tags by `simplify_label` and `simplify_tag`, and to keep one of two equal labels
        directly above each other; otherwise they are as in the files, with functions and inflections.

    Returns
    -------
    CessEsp
        The trees in the order of file names.
    """
    found = CessEsp([], [], {})
    for member, content in read_archive(paths[0], lambda name: name.endswith(_TREES), f"files *{_TREES}").items():
        name = member.rpartition("/")[2].removesuffix(_TREES)
        lines = enumerate(content.split(b"\n"), 1)
        try:
            trees = list(parse_trees(lines, member, "latin-1", lemmas=True, empty_words=(_ELLIPSIS,)))
        except FormatError as error:
            found.skipped[name] = str(error)
            continue
        found.trees.extend(_simplified(tree) if simplify else tree for tree in trees)
        found.names.extend([name] * len(trees))
    if not found.trees:
        raise FormatError(paths[0], Description("none"), f"trees in files *{_TREES}")
    return found
