"""The experiment with labels of several workers, on made documents."""

import gzip

import numpy as np
import pytest

from latentstruct_papers import EXPERIMENTS, Setup, crowd_alternations, crowd_ner

ENTITIES = {"Ann": "B-PER", "Rome": "B-LOC"}


@pytest.fixture
def home(tmp_path):
    """Twelve documents by two careful workers and one who sees no entities; one document has no votes."""
    rng, blocks = np.random.default_rng(0), []
    for number in range(13):
        workers = ["a1", "a2", "a47"] if number else []
        rows = [f"# doc D{number} annotators {' '.join(workers)}"]
        for _ in range(2):
            for word in rng.choice(["Ann", "Rome", "saw", "the", "of"], 8):
                truth = ENTITIES.get(word, "O")
                votes = [truth, truth if rng.random() < 0.9 else "?", "O"][: len(workers)]
                rows.append("\t".join([word, truth, *votes]))
            blocks.append("\n".join(rows))
            rows = []
    (tmp_path / "crowd_ner").mkdir()
    (tmp_path / crowd_ner.FILE).write_bytes(gzip.compress("\n\n".join(blocks).encode()))
    return tmp_path


def test_documents_are_read_with_their_votes(home):
    crowd = crowd_ner.read(home / crowd_ner.FILE)
    assert sorted(set(crowd.documents)) == list(range(12))
    assert len(crowd.words) == 24
    assert {len(votes) for y in crowd.votes for votes in y} == {crowd_ner.N_WORKERS}
    assert all(votes[46] == "O" for y in crowd.votes for votes in y)
    assert all(
        votes[0] == label
        for y, truth in zip(crowd.votes, crowd.truth, strict=True)
        for votes, label in zip(y, truth, strict=True)
    )
    assert sorted(set(crowd_ner.read(home / crowd_ner.FILE, 3).documents)) == [0, 1, 2]


def test_a_small_run(home):
    lines = []
    findings = crowd_ner.run(Setup(data_home=str(home), quick=True, say=lines.append))
    assert findings.name in EXPERIMENTS
    assert len(lines) == len(crowd_ner.INFERRING) + crowd_ner.QUICK_FOLDS * len(crowd_ner.METHODS)
    inferred, taggers = ({row[0]: float(row[1].split()[0]) for row in table.rows} for table in findings.tables)
    assert list(inferred) == list(crowd_ner.INFERRING)
    assert list(taggers) == list(crowd_ner.METHODS)
    assert inferred[crowd_ner.SKENE] > 90
    assert taggers[crowd_ner.TRUE] > 90


def test_labels_by_alternation(home):
    findings = crowd_alternations.run(Setup(data_home=str(home), quick=True, say=lambda line: None))
    assert findings.name in EXPERIMENTS
    rows = {row[0]: row for row in findings.tables[0].rows}
    assert list(rows) == list(crowd_alternations.methods(crowd_alternations.QUICK_FOLDS))
    scores = {name: float(row[1].split()[0]) for name, row in rows.items()}
    assert scores[crowd_ner.SKENE] > 90
    assert all(0 <= score <= 100 for score in scores.values())
    assert scores["C = 0.1, alternations: 1"] > 80


def test_labels_without_prior_are_those_of_the_largest_likelihood():
    rng = np.random.default_rng(0)
    votes = [[[str(vote) for vote in rng.integers(0, 3, 4)] for _ in range(20)] for _ in range(3)]
    crowd = crowd_ner.Crowd([], [], votes, [])
    model = crowd_ner.DawidSkene().fit(votes)
    for rows, labels in zip(votes, crowd_alternations.without_prior(crowd), strict=True):
        for row, label in zip(rows, labels, strict=True):
            given = [model.labels_.index(vote) for vote in row]
            products = np.prod([model.confusions_[a, :, v] for a, v in enumerate(given)], axis=0)
            assert products[model.labels_.index(label)] == pytest.approx(products.max())
