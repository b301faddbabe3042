"""Documents of spaCy as training data, and models as components of its pipelines."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Literal

from latentstruct.core.unknown import UNKNOWN
from latentstruct.core.validation import options
from latentstruct.exceptions import InputError
from latentstruct.metrics.chunks import chunk_spans
from latentstruct.persistence.models import load

Attribute = Literal["ents", "tag", "pos"]
ATTRIBUTES = ("ents", "tag", "pos")


def tagged_docs(docs: Iterable[Any], attribute: Attribute = "ents") -> tuple[list[list[str]], list[list[Any]]]:
    """Return the words and the labels of documents, for `FeaturePipeline.fit`.

    Parameters
    ----------
    docs : iterable of Doc or Span
        The documents, such as ``DocBin().from_disk(path).get_docs(nlp.vocab)``, or their sentences, ``doc.sents``.
    attribute : {"ents", "tag", "pos"}, default="ents"
        The labels: BIO tags of the entities, or ``tag_`` or ``pos_`` of the tokens. A token without an annotation has
        the label -1, which is unknown.

    Returns
    -------
    X : list of list of str
        The words; white space is left out.
    y : list of list
        The labels.
    """
    options(*ATTRIBUTES).check(attribute, "attribute")
    kept = [[token for token in doc if not token.is_space] for doc in docs]
    kept = [tokens for tokens in kept if tokens]
    return [[token.text for token in tokens] for tokens in kept], [
        [_label(token, attribute) for token in tokens] for tokens in kept
    ]


def _label(token: Any, attribute: str) -> Any:
    if attribute == "ents":
        position = token.ent_iob_
        return position if position == "O" else f"{position}-{token.ent_type_}" if position else UNKNOWN
    return (token.tag_ if attribute == "tag" else token.pos_) or UNKNOWN


class SpacyTagger:
    """A component of a spaCy pipeline that sets entities or tags by a model of words.

    Parameters
    ----------
    model : FeaturePipeline
        A model of words, as `latentstruct.load` returns it.
    attribute : {"ents", "tag", "pos"}, default="ents"
        What to set: entities from BIO tags, or ``tag_`` or ``pos_`` of the tokens.

    See Also
    --------
    register : Makes it available to ``nlp.add_pipe``.
    tagged_docs : Documents as training data.
    """

    def __init__(self, model: Any, attribute: Attribute = "ents") -> None:
        options(*ATTRIBUTES).check(attribute, "attribute")
        self.model, self.attribute = model, attribute

    def __call__(self, doc: Any) -> Any:
        """Label a document; its sentences are labeled one by one if they are known."""
        return next(self.pipe([doc]))

    def pipe(self, docs: Iterable[Any], batch_size: int = 128) -> Iterator[Any]:
        """Label documents in batches."""
        waiting = iter(docs)
        while batch := list(islice(waiting, batch_size)):
            sentences = [
                (k, [token for token in sentence if not token.is_space])
                for k, doc in enumerate(batch)
                for sentence in (doc.sents if doc.has_annotation("SENT_START") else [doc])
            ]
            found = self.model.predict([[token.text for token in tokens] for _, tokens in sentences])
            labeled: list[list[tuple[list[Any], list[str]]]] = [[] for _ in batch]
            for (k, tokens), labels in zip(sentences, found, strict=True):
                labeled[k].append((tokens, labels.tolist()))
            for doc, some in zip(batch, labeled, strict=True):
                self._annotate(doc, some)
                yield doc

    def _annotate(self, doc: Any, sentences: list[tuple[list[Any], list[str]]]) -> None:
        entities = []
        for tokens, labels in sentences:
            if self.attribute == "ents":
                for kind, first, stop in chunk_spans(labels):
                    entity = doc[tokens[first].i : tokens[stop - 1].i + 1]
                    entity.label_ = kind
                    entities.append(entity)
                continue
            for token, label in zip(tokens, labels, strict=True):
                if self.attribute == "tag":
                    token.tag_ = label
                else:
                    token.pos_ = label
        if self.attribute == "ents":
            doc.set_ents(entities)


def register(name: str = "latentstruct") -> None:
    """Make `SpacyTagger` known to spaCy: ``nlp.add_pipe("latentstruct", config={"model": "tagger"})``.

    Parameters
    ----------
    name : str, default="latentstruct"
        The name of the component. Its settings are `model`, the folder of a saved model, and `attribute`.
    """
    try:
        from spacy.language import Language
    except ImportError as error:
        raise InputError("spacy", None, "an installed package", "Install it by pip install spacy.") from error

    def create(nlp: Any, name: str, model: str, attribute: str) -> SpacyTagger:
        return SpacyTagger(load(model), attribute)  # type: ignore[arg-type]

    Language.factory(name, default_config={"attribute": "ents"}, func=create)
