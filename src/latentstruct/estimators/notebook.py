"""How fitted estimators show themselves in notebooks: scikit-learn's diagram, and below it what training reached."""

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from latentstruct.core.parameters import Parametrized

# Colors are those of the notebook around the table, light or dark.
STYLE = (
    "border-collapse:collapse;margin:0.4em 0;font-size:0.9em;color:inherit;background:transparent;"
    "font-variant-numeric:tabular-nums"
)
NAME = "text-align:left;font-weight:normal;opacity:0.75;padding:0.1em 1.2em 0.1em 0;border:0"
VALUE = "text-align:left;padding:0.1em 0;border:0"


class FittedRepr(Parametrized):
    """Adds what training reached to the HTML of an estimator."""

    def _diagram(self) -> str:
        return super()._diagram() + fitted_table(self)


def fitted_table(estimator: Any) -> str:
    """Return what training reached as a table in HTML; nothing for an estimator that is not fitted."""
    if not hasattr(estimator, "objective_") or not hasattr(estimator, "coef_"):
        return ""
    rows = "".join(
        f'<tr><th scope="row" style="{NAME}">{html.escape(name)}</th><td style="{VALUE}">{html.escape(value)}</td></tr>'
        for name, value in fitted_facts(estimator)
    )
    return f'<table class="latentstruct-fitted" style="{STYLE}"><tbody>{rows}</tbody></table>'


def fitted_facts(estimator: Any) -> list[tuple[str, str]]:
    """Return names and values of what training reached."""
    reached = list(estimator.restart_objectives_)
    facts = [
        ("objective", f"{estimator.objective_:.6g}"),
        ("lower bound", f"{estimator.lower_bound_:.6g}" if math.isfinite(estimator.lower_bound_) else "none"),
        ("relative gap", _gap(estimator)),
        ("stopped", f"{estimator.stop_reason_} after {_plural(estimator.n_iter_, 'iteration')}"),
        ("oracle calls", f"{estimator.n_oracle_calls_:,}"),
    ]
    if len(reached) > 1:
        facts.append(("starts", f"{len(reached)}, objectives {_range(reached)}"))
    if getattr(estimator, "history_", None):
        facts.append(("seconds", f"{estimator.history_[-1].seconds:.1f}"))
    n_zeros = int((np.asarray(estimator.coef_) == 0).sum())
    facts.append(("weights", f"{len(estimator.coef_):,}" + (f", {n_zeros:,} of them zero" if n_zeros else "")))
    return facts


def _gap(estimator: Any) -> str:
    if not math.isfinite(estimator.relative_gap_):
        return "unknown: the solver has no bound"
    if estimator.certified_:
        why = "certified"
    elif estimator.task_.latent:
        why = "of the last convex problem: no bound holds for latent variables"
    else:
        why = "not certified: inference was not exact"
    return f"{estimator.relative_gap_:.2g} ({why})"


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.6g} to {max(values):.6g}"


def _plural(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
