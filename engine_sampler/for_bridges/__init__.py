"""For bridges: what packages share that put this library into an engine that runs already, or that read its
requests.

With `engine_sampler`, its `contract`, `stateless` and `arithmetic`, and some names of `for_backends` this is
all that they import of it. Four kinds:

engines         rows that come and go, drafts, grammars as texts, what takes the place of an engine's parts.
tensors         logits and tokens of any library as arrays, and results as its tensors.
request bodies  the keys of other systems' requests, with what becomes of each.
arguments       what a call was given, checked: an error names the argument, its value and what is allowed.
"""

from __future__ import annotations

from ..backends.choose import named_backend
from ..base.arguments import (
    array_of,
    entries_of,
    instance_of,
    integer_of,
    integers_of,
    not_allowed,
    one_of,
    with_attributes,
)
from ..base.calling import guarded
from ..base.errors import tokenizer_given_as
from ..base.packaged import load_functions
from ..grammar.bodies.lazy_grammars import LAZY_KEYS, take_lazy_grammar
from ..grammar.bodies.structured import response_format
from ..grammar.bodies.tools import Function, call_list, chosen_functions, take_tools, tool_calls
from ..grammar.plugin.constraints import constraint_of, matcher_of
from ..params import build_chain, takes_grammar
from ..params.bodies import check_text, mapping, sequence_breakers
from ..params.chain import EDITS
from ..params.costs import check_repeats
from ..params.families import Reasoning
from ..params.families.templates import family_named
from ..params.openai import TRANSPORT, canonical_keys, openai_logprobs, without_transport
from ..params.orders import KOBOLDAI_IDS
from ..params.thinking_keys import MARKS, take_thinking
from ..params.unknown_keys import Unknown, known_only
from ..registry import CORE_PARAMS, GRAMMAR_OPTIONS, MAX_COUNT, STRUCTURED_PARAMS, unknown
from ..requests.called_criteria import CalledCriteria, as_criterion
from ..samplers.penalties import divided, lowered
from ..session import Session
from ..stateless.row_masks import packed
from ..stopping import newest_logprobs
from ..tokenizer import check_tokenizer
from .drafts import ngram_draft, tokens_of_drafts
from .grammar_text import GrammarText, fill_texts, structured_grammar
from .parameters import child_seed_of, parameters_among, params_or_plain, refused_with
from .peers import Peer, PeerError
from .places import PeerPlaces, Signatures, overriding
from .request_body import (
    BodyField,
    banned_ids,
    from_gbnf,
    named_as_sent,
    ordered,
    read_fields,
    read_logit_bias,
    stop_strings,
    switch,
    switched_off,
    synonyms_of,
    with_moving_temperature,
)
from .rows import (
    BridgeSampler,
    EngineRequest,
    follow_slots,
    follow_update,
    processed_by,
    tokens_beside,
    tokens_in_slots,
    within,
)
from .tensors import dtype_name, library_of, like, rows_of_nan, to_numpy, unmoved, why_unreadable

__all__ = [
    "CORE_PARAMS",
    "EDITS",
    "GRAMMAR_OPTIONS",
    "KOBOLDAI_IDS",
    "LAZY_KEYS",
    "MARKS",
    "MAX_COUNT",
    "STRUCTURED_PARAMS",
    "TRANSPORT",
    "BodyField",
    "BridgeSampler",
    "CalledCriteria",
    "EngineRequest",
    "Function",
    "GrammarText",
    "Peer",
    "PeerError",
    "PeerPlaces",
    "Reasoning",
    "Session",
    "Signatures",
    "Unknown",
    "array_of",
    "as_criterion",
    "banned_ids",
    "build_chain",
    "call_list",
    "canonical_keys",
    "check_repeats",
    "check_text",
    "check_tokenizer",
    "child_seed_of",
    "chosen_functions",
    "constraint_of",
    "divided",
    "dtype_name",
    "entries_of",
    "family_named",
    "fill_texts",
    "follow_slots",
    "follow_update",
    "from_gbnf",
    "guarded",
    "instance_of",
    "integer_of",
    "integers_of",
    "known_only",
    "library_of",
    "like",
    "load_functions",
    "lowered",
    "mapping",
    "matcher_of",
    "named_as_sent",
    "named_backend",
    "newest_logprobs",
    "ngram_draft",
    "not_allowed",
    "one_of",
    "openai_logprobs",
    "ordered",
    "overriding",
    "packed",
    "parameters_among",
    "params_or_plain",
    "processed_by",
    "read_fields",
    "read_logit_bias",
    "refused_with",
    "response_format",
    "rows_of_nan",
    "sequence_breakers",
    "stop_strings",
    "structured_grammar",
    "switch",
    "switched_off",
    "synonyms_of",
    "take_lazy_grammar",
    "take_thinking",
    "take_tools",
    "takes_grammar",
    "to_numpy",
    "tokenizer_given_as",
    "tokens_beside",
    "tokens_in_slots",
    "tokens_of_drafts",
    "tool_calls",
    "unknown",
    "unmoved",
    "why_unreadable",
    "with_attributes",
    "with_moving_temperature",
    "within",
    "without_transport",
]
