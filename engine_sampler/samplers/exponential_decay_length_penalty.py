"""exponential_decay_length_penalty: make the end of the text likelier, the longer it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arithmetic import FLT_MAX, power
from ..contract import Example, Param, Rows, Sampler, Vocabulary
from ._columns import finite_columns, store
from ._values import count_and_number

_LEAST = 1e-6
_ALLOWED = f"[start, factor]: an integer of at least 0, and a number of {_LEAST:g} to {FLT_MAX:g}"

_MOST = 2.0**600
"""The limit on the growth: times any logit it is finite."""


def _decay(value: Any) -> tuple[int, float]:
    return count_and_number(value, _LEAST, float(FLT_MAX), _ALLOWED)


class ExponentialDecayLengthPenalty(Sampler):
    """Raise the logits of EOS exponentially once the output has more than `start` tokens.

    Formula, for an output of n > start tokens: l + |l|·(min(factor^(n − start), 2^600) − 1), in float64,
    rounded once and clamped to ±FLT_MAX. A negative logit rises as well; a factor below 1 lowers it. A
    removed EOS stays removed. None is neutral. Source: transformers.
    """

    name = "exponential_decay_length_penalty"
    after = "dry"
    role = "penalty"
    cost = "pass"
    params = (
        Param("exponential_decay_length_penalty", tuple, neutral=None, convert=_decay,
              doc="[start, factor]: from which length on EOS becomes likelier, and how fast"),
    )  # fmt: skip
    examples = (
        Example((1.0, 2.0), {"exponential_decay_length_penalty": [1, 1.5]}, (1.0, 4.5),
                output_token_ids=(0, 0, 0), eos_token_ids=(1,), note="2 + 2·(1.5² − 1)"),
        Example((1.0, -2.0), {"exponential_decay_length_penalty": [1, 1.5]}, (1.0, -1.0),
                output_token_ids=(0, 0), eos_token_ids=(1,), note="−2 + 2·(1.5 − 1)"),
        Example((1.0, 2.0), {"exponential_decay_length_penalty": [1, 1.5]}, (1.0, 2.0),
                prompt_token_ids=(0, 0), output_token_ids=(0,), eos_token_ids=(1,),
                note="the prompt does not count"),
    )  # fmt: skip

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> np.ndarray:
        return np.array(sorted(vocabulary.eos_token_ids), np.int64)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        decays = rows["exponential_decay_length_penalty"].tolist()
        for i, (row, eos, (start, factor)) in enumerate(zip(logits, rows.resolved, decays, strict=True)):
            beyond = len(rows.output_token_ids(i)) - start
            if beyond > 0:
                columns, _ = finite_columns(row, rows, i, eos)
                values = row[columns].astype(np.float64)
                growth = np.minimum(power(factor, beyond), _MOST) - 1.0
                store(row, columns, values + np.abs(values) * growth)
