"""Triton kernels for the chains that decide the speed of a step, token for token equal to the NumPy
backend."""

from .check import repeatable, trusted
from .outcome import Outcome
from .plan import covers, plan_of
from .replay import Replay
from .sampling import FAULTS, Candidates, narrow, sample
from .workspace import Shape, Workspace, bucket

__all__ = [
    "FAULTS",
    "Candidates",
    "Outcome",
    "Replay",
    "Shape",
    "Workspace",
    "bucket",
    "covers",
    "narrow",
    "plan_of",
    "repeatable",
    "sample",
    "trusted",
]
