"""Structures: one module each."""

from latentstruct.tasks.alignment import Alignment
from latentstruct.tasks.alignment import GapCosts as GapCosts
from latentstruct.tasks.candidates import CandidateTask
from latentstruct.tasks.chain import Chain
from latentstruct.tasks.coreference import Coreference
from latentstruct.tasks.correlation_clustering import CorrelationClustering
from latentstruct.tasks.detection import Detection
from latentstruct.tasks.detection import DetectionInput as DetectionInput
from latentstruct.tasks.detection import chosen_boxes as chosen_boxes
from latentstruct.tasks.diversity import CandidateDocuments as CandidateDocuments
from latentstruct.tasks.diversity import DiverseSubset
from latentstruct.tasks.examples import ExampleTask
from latentstruct.tasks.graph import Graph
from latentstruct.tasks.graph_inputs import GraphInput as GraphInput
from latentstruct.tasks.graph_inputs import grid_graph as grid_graph
from latentstruct.tasks.latent_multiclass import LatentMulticlass
from latentstruct.tasks.measure import Measure
from latentstruct.tasks.motif import Motif
from latentstruct.tasks.multiclass import Multiclass
from latentstruct.tasks.parsing import Parsing
from latentstruct.tasks.parts import PartsTask
from latentstruct.tasks.ranking import PairwiseRanking, PrecisionAtK
from latentstruct.tasks.semi_markov import SemiMarkov

__all__ = [
    "Alignment",
    "CandidateTask",
    "Chain",
    "Coreference",
    "CorrelationClustering",
    "Detection",
    "DiverseSubset",
    "ExampleTask",
    "Graph",
    "LatentMulticlass",
    "Measure",
    "Motif",
    "Multiclass",
    "PairwiseRanking",
    "Parsing",
    "PartsTask",
    "PrecisionAtK",
    "SemiMarkov",
]
