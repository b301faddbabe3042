import json
import math
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import fail, run
from latentstruct.io import (
    UaiModel,
    read_uai_solutions,
    write_uai,
    write_uai_evidence,
    write_uai_query,
)

TASKS = ["PR", "MAR", "MAP", "MMAP"]


@st.composite
def problems(draw):
    """A small model with hard zeros, constants and unary factors, samples of evidence and a query."""
    cards = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    n = len(cards)
    scopes = draw(st.lists(st.permutations(range(n)).flatmap(lambda p: st.integers(0, 3).map(lambda k: p[:k]))))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0.0, 0.2]))
    tables = []
    for scope in scopes:
        table = 2 * rng.standard_normal(math.prod(cards[v] for v in scope))
        table[rng.random(len(table)) < share] = -np.inf
        tables.append(table)
    model = UaiModel("MARKOV", np.array(cards, dtype=np.int64), [tuple(scope) for scope in scopes], tables)
    samples = []
    for _ in range(draw(st.integers(1, 2))):
        seen = rng.permutation(n)[: rng.integers(0, n + 1)].tolist()
        samples.append({v: int(rng.integers(cards[v])) for v in seen})
    query = rng.permutation(n)[: rng.integers(0, n + 1)].tolist()
    return model, samples, query


def listed(model, observed):
    """All assignments that agree with the evidence, with their log weights."""
    states = np.array(list(product(*map(range, model.cards.tolist()))), dtype=np.int64)
    for variable, state in observed.items():
        states = states[states[:, variable] == state]
    scores = np.zeros(len(states))
    for scope, table in zip(model.scopes, model.tables, strict=True):
        shaped = table.reshape([model.cards[v] for v in scope])
        scores += shaped[tuple(states[:, v] for v in scope)]
    return states, scores


def log_sum(scores):
    return -np.inf if scores.max(initial=-np.inf) == -np.inf else np.logaddexp.reduce(scores)


def check(task, answer, model, observed, query):
    """Compare an answer with the list of all assignments."""
    states, scores = listed(model, observed)
    total = log_sum(scores)
    if task == "PR":
        assert answer == pytest.approx(total / math.log(10), abs=1e-9)
    elif task == "MAR":
        for v, card in enumerate(model.cards.tolist()):
            shares = np.exp(scores - total) if total > -np.inf else np.zeros(len(scores))
            expected = np.bincount(states[:, v], weights=shares, minlength=card)
            np.testing.assert_allclose(answer[v], expected, atol=1e-9)
    elif task == "MAP":
        assert scores[(states == answer).all(axis=1)].item() == pytest.approx(scores.max(), abs=1e-9)
    else:
        assert list(answer) == query
        sums = {}
        for key, score in zip(map(tuple, states[:, query].tolist()), scores, strict=True):
            sums.setdefault(key, []).append(score)
        reached = {key: log_sum(np.array(values)) for key, values in sums.items()}
        assert reached[tuple(answer.values())] == pytest.approx(max(reached.values()), abs=1e-9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("infer")


def write_problem(folder, model, samples, query):
    write_uai(folder / "model.uai", model, "natural")
    write_uai_evidence(folder / "model.uai.evid", samples)
    write_uai_query(folder / "model.uai.query", query)
    return folder / "model.uai", "--evidence", folder / "model.uai.evid"


@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=25, deadline=None)
@given(problems())
def test_answers_are_those_of_enumeration(folder, task, problem):
    model, samples, query = problem
    requested = ["--query", folder / "model.uai.query"] if task == "MMAP" else []
    files = write_problem(folder, model, samples, query)
    run("infer", *files, "--task", task, *requested, "--exact", "-o", folder / "out")
    solutions = read_uai_solutions(folder / "out")
    assert solutions.task == task
    for answer, observed in zip(solutions.answers, samples, strict=True):
        check(task, answer, model, observed, query)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.uai"
    path.write_text("MARKOV 3 2 2 3 3 2 0 1 2 1 2 0 4 4 2.4 1 0 6 2.25 3.25 3.75 0 0 10 1 0.5\n")
    return path


