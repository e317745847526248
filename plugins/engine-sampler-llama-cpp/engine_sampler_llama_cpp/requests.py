"""Request bodies of llama.cpp's server, read into parameters."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine_sampler import ParameterError, SamplingParams, Tokenizer
from engine_sampler.for_backends import quoted
from engine_sampler.for_bridges import (
    LAZY_KEYS,
    MARKS,
    MAX_COUNT,
    BodyField,
    Function,
    Reasoning,
    Unknown,
    banned_ids,
    call_list,
    canonical_keys,
    check_repeats,
    check_text,
    check_tokenizer,
    chosen_functions,
    family_named,
    from_gbnf,
    guarded,
    integer_of,
    known_only,
    mapping,
    named_as_sent,
    not_allowed,
    openai_logprobs,
    read_fields,
    read_logit_bias,
    response_format,
    stop_strings,
    switch,
    switched_off,
    synonyms_of,
    take_lazy_grammar,
    take_thinking,
    take_tools,
    tool_calls,
    with_moving_temperature,
    without_transport,
)
from engine_sampler.for_bridges import TRANSPORT as OPENAI_TRANSPORT

logger = logging.getLogger("engine_sampler")

TRANSPORT = OPENAI_TRANSPORT | frozenset(
    "n_keep n_discard cache_prompt n_cache_reuse id_slot return_tokens return_progress timings_per_token "
    "response_fields sse_ping_interval verbose lora image_data multimodal_data input_prefix input_suffix "
    "input_extra chat_format chat_parser parse_tool_calls reasoning_format reasoning_in_content "
    "generation_prompt thinking_forced_open preserved_tokens reasoning_control backend_sampling n_prev "
    "t_max_prompt_ms oaicompat_model grammar_type "
    "speculative.n_max speculative.n_min speculative.p_min speculative.type "
    "speculative.ngram_size_n speculative.ngram_size_m speculative.ngram_min_hits speculative.ngram_m_hits "
    "num_keep num_batch num_gpu main_gpu num_thread numa low_vram f16_kv vocab_only use_mmap "
    "use_mlock".split()
)
"""Keys of the server, and of Ollama's `options`, with no effect on the choice of tokens."""

MAX_INDENT = 1_000
"""The highest n_indent."""

_ANY = math.inf
FIELDS: Mapping[str, BodyField] = {
    "temperature": BodyField("temperature", 0.8, (0, _ANY)),
    "dynatemp_range": BodyField("dynatemp_range", 0.0, (0, _ANY)),
    "dynatemp_exponent": BodyField("dynatemp_exponent", 1.0),
    "top_k": BodyField("top_k", 40, (0, MAX_COUNT)),
    "top_p": BodyField("top_p", 0.95, (0, 1)),
    "min_p": BodyField("min_p", 0.05, (0, 1)),
    "typical_p": BodyField("typical_p", 1.0, (0, 1)),
    "tfs_z": BodyField("tfs", 1.0, (0, 1)),
    "top_n_sigma": BodyField("top_n_sigma", -1.0, (0, _ANY)),
    "xtc_probability": BodyField("xtc_probability", 0.0, (0, 1)),
    "xtc_threshold": BodyField("xtc_threshold", 0.1, (0, 1)),
    "min_keep": BodyField("min_keep", 0),
    "repeat_penalty": BodyField("repetition_penalty", 1.0),
    "repeat_last_n": BodyField("penalty_last_n", 64),
    "frequency_penalty": BodyField("frequency_penalty", 0.0),
    "presence_penalty": BodyField("presence_penalty", 0.0),
    "dry_multiplier": BodyField("dry_multiplier", 0.0),
    "dry_base": BodyField("dry_base", 1.75),
    "dry_allowed_length": BodyField("dry_allowed_length", 2),
    "dry_penalty_last_n": BodyField("dry_penalty_last_n", 64),
    "dry_sequence_breakers": BodyField("dry_sequence_breakers"),
    "mirostat": BodyField("mirostat", 0, (0, 2)),
    "mirostat_tau": BodyField("mirostat_tau", 5.0),
    "mirostat_eta": BodyField("mirostat_eta", 0.1),
    "adaptive_target": BodyField("adaptive_target", -1.0, (-1, 1)),
    "adaptive_decay": BodyField("adaptive_decay", 0.9),
    "ignore_eos": BodyField("ignore_eos", False),
    "seed": BodyField("seed", -1),
    "n": BodyField("n", 1),
    "n_predict": BodyField("max_tokens"),
    "t_max_predict_ms": BodyField("max_time", limits=(0, _ANY)),
}
"""The server's parameters, with their defaults and limits."""

