"""Loaders of real data sets from a folder of the user's."""

from latentstruct.datasets.conll2000 import Conll2000, load_conll2000
from latentstruct.datasets.home import data_home
from latentstruct.datasets.ocr_letters import OcrLetters, load_ocr_letters

__all__ = ["Conll2000", "OcrLetters", "data_home", "load_conll2000", "load_ocr_letters"]
