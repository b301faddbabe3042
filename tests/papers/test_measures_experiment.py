"""The experiment on measures: choices by cross-validation, paired tests, tables."""

import gzip
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from latentstruct import StructuralSVM
from latentstruct.metrics import f_beta, prbep, roc_area
from latentstruct.metrics.strengths import suggest_C
from latentstruct.tasks import Measure
from latentstruct_papers import Setup, ssvm_measures
from latentstruct_papers.ssvm_measures import CONVENTIONAL, JUDGES, STRUCTURAL, Grid, Measured, Problem, Results

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")

GRID = Grid(
    strengths=(0.01, 1.0), pair_strengths=(0.1, 10.0), plain_strengths=(0.01, 1.0), cost_factors=(1.0, 4.0), n_folds=2
)


PRECISE = 1e-7


def small_problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(160, 5))
    y = X @ [2.0, -1.0, 0.5, 0.0, 0.0] + rng.normal(size=160) > 2.0
    return Problem("small", "one", X[:100], y[:100], X[100:], y[100:])


def scores_of(method, measure, setting, X, y, held_out):
    """Return the scores of a model trained again."""
    if method == CONVENTIONAL:
        C, factor = setting
        model = LinearSVC(loss="hinge", C=C, class_weight={True: factor, False: 1.0}, max_iter=10_000, random_state=0)
    else:
        strength = setting[0] * suggest_C(measure, len(y), int(y.sum()))
        model = StructuralSVM(Measure(measure), C=strength, tol=PRECISE)
    return model.fit(X, y).decision_function(held_out)


@pytest.mark.filterwarnings("ignore:Liblinear failed")
def test_settings_are_chosen_by_cross_validation(monkeypatch):
    # So precisely that it does not matter where training began.
    monkeypatch.setattr(ssvm_measures, "TOLERANCE", PRECISE)
    problem = small_problem()
    study = ssvm_measures.Study(GRID)
    found = list(study.run(problem))
    assert [(m.measure, m.method) for m in found] == [
        (measure, method) for measure in JUDGES for method in (CONVENTIONAL, STRUCTURAL)
    ]
    X, y = problem.train_X, problem.train_y
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    for m in found:
        judge = JUDGES[m.measure]
        means = {
            setting: np.mean([judge(y[b], scores_of(m.method, m.measure, setting, X[a], y[a], X[b])) for a, b in folds])
            for setting in GRID.settings(m.method, m.measure)
        }
        assert m.validation == pytest.approx(means[m.setting]) == pytest.approx(max(means.values()))
        test = judge(problem.test_y, scores_of(m.method, m.measure, m.setting, X, y, problem.test_X))
        assert m.test == pytest.approx(test, abs=1e-9)
        assert (m.n_positive, m.at_edge) == (y.sum(), True)
    # In two folds all settings for each measure, and one more on all rows.
    assert study.n_trained == {STRUCTURAL: 3 * (2 * 2 + 1), CONVENTIONAL: 2 * 4 + 3}


def test_judges():
    truth, scores = np.array([True, False, True, False]), np.array([2.0, 1.0, 0.5, -1.0])
    assert JUDGES["f1"](truth, scores) == f_beta(truth, scores > 0) == pytest.approx(0.8)
    assert JUDGES["prbep"](truth, scores) == prbep(truth, scores) == 0.5
    assert JUDGES["rocarea"](truth, scores) == roc_area(truth, scores) == 0.75


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=12))
def test_paired_values(gains):
    gains = np.array(gains, dtype=float) / 7
    rank, t = ssvm_measures.paired_values(gains)
    opposite = ssvm_measures.paired_values(-gains)
    for one, other in ((rank, opposite[0]), (t, opposite[1])):
        assert (one is None) == (other is None)
        assert one is None or (0 <= one <= 1 and one == pytest.approx(other))
    assert (rank is None) == (np.count_nonzero(gains) < 2)


def test_paired_values_of_a_clear_difference():
    rank, t = ssvm_measures.paired_values(np.arange(1.0, 13.0))
    assert rank == pytest.approx(2 / 2**12)
    assert t < 1e-3


def measured(problem, method, measure, test):
    return Measured("Reuters", problem, 60, measure, method, (1.0,), problem == "corn", 0.5, test)


def test_tables():
    tests = {"corn": (0.8, 0.7), "gold": (0.6, 0.6)}
    results = Results(
        [
            measured(problem, method, measure, value)
            for problem, values in tests.items()
            for measure in JUDGES
            for method, value in zip((STRUCTURAL, CONVENTIONAL), values, strict=True)
        ]
    )
    mean = ssvm_measures.mean_table(results).rows
    assert mean == [
        ["Reuters", STRUCTURAL, 70.0, 70.0, 70.0, 62.0, 68.2, 99.1],
        ["Reuters", CONVENTIONAL, 65.0, 65.0, 65.0, 56.1, 65.7, 98.6],
    ]
    assert ssvm_measures.gain_table(results).rows[0] == ["Reuters", "F1", 5.0, 5.0, "1 / 1 / 0", None, None]
    assert ssvm_measures.problem_table(results).rows[0] == ["Reuters corn", 60, 80.0, 70.0, 80.0, 70.0, 80.0, 70.0]
    choices = ssvm_measures.choice_table(results, ssvm_measures.Study(GRID))
    assert choices.rows[0] == [STRUCTURAL, "F1", 1.0, 1, 2]


