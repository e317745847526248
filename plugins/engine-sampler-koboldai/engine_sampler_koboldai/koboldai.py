"""The keys of KoboldAI's API (/api/v1/generate), which koboldcpp shares, and what becomes of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine_sampler import ParameterError, Tokenizer
from engine_sampler.for_backends import quoted
from engine_sampler.for_bridges import (
    KOBOLDAI_IDS,
    MAX_COUNT,
    BodyField,
    Unknown,
    banned_ids,
    canonical_keys,
    check_text,
    from_gbnf,
    known_only,
    mapping,
    openai_logprobs,
    read_fields,
    read_logit_bias,
    sequence_breakers,
    stop_strings,
    switch,
    switched_off,
    synonyms_of,
    with_moving_temperature,
    without_transport,
)
from engine_sampler.for_bridges import TRANSPORT as OPENAI_TRANSPORT

TRANSPORT = OPENAI_TRANSPORT | frozenset(
    "use_story use_memory use_authors_note use_world_info use_userscripts soft_prompt max_context_length "
    "disable_input_formatting disable_output_formatting frmtadsnsp quiet sampler_full_determinism memory "
    "images audio genkey adapter tools tool_choice functions function_call "
    "using_openai_tools replace_instruct_placeholders".split()
)
"""Keys with no effect on the choice of tokens."""

_ANY = math.inf
FIELDS: Mapping[str, BodyField] = {
    "temperature": BodyField("temperature", 1.0),
    "dynatemp_range": BodyField("dynatemp_range", 0.0, (0, _ANY)),
    "dynatemp_exponent": BodyField("dynatemp_exponent", 1.0, (0, _ANY)),
    "smoothing_factor": BodyField("smoothing_factor", 0.0, (0, _ANY)),
    "smoothing_curve": BodyField("smoothing_curve", 1.0),
    "top_k": BodyField("top_k", 0, (0, MAX_COUNT)),
    "top_a": BodyField("top_a", 0.0, (0, _ANY)),
    "top_p": BodyField("top_p", 1.0, (0, 1)),
    "tfs": BodyField("tfs", 1.0, (0, 1)),
    "typical": BodyField("typical_p", 1.0, (0, 1)),
    "min_p": BodyField("min_p", 0.0, (0, 1)),
    "nsigma": BodyField("top_n_sigma", 0.0, (0, _ANY)),
    "xtc_probability": BodyField("xtc_probability", 0.0, (0, 1)),
    "xtc_threshold": BodyField("xtc_threshold", 0.2, (0, 1)),
    "rep_pen": BodyField("repetition_penalty", 1.0),
    "rep_pen_range": BodyField("penalty_last_n", 0),
    "rep_pen_slope": BodyField("repetition_penalty_slope", 0.0),
    "presence_penalty": BodyField("presence_penalty", 0.0),
    "dry_multiplier": BodyField("dry_multiplier", 0.0, (0, _ANY)),
    "dry_base": BodyField("dry_base", 1.75),
    "dry_allowed_length": BodyField("dry_allowed_length", 2),
    "dry_penalty_last_n": BodyField("dry_penalty_last_n", 320),
    "dry_sequence_breakers": BodyField("dry_sequence_breakers", ()),
    "mirostat": BodyField("mirostat", 0),
    "mirostat_tau": BodyField("mirostat_tau", 5.0),
    "mirostat_eta": BodyField("mirostat_eta", 0.1),
    "adaptive_target": BodyField("adaptive_target", -1.0, (-1, 1)),
    "adaptive_decay": BodyField("adaptive_decay", 0.9, (0.01, 0.99)),
    "ban_eos_token": BodyField("ignore_eos", False),
    "sampler_seed": BodyField("seed", -1),
    "n": BodyField("n", 1),
    "max_length": BodyField("max_tokens"),
}
"""The parameters, with their neutral values and limits."""

RENAMED = {
    **synonyms_of({*FIELDS, "stop_sequence"}),
    **dict.fromkeys(("max_tokens", "max_new_tokens", "n_predict", "num_predict"), "max_length"),
    "repetition_penalty_range": "rep_pen_range",
    "repetition_penalty_slope": "rep_pen_slope",
    "order": "sampler_order",
}
"""Aliases of keys: koboldcpp's names, front ends', and ours."""

RANGES: Mapping[str, tuple[float, float]] = {
    "rep_pen": (1, _ANY),
    **dict.fromkeys(("rep_pen_range", "rep_pen_slope", "top_k", "top_a"), (0, _ANY)),
    **dict.fromkeys(("top_p", "tfs", "typical"), (0, 1)),
}
"""The values that KoboldAI takes: it answers others with status 422, where koboldcpp takes the nearest."""

_CPP_TEMPERATURE = BodyField("temperature", limits=(0, _ANY))

KOBOLDCPP: Mapping[str, Any] = {
    "temperature": 0.75,
    "top_k": 100,
    "top_p": 0.92,
    "rep_pen_range": 320,
    "rep_pen_slope": 1.0,
    "sampler_order": (6, 0, 1, 3, 4, 2, 5),
    "trim_stop": True,
}
"""koboldcpp's defaults that are not neutral."""

