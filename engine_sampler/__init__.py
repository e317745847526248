"""engine_sampler: logits in, tokens out, for many requests at once.

An engine holds a `Scheduler`; `sample` and `process_logits` do without one. A `Grammar` holds a text to a
language. Plugins subclass
`Sampler`, `Truncation`, `Selector`, `StoppingCriteria` or `Backend` and register by `hookimpl`.
"""

from .contract import (
    Backend,
    Example,
    Param,
    ParameterError,
    Sampler,
    Selection,
    Selector,
    StoppingCriteria,
    StopVerdict,
    TextCriteria,
    TextMatch,
    TextMatcher,
    Truncation,
    Vocabulary,
    Watch,
)
from .grammar import Grammar, GrammarError
from .hookspecs import hookimpl
from .logprobs import Logprobs, logprobs
from .params import SamplingParams
from .results import Record, StepResult
from .rows import Rows
from .scheduler import RequestError, Scheduler
from .stateless import Sampled, process_logits, sample
from .tokenizer import Tokenizer

__all__ = [
    "Backend",
    "Example",
    "Grammar",
    "GrammarError",
    "Logprobs",
    "Param",
    "ParameterError",
    "Record",
    "RequestError",
    "Rows",
    "Sampled",
    "Sampler",
    "SamplingParams",
    "Scheduler",
    "Selection",
    "Selector",
    "StepResult",
    "StopVerdict",
    "StoppingCriteria",
    "TextCriteria",
    "TextMatch",
    "TextMatcher",
    "Tokenizer",
    "Truncation",
    "Vocabulary",
    "Watch",
    "hookimpl",
    "logprobs",
    "process_logits",
    "sample",
]
__version__ = "0.1.0"
