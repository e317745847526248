"""What is measured: settings of requests, under the names that tables and plots show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine_sampler import SamplingParams

from .rows import VOCABULARIES

CONTEXT = 2048
"""Tokens of history that penalties and DRY look at."""

DEFAULT = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}
PENALTIES = {
    "repetition_penalty": 1.1,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "penalty_last_n": CONTEXT,
    "dry_multiplier": 0.8,
    "dry_penalty_last_n": CONTEXT,
    "dry_sequence_breakers": [13],
}

CASES: Mapping[str, Mapping[str, Any]] = {
    "greedy": {"temperature": 0},
    "min_p": {"min_p": 0.05},
    "default chain": DEFAULT,
    "penalties, DRY, default chain": PENALTIES | DEFAULT,
    "top_n_sigma": {"top_n_sigma": 1.0},
    "top_p": {"top_p": 0.95},
    "temperature": {"temperature": 0.8},
    "dynamic temperature": {"temperature": 0.8, "dynatemp_range": 0.5},
    "typical_p": {"typical_p": 0.95},
    "xtc first": {"order": ["xtc"], "xtc_probability": 1.0, "xtc_threshold": 0.1},
    "mirostat 2": {"mirostat": 2},
}
"""Each ends in a draw (`dist`) unless it says otherwise. xtc stands alone, so it sees the whole row."""

MAIN = 131_072
"""The vocabulary with which everything is measured."""
KEY_CASES = ("greedy", "min_p", "default chain", "top_p", "temperature")
"""Measured with every vocabulary, and on a flat row."""
BATCHES = (1, 8, 64)

OURS = [(v, b, c) for v in VOCABULARIES for b in BATCHES for c in CASES if v == MAIN or c in KEY_CASES]
PEERS = [
    (v, b, c) for v, b, c in OURS if b == 1 or (b == 64 and v == MAIN and c in ("min_p", "default chain"))
]
"""(vocabulary, batch, case): peers with 64 rows take seconds a round, so only two cases."""
FLAT = [(MAIN, 1, case) for case in KEY_CASES]

MIXED_STEP = "a step of 64 requests with five configurations"
TINY = 64
"""Its vocabulary: so small that what is left is what a step costs besides its logits."""
ADD_AND_REMOVE = "add and remove: "
SETTINGS = "SamplingParams of the default chain"


def params_of(case: str) -> SamplingParams:
    """The settings of a case, with a fixed seed."""
    return SamplingParams(seed=1, **CASES[case])
