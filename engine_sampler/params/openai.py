"""Conversion of OpenAI and vLLM request bodies to parameters."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Set
from typing import Any

from ..base.calling import call_for_add, guarded
from ..base.errors import quoted, warn_once
from ..base.giving_way import unhurried
from ..contract import ParameterError
from ..contract.values import id_of_digits
from ..registry import default_registry
from .bodies import check_text, is_unset, mapping, sequence_breakers
from .families import Reasoning
from .thinking_keys import take_thinking, thoughts_are_off
from .unknown_keys import Unknown, known_only

LEFT_TO_THE_SERVER: Mapping[str, tuple[str, ...]] = {
    topic: tuple(keys.split())
    for topic, keys in {
        "what the model reads": "model messages prompt input instructions system suffix "
        "prompt_embeds documents truncate_prompt_tokens truncation_side truncation truncation_length num_ctx "
        "negative_prompt generate_window add_generation_prompt continue_final_message add_special_tokens "
        "add_bos_token chat_template "
        "chat_template_kwargs text input_ids input_embeds prompt_token_ids prompt_token_ids_b64 pad_id task "
        "previous_input_messages injected_chat_template_kwargs preserve_thinking",
        "images, sounds and adapters": "media_io_kwargs mm_processor_kwargs mm_payload mm_hashes "
        "mm_content_hashes image_data video_data audio_data use_audio_in_video video_config images_config "
        "max_dynamic_patch min_dynamic_patch image_max_dynamic_patch video_max_dynamic_patch "
        "positional_embed_overrides need_wait_for_mm_inputs num_items_assigned lora_path lora_id "
        "lora_request",
        "how the model is to answer": "reasoning_effort verbosity prediction web_search_options",
        "how the answer is sent": "stream stream_options echo detokenize output_kind "
        "output_text_buffer_length flat_logprobs spaces_between_special_tokens return_token_ids "
        "return_tokens_as_token_ids include_reasoning separate_reasoning stream_reasoning reasoning_format "
        "parse_tool_calls modalities audio stream_interval include max_tool_calls enable_response_messages "
        "require_reasoning max_tokens_second",
        "what comes with the answer": "return_prompt_text return_prompt_token_ids return_token_offsets "
        "return_text_in_logprobs return_flat_raw_top_logprobs return_flat_raw_output_top_logprobs "
        "return_flat_raw_top_logprobs_b64 return_meta_info return_cached_tokens_details "
        "return_spec_tokens_details return_input_ids_in_sglext return_output_ids_in_sglext return_bytes "
        "return_entropy return_weight_versions return_mm_kwargs return_perf_metrics additional_model_outputs "
        "exclude_input_from_output trace_decode_token_ids",
        "what only the model knows": "return_hidden_states return_routed_experts return_indexer_topk "
        "routed_experts_prompt_start routed_experts_start_len return_context_logits "
        "return_generation_logits return_encoder_output token_indices_to_pool multi_item_delimiter_indices",
        "who asks, and what the server keeps": "user store metadata service_tier safety_identifier priority "
        "request_id previous_response_id keep_alive "
        "cache_prompt prompt_cache_key prompt_cache_retention prompt_cache_options cache_salt "
        "skip_reading_prefix_cache rid session_id session_params conversation_id conversation_params "
        "agent_hierarchy background extra_key custom_labels log_metrics no_logs external_trace_header "
        "received_time skip_clone api_type api_server",
        "where it runs": "kv_transfer_params ec_transfer_params kv_hints bootstrap_host bootstrap_port "
        "bootstrap_room bootstrap_pair_key decode_tp_size routed_dp_rank data_parallel_rank "
        "disagg_prefill_dp_rank disaggregated_params routing_key http_worker_ipc encoder_urls "
        "lookahead_config speculative_ngram prompt_lookup_num_tokens static_cache",
    }.items()
}
"""Keys that concern the transport of a request, not the choice of tokens, by topic."""

TRANSPORT = frozenset(key for keys in LEFT_TO_THE_SERVER.values() for key in keys)
"""Keys of an OpenAI body with no effect on the choice of tokens."""

NOTICED: Mapping[str, Any] = {
    **dict.fromkeys(
        ("suffix", "prompt_embeds", "truncate_prompt_tokens", "prediction", "web_search_options")
    ),
    **dict.fromkeys(("echo", "flat_logprobs", "return_token_ids", "return_tokens_as_token_ids"), False),
    **dict.fromkeys(("return_prompt_text", "return_prompt_token_ids", "return_token_offsets"), False),
    **dict.fromkeys(("return_hidden_states", "return_routed_experts", "return_context_logits"), False),
    "return_generation_logits": False,
    **dict.fromkeys(("detokenize", "spaces_between_special_tokens", "include_reasoning"), True),
    **dict.fromkeys(("output_kind", "output_text_buffer_length"), 0),
    "audio": None,
}
"""Transport keys that change what a client gets, unless they have this value: once in a process, the log says
of each that it has no effect here."""

RENAMED = {
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "stop_sequences": "stop",
    "sampling_seed": "seed",
    "token_ids_logprob": "logprob_token_ids",
    "no_stop_trim": "include_stop_str_in_output",
    "bad": "bad_words",
    "bad_token_ids": "bad_words",
}
"""OpenAI's newer names, those of Responses, TGI, Anthropic, SGLang and TensorRT-LLM, and ours."""

