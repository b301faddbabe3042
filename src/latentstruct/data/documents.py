"""Documents with mentions, and the clusters of coreferent mentions."""

from dataclasses import dataclass, field
from typing import NamedTuple

from latentstruct.core.formatting import repr_short, short_repr
from latentstruct.exceptions import Description, InputError

__all__ = ["Document", "Mention", "OtherColumns"]


class Mention(NamedTuple):
    """The words `start` to `end` (exclusive) of a sentence, the cluster they belong to, and their entity type."""

    sentence: int
    start: int
    end: int
    cluster: str
    entity_type: str | None = None


class OtherColumns(NamedTuple):
    """The columns of a CoNLL-2012 file other than word and clusters, as text with the separators around them.

    `before[i][j]` precedes word j of sentence i on its line, `after[i][j]` lies between the word and the clusters.
    """

    before: list[list[str]]
    after: list[list[str]]


@dataclass(frozen=True)
class Document:
    """Sentences of words with mentions in the order of the text.

    Parameters
    ----------
    name : str
        Name of the document.
    sentences : list of list of str
        The words.
    mentions : list of Mention
        Distinct spans.
    part : int
        Number of the part, if a longer text is divided into documents.
    others : OtherColumns, optional
        The other columns of the file the document was read from. They are not used for training and are ignored
        when documents are compared, but are written with the document.
    """

    name: str
    sentences: list[list[str]]
    mentions: list[Mention]
    part: int = 0
    others: OtherColumns | None = field(default=None, compare=False, repr=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        spans = {mention[:3] for mention in self.mentions}
        if len(spans) < len(self.mentions):
            raise InputError("mentions", Description(f"a span twice in {repr_short(self.name)}"), "distinct spans")
        for mention in self.mentions:
            inside = 0 <= mention.sentence < len(self.sentences)
            if not inside or not 0 <= mention.start < mention.end <= len(self.sentences[mention.sentence]):
                expected = f"spans of at least one word in sentences from 0 to {len(self.sentences) - 1}"
                raise InputError("mentions", Description(f"{tuple(mention[:3])} in {repr_short(self.name)}"), expected)
        lengths = [len(words) for words in self.sentences]
        if self.others is not None and any([len(row) for row in side] != lengths for side in self.others):
            expected = "a text before and one after each word, or None"
            raise InputError("others", Description(f"other lengths in {repr_short(self.name)}"), expected)

    @property
    def clusters(self) -> list[str]:
        """The cluster of each mention: the y of the document."""
        return [mention.cluster for mention in self.mentions]

    def words(self, mention: Mention) -> list[str]:
        """Return the words of a mention."""
        return self.sentences[mention.sentence][mention.start : mention.end]
