import json
import os
import pickle
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from error_fields import raises
from latentstruct._native.windows import FeatureNames
from latentstruct.exceptions import InputError
from latentstruct.features.windows import WindowFeatures
from latentstruct.io import ColumnSentences
from latentstruct.tasks.inputs import joined_views
from latentstruct_papers.datasets import load_conll2000

CAT = [[("The", "DT"), ("X-ray's", "NN"), ("sat", "VB"), ("2nd", "CD")]]


def escape(value):
    return value.replace("\\", "\\\\").replace("|", "\\|")


def slow_shape(word):
    kinds = [
        "X"
        if c.isupper() or c.istitle()
        else "x"
        if c.islower()
        else "d"
        if c.isnumeric()
        else "c"
        if c.isalpha()
        else "."
        for c in word
    ]
    return "".join(c for i, c in enumerate(kinds) if i == 0 or kinds[i - 1] != c)


def slow_names(sentence, i, window, affixes, shape, bigrams):
    """Spell out the names of one token's features."""

    def value(k, offset):
        j = i + offset
        if j < 0:
            return f"\\B{-j}"
        if j >= len(sentence):
            return f"\\E{j - len(sentence) + 1}"
        return escape(sentence[j][k])

    names = {"bias"}
    for k in range(len(sentence[0])):
        groups = [[o] for o in range(-window, window + 1)]
        if bigrams and k == 0 and window >= 1:
            groups += [[-1, 0], [0, 1]]
        if bigrams and k > 0:
            near = [o for o in range(-2, 3) if abs(o) <= window]
            groups += [near[j : j + size] for size in (2, 3) for j in range(len(near) - size + 1)]
        for group in groups:
            names.add(f"{k}[{','.join(map(str, group))}]=" + "|".join(value(k, o) for o in group))
    word = sentence[i][0]
    for n in range(1, affixes + 1):
        if len(word) >= n:
            names |= {f"prefix{n}={escape(word[:n])}", f"suffix{n}={escape(word[len(word) - n :])}"}
    if shape:
        names.add(f"shape={slow_shape(word)}")
    return names


def names_of(template, matrix):
    names = template.get_feature_names_out()
    return [{names[c] for c in matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]} for i in range(matrix.shape[0])]


def test_template_by_hand():
    template = WindowFeatures()
    (matrix,) = template.fit_transform(CAT)
    assert names_of(template, matrix)[1] == {
        "bias",
        "0[-2]=\\B1",
        "0[-1]=The",
        "0[0]=X-ray's",
        "0[1]=sat",
        "0[2]=2nd",
        "0[-1,0]=The|X-ray's",
        "0[0,1]=X-ray's|sat",
        "1[-2]=\\B1",
        "1[-1]=DT",
        "1[0]=NN",
        "1[1]=VB",
        "1[2]=CD",
        "1[-2,-1]=\\B1|DT",
        "1[-1,0]=DT|NN",
        "1[0,1]=NN|VB",
        "1[1,2]=VB|CD",
        "1[-2,-1,0]=\\B1|DT|NN",
        "1[-1,0,1]=DT|NN|VB",
        "1[0,1,2]=NN|VB|CD",
        "prefix1=X",
        "prefix2=X-",
        "prefix3=X-r",
        "suffix1=s",
        "suffix2='s",
        "suffix3=y's",
        "shape=X.x.x",
    }
    assert {"0[2]=\\E2", "0[1]=\\E1", "1[0,1,2]=CD|\\E1|\\E2", "shape=dx"} <= names_of(template, matrix)[3]


@pytest.mark.parametrize(
    ("word", "shape"),
    [("USA", "X"), ("McDonald", "XxXx"), ("3.5%", "d.d."), ("東京", "c"), ("été", "x"), ("ǅ", "X"), ("", "")],
)
def test_shapes(word, shape):
    template = WindowFeatures(window=0, affixes=0).fit([[(word,)]])
    assert list(template.vocabulary_) == [f"0[0]={word}", "bias", f"shape={shape}"]


SENTENCES = st.integers(1, 3).flatmap(
    lambda width: st.lists(
        st.lists(st.tuples(*[st.text(st.sampled_from("aB1|\\-é東"), max_size=4)] * width), max_size=5),
        max_size=5,
    ).filter(lambda sentences: any(sentences))
)
OPTIONS = st.fixed_dictionaries(
    {
        "window": st.integers(0, 4),
        "affixes": st.integers(0, 3),
        "shape": st.booleans(),
        "bigrams": st.booleans(),
    }
)