def test_known_answers(model, tmp_path):
    assert float(run("infer", model, "--task", "PR").stdout.split()[1]) == pytest.approx(math.log10(35.125))
    for name in ("MAP", "map"):
        assert run("infer", model, "--task", name).stdout == "MAP\n3 0 1 2\n"
    (tmp_path / "query").write_text("1 1")
    requested = ("--task", "MMAP", "--query", tmp_path / "query")
    assert run("infer", model, *requested).stdout == "MMAP\n1 1 0\n"
    (tmp_path / "evid").write_text("1 2 2")
    assert run("infer", model, *requested, "--evidence", tmp_path / "evid").stdout == "MMAP\n1 1 1\n"
    assert run("infer", "-", "--task", "MAP", stdin=model.read_text()).stdout == "MAP\n3 0 1 2\n"


def test_scales_of_tables(tmp_path):
    path = tmp_path / "logs.uai"
    path.write_text("MARKOV 1 2 1 1 0 2 -inf 2")
    assert run("infer", path, "--task", "PR", "--log10").stdout == "PR\n2.0\n"
    natural = float(run("infer", path, "--task", "PR", "--natural").stdout.split()[1])
    assert natural == pytest.approx(2 / math.log(10))
    assert "--log10 must be left out with --natural" in fail("infer", path, "--task", "PR", "--natural", "--log10")
    assert ", line 1: expected a weight ≥ 0" in fail("infer", path, "--task", "PR")


def test_nothing_possible_is_an_answer(model, tmp_path):
    (tmp_path / "evid").write_text("2 0 1 1 1")
    given_evidence = ("infer", model, "--evidence", tmp_path / "evid", "--task")
    found = run(*given_evidence, "PR")
    assert found.stdout == "PR\n-inf\n"
    assert found.stderr == "the evidence is impossible: every assignment has weight 0\n"
    found = run(*given_evidence, "MAR")
    assert found.stdout == "MAR\n3 2 0.0 0.0 2 0.0 0.0 3 0.0 0.0 0.0\n"
    assert "the evidence is impossible" in found.stderr
    answer = json.loads(run(*given_evidence, "PR", "--json").stdout)["answers"][0]
    assert (answer["solution"], answer["log10_value"], answer["possible"], answer["exact"]) == (None, None, False, True)
    model.write_text("BAYES 1 2 1 1 0 2 0 0")
    assert "the model allows nothing" in run("infer", model, "--task", "MAP").stderr


def test_constants_count(tmp_path):
    path = tmp_path / "model.uai"
    path.write_text("MARKOV 2 2 2 3 0 2 0 1 1 1 1 1e-400 4 1 2 3 4 2 10 100")
    (tmp_path / "evid").write_text("2 0 1 1 0")
    found = run("infer", path, "--evidence", tmp_path / "evid", "--task", "PR").stdout
    assert float(found.split()[1]) == pytest.approx(-400 + math.log10(30), abs=1e-9)
    path.write_text("MARKOV 0 1 0 1 1000")
    assert float(run("infer", path, "--task", "PR").stdout.split()[1]) == pytest.approx(3)
    assert run("infer", path, "--task", "MAP").stdout == "MAP\n0\n"
    assert run("infer", path, "--task", "MAR").stdout == "MAR\n0\n"


def test_json_has_what_the_format_has_not(model, tmp_path):
    out = tmp_path / "model.uai.MAR"
    (tmp_path / "evid").write_text("2\n1 0 0\n0\n")
    args = ("infer", model, "--task", "MAR", "--evidence", tmp_path / "evid", "-o", out, "--json")
    result = json.loads(run(*args).stdout)
    assert (result["task"], result["n_variables"], result["n_factors"]) == ("MAR", 3, 3)
    assert [answer["exact"] for answer in result["answers"]] == [True, True]
    assert result["answers"][1]["natural_log_value"] == pytest.approx(math.log(35.125))
    written = read_uai_solutions(out).answers
    assert [row.tolist() for row in written[0]] == result["answers"][0]["solution"]
    assert written[0][0].tolist() == [1, 0]


def write_grid(path, n, columns=None, seed=0, strength=0.5, card=2):
    """Write a grid of n × n variables, or of another number of columns, with random couplings; return its model."""
    rng = np.random.default_rng(seed)
    number = np.arange(n * (columns or n)).reshape(n, -1)
    across, down = (number[:, :-1], number[:, 1:]), (number[:-1], number[1:])
    scopes = [tuple(pair) for side in (across, down) for pair in np.stack(side, axis=-1).reshape(-1, 2).tolist()]
    tables = [strength * rng.standard_normal(card * card) for _ in scopes]
    model = UaiModel("MARKOV", np.full(number.size, card, dtype=np.int64), scopes, tables)
    write_uai(path, model)
    return model


