"""Synthetic data sets, whose latent values are known."""

from latentstruct.datasets.motifs import PlantedMotif, make_planted_motif

__all__ = ["PlantedMotif", "make_planted_motif"]
