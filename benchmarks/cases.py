"""The measured cases: settings of requests by their names in tables and plots, and shapes of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from engine_sampler import SamplingParams
from engine_sampler.cli.bench.rows import BREAKER, VOCABULARIES

CONTEXT = 2048
"""Tokens of history that penalties and DRY consider."""
PROMPTS = (CONTEXT, 32_768)
"""Lengths of prompts with which requests join and leave."""

DEFAULT = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}
DRY = {"dry_multiplier": 0.8, "dry_penalty_last_n": CONTEXT, "dry_sequence_breakers": [BREAKER]}
PENALTIES = {
    "repetition_penalty": 1.1,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "penalty_last_n": CONTEXT,
}

CASES: Mapping[str, Mapping[str, Any]] = {
    "greedy": {"temperature": 0},
    "min_p": {"min_p": 0.05},
    "default chain": DEFAULT,
    "penalties, DRY, default chain": PENALTIES | DRY | DEFAULT,
    "top_n_sigma": {"top_n_sigma": 1.0},
    "top_p": {"top_p": 0.95},
    "temperature": {"temperature": 0.8},
    "dynamic temperature": {"temperature": 0.8, "dynatemp_range": 0.5},
    "typical_p": {"typical_p": 0.95},
    "xtc first": {"order": ["xtc"], "xtc_probability": 1.0, "xtc_threshold": 0.1},
    "mirostat 2": {"mirostat": 2, "mirostat_eta": 0},
    "mirostat 2, mu grown": {"mirostat": 2, "mirostat_tau": 50},
}
"""Each ends in a draw (`dist`) unless its settings say otherwise. xtc is the only sampler of its case, so it
reads the whole row. mirostat's mu keeps its initial value, or grows above the surprise of every token because
the rows surprise less than tau."""
GREEDY_DRY = "greedy with DRY"
BOTH = "temperature, top_p"
HISTORY_CASES = (GREEDY_DRY, "penalties, DRY, default chain")
"""Cases whose work depends on new tokens, so each run of them accepts one."""
MORE_CASES: Mapping[str, Mapping[str, Any]] = {
    GREEDY_DRY: {"temperature": 0} | DRY,
    BOTH: {"temperature": 0.7, "top_p": 0.9, "order": "vllm"},
}

MAIN = 131_072
"""The vocabulary size with which everything is measured."""
SMALL = VOCABULARIES[0]
TINY = 64
"""Small enough that the time left is the cost of a step apart from its logits."""
BATCHES = (1, 8, 64)
ADAPTER_ROWS = (1, 16, 64, 256)
KEY_CASES = ("greedy", "min_p", "default chain", "top_p", "temperature")
"""Measured with every vocabulary size and on a flat row."""
MIXTURE = ("greedy", "min_p", "default chain", "top_n_sigma", "temperature")
"""The configurations of a step with several of them."""
HALVED = ("greedy", "min_p", "default chain", "top_n_sigma")
"""Also measured with bfloat16: cases that read more than they compute."""
THREADED = ("default chain", "top_p", "typical_p")
MASKED_CASES = ("greedy", "min_p", "default chain", "penalties, DRY, default chain", "temperature")
SHARES = (1.0, 0.99, 0.5, 0.2, 0.001)
"""Shares of all tokens that masks allow, anywhere in the vocabulary: nearly all inside a string, a handful
where a key or a bracket is required."""


class Shape(NamedTuple):
    """The case to sample and the shape and kind of its rows (see `rows.batch`)."""

    case: str
    vocab_size: int = MAIN
    batch: int = 1
    rows: str = "peaked"

    def __str__(self) -> str:
        return f"{self.case}, vocabulary {self.vocab_size}, {self.batch} {self.rows}"


def _shapes(*batches: int) -> list[Shape]:
    """Peaked rows: all cases with the main vocabulary size, some with the others."""
    sizes = [(v, b) for v in VOCABULARIES for b in batches]
    return [Shape(c, v, b) for v, b in sizes for c in CASES if v == MAIN or c in KEY_CASES]


FLAT = [Shape(case, rows="flat") for case in (*KEY_CASES, "typical_p")]
ALONE = _shapes(1) + FLAT
"""Runs of one row."""
STEPS = _shapes(*BATCHES) + [Shape(case, batch=64, rows="mixed") for case in CASES]
NUMPY_STEPS = [s for s in STEPS if s.vocab_size in (SMALL, MAIN) and s.batch == 64 and s.rows == "peaked"]
PEERS_STEPS = [Shape(case, batch=64) for case in ("min_p", "default chain")]
"""Only two cases, because peers take seconds per round with 64 rows."""


def params_of(case: str) -> SamplingParams:
    """The settings of a case, with a fixed seed."""
    return SamplingParams(seed=1, **(CASES | MORE_CASES)[case])
