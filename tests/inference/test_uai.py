import gzip
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct.io import (
    UaiModel,
    UaiSolutions,
    read_uai,
    read_uai_evidence,
    read_uai_query,
    read_uai_solutions,
    write_uai,
    write_uai_evidence,
    write_uai_query,
    write_uai_solutions,
)

MODEL = """MARKOV
3
2 2 3
3
2 0 1
2 1 2
0

4
 4.000 2.400
 1.000 0.000

6
 2.2500 3.2500 3.7500
 0.0000 0.0000 10.0000

1
 5e-1
"""


def spell(text, tmp_path, name="model.uai"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("uai")


@st.composite
def models(draw):
    cards = draw(st.lists(st.integers(1, 3), max_size=4))
    scopes = draw(st.lists(st.permutations(range(len(cards))).flatmap(prefixes), max_size=4))
    value = st.one_of(st.just(-math.inf), st.floats(-700, 700))
    tables = [
        np.array(draw(st.lists(value, min_size=n, max_size=n)), dtype=float)
        for n in (math.prod(cards[v] for v in scope) for scope in scopes)
    ]
    kind = draw(st.sampled_from(["MARKOV", "BAYES"]))
    return UaiModel(kind, np.array(cards, dtype=np.int64), scopes, tables)


def prefixes(order):
    return st.integers(0, len(order)).map(lambda k: tuple(order[:k]))


# Models


def test_example_is_read(tmp_path):
    model = read_uai(spell(MODEL, tmp_path))
    assert (model.kind, model.cards.tolist(), model.scopes) == ("MARKOV", [2, 2, 3], [(0, 1), (1, 2), ()])
    expected = [[4, 2.4, 1, 0], [2.25, 3.25, 3.75, 0, 0, 10], [0.5]]
    assert [np.exp(table).tolist() for table in model.tables] == [pytest.approx(table) for table in expected]
    assert model.tables[0][3] == -np.inf


def test_layout_does_not_matter(tmp_path):
    plain = read_uai(spell(MODEL, tmp_path))
    remarks = MODEL.replace("\n", " # a remark\r\n")
    (tmp_path / "packed.uai.gz").write_bytes(gzip.compress(" ".join(MODEL.split()).encode()))
    for path in (spell(remarks, tmp_path, "remarks.uai"), tmp_path / "packed.uai.gz"):
        model = read_uai(path)
        assert model.scopes == plain.scopes
        assert all(map(np.array_equal, model.tables, plain.tables))


@settings(max_examples=60, deadline=None)
@given(models(), st.sampled_from(["linear", "natural", "log10"]))
def test_models_come_back_as_written(folder, model, scale):
    path = folder / "model.uai"
    write_uai(path, model, scale)
    again = read_uai(path, None if scale == "natural" else scale)
    assert (again.kind, again.cards.tolist(), again.scopes) == (model.kind, model.cards.tolist(), model.scopes)
    for found, expected in zip(again.tables, model.tables, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(models(), st.data())
def test_structure_keeps_every_factor(model, data):
    structure, unary, tables = model.structure()
    states = [data.draw(st.integers(0, card - 1)) for card in model.cards.tolist()]
    expected = 0.0
    for scope, table in zip(model.scopes, model.tables, strict=True):
        expected += table.reshape([model.cards[v] for v in scope])[tuple(states[v] for v in scope)]
    found = sum(unary[structure.state_at[v] + x] for v, x in enumerate(states))
    for f in range(len(structure.scope_at) - 1):
        scope = structure.scopes[structure.scope_at[f] : structure.scope_at[f + 1]]
        table = tables[structure.table_at[f] : structure.table_at[f + 1]].reshape(structure.cards[scope])
        found += table[tuple(states[v] for v in scope)]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-9)
    assert structure.n_graphs == 1


def test_weights_beyond_floating_point_are_kept(tmp_path):
    numbers = ["1e-400", "3.5E+400", "0." + "0" * 400 + "25", "0e9"]
    path = spell(f"MARKOV 1 4 1 1 0 4 {' '.join(numbers)}", tmp_path)
    table = read_uai(path).tables[0]
    expected = [-400, 400 + math.log10(3.5), -401 + math.log10(2.5), -math.inf]
    np.testing.assert_allclose(table / math.log(10), expected, rtol=1e-14)
    with raises("model", expected="a model of representable"):
        write_uai(tmp_path / "out.uai", read_uai(path))
    write_uai(tmp_path / "out.uai", read_uai(path), "natural")
    np.testing.assert_allclose(read_uai(tmp_path / "out.uai").tables[0], table, rtol=1e-14)


def test_scales(tmp_path):
    text = "{} 1 2 1 1 0 2 -inf 2"
    for head, scale, unit in (
        ("LOGMARKOV", None, 1.0),
        ("LOGBAYES", "log10", math.log(10)),
        ("MARKOV", "natural", 1.0),
        ("BAYES", "log10", math.log(10)),
    ):
        model = read_uai(spell(text.format(head), tmp_path), scale)
        assert model.kind == head.removeprefix("LOG")
        np.testing.assert_allclose(model.tables[0], [-np.inf, 2 * unit])
    with raises("scale", got="'log2'", expected="one of linear, natural, log10"):
        read_uai(tmp_path / "model.uai", "log2")


@pytest.mark.parametrize(
    ("old", "new", "line", "got", "expected"),
    [
        ("MARKOV", "MARKOW", 1, "'MARKOW'", "the kind of network, MARKOV"),
        ("MARKOV\n3", "MARKOV\n3.5", 2, "'3.5'", "the number of variables, an"),
        ("MARKOV\n3", "MARKOV\n-3", 2, "'-3'", "the number of variables, an"),
        ("MARKOV\n3", "MARKOV\n999999999999", 2, "", "at least 1 words after it per"),
        ("2 2 3\n3", "2 0 3\n3", 3, "'0'", "the number of states of"),
        ("2 2 3\n3", "2 2 3000000000\n3", 3, "'3000000000'", "at most 16777216 states"),
        ("2 2 3\n3", "2 2 3\n99999", 4, "", "at least 2 words after it per"),
        ("2 0 1\n", "999 0 1\n", 5, "", "at least 1 words after it per"),
        ("2 0 1\n", "2 0 3\n", 5, "'3'", "a variable of factor 0, an"),
        ("2 1 2\n", "2 1 1\n", 6, "'1'", "distinct variables of factor 1"),
        ("\n4\n", "\n5\n", 9, "'5'", "2 · 2 = 4 values of factor 0"),
        ("\n1\n", "\n2\n", 17, "'2'", "1 values of factor 2, the"),
        ("2.400", "-2.4", 10, "'-2.4'", "a weight ≥ 0"),
        ("2.400", "-1e-999", 10, "'-1e-999'", "a finite weight ≥ 0"),
        ("2.400", "NaN", 10, "'NaN'", "a weight ≥ 0"),
        ("2.400", "inf", 10, "'inf'", "a finite weight ≥ 0"),
        ("2.400", "2,4", 10, "'2,4'", "a number such as 0.25"),
        ("2.400", "2_4", 10, "'2_4'", "a number such as 0.25"),
        ("5e-1", "5e-1 7", 18, "'7'", "the end of the file after the"),
        (" 5e-1\n", "", 17, "", "1 values of factor 2"),
        ("\n1\n 5e-1\n", "", 15, "", "the number of values of"),
    ],
)
def test_bad_models(old, new, line, got, expected, tmp_path):
    assert MODEL.count(old) == 1
    path = spell(MODEL.replace(old, new), tmp_path)
    with raises(str(path), line=line, got=got, expected=expected, error=FormatError):
        read_uai(path)


def test_models_cut_anywhere_are_refused(tmp_path):
    words = MODEL.split()
    for n in range(len(words)):
        with raises(file="model.uai") as caught:
            read_uai(spell("\n".join(words[:n]), tmp_path))
        assert 1 <= caught.value.line <= max(n, 1)


def test_bad_logarithms(tmp_path):
    for value in ("nan", "inf"):
        with raises(file="model.uai", line=2, got=repr(value), expected="the logarithm of a weight"):
            read_uai(spell(f"LOGMARKOV 1 2 1 1 0 2\n0 {value}", tmp_path))


def test_tables_of_the_wrong_size_are_not_written(tmp_path):
    model = UaiModel("MARKOV", np.array([2, 3]), [(0, 1)], [np.zeros(5)])
    with raises("model", expected="a model with 6 of them"):
        write_uai(tmp_path / "out.uai", model)


# Evidence and queries


@pytest.mark.parametrize(
    ("text", "samples"),
    [
        ("2 1 0 2 1\n", [{1: 0, 2: 1}]),
        ("2\n1 0\n2 1\n", [{1: 0, 2: 1}]),
        ("0\n", [{}]),
        ("", [{}]),
        ("1\n0\n", [{}]),
        ("1\n2 1 0 2 1\n", [{1: 0, 2: 1}]),
        ("1 2 1 0 2 1", [{1: 0, 2: 1}]),
        ("2\n1 1 0\n2 0 1 2 2\n", [{1: 0}, {0: 1, 2: 2}]),
        ("2\n1 1 1\n0\n", [{1: 1}, {}]),
        ("2 1 0 1 0", [{1: 0}]),
    ],
)
def test_evidence_of_one_or_more_samples(text, samples, tmp_path):
    assert read_uai_evidence(spell(text, tmp_path), [2, 2, 3]) == samples


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=4))
def test_evidence_comes_back_as_written(folder, samples):
    path = folder / "model.uai.evid"
    write_uai_evidence(path, samples)
    assert read_uai_evidence(path, [3] * 6) == samples


