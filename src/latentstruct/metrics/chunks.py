"""Scores of predicted chunks, by the rules of the CoNLL shared tasks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct.core.validation import check_length, check_lists, listed
from latentstruct.exceptions import InputError
from latentstruct.metrics.counts import FoundScore

__all__ = ["ChunkScore", "ChunkScores", "chunk_f1_loss", "chunk_f1_scorer", "chunk_scores", "chunk_spans"]

_POSITIONS = frozenset("BIESO")


@dataclass(frozen=True)
class ChunkScore(FoundScore):
    """Scores of the chunks of one type: precision, recall, f1, n_true, n_predicted and n_correct."""


@dataclass(frozen=True)
class ChunkScores(ChunkScore):
    """Scores of the chunks of all types.

    Parameters
    ----------
    precision, recall, f1, n_true, n_predicted, n_correct
        As for `ChunkScore`, over the chunks of all types.
    accuracy : float
        The fraction of the tokens whose tag was predicted exactly.
    n_tokens : int
        The number of tokens.
    by_type : dict of str to ChunkScore
        The scores of each type that occurs in truth or prediction, in alphabetical order.
    """

    accuracy: float
    n_tokens: int
    by_type: dict[str, ChunkScore]


def _parts(tag: object) -> tuple[str, str]:
    """Split a tag into its position letter and its type."""
    position, _, kind = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if position not in _POSITIONS:
        raise InputError("tags", tag, "tags such as 'B-NP' or 'O', in the IOB1, IOB2 or BIOES scheme")
    return position, kind if position != "O" else ""


def chunk_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the chunks of one sentence, whether tagged in the IOB1, IOB2, IOE or BIOES scheme.

    As in the evaluation of the CoNLL shared tasks, a chunk need not be well formed. A token that is not O
    opens a chunk if it is the first one, if its tag is B or S, if the tag before is O, E or S, or if the type
    changes; every other token continues the chunk before it.

    Parameters
    ----------
    tags : sequence of str
        The tags of the tokens, such as ``B-NP``, ``I-NP`` and ``O``; the type is optional.

    Returns
    -------
    list of (str, int, int)
        The type, the first position and the position after the last of each chunk, in order.

    Examples
    --------
    >>> chunk_spans(["B-NP", "I-NP", "O", "I-VP", "I-NP"])
    [('NP', 0, 2), ('VP', 3, 4), ('NP', 4, 5)]
    """
    if isinstance(tags, str):
        raise InputError("tags", tags, "a list of tags")
    spans: list[tuple[str, int, int]] = []
    before, kind_before, start = "O", "", 0
    for i, tag in enumerate(listed(tags, "tags")):
        position, kind = _parts(tag)
        if position == "O" or position in "BS" or before in "OES" or kind != kind_before:
            if before != "O":
                spans.append((kind_before, start, i))
            start = i
        before, kind_before = position, kind
    if before != "O":
        spans.append((kind_before, start, len(tags)))
    return spans


def chunk_scores(true: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> ChunkScores:
    """Compare predicted chunks with the true ones; a chunk is correct if its type and both its ends are.

    Parameters
    ----------
    true : iterable of sequences of str
        The true tags of each sentence.
    predicted : iterable of sequences of str
        The predicted tags of each sentence.

    Returns
    -------
    ChunkScores
        The scores over all chunks and per type.

    Raises
    ------
    InputError
        If the sentences do not match or a tag is not O, B, I, E or S with an optional type.

    See Also
    --------
    chunk_spans : The conversion of tags to chunks.

    Examples
    --------
    >>> scores = chunk_scores([["B-NP", "I-NP", "O"]], [["B-NP", "I-NP", "B-VP"]])
    >>> scores.precision, scores.recall, scores.by_type["NP"].f1
    (0.5, 1.0, 1.0)
    """
    true_sentences, predicted_sentences = listed(true, "true"), listed(predicted, "predicted")
    check_length(predicted_sentences, len(true_sentences), "predicted", "sentences")
    n_true: Counter[str] = Counter()
    n_predicted: Counter[str] = Counter()
    n_correct: Counter[str] = Counter()
    n_tokens = n_equal = 0
    for i, (tags, guesses) in enumerate(zip(true_sentences, predicted_sentences, strict=True)):
        for name, found in ((f"true[{i}]", tags), (f"predicted[{i}]", guesses)):
            if isinstance(found, str):
                raise InputError(name, found, "a list of tags")
            check_lists(**{name: found})
        check_length(guesses, len(tags), f"predicted[{i}]", "tags")
        spans, found = chunk_spans(tags), chunk_spans(guesses)
        n_true.update(span[0] for span in spans)
        n_predicted.update(span[0] for span in found)
        n_correct.update(span[0] for span in set(spans).intersection(found))
        n_tokens += len(tags)
        n_equal += sum(tag == guess for tag, guess in zip(tags, guesses, strict=True))
    return ChunkScores(
        **vars(ChunkScore.of_counts(n_true.total(), n_predicted.total(), n_correct.total())),
        accuracy=n_equal / n_tokens if n_tokens else 0.0,
        n_tokens=n_tokens,
        by_type=ChunkScore.of_each(n_true, n_predicted, n_correct),
    )


def chunk_f1_loss(true: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> NDArray[np.float64]:
    """Return 1 − F1 of the chunks of each sentence, 0 where neither side has one: a loss for `predict_min_risk`.

    Parameters
    ----------
    true, predicted : iterables of n sequences of str
        The true and the predicted tags of each sentence.

    Returns
    -------
    ndarray of shape (n,)
        The losses.

    Examples
    --------
    >>> chunk_f1_loss([["B-NP", "O"], ["O"]], [["B-NP", "B-VP"], ["O"]]).round(3).tolist()
    [0.333, 0.0]
    """
    return spans_f1_loss(*([set(chunk_spans(list(tags))) for tags in side] for side in (true, predicted)))


def spans_f1_loss(true: Sequence[set[Any]], predicted: Sequence[set[Any]]) -> NDArray[np.float64]:
    """Return 1 − F1 of sets of spans, 0 where both are empty."""
    sizes = np.array([(len(a & b), len(a) + len(b)) for a, b in zip(true, predicted, strict=True)], dtype=float)
    right, both = sizes.reshape(-1, 2).T
    return np.where(both > 0, 1.0 - 2.0 * right / np.maximum(both, 1.0), 0.0)


def chunk_f1_scorer(estimator: Any, X: Any, y: Iterable[Sequence[str]]) -> float:
    """Return the F1 of the chunks that an estimator predicts, for ``scoring=chunk_f1_scorer`` in scikit-learn.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator, or a pipeline.
    X : sequence of length n
        The sentences, as the estimator takes them.
    y : sequence of n sequences of str
        The true tags.

    Returns
    -------
    float
        The F1 over the chunks of all types; see `chunk_scores`.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from latentstruct import CRF, Chain, FeaturePipeline, WindowFeatures
    >>> tagger = FeaturePipeline(WindowFeatures(), CRF(Chain()))
    >>> search = GridSearchCV(tagger, {"model__C": [0.1, 1.0]}, scoring=chunk_f1_scorer, cv=2)
    >>> X, y = [["Mara", "left"]] * 4, [["B-PER", "O"]] * 4
    >>> float(search.fit(X, y).best_score_)
    1.0
    """
    return chunk_scores(y, estimator.predict(X)).f1
