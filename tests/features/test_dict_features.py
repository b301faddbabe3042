import json
import zlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct import DictFeatures

TEXTS = st.text("abé:", max_size=2)
NUMBERS = st.integers(-2, 2) | st.floats(-4, 4) | st.booleans()
LISTS = st.lists(TEXTS, max_size=3)
VALUES = TEXTS | NUMBERS | LISTS | LISTS.map(tuple) | st.sets(TEXTS, max_size=2)
DICTS = st.recursive(
    st.dictionaries(TEXTS, VALUES, max_size=3),
    lambda inner: st.dictionaries(TEXTS, inner | VALUES, max_size=2),
    max_leaves=4,
)
SENTENCES = st.lists(st.lists(DICTS | LISTS | TEXTS, max_size=4), min_size=1, max_size=4)


def spelled_out(token):
    """Yield the names and values of the features of a token."""
    if isinstance(token, str):
        yield token, 1.0
    elif isinstance(token, dict):
        for key, value in token.items():
            if isinstance(value, bool | int | float):
                yield key, float(value)
            else:
                yield from ((f"{key}:{name}", number) for name, number in spelled_out(value))
    else:
        yield from ((name, 1.0) for name in token)


@settings(deadline=None)
@given(SENTENCES, st.integers(1, 2))
def test_values_are_those_of_the_named_features(sentences, min_count):
    rows = [[list(spelled_out(token)) for token in sentence] for sentence in sentences]
    counts = Counter(name for sentence in rows for row in sentence for name in {name for name, value in row if value})
    kept = sorted((-count, name) for name, count in counts.items() if count >= min_count)
    features = DictFeatures(min_count)
    if not kept:
        with raises():
            features.fit(sentences)
        return
    names = features.fit(sentences).get_feature_names_out().tolist()
    assert names == [name for _, name in kept]
    for matrix, sentence in zip(features.transform(sentences), rows, strict=True):
        matrix.check_format(full_check=True)
        assert matrix.has_canonical_format
        assert matrix.shape == (len(sentence), len(names))
        for found, row in zip(matrix.toarray(), sentence, strict=True):
            np.testing.assert_allclose(found, [sum(value for name, value in row if name == one) for one in names])
    again = DictFeatures.from_state(json.loads(json.dumps(features.to_state())))
    assert (again.vocabulary_, again.min_count) == (features.vocabulary_, min_count)


def test_columns_are_those_of_crfsuite():
    # The names that python-crfsuite gives to the same items.
    item = {"word": "the", "title": True, "n": 2.5, "near": {"a", "b"}, "next": {"word": "cat", "x": {"y": 3}}}
    assert set(DictFeatures().fit([[item]]).vocabulary_) == {
        *("word:the", "title", "n", "near:a", "near:b", "next:word:cat", "next:x:y")
    }


def test_hashed_names_are_columns():
    features = DictFeatures(hashed=5).fit([[{"a": 2.0}]])
    again = DictFeatures.from_state(json.loads(json.dumps(features.to_state())))
    assert (again.hashed, again.n_features_, again.vocabulary_) == (5, 5, {})
    expected = np.zeros(5)
    for name, value in (("a", 3.0), ("word:b", 1.0), ("new", 1.0)):
        expected[zlib.crc32(name.encode()) % 5] += value
    np.testing.assert_array_equal(again.transform([[{"a": 3.0, "word": "b", "new": True}]])[0].toarray(), [expected])
    with raises("min_count", expected="1 with `hashed`"):
        DictFeatures(min_count=2, hashed=5).fit([["a"]])


def test_features_of_further_sentences_are_added_after_the_own_ones():
    features = DictFeatures().fit([["a", "b"], ["b"]])
    assert features.extended([[["c", "c", "a"]]]).vocabulary_ == {"b": 0, "a": 1, "c": 2}
    assert features.vocabulary_ == {"b": 0, "a": 1}


def test_frequent_features_come_first_and_new_ones_are_ignored():
    features = DictFeatures(min_count=2).fit([[["a", "b"], ["b", "c", "b"]], [["a", "b"]]])
    assert features.vocabulary_ == {"b": 0, "a": 1}
    assert features.transform([[["new", "a"]], []])[0].toarray().tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("sentences", "parameter", "expected"),
    [
        ("text", "sentences", "a list of sentences"),
        ([{"a": 1}], "sentences[0]", "a list of tokens"),
        (["text"], "sentences[0]", "a list of tokens"),
        ([[3]], "sentences[0][0]", "a dict such as"),
        ([[["a"], ["b", 3]]], "sentences[0][1]", "a dict such as"),
        ([[{3: "a"}]], "sentences[0][0]", "names of features"),
        ([[{"a": None}]], "sentences[0][0]['a']", "a finite number"),
        ([[{"a": float("nan")}]], "sentences[0][0]['a']", "a finite number"),
        ([[{"a": 10**400}]], "sentences[0][0]['a']", "a finite number"),
        ([[{"a": {"b": None}}]], "sentences[0][0]['a']['b']", "a finite number"),
        ([[["a\ud800"]]], "sentences[0][0]", "without lone surrogates"),
        ([[]], "sentences", "at least one token"),
        ([[[]]], "min_count", "at most 1, the number of tokens"),
    ],
)
def test_mistakes(sentences, parameter, expected):
    with raises(parameter, expected=expected):
        DictFeatures().fit(sentences)


@pytest.mark.parametrize("change", [{"names": []}, {"names": ["a", "a"]}, {"min_count": 0}, {"format": "x"}, {"n": 1}])
def test_damaged_states(change):
    with raises():
        DictFeatures.from_state(DictFeatures().fit([["a"]]).to_state() | change)
