"""The parameters of a request, and the chain that they define."""

from .chain import build_chain, takes_grammar, without_takers
from .costs import row_count
from .limits import RequestLimits, limits_of
from .lookups import lookup_of
from .sampling_params import SamplingParams, phases_of