SPECIAL = ("sampler_order", "stop_sequence", "trim_stop", "singleline", "use_default_badwordsids",
           "badwordsids", "banned_tokens", "banned_strings", "custom_token_bans", "logit_bias", "grammar",
           "render_special", "logprobs", "top_logprobs")  # fmt: skip
"""Keys that need more than a value with limits."""

_STEPS = {
    **{i: (name,) for i, name in enumerate(KOBOLDAI_IDS)},
    2: ("top_p", "min_p"),
    5: ("temperature", "smoothing", "top_n_sigma"),
}
"""koboldcpp's steps by id. Samplers it adds to KoboldAI's share a step, except DRY (first) and XTC (last)."""


def parameters_of(
    body: Mapping[str, Any], tokenizer: Tokenizer | None, unknown: Unknown, *, is_cpp: bool
) -> dict[str, Any]:
    """The keywords for `SamplingParams` in a request body, as `from_request` describes."""
    fields = canonical_keys(without_transport(mapping("body", body), TRANSPORT), RENAMED)
    fields = known_only(fields, {*FIELDS, *RENAMED, *SPECIAL}, unknown)
    fields = {**(KOBOLDCPP if is_cpp else {}), **fields}
    parameters: dict[str, Any] = {"penalty_scope": "all"}
    parameters |= _stops(fields)
    parameters |= _bans(fields, tokenizer, is_cpp)
    parameters |= _grammar(fields.pop("grammar", ""))
    parameters |= openai_logprobs(
        fields.pop("logprobs", None), fields.pop("top_logprobs", None), default_count=5
    )
    if switch("render_special", fields.pop("render_special", False)):
        parameters["skip_special_tokens"] = False
    order = fields.pop("sampler_order", None)
    if not is_cpp:
        _refuse_out_of_range(fields)
    _translate_special_values(fields, is_cpp)
    parameters |= read_fields(FIELDS, fields)
    check_text(parameters)
    if not is_cpp:
        return parameters | _koboldai_order(order)
    return with_moving_temperature(parameters | _koboldcpp_order(order, parameters))


def _refuse_out_of_range(fields: Mapping[str, Any]) -> None:
    for key, (low, high) in RANGES.items():
        value = fields.get(key, low)
        if isinstance(value, (int, float)) and not low <= value <= high:
            allowed = f"at least {low}" if high == _ANY else f"{low} to {high}"
            raise ParameterError(f"{key}={quoted(value)} is not allowed: {allowed}")


def _translate_special_values(fields: dict[str, Any], is_cpp: bool) -> None:
    """Translate values that mean "default" or "no limit" in these systems, which `FIELDS` cannot express."""
    window = FIELDS["rep_pen_range"].read("rep_pen_range", fields.get("rep_pen_range", 0))
    fields["rep_pen_range"] = max(window, 1) if is_cpp else window or -1
    if is_cpp:
        fields["temperature"] = _CPP_TEMPERATURE.read("temperature", fields["temperature"])
        fields["rep_pen_slope"] = _flat_slope(fields)
        if fields.get("sampler_seed") in (0, 2**32 - 1):
            fields["sampler_seed"] = -1
    if isinstance(version := fields.get("mirostat"), int) and version not in (1, 2):
        del fields["mirostat"]
    if fields.get("dry_penalty_last_n") == 0:
        fields["dry_penalty_last_n"] = -1
    if "dry_sequence_breakers" in fields:
        fields["dry_sequence_breakers"] = sequence_breakers(fields["dry_sequence_breakers"])
    if fields.get("adaptive_target") == 0:
        fields["adaptive_target"] = -1


def _flat_slope(rest: Mapping[str, Any]) -> float:
    """0, which is our flat slope, if koboldcpp's slope is flat; raises otherwise."""
    slope = BodyField("repetition_penalty_slope", limits=(0, 1)).read("rep_pen_slope", rest["rep_pen_slope"])
    penalty = FIELDS["rep_pen"].read("rep_pen", rest.get("rep_pen", 1.0))
    if 0 < slope < 1 and penalty > 1:
        raise ParameterError(
            f"rep_pen_slope={slope!r} is not supported for koboldcpp; it may be 1, or use system 'koboldai'"
        )
    return 0.0