@pytest.mark.parametrize(
    ("text", "line", "got", "expected"),
    [
        ("1 3 0", 1, "'3'", "an observed variable, an"),
        ("1 0 2", 1, "'2'", "the state of variable 0, an"),
        ("2 0 1\n0 0", 2, "", "one state of variable 0"),
        ("2 0 1", 1, "", "4 words after the number of"),
        ("1 0 1 7", 1, "", "2 words after the number of"),
        ("99999999999 0 1", 1, "", "199999999998 words after the"),
        ("one 0 1", 1, "'one'", "the number of observed"),
    ],
)
def test_bad_evidence(text, line, got, expected, tmp_path):
    path = spell(text, tmp_path)
    with raises(file="model.uai", line=line, got=got, expected=expected) as caught:
        read_uai_evidence(path, [2, 2, 3])
    assert caught.value.path == str(path)


@given(st.permutations(range(6)).flatmap(prefixes))
def test_queries_come_back_as_written(folder, query):
    path = folder / "model.uai.query"
    write_uai_query(path, query)
    assert read_uai_query(path, 6) == list(query)


@pytest.mark.parametrize(
    ("text", "line", "got", "expected"),
    [
        ("", 1, "", "the number of query variables"),
        ("2 0", 1, "", "at least 1 words after it per"),
        ("2 0 3", 1, "'3'", "a query variable, an integer"),
        ("2 1\n1", 2, "'1'", "distinct query variables"),
        ("1 1 2", 1, "'2'", "the end of the file after the"),
    ],
)
def test_bad_queries(text, line, got, expected, tmp_path):
    path = spell(text, tmp_path)
    with raises(file="model.uai", line=line, got=got, expected=expected) as caught:
        read_uai_query(path, 3)
    assert caught.value.path == str(path)


