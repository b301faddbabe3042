"""Groups of similar sequences."""

import itertools
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.features.similar_sequences import similar_pairs, similar_sequences

LETTERS = np.array(list("ACGT"))


def mutated(rng, text, share):
    letters = np.array(list(text))
    where = rng.random(len(letters)) < share
    return "".join(np.where(where, rng.choice(LETTERS, len(letters)), letters))


@given(st.integers(0, 2**16))
def test_copies_with_few_changes_are_one_group(seed):
    rng = np.random.default_rng(seed)
    ancestors = ["".join(rng.choice(LETTERS, 300)) for _ in range(5)]
    sequences = [mutated(rng, ancestors[k % 5], 0.03) for k in range(15)]
    groups = similar_sequences(sequences)
    assert groups.tolist() == [k % 5 for k in range(15)]


@given(st.lists(st.text("ACGT", max_size=40), max_size=12))
def test_equal_sequences_are_in_one_group_and_numbers_have_no_gap(sequences):
    groups = similar_sequences(sequences, word=3)
    for i, one in enumerate(sequences):
        for j, other in enumerate(sequences):
            assert len(one) < 3 or one != other or groups[i] == groups[j]
    assert sorted(set(groups.tolist())) == list(range(len(set(groups.tolist()))))


def test_words_that_most_sequences_have_link_nothing():
    rng = np.random.default_rng(0)
    shared = "".join(rng.choice(LETTERS, 30))
    sequences = [shared + "".join(rng.choice(LETTERS, 40)) for _ in range(150)]
    assert len(set(similar_sequences(sequences).tolist())) == 150


def test_settings_are_checked():
    with raises("share"):
        similar_sequences(["ACGT"], share=2.0)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(0, 2**16),
)
def test_pairs_with_a_sequence_in_common_are_one_group(pairs, seed):
    random = Random(seed)
    sequences = ["".join(random.choices("ACDEFGHIKLMNPQRSTVWY", k=80)) for _ in range(10)]
    groups = similar_pairs([(sequences[i], sequences[j]) for i, j in pairs])
    links = {frozenset(pair) for pair in pairs}
    # The components of a graph, by repeated merging.
    parts = [set(link) for link in links]
    merged = True
    while merged:
        merged = False
        for first, second in itertools.combinations(parts, 2):
            if first & second:
                parts.remove(second)
                first |= second
                merged = True
                break
    expected = [next(k for k, part in enumerate(parts) if pair[0] in part) for pair in pairs]
    assert [groups[k] == groups[0] for k in range(len(pairs))] == [one == expected[0] for one in expected]
    assert sorted(set(groups.tolist())) == list(range(len(set(expected))))


def test_a_sequence_of_many_pairs_links_them_all():
    random = Random(0)
    reference, *others = ("".join(random.choices("ACDEFGHIKLMNPQRSTVWY", k=60)) for _ in range(151))
    assert set(similar_pairs([(reference, other) for other in others]).tolist()) == {0}
    mutated = reference[:30] + "W" + reference[31:]
    assert set(similar_pairs([(reference, others[0]), (mutated, others[1]), (others[2], others[3])]).tolist()) == {0, 1}