RENAMED = {
    **synonyms_of({*FIELDS, "stop"}),
    "max_completion_tokens": "n_predict",
    "n_cmpl": "n",
    "reasoning_budget": "reasoning_budget_tokens",
    "penalize_newline": "penalize_nl",
    "order": "samplers",
}
"""Aliases of keys: the server's, its command line's, front ends', and ours."""

SAMPLERS = {
    "penalties": "e",
    "dry": "d",
    "top_n_sigma": "s",
    "top_k": "k",
    "tfs_z": "f",
    "typ_p": "y",
    "top_p": "p",
    "min_p": "m",
    "xtc": "x",
    "temperature": "t",
    "infill": "i",
    "adaptive_p": "a",
}
"""The server's sampler names, and their letters in the short form."""

_OUR_NAMES = {"typ_p": "typical_p", "tfs_z": "tfs"}
_ALIASES = {
    "nucleus": "top_p",
    "temp": "temperature",
    "typ": "typ_p",
    "typical": "typ_p",
    **{ours: theirs for theirs, ours in _OUR_NAMES.items()},
    **{name.replace("_", separator): name for name in SAMPLERS for separator in ("_", "-", "")},
}

SPECIAL = (
    *("samplers", "stop", "n_probs", "logprobs", "top_logprobs", "post_sampling_probs", "logit_bias"),
    "custom_token_bans",
    *("grammar", "response_format", "tools", "tool_choice", "functions", "function_call"),
    *("parallel_tool_calls", "reasoning_budget_tokens", "n_indent", *MARKS, *LAZY_KEYS),
)
"""Keys that need more than a value with limits."""


def from_request(
    body: Mapping[str, Any],
    tokenizer: Tokenizer | None = None,
    *,
    vocab_size: int | None = None,
    tool_family: str | None = None,
    chat_template: Any = None,
    reasoning: Reasoning = "disabled",
    unknown: Unknown = "error",
) -> SamplingParams:
    """The settings of a request to llama.cpp's server (/completion, and its OpenAI forms).

    Omitted keys have the server's defaults: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, a penalty
    window of 64 tokens of prompt and output. Values are clamped as in the server (a top_p of 2 is 1).

    tokenizer   for biases given as text.
    vocab_size  default: the tokenizer's. Biases of ids beyond it are left out, as in the server; if it is not
                known, `Scheduler.add` refuses them.
    tool_family, chat_template, reasoning, unknown  as in `SamplingParams.from_dict`; `model.metadata` of
                llama-cpp-python has the template as "tokenizer.chat_template"

        >>> params = from_request({"n_predict": 100, "repeat_penalty": 1.1, "samplers": "edkypmxt"})
        >>> params.max_tokens, params.repetition_penalty, params.top_k, params.temperature
        (100, 1.1, 40, 0.8)

    - samplers: a list of names or a string of letters; samplers that it omits are off, and one that it names
      twice runs twice (at most four times).
    - mirostat: all samplers except the temperature are off, penalties and DRY included, as in the server.
      Plain `SamplingParams(mirostat=2, repetition_penalty=1.1)` keeps penalties and DRY in every `order`,
      also in the one named "llama.cpp".
    - n_predict: 0 gives one token, as in the server, which looks at the limit after each token (its manual
      speaks of none).
    - dry_sequence_breakers: empty texts are left out; [""] means no breakers.
    - adaptive_target requires adaptive_p in `samplers` (the server ignores it without).
    - repeat_last_n and dry_penalty_last_n: −1 is the whole history, as the server's manual used to document;
      its newest versions refuse −1.
    - logit_bias: [[id, bias], ["text", bias], [id, false]], or an object; biases of one token add up.
    - custom_token_bans: ids that are removed, in a text; the server ignores them, and front ends send the
      same in logit_bias. What else they send beside its own keys (rep_pen, typical, …) has to agree with it.
    - n_probs: that many logprobs, of the raw logits or (post_sampling_probs) of the processed ones.
    - t_max_predict_ms counts from when the request is added, and ends it even in the middle of a line.
    - grammar: GBNF, or Lark after a line `%llguidance {}`.
    - json_schema: `{}` is any object, as in the server; in the standard it is any value.
    - tools: with a `tool_family`, calls are constrained as its models write them. Without, that depends on a
      chat template, and calls are not constrained, which is logged, unless tool_choice forces one: the answer
      then has the server's generic form, `{"tool_call": {"name": ..., "arguments": {...}}}`, or with
      parallel_tool_calls `{"tool_calls": [...]}`.
    - reasoning_budget_tokens: with reasoning_budget_start_tag and reasoning_budget_end_tag, or a
      `tool_family` that thinks. `chat_template_kwargs` that turn thoughts off turn the budget off, too.
    - grammar_lazy: the grammar holds from the first word of `grammar_triggers` on, with which its text
      begins. Patterns as triggers are refused.
    - n_indent: a line that begins with fewer blanks and tabs, an empty one included, ends the text before
      itself; the server keeps its line end and blanks. At most `MAX_INDENT`.

    Parameters of ours that the server lacks pass under their own names. Raises `ParameterError` naming the
    key, the value and what is allowed; for unknown keys it names near matches.
    """
    family = None if tool_family is None else family_named("tool_family", tool_family, chat_template)
    with named_as_sent(body, RENAMED):
        return guarded(
            lambda: SamplingParams(**_parameters(body, tokenizer, vocab_size, family, reasoning, unknown)),
            "the request",
        )


