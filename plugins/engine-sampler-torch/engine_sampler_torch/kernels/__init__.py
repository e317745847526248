"""Triton kernels for the chains that decide the speed of a step, token for token equal to the NumPy
backend."""

from .check import trusted
from .plan import covers, plan_of
from .sampling import FAULTS, Candidates, Outcome, narrow, sample
from .workspace import Shape, Workspace, bucket

__all__ = [
    "FAULTS",
    "Candidates",
    "Outcome",
    "Shape",
    "Workspace",
    "bucket",
    "covers",
    "narrow",
    "plan_of",
    "sample",
    "trusted",
]
