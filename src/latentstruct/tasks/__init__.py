"""Structures: one module or folder each, and one line here, which also makes it a public name of `latentstruct`."""

from latentstruct.tasks.alignment import Alignment as Alignment
from latentstruct.tasks.alignment import GapCosts as GapCosts
from latentstruct.tasks.base import BaseTask as _BaseTask
from latentstruct.tasks.candidates import CandidateTask as CandidateTask
from latentstruct.tasks.chain import Chain as Chain
from latentstruct.tasks.clustering import Coreference as Coreference
from latentstruct.tasks.clustering import CorrelationClustering as CorrelationClustering
from latentstruct.tasks.detection import Detection as Detection
from latentstruct.tasks.detection import DetectionInput as DetectionInput
from latentstruct.tasks.detection import chosen_boxes as chosen_boxes
from latentstruct.tasks.diversity import CandidateDocuments as CandidateDocuments
from latentstruct.tasks.diversity import DiverseSubset as DiverseSubset
from latentstruct.tasks.examples import ExampleTask as ExampleTask
from latentstruct.tasks.graph import Graph as Graph
from latentstruct.tasks.graph_inputs import GraphInput as GraphInput
from latentstruct.tasks.graph_inputs import grid_graph as grid_graph
from latentstruct.tasks.latent_multiclass import LatentMulticlass as LatentMulticlass
from latentstruct.tasks.measure import Measure as Measure
from latentstruct.tasks.motif import Motif as Motif
from latentstruct.tasks.multiclass import Multiclass as Multiclass
from latentstruct.tasks.parsing import Parsing as Parsing
from latentstruct.tasks.parts import PartsTask as PartsTask
from latentstruct.tasks.ranking import PairwiseRanking as PairwiseRanking
from latentstruct.tasks.ranking import PrecisionAtK as PrecisionAtK
from latentstruct.tasks.semi_markov import SemiMarkov as SemiMarkov

__all__ = [
    name
    for name, value in globals().items()
    if name[0] != "_" and isinstance(value, type) and issubclass(value, _BaseTask)
]
