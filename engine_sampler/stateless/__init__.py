"""Rows of logits without a scheduler of one's own: single calls, and the rows of an engine that keeps its
requests itself."""

from ..requests.results import ResultTensors
from .row_logprobs import LogprobsTable
from .row_masks import apply_bitmask, fill_bitmasks
from .row_sampler import RowResult, RowSampler
from .sampling import Sampled, process_logits, sample
from .scoring import logprobs

__all__ = [
    "LogprobsTable",
    "ResultTensors",
    "RowResult",
    "RowSampler",
    "Sampled",
    "apply_bitmask",
    "fill_bitmasks",
    "logprobs",
    "process_logits",
    "sample",
]
