"""What other systems call our parameters, for the hint in an error."""

from __future__ import annotations

from collections.abc import Mapping

FAMILIAR_NAMES: Mapping[str, str] = {
    theirs: ours
    for ours, names in {
        "bad_words": "bad_words_ids banned_tokens bad bad_token_ids",
        "beam_width": "num_beams",
        "choice": "guided_choice",
        "grammar": "guided_grammar ebnf gbnf",
        "ignore_eos": "ban_eos_token",
        "include_stop_str_in_output": "no_stop_trim",
        "json_schema": "guided_json response_format structured_outputs",
        "logprobs": "top_logprobs n_probs logProbsSize",
        "logprob_token_ids": "token_ids_logprob",
        "max_time": "t_max_predict_ms",
        "max_tokens": "max_completion_tokens max_output_tokens max_new_tokens n_predict num_predict",
        "min_keep": "min_tokens_to_keep",
        "min_tokens": "min_new_tokens",
        "mirostat": "mirostat_mode",
        "n": "num_return_sequences n_cmpl",
        "order": "samplers sampler_order",
        "penalize_nl": "penalize_newline",
        "penalty_last_n": "repeat_last_n rep_pen_range presence_context_size frequency_context_size",
        "frequency_penalty": "penalty_freq",
        "presence_penalty": "penalty_present",
        "regex": "guided_regex",
        "repetition_penalty": "repeat_penalty rep_pen penalty_repeat",
        "repetition_penalty_range": "repetition_context_size",
        "repetition_penalty_slope": "rep_pen_slope",
        "seed": "sampling_seed sampler_seed random_seed randSeed randSeeds",
        "stop": "stop_sequences stop_sequence stop_strings stop_words stopping_strings",
        "structural_tag": "guided_structural_tag",
        "temperature": "temp temp_ext do_sample",
        "tfs": "tfs_z",
        "thinking_token_budget": "thinking_budget reasoning_budget reasoning_budget_tokens",
        "top_k": "topk",
        "top_n_sigma": "nsigma",
        "top_p": "topp nucleus",
        "typical_p": "typical typ_p typ",
    }.items()
    for theirs in names.split()
}
"""Names of llama.cpp, KoboldAI, transformers, OpenAI, vLLM, SGLang, MLX, LMDeploy, MindIE and ATB for
parameters that have another name here, and that name."""
