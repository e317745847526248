"""Triton kernels for the chains that decide the speed of a step, token for token equal to the NumPy
backend."""

from .check import trusted
from .plan import covers
from .sampling import FAULTS, Candidates, Outcome, narrow, sample
from .workspace import Shape, Workspace

__all__ = ["FAULTS", "Candidates", "Outcome", "Shape", "Workspace", "covers", "narrow", "sample", "trusted"]