def _parameters(
    body: Mapping[str, Any],
    tokenizer: Tokenizer | None = None,
    vocab_size: int | None = None,
    tool_family: str | None = None,
    reasoning: Reasoning = "disabled",
    unknown: Unknown = "error",
) -> dict[str, Any]:
    """The keywords for `SamplingParams` in a request body, as `from_request` describes."""
    check_tokenizer(tokenizer)
    if vocab_size is not None:
        integer_of("vocab_size", vocab_size, 1)
    fields = canonical_keys(without_transport(mapping("body", body), TRANSPORT), RENAMED)
    fields = known_only(fields, {*FIELDS, *RENAMED, *SPECIAL}, unknown)
    calls = _tools(fields, tool_family, reasoning)
    thoughts = _thinking(body, fields, tool_family, reasoning)
    names = _sampler_names(fields.pop("samplers", None))
    parameters: dict[str, Any] = {"penalty_scope": "all", "order": "llama.cpp"}
    parameters |= stop_strings("stop", fields.pop("stop", ())) | thoughts
    parameters |= _logprobs(fields)
    removed = banned_ids("custom_token_bans", fields.pop("custom_token_bans", ""))
    parameters |= _biases(fields.pop("logit_bias", ()), removed, tokenizer, vocab_size)
    grammar = from_gbnf("grammar", fields.pop("grammar", ""))
    grammar |= {key: fields.pop(key) for key in LAZY_KEYS if key in fields}
    parameters |= take_lazy_grammar(grammar) | grammar
    parameters |= response_format(fields.pop("response_format", {"type": "text"})) | calls
    _translate_special_values(fields)
    parameters |= read_fields(FIELDS, fields)
    if parameters.get("json_schema") == {}:
        parameters["json_schema"] = {"type": "object"}
    check_text(parameters)
    return with_moving_temperature(parameters | _chain(names, parameters))


def _translate_special_values(fields: dict[str, Any]) -> None:
    """Translate values that mean "default" or "no limit" in the server, which `FIELDS` cannot express."""
    if fields.get("n_predict") == -1:
        del fields["n_predict"]
    elif type(limit := fields.get("n_predict")) is int and limit == 0:
        fields["n_predict"] = 1
    if fields.get("seed") == 2**32 - 1:
        fields["seed"] = -1
    if isinstance(base := fields.get("dry_base"), (int, float)) and base < 1:
        del fields["dry_base"]
    if (breakers := fields.get("dry_sequence_breakers")) == []:
        raise ParameterError("dry_sequence_breakers=[] is not allowed: a list of one or more texts")
    if isinstance(breakers, list):
        fields["dry_sequence_breakers"] = [breaker for breaker in breakers if breaker != ""]
    least = integer_of("n_indent", fields.pop("n_indent", 0))
    if least > MAX_INDENT:
        raise not_allowed("n_indent", least, f"at most {MAX_INDENT}")
    if least > 0:
        given = fields.get("stop_regex", ())
        shorter = f"\\n[ \\t]{{0,{least - 1}}}[^ \\t]"
        fields["stop_regex"] = [*((given,) if isinstance(given, str) else given), shorter]
    if "t_max_predict_ms" in fields:
        limit = FIELDS["t_max_predict_ms"].read("t_max_predict_ms", fields.pop("t_max_predict_ms"))
        if limit:
            fields["max_time"] = limit / 1000


# --- choice of samplers --------------------------------------------------------------------------


def _sampler_names(value: Any) -> tuple[str, ...] | None:
    """The server's names of the samplers listed in `samplers`; None if it is omitted."""
    if value is None:
        return None
    by_letter = {letter: name for name, letter in SAMPLERS.items()}
    if isinstance(value, str):
        names = [by_letter.get(letter, letter) for letter in value]
    elif isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        names = [_ALIASES.get(str(name).lower(), str(name)) for name in value]
    else:
        names = [quoted(value)]
    for name in names:
        if name not in SAMPLERS:
            allowed = ", ".join(SAMPLERS)
            raise ParameterError(
                f"samplers names {quoted(name)}, allowed are {allowed}, or a text of the letters "
                f"{''.join(by_letter)}"
            )
    check_repeats("samplers", names)
    return tuple(names)


