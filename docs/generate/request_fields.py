"""The fields of peers' requests, and what becomes of each."""

from __future__ import annotations

from collections.abc import Mapping

from engine_sampler_llama_cpp import requests as llama_cpp

from engine_sampler.params.openai import LEFT_TO_THE_SERVER, RENAMED
from engine_sampler.params.thinking_keys import BUDGETS
from engine_sampler.params.unknown_keys import NEUTRAL, REASONS
from engine_sampler.registry import Catalogue

from .tables import code, table

_CONSTRAINT, _CALLS = "the constraint", "the constraint: calls of tools"
_MERGED = "their contents, as if they stood beside it"
_BUDGET = "`thinking_token_budget`"

READ: Mapping[str, str] = {
    **dict.fromkeys(("response_format", "structured_outputs", "ebnf", "guided_decoding"), _CONSTRAINT),
    **dict.fromkeys(("tools", "tool_choice", "parallel_tool_calls"), _CALLS),
    **dict.fromkeys(("vllm_xargs", "extra_args", "custom_params", "sampling_params"), _MERGED),
    **dict.fromkeys(("top_logprobs", "return_logprob", "top_logprobs_num"), "`logprobs`"),
    **dict.fromkeys(BUDGETS, _BUDGET),
    "text": "the constraint, if it is an object; else left to the server",
    "thinking": "the thoughts",
    "reasoning": "the thoughts",
}
"""The fields that `SamplingParams.from_dict` reads otherwise than as a parameter, and what they become."""

FIELDS: Mapping[str, frozenset[str]] = {
    peer: frozenset(names.split())
    for peer, names in {
        "vLLM": "add_generation_prompt add_special_tokens allowed_token_ids background bad_words cache_salt "
        "chat_template chat_template_kwargs continue_final_message detokenize documents ec_transfer_params "
        "echo enable_response_messages extra_args flat_logprobs frequency_penalty ignore_eos include "
        "include_reasoning include_stop_str_in_output input instructions kv_transfer_params length_penalty "
        "logit_bias logprob_token_ids logprobs max_completion_tokens max_output_tokens max_tokens "
        "max_tool_calls media_io_kwargs messages metadata min_p min_tokens mm_payload mm_processor_kwargs "
        "model n output_kind output_text_buffer_length parallel_tool_calls presence_penalty "
        "previous_input_messages previous_response_id priority prompt prompt_cache_key prompt_cache_options "
        "prompt_cache_retention prompt_embeds prompt_logprob_start prompt_logprob_token_ids prompt_logprobs "
        "reasoning reasoning_effort repetition_detection repetition_penalty request_id response_format "
        "return_mm_kwargs return_prompt_text return_token_ids return_token_offsets "
        "return_tokens_as_token_ids return_weight_versions routed_experts_prompt_start safety_identifier "
        "seed service_tier session_id skip_clone skip_reading_prefix_cache skip_special_tokens "
        "spaces_between_special_tokens stop stop_token_ids store stream stream_interval stream_options "
        "structured_outputs suffix temperature text thinking_token_budget tool_choice tools top_k "
        "top_logprobs top_p trace_decode_token_ids truncate_prompt_tokens truncation truncation_side "
        "use_beam_search user vllm_xargs watermarking",
        "SGLang": "audio_data background beam_width best_of bootstrap_host bootstrap_pair_key bootstrap_port "
        "bootstrap_room cache_salt chat_template_kwargs continue_final_message conversation_id custom_labels "
        "custom_logit_processor custom_params data_parallel_rank decode_tp_size disagg_prefill_dp_rank ebnf "
        "ebnf_full_assistant echo encoder_urls external_trace_header extra_key frequency_penalty "
        "http_worker_ipc ignore_eos image_data image_max_dynamic_patch images_config input_embeds input_ids "
        "is_normalized json_schema kv_hints log_metrics logit_bias logprob_start_len logprobs lora_id "
        "lora_path max_completion_tokens max_dynamic_patch max_new_tokens max_thinking_tokens max_tokens "
        "messages min_dynamic_patch min_new_tokens min_p min_tokens mm_content_hashes mm_hashes "
        "mm_processor_kwargs modalities model multi_item_delimiter_indices n need_wait_for_mm_inputs no_logs "
        "no_stop_trim num_items_assigned parallel_tool_calls positional_embed_overrides presence_penalty "
        "priority prompt reasoning_effort received_time regex repetition_penalty require_reasoning "
        "response_format return_bytes return_cached_tokens_details return_entropy "
        "return_flat_raw_output_top_logprobs return_flat_raw_top_logprobs return_flat_raw_top_logprobs_b64 "
        "return_hidden_states return_indexer_topk return_input_ids_in_sglext return_logprob "
        "return_meta_info return_output_ids_in_sglext return_prompt_token_ids return_routed_experts "
        "return_sampling_mask return_spec_tokens_details return_text_in_logprobs return_token_ids rid "
        "routed_dp_rank routed_experts_start_len routing_key sampling_logprobs_mode sampling_params "
        "sampling_seed seed separate_reasoning session_id session_params skip_special_tokens "
        "spaces_between_special_tokens stop stop_regex stop_regex_max_len stop_regex_strs stop_str_max_len "
        "stop_strs stop_token_ids stream stream_interval stream_options stream_reasoning structural_tag "
        "suffix task temperature text thinking token_ids_logprob token_indices_to_pool tool_choice tools "
        "top_k top_logprobs top_logprobs_num top_p use_audio_in_video user video_config video_data "
        "video_max_dynamic_patch watermark",
        "TensorRT-LLM": "add_generation_prompt add_special_tokens additional_model_outputs "
        "agent_hierarchy apply_batched_logits_processor bad bad_token_ids beam_search_diversity_rate "
        "beam_width_array best_of cache_salt chat_template chat_template_kwargs conversation_params "
        "detokenize disaggregated_params documents early_stopping echo embedding_bias end_id "
        "exclude_input_from_output frequency_penalty guided_decoding ignore_eos "
        "include_stop_str_in_output injected_chat_template_kwargs length_penalty logit_bias "
        "logits_processor logprobs lookahead_config lora_request max_completion_tokens max_tokens "
        "media_io_kwargs messages min_p min_tokens mm_processor_kwargs model n no_repeat_ngram_size "
        "pad_id parallel_tool_calls presence_penalty priority prompt prompt_ignore_length "
        "prompt_logprobs prompt_token_ids prompt_token_ids_b64 reasoning_effort repetition_penalty "
        "response_format return_context_logits return_encoder_output return_generation_logits "
        "return_perf_metrics seed skip_special_tokens spaces_between_special_tokens stop stop_token_ids "
        "stream stream_options suffix temperature thinking thinking_token_budget tool_choice tools top_k "
        "top_logprobs top_p top_p_decay top_p_min top_p_reset_ids truncate_prompt_tokens use_beam_search "
        "user",
        "llama.cpp": "adaptive_decay adaptive_target backend_sampling cache_prompt chat_format chat_parser "
        "dry_allowed_length dry_base dry_multiplier dry_penalty_last_n dry_sequence_breakers "
        "dynatemp_exponent dynatemp_range frequency_penalty generation_prompt grammar grammar_lazy "
        "grammar_triggers grammar_type id_slot ignore_eos input_extra input_prefix input_suffix json_schema "
        "logit_bias logprobs lora max_completion_tokens max_tokens min_keep min_p mirostat mirostat_eta "
        "mirostat_tau n n_cache_reuse n_cmpl n_discard n_indent n_keep n_predict n_probs "
        "parallel_tool_calls parse_tool_calls post_sampling_probs presence_penalty preserved_tokens prompt "
        "reasoning_budget_end_tag reasoning_budget_message reasoning_budget_start_tag "
        "reasoning_budget_tokens reasoning_format repeat_last_n repeat_penalty response_fields "
        "response_format return_progress return_tokens samplers seed speculative.n_max speculative.n_min "
        "speculative.p_min stop stream t_max_predict_ms temperature timings_per_token tool_choice tools "
        "top_k top_logprobs top_n_sigma top_p typical_p xtc_probability xtc_threshold",
    }.items()
}
"""The fields of the requests of vLLM 0.33 (chats, completions, responses, `SamplingParams`), SGLang 0.5.23
(chats, completions, /generate, `SamplingParams`), TensorRT-LLM (chats, completions, `SamplingParams`) and of
llama.cpp's server."""


