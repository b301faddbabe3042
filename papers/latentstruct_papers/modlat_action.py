"""Kumar, Packer & Koller (2012), section 6.2 and figure 2: actions of persons in latent boxes."""

from latentstruct_papers.findings import Findings
from latentstruct_papers.modlat_detection import JITTER, N_JITTERED, STRENGTHS, Setting, common_differences, run_on
from latentstruct_papers.trials import Setup

FULL = Setting(JITTER, None, 5, STRENGTHS, N_JITTERED)
QUICK = Setting(JITTER, 8, 2, (1.0, 1e2), 10)


def run(setup: Setup) -> Findings:
    """Repeat figure 2: test losses of LSVM, ILSVM and ModLat against C on ten actions."""
    setting = QUICK if setup.quick else FULL
    differs = [
        "The paper has about 2500 photographs of PASCAL VOC 2011; these are 784 of VOC 2012 of one person each.",
        "The paper's candidates are about 20 boxes of a person detector and the true box, described by poselets. Here "
        f"{N_JITTERED} boxes of half to twice the true area and similar shape lie at random places, the true one "
        "is among them, and all are described by gradients.",
        *common_differences(setup.quick),
    ]
    title = "Kumar, Packer & Koller (2012), figure 2: actions with latent boxes of persons"
    return run_on(["voc actions"], "modlat-action", title, differs, setting, setup)
