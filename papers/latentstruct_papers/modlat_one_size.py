"""Kumar, Packer & Koller (2012), section 6.1 and figure 1: boxes of a known size at an unknown place."""

from pathlib import Path

from latentstruct_papers.findings import Findings
from latentstruct_papers.modlat_detection import (
    GRID,
    MOST_BOXES,
    SIDE,
    STRENGTHS,
    Say,
    Setting,
    common_differences,
    run_on,
)
from latentstruct_papers.trials import Trials

FULL = Setting(None, 5, STRENGTHS, MOST_BOXES)
QUICK = Setting(10, 2, (1.0, 1e2), 60)


def run(
    data_home: str | Path | None = None, quick: bool = False, say: Say = print, trials: Trials | None = None
) -> Findings:
    """Repeat figure 1 with boxes that differ in place only, on five mammals of VOC and six animals of Caltech.

    Parameters
    ----------
    data_home : path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
    quick : bool, default=False
        Whether to take few photographs of mammals, candidates, splits and values of C.
    say : function of str, default=print
        Called with a line for each model that was trained.
    trials : Trials, optional
        Runs the trainings; by default in this process.

    Returns
    -------
    Findings
        As of modlat-detection.
    """
    setting = QUICK if quick else FULL
    differs = [
        "The paper does not state the sizes of its boxes. We read them as follows, as its 0/1 loss could not be so low "
        "otherwise: each photograph has boxes of one size, that of the true box, which is known in training and test; "
        f"their places are {GRID} pixels apart, and the one nearest to the true box is the truth.",
        f"Photographs are shrunk to {SIDE} pixels, so that there are at most {MOST_BOXES} boxes as in the paper (here "
        f"{setting.n_boxes}); where there would be more, their distance grows.",
        "The paper's photographs of six mammals are not available. voc mammals are five classes of PASCAL VOC 2012, 60 "
        "photographs each; caltech animals are six classes of Caltech 101, whose animals fill most of the photograph.",
        *common_differences(quick),
    ]
    title = "Kumar, Packer & Koller (2012), figure 1: detection with latent boxes of one size"
    names = ["voc mammals"] if quick else ["voc mammals", "caltech animals"]
    return run_on(names, "modlat-one-size", title, differs, setting, data_home, say, trials or Trials())
