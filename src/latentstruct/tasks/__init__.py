"""Structures: one module or folder each; all names but `HELPERS` are public names of `latentstruct`."""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.tasks.alignment.task import Alignment, GapCosts
    from latentstruct.tasks.chain.rules import TransitionRules, tagging_rules
    from latentstruct.tasks.chain.task import Chain
    from latentstruct.tasks.classes.latent_multiclass import LatentMulticlass
    from latentstruct.tasks.classes.multiclass import Multiclass
    from latentstruct.tasks.clustering import Coreference, CorrelationClustering
    from latentstruct.tasks.custom.candidates import CandidateTask
    from latentstruct.tasks.custom.examples import ExampleTask
    from latentstruct.tasks.custom.parts import PartsTask
    from latentstruct.tasks.detection import Detection, DetectionInput, chosen_boxes
    from latentstruct.tasks.diversity import CandidateDocuments, DiverseSubset
    from latentstruct.tasks.graph.inputs import GraphInput, grid_graph
    from latentstruct.tasks.graph.task import Graph
    from latentstruct.tasks.measure.task import Measure
    from latentstruct.tasks.motif.task import Motif
    from latentstruct.tasks.parsing.task import Parsing
    from latentstruct.tasks.program.inputs import ProgramInput, ProgramOutput
    from latentstruct.tasks.program.task import Program
    from latentstruct.tasks.ranking import PairwiseRanking, PrecisionAtK
    from latentstruct.tasks.semi_markov.task import SemiMarkov

HELPERS = (
    "CandidateDocuments",
    "DetectionInput",
    "GapCosts",
    "GraphInput",
    "ProgramInput",
    "ProgramOutput",
    "TransitionRules",
    "chosen_boxes",
    "grid_graph",
    "tagging_rules",
)
"""Names that are no structures."""
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, HELPERS)
