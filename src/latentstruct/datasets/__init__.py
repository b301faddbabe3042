"""Loaders of data sets from a local folder."""

from latentstruct.datasets.home import data_home
from latentstruct.datasets.images import (
    Mnist,
    Msrc,
    OcrLetters,
    Photographs,
    Snakes,
    load_mammals,
    load_mnist,
    load_msrc,
    load_msrc_animals,
    load_ocr_letters,
    load_snakes,
)
from latentstruct.datasets.samples import (
    Reuters,
    SplitSamples,
    load_adult,
    load_letor_mq2008,
    load_optdigits,
    load_reuters,
)
from latentstruct.datasets.sequences import (
    PlantedMotif,
    Prefab,
    UciPromoters,
    YeastArs,
    load_prefab,
    load_uci_promoters,
    load_yeast_ars,
    make_planted_motif,
)
from latentstruct.datasets.texts import CessEsp, Conll2000, load_cess_esp, load_conll2000, load_litbank

__all__ = [
    "CessEsp",
    "Conll2000",
    "Mnist",
    "Msrc",
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
    "make_planted_motif",
]
