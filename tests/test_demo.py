import json

import numpy as np
import pytest
from typer.testing import CliRunner

from latentstruct.cli import app
from latentstruct.demo import draw, load_words, make_grammar, run_demo
from latentstruct.exceptions import InputError


@pytest.fixture(scope="module")
def result():
    return run_demo(n_train=150, n_test=150)


def test_structure_helps_by_a_clear_margin(result):
    alone, svm, crf = result.scores
    for chain in (svm, crf):
        assert chain.token_accuracy > alone.token_accuracy + 0.05
        assert chain.word_accuracy > alone.word_accuracy + 0.25
    assert all(score.certified and score.relative_gap <= 1e-3 for score in result.scores)


def test_scores_are_those_of_the_predictions(result):
    for score, predicted in zip(result.scores, result.predictions, strict=True):
        right = np.array(predicted) == np.array(result.words.labels)
        assert score.token_accuracy == right.mean()
        assert score.word_accuracy == right.all(axis=1).mean()


def test_grammar_is_learned(result):
    allowed = result.grammar > 0
    assert (allowed.sum(axis=1) == 3).all()
    assert np.allclose(result.grammar.sum(axis=1), 1)
    # Seldom followers may be confused with forbidden ones after so few words, but not on the whole.
    assert result.transitions[allowed].min() > np.median(result.transitions[~allowed])
    best = np.argsort(-result.transitions, axis=1)[:, :3]
    assert np.take_along_axis(allowed, best, axis=1).mean() > 0.95


def test_words_follow_the_grammar_and_share_no_image():
    train, test = load_words(40, 40, length=6, noise=0.0, seed=3)
    for words in (train, test):
        for labels in words.labels:
            assert (make_grammar()[labels[:-1], labels[1:]] > 0).all()
    seen = {image.tobytes() for word in train.images for image in word}
    assert not any(image.tobytes() in seen for word in test.images for image in word)


def test_picture(result, tmp_path):
    path = draw(result, tmp_path / "new" / "demo.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 50_000


def test_command(monkeypatch, tmp_path, result):
    monkeypatch.setattr("latentstruct.demo.run_demo", lambda **_: result)
    shown = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert shown.exit_code == 0
    assert "chain CRF" in shown.stdout
    assert (tmp_path / "demo.png").exists()
    shown = CliRunner().invoke(app, ["demo", "-o", str(tmp_path), "--json", "--quiet"])
    assert len(json.loads(shown.stdout)["models"]) == 3
    assert shown.stderr == ""


def test_missing_matplotlib_is_told_before_the_work(monkeypatch, tmp_path, result):
    monkeypatch.setattr("latentstruct.demo.find_spec", lambda name: None)
    shown = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "demo")])
    assert shown.exit_code == 2
    assert 'pip install "latentstruct[plot]"' in shown.stderr
    with pytest.raises(InputError, match="matplotlib"):
        draw(result, tmp_path / "demo.png")


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "demo").write_text("mine")
    shown = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "demo")])
    assert shown.exit_code == 2
    assert "is a file" in shown.stderr
