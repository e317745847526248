"""The parameters of a request, and the chain that they define."""

from .chain import build_chain, takes_grammar, without_takers
from .costs import row_count
from .limits import RequestLimits, limits_of
from .lookups import lookup_of
from .sampling_params import SamplingParams, phases_of

__all__ = [
    "RequestLimits",
    "SamplingParams",
    "build_chain",
    "limits_of",
    "lookup_of",
    "phases_of",
    "row_count",
    "takes_grammar",
    "without_takers",
]