# Solutions


@pytest.mark.parametrize(
    ("text", "task", "answers"),
    [
        ("PR\n-0.2008\n", "PR", [-0.2008]),
        ("PR\n-inf\n", "PR", [-math.inf]),
        ("PR\n1\n-0.2008\n", "PR", [-0.2008]),
        ("PR\n2\n-0.2008\n3\n", "PR", [-0.2008, 3.0]),
        ("PR\n-7\n-BEGIN-\n-0.5\n-BEGIN-\n-0.2\n", "PR", [-0.2]),
        ("MPE\n3 0 1 0\n", "MAP", [[0, 1, 0]]),
        ("MAP\n2\n3 0 1 0\n3 1 1 1\n", "MAP", [[0, 1, 0], [1, 1, 1]]),
        ("MMAP\n3 2 0 3 1 4 0\n", "MMAP", [{2: 0, 3: 1, 4: 0}]),
        ("MMAP\n0\n", "MMAP", [{}]),
    ],
)
def test_solutions_are_read(text, task, answers, tmp_path):
    solutions = read_uai_solutions(spell(text, tmp_path))
    assert (solutions.task, solutions.answers) == (task, answers)


def rows_of(card):
    return st.lists(st.floats(0, 1), min_size=card, max_size=card)


ANSWERS = {
    "PR": st.one_of(st.just(-math.inf), st.floats(-1e6, 1e6)),
    "MAR": st.lists(st.integers(1, 3).flatmap(rows_of), min_size=1, max_size=4),
    "MAP": st.lists(st.integers(0, 9), min_size=2, max_size=5),
    "MMAP": st.dictionaries(st.integers(0, 9), st.integers(0, 3), max_size=4),
}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(ANSWERS)).flatmap(lambda t: st.tuples(st.just(t), st.lists(ANSWERS[t], min_size=1))))
def test_solutions_come_back_as_written(folder, found):
    task, answers = found
    path = folder / "model.uai.OUT"
    write_uai_solutions(path, UaiSolutions(task, answers))
    again = read_uai_solutions(path)
    assert again.task == task
    if task == "MAR":
        assert [[row.tolist() for row in answer] for answer in again.answers] == answers
    else:
        assert again.answers == answers


