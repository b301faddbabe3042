"""A demonstration: a motif hidden in random DNA is found from labels of whole sequences alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latentstruct import tasks
from latentstruct.cli.lazy import motif_sites, plots
from latentstruct.core.formatting import short_repr

if TYPE_CHECKING:
    from latentstruct.core.protocols import Callback

TITLE = "A motif found from labels of whole sequences: its position and letters are latent"


@dataclass(frozen=True)
class DemoResult:
    """The result of the demonstration.

    `planted` and `found` are consensus sequences; `accuracy` is that of held-out sequences; `sites_found` is the
    fraction of planted sites in these that the model finds, up to the common `shift`; `ceiling` the same for a search
    with the planted consensus, as mutations hide some sites. `matrix` (width, 4) has the letter probabilities of the
    sites in training, `sites` and `true_starts` are those of held-out sequences with the motif, of `length` letters.
    """

    planted: str
    found: str
    accuracy: float
    sites_found: float
    ceiling: float
    shift: int
    matrix: NDArray[np.float64]
    sites: "list[motif_sites.Site]"
    true_starts: NDArray[np.int64]
    length: int
    model: Any
    seconds: float

    __repr__ = short_repr


def run_demo(
    n_train: int = 200,
    n_test: int = 200,
    length: int = 500,
    width: int = 17,
    mutation: float = 0.2,
    C: float = 0.02,
    restarts: int = 3,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
    callback: "Callback | None" = None,
) -> DemoResult:
    """Plant a motif in random DNA, find it, and look for it in held-out sequences.

    There are `n_train` and `n_test` sequences with the motif, and as many without. A letter of a planted site is
    replaced with probability `mutation`. `say` prints a line before long work, `callback` is that of fit.
    """
    from latentstruct.datasets import make_planted_motif
    from latentstruct.estimators import LatentSSVM

    total = n_train + n_test
    data = make_planted_motif(total, total, length, width, mutation, random_state=seed)
    positive, negative = data.X[:total], data.X[total:]
    if say is not None:
        say(f"looking for a motif in {n_train} of {2 * n_train} sequences of {length} letters")
    X = positive[:n_train] + negative[:n_train]
    Y = [1] * n_train + [-1] * n_train
    began = time.perf_counter()
    model = LatentSSVM(tasks.Motif(width), C=C, restarts=restarts).fit(X, Y, callback=callback)
    seconds = time.perf_counter() - began
    matrix = motif_sites.site_matrix([site.site for site in motif_sites.find_sites(model, positive[:n_train])])
    held_out = positive[n_train:]
    sites = motif_sites.find_sites(model, held_out, [str(k) for k in range(1, n_test + 1)])
    starts = np.array([site.start for site in sites])
    true_starts = np.array([site[0] for site in data.sites[n_train:total] if site is not None])
    shift = motif_sites.common_shift(starts, true_starts, width // 2)
    return DemoResult(
        planted=data.consensus,
        found=motif_sites.consensus(matrix),
        accuracy=model.score(held_out + negative[n_train:], [1] * n_test + [-1] * n_test),
        sites_found=float((starts + shift == true_starts).mean()),
        ceiling=float((motif_sites.best_matches(held_out, data.consensus) == true_starts).mean()),
        shift=shift,
        matrix=matrix,
        sites=sites,
        true_starts=true_starts,
        length=length,
        model=model,
        seconds=seconds,
    )


def draw(result: DemoResult, path: Path, n_sequences: int = 24) -> Path:
    """Write a picture of the motif, its sites in held-out sequences, and the course of training; return its path."""
    plots.require_plots()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.5, 9.2), layout="constrained")
    figure.suptitle(TITLE, fontsize=18, weight="bold")
    (logo, course), (sequences, shares) = figure.subplots(2, 2, width_ratios=(2, 1), height_ratios=(2, 3))
    plots.plot_logo(result.matrix, ax=logo)
    logo.set_title(f"The motif: found {result.found}, planted {result.planted}")
    plots.plot_convergence(result.model, course)
    course.set_title("Training")
    shown, width = result.sites[:n_sequences], len(result.planted)
    starts = (result.true_starts[: len(shown)] - result.shift).tolist()
    known = {site.sequence: [(start, start + width)] for site, start in zip(shown, starts, strict=True)}
    plots.plot_sites(shown, [result.length] * len(shown), sequences, known)
    sequences.set_title(f"Predicted sites in {len(shown)} of {len(result.sites)} held-out sequences (frames: planted)")
    bars = {
        "accuracy": result.accuracy,
        "sites found": result.sites_found,
        "sites found if the\nmotif were known": result.ceiling,
    }
    drawn = shares.bar(list(bars), [100 * share for share in bars.values()])
    shares.bar_label(drawn, fmt="%.0f %%")
    shares.set_title("Held-out sequences")
    shares.set_ylim(0, 110)
    shares.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    return path
