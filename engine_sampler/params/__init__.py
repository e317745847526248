"""The parameters of a request, and the chain that they define."""

from .chain import build_chain
from .lookups import lookup_of
from .sampling_params import SamplingParams

__all__ = [
    "SamplingParams",
    "build_chain",
    "lookup_of",
]
