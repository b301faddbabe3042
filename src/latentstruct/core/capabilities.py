"""Which methods a structure supports, from its tags."""

from collections.abc import Callable
from dataclasses import dataclass

from latentstruct.core.protocols import TaskTags


@dataclass(frozen=True)
class Capability:
    """A method that structures may support.

    Attributes
    ----------
    name : str
        The estimator, and its variant.
    support : callable
        Returns how tags support it, "" if they do not.
    reason : str
        Why a structure does not support it.
    """

    name: str
    support: Callable[[TaskTags], str]
    reason: str


NO_LATENTS = "nothing is hidden when the output is known"
NO_SUMS = "only the best output is computed, not sums over all outputs"
CAPABILITIES = (
    Capability("StructuralSVM", lambda tags: "" if tags.latent == "always" else "yes", "the task always has latents"),
    Capability(
        "StructuralSVM, slack rescaling",
        lambda tags: "" if tags.latent == "always" else "exact" if tags.exact_slack else "search",
        "slack rescaling is defined without latents",
    ),
    Capability("CRF", lambda tags: "yes" if tags.soft and tags.latent != "always" else "", NO_SUMS),
    Capability("LatentSSVM", lambda tags: "yes" if tags.latent != "never" else "", NO_LATENTS),
    Capability(
        "MarginalSSVM",
        lambda tags: "yes" if tags.soft and tags.two_temperatures and tags.latent != "never" else "",
        f"{NO_LATENTS}, {NO_SUMS}, or latents cannot be summed out before outputs are maximized",
    ),
    Capability(
        "HiddenCRF",
        lambda tags: "yes" if tags.soft and tags.latent != "never" else "",
        f"{NO_LATENTS}, or {NO_SUMS}",
    ),
    Capability(
        "StructuredEstimator, soft",
        lambda tags: "" if not tags.soft else "any ε" if tags.two_temperatures else "ε_y = ε_h",
        NO_SUMS,
    ),
    Capability(
        "MinEntropySSVM",
        lambda tags: "yes" if tags.renyi else "",
        "the entropy of the latents of each output needs outputs that can be listed or eliminated last",
    ),
    Capability("ModLat", lambda tags: "yes" if tags.latent_loss else "", "no loss between latents is defined"),
)


def capabilities(tags: TaskTags) -> dict[str, str]:
    """Return how a structure with these tags supports each method, "" where it does not."""
    return {one.name: one.support(tags) for one in CAPABILITIES}


def capability_matrix() -> dict[str, dict[str, str]]:
    """Return how each structure of the library supports each method."""
    from latentstruct import tasks

    return {name: capabilities(getattr(tasks, name).tags) for name in tasks.__all__}