@settings(deadline=None)
@given(sentences=SENTENCES, options=OPTIONS)
def test_matches_the_spelled_out_template(sentences, options):
    template = WindowFeatures(**options)
    matrices = template.fit_transform(sentences)
    assert len(matrices) == len(sentences)
    for sentence, matrix in zip(sentences, matrices, strict=True):
        assert matrix.shape == (len(sentence), len(template.vocabulary_))
        assert names_of(template, matrix) == [slow_names(sentence, i, **options) for i in range(len(sentence))]
        assert matrix.dtype == np.float64
        assert (matrix.data == 1).all()
        matrix.check_format(full_check=True)
        assert matrix.has_canonical_format
        assert all(
            (np.diff(matrix.indices[a:b]) > 0).all() for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False)
        )
    names = list(template.vocabulary_)
    counts = np.asarray(sum(matrix.sum(axis=0) for matrix in matrices))
    assert names == [name for _, name in sorted(zip(-counts, names, strict=True))]
    assert list(template.vocabulary_.values()) == list(range(len(names)))


@settings(deadline=None)
@given(sentences=SENTENCES, options=OPTIONS, count=st.integers(1, 4))
def test_pruning_and_unknown_features(sentences, options, count):
    split = len(sentences) // 2
    train, new = sentences[split:], sentences[:split]
    every = [slow_names(sentence, i, **options) for sentence in train for i in range(len(sentence))]
    kept = {name for names in every for name in names if sum(name in other for other in every) >= count}
    template = WindowFeatures(**options, min_count=count)
    if not kept:
        with pytest.raises(InputError):
            template.fit(train)
        return
    matrices = template.fit_transform(train)
    assert set(template.vocabulary_) == kept
    again, offsets = template.transform_flat(train)
    for i, matrix in enumerate(matrices):
        part = again[offsets[i] : offsets[i + 1]]
        assert (part.toarray() == matrix.toarray()).all()
    for sentence, matrix in zip(new, template.transform(new), strict=True):
        expected = [slow_names(sentence, i, **options) & kept for i in range(len(sentence))]
        assert names_of(template, matrix) == expected


def test_tokens_may_be_words():
    words, tuples = [["The", "cat"], ["sat"]], [[("The",), ("cat",)], [("sat",)]]
    template = WindowFeatures().fit(words)
    assert template.vocabulary_ == WindowFeatures().fit(tuples).vocabulary_
    for one, other in zip(template.transform(words), template.transform(tuples), strict=True):
        assert (one != other).nnz == 0
    with raises("sentences[0][0]", expected="a tuple of the 2 columns of training"):
        WindowFeatures().fit(CAT).transform(words)


@settings(deadline=None)
@given(sentences=SENTENCES, options=OPTIONS, hashed=st.sampled_from((1, 7, 2**20)))
def test_hashed_names_are_columns(sentences, options, hashed):
    template = WindowFeatures(**options, hashed=hashed).fit(sentences)
    again = WindowFeatures.from_state(json.loads(json.dumps(template.to_state())))
    assert again.get_params() == template.get_params()
    assert (template.to_state()["names"], template.n_features_, template.vocabulary_) == ([], hashed, {})
    flat, offsets = again.transform_flat(sentences)
    for i, matrix in enumerate(template.transform(sentences)):
        matrix.check_format(full_check=True)
        assert matrix.has_canonical_format
        assert (flat[offsets[i] : offsets[i + 1]] != matrix).nnz == 0
        for j in range(len(sentences[i])):
            columns = {zlib.crc32(name.encode()) % hashed for name in slow_names(sentences[i], j, **options)}
            assert set(matrix[[j]].indices.tolist()) == columns
            assert (matrix.data == 1.0).all()


def test_hashed_names_are_neither_counted_nor_listed():
    template = WindowFeatures(hashed=8).fit(CAT)
    assert template.get_feature_names_out().tolist()[6:] == ["hashed[6]", "hashed[7]"]
    assert template.extended(CAT).to_state() == template.to_state()
    assert pickle.loads(pickle.dumps(template)).to_state() == template.to_state()
    with raises("min_count", expected="1 with `hashed`"):
        WindowFeatures(hashed=8, min_count=2).fit(CAT)
    with raises("hashed", got="0"):
        WindowFeatures(hashed=0).fit(CAT)
    with raises("state", got="names of hashed features"):
        WindowFeatures.from_state({**template.to_state(), "names": ["a"]})
    with raises("sentences", got="no tokens"):
        WindowFeatures(hashed=8).fit([[]])


