"""engine_sampler: logits in, tokens out, for many requests at once.

An engine owns a `Scheduler`; `sample` and `process_logits` work without one. A `Grammar` constrains a text to
a language. Plugins subclass `Sampler`, `Truncation`, `Selector`, `StoppingCriteria` or `Backend` and register
with `hookimpl`; they need only this package and `engine_sampler.arithmetic`.
"""

from .arithmetic import Logprobs
from .contract import (
    LOGPROBS_KINDS,
    Backend,
    Batch,
    Chain,
    Example,
    Group,
    LogprobsRequest,
    Matcher,
    Param,
    ParameterError,
    Rows,
    Sampler,
    Selection,
    Selector,
    SlotEntry,
    SlotTable,
    Stateful,
    StoppingCriteria,
    StopVerdict,
    TextCriteria,
    TextMatch,
    TextMatcher,
    TextState,
    Truncation,
    Vocabulary,
    Watch,
    allocate_bitmask,
    bitmask_words,
    checked_bitmask,
    flags_like,
    hookimpl,
    token_rows,
    unpack_bitmask,
)
from .grammar import Grammar, GrammarError
from .params import SamplingParams
from .scheduler import Record, RequestError, Scheduler, StepResult
from .stateless import Sampled, logprobs, process_logits, sample
from .tokenizer import Tokenizer

__all__ = [
    "LOGPROBS_KINDS",
    "Backend",
    "Batch",
    "Chain",
    "Example",
    "Grammar",
    "GrammarError",
    "Group",
    "Logprobs",
    "LogprobsRequest",
    "Matcher",
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
    "SlotEntry",
    "SlotTable",
    "Stateful",
    "StepResult",
    "StopVerdict",
    "StoppingCriteria",
    "TextCriteria",
    "TextMatch",
    "TextMatcher",
    "TextState",
    "Tokenizer",
    "Truncation",
    "Vocabulary",
    "Watch",
    "allocate_bitmask",
    "bitmask_words",
    "checked_bitmask",
    "flags_like",
    "hookimpl",
    "logprobs",
    "process_logits",
    "sample",
    "token_rows",
    "unpack_bitmask",
]
__version__ = "0.1.0"
