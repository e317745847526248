"""engine_sampler: logits in, tokens out, for many requests at once.

An engine owns a `Scheduler`; `sample` and `process_logits` work without one. A `Grammar` constrains a text to
a language. Plugins subclass `Sampler`, `Truncation`, `Selector`, `StoppingCriteria` or `Backend` and register
with `hookimpl`; they need only this package and `engine_sampler.arithmetic`.
"""

from typing import TYPE_CHECKING

from .arithmetic import Logprobs, OnStream
from .base.lazy import lazy_names
from .contract import (
    LOGPROBS_KINDS,
    AnswerParser,
    Backend,
    BackendError,
    Batch,
    BoundedMatcher,
    Chain,
    Compiled,
    ConstraintError,
    ConstraintReader,
    DeferredBackend,
    Example,
    GrammarMeasures,
    Group,
    LogprobsRequest,
    LookAhead,
    Matcher,
    Param,
    ParameterError,
    PreparedMasks,
    Rows,
    Sampler,
    Selection,
    Selector,
    SlotEntry,
    SlotTable,
    Stateful,
    StepMeasures,
    StoppingCriteria,
    StopVerdict,
    TextCriteria,
    TextMatch,
    TextMatcher,
    TextState,
    Truncation,
    UnfinishedError,
    Vocabulary,
    Watch,
    Work,
    allocate_bitmask,
    allows,
    bitmask_words,
    checked_bitmask,
    flags_like,
    hookimpl,
    is_bounded,
    spending,
    token_rows,
    unpack_bitmask,
)
from .params import RequestLimits, SamplingParams
from .requests.results import ResultTensors
from .scheduler import BegunStep, Record, RequestError, Scheduler, StepResult
from .stateless import (
    LogprobsTable,
    RowResult,
    RowSampler,
    Sampled,
    apply_bitmask,
    fill_bitmasks,
    logprobs,
    process_logits,
    sample,
)
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .backends.library import LibraryBackend
    from .grammar import Grammar, GrammarError

__all__ = [
    "LOGPROBS_KINDS",
    "AnswerParser",
    "Backend",
    "BackendError",
    "Batch",
    "BegunStep",
    "BoundedMatcher",
    "Chain",
    "Compiled",
    "ConstraintError",
    "ConstraintReader",
    "DeferredBackend",
    "Example",
    "Grammar",
    "GrammarError",
    "GrammarMeasures",
    "Group",
    "LibraryBackend",
    "Logprobs",
    "LogprobsRequest",
    "LogprobsTable",
    "LookAhead",
    "Matcher",
    "OnStream",
    "Param",
    "ParameterError",
    "PreparedMasks",
    "Record",
    "RequestError",
    "RequestLimits",
    "ResultTensors",
    "RowResult",
    "RowSampler",
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
    "StepMeasures",
    "StepResult",
    "StopVerdict",
    "StoppingCriteria",
    "TextCriteria",
    "TextMatch",
    "TextMatcher",
    "TextState",
    "Tokenizer",
    "Truncation",
    "UnfinishedError",
    "Vocabulary",
    "Watch",
    "Work",
    "allocate_bitmask",
    "allows",
    "apply_bitmask",
    "bitmask_words",
    "checked_bitmask",
    "fill_bitmasks",
    "flags_like",
    "hookimpl",
    "is_bounded",
    "logprobs",
    "process_logits",
    "sample",
    "spending",
    "token_rows",
    "unpack_bitmask",
]
__version__ = "0.1.0"

# What loads cffi, and what the core does without.
__getattr__ = lazy_names(
    __name__, {".backends.library": "LibraryBackend", ".grammar": "Grammar GrammarError"}
)
