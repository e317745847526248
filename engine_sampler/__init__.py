"""engine_sampler: logits in, tokens out, for many requests at once.

An engine holds a `Scheduler`; `sample` and `process_logits` do without one. A `Grammar` holds a text to a
language. Plugins subclass
`Sampler`, `Truncation`, `Selector`, `StoppingCriteria` or `Backend` and register by `hookimpl`.
"""

from .arithmetic import Logprobs
from .contract import (
    Backend,
    Example,
    Param,
    ParameterError,
    Rows,
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
    hookimpl,
)
from .grammar import Grammar, GrammarError
from .params import SamplingParams
from .scheduler import Record, RequestError, Scheduler, StepResult
from .stateless import Sampled, logprobs, process_logits, sample
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
