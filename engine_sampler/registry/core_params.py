"""The parameters that no sampler, selector or criterion owns: those of the request itself and of structured
output."""

from __future__ import annotations

import itertools
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from ..base.giving_way import unhurried
from ..base.json_text import json_text
from ..contract import Param
from ..contract.values import token_ids, unique_token_ids
from .phase_params import PHASE_PARAMS

LOGPROBS_MODES = ("raw", "penalized", "processed")

MAX_COUNT = 2**31 - 1
"""The greatest count that a parameter accepts."""

MAX_SIBLINGS = 128
"""The default limit on the rows that one request takes, as in OpenAI's API."""

MAX_BEAMS = 32
"""The default limit on the beams of a search: a step of more of them takes tens of milliseconds."""

MAX_LENGTH_PENALTY = 16.0
"""Powers of a length up to this, and their inverses, are numbers, whatever the length."""

MAX_LOGPROBS = 20
"""The default limit on logprobs per token, as in OpenAI's API and in vLLM (`max_logprobs`)."""

MAX_LISTED = 128
"""The default limit on the tokens whose logprobs a request asks for by name, as in vLLM."""

MAX_SAMPLING_MASK = 4096
"""The default limit on the ids that a row of a sampling mask lists, and how many True asks for."""

MAX_GRAMMAR = 2 << 20
"""The default limit on the text of a grammar, in bytes; `engine_sampler.grammar.Limits` bounds the rest."""

MAX_OPTION = 1024
"""The default limit on an option of a grammar, in bytes."""


MAX_DRAFTERS = 8
"""The most drafters of a request."""


def _by_name(*params: Param) -> dict[str, Param]:
    return {param.name: param for param in params}


# --- conversions ---------------------------------------------------------------------------------


def _seed(value: Any) -> int | None:
    number = isinstance(value, (numbers.Integral, float)) and not isinstance(value, bool)
    if not number or not -1 <= value < 2**64 or value % 1:
        raise ValueError("an integer from 0 to 2^64 - 1, or None or -1 for a random seed")
    return None if value == -1 else int(value)


def _modes(value: Any) -> str | tuple[str, ...]:
    modes = (value,) if isinstance(value, str) else _tuple(value)
    if not modes or any(mode not in LOGPROBS_MODES for mode in modes):
        raise ValueError("one of 'raw', 'penalized', 'processed', or a tuple of them")
    return value if isinstance(value, str) else tuple(dict.fromkeys(modes))


def _order(value: Any) -> str | tuple[str | int, ...]:
    names = (value,) if isinstance(value, str) else _tuple(value)
    if any(isinstance(name, bool) or not isinstance(name, (str, int)) for name in names):
        raise ValueError("a named order, or a list of sampler names or of KoboldAI's ids")
    return value if isinstance(value, str) else names


