"""What `latentstruct info` shows of any model."""

from collections.abc import Callable
from typing import Any

from latentstruct.cli.kind import TRANSITIONS, KindSpec, show_weights
from latentstruct.cli.run import describe_fit
from latentstruct.core.lazy import np
from latentstruct.progress.display import fit_facts, print_facts

LABELS_SHOWN = 30
PLAIN = bool | int | float | str | None


def describe_model(settings: Any, estimator: Any) -> dict[str, Any]:
    """Return what all models have: their parts, options and sizes, and the result of training."""
    task = estimator.task_
    params = {key: value for key, value in estimator.get_params(deep=False).items() if key != "task"}
    result = {
        "estimator": settings.estimator,
        "task": settings.task,
        "library": settings.library,
        "params": {key: value if isinstance(value, PLAIN) else repr(value) for key, value in params.items()},
        "n_weights": len(estimator.coef_),
        "n_nonzero": int((estimator.coef_ != 0).sum()),
        **describe_fit(estimator),
    }
    if hasattr(task, "labels_"):
        # A motif has a plain pair of labels, other tasks number theirs.
        result |= {"labels": list(getattr(task.labels_, "labels", task.labels_)), "n_labels": len(task.labels_)}
    # Tasks with weights of their own, such as motifs, have no features.
    if task.n_inputs_:
        result["n_features"] = task.n_inputs_
    return result


def largest(values: Any, top: int) -> list[int]:
    """Return the positions of the values of largest size, the largest first, zeros left out."""
    size = np.abs(values)
    top = min(top, len(size))
    if not top:
        return []
    found = np.argpartition(size, len(size) - top)[len(size) - top :]
    found = found[np.argsort(-size[found], kind="stable")]
    return found[size[found] > 0].tolist()


def strongest(values: Any, top: int, describe: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the descriptions of the weights of largest size, with the weights."""
    return [{**describe(k), "weight": float(values[k])} for k in largest(values, top)]


def strongest_transitions(estimator: Any, top: int) -> list[dict[str, Any]]:
    """Return the strongest transitions of a chain."""
    labels, start = estimator.task_.labels_.labels, estimator.task_.transitions_at_
    n = len(labels)
    values = estimator.coef_[start : start + n * n]
    return strongest(values, top, lambda k: {"from": labels[k // n], "to": labels[k % n]})


def strongest_weights(estimator: Any, name_of: Callable[[int], str], top: int) -> list[dict[str, Any]]:
    """Return the strongest weights of inputs."""
    labels = estimator.task_.labels_.labels
    n = len(labels)
    values = estimator.coef_[: estimator.task_.n_inputs_ * n]
    return strongest(values, top, lambda k: {"feature": name_of(k // n), "label": labels[k % n]})


def strongest_features(weights: Any, name_of: Callable[[int], str], top: int) -> list[dict[str, Any]]:
    """Return the strongest weights, one per feature."""
    return strongest(weights, top, lambda k: {"feature": name_of(k)})


def show_info(kind: KindSpec | None, result: dict[str, Any]) -> None:
    """Print what a model is."""
    params = {key: value for key, value in result["params"].items() if value not in (None, False)}
    facts = [
        ("model", result["model"]),
        ("trained", f"{result['estimator']} on {result['task']}, latentstruct {result['library']}"),
        ("options", ", ".join(f"{key} {value}" for key, value in params.items())),
    ]
    facts += [(name, str(result[f"n_{name}"])) for name in ("examples", "features") if f"n_{name}" in result]
    facts.append(("weights", f"{result['n_weights']}, {result['n_nonzero']} nonzero"))
    if "labels" in result:
        labels = ", ".join(str(label) for label in result["labels"][:LABELS_SHOWN])
        facts.append((f"{result['n_labels']} labels", labels + (", …" if result["n_labels"] > LABELS_SHOWN else "")))
    facts += fit_facts(result)
    if kind is None:
        print_facts(facts)
        show_weights(result, [TRANSITIONS])
    else:
        print_facts([*facts, *kind.facts(result)])
        kind.show_details(result)
