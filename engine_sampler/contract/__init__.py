"""What plugins import: the classes that they subclass, `Sampler`, `Truncation`, `Selector`,
`StoppingCriteria`, `TextCriteria`, `Backend`,
`BytewiseLanguage`, `ConstraintReader` and `Drafter`, and `hookimpl`, which registers them.

This package imports only the arithmetic and the tokenizer below it, so a plugin can be read, typed and tested
against it alone. A sampler maps rows of logits to rows of logits; a selector ends the chain by choosing one
token per row; a stopping criterion ends a request; a backend runs whole chains; a drafter guesses tokens.
"""

from ..base.errors import BackendError, ParameterError
from .backends import LOGPROBS_KINDS, Backend, Batch, Group, LogprobsRequest, NoTokenLeft, PreparedMasks
from .bytewise import BytewiseLanguage
from .chains import Chain
from .constraints import AnswerParser, Compiled, ConstraintError, ConstraintReader
from .deferred import DeferredBackend
from .draft_trees import fill_tree_bitmask
from .drafters import DraftedText, Drafter
from .hookspecs import hookimpl
from .matchers import (
    BoundedMatcher,
    Matcher,
    allocate_bitmask,
    allows,
    bitmask_words,
    checked_bitmask,
    is_bounded,
    unpack_bitmask,
)
from .observers import GrammarMeasures, StepMeasures
from .params import Param
from .rows import Rows
from .samplers import Example, Sampler, Selection, Selector, Stateful, Truncation
from .slots import LookAhead, SlotEntry, SlotTable
from .stopping import (
    StoppingCriteria,
    StopVerdict,
    TextCriteria,
    TextMatch,
    TextMatcher,
    TextState,
    TokenLogprob,
    Watch,
    flags_like,
    token_rows,
)
from .vocabulary import Vocabulary
from .work import UnfinishedError, Work, spending

__all__ = [
    "LOGPROBS_KINDS",
    "AnswerParser",
    "Backend",
    "BackendError",
    "Batch",
    "BoundedMatcher",
    "BytewiseLanguage",
    "Chain",
    "Compiled",
    "ConstraintError",
    "ConstraintReader",
    "DeferredBackend",
    "DraftedText",
    "Drafter",
    "Example",
    "GrammarMeasures",
    "Group",
    "LogprobsRequest",
    "LookAhead",
    "Matcher",
    "NoTokenLeft",
    "Param",
    "ParameterError",
    "PreparedMasks",
    "Rows",
    "Sampler",
    "Selection",
    "Selector",
    "SlotEntry",
    "SlotTable",
    "Stateful",
    "StepMeasures",
    "StopVerdict",
    "StoppingCriteria",
    "TextCriteria",
    "TextMatch",
    "TextMatcher",
    "TextState",
    "TokenLogprob",
    "Truncation",
    "UnfinishedError",
    "Vocabulary",
    "Watch",
    "Work",
    "allocate_bitmask",
    "allows",
    "bitmask_words",
    "checked_bitmask",
    "fill_tree_bitmask",
    "flags_like",
    "hookimpl",
    "is_bounded",
    "spending",
    "token_rows",
    "unpack_bitmask",
]
