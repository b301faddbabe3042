"""Chains as modules of torch and as models of the library."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from latentstruct.core.protocols import Result
from latentstruct.estimators import CRF, StructuralSVM
from latentstruct.exceptions import Description, InputError
from latentstruct.tasks.chain.rules import TransitionRules, rules_of
from latentstruct.tasks.chain.task import Chain
from latentstruct.torch.chain import ChainLoss


def to_chain_model(linear: nn.Linear, head: ChainLoss, labels: Sequence[Hashable] | None = None) -> Any:
    """Return a model of the library with the weights of a trained layer and its chain loss.

    Parameters
    ----------
    linear : torch.nn.Linear
        The layer that computes emissions from features, the inputs of the model.
    head : ChainLoss
        The trained loss.
    labels : sequence of hashable, optional
        The labels in the order of their numbers, by default 0, 1, ….

    Returns
    -------
    CRF or StructuralSVM
        A fitted model with the task `latentstruct.Chain`: a `latentstruct.CRF` for loss="crf", otherwise a
        `latentstruct.StructuralSVM`. It predicts, evaluates, and can be saved; its training is unknown, so that the
        objective is NaN.

    See Also
    --------
    from_chain_model : The other way.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from latentstruct.torch import ChainLoss, to_chain_model
    >>> model = to_chain_model(torch.nn.Linear(4, 3), ChainLoss(3), ["a", "b", "c"])
    >>> len(model.predict([np.zeros((5, 4))])[0])
    5
    """
    n = head.n_labels
    names = list(range(n)) if labels is None else list(labels)
    if linear.out_features != n:
        raise InputError("linear", Description(f"{linear.out_features} outputs"), f"a layer with {n} outputs")
    if len(names) != n or len(set(names)) != n:
        raise InputError("labels", labels, f"{n} different labels")
    forbidden = head.forbidden_transitions, head.forbidden_start, head.forbidden_end
    rules = None
    if forbidden[0] is not None:
        rules = TransitionRules(*((~one).cpu().numpy() for one in forbidden))  # type: ignore[operator]
    task = Chain(names, start=True, end=True, bias=linear.bias is not None, rules=rules)
    task.restore({"labels": names, "n_inputs": linear.in_features})
    blocks = [linear.weight.T, head.transitions, head.start_transitions, head.end_transitions]
    if linear.bias is not None:
        blocks.append(linear.bias)
    w = np.concatenate([block.detach().cpu().double().numpy().ravel() for block in blocks])
    if not np.isfinite(w).all():
        raise InputError("linear", Description("NaN or infinite weights"), "finite weights")
    model = (CRF if head.loss == "crf" else StructuralSVM)(task, C=1.0)
    model.task_, model.C_ = task, 1.0
    model._store_result(Result(w, np.nan, np.nan, 0, 0, "imported", False, []))
    return model


def from_chain_model(model: Any) -> tuple[nn.Linear, ChainLoss]:
    """Return a layer and a chain loss with the weights of a model of the library, in float64.

    Parameters
    ----------
    model : estimator
        A fitted model with the task `latentstruct.Chain`.

    Returns
    -------
    linear : torch.nn.Linear
        The layer that computes emissions from features.
    head : ChainLoss
        The loss: that of a CRF for a `latentstruct.CRF`, otherwise the hinge loss.

    See Also
    --------
    to_chain_model : The other way.
    """
    task = getattr(model, "task_", None)
    if not isinstance(task, Chain):
        raise InputError("model", model, "a fitted model with the task Chain")
    n, w = len(task.labels_), torch.from_numpy(np.array(model.coef_, dtype=np.float64))
    linear = nn.Linear(task.n_inputs_, n, bias=task.bias, dtype=torch.float64)
    rules = None if task.rules is None else rules_of(task.rules, task.labels_.labels)
    head = ChainLoss(n, "crf" if isinstance(model, CRF) else "hinge", rules=rules).double()

    def block(start: int, wanted: bool = True) -> torch.Tensor:
        return w[start : start + n] if wanted else torch.zeros(n, dtype=torch.float64)

    with torch.no_grad():
        linear.weight.copy_(w[: task.transitions_at_].reshape(task.n_inputs_, n).T)
        head.transitions.copy_(w[task.transitions_at_ :][: n * n].reshape(n, n))
        head.start_transitions.copy_(block(task.start_at_, task.start))
        head.end_transitions.copy_(block(task.end_at_, task.end))
        if task.bias:
            linear.bias.copy_(block(task.bias_at_))
    return linear, head
