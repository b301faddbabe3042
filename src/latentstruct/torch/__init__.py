"""Structured, latent and marginal losses on scores of PyTorch networks; needs the extra ``torch``."""

from latentstruct.torch.alignments import AlignmentDistribution, AlignmentLoss, AlignmentStructure
from latentstruct.torch.chain import CRF, ChainLoss
from latentstruct.torch.chain_distribution import ChainDistribution, TopK
from latentstruct.torch.classes import LatentClassLoss
from latentstruct.torch.exchange import from_chain_model, to_chain_model
from latentstruct.torch.graphs import GraphDistribution, GraphLayout, GraphLoss, GraphStructure
from latentstruct.torch.measures import MeasureLoss
from latentstruct.torch.parts import PartStructure, structured_loss
from latentstruct.torch.programs import ProgramLoss
from latentstruct.torch.trees import ParsingLoss, TreeDistribution, TreeStructure
from latentstruct.torch.viterbi import ViterbiDecoder

__all__ = [
    "CRF",
    "AlignmentDistribution",
    "AlignmentLoss",
    "AlignmentStructure",
    "ChainDistribution",
    "ChainLoss",
    "GraphDistribution",
    "GraphLayout",
    "GraphLoss",
    "GraphStructure",
    "LatentClassLoss",
    "MeasureLoss",
    "ParsingLoss",
    "PartStructure",
    "ProgramLoss",
    "TopK",
    "TreeDistribution",
    "TreeStructure",
    "ViterbiDecoder",
    "from_chain_model",
    "structured_loss",
    "to_chain_model",
]
