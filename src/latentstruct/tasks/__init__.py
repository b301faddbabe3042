"""Structures: one module each."""

from latentstruct.tasks.base import CandidateTask, ExampleTask
from latentstruct.tasks.chain import Chain
from latentstruct.tasks.coreference import Coreference
from latentstruct.tasks.correlation_clustering import CorrelationClustering
from latentstruct.tasks.latent_multiclass import LatentMulticlass
from latentstruct.tasks.motif import Motif
from latentstruct.tasks.multiclass import Multiclass
from latentstruct.tasks.ranking import PairwiseRanking, PrecisionAtK

__all__ = [
    "CandidateTask",
    "Chain",
    "Coreference",
    "CorrelationClustering",
    "ExampleTask",
    "LatentMulticlass",
    "Motif",
    "Multiclass",
    "PairwiseRanking",
    "PrecisionAtK",
]