def _chain(names: tuple[str, ...] | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The order, and the parameters that switch off samplers not in it."""
    candidates = [name for name in SAMPLERS if name not in ("infill", "adaptive_p")]
    if parameters["mirostat"]:
        off = [_OUR_NAMES.get(name, name) for name in candidates if name != "temperature"]
        return {"dynatemp_range": 0.0, "adaptive_target": -1.0, **switched_off(off)}
    if parameters["adaptive_target"] >= 0 and "adaptive_p" not in (names or ()):
        target = parameters["adaptive_target"]
        raise ParameterError(f"adaptive_target={target!r} is not allowed: samplers must list adaptive_p")
    if names is None:
        return {}
    off = [_OUR_NAMES.get(name, name) for name in candidates if name not in names]
    return {
        "order": tuple(_OUR_NAMES.get(name, name) for name in names if name != "adaptive_p"),
        "infill": "infill" in names,
        **switched_off(off),
    }


# --- keys that are not plain values --------------------------------------------------------------


def _tools(fields: dict[str, Any], family: str | None, reasoning: Reasoning) -> dict[str, Any]:
    """The structured parameter of `tools` and `tool_choice`.

    Without a family, forced calls have the server's generic form, and others are not constrained, which is
    logged.
    """
    tools, choice = take_tools(fields)
    is_parallel = switch("parallel_tool_calls", fields.pop("parallel_tool_calls", False))
    functions, how = chosen_functions(tools, choice)
    if family is not None and functions:
        tag = tool_calls(family, tools, choice, parallel_tool_calls=is_parallel, reasoning=reasoning)
        return {"structural_tag": tag}
    if how != "auto":
        return {"json_schema": _generic_calls(functions, is_parallel)}
    if functions:
        logger.warning("tools: the calls that the model makes are not constrained")
    return {}


def _thinking(
    body: Mapping[str, Any], fields: dict[str, Any], family: str | None, reasoning: Reasoning
) -> dict[str, Any]:
    """The budget of thoughts and their marks."""
    asked = {key: fields.pop(key) for key in ("reasoning_budget_tokens", *MARKS) if key in fields}
    asked["chat_template_kwargs"] = body.get("chat_template_kwargs")
    return take_thinking(asked, None, family, covers=reasoning != "disabled")


def _generic_calls(functions: Sequence[Function], is_parallel: bool) -> dict[str, Any]:
    """The schema of an answer in the server's generic form: `{"tool_call": {"name", "arguments"}}`, or
    `{"tool_calls": [...]}`, each with an id."""
    calls = call_list(functions, is_parallel)
    names = {"name", "arguments"}
    for call in (items := calls["items"]["anyOf"]):
        call["properties"]["arguments"] = call["properties"].pop("parameters")
        call["properties"] |= {"id": {"type": "string", "minLength": 4}} if is_parallel else {}
        call["required"] = sorted({*names, *(("id",) if is_parallel else ())}, reverse=True)
    key, value = ("tool_calls", calls) if is_parallel else ("tool_call", {"anyOf": items})
    return {"type": "object", "properties": {key: value}, "required": [key], "additionalProperties": False}


def _biases(
    value: Any, removed: Sequence[int], tokenizer: Tokenizer | None, vocab_size: int | None
) -> dict[str, Any]:
    """`logit_bias` and the removed ids, without those outside the vocabulary."""
    size = len(tokenizer) if vocab_size is None and tokenizer is not None else vocab_size
    biases = read_logit_bias(value, tokenizer).get("logit_bias", {}) | dict.fromkeys(removed, -math.inf)
    inside = {i: bias for i, bias in biases.items() if 0 <= i < (size or math.inf)}
    return {"logit_bias": inside} if inside else {}


def _logprobs(rest: dict[str, Any]) -> dict[str, Any]:
    """`n_probs`, or OpenAI's equivalent keys."""
    is_processed = switch("post_sampling_probs", rest.pop("post_sampling_probs", False))
    mode = "processed" if is_processed else "raw"
    openai = openai_logprobs(rest.pop("logprobs", None), rest.pop("top_logprobs", None), default_count=20)
    count = rest.pop("n_probs", openai.get("logprobs", 0))
    count = BodyField("logprobs", limits=(0, MAX_COUNT)).read("n_probs", count)
    return {"logprobs": count, "logprobs_mode": mode} if count else {}