def test_a_width_limit_that_is_exceeded(tmp_path):
    path = tmp_path / "grid.uai"
    write_grid(path, 5)
    message = fail("infer", path, "--task", "PR", "--exact", "--max-entries", 16)
    assert "MODEL must be small enough for exact" in message
    assert "MODEL must be small enough for exact" in message
    assert "or more, observe more variables, or leave out --exact" in message
    wide = fail("infer", path, "--task", "PR", "--exact", "--max-width", 2)
    assert "MODEL must be small enough for exact" in wide
    assert run("infer", path, "--task", "PR", "--exact", "--max-width", 5).stderr == ""
    both = fail("infer", path, "--task", "PR", "--max-width", 5, "--max-entries", 5)
    assert "--max-width must be left out with --max-entries" in both


def test_tables_that_are_too_many_together(tmp_path):
    path = tmp_path / "grid.uai"
    write_grid(path, 200, 6, card=5)
    for limit, named, cure in (
        (("--max-entries", 2**20), "--max-entries is", "or more, observe"),
        (("--max-width", 6), "the largest table for --max-width 6 is", "or more instead of --max-width, observe"),
    ):
        message = fail("infer", path, "--task", "PR", "--exact", *limit)
        assert f"entries together, and at most {2**26} are allowed where {named} " in message
        assert "the best order found has width 6 and tables of " in message
        assert re.search(rf"--max-entries \d+ {cure}", message)


def test_a_memory_limit_decides_whether_inference_is_exact(tmp_path):
    path = tmp_path / "grid.uai"
    write_grid(path, 12)
    exact = run("infer", path, "--task", "PR", "--max-memory", 1, "--json")
    assert json.loads(exact.stdout)["answers"][0]["exact"]
    limited = run("infer", path, "--task", "PR", "--max-memory", 1e-6, "--json")
    assert not json.loads(limited.stdout)["answers"][0]["exact"]
    assert "and --max-memory is 1e-06" in limited.stderr
    assert "Raise --max-memory" in fail("infer", path, "--task", "PR", "--max-memory", 1e-6, "--exact")
    both = fail("infer", path, "--task", "PR", "--max-memory", 1, "--max-entries", 5)
    assert "--max-memory must be left out with --max-entries" in both


def test_logarithms_are_refused_with_the_options_for_them(tmp_path):
    path = tmp_path / "logs.uai"
    path.write_text("MARKOV 1 2 1 1 0 2 -0.5 -1")
    assert "logarithms" in fail("infer", path, "--task", "PR")


@pytest.mark.parametrize("limit", [("--max-entries", 8), ("--max-width", 2)])
def test_wide_models_get_estimates(limit, tmp_path):
    path = tmp_path / "grid.uai"
    write_grid(path, 4, strength=0.3)
    for task in ("PR", "MAR"):
        estimate = run("infer", path, "--task", task, *limit, "--bound-entries", 4, "-o", tmp_path / "estimate")
        assert "too wide for elimination: the best order found" in estimate.stderr
        assert "belief propagation converged" in estimate.stderr
        run("infer", path, "--task", task, "--exact", "-o", tmp_path / "exact")
        found, expected = (read_uai_solutions(tmp_path / name).answers[0] for name in ("estimate", "exact"))
        np.testing.assert_allclose(found, expected, atol=0.05)
    answer = json.loads(run("infer", path, "--task", "PR", *limit, "--bound-entries", 4, "--json").stdout)["answers"][0]
    assert (answer["exact"], answer["converged"]) == (False, True)
    lower, upper = answer["log10_bounds"]
    assert lower <= answer["log10_value"] <= upper
    assert lower < float(run("infer", path, "--task", "PR", "--exact").stdout.split()[1]) < upper


@pytest.mark.parametrize("solver", [(), ("--wide", "toulbar2"), ("--wide", "toulbar2", "--max-seconds", 60)])
def test_maxima_of_wide_models_are_proved(solver, tmp_path):
    path = tmp_path / "grid.uai"
    model = write_grid(path, 4, strength=0.5)
    _, scores = listed(model, {})
    found = run("infer", path, "--task", "MAP", "--max-entries", 8, *solver, "--json")
    answer = json.loads(found.stdout)["answers"][0]
    assert answer["natural_log_value"] == pytest.approx(scores.max(), abs=1e-9)
    assert answer["log10_bounds"][1] == pytest.approx(scores.max() / math.log(10), abs=1e-4)
    if not solver:
        assert answer["exact"]
        assert "proved to be the largest" in found.stderr
    assert ("maximized by toulbar2" in found.stderr) == bool(solver)


