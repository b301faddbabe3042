"""Structured, latent and marginal losses on scores of PyTorch networks; needs the extra ``torch``."""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import lazy_names

if TYPE_CHECKING:
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

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
