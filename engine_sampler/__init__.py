"""engine_sampler: logits in, tokens out, for many requests at once.

What an engine holds: it owns a `Scheduler`; `sample`, `process_logits` and `RowSampler` work without one,
and a `Grammar` constrains a text to a language. Plugins subclass what `engine_sampler.contract` has; the kits
that prove them are in `engine_sampler.testing`.
"""

from typing import TYPE_CHECKING

from .arithmetic import GivenLogprobs, Logprobs
from .base.cached import lazy_names
from .contract import BackendError, ParameterError, UnfinishedError
from .params import RequestLimits, SamplingParams
from .scheduler import BegunStep, PromptScores, Record, RequestError, SamplingMask, Scheduler, StepResult
from .stateless import RowResult, RowSampler, Sampled, logprobs, process_logits, sample
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .grammar import Grammar, GrammarError

__all__ = [
    "BackendError",
    "BegunStep",
    "GivenLogprobs",
    "Grammar",
    "GrammarError",
    "Logprobs",
    "ParameterError",
    "PromptScores",
    "Record",
    "RequestError",
    "RequestLimits",
    "RowResult",
    "RowSampler",
    "Sampled",
    "SamplingMask",
    "SamplingParams",
    "Scheduler",
    "StepResult",
    "Tokenizer",
    "UnfinishedError",
    "logprobs",
    "process_logits",
    "sample",
]
__version__ = "0.1.0"

# What the core does without.
__getattr__ = lazy_names(__name__, {".grammar": "Grammar GrammarError"})