# --- orders --------------------------------------------------------------------------------------


def _koboldai_order(order: Any) -> dict[str, Any]:
    if order is None:
        return {"order": "koboldai"}
    ids = _ids("sampler_order", order)
    if len(ids) < 6 or sorted(ids) != list(range(len(ids))):
        raise ParameterError(
            f"sampler_order={quoted(order)} is not allowed: each of 0 to 6, or of 0 to 5, once"
        )
    return {"order": ids}


def _koboldcpp_order(order: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """koboldcpp's order, and the parameters that switch off samplers not in it."""
    ids = _ids("sampler_order", order)
    if len(set(ids)) < len(ids) or not set(ids) <= _STEPS.keys():
        raise ParameterError(f"sampler_order={quoted(order)} is not allowed: ids 0 to 6, each at most once")
    names = [name for i in ids for name in _STEPS[i]]
    off = [name for step in _STEPS.values() for name in step if name not in names]
    if parameters["mirostat"]:
        if parameters["smoothing_factor"]:
            raise ParameterError(
                f"smoothing_factor={parameters['smoothing_factor']!r} is not allowed with mirostat: 0"
            )
        return {"order": "llama.cpp", "dynatemp_range": 0.0}
    return {"order": ("dry", *names, "xtc"), **switched_off(off)}


# --- keys that are not plain values --------------------------------------------------------------


def _stops(rest: dict[str, Any]) -> dict[str, Any]:
    stops: dict[str, Any] = stop_strings("stop_sequence", rest.pop("stop_sequence", ()))
    keep = not switch("trim_stop", rest.pop("trim_stop", False))
    if not switch("singleline", rest.pop("singleline", False)):
        return {**stops, "include_stop_str_in_output": True} if stops and keep else stops
    if stops and keep:
        raise ParameterError("singleline=True is not allowed with stop_sequence unless trim_stop=true")
    return {"stop": [*stops.get("stop", ()), "\n"]}


def _bans(fields: dict[str, Any], tokenizer: Tokenizer | None, is_cpp: bool) -> dict[str, Any]:
    """The parameters that remove or bias single tokens."""
    keys = ["badwordsids", "banned_tokens", "banned_strings", "bad_words"]
    taken_back = [word for key in keys[1:3] for word in _list(key, fields) if word != ""] if is_cpp else []
    bad_words = [word for key in keys for word in _list(key, fields)]
    biases = read_logit_bias(fields.pop("logit_bias", ()), tokenizer)
    removed = banned_ids("custom_token_bans", fields.pop("custom_token_bans", ""))
    if switch("use_default_badwordsids", fields.pop("use_default_badwordsids", False)):
        fields.setdefault("ban_eos_token", True)
        removed += [] if is_cpp else _bracket_tokens(tokenizer)
    if removed:
        biases.setdefault("logit_bias", {}).update(dict.fromkeys(removed, -math.inf))
    bans = {"banned_strings": taken_back, "bad_words": bad_words}
    return {**biases, **{name: words for name, words in bans.items() if words}}


def _bracket_tokens(tokenizer: Tokenizer | None) -> list[int]:
    """The tokens that KoboldAI bans by default in addition to EOS."""
    if tokenizer is None:
        raise ParameterError(
            "use_default_badwordsids=True bans tokens with brackets, which needs a tokenizer"
        )
    found = {i for bracket in (b"[", b"]") for i in tokenizer.substrings.containing(bracket).tolist()}
    special = tokenizer.special_token_ids.difference(tokenizer.eos_token_ids)
    return sorted(found.union(i for i in special if set(b"[]").intersection(tokenizer.token_bytes[i])))


def _grammar(value: Any) -> dict[str, Any]:
    """A JSON schema as text, or a grammar as in llama.cpp."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return {"json_schema": json.dumps(_json("grammar", value))}
    return from_gbnf("grammar", value)


def _json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ParameterError(f"{key}={quoted(text)} is not allowed: JSON") from None


def _list(key: str, rest: dict[str, Any]) -> Sequence[Any]:
    value = rest.pop(key, ())
    if not isinstance(value, (list, tuple)):
        raise ParameterError(f"{key}={quoted(value)} is not allowed: a list")
    return value


def _ids(key: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, (list, tuple)) and all(type(entry) is int for entry in value):
        return tuple(value)
    raise ParameterError(f"{key}={quoted(value)} is not allowed: a list of sampler ids")
