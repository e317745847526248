"""`Parameters`: the built-in parameters as type checkers see them, without those of plugins.

`python -m tests.params.typed_parameters` writes this file from the registry."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Parameters(TypedDict, total=False):
    """The keywords of `SamplingParams`."""

    seed: Any
    n: int
    best_of: int | None
    use_beam_search: bool
    beam_width: int | None
    length_penalty: float
    early_stopping: Any
    min_keep: int
    order: Any
    logprobs: int | None
    logprobs_mode: Any
    logprob_token_ids: Any
    return_sampling_mask: Any
    prompt_logprobs: int | None
    prompt_logprob_token_ids: Any
    prompt_logprob_start: int
    token_healing: bool
    drafter: Any
    skip_special_tokens: bool
    json_schema: Any
    regex: Any
    choice: Any
    grammar: str | None
    json_object: bool
    structural_tag: Any
    whitespace: Any
    numbers: Any
    key_order: Literal["any", "schema"]
    unsupported: Literal["error", "warn", "ignore"]
    draft: Literal["4", "6", "7", "2019-09", "2020-12"] | None
    resources: Any
    lexer: Literal["dynamic_complete", "contextual"]
    start: str | None
    thinking: Any
    thinking_token_budget: int | None
    answer: Any
    phases: Any
    allowed_token_ids: Any
    bad_words: Any
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: Any
    encoder_repetition_penalty: float
    epsilon_cutoff: float
    eta_cutoff: float
    exponential_decay_length_penalty: Any
    forced_bos_token_id: Any
    forced_eos_token_id: Any
    ignore_eos: bool
    infill: bool
    logit_bias: Any
    logits_processors: Any
    lz_penalty: float
    lz_penalty_ngram: int
    lz_penalty_window: int
    min_k: bool
    min_k_tau: float
    min_p: float
    min_tokens: int
    no_repeat_ngram_size: int
    no_repeat_ngram_window: int
    no_repeat_ngram_whitelist_ids: Any
    repetition_penalty_normalize: bool
    p_less: bool
    p_less_norm: bool
    repetition_penalty: float
    repetition_penalty_range: int | None
    repetition_penalty_slope: float
    frequency_penalty: float
    presence_penalty: float
    penalty_last_n: int
    penalty_decay_range: int
    penalty_scope: Literal["default", "all", "output"]
    penalize_nl: bool
    repetition_ngram_size: int
    repetition_ngram_threshold: int
    sequence_bias: Any
    skew: float
    smoothing_factor: float
    smoothing_curve: float
    suppress_tokens: Any
    begin_suppress_tokens: Any
    temperature: float
    dynatemp_range: float
    dynatemp_exponent: float
    temperature_schedule: Any
    tfs: float
    tfs_cut: Literal["llama.cpp", "koboldai"]
    top_a: float
    top_h: float
    top_k: int
    top_n_sigma: float
    top_p: float
    top_p_cut: Literal["reach", "exceed", "below"]
    top_p_decay: float
    top_p_min: float
    top_p_reset_ids: Any
    typical_p: float
    xtc_probability: float
    xtc_threshold: float
    xtc_protected_ids: Any
    adaptive_target: float
    adaptive_decay: float
    mirostat: Literal[0, 1, 2]
    mirostat_tau: float
    mirostat_eta: float
    ras_win_len: int
    ras_win_max_num_repeat: int
    banned_strings: Any
    assistant_confidence_threshold: float
    deepconf_threshold: float
    deepconf_window_size: int
    deepconf_top_k: int
    loop_detect_window: int
    loop_detect_min_reps: int
    max_length: int | None
    max_time: float | None
    max_tokens: int | None
    repetition_detection: Any
    stop: Any
    include_stop_str_in_output: bool
    stop_token_ids: Any
    prompt_lookup_max: int
    prompt_lookup_min: int
    grammar_bias: float | None
    banned_regex: Any
    stop_regex: Any