@settings(deadline=None)
@given(sentences=SENTENCES, options=OPTIONS)
def test_state_round_trip(sentences, options):
    template = WindowFeatures(**options).fit(sentences)
    state = template.to_state()
    restored = WindowFeatures.from_state(json.loads(json.dumps(state)))
    assert restored.vocabulary_ == template.vocabulary_
    assert restored.get_params() == template.get_params()
    assert restored.to_state() == state
    template.transform(sentences)
    assert pickle.loads(pickle.dumps(template)).to_state() == state
    for a, b in zip(template.transform(sentences), restored.transform(sentences), strict=True):
        assert (a.toarray() == b.toarray()).all()


@pytest.mark.parametrize(
    ("groups", "names", "columns", "offsets"),
    [
        ([[1, 0, 1]], ["a"], [["x"]], [0, 1]),
        ([[0, -2, 1]], ["a"], [["x"]], [0, 1]),
        ([[0, 1, 2]], ["a"], [["x"]], [0, 1]),
        ([[0, 0, 0]], ["a"], [["x"]], [0, 1]),
        ([[0, 0, 1]], [], [["x"]], [0, 1]),
        ([[0, 0, 1]], ["a"], [["x"], []], [0, 1]),
        ([[0, 0, 1]], ["a"], [["x"]], [0, 2]),
        ([[0, 0, 1]], ["a"], [["x"]], [1, 1]),
        ([[0, 0, 1]], ["a"], [["x"]], [0, 2, 1]),
        ([[0, 0, 1]], ["a"], [["x"]], [0, -1, 1]),
        ([[0, 0, 1]], ["a"], [], [0, 1]),
    ],
)
def test_the_kernel_checks_its_arguments(groups, names, columns, offsets):
    with pytest.raises(ValueError):
        FeatureNames([]).count(np.array(groups), names, 0, [], columns, np.array(offsets), 1)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["format", "names"]), inner),
        max_leaves=5,
    )
)
def test_hostile_states(state):
    with raises("state", expected="a state of format 'latentstruct.WindowFeatures 1'"):
        WindowFeatures.from_state(state)


@pytest.mark.parametrize(
    ("change", "parameter", "got"),
    [
        ({"format": "x"}, "state", "Invalid value 'x' - at $.format"),
        ({"version": 2}, "state", "unknown field version"),
        ({"window": -1}, "window", "-1"),
        ({"window": 10**12}, "window", "1000000000000"),
        ({"window": 1.5}, "state", "Expected int, got float - at $.window"),
        ({"shape": 1}, "state", "Expected bool, got int - at $.shape"),
        ({"n_columns": 0}, "n_columns", "0"),
        ({"names": []}, "state", "no feature names"),
        ({"names": ["a", "a"]}, "state", "the feature name 'a' twice"),
        ({"names": ["a", 3]}, "state", "Expected str, got int - at $.names"),
        ({"extra": 3}, "state", "unknown field extra"),
    ],
)
def test_changed_states(change, parameter, got):
    state = WindowFeatures().fit(CAT).to_state()
    expected = {"state": "a state of format 'latentstruct.WindowFeatures 1'"}.get(parameter, "an integer ")
    with raises(parameter, got=got, expected=expected):
        WindowFeatures.from_state(state | change)


@pytest.mark.parametrize(
    ("options", "parameter", "got", "expected"),
    [
        ({"window": -1}, "window", "-1", "an integer from 0 to 100"),
        ({"window": True}, "window", "True", "an integer from 0 to 100"),
        ({"affixes": 1.5}, "affixes", "1.5", "an integer from 0 to 100"),
        ({"min_count": 0}, "min_count", "0", "an integer of at least 1"),
        ({"shape": "yes"}, "shape", "'yes'", "True or False"),
        ({"bigrams": "yes"}, "bigrams", "'yes'", "True or False"),
        ({"min_count": 5}, "min_count", "5", "at most 4, the number of"),
    ],
)
def test_wrong_parameters(options, parameter, got, expected):
    template = WindowFeatures(**options)
    assert clone(template).get_params() == template.get_params()
    with raises(parameter, got=got, expected=expected):
        template.fit(CAT)


