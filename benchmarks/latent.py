"""Latent models: what kept planes save, how well planted motifs are found, how fast forests are."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import squareform

from benchmarks.common import Line, cpu
from latentstruct import CCCP, Chain, Coreference, HiddenCRF, LatentSSVM, Motif, Temperature, WindowFeatures
from latentstruct.datasets import make_planted_motif
from latentstruct.exceptions import InputError
from latentstruct.features.mentions import MentionPairFeatures
from latentstruct.metrics import chunk_scores
from latentstruct.tasks.motif.sites import best_matches, common_shift, find_sites
from latentstruct_papers.datasets import load_conll2000, load_litbank, load_yeast_ars

TOL = 1e-3


def kept_planes(what: str, fit: Callable[[Any], LatentSSVM], n_examples: int) -> list[Line]:
    """Compare oracle calls of CCCP that keeps its planes with CCCP that begins each convex problem afresh."""
    seconds, kept = cpu(lambda: fit(CCCP(tol=TOL)))
    plain = fit(CCCP(tol=TOL, first_tol=TOL, keep_planes=False))
    eased = fit(CCCP(tol=TOL, keep_planes=False))
    passes = [model.n_oracle_calls_ / n_examples for model in (kept, plain, eased)]
    reached = f"objectives {kept.objective_:.5g} and {{:.5g}}, {kept.n_iter_} and {{}} iterations, {seconds:.1f} CPU s"
    return [
        Line(
            f"{what}: passes over the data, planes kept",
            passes[0],
            passes[1],
            "each problem afresh, to the final precision",
            1 / 3,
            reached.format(plain.objective_, plain.n_iter_),
        ),
        Line(
            f"{what}: passes over the data, planes kept",
            passes[0],
            passes[2],
            "afresh, with the same growing precision",
            None,
            reached.format(eased.objective_, eased.n_iter_),
        ),
    ]


def motif_planes(quick: bool) -> list[Line]:
    data = load_yeast_ars()
    positive, negative = data.positives.sequences, data.negatives.sequences
    if quick:
        positive, negative = positive[:100], negative[:500]
    X = [*positive, *negative]
    Y = [1] * len(positive) + [-1] * len(negative)
    weights = np.where(np.array(Y) > 0, 1.0, len(positive) / len(negative))

    def fit(solver: CCCP) -> LatentSSVM:
        return LatentSSVM(Motif(17), C=0.1, solver=solver).fit(X, Y, sample_weight=weights)

    return kept_planes(f"motif in {len(X)} sequences, width 17", fit, len(X))


def coreference_planes(quick: bool) -> list[Line]:
    documents = load_litbank()[: 10 if quick else 40]
    X = MentionPairFeatures().transform(documents)
    Y = [document.clusters for document in documents]

    def fit(solver: CCCP) -> LatentSSVM:
        return LatentSSVM(Coreference(), C=0.01, solver=solver).fit(X, Y)

    return kept_planes(f"coreference in {len(X)} documents", fit, len(X))


def planted(width: int, wanted: float, cases: int) -> Line:
    """Find planted motifs; the peer is the share of misses that is allowed."""
    found, ceiling = [], []
    began = time.perf_counter()
    for seed in range(cases):
        data = make_planted_motif(width=width, random_state=seed)
        model = LatentSSVM(Motif(width), C=0.02, restarts=3).fit(data.X, data.Y)
        positive = [x for x, y in zip(data.X, data.Y, strict=True) if y > 0]
        true_starts = np.array([site[0] for site in data.sites if site is not None])
        starts = np.array([site.start for site in find_sites(model, positive)])
        shift = common_shift(starts, true_starts, width // 2)
        found.append(float((starts + shift == true_starts).mean()))
        ceiling.append(float((best_matches(positive, data.consensus) == true_starts).mean()))
    seconds = (time.perf_counter() - began) / cases
    reached = (
        f"{np.mean(found):.3f} found (least {min(found):.3f}); the true consensus finds {np.mean(ceiling):.3f}; "
        f"{seconds:.1f} s a case"
    )
    what = f"planted motifs of width {width}, {cases} cases: sites missed"
    return Line(what, 1.0 - float(np.mean(found)), 1.0 - wanted, "allowed", 1.0, reached)


def forest(n_items: int = 500) -> Line:
    """Decode one document of many mentions; the peer is scipy's minimum spanning tree of the same weights."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_items * (n_items - 1) // 2, 20))
    task = Coreference()
    task.learn([x], [np.arange(n_items) // 5])
    batch, w = task.prepare([x]), rng.normal(size=20)
    ours, _ = cpu(lambda: task.decode(batch, w, Temperature()), repeats=5)
    # Scipy minimizes, and leaves out weights of 0.
    dense = squareform(np.minimum(-(x @ w), 0.0))
    peer, _ = cpu(lambda: minimum_spanning_tree(dense), repeats=5)
    return Line(
        f"forest of {n_items} mentions", ours, peer, "scipy's spanning tree alone", None, f"{1e3 * ours:.1f} ms"
    )


def half_labeled_text(quick: bool) -> list[Line]:
    """Latent SVM on sentences of which half the labels are unknown, against the hidden CRF on the same data."""
    n = 200 if quick else 1000
    train, test = load_conll2000(subset="train"), load_conll2000(subset="test")
    features, rng = WindowFeatures(), np.random.default_rng(0)
    X, held_out = features.fit_transform(train.tokens[:n]), features.transform(test.tokens)
    Y = [[-1 if rng.random() < 0.5 else label for label in labels] for labels in train.Y[:n]]
    for model in (HiddenCRF, LatentSSVM):
        model(Chain(), tol=0.5).fit(X[:20], Y[:20])
    peer, hidden = cpu(lambda: HiddenCRF(Chain()).fit(X, Y))
    ours, latent = cpu(lambda: LatentSSVM(Chain()).fit(X, Y))
    f1, other = (100 * chunk_scores(test.Y, model.predict(held_out)).f1 for model in (latent, hidden))
    reached = f"F1 {f1:.2f} and {other:.2f}, {latent.n_iter_} problems, {latent.n_oracle_calls_ / n:.0f} passes"
    return [Line(f"{n} half-labeled sentences: latent SVM", ours, peer, "our hidden CRF", 3.0, reached)]


def run(quick: bool = False) -> list[Line]:
    cases = 3 if quick else 10
    lines = [forest(), planted(17, 0.88, cases), planted(11, 0.6, cases)]
    for part in (motif_planes, coreference_planes, half_labeled_text):
        try:
            lines += part(quick)
        except InputError as error:
            print(f"{part.__name__}: left out ({error})")
    return lines
