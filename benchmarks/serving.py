"""Serving: CPU of labeling one sentence from its tokens, against python-crfsuite with the same features."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Line, cpu
from latentstruct import CRF, Chain, FeaturePipeline, WindowFeatures, load
from latentstruct_papers.datasets import load_conll2000

ITERATIONS, SENTENCES, PASSES = 15, 600, 3
OFFSETS = (-2, -1, 0, 1, 2)


def token_features(sentence: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Return the names of the features of `WindowFeatures`, as users of CRFsuite write such functions."""
    words = ["\\B2", "\\B1", *(word for word, _ in sentence), "\\E1", "\\E2"]
    tags = ["\\B2", "\\B1", *(tag for _, tag in sentence), "\\E1", "\\E2"]
    found = []
    for i, (word, _) in enumerate(sentence, 2):
        names = ["bias", f"shape={shape(word)}"]
        names += [f"0[{k}]={words[i + k]}" for k in OFFSETS]
        names += [f"0[-1,0]={words[i - 1]}|{word}", f"0[0,1]={word}|{words[i + 1]}"]
        names += [f"1[{k}]={tags[i + k]}" for k in OFFSETS]
        names += [f"1[{k},{k + 1}]={tags[i + k]}|{tags[i + k + 1]}" for k in OFFSETS[:-1]]
        names += [f"1[{k},{k + 1},{k + 2}]={'|'.join(tags[i + k : i + k + 3])}" for k in OFFSETS[:-2]]
        for n in range(1, min(len(word), 3) + 1):
            names += [f"prefix{n}={word[:n]}", f"suffix{n}={word[-n:]}"]
        found.append(names)
    return found


def shape(word: str) -> str:
    kinds = ""
    for c in word:
        kind = "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else "c" if c.isalpha() else "."
        if not kinds.endswith(kind):
            kinds += kind
    return kinds


def per_sentence(work: Callable[[Any], Any], sentences: Sequence[Any]) -> float:
    """Return the median over sentences of the least CPU time of some passes."""
    return float(np.median(np.min([[cpu(lambda s=s: work(s))[0] for s in sentences] for _ in range(PASSES)], axis=0)))


def run(quick: bool = False) -> list[Line]:
    import pycrfsuite

    train, test = load_conll2000(subset="train"), load_conll2000(subset="test")
    n = 1000 if quick else len(train.tokens)
    sentences = test.tokens[:SENTENCES]
    template = WindowFeatures()
    assert {frozenset(names) for names in token_features(sentences[0])} == {
        frozenset(template.get_feature_names_out()[row.indices]) for row in template.fit_transform(sentences[:1])[0]
    }
    trained = FeaturePipeline(WindowFeatures(), CRF(Chain(), max_iter=ITERATIONS)).fit(train.tokens[:n], train.Y[:n])
    trainer = pycrfsuite.Trainer(verbose=False)
    for tokens, labels in zip(train.tokens[:n], train.Y[:n], strict=True):
        trainer.append(token_features(tokens), list(labels))
    trainer.set_params({"max_iterations": ITERATIONS})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trained.save(folder / "ours")
        trainer.train(str(folder / "peer"))
        loading, model = cpu(lambda: load(folder / "ours"), PASSES)
        tagger = pycrfsuite.Tagger()
        opening, _ = cpu(lambda: tagger.open(str(folder / "peer")), PASSES)
        labels = tagger.labels()

        def marginals(sentence: Any) -> None:
            tagger.set(token_features(sentence))
            for i in range(len(sentence)):
                for label in labels:
                    tagger.marginal(label, i)

        found = []
        for what, ours, peer in (
            ("labels", model.predict, lambda sentence: tagger.tag(token_features(sentence))),
            ("marginals", model.marginals, marginals),
        ):
            seconds = (
                per_sentence(lambda sentence, work=ours: work([sentence]), sentences),
                per_sentence(peer, sentences),
            )
            reached = f"{1e3 * seconds[0]:.2f} against {1e3 * seconds[1]:.2f} ms, {len(model.model_.coef_):,} weights"
            found.append(Line(f"one sentence, {what}", *seconds, "python-crfsuite", 1.0, reached))
    return [*found, Line("load a tagger", loading, opening, "python-crfsuite", None, f"{loading:.2f} s")]