@pytest.mark.parametrize(
    ("sentences", "parameter", "got", "expected"),
    [
        ("text", "sentences", "'text'", "a list of sentences of token"),
        (["text"], "sentences[0]", "'text'", "a sequence of tokens"),
        ([3], "sentences[0]", "3", "a sequence of tokens"),
        ([["The", ("cat",)]], "sentences[0][0]", "'The'", "a tuple of columns without"),
        ([[("a",)], [("b",), 3]], "sentences[1][1]", "3", "a tuple of columns without"),
        ([[("a",)], [{"b"}]], "sentences[1][0]", "{'b'}", "a tuple of columns without"),
        ([[("a",)], [], [("b", "c")]], "sentences[2][0]", "", "a token of 1 columns as in"),
        ([[()]], "sentences[0][0]", "", "a token of 1 columns as in"),
        ([[("a", 3)]], "sentences[0][0]", "3", "a token with text in column 1"),
        ([[("a\ud800",)]], "sentences", "'a\\ud800'", "text without lone surrogates"),
        ([], "sentences", "", "sentences with at least one"),
        ([[], []], "sentences", "", "sentences with at least one"),
    ],
)
def test_wrong_sentences(sentences, parameter, got, expected):
    with raises(parameter, got=got, expected=expected):
        WindowFeatures().fit(sentences)


def test_transform_checks_the_columns():
    template = WindowFeatures()
    with pytest.raises(NotFittedError):
        template.transform(CAT)
    template.fit(CAT)
    with raises("sentences[0][0]", got="1 columns", expected="a token of 2 columns as in the training sentences"):
        template.transform([[("a",)]])
    assert template.transform([]) == []
    matrix, offsets = template.transform_flat([[], []])
    assert matrix.shape == (0, len(template.vocabulary_))
    assert offsets.tolist() == [0, 0, 0]


def test_takes_what_the_reader_returns():
    sentences = ColumnSentences((["a", "b"], ["X", "Y"]), np.array([0, 1, 2]))
    expected, _ = WindowFeatures().fit_transform_flat([[("a", "X")], [("b", "Y")]])
    matrix, offsets = WindowFeatures().fit_transform_flat(sentences)
    assert (matrix.toarray() == expected.toarray()).all()
    assert offsets.tolist() == [0, 1, 2]
    assert len(WindowFeatures().fit_transform([np.array([["a", "X"]]), [["b", "Y"]]])) == 2


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")
def test_features_of_conll2000():
    train = load_conll2000()
    template = WindowFeatures()
    matrix, offsets = template.fit_transform_flat(train.tokens)
    assert matrix.shape == (211_727, 347_520)
    assert len(offsets) == 8937
    rng = np.random.default_rng(0)
    for i in rng.integers(len(train.tokens), size=20):
        sentence = train.tokens[i]
        part = matrix[offsets[i] : offsets[i + 1]]
        expected = [slow_names(sentence, j, 2, 3, True, True) for j in range(len(sentence))]
        assert names_of(template, part) == expected


def test_matrices_of_sentences_share_memory_that_nobody_can_change():
    sentences = [[("the",), ("cat",)], [], [("sat",)], [("on",), ("the",), ("mat",)]]
    matrices = WindowFeatures().fit_transform(sentences)
    flat, offsets = WindowFeatures().fit_transform_flat(sentences)
    for k, matrix in enumerate(matrices):
        assert not matrix.data.flags.writeable
        assert not matrix.indices.flags.writeable
        matrix.copy().check_format(full_check=True)
        np.testing.assert_array_equal(matrix.toarray(), flat[offsets[k] : offsets[k + 1]].toarray())
    whole = joined_views([matrix.indices for matrix in matrices])
    assert np.shares_memory(whole, matrices[0].indices)
    np.testing.assert_array_equal(whole, flat.indices)
    for chosen in ([0, 2], [3, 2, 1, 0], [0, 2, 3, 3]):
        part = joined_views([matrices[k].indices for k in chosen])
        assert part.flags.writeable
        np.testing.assert_array_equal(part, np.concatenate([matrices[k].indices for k in chosen]))


def test_features_that_others_may_change_are_copied():
    whole = np.arange(6, dtype=np.int32)
    assert not np.shares_memory(joined_views([whole[:2], whole[2:]]), whole)
