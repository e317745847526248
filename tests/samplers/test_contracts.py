"""Every built-in sampler and selector obeys the laws of the contract kit that plugins use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler.contract import Selector
from engine_sampler.registry import CORE_PARAMS, Registry
from engine_sampler.samplers.logits_processors import Forbid
from engine_sampler.testing import SamplerContract, SelectorContract
from engine_sampler.tokenizer import Tokenizer

from ..conftest import ROUNDS

CATALOGUE = Registry(CORE_PARAMS).catalogue
PARTS = {**CATALOGUE.samplers, **CATALOGUE.selectors}

WITH_IDS = (17, 300, 2000) if ROUNDS > 1 else (17, 300)
"""Vocabulary sizes for parameters that name token ids."""
LETTERS = str.maketrans("01", "ab")


def small_tokenizer(self: Any, vocab_size: int) -> Tokenizer:
    """Tokens that share beginnings: a, b, aa, ab, ba, bb, aaa, …; token 8 is a newline."""
    spelled = [bin(number + 2)[3:].translate(LETTERS).encode() for number in range(vocab_size)]
    if vocab_size > 8:
        spelled[8] = b"\n"
    return Tokenizer(spelled)


def half_of_each(token_ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
    return logits / 2


TABLE: dict[str, dict[str, Any]] = {  # more than the examples of a sampler say
    # masks and biases
    "allowed_token_ids": {
        "params": [{"allowed_token_ids": [3]}, {"allowed_token_ids": [0, 2, 5, 16]}],
        "vocab_sizes": WITH_IDS,
        "may_empty": True,
        "apply_at_neutral": False,
    },
    "bad_words": {
        "params": [{"bad_words": [1]}, {"bad_words": [[0, 1], [2, 2, 0], 5]}],
        "vocab_sizes": WITH_IDS,
        "may_empty": True,
    },
    "ignore_eos": {
        "params": [{"ignore_eos": True}],
        "eos_token_ids": (0, 2),
        "apply_at_neutral": False,
    },
    "min_tokens": {
        "params": [{"min_tokens": 8}, {"min_tokens": 25}],
        "eos_token_ids": (0, 2),
    },
    "logit_bias": {
        "params": [{"logit_bias": {0: 1.5, 3: -2.0, 16: 1e38}}, {"logit_bias": {1: float("-inf"), 2: 100}}],
        "vocab_sizes": WITH_IDS,
        "may_empty": True,
    },
    "sequence_bias": {
        "params": [
            {"sequence_bias": [[[1], 1.5], [[0, 1], -2.0], [[2, 2, 0], 1e38], [[3, 0], 1.0]]},
            {"sequence_bias": {(1,): float("-inf"), (0, 2): 3.0}},
        ],
        "vocab_sizes": WITH_IDS,
        "may_empty": True,
    },
    "suppress_tokens": {
        "params": [{"suppress_tokens": [0, 5]}, {"begin_suppress_tokens": [1, 2], "suppress_tokens": [7]}],
        "vocab_sizes": WITH_IDS,
        "may_empty": True,
    },
    "forced_tokens": {
        "params": [{"forced_eos_token_id": [0, 2], "max_tokens": n} for n in (1, 4, 9)],
        "vocab_sizes": WITH_IDS,
    },
    "grammar_bias": {
        "params": [
            {"grammar_bias": 2.5, "regex": r"(ab?|\n)*"},
            {"grammar_bias": -1e6, "choice": ["ab", "abba", "b"]},
        ],
        "tokenizer": small_tokenizer,
        "apply_at_neutral": False,
        "removes": False,
    },
    # penalties, and what may be one
    "logits_processors": {
        "params": [{"logits_processors": half_of_each}, {"logits_processors": [Forbid(3), half_of_each]}],
        "vocab_sizes": WITH_IDS,
        "may_empty": True,
    },
    "penalties": {
        "params": [
            {"repetition_penalty": 1.3},
            {"repetition_penalty": 0.8, "repetition_penalty_range": 4, "penalty_scope": "output"},
            {"repetition_penalty": 2.0, "repetition_penalty_range": 9, "repetition_penalty_slope": 0.7},
            {"frequency_penalty": 0.4, "presence_penalty": -0.3, "penalty_last_n": 6},
            {"repetition_penalty": 1.1, "presence_penalty": 0.5, "penalty_scope": "all"},
            {
                "repetition_penalty": 1.4,
                "presence_penalty": 0.5,
                "penalty_last_n": 2,
                "penalty_decay_range": 6,
            },
            {"frequency_penalty": 0.4, "penalty_last_n": 0, "penalty_decay_range": 9, "penalty_scope": "all"},
        ],
        "tokenizer": small_tokenizer,
        "removes": False,
    },
    "exponential_decay_length_penalty": {
        "params": [{"exponential_decay_length_penalty": pair} for pair in ([0, 1.3], [4, 0.5], [2, 1e30])],
        "eos_token_ids": (0, 2),
        "removes": False,
        "apply_at_neutral": False,
    },
    "encoder_repetition_penalty": {
        "params": [{"encoder_repetition_penalty": x} for x in (1.3, 0.4, 1e-300)],
        "removes": False,
    },
    "normalize": {
        "params": [{"repetition_penalty_normalize": True, "repetition_penalty": 1.3}],
        "removes": False,
        "apply_at_neutral": False,
    },
    "no_repeat_ngram_window": {
        "params": [
            {"no_repeat_ngram_size": n, "no_repeat_ngram_window": w, "no_repeat_ngram_whitelist_ids": ids}
            for n, w, ids in ((1, 3, []), (2, 9, [1]), (3, 0, [0, 2]))
        ],
        "vocab_sizes": WITH_IDS,
        "apply_at_neutral": False,
    },
    "no_repeat_ngram": {
        "params": [{"no_repeat_ngram_size": n} for n in (1, 2, 3)],
        "apply_at_neutral": False,
    },
    "lz_penalty": {
        "params": [
            {"lz_penalty": 0.2, "lz_penalty_ngram": 2},
            {"lz_penalty": 1.5, "lz_penalty_ngram": 1, "lz_penalty_window": 7},
        ],
        "removes": False,
    },
    "repetition_ngram": {
        "params": [
            {"repetition_ngram_size": 1, "repetition_ngram_threshold": 1},
            {"repetition_ngram_size": 2, "repetition_ngram_threshold": 2},
        ],
        "eos_token_ids": (0, 2),
        "apply_at_neutral": False,
    },
    "dry": {
        "params": [
            {"dry_multiplier": 0.8, "dry_sequence_breakers": []},
            {"dry_multiplier": 1.5, "dry_base": 3.0, "dry_allowed_length": 1, "dry_penalty_last_n": 12},
            {"dry_multiplier": 0.8, "dry_allowed_length": 0, "dry_sequence_breakers": ["b", "ab"]},
        ],
        "tokenizer": small_tokenizer,
        "removes": False,
    },
    # truncations
    "top_n_sigma": {"params": [{"top_n_sigma": x} for x in (0.3, 1.0, 2.5)], "apply_at_neutral": False},
    "top_k": {"params": [{"top_k": k} for k in (1, 5, 100)], "apply_at_neutral": False},
    "top_a": {"params": [{"top_a": x} for x in (0.05, 0.5, 4.0)]},
    "tfs": {"params": [{"tfs": 0.5}, {"tfs": 0.95, "tfs_cut": "koboldai"}, {"tfs": 0.2, "min_keep": 3}]},
    "typical_p": {
        "params": [{"typical_p": 0.2}, {"typical_p": 0.95}, {"typical_p": 0.3, "min_keep": 4}],
        "apply_at_neutral": False,
    },
    "top_p": {
        "params": [
            {"top_p": 0.95},
            {"top_p": 0.5, "top_p_cut": "exceed"},
            {"top_p": 0.5, "top_p_cut": "below"},
            {"top_p": 0.1, "min_keep": 4},
        ],
        "apply_at_neutral": False,
    },
    "top_p_decay": {
        "params": [
            {"top_p": 0.95, "top_p_decay": 0.9},
            {"top_p": 0.9, "top_p_decay": 0.3, "top_p_min": 0.2, "top_p_reset_ids": [0, 1]},
            {"top_p_decay": 0.5, "top_p_cut": "below", "min_keep": 3},
        ],
        "vocab_sizes": WITH_IDS,
        "apply_at_neutral": False,
    },
    "min_p": {
        "params": [{"min_p": 0.05}, {"min_p": 1.0}, {"min_p": 0.9, "min_keep": 3}],
        "apply_at_neutral": False,
    },
    "min_k": {"params": [{"min_k": True}, {"min_k": True, "min_k_tau": 400.0}], "apply_at_neutral": False},
    "p_less": {"params": [{"p_less": True}, {"p_less_norm": True}], "apply_at_neutral": False},
    "epsilon_cutoff": {"params": [{"epsilon_cutoff": x} for x in (3e-4, 0.02, 0.6)]},
    "eta_cutoff": {"params": [{"eta_cutoff": x} for x in (3e-4, 0.02, 0.6)]},
    "top_h": {"params": [{"top_h": x} for x in (0.1, 0.4, 0.9)], "apply_at_neutral": False},
    "xtc": {
        "params": [
            {"xtc_probability": 1.0, "xtc_threshold": 0.05},
            {"xtc_probability": 0.5, "xtc_threshold": 0.01},
            {"xtc_probability": 1.0, "xtc_threshold": 0.01, "min_keep": 3},
        ]
    },
    "xtc_protected": {
        "params": [
            {"xtc_probability": 1.0, "xtc_threshold": 0.05, "xtc_protected_ids": [0, 3]},
            {"xtc_probability": 0.5, "xtc_threshold": 0.0, "xtc_protected_ids": [1], "min_keep": 2},
        ],
        "vocab_sizes": WITH_IDS,
        "apply_at_neutral": False,
    },
    # the rest
    "skew": {
        "params": [{"skew": 0.5}, {"skew": -2.0}, {"skew": 6.0}],
        "removes": False,
        "apply_at_neutral": False,
    },
    "smoothing": {
        "params": [{"smoothing_factor": 0.25}, {"smoothing_factor": 2.0, "smoothing_curve": 1.5}],
        "apply_at_neutral": False,
        "removes": False,
    },
    "temperature": {
        "params": [
            {"temperature": 0.5},
            {"temperature": 1.7},
            {"temperature": 0.0},
            {"temperature": 0.8, "dynatemp_range": 0.5, "dynatemp_exponent": 2.0},
        ],
    },
    "temperature_schedule": {
        "params": [
            {"temperature_schedule": [[0, 1.5], [12, 0.3]]},
            {"temperature_schedule": [[5, 1e6], [6, 1e-4]]},
        ],
        "apply_at_neutral": False,
    },
    "infill": {
        "params": [{"infill": True}],
        "vocab_sizes": (17, 300),
        "tokenizer": small_tokenizer,
        "eos_token_ids": (2,),
        "apply_at_neutral": False,
    },
    # selectors
    "greedy": {"params": [{"temperature": 0.0}]},
    "dist": {"params": [{}]},
    "mirostat": {
        "params": [{"mirostat": 1}, {"mirostat": 1, "mirostat_tau": 2.0, "mirostat_eta": 0.5}],
    },
    "mirostat_v2": {
        "params": [{"mirostat": 2}, {"mirostat": 2, "mirostat_tau": 2.0, "mirostat_eta": 0.5}],
    },
    "repetition_aware": {
        "params": [
            {"ras_win_len": 10, "ras_win_max_num_repeat": 1, "top_p": 0.8, "top_k": 25},
            {"ras_win_len": 3, "ras_win_max_num_repeat": 2, "min_p": 0.5},
        ],
    },
    "adaptive_p": {
        "params": [{"adaptive_target": 0.3}, {"adaptive_target": 0.9, "adaptive_decay": 0.5}],
    },
}


def _kit(name: str) -> type:
    part = PARTS[name]
    attributes = {"__module__": __name__, "sequences": 8 if ROUNDS > 1 else 3, **TABLE.get(name, {})}
    if isinstance(part, Selector):
        return type(f"Test_{name}", (SelectorContract,), {"selector": part, **attributes})
    return type(f"Test_{name}", (SamplerContract,), {"sampler": part, **attributes})


for _name in sorted(PARTS):
    globals()[f"Test_{_name}"] = pytest.mark.quick_share(6)(_kit(_name))


@pytest.mark.parametrize("name", PARTS)
def test_every_built_in_has_two_worked_examples(name: str) -> None:
    assert len(PARTS[name].examples) >= 2
