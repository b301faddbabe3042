"""Published experiments, each repeated on available data: `latentstruct reproduce` runs them by name."""

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from latentstruct.exceptions import InputError
from latentstruct_papers.findings import Findings, Table

__all__ = ["EXPERIMENTS", "Experiment", "Findings", "Table", "run_experiment"]


class Experiment(NamedTuple):
    """One entry of the list of experiments: the module that runs it, what it shows, and the data it needs."""

    module: str
    summary: str
    data: tuple[str, ...]


EXPERIMENTS = {
    "lssvm-motif": Experiment(
        "latentstruct_papers.lssvm_motif",
        "Latent SSVM, table 1: finding motifs in DNA",
        ("yeast_ars", "uci_promoters"),
    ),
    "lssvm-coref": Experiment(
        "latentstruct_papers.lssvm_coref",
        "Latent SSVM, table 2: clustering noun phrases",
        ("litbank_coref",),
    ),
    "lssvm-precision": Experiment(
        "latentstruct_papers.lssvm_precision",
        "Latent SSVM, table 3: optimizing precision@k",
        ("letor_mq2008",),
    ),
    "lssvm-iterations": Experiment(
        "latentstruct_papers.lssvm_iterations",
        "Latent SSVM, figure 3: iterations of training against C",
        ("yeast_ars", "litbank_coref", "letor_mq2008"),
    ),
    "mssvm-table2": Experiment(
        "latentstruct_papers.mssvm_table2",
        "Marginal SSVM, table 2: simulated chains and grids",
        (),
    ),
    "mssvm-table3": Experiment(
        "latentstruct_papers.mssvm_table3",
        "Marginal SSVM, table 3: uncertainty of hidden variables",
        (),
    ),
    "mssvm-convergence": Experiment(
        "latentstruct_papers.mssvm_convergence",
        "Marginal SSVM, figure 2: convergence of training",
        (),
    ),
    "mssvm-samples": Experiment(
        "latentstruct_papers.mssvm_samples",
        "Marginal SSVM, figure 3: size of the training set",
        (),
    ),
    "mssvm-segmentation": Experiment(
        "latentstruct_papers.mssvm_segmentation",
        "Marginal SSVM, figure 4: segmentation with missing labels",
        (),
    ),
    "mssvm-msrc": Experiment(
        "latentstruct_papers.mssvm_msrc",
        "Marginal SSVM, table 4: classes of image patches",
        ("msrc_v2",),
    ),
    "modlat-detection": Experiment(
        "latentstruct_papers.modlat_detection",
        "ModLat, figure 1: finding objects by the classes of images",
        ("mammals_boxes", "msrc_v2"),
    ),
    "groupnorm-digits": Experiment(
        "latentstruct_papers.groupnorm_digits",
        "Group norm, figures 1 and 2: which rotations of digits matter",
        ("mnist",),
    ),
    "groupnorm-mnist": Experiment(
        "latentstruct_papers.groupnorm_mnist",
        "Group norm on all ten digits at once",
        ("mnist",),
    ),
    "selfpaced-digits": Experiment(
        "latentstruct_papers.selfpaced_digits",
        "Self-paced learning on pairs of digits",
        ("mnist",),
    ),
    "ssvm-measures": Experiment(
        "latentstruct_papers.ssvm_measures",
        "Structural SVM, table 1: training for F1, PRBEP and ROC area",
        ("reuters21578", "optdigits", "adult_a9a"),
    ),
    "ssvm-alignment": Experiment(
        "latentstruct_papers.ssvm_alignment",
        "Structural SVM, figure 6: learned protein alignment beside BLOSUM62",
        ("protein_alignments",),
    ),
    "ssvm-parsing": Experiment(
        "latentstruct_papers.ssvm_parsing",
        "Structural SVM: parsing Spanish against a PCFG by counts",
        ("cess_esp_trees",),
    ),
    "ssvm-diversity": Experiment(
        "latentstruct_papers.ssvm_diversity",
        "Structural SVM, figure 4: diverse subsets of search results",
        ("reuters21578",),
    ),
    "snakes": Experiment(
        "latentstruct_papers.snakes",
        "Snakes: edge features on grids",
        ("snakes",),
    ),
    "half-labeled": Experiment(
        "latentstruct_papers.half_labeled",
        "Chunking with 10 to 90 % of the tags removed",
        ("conll2000",),
    ),
}


def run_experiment(
    name: str,
    data_home: str | Path | None = None,
    quick: bool = False,
    say: Callable[[str], None] = print,
) -> Findings:
    """Run an experiment by name.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`.
    data_home : path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
    quick : bool, default=False
        Whether to take less data and fewer repetitions: a look within a minute or so, not the published setting.
    say : function of str, default=print
        Called with lines of progress.

    Returns
    -------
    Findings
        Tables and plots, with the time it took.
    """
    if name not in EXPERIMENTS:
        raise InputError("name", name, f"one of {', '.join(EXPERIMENTS)}")
    began = time.perf_counter()
    findings: Findings = import_module(EXPERIMENTS[name].module).run(data_home=data_home, quick=quick, say=say)
    findings.seconds = time.perf_counter() - began
    return findings
