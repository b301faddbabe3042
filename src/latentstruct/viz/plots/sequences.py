"""Sites on sequences."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from latentstruct.core.formatting import repr_short
from latentstruct.core.validation import array_of, check_length, check_lists
from latentstruct.exceptions import Description, InputError
from latentstruct.viz.plots.axes import hide_frame, new_axes, on_axes
from latentstruct.viz.plots.colors import AGAINST, FOR, SINGLE
from latentstruct.viz.plots.features import drawn_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from latentstruct.tasks.motif.sites import Site

MOST_SEQUENCES = 40
MOST_BINS = 40
FAINT = 0.45
"""Opacity of sites of sequences that are predicted negative."""


@on_axes
def plot_sites(
    sites: "Sequence[Site]",
    lengths: Sequence[int],
    ax: "Axes | None" = None,
    known: Mapping[str, Sequence[tuple[int, int]]] | None = None,
) -> "Axes":
    """Draw sequences as lines with their sites on them.

    A site on the given strand or of a protein lies above the line, one on the other strand below it. Sites of
    sequences predicted negative are pale.

    Parameters
    ----------
    sites : sequence of n Site
        One per sequence, as `latentstruct.tasks.motif.sites.find_sites` returns them.
    lengths : sequence of n int
        Lengths of the sequences.
    known : dict of str to list of (int, int), optional
        Start and end of known sites by the names of sequences, drawn as frames.
    """
    check_lists(sites=sites, lengths=lengths)
    if not len(sites):
        raise InputError("sites", sites, "at least one site")
    check_length(lengths, len(sites), "lengths", "lengths")
    for site, length in zip(sites, lengths, strict=True):
        if not 0 <= site.start < site.end <= length:
            got = Description(f"{site.start} to {site.end} in {repr_short(site.sequence)}")
            raise InputError("sites", got, f"within their sequences, here of {length} letters")
    from matplotlib.patches import Rectangle

    ax = new_axes(0.9 + 0.2 * len(sites)) if ax is None else ax
    for row, (site, length) in enumerate(zip(sites, lengths, strict=True)):
        ax.plot([0, length], [row, row], color=SINGLE, linewidth=0.8, zorder=1)
        bottom = row - 0.36 if site.strand >= 0 else row
        for low, high in (known or {}).get(site.sequence, ()):
            frame = Rectangle((low, row - 0.42), high - low, 0.84, fill=False, edgecolor=FOR, linewidth=1.2)
            ax.add_patch(frame)
        strength = 1.0 if site.score > 0 else FAINT
        width = site.end - site.start
        ax.add_patch(Rectangle((site.start, bottom), width, 0.36, facecolor=AGAINST, alpha=strength, linewidth=0))
    ax.set_xlim(0, max(lengths))
    ax.set_ylim(len(sites) - 0.4, -0.6)
    ax.set_yticks(range(len(sites)), [drawn_text(site.sequence, 16) for site in sites], fontsize="x-small")
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("letter")
    ax.locator_params(axis="x", nbins=6, integer=True)
    hide_frame(ax, "top", "right", "left")
    return ax


@on_axes
def plot_starts(starts: Any, strands: Any, ax: "Axes | None" = None) -> "Axes":
    """Draw a histogram of the starts of sites, those on the other strand stacked on those of the given one.

    Parameters
    ----------
    starts : array of n int
        The first letter of each site, from 0.
    strands : array of n int
        +1 for the given strand, −1 for the other one, 0 if there is only one.
    """
    places, sides = array_of(starts, "starts"), array_of(strands, "strands")
    if places.ndim != 1 or not len(places) or sides.shape != places.shape or places.dtype.kind not in "iu":
        got, expected = f"shape {places.shape} with {sides.shape} strands", "at least one integer, one per strand"
        raise InputError("starts", Description(got), expected)
    ax = new_axes() if ax is None else ax
    n_bins = int(min(MOST_BINS, np.ptp(places) + 1))
    edges = np.linspace(places.min() - 0.5, places.max() + 0.5, n_bins + 1).tolist()
    parts = [(places[sides >= 0], "given strand", AGAINST), (places[sides < 0], "other strand", FOR)]
    parts = [part for part in parts if len(part[0])]
    values, names, colors = zip(*parts, strict=True)
    ax.hist(values, edges, stacked=True, color=colors, label=names)
    ax.set_xlabel("start of the site (position in the sequence)")
    ax.set_ylabel("sequences")
    ax.locator_params(axis="both", integer=True, nbins=6)
    if len(parts) > 1:
        ax.legend(frameon=False, fontsize="small")
    hide_frame(ax)
    return ax