def test_maxima_have_their_value(tmp_path):
    path = tmp_path / "pair.uai"
    path.write_text("MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n 1 2 100 5\n")
    found = run("infer", path, "--task", "MAP")
    assert "2 1 0" in found.stdout
    assert "log10 of the weight 2, proved to be the largest" in found.stderr


def test_ignored_words_are_one_line(tmp_path):
    path, evidence = tmp_path / "pair.uai", tmp_path / "pair.evid"
    path.write_text("MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n 1 2 100 5\nmade by hand\n")
    evidence.write_text("1 0 0\n0\n\n")
    found = run("infer", path, "--task", "MAP", "--evidence", evidence)
    assert "2 0 1" in found.stdout
    lines = [line for line in found.stderr.splitlines() if "ignored" in line]
    assert [line.partition(" ignored ")[2] for line in lines] == [
        "3 words after the last table, from 'made' on",
        "1 words after the last pair, from '0' on",
    ]


def test_without_bounds_there_are_none(tmp_path):
    path = tmp_path / "grid.uai"
    write_grid(path, 4, strength=0.5)
    found = run("infer", path, "--task", "MAP", "--max-entries", 8, "--wide", "propagation", "--json")
    assert json.loads(found.stdout)["answers"][0]["log10_bounds"] == [None, None]
    assert "without bounds" in found.stderr


def test_estimates_reach_what_they_say(tmp_path):
    path = tmp_path / "grid.uai"
    model = write_grid(path, 4, strength=0.5)
    (tmp_path / "query").write_text("3 0 5 10")
    states, scores = listed(model, {})
    for task, requested in (("MAP", ()), ("MMAP", ("--query", tmp_path / "query"))):
        found = json.loads(run("infer", path, "--task", task, *requested, "--max-entries", 8, "--json").stdout)
        answer = found["answers"][0]
        if task == "MAP":
            reached = scores[(states == answer["solution"]).all(axis=1)].item()
            assert answer["natural_log_value"] == pytest.approx(reached, abs=1e-9)
            assert reached <= scores.max() + 1e-9
        else:
            assert set(answer["solution"]) == {"0", "5", "10"}


def test_bad_requests(model, tmp_path):
    (tmp_path / "evid").write_text("1 0 2")
    (tmp_path / "query").write_text("1 7")
    evidence, query = tmp_path / "evid", tmp_path / "query"
    for args, message in (
        ((model, "--task", "MMAP"), "--query must be a file with the"),
        ((model, "--task", "PR", "--query", query), "--query must be left out for --task"),
        ((model, "--task", "MMAP", "--query", query), f"{query}, line 1: expected a query variable"),
        ((model, "--task", "PR", "--evidence", evidence), f"{evidence}, line 1: expected the state of variable 0"),
        ((tmp_path / "none.uai", "--task", "PR"), "expected a readable file"),
        (("-", "--task", "PR", "--evidence", "-"), "--evidence must be a file"),
        ((model, "--task", "PR", "--wide", "toulbar2"), "--wide must be 'bounds' or 'propagation' for other tasks"),
        ((model, "--task", "PR", "--max-seconds", 5), "--max-seconds must be left out unless --wide is toulbar2"),
        ((model, "--task", "PR", "-o", model), "--output must be another file than the"),
        ((model, "--task", "PR", "-o", tmp_path / "none" / "out"), "a writable path"),
    ):
        assert message in fail("infer", *args)
    assert "--task must be one of PR, MAR, MAP, MMAP, got ZETA" in run("infer", model, "--task", "ZETA", code=2).stderr
    model.write_text(model.read_text()[:40])
    assert f"{model}, line 1: " in fail("infer", model, "--task", "PR")


def test_zeros_make_wide_models_narrow(tmp_path):
    path = tmp_path / "grid.uai"
    model = write_grid(path, 5, strength=0.5)
    scopes, tables = [*model.scopes], [*model.tables]
    known = {v: v % 2 for v in range(0, 25, 2)}
    for v, state in known.items():
        table = np.full(int(model.cards[v]), -np.inf)
        table[state] = 0.0
        scopes.append((v,))
        tables.append(table)
    write_uai(path, UaiModel("MARKOV", model.cards, scopes, tables), "natural")
    found = run("infer", path, "--task", "MAP", "--max-entries", 16, "--exact", "--natural")
    assert [int(x) for x in found.stdout.split()[2:]][0:25:2] == list(known.values())
