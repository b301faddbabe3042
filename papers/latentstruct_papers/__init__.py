"""Published experiments, each repeated on available data: `latentstruct reproduce` runs them by name."""

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from latentstruct.exceptions import InputError
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.trials import Setup, Trials

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Findings", "Setup", "Table", "Trials", "run_experiment"]


class Experiment(NamedTuple):
    """One entry of the list of experiments.

    Attributes
    ----------
    module : str
        The module that runs it, by a function `run`.
    summary : str
        What it shows.
    data : tuple of str
        The data sets it needs.
    in_trials : bool
        Whether `run` passes its work to `Setup.trials`, so that it can resume and run in several processes.
    """

    module: str
    summary: str
    data: tuple[str, ...]
    in_trials: bool = False


EXPERIMENTS = {
    "lssvm-motif": Experiment(
        "latentstruct_papers.lssvm_motif",
        "Latent SSVM, table 1: finding motifs in DNA",
        ("yeast_ars", "uci_promoters"),
        in_trials=True,
    ),
    "lssvm-motif-samples": Experiment(
        "latentstruct_papers.motif_samples",
        "Motifs by latent SSVM and by a matrix against the number of sequences",
        ("yeast_ars",),
        in_trials=True,
    ),
    "lssvm-coref": Experiment(
        "latentstruct_papers.lssvm_coref",
        "Latent SSVM, table 2: clustering noun phrases",
        ("litbank_coref",),
        in_trials=True,
    ),
    "coref-folds": Experiment(
        "latentstruct_papers.coref_folds",
        "Latent SSVM: clustering noun phrases of LitBank by folds",
        ("litbank_coref",),
        in_trials=True,
    ),
    "lssvm-precision": Experiment(
        "latentstruct_papers.lssvm_precision",
        "Latent SSVM, table 3: optimizing precision@k",
        ("letor3_ohsumed", "letor_mq2008"),
        in_trials=True,
    ),
    "lssvm-iterations": Experiment(
        "latentstruct_papers.lssvm_iterations",
        "Latent SSVM, figure 3: iterations of training against C",
        ("yeast_ars", "litbank_coref", "letor_mq2008"),
        in_trials=True,
    ),
    "mssvm-table2": Experiment(
        "latentstruct_papers.mssvm_table2",
        "Marginal SSVM, table 2: simulated chains and grids",
        (),
        in_trials=True,
    ),
    "mssvm-table3": Experiment(
        "latentstruct_papers.mssvm_table3",
        "Marginal SSVM, table 3: uncertainty of hidden variables",
        (),
        in_trials=True,
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
        in_trials=True,
    ),
    "mssvm-map": Experiment(
        "latentstruct_papers.mssvm_map",
        "Marginal SSVM: when margins beat likelihood",
        (),
        in_trials=True,
    ),
    "mssvm-segmentation": Experiment(
        "latentstruct_papers.mssvm_segmentation",
        "Marginal SSVM, figure 4: segmentation with missing labels",
        (),
        in_trials=True,
    ),
    "mssvm-msrc": Experiment(
        "latentstruct_papers.mssvm_msrc",
        "Marginal SSVM, table 4: classes of image patches",
        ("msrc_v2",),
        in_trials=True,
    ),
    "modlat-detection": Experiment(
        "latentstruct_papers.modlat_detection",
        "ModLat, figure 1: finding objects by the classes of images",
        ("mammals_boxes", "msrc_v2"),
        in_trials=True,
    ),
    "modlat-one-size": Experiment(
        "latentstruct_papers.modlat_one_size",
        "ModLat, figure 1: boxes of a known size at an unknown place",
        ("voc2012_mammals", "caltech_animals", "mammals_boxes", "msrc_v2"),
        in_trials=True,
    ),
    "modlat-planted": Experiment(
        "latentstruct_papers.modlat_planted",
        "ModLat: planted boxes of controlled uncertainty",
        (),
        in_trials=True,
    ),
    "modlat-corloc": Experiment(
        "latentstruct_papers.modlat_corloc",
        "ModLat: boxes learned from labels beside fixed ones",
        ("voc2012_mammals",),
        in_trials=True,
    ),
    "object-boxes": Experiment(
        "latentstruct_papers.objectness",
        "Boxes of objects of any class beside fixed ones",
        ("voc2012_mammals",),
        in_trials=True,
    ),
    "modlat-action": Experiment(
        "latentstruct_papers.modlat_action",
        "ModLat, figure 2: actions of persons in latent boxes",
        ("voc2012_actions",),
        in_trials=True,
    ),
    "groupnorm-digits": Experiment(
        "latentstruct_papers.groupnorm_digits",
        "Group norm, figures 1 and 2: which rotations of digits matter",
        ("mnist",),
        in_trials=True,
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
        in_trials=True,
    ),
    "ssvm-measures": Experiment(
        "latentstruct_papers.ssvm_measures",
        "Structural SVM, table 1: training for F1, PRBEP and ROC area",
        ("reuters21578", "optdigits", "adult_a9a"),
        in_trials=True,
    ),
    "ssvm-alignment": Experiment(
        "latentstruct_papers.ssvm_alignment",
        "Structural SVM, figure 6: learned protein alignment beside BLOSUM62",
        ("protein_alignments",),
        in_trials=True,
    ),
    "ssvm-structure": Experiment(
        "latentstruct_papers.ssvm_structure",
        "Structural SVM, figure 6: alignment with secondary structure",
        ("protein_pairs_ss",),
        in_trials=True,
    ),
    "ssvm-parsing": Experiment(
        "latentstruct_papers.ssvm_parsing",
        "Structural SVM: parsing Spanish against a PCFG by counts",
        ("cess_esp_trees",),
        in_trials=True,
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
    "tracks": Experiment(
        "latentstruct_papers.tracks",
        "Tracks of pedestrians and dividing cells by learned costs",
        ("mot_tracks", "cell_tracks"),
        in_trials=True,
    ),
    "topics": Experiment(
        "latentstruct_papers.topics",
        "Sets of topics of Reuters-21578 with scores of pairs",
        ("reuters21578",),
    ),
    "certified-graphs": Experiment(
        "latentstruct_papers.certified_graphs",
        "Structural SVMs on graphs with loops, with proved gaps",
        ("snakes", "msrc_v2"),
        in_trials=True,
    ),
    "half-labeled": Experiment(
        "latentstruct_papers.half_labeled",
        "Chunking with tags unknown, in sets of two, or for chunks only",
        ("conll2000",),
        in_trials=True,
    ),
    "crowd-ner": Experiment(
        "latentstruct_papers.crowd_ner",
        "Named entities from the labels of 47 workers",
        ("crowd_ner",),
        in_trials=True,
    ),
    "crowd-alternations": Experiment(
        "latentstruct_papers.crowd_alternations",
        "Labels that a hidden CRF infers from those of 47 workers, by alternation",
        ("crowd_ner",),
        in_trials=True,
    ),
}


def run_experiment(
    name: str,
    data_home: str | Path | None = None,
    quick: bool = False,
    say: Callable[[str], None] = print,
    checkpoint: str | Path | None = None,
    jobs: int = 1,
) -> Findings:
    """Run an experiment by name.

    Parameters
    ----------
    name : str
        One of `EXPERIMENTS`.
    data_home : path, optional
        The folder of the data sets; by default the environment variable ``LATENTSTRUCT_DATA`` names it.
    quick : bool, default=False
        Whether to take less data and fewer repetitions. A quick run takes about a minute, and is not the published
        setting.
    say : function of str, default=print
        Called with lines of progress.
    checkpoint : path, optional
        File of finished trials; if it exists, they are not run again. Only for experiments in trials.
    jobs : int, default=1
        Number of processes, for experiments in trials.

    Returns
    -------
    Findings
        Tables, plots and claims, with the time it took.
    """
    if name not in EXPERIMENTS:
        raise InputError("name", name, f"one of {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    given = {"checkpoint": (checkpoint, None), "jobs": (jobs, 1)}
    for parameter, (value, default) in given.items():
        if value != default and not experiment.in_trials:
            possible = ", ".join(key for key, one in EXPERIMENTS.items() if one.in_trials)
            raise InputError(parameter, value, f"left out for {name}", f"Experiments in trials are {possible}.")
    trials = Trials(f"{name}, quick" if quick else name, checkpoint, jobs)
    began, began_cpu = time.perf_counter(), time.process_time()
    setup = Setup(None if data_home is None else str(data_home), quick, say, trials)
    findings: Findings = import_module(experiment.module).run(setup)
    findings.quick = quick
    findings.seconds = time.perf_counter() - began
    findings.cpu_seconds = time.process_time() - began_cpu - trials.own_seconds + trials.cpu_seconds
    return findings
