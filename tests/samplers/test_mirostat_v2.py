"""The tokens that version 2 keeps; the behaviour shared with version 1 is tested there."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler.samplers.mirostat_v2 import MirostatV2

from ..reference import NEG_INF, softmax
from .mirostat_reference import kept, rows_of_all_kinds

MIROSTAT_V2 = MirostatV2()


@pytest.mark.parametrize("m", [2, 5, 60, 300, 4000])
def test_tokens_with_more_surprise_than_mu_are_dropped(m: int) -> None:
    rng = np.random.default_rng(m)
    in_doubt, total = 0, 0
    for tau in rng.uniform(0.2, 8, 25).tolist():
        rows = rows_of_all_kinds(int(tau * 1e6), 6, m)
        rows[:, ::5] = NEG_INF
        masks = kept(MIROSTAT_V2, rows, {"mirostat": 2, "mirostat_tau": tau})
        for row, mask in zip(rows, masks, strict=True):
            surprise = -np.log2(np.maximum(softmax(row), 1e-300))
            clear = np.abs(surprise - 2 * tau) > 5e-6
            in_doubt, total = in_doubt + (~clear).sum(), total + m
            if (surprise <= 2 * tau).any():
                assert np.array_equal(mask[clear], (surprise <= 2 * tau)[clear])
            else:
                assert np.flatnonzero(mask) == row.argmax()
    assert in_doubt <= 1e-3 * total


def test_ties_are_kept_or_dropped_together() -> None:
    row = np.array([[0.0, 0, 0, 0]], np.float32)  # two bits each
    assert kept(MIROSTAT_V2, row, {"mirostat": 2, "mirostat_tau": 1.0}).sum() == 4
    assert kept(MIROSTAT_V2, row, {"mirostat": 2, "mirostat_tau": 0.9}).tolist() == [
        [True, False, False, False]
    ]