@pytest.mark.parametrize(
    ("text", "line", "got", "expected"),
    [
        ("", 1, "", "the task"),
        ("ZETA\n1\n", 1, "'ZETA'", "the task, one of PR, MAR"),
        ("PR\n", 1, "", "a solution"),
        ("PR\nnan", 2, "'nan'", "a number such as 0.25"),
        ("MAP\n3 0 1\n", 2, "", "a solution of the task MAP"),
        ("MAR\n1 2 0.5 1.5\n", 2, "[0.5, 1.5]", "probabilities of variable 0"),
        ("MMAP\n1 0 x\n", 2, "'x'", "a state, an integer of at"),
    ],
)
def test_bad_solutions(text, line, got, expected, tmp_path):
    path = spell(text, tmp_path)
    with raises(file="model.uai", line=line, got=got, expected=expected) as caught:
        read_uai_solutions(path)
    assert caught.value.path == str(path)


def test_unknown_task_is_not_written(tmp_path):
    with raises("task", got="'ZETA'", expected="one of PR, MAR, MAP, MMAP"):
        write_uai_solutions(tmp_path / "out", UaiSolutions("ZETA", [1.0]))


def test_text_after_the_last_table_and_a_final_zero_are_ignored_with_a_warning(tmp_path):
    model, evidence = tmp_path / "a.uai", tmp_path / "a.evid"
    model.write_text("MARKOV\n1\n2\n1\n1 0\n\n2\n0.25 0.75\n\nmade by hand in 2010\n")
    with pytest.warns(UserWarning, match="ignored 5 words after the last table, from 'made' on"):
        assert read_uai(model).scopes == [(0,)]
    evidence.write_text("1 0 1\n0\n\n")
    with pytest.warns(UserWarning, match="ignored 1 words after the last pair"):
        assert read_uai_evidence(evidence, [2]) == [{0: 1}]
    model.write_text("MARKOV\n1\n2\n1\n1 0\n\n2\n0.25 0.75 0.5\n")
    with raises(file="a.uai", line=8, expected="the end of the file"):
        read_uai(model)
