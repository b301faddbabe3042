"""Structured, latent and marginal losses on scores of PyTorch networks; needs the extra ``torch``."""

from latentstruct.torch.chain import CRF, ChainLoss
from latentstruct.torch.chain_distribution import ChainDistribution, TopK
from latentstruct.torch.rules import TransitionRules, tagging_rules

__all__ = ["CRF", "ChainDistribution", "ChainLoss", "TopK", "TransitionRules", "tagging_rules"]
