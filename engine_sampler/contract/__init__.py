"""The classes that plugins subclass: `Sampler`, `Truncation`, `Selector`, `StoppingCriteria`, `TextCriteria`
and `Backend`.

This package imports only the arithmetic and the tokenizer below it, so a plugin can be read, typed and tested
against it alone. A sampler maps rows of logits to rows of logits; a selector ends the chain by choosing one
token per row; a stopping criterion ends a request; a backend runs whole chains.

Plugins import these names from `engine_sampler`, which exports them.
"""

from .backends import LOGPROBS_KINDS, Backend, Batch, Group, LogprobsRequest, PreparedMasks
from .chains import Chain
from .courtesy import begin_step, end_step, give_way, in_slices, unhurried
from .errors import (
    INTERRUPTIONS,
    BackendError,
    ParameterError,
    PluginFault,
    call_for_add,
    call_plugin,
    check_hashable,
    close_matches,
    failure,
    guarded,
    quoted,
)
from .forking import fork_safe
from .hookspecs import hookimpl
from .matchers import Matcher, allocate_bitmask, allows, bitmask_words, checked_bitmask, unpack_bitmask
from .observers import GrammarMeasures, StepMeasures
from .params import Param
from .rows import Rows, padded
from .samplers import (
    PLUGIN_API,
    Example,
    Role,
    Sampler,
    Selection,
    Selector,
    State,
    Stateful,
    Truncation,
    array_from,
    described,
)
from .slots import SlotEntry, SlotTable
from .stopping import (
    StoppingCriteria,
    StopVerdict,
    TextCriteria,
    TextMatch,
    TextMatcher,
    TextState,
    Watch,
    flags_like,
    token_rows,
)
from .vocabulary import Vocabulary

__all__ = [
    "INTERRUPTIONS",
    "LOGPROBS_KINDS",
    "PLUGIN_API",
    "Backend",
    "BackendError",
    "Batch",
    "Chain",
    "Example",
    "GrammarMeasures",
    "Group",
    "LogprobsRequest",
    "Matcher",
    "Param",
    "ParameterError",
    "PluginFault",
    "PreparedMasks",
    "Role",
    "Rows",
    "Sampler",
    "Selection",
    "Selector",
    "SlotEntry",
    "SlotTable",
    "State",
    "Stateful",
    "StepMeasures",
    "StopVerdict",
    "StoppingCriteria",
    "TextCriteria",
    "TextMatch",
    "TextMatcher",
    "TextState",
    "Truncation",
    "Vocabulary",
    "Watch",
    "allocate_bitmask",
    "allows",
    "array_from",
    "begin_step",
    "bitmask_words",
    "call_for_add",
    "call_plugin",
    "check_hashable",
    "checked_bitmask",
    "close_matches",
    "described",
    "end_step",
    "failure",
    "flags_like",
    "fork_safe",
    "give_way",
    "guarded",
    "hookimpl",
    "in_slices",
    "padded",
    "quoted",
    "token_rows",
    "unhurried",
    "unpack_bitmask",
]
