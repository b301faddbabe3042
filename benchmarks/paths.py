"""Certified regularization paths against one default fit at the C that takes longest; fits check the bounds."""

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.common import Line, cpu
from benchmarks.letters import split
from latentstruct import (
    Chain,
    LatentSSVM,
    Motif,
    Multiclass,
    PairwiseRanking,
    StructuralSVM,
    WindowFeatures,
    regularization_path,
)
from latentstruct.core.parameters import clone
from latentstruct_papers.datasets import load_conll2000, load_letor_mq2008, load_ocr_letters, load_uci_promoters

C_MIN, C_MAX, TOL = 1e-3, 1e2, 1e-3
# C of the fits that the path is compared with, and number of random C at which its bounds are checked.
CS, CHECKED = np.geomspace(C_MIN, C_MAX, 6), 3
AT_MOST = 3.0


def compare(what: str, task: Any, X: Any, Y: Any, low: float = C_MIN, high: float = C_MAX) -> Line:
    """Compare the CPU time of the path with that of the longest fit; check the path by all fits."""
    StructuralSVM(task, C=low, tol=0.9).fit(X, Y)
    compared = np.geomspace(low, high, 1 + round(np.log10(high / low)))
    rng, seconds, inside = np.random.default_rng(0), {}, []
    ours, path = cpu(lambda: regularization_path(StructuralSVM(task), X, Y, C_min=low, C_max=high, tol=TOL))
    between = np.exp(rng.uniform(np.log(low), np.log(high), CHECKED))
    for C in map(float, (*compared, *between)):
        seconds[C], fitted = cpu(lambda C=C: StructuralSVM(task, C=C).fit(X, Y))
        model = path.model(float(np.clip(C, path.Cs[0], path.Cs[-1])))
        # Two certified intervals around the same minimum must overlap.
        inside.append(model.lower_bound_ <= fitted.objective_ and fitted.lower_bound_ <= model.objective_)
    hardest = max(compared, key=lambda C: seconds[float(C)])
    reached = (
        f"{len(path)} values of C, certified: {path.certified}, largest gap {path.segment_gaps.max():.1e}, bounds "
        f"agree with {sum(inside)} of {len(inside)} fits, {path.n_oracle_calls / len(X):.0f} passes"
    )
    return Line(f"{what}: path of C", ours, seconds[float(hardest)], f"one fit, C = {hardest:g}", AT_MOST, reached)


def compare_latent(what: str, estimator: Any, X: Any, Y: Any) -> Line:
    """Compare the CPU time of a path with latent variables, which has no certificate, with that of the longest fit."""
    estimator.set_params(n_jobs=1)
    ours, path = cpu(lambda: regularization_path(estimator, X, Y, Cs=CS))
    seconds, above = {}, []
    for C in map(float, CS):
        seconds[C], fitted = cpu(lambda C=C: clone(estimator).set_params(C=C).fit(X, Y))
        above.append(path.model(C).objective_ / fitted.objective_ - 1.0)
    hardest = max(seconds, key=lambda C: seconds[C])
    reached = (
        f"{len(path)} values of C; objectives from {min(above):+.1e} to {max(above):+.1e} above fits, the two starts "
        f"differ by up to {path.spreads.max():.1%}"
    )
    return Line(f"{what}: path of C, latent", ours, seconds[hardest], f"one fit, C = {hardest:g}", AT_MOST, reached)


def run(quick: bool = False) -> list[Line]:
    X, y = load_digits(return_X_y=True)
    lines = [compare("digits", Multiclass(), X / 16.0, y)]
    queries = load_letor_mq2008(1, "train")
    lines.append(compare("MQ2008", PairwiseRanking(), queries.X, queries.Y))
    promoters = load_uci_promoters()
    lines.append(compare_latent("uci_promoters", LatentSSVM(Motif(12)), promoters.X, promoters.Y))
    if quick:
        return lines
    letters = load_ocr_letters()
    lines.append(compare("letters, 704 words", Chain(), *split(letters, letters.folds == 1)))
    text = load_conll2000(subset="train")
    X = WindowFeatures().fit_transform(text.tokens[:2000])
    return [*lines, compare("CoNLL-2000, 2000 sentences", Chain(), X, text.Y[:2000])]
