"""repetition_ngram: end the text once it repeats itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arithmetic.repeats import ends_repeated
from ..contract import Example, Param, Rows, Sampler, Vocabulary
from ._columns import finite_columns


class RepetitionNgram(Sampler):
    """Leave only EOS once the last tokens of the output have occurred in it a given number of times.

    Formula: the last repetition_ngram_size tokens are also found elsewhere in the last 1,024 tokens of the
    output, repetition_ngram_threshold − 1 times or more; occurrences may overlap. It then removes every
    token that is not EOS. Without EOS, or if all EOS tokens are removed already, there is no effect. If
    one of the two is 0, it is off. Source: LMDeploy, which leaves the first stop token with a logit of 0;
    `repetition_detection` ends a request by itself.
    """

    name = "repetition_ngram"
    after = "dry"
    role = "penalty"
    cost = "history"
    params = (
        Param("repetition_ngram_size", int, neutral=0, low=0, high=1024,
              doc="tokens that are looked for in the output"),
        Param("repetition_ngram_threshold", int, neutral=0, low=0, high=1024, switch=False,
              doc="occurrences of them at which only EOS is left"),
    )  # fmt: skip
    examples = (
        Example((1.0, 2.0, 3.0), {"repetition_ngram_size": 2, "repetition_ngram_threshold": 2},
                (-np.inf, 2.0, -np.inf), output_token_ids=(0, 2, 0, 2), eos_token_ids=(1,)),
        Example((1.0, 2.0, 3.0), {"repetition_ngram_size": 2, "repetition_ngram_threshold": 3},
                (1.0, 2.0, 3.0), output_token_ids=(0, 2, 0, 2), eos_token_ids=(1,)),
    )  # fmt: skip

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> np.ndarray:
        return np.array(sorted(vocabulary.eos_token_ids), np.int64)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        sizes, thresholds = (
            rows[name].tolist() for name in ("repetition_ngram_size", "repetition_ngram_threshold")
        )
        for i, (row, eos, n, least) in enumerate(zip(logits, rows.resolved, sizes, thresholds, strict=True)):
            if least and _occurrences(rows.output_token_ids(i)[-WINDOW:], n) >= least:
                columns, _ = finite_columns(row, rows, i, eos)
                values = row[columns]
                if len(columns):
                    row.fill(-np.inf)
                    row[columns] = values


WINDOW = 1024
"""How many tokens of the output are looked at."""


def _occurrences(window: np.ndarray, n: int) -> int:
    """How often the last n tokens of `window` occur in it."""
    return 0 if len(window) < n else 1 + len(ends_repeated(window, n, n)[0])
