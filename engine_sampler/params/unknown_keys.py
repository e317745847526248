"""Keys of request bodies that this library does not read: errors, unless they ask for nothing."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from ..base.arguments import one_of
from ..base.errors import quoted
from ..contract import ParameterError
from ..registry import default_registry
from ..registry import unknown as unknown_name

logger = logging.getLogger("engine_sampler")

Unknown = Literal["error", "log", "ignore"]
"""What becomes of unknown keys: an error, a line in the log for each key and process, or nothing."""

MAX_NAMED = 100
"""How many unknown keys the log of a process names: clients choose them."""

UNSUPPORTED: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "guidance compares two forward passes, which are the engine's": {"guidance_scale": (1,)},
    "contrastive search reads hidden states, which are the engine's": {"penalty_alpha": (0,)},
    "p_less squares the probabilities": {"p_less_exponent": (2,)},
    "use_beam_search and beam_width ask for a beam search": {"num_beams": (1,), "beam_width_array": ([],)},
    "beams of a search do not compete for diversity": {"beam_search_diversity_rate": (0,)},
    "temperature=0 is greedy": {"do_sample": (True,)},
    "dynatemp_range says how far the temperature moves": {
        "dynamic_temperature": (False,),
        "dynatemp_low": (1,),
        "dynatemp_high": (1,),
    },
    "order places the temperature": {"temperature_last": (False,), "sampler_priority": ([], "")},
    "mirostat is its name here": {"mirostat_mode": (0,)},
    "repetition_penalty_slope is its name here": {"rep_pen_slope": (1, 0)},
    "suppress_tokens removes tokens": {"custom_token_bans": ("", [])},
    "logit_bias is its name here": {"embedding_bias": ([],)},
    "(?i:…) in a pattern ignores case": {"banned_regex_case_insensitive": ([],)},
    "how often bans rewind is fixed": {
        "banned_n": (1,),
        "rewind_count_max": (-1,),
        "banbuffer_size": (0,),
    },
    "prompts are read by the engine": {"auto_max_new_tokens": (False,)},
    "penalties count the whole prompt or, by penalty_scope, none of it": {"prompt_ignore_length": (0,)},
    "deepconf_threshold turns DeepConf on": {"enable_deepconf": (False,)},
    "penalty_decay_range is its name here": {"repetition_decay": (0,)},
    "EOS tokens are the tokenizer's; stop_token_ids end a text, too": {"end_id": (-1,)},
    "code of clients is not run": {
        "custom_logit_processor": ("",),
        "logits_processor": ([],),
        "apply_batched_logits_processor": (False,),
    },
    "EOS ends a text unless ignore_eos keeps it from coming": {"bypass_eos": (False,)},
    "presets are the server's": {"preset": ("",)},
    "DRY looks at all repeats": {
        "dry_max_ngram": (12,),
        "dry_max_occurrences": (8,),
        "dry_early_exit_match_len": (8,),
    },
    "SGLang fills it in": {
        "is_normalized": (False,),
        "stop_strs": ([],),
        "stop_regex_strs": ([],),
        "stop_str_max_len": (0,),
        "stop_regex_max_len": (0,),
        "ebnf_full_assistant": (False,),
    },
    "a grammar begins anew with each request": {"grammar_retain_state": (False,)},
    "the server edits the text": {
        "frmttriminc": (False,),
        "frmtrmblln": (False,),
        "frmtrmspch": (False,),
    },
    "the server sets watermarks, with engine-sampler-watermark": {
        "watermark": (False, {}),
        "watermarking": (False,),
    },
    "prompt_logprob_start is its name here": {"logprob_start_len": (-1,)},
    "logprobs_mode chooses them": {"sampling_logprobs_mode": ("selected",)},
}
"""Features that this library lacks, by the reason: their keys in requests of other systems, and the values
with which they ask for nothing. Only asked for keys that are unknown: what is registered is read."""

NEUTRAL = {key: values for keys in UNSUPPORTED.values() for key, values in keys.items()}
"""The values of these keys that ask for nothing."""

REASONS = {key: reason for reason, keys in UNSUPPORTED.items() for key in keys}
"""Why other values of these keys are refused."""

_PLAIN = (bool, int, float, str, list, dict)
_named: set[str] = set()
"""What the log of this process has named."""


def known_only(body: Mapping[str, Any], known: Collection[str], unknown: Unknown = "error") -> dict[str, Any]:
    """`body` without the keys that are neither in `known` nor names of parameters.

    unknown  "error": `ParameterError` for the first of them, with near matches; "log": a line in the log for
             each key and process, of at most `MAX_NAMED` keys; "ignore": nothing

    A key of a feature that this library lacks is left out in any case if its value asks for nothing.
    """
    one_of(get_args(Unknown), "unknown", unknown)
    parameters = default_registry().catalogue.params
    read: dict[str, Any] = {}
    for key, value in body.items():
        if key in parameters or key in known:
            read[key] = value
        elif not asks_for_nothing(key, value):
            _meet(key, value, known, unknown)
    return read


def asks_for_nothing(key: str, value: Any) -> bool:
    """Whether this value of a feature that this library lacks switches it off."""
    return key in NEUTRAL and isinstance(value, _PLAIN) and value in NEUTRAL[key]


def not_supported(key: str, value: Any) -> ParameterError:
    """The error for a feature that this library lacks."""
    allowed = f"it may be {NEUTRAL[key][0]!r} or left out"
    return ParameterError(f"{key}={quoted(value)} is not supported: {REASONS[key]}; {allowed}")


def _meet(key: str, value: Any, known: Collection[str], unknown: Unknown) -> None:
    if unknown == "error":
        raise not_supported(key, value) if key in NEUTRAL else unknown_name(key, known)
    shown = quoted(key)
    if unknown == "log" and shown not in _named and len(_named) < MAX_NAMED:
        _named.add(shown)
        last = "; further keys are not named" if len(_named) == MAX_NAMED else ""
        logger.warning("%s in the body of a request is unknown and has no effect%s", shown, last)
