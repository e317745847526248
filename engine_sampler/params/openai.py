"""Conversion of OpenAI and vLLM request bodies to parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..contract import ParameterError, quoted
from ..contract.values import id_of_digits

TRANSPORT = frozenset(
    "model messages prompt stream stream_options user store metadata service_tier tools tool_choice "
    "parallel_tool_calls functions function_call modalities audio prediction reasoning_effort verbosity "
    "safety_identifier prompt_cache_key prompt_cache_retention web_search_options echo suffix prompt_embeds "
    "add_generation_prompt continue_final_message add_special_tokens chat_template chat_template_kwargs "
    "documents media_io_kwargs mm_processor_kwargs priority request_id return_tokens_as_token_ids "
    "return_token_ids cache_salt kv_transfer_params output_kind output_text_buffer_length detokenize "
    "flat_logprobs spaces_between_special_tokens truncate_prompt_tokens include_reasoning "
    "skip_reading_prefix_cache".split()
)
"""Keys that concern the transport of a request, not the choice of tokens."""

_QUOTES = "'"

RENAMED = {"max_completion_tokens": "max_tokens", "sampling_seed": "seed"}


def parameters_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments for `SamplingParams` in a request body.

    None means the default; transport keys are left out. `response_format` and `structured_outputs`
    become the corresponding structured parameter, `logprobs` with `top_logprobs` becomes a number,
    `logit_bias` keys become ids, and the contents of `extra_args` (REST: `vllm_xargs`) are merged in.
    The order is "vllm" unless the body gives another. Raises `ParameterError` for unsupported forms.
    """
    rest = without_transport(mapping("body", body), TRANSPORT)
    parameters: dict[str, Any] = {"order": "vllm"}
    for key in ("extra_args", "vllm_xargs"):
        parameters |= without_transport(mapping(key, rest.pop(key, {})), TRANSPORT)
    parameters |= response_format(rest.pop("response_format", {"type": "text"}))
    parameters |= _structured_outputs(rest.pop("structured_outputs", {}))
    parameters |= openai_logprobs(rest.pop("logprobs", None), rest.pop("top_logprobs", None), default_count=0)
    if "logit_bias" in rest:
        rest["logit_bias"] = _logit_bias(rest["logit_bias"])
    return parameters | canonical_keys(rest, RENAMED)


def response_format(value: Any) -> dict[str, Any]:
    """The structured parameter that an OpenAI `response_format` stands for."""
    kind = mapping("response_format", value).get("type")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"json_object": True}
    if kind == "json_schema":
        schema = mapping("response_format.json_schema", value.get("json_schema")).get("schema")
        if schema is not None:
            return {"json_schema": schema}
        raise ParameterError("response_format.json_schema has no schema")
    if kind == "structural_tag":
        return {"structural_tag": {k: v for k, v in value.items() if k != "type"}}
    allowed = "type text, json_object, json_schema or structural_tag"
    raise ParameterError(f"response_format={quoted(value)} is not allowed: {allowed}")


def _structured_outputs(value: Any) -> dict[str, Any]:
    names = {"json": "json_schema"}
    allowed = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
    parameters = {k: v for k, v in mapping("structured_outputs", value).items() if v is not False}
    for key in parameters:
        if key not in allowed:
            raise ParameterError(
                f"structured_outputs.{quoted(key).strip(_QUOTES)} is not allowed: one of {', '.join(allowed)}"
            )
    return {names.get(k, k): v for k, v in parameters.items()}


def _logit_bias(value: Any) -> dict[int, Any]:
    if not isinstance(value, Mapping):
        raise ParameterError(f"logit_bias={quoted(value)} is not allowed: token ids with biases")
    return {_token_id(key): bias for key, bias in value.items()}


def _token_id(key: Any) -> Any:
    """The id that a key of JSON's stands for; other keys are left to the parameter."""
    return id_of_digits("logit_bias", key) if isinstance(key, str) else key


def without_transport(body: Mapping[str, Any], transport: Collection[str]) -> dict[str, Any]:
    """`body` without its transport keys and without keys that are None, which means the default."""
    return {key: value for key, value in body.items() if value is not None and key not in transport}


def mapping(key: str, value: Any) -> Mapping[str, Any]:
    """`value` of `key` as an object, without entries that are None."""
    if not isinstance(value, Mapping):
        raise ParameterError(f"{key}={quoted(value)} is not allowed: an object of parameters")
    return {k: v for k, v in value.items() if v is not None}


def canonical_keys(body: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """`body` with every alias in `renamed` replaced by its canonical name; aliases of one key must agree."""
    result: dict[str, Any] = {}
    first: dict[str, str] = {}
    for key, value in body.items():
        name = renamed.get(key, key)
        if name in result and not (result[name] is value or result[name] == value):
            raise ParameterError(
                f"{key}={quoted(value)} is not allowed: {first[name]} says {quoted(result[name])}"
            )
        result.setdefault(name, value)
        first.setdefault(name, key)
    return result


def openai_logprobs(logprobs: Any, top_logprobs: Any, default_count: int) -> dict[str, Any]:
    """OpenAI's switch `logprobs`, with `top_logprobs` or `default_count` as its number; or a plain number."""
    if logprobs is True:
        return {"logprobs": default_count if top_logprobs is None else top_logprobs}
    if top_logprobs:
        raise ParameterError(f"top_logprobs={quoted(top_logprobs)} is not allowed: logprobs must be true")
    return {} if logprobs is None or logprobs is False else {"logprobs": logprobs}