def outcome(name: str, peer: str, catalogue: Catalogue) -> str:
    """What becomes of a field: the parameter that it is, or in words."""
    if peer == "llama.cpp":
        return _llama_cpp(name, catalogue)
    if RENAMED.get(name) in catalogue.params:
        return f"`{RENAMED[name]}`"
    if name in READ:
        return READ[name]
    if name in catalogue.params:
        return "the same"
    if name in NEUTRAL:
        return f"refused, but for {code(NEUTRAL[name][0])}: {REASONS[name]}"
    return next(f"left to the server: {topic}" for topic, keys in LEFT_TO_THE_SERVER.items() if name in keys)


def _llama_cpp(name: str, catalogue: Catalogue) -> str:
    key = llama_cpp.RENAMED.get(name, name)
    if key in llama_cpp.FIELDS:
        ours = llama_cpp.FIELDS[key].name
        return "the same" if ours == name else f"`{ours}`"
    if key in llama_cpp.TRANSPORT:
        return "left to the server"
    assert key in llama_cpp.SPECIAL or key in catalogue.params, name
    return "read as the server reads it"


def field_table(peer: str, catalogue: Catalogue) -> str:
    """All fields of a peer's request, by what becomes of them."""
    by_outcome: dict[str, list[str]] = {}
    for name in sorted(FIELDS[peer]):
        by_outcome.setdefault(outcome(name, peer, catalogue), []).append(f"`{name}`")
    rows = [[" ".join(names), what] for what, names in sorted(by_outcome.items(), key=_rank)]
    return table([f"in {peer}", "here"], rows)


def _rank(entry: tuple[str, list[str]]) -> tuple[int, str]:
    what = entry[0]
    kinds = ("the same", "`", "left", "refused")
    return next((i for i, kind in enumerate(kinds) if what.startswith(kind)), 1), what