def test_rare_classes_are_also_told_apart():
    positives = {"corn": 60, "gold": 12, "tin": 30}
    gains = {"corn": -0.1, "gold": 0.3, "tin": 0.1}
    results = Results(
        [
            replace(measured(problem, method, measure, 0.5 + gain * (method == STRUCTURAL)), n_positive=count)
            for (problem, count), gain in zip(positives.items(), gains.values(), strict=True)
            for measure in JUDGES
            for method in (STRUCTURAL, CONVENTIONAL)
        ]
    )
    means = {part: gains.mean() for (part, measure), gains in results.parts().items() if measure == "f1"}
    assert means == pytest.approx({"Reuters": 10.0, "Reuters, 50 positives or more": -10.0, "Reuters, fewer": 20.0})
    claim = ssvm_measures.claims(results)[0]
    assert claim.found.endswith("over 3 problems; -10.00 on 1 with 50 positives or more; +20.00 on 2 with fewer")


def write(home, name, text):
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def write_miniatures(home):
    """Write small files of the three formats, whose classes can be learned."""
    rng = np.random.default_rng(0)
    words = "".join(f"w{k}\n" for k in range(8))
    write(home, "reuters21578/modapte_vocab.txt.gz", words)
    for part in ("train", "test"):
        lines = []
        for kind in rng.integers(4, size=300):
            topic = ("", "corn", "gold", "tin,corn")[kind]
            lines.append(f"{topic} {kind + 1}:{0.5 + rng.random():.3f} 7:{rng.random():.3f} # 1\n")
        write(home, f"reuters21578/modapte_{part}.multilabel.svmlight.gz", "".join(lines))
    header = ",".join([*(f"b{k}" for k in range(64)), "class"])
    for part in ("tra", "tes"):
        rows = []
        for digit in [*range(10)] * 6:
            ink = rng.integers(0, 5, 64)
            ink[digit] += 8
            rows.append(",".join(map(str, [*ink, digit])))
        write(home, f"optdigits/optdigits.{part}", "\n".join([header, *rows]) + "\n")
    for name in ("a9a.gz", "a9a.t.gz"):
        labels = rng.integers(2, size=400)
        features = np.where(rng.random(400) < 0.1, 1 - labels, labels) + 1
        other = rng.integers(3, 123, size=400)
        rows = zip(labels, features, other, strict=True)
        lines = [f"{label} {feature}:1 {k}:1\n" for label, feature, k in rows]
        write(home, f"adult_a9a/{name}", "".join(lines))
    return home


@pytest.mark.filterwarnings("ignore:Liblinear failed")
def test_on_miniatures(tmp_path):
    said = []
    findings = ssvm_measures.run(Setup(str(write_miniatures(tmp_path / "home")), True, said.append))
    groups = [row[0] for row in findings.tables[0].rows]
    assert groups == ["Reuters", "Reuters", "optdigits", "optdigits", "adult", "adult"]
    assert all(value > 75 for row in findings.tables[0].rows for value in row[2:5])
    assert len(said) == len(findings.tables[2].rows) == 1 + 3 + 1
    files = findings.save(tmp_path / "results")
    assert [path.suffix for path in files] == [".json", ".txt", ".html", ".png"]
    assert files[-1].name == "ssvm-measures-gains.png"
    saved = json.loads(files[0].read_text())
    assert len(saved["settings"]["measured"]) == 5 * 6
    assert any("Quick" in line for line in saved["differs"])


@needs_data
@pytest.mark.data
def test_problems_of_real_data():
    problems = ssvm_measures.reuters_problems(None, quick=False)
    assert len(problems) == 60
    assert sum(problem.train_y.sum() >= ssvm_measures.COMMON for problem in problems) == 26
    assert min(problem.train_y.sum() for problem in problems) >= 10
    digits = ssvm_measures.digit_problems(None, quick=False)
    assert [problem.train_y.sum() for problem in digits] == [376, 389, 380, 389, 387, 376, 377, 387, 380, 382]
    assert digits[0].train_X.max() == 1.0
    adult = ssvm_measures.adult_problem(None, quick=True)
    found = {m.method: m.test for m in ssvm_measures.Study(GRID).run(adult) if m.measure == "f1"}
    assert set(found) == {STRUCTURAL, CONVENTIONAL}
    assert min(found.values()) > 0.6
