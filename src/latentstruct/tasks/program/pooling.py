"""Uncertainty of the outputs of programs, from maximization alone: SparseMAP mixtures and perturbed maxima.

The outputs of a program are too many to sum over. Neither of these gives the probabilities of the distribution
P(y | x) ∝ exp s(y)/ε, but both show which variables are uncertain.
"""

from functools import partial
from typing import Any

import numpy as np

from latentstruct.core.parameters import check_is_fitted
from latentstruct.core.protocols import Query
from latentstruct.core.types import Vector, split
from latentstruct.core.validation import integer, real
from latentstruct.exceptions import InputError
from latentstruct.inference.sparse_map import sparse_mixture
from latentstruct.tasks.program.task import Program, ProgramBatch

TOLERANCE, MOST_OUTPUTS = 1e-6, 200


def sparse_marginals(model: Any, X: Any, temperature: float = 1.0) -> list[Vector]:
    """Return the mean of the variables of each example in the SparseMAP mixture of outputs.

    The mixture maximizes ⟨s, y⟩ − ½ε|y|² over the convex hull of the outputs. The mean of a variable is exactly its
    value if all outputs of the mixture agree, and lies between the values of the outputs otherwise.

    Parameters
    ----------
    model : estimator
        Trained with `Program`.
    X : list of ProgramInput
        The examples.
    temperature : float, default=1.0
        ε > 0; larger values mix more outputs.

    Returns
    -------
    list of ndarray of shape (n_variables,)
        The mean value of each variable, for each example.

    See Also
    --------
    perturbed_outputs : Outputs drawn at random.

    References
    ----------
    V. Niculae, A. Martins, M. Blondel and C. Cardie, SparseMAP: differentiable sparse structured inference, ICML 2018.
    """
    real(0.0, closed="neither").check(temperature, "temperature")
    task, batch, scores = _scored(model, X)
    return [
        sparse_mixture(partial(task.maximize_scores, batch, k), part / temperature, TOLERANCE, MOST_OUTPUTS)
        for k, part in enumerate(scores)
    ]


def perturbed_outputs(
    model: Any, X: Any, n_samples: int = 1, temperature: float = 1.0, random_state: Any = None
) -> list[list[Vector]]:
    """Return outputs of each example that are best for perturbed scores (perturb-and-MAP).

    The score of each variable gets independent logistic noise of scale ε, the difference of two Gumbel variables. For
    programs without constraints and binary variables these are samples of P(y | x) ∝ exp s(y)/ε; in general they are
    not, but they are outputs that the program allows.

    Parameters
    ----------
    model : estimator
        Trained with `Program`.
    X : list of ProgramInput
        The examples.
    n_samples : int, default=1
        Number of outputs per example.
    temperature : float, default=1.0
        ε > 0.
    random_state : int or None, default=None
        Seed; None draws other outputs each time.

    Returns
    -------
    list of list of ndarray of shape (n_variables,)
        The `n_samples` outputs of each example.

    See Also
    --------
    sparse_marginals : Means of a mixture of outputs, without random numbers.

    References
    ----------
    G. Papandreou and A. Yuille, Perturb-and-MAP random fields, ICCV 2011.
    """
    real(0.0, closed="neither").check(temperature, "temperature")
    integer(1).check(n_samples, "n_samples")
    task, batch, scores = _scored(model, X)
    rng = np.random.default_rng(random_state)
    return [
        [
            task.maximize_scores(batch, k, part + rng.logistic(scale=temperature, size=len(part)))
            for _ in range(n_samples)
        ]
        for k, part in enumerate(scores)
    ]


def _scored(model: Any, X: Any) -> tuple[Program, ProgramBatch, list[Vector]]:
    """Return the task, the batch and the scores of the variables of each example."""
    check_is_fitted(model, "task_")
    task = model.task_
    if not isinstance(task, Program):
        raise InputError("model", task, "an estimator that was trained with Program")
    if task.relaxation == "lp":
        raise InputError("model", task.relaxation, "trained with `relaxation`='none'")
    batch = task.prepare(X)
    return task, batch, split(task.scores_of_variables(batch, Query(model.coef_, "free")), batch.offsets)
