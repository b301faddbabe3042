"""CESS-ESP: trees of Spanish sentences."""

import os
import re
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from latentstruct.datasets.home import dataset_file
from latentstruct.exceptions import FormatError
from latentstruct.formats.brackets import parse_trees
from latentstruct.short_repr import short_repr
from latentstruct.trees import Tree, plain_label

__all__ = ["CessEsp", "load_cess_esp", "simplify_label", "simplify_tag"]

_FILE = "cess_esp_trees/cess_esp.zip"
_SUFFIX = ".tbf"
_LARGEST = 256 * 1024 * 1024
_ELLIPSIS = "*0*"

_DETAIL = re.compile(r"[mf]?[sp]|co|[xje]|[0-9].*", re.ASCII)
_NOUN_PHRASE = re.compile(r"sn[a-z]?", re.ASCII)
_CLAUSES = {"AComp": "A", "AConc": "A", "ACond": "A", "ACons": "A", "PA": "P"}


@dataclass(frozen=True)
class CessEsp:
    """Trees of Spanish sentences.

    Parameters
    ----------
    trees : list of n Tree
        One for each sentence.
    names : list of n str
        The file that each stands in.
    skipped : dict of str to str
        Files that were left out as they cannot be read, and why.
    """

    trees: list[Tree]
    names: list[str]
    skipped: dict[str, str]

    __repr__ = short_repr

    def __len__(self) -> int:
        return len(self.trees)


@lru_cache(maxsize=4096)
def simplify_label(label: str) -> str:
    """Return the label of a constituent without its function and details.

    The function is dropped (see `latentstruct.trees.plain_label`), and ``*``; of the parts between dots those for
    gender, number, coordination, ellipsis and references are dropped from the second on. Noun phrases of names are noun
    phrases (``snp`` → ``sn``), adjective phrases are ``sa``, and adverbial and participle clauses have one letter.

    Parameters
    ----------
    label : str
        A label as in the files.

    Returns
    -------
    str
        One of about 30 labels.

    Examples
    --------
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
    """Return the part of speech: three letters of verbs, marks of punctuation as they are, else two letters.

    Parameters
    ----------
    tag : str
        A tag of the EAGLES scheme.

    Returns
    -------
    str
        One of about 60 tags: of verbs the letters for the kind and the mood are kept, of others that for the kind.

    Examples
    --------
    >>> [simplify_tag(tag) for tag in ("vmis3s0", "ncfs000", "Fpa", "rg")]
    ['vmi', 'nc', 'Fpa', 'rg']
    """
    return tag[:3] if tag[:1] in ("v", "F") else tag[:2]


def _simplified(tree: Tree) -> Tree:
    """Return the tree with simple labels; of two equal labels, one right above the other, one is kept."""
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


def _read_archive(path: Path) -> dict[str, bytes]:
    """Return the content of the files of trees in an archive, in the order of their names."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if one.filename.endswith(_SUFFIX)]
            size = sum(one.file_size for one in members)
            if size > _LARGEST:
                raise ValueError(f"its files have {size} bytes")
            contents = {one.filename: archive.read(one) for one in members}
    except Exception as error:
        # A damaged archive fails in as many ways as the format and its compressions have parts.
        raise FormatError(
            f"{path} cannot be read ({type(error).__name__}: {error}); expected a complete zip archive with files "
            f"*{_SUFFIX} of {_LARGEST} bytes at most: fetch it again"
        ) from error
    return dict(sorted(contents.items()))


def load_cess_esp(data_home: str | os.PathLike[str] | None = None, simplify: bool = True) -> CessEsp:
    """Load the treebank CESS-ESP from ``cess_esp_trees/cess_esp.zip`` in the data home.

    The archive is read in memory; nothing is unpacked. Lemmas and omitted subjects (``*0*``) are dropped, with the
    brackets that then hold no word. Files that are not balanced, three of 609, are left out and named.

    Parameters
    ----------
    data_home : str or path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
    simplify : bool, default=True
        Whether to simplify labels and tags by `simplify_label` and `simplify_tag`, and to keep one of two equal labels
        that then stand right above each other; otherwise they are as in the files, with functions and inflections.

    Returns
    -------
    CessEsp
        The trees in the order of the files' names.

    Raises
    ------
    InputError
        If there is no data home or no such file in it.
    FormatError
        If the archive is damaged or holds no file of trees.
    """
    path = dataset_file(data_home, _FILE)
    trees: list[Tree] = []
    names: list[str] = []
    skipped: dict[str, str] = {}
    for member, content in _read_archive(path).items():
        name = member.rpartition("/")[2].removesuffix(_SUFFIX)
        lines = enumerate(content.split(b"\n"), 1)
        try:
            found = list(parse_trees(lines, member, "latin-1", lemmas=True, empty_words=(_ELLIPSIS,)))
        except FormatError as error:
            skipped[name] = str(error)
            continue
        trees += [_simplified(tree) if simplify else tree for tree in found]
        names += [name] * len(found)
    if not trees:
        raise FormatError(f"{path} holds no trees in files *{_SUFFIX}; expected those of CESS-ESP: fetch it again")
    return CessEsp(trees, names, skipped)
