"""Supported methods of a structure by its tags, with reasons for the others."""

from collections.abc import Callable
from dataclasses import dataclass

from latentstruct.core.protocols import TaskTags

ALWAYS_LATENT = "something is always hidden when the output is known"
NO_LATENTS = "nothing is hidden when the output is known"
NO_SUMS = "only the best output is computed, not sums over all outputs"
SEARCH = "search"


@dataclass(frozen=True)
class Capability:
    """A method that structures may support."""

    name: str  # the estimator, and its variant
    # Conditions on tags that all must hold, each with the reason if it does not hold. Structures may give their own
    # reason for the last one, `TaskTags.reasons`.
    conditions: tuple[tuple[Callable[[TaskTags], bool], str], ...]
    # Returns how the method is supported if the conditions hold. "search" needs a reason too.
    support: Callable[[TaskTags], str] = lambda tags: "yes"

    def of(self, tags: TaskTags) -> tuple[str, str]:
        """Return how tags support the method ("" if not), and the reason if not or only by a search."""
        for holds, reason in self.conditions[:-1]:
            if not holds(tags):
                return "", reason
        holds, reason = self.conditions[-1]
        support = self.support(tags) if holds(tags) else ""
        return support, tags.reasons.get(self.name, reason) if support in ("", SEARCH) else ""


LATENT = (lambda tags: tags.latent != "never", NO_LATENTS)
OBSERVED = (lambda tags: tags.latent != "always", ALWAYS_LATENT)
SOFT = (lambda tags: tags.soft, NO_SUMS)
CAPABILITIES = (
    Capability("StructuralSVM", (OBSERVED,)),
    Capability(
        "StructuralSVM, slack rescaling",
        (OBSERVED, (lambda tags: True, "the best output of each loss is not known")),
        lambda tags: "exact" if tags.exact_slack else SEARCH,
    ),
    Capability("CRF", (OBSERVED, SOFT)),
    Capability("LatentSSVM", (LATENT,)),
    Capability(
        "MarginalSSVM",
        (LATENT, SOFT, (lambda tags: tags.two_temperatures, "latents are pooled together with outputs, not before")),
    ),
    Capability("HiddenCRF", (LATENT, SOFT)),
    Capability("StructuredEstimator, soft", (SOFT,), lambda tags: "any ε" if tags.two_temperatures else "ε_y = ε_h"),
    Capability(
        "MinEntropySSVM",
        (LATENT, SOFT, (lambda tags: tags.renyi, "the entropy of the latents of each output is not computed")),
    ),
    Capability("ModLat", (LATENT, (lambda tags: tags.latent_loss, "no loss between latents is defined"))),
)


def capabilities(tags: TaskTags) -> dict[str, str]:
    """Return how a structure with these tags supports each method, "" if it does not."""
    return {one.name: one.of(tags)[0] for one in CAPABILITIES}


def reasons(tags: TaskTags) -> dict[str, str]:
    """Return why a structure with these tags does not support a method, or only by a search."""
    return {one.name: one.of(tags)[1] for one in CAPABILITIES if one.of(tags)[1]}


def task_tags() -> dict[str, TaskTags]:
    """Return the tags of each structure of the library."""
    from latentstruct import tasks

    return {name: getattr(tasks, name).tags for name in tasks.__all__}


def shared_reasons() -> dict[str, dict[str, list[str]]]:
    """Return for each method the reasons for missing or search-only support, each with its structures."""
    found: dict[str, dict[str, list[str]]] = {one.name: {} for one in CAPABILITIES}
    for name, tags in task_tags().items():
        for method, reason in reasons(tags).items():
            found[method].setdefault(reason, []).append(name)
    return found
