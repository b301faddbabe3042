"""Structures: one module each."""

from latentstruct.tasks.base import CandidateTask, ExampleTask
from latentstruct.tasks.chain import Chain
from latentstruct.tasks.multiclass import Multiclass

__all__ = ["CandidateTask", "Chain", "ExampleTask", "Multiclass"]