IN_EXTRAS = {
    "ngram_size": "no_repeat_ngram_size",
    "window_size": "no_repeat_ngram_window",
    "whitelist_token_ids": "no_repeat_ngram_whitelist_ids",
}
"""What DeepSeek-OCR's recipes for vLLM and SGLang call parameters, in the free parts of bodies alone."""


def parameters_of(
    body: Mapping[str, Any],
    tool_family: str | None = None,
    reasoning: Reasoning = "disabled",
    thinking: Any = None,
    unknown: Unknown = "error",
) -> dict[str, Any]:
    """The keyword arguments for `SamplingParams` in a request body.

    None means the default; transport keys are left out. `response_format`, `structured_outputs`,
    `tools` with `tool_choice` and the like become a structured parameter, read by those who constrain (see
    `ConstraintReader.read_body`), `logprobs` with `top_logprobs` becomes a number, `logit_bias` keys become
    ids, budgets of thoughts become `thinking_token_budget` (see `thinking_keys`), and the contents of
    `extra_args` (REST: `vllm_xargs`), `custom_params` and `sampling_params` are merged in. The order is
    "vllm", and that of keys in JSON "schema", unless the body gives another. What a client would miss is
    named in the log. Raises `ParameterError` for unsupported forms.

    unknown  what becomes of unknown keys (see `known_only`)
    """
    unread = dict(mapping("body", body))
    unread = {**mapping("sampling_params", unread.pop("sampling_params", None) or {}), **unread}
    is_off = thoughts_are_off(unread)
    if is_off:
        reasoning = "disabled"
    structured = structured_keys(unread, tool_family, reasoning)
    covers = reasoning != "disabled"
    thoughts = take_thinking(unread, thinking, tool_family, covers=covers, is_off=is_off)
    unread = without_transport(unread, TRANSPORT)
    parameters = {"order": "vllm", **_extras(unread), **structured, **thoughts}
    parameters |= _logprobs(unread)
    if "logit_bias" in unread:
        unread["logit_bias"] = _logit_bias(unread["logit_bias"])
    parameters = known_only(parameters | canonical_keys(unread, RENAMED), (), unknown)
    if "dry_sequence_breakers" in parameters:
        parameters["dry_sequence_breakers"] = sequence_breakers(parameters["dry_sequence_breakers"])
    check_text(parameters)
    if parameters.get("json_schema") is not None or parameters.get("structural_tag") is not None:
        parameters.setdefault("key_order", "schema")  # as both systems have it: reasons before answers
    return parameters


def structured_keys(body: dict[str, Any], tool_family: str | None, reasoning: Reasoning) -> dict[str, Any]:
    """The structured parameters that a body asks for in keys of other names, which are removed."""
    parameters: dict[str, Any] = {}
    for reader in default_registry().catalogue.constraints.values():
        read_body = functools.partial(reader.read_body, body, tool_family, reasoning)
        read = call_for_add(reader.name, guarded, read_body, "the request")
        parameters |= mapping(f"what {reader.name} reads of a body", read)
    return parameters


def _extras(unread: dict[str, Any]) -> dict[str, Any]:
    """What the free parts of a body give, which are removed, and with DeepSeek-OCR's settings the code that
    they are for."""
    extras: dict[str, Any] = {}
    for key in ("extra_args", "vllm_xargs", "custom_params"):
        extras |= without_transport(mapping(key, unread.pop(key, {})), TRANSPORT)
    if "ngram_size" in extras:
        unread.pop("custom_logit_processor", None)
        extras = {"window_size": 100, **extras}
    return canonical_keys(extras, IN_EXTRAS)


def _logprobs(unread: dict[str, Any]) -> dict[str, Any]:
    """The number that OpenAI's keys ask for, or SGLang's; removes them."""
    asked, count = unread.pop("return_logprob", None), unread.pop("top_logprobs_num", None)
    logprobs, top_logprobs = unread.pop("logprobs", None), unread.pop("top_logprobs", None)
    if asked:
        return {"logprobs": count or 0}
    return openai_logprobs(logprobs, top_logprobs, default_count=0)


def _logit_bias(value: Any) -> dict[int, Any]:
    if not isinstance(value, Mapping):
        raise ParameterError(f"logit_bias={quoted(value)} is not allowed: token ids with biases")
    return {_token_id(key): bias for key, bias in unhurried(value.items())}


def _token_id(key: Any) -> Any:
    """The id that a key of JSON's stands for; other keys are left to the parameter."""
    return id_of_digits("logit_bias", key) if isinstance(key, str) else key


def without_transport(body: Mapping[str, Any], transport: Set[str]) -> dict[str, Any]:
    """`body` without its transport keys and without keys that mean the default (see `is_unset`)."""
    for key in body.keys() & NOTICED.keys() & transport:
        value, usual = body[key], NOTICED[key]
        if value is not None and not (type(value) is type(usual) and value == usual):
            warn_once(f"{key} in the body of a request has no effect here: it is left to the server")
    return {key: value for key, value in body.items() if key not in transport and not is_unset(key, value)}


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