def _mask(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        return MAX_SAMPLING_MASK if value else 0
    if isinstance(value, (int, np.integer)) and -1 <= value <= MAX_COUNT:
        return int(value)
    raise ValueError("True or False, how many ids a row lists at most, or -1 for any number")


def _listed(value: Any) -> tuple[int, ...] | None:
    return unique_token_ids(value) or None


def _listed_by_row(value: Any) -> tuple[tuple[int, ...], ...] | None:
    """A tuple for each row, without the ids −1 that pad it."""
    allowed = "a list of token ids for each row of the prompt, where -1 is none"
    rows = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(rows, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in rows):
        raise TypeError(allowed)
    try:
        listed = iter(token_ids([t for row in unhurried(rows) for t in row if t != -1]))  # a call for all
        return (
            tuple(tuple(itertools.islice(listed, sum(t != -1 for t in row))) for row in unhurried(rows))
            or None
        )
    except TypeError:
        raise TypeError(allowed) from None


def _drafters(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else _tuple(value)
    if len(names) > MAX_DRAFTERS or not all(isinstance(name, str) for name in names):
        raise ValueError(f"the name of a drafter, or a list of at most {MAX_DRAFTERS}")
    return tuple(dict.fromkeys(names))


def _early_stopping(value: Any) -> bool | str:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if value == "never":
        return "never"
    raise ValueError('True, False or "never"')


def _json_text(value: Any) -> str:
    """A JSON document as text, types of Python as their schemas; text is returned unchanged."""
    if isinstance(value, str):
        return value
    if isinstance(value, _DATA) and not isinstance(value, bool):
        raise ValueError("an object, or JSON text")
    try:
        return json_text(value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"an object of JSON values, or JSON text: {error}") from None


_DATA = (bytes, int, float, complex, Sequence, Set, np.generic, np.ndarray)


def _whitespace(value: Any) -> str | int:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise ValueError('"any", "compact", a number of characters, or a regular expression')


def _pattern(value: Any) -> str:
    """A pattern as text; that of a compiled one begins with its flags."""
    if isinstance(value, str):
        return value
    if isinstance(value, re.Pattern):
        from ..base.python_types import pattern_text  # few requests need it

        return pattern_text(value)
    raise TypeError("a string, or None")


def _numbers(value: Any) -> str | int:
    if value == "any" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError('"any", or a number of digits')


def _choices(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        from ..base.python_types import choice_texts  # few requests need it

        value = choice_texts(value)
    choices = tuple(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else ()
    if not choices or not all(isinstance(choice, str) for choice in choices):
        raise ValueError("a list of one or more texts")
    return choices


def _tuple(value: Any) -> tuple[Any, ...]:
    """The entries of a collection; for anything else, one entry that is refused later."""
    return tuple(value) if isinstance(value, Iterable) else (None,)


# --- the parameters ------------------------------------------------------------------------------

STRUCTURED_PARAMS = _by_name(
    Param("json_schema", object, None, convert=_json_text, limit=MAX_GRAMMAR,
          doc="the text is JSON that fits this schema"),
    Param("regex", str, None, convert=_pattern, limit=MAX_GRAMMAR, doc="the whole text matches this pattern"),
    Param("choice", object, None, convert=_choices, limit=MAX_GRAMMAR, doc="the text is one of these"),
    Param("grammar", str, None, limit=MAX_GRAMMAR,
          doc="the text follows this grammar: Lark text, GBNF, or a registered name"),
    Param("json_object", bool, False, doc="the text is a JSON object"),
    Param("structural_tag", object, None, convert=_json_text, limit=MAX_GRAMMAR,
          doc="tool calls and the like in free text"),
)  # fmt: skip
"""The parameters that constrain the text by a grammar; a request gives at most one of them."""

_JSON = ("json_schema", "json_object", "structural_tag")
GRAMMAR_OPTIONS: dict[str, tuple[str, ...]] = {
    "whitespace": _JSON,
    "numbers": _JSON,
    "key_order": ("json_schema", "structural_tag"),
    "unsupported": ("json_schema", "structural_tag"),
    "draft": ("json_schema", "structural_tag"),
    "resources": ("json_schema", "structural_tag"),
    "lexer": ("grammar",),
    "start": ("grammar",),
}
"""The options of structured parameters, each with the parameters that it applies to."""

CORE_PARAMS = _by_name(
    Param("seed", object, None, convert=_seed, doc="64 bits; None or -1: random, and reported"),
    Param("n", int, 1, low=1, high=MAX_COUNT, limit=MAX_SIBLINGS, doc="completions per prompt (add_group)"),
    Param("best_of", int, None, low=1, high=MAX_COUNT, limit=MAX_SIBLINGS,
          doc="completions drawn; the n best are kept"),
    Param("use_beam_search", bool, False, doc="follow the beam_width likeliest texts (add_group)"),
    Param("beam_width", int, None, low=1, high=8192, limit=MAX_BEAMS,
          doc="beams of a beam search; None: best_of, or n"),
    Param("length_penalty", float, 1.0, low=-MAX_LENGTH_PENALTY, high=MAX_LENGTH_PENALTY,
          doc="a beam's score is its logprob / length^length_penalty"),
    Param("early_stopping", object, False, convert=_early_stopping,
          doc='end a beam search once beam_width texts have ended; "never": only when the best is certain'),
    Param("min_keep", int, 0, low=0, high=MAX_COUNT,
          doc="least number of tokens that top_p, min_p, typical_p, tfs and xtc leave"),
    Param("order", object, "llama.cpp", convert=_order, limit=1024,
          doc="a named order or a list of samplers"),
    Param("logprobs", int, None, low=-1, limit=MAX_LOGPROBS, everything=-1,
          doc="logprobs of this many top tokens; 0 chosen only, -1 all"),
    Param("logprobs_mode", object, "raw", convert=_modes, doc="raw, penalized, processed, or several"),
    Param("logprob_token_ids", object, None, convert=_listed, limit=MAX_LISTED,
          doc="tokens whose logprobs and ranks each step reports, beside those of `logprobs`"),
    Param(
        "return_sampling_mask", int, 0, convert=_mask, limit=MAX_SAMPLING_MASK, everything=-1,
        doc="each step reports the tokens it was drawn from; at most this many a row, True: 4,096, -1: all",
    ),
    Param("prompt_logprobs", int, None, low=-1, limit=MAX_LOGPROBS, everything=-1,
          doc="logprobs of this many top tokens for the prompt, by `Scheduler.score_prompt`"),
    Param("prompt_logprob_token_ids", object, None, convert=_listed_by_row,
          doc="for each row of the prompt the tokens that `score_prompt` scores as its next; -1 is none"),
    Param("prompt_logprob_start", int, 0, low=0, high=MAX_COUNT,
          doc="the first row of the prompt that `score_prompt` scores"),
    Param("token_healing", bool, False,
          doc="draw the prompt's last token again, among those that begin with its text"),
    Param("drafter", object, None, convert=_drafters,
          doc="what drafts tokens, in this order (Scheduler.draft): grammar, ngram, or a plugin's"),
    Param("skip_special_tokens", bool, True, doc="leave special tokens out of the text"),
    *STRUCTURED_PARAMS.values(),
    Param("whitespace", object, None, convert=_whitespace, limit=MAX_OPTION,
          doc="in JSON: any, compact, a number or a pattern"),
    Param("numbers", object, None, convert=_numbers,
          doc="in JSON: up to this many digits and plain integers (None: 40), or any"),
    Param("key_order", str, "any", choices=("any", "schema"),
          doc="in JSON: any, or as the schema names them"),
    Param("unsupported", str, "error", choices=("error", "warn", "ignore"),
          doc="what becomes of keywords of a schema that cannot be enforced"),
    Param("draft", str, None, choices=("4", "6", "7", "2019-09", "2020-12"),
          doc="the draft of a JSON Schema without `$schema` (None: 2020-12)"),
    Param("resources", object, None, convert=_json_text, limit=MAX_GRAMMAR,
          doc="schemas by URI, to which a `$ref` of the JSON Schema may lead"),
    Param("lexer", str, "dynamic_complete", choices=("dynamic_complete", "contextual"),
          doc="how the terminals of a Lark grammar are read"),
    Param("start", str, None, limit=MAX_OPTION,
          doc="the rule that derives the whole text; None: start, in GBNF root"),
    *PHASE_PARAMS,
)  # fmt: skip
"""The parameters that belong to no sampler, selector or criterion, by name."""


def structured_in(params: Mapping[str, Any]) -> list[str]:
    """The names of the structured-output parameters that are set in `params`, all of them or those given."""
    return [n for n, param in STRUCTURED_PARAMS.items() if params.get(n, param.neutral) != param.neutral]
