"""Sequences divided into labeled segments."""

from latentstruct.tasks.semi_markov.task import SemiMarkov as SemiMarkov
