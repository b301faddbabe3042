"""Loaders of real data sets from a folder of the user's, and generators of simulated ones."""

from latentstruct.datasets.binary import SplitSamples, load_adult, load_optdigits
from latentstruct.datasets.cess import CessEsp, load_cess_esp
from latentstruct.datasets.conll2000 import Conll2000, load_conll2000
from latentstruct.datasets.home import data_home
from latentstruct.datasets.letor import load_letor_mq2008
from latentstruct.datasets.litbank import load_litbank
from latentstruct.datasets.mnist import Mnist, load_mnist
from latentstruct.datasets.msrc import Msrc, load_msrc
from latentstruct.datasets.ocr_letters import OcrLetters, load_ocr_letters
from latentstruct.datasets.photographs import Photographs, load_mammals, load_msrc_animals
from latentstruct.datasets.planted import PlantedMotif, make_planted_motif
from latentstruct.datasets.prefab import Prefab, load_prefab
from latentstruct.datasets.reuters import Reuters, load_reuters
from latentstruct.datasets.simulated import (
    FieldWeights,
    HiddenField,
    NoisyImages,
    make_hidden_field,
    make_noisy_images,
)
from latentstruct.datasets.snakes import Snakes, load_snakes
from latentstruct.datasets.uci_promoters import UciPromoters, load_uci_promoters
from latentstruct.datasets.yeast_ars import YeastArs, load_yeast_ars

__all__ = [
    "CessEsp",
    "Conll2000",
    "FieldWeights",
    "HiddenField",
    "Mnist",
    "Msrc",
    "NoisyImages",
    "OcrLetters",
    "Photographs",
    "PlantedMotif",
    "Prefab",
    "Reuters",
    "Snakes",
    "SplitSamples",
    "UciPromoters",
    "YeastArs",
    "data_home",
    "load_adult",
    "load_cess_esp",
    "load_conll2000",
    "load_letor_mq2008",
    "load_litbank",
    "load_mammals",
    "load_mnist",
    "load_msrc",
    "load_msrc_animals",
    "load_ocr_letters",
    "load_optdigits",
    "load_prefab",
    "load_reuters",
    "load_snakes",
    "load_uci_promoters",
    "load_yeast_ars",
    "make_hidden_field",
    "make_noisy_images",
    "make_planted_motif",
]
