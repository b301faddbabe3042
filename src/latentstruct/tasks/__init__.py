"""Structures: one module or folder each; the names in the first table are public names of `latentstruct`."""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
    from latentstruct.tasks.alignment.task import Alignment as Alignment
    from latentstruct.tasks.alignment.task import GapCosts as GapCosts
    from latentstruct.tasks.chain.task import Chain as Chain
    from latentstruct.tasks.classes.latent_multiclass import LatentMulticlass as LatentMulticlass
    from latentstruct.tasks.classes.multiclass import Multiclass as Multiclass
    from latentstruct.tasks.clustering import Coreference as Coreference
    from latentstruct.tasks.clustering import CorrelationClustering as CorrelationClustering
    from latentstruct.tasks.custom.candidates import CandidateTask as CandidateTask
    from latentstruct.tasks.custom.examples import ExampleTask as ExampleTask
    from latentstruct.tasks.custom.parts import PartsTask as PartsTask
    from latentstruct.tasks.detection import Detection as Detection
    from latentstruct.tasks.detection import DetectionInput as DetectionInput
    from latentstruct.tasks.detection import chosen_boxes as chosen_boxes
    from latentstruct.tasks.diversity import CandidateDocuments as CandidateDocuments
    from latentstruct.tasks.diversity import DiverseSubset as DiverseSubset
    from latentstruct.tasks.graph.inputs import GraphInput as GraphInput
    from latentstruct.tasks.graph.inputs import grid_graph as grid_graph
    from latentstruct.tasks.graph.task import Graph as Graph
    from latentstruct.tasks.measure.task import Measure as Measure
    from latentstruct.tasks.motif.task import Motif as Motif
    from latentstruct.tasks.parsing.task import Parsing as Parsing
    from latentstruct.tasks.program.inputs import ProgramInput as ProgramInput
    from latentstruct.tasks.program.inputs import ProgramOutput as ProgramOutput
    from latentstruct.tasks.program.task import Program as Program
    from latentstruct.tasks.ranking import PairwiseRanking as PairwiseRanking
    from latentstruct.tasks.ranking import PrecisionAtK as PrecisionAtK
    from latentstruct.tasks.semi_markov.task import SemiMarkov as SemiMarkov

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "alignment.task": ("Alignment",),
        "chain.task": ("Chain",),
        "classes.latent_multiclass": ("LatentMulticlass",),
        "classes.multiclass": ("Multiclass",),
        "clustering": ("Coreference", "CorrelationClustering"),
        "custom.candidates": ("CandidateTask",),
        "custom.examples": ("ExampleTask",),
        "custom.parts": ("PartsTask",),
        "detection": ("Detection",),
        "diversity": ("DiverseSubset",),
        "graph.task": ("Graph",),
        "measure.task": ("Measure",),
        "motif.task": ("Motif",),
        "parsing.task": ("Parsing",),
        "program.task": ("Program",),
        "ranking": ("PairwiseRanking", "PrecisionAtK"),
        "semi_markov.task": ("SemiMarkov",),
    },
    {
        "alignment.task": ("GapCosts",),
        "detection": ("DetectionInput", "chosen_boxes"),
        "diversity": ("CandidateDocuments",),
        "graph.inputs": ("GraphInput", "grid_graph"),
        "program.inputs": ("ProgramInput", "ProgramOutput"),
    },
)
