"""The parameters of a request, and the chain that they define."""

from .chain import build_chain
from .sampling_params import SamplingParams

__all__ = [
    "SamplingParams",
    "build_chain",
]
