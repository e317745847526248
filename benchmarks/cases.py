"""What is measured: settings of requests, under the names that tables and plots show, and their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from engine_sampler import SamplingParams

from .rows import BREAKER, VOCABULARIES

CONTEXT = 2048
"""Tokens of history that penalties and DRY look at."""

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
"""Each ends in a draw (`dist`) unless it says otherwise. xtc stands alone, so it sees the whole row. mu of
mirostat stays where it begins, or is what it becomes where rows surprise less than tau: above all of them."""
GREEDY_DRY = "greedy with DRY"
REMEMBERING = (GREEDY_DRY, "penalties, DRY, default chain")
"""Cases whose work grows with every new token, so that each run of them needs one."""
MORE_CASES: Mapping[str, Mapping[str, Any]] = {GREEDY_DRY: {"temperature": 0} | DRY}

MAIN = 131_072
"""The vocabulary with which everything is measured."""
SMALL = VOCABULARIES[0]
TINY = 64
"""So small that what is left is what a step costs besides its logits."""
BATCHES = (1, 8, 64)
KEY_CASES = ("greedy", "min_p", "default chain", "top_p", "temperature")
"""Measured with every vocabulary, and on a flat row."""
MIXTURE = ("greedy", "min_p", "default chain", "top_n_sigma", "temperature")
"""Configurations of one step that has several."""
HALVED = ("greedy", "min_p", "default chain", "top_n_sigma")
"""Measured with bfloat16 too: what reads more than it computes."""
THREADED = ("default chain", "top_p", "typical_p")
MASKED_CASES = ("greedy", "min_p", "default chain", "penalties, DRY, default chain", "temperature")
SHARES = (1.0, 0.99, 0.5, 0.2, 0.001)
"""Of all tokens that masks allow, anywhere in the vocabulary. Nearly all in the text of a string, a handful
where a key or a bracket is due."""


class Shape(NamedTuple):
    """What is sampled, and from which rows: see `rows.batch` for their kinds."""

    case: str
    vocab_size: int = MAIN
    batch: int = 1
    rows: str = "peaked"

    def __str__(self) -> str:
        return f"{self.case}, vocabulary {self.vocab_size}, {self.batch} {self.rows}"


def _shapes(*batches: int) -> list[Shape]:
    """Peaked rows: all cases with the main vocabulary, some with the others."""
    sizes = [(v, b) for v in VOCABULARIES for b in batches]
    return [Shape(c, v, b) for v, b in sizes for c in CASES if v == MAIN or c in KEY_CASES]


FLAT = [Shape(case, rows="flat") for case in (*KEY_CASES, "typical_p")]
ALONE = _shapes(1) + FLAT
"""Of one row."""
STEPS = _shapes(*BATCHES) + [Shape(case, batch=64, rows="mixed") for case in CASES]
NUMPY_STEPS = [s for s in STEPS if s.vocab_size in (SMALL, MAIN) and s.batch == 64 and s.rows == "peaked"]
PEERS_STEPS = [Shape(case, batch=64) for case in ("min_p", "default chain")]
"""Peers with 64 rows take seconds a round, so only two cases."""


def params_of(case: str) -> SamplingParams:
    """The settings of a case, with a fixed seed."""
    return SamplingParams(seed=1, **(CASES | MORE_CASES)[case])
